// SPDX-License-Identifier: MIT OR Apache-2.0
//
// C++: a regression that is trained within half of its memory, while a thread of the application
// makes the next batch. The runtime is used by the training thread only; vt:: owns everything.
//
//     c++ -std=c++17 pipeline.cpp $(pkg-config --cflags --libs vtensor) -pthread -o pipeline
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <future>
#include <random>
#include <string>
#include <vector>

#include <vtensor.hpp>

namespace {

constexpr std::size_t batch = 512, width = 64, layers = 6;
constexpr std::uint64_t train = 1;

struct samples {
    std::vector<float> inputs, targets;
};

// The application's own thread: it never touches the runtime.
samples next_batch(unsigned number)
{
    samples made{std::vector<float>(batch * width), std::vector<float>(batch)};
    std::mt19937 random(number);
    std::uniform_real_distribution<float> uniform(-1, 1);
    for (std::size_t row = 0; row < batch; ++row) {
        float sum = 0;
        for (std::size_t at = 0; at < width; ++at) {
            made.inputs[row * width + at] = uniform(random);
            sum += made.inputs[row * width + at] * (at % 2 ? 0.5f : -0.25f);
        }
        made.targets[row] = sum;
    }
    return made;
}

vt::tensor floats(vt::runtime &runtime, vt_kind kind, std::size_t count, const char *name)
{
    return vt::tensor(runtime, kind, count * sizeof(float), name);
}

// A chain of layers y = x + tanh(x * w), one weight each element, and a linear end.
class network {
public:
    explicit network(std::uint64_t budget_bytes) : runtime_(chosen(budget_bytes))
    {
        std::vector<float> start(width, 0.01f);
        for (std::size_t i = 0; i < layers; ++i) {
            weights_.push_back(floats(runtime_, VT_KIND_PARAMETER, width, "weight"));
            weights_.back().write(start.data(), width);
        }
        inputs_.push_back(floats(runtime_, VT_KIND_INPUT, batch * width, "inputs"));
        inputs_.push_back(floats(runtime_, VT_KIND_INPUT, batch, "targets"));
        loss_.push_back(floats(runtime_, VT_KIND_BUFFER, 1, "loss"));
    }

    float step(const samples &data)
    {
        inputs_[0].write(data.inputs.data(), data.inputs.size());
        inputs_[1].write(data.targets.data(), data.targets.size());
        vt::iteration iteration(runtime_, train);
        std::vector<vt::tensor> results;
        for (std::size_t i = 0; i < layers; ++i) {
            results.push_back(floats(runtime_, VT_KIND_ACTIVATION, batch * width, "result"));
            forward(i ? results[i - 1] : inputs_[0], weights_[i], results[i]);
        }
        vt::tensor gradient = floats(runtime_, VT_KIND_GRADIENT, batch * width, "gradient");
        measure(results.back(), gradient);
        for (std::size_t i = layers; i-- > 0;) {
            backward(i ? results[i - 1] : inputs_[0], weights_[i], gradient);
            results[i].destroy();
        }
        gradient.destroy();
        iteration.end();
        float loss = 0;
        loss_[0].read(&loss, 1);
        return loss;
    }

    const vt::runtime &runtime() const { return runtime_; }

private:
    static vt::options chosen(std::uint64_t budget_bytes)
    {
        vt::options options;
        options.budget_bytes = budget_bytes;
        options.log = [](const vt::log_line &line) {
            std::printf("  %.*s\n", int(line.message.size()), line.message.data());
        };
        return options;
    }

    void forward(const vt::tensor &from, const vt::tensor &weight, const vt::tensor &to)
    {
        vt::op op(runtime_, "forward", {vt::reads(from), vt::reads(weight), vt::writes(to)});
        auto x = op.in<float>(0), w = op.in<float>(1);
        auto y = op.out<float>(2);
        for (std::size_t at = 0; at < y.size(); ++at)
            y[at] = x[at] + std::tanh(x[at] * w[at % width]);
    }

    // The mean of squares over sums of rows, and its gradient.
    void measure(const vt::tensor &result, const vt::tensor &gradient)
    {
        vt::op op(runtime_, "loss",
                  {vt::reads(result), vt::reads(inputs_[1]), vt::writes(gradient),
                   vt::writes(loss_[0])});
        auto y = op.in<float>(0), wanted = op.in<float>(1);
        auto d = op.out<float>(2), loss = op.out<float>(3);
        loss[0] = 0;
        for (std::size_t row = 0; row < batch; ++row) {
            float sum = 0;
            for (std::size_t at = 0; at < width; ++at)
                sum += y[row * width + at] / 4;
            float off = sum - wanted[row];
            loss[0] += off * off / batch;
            for (std::size_t at = 0; at < width; ++at)
                d[row * width + at] = off / (2 * batch);
        }
    }

    void backward(const vt::tensor &from, const vt::tensor &weight, const vt::tensor &gradient)
    {
        vt::op op(runtime_, "backward",
                  {vt::reads(from), vt::updates(weight), vt::updates(gradient)}, VT_OP_BACKWARD);
        auto x = op.in<float>(0);
        auto w = op.out<float>(1), d = op.out<float>(2);
        std::vector<float> change(width);
        for (std::size_t at = 0; at < d.size(); ++at) {
            float y = std::tanh(x[at] * w[at % width]);
            float slope = d[at] * (1 - y * y);
            change[at % width] += slope * x[at];
            d[at] += slope * w[at % width];
        }
        for (std::size_t at = 0; at < width; ++at)
            w[at] -= 0.05f * change[at];
    }

    vt::runtime runtime_;
    std::vector<vt::tensor> weights_, inputs_, loss_;
};

std::vector<float> trained(network &model, unsigned steps)
{
    std::vector<float> losses;
    auto coming = std::async(std::launch::async, next_batch, 0u);
    for (unsigned step = 0; step < steps; ++step) {
        samples data = coming.get();
        coming = std::async(std::launch::async, next_batch, step + 1);
        losses.push_back(model.step(data));
    }
    return losses;
}

} // namespace

int main(int argc, char **argv)
try {
    const unsigned steps = argc > 1 ? unsigned(std::stoul(argv[1])) : 40;
    std::puts("without a limit");
    network unlimited(0);
    std::vector<float> wanted = trained(unlimited, steps);
    std::uint64_t bytes = unlimited.runtime().stats().program_bytes;

    std::puts("in half of it");
    network half(bytes / 2);
    std::vector<float> found = trained(half, steps);
    vt_stats stats = half.runtime().stats();
    std::printf("loss %g to %g; %llu bytes instead of %llu; %llu moved out, %llu of %u frozen\n",
                double(found.front()), double(found.back()), (unsigned long long)stats.arena_bytes,
                (unsigned long long)bytes, (unsigned long long)stats.moved_out_bytes,
                (unsigned long long)stats.frozen_iterations, steps);
    bool same = found == wanted && found.back() < found.front();
    std::puts(same ? "every loss is the same, to the bit" : "the losses are not the same");
    return same && stats.frozen_iterations > 0 && stats.moved_out_bytes > 0 ? 0 : 1;
} catch (const vt::error &error) {
    std::fprintf(stderr, "%s: %s\n", vt_status_string(error.status()), error.what());
    return 1;
}
