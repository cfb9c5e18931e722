// SPDX-License-Identifier: MIT OR Apache-2.0
//
// vtensor.hpp: owners give back, exceptions carry the status, and what is left by one is given up.
#include <algorithm>
#include <string>
#include <vector>

#include "check.h"
#include "vtensor.hpp"

namespace {

constexpr std::uint64_t page = 4096;

vt::options budget(std::uint64_t pages)
{
    vt::options options;
    options.budget_bytes = pages * page;
    options.warmup_iterations = 2;
    return options;
}

// The status of what a function throws; VT_OK if it throws nothing.
template <class F> vt_status thrown(F f)
{
    try {
        f();
    } catch (const vt::error &error) {
        CHECK(std::string(error.what()) == vt_last_error());
        return error.status();
    }
    return VT_OK;
}

void step(vt::runtime &runtime, const vt::tensor &weight)
{
    vt::iteration iteration(runtime, 1);
    std::vector<vt::tensor> results;
    for (int i = 0; i < 4; ++i) {
        results.emplace_back(runtime, VT_KIND_ACTIVATION, 4 * page, "result");
        vt::op op(runtime, "forward", {vt::reads(weight), vt::writes(results.back())});
        auto to = op.out<int>(1);
        CHECK(to.size() == page && !to.empty() && op.in<int>(0).size() == page / 4);
        std::fill(to.begin(), to.end(), op.in<int>(0)[0] + i);
    }
    for (int i = 4; i-- > 0;) {
        vt::op op(runtime, "backward", {vt::reads(results[std::size_t(i)]), vt::updates(weight)});
        op.out<int>(1)[1] += op.in<int>(0)[7];
        op.end();
        results.pop_back();
    }
    iteration.end();
}

void work()
{
    int lines = 0;
    vt::options options = budget(12);
    options.log = [&](const vt::log_line &line) {
        ++lines;
        if (!line.message.empty())
            throw 1; // is swallowed
    };
    vt::runtime runtime(options);
    vt::tensor weight(runtime, VT_KIND_PARAMETER, page, "weight");
    const std::vector<int> start(page / sizeof(int), 5);
    weight.write(start.data(), start.size());
    for (int i = 0; i < 5; ++i)
        step(runtime, weight);
    int found[2] = {0, 0};
    weight.read(found, 2);
    CHECK(found[0] == 5 && found[1] == 5 + 5 * (5 + 6 + 7 + 8));
    CHECK(runtime.phase() == VT_PHASE_FROZEN && lines > 0);
    vt_stats stats = runtime.stats();
    CHECK(stats.frozen_iterations == 3 && stats.moved_out_bytes > 0 && stats.divergences == 0);
    CHECK(runtime.report().find("frozen by policy vtensor") != std::string::npos);
    runtime.freeze();
    runtime.freeze(1);
    runtime.sync();

    runtime.save_plan("owners.plan");
    runtime.save_trace("owners.json");
    CHECK(thrown([&] { runtime.save_plan("/no/such/folder/plan"); }) == VT_ERROR_SYSTEM);
    vt::runtime other(budget(12));
    CHECK(thrown([&] { other.load_plan("owners.plan"); }) == VT_ERROR_PLAN);
    vt::tensor same(other, VT_KIND_PARAMETER, page, "weight");
    other.load_plan("owners.plan");
    step(other, same);
    CHECK(other.phase() == VT_PHASE_FROZEN);
    CHECK(std::remove("owners.plan") == 0 && std::remove("owners.json") == 0);
}

void what_is_left_is_given_up()
{
    vt::runtime runtime(budget(8));
    vt::tensor weight(runtime, VT_KIND_PARAMETER, page);
    try {
        vt::iteration iteration(runtime, 1);
        vt::op op(runtime, "update", {vt::updates(weight)});
        throw 7;
    } catch (int) {
    }
    CHECK(!weight.intact() && weight.written() && weight.lost().size() == 1);
    CHECK(weight.lost()[0].bytes == page && weight.lost()[0].content == VT_CONTENT_TORN);
    CHECK(runtime.stats().aborted_iterations == 1);
    const std::vector<char> all(page, 1);
    weight.write(all.data(), all.size() / 2);
    CHECK(weight.lost().size() == 1 && weight.lost()[0].offset == page / 2);
    weight.write(all.data(), all.size() / 2, page / 2);
    CHECK(weight.intact() && weight.lost().empty());
    {
        vt::iteration iteration(runtime, 1); // left without end()
    }
    CHECK(runtime.stats().aborted_iterations == 2);

    vt::iteration iteration(runtime, 1);
    {
        vt::op op(runtime, "read", {vt::reads(weight)});
        bool refused = false, missing = false;
        try {
            op.out<char>(0);
        } catch (const std::logic_error &) {
            refused = true;
        }
        try {
            op.in<char>(1);
        } catch (const std::out_of_range &) {
            missing = true;
        }
        CHECK(refused && missing && op.in<char>(0)[9] == 1);
        CHECK(thrown([&] { vt::op(runtime, "again", {vt::reads(weight)}); }) == VT_ERROR_ORDER);
    }
    iteration.end();
}

void owners_move()
{
    vt::runtime runtime(budget(8));
    vt_runtime *handle = runtime.get();
    vt::runtime moved(std::move(runtime));
    CHECK(moved.get() == handle && runtime.get() == nullptr);
    vt::tensor first(moved, VT_KIND_BUFFER, 8);
    vt::tensor second(moved, VT_KIND_BUFFER, 16);
    const vt_tensor gone = second.id();
    auto pinned = first.pin<char>();
    CHECK(pinned.size() == 8);
    pinned[3] = 4;
    first.unpin();
    second = std::move(first);
    CHECK(vt_tensor_destroy(handle, gone) == VT_ERROR_NOT_FOUND);
    char byte = 0;
    second.read(&byte, 1, 3);
    CHECK(byte == 4 && second.bytes() == 8);
    second.destroy();
    second.destroy();
    moved = vt::runtime(budget(4));
    CHECK(vt_sync(handle) == VT_ERROR_NOT_FOUND);
    CHECK(thrown([] { vt::runtime(budget(std::uint64_t(1) << 48)); }) == VT_ERROR_NO_MEMORY);
    vt::options wrong;
    wrong.policy = "best";
    CHECK(thrown([&] { vt::runtime refused(wrong); }) == VT_ERROR_INVALID_ARGUMENT);
}

void memory_by_address()
{
    vt::runtime runtime(budget(8));
    auto *weight = static_cast<char *>(runtime.alloc(VT_KIND_PARAMETER, 100, "weight"));
    for (int turn = 0; turn < 3; ++turn) {
        vt::iteration iteration(runtime, 1);
        void *passing = runtime.alloc(VT_KIND_ACTIVATION, 4096);
        runtime.touch({weight, passing});
        ++*weight;
        runtime.free(passing);
        CHECK(thrown([&] { runtime.touch({passing}); }) == VT_ERROR_NOT_FOUND);
        iteration.end();
    }
    vt_tensor handle = 0;
    CHECK(vt_tensor_at(runtime.get(), weight, &handle) == VT_OK);
    char byte = 0;
    CHECK(vt_tensor_read(runtime.get(), handle, 0, &byte, 1) == VT_OK && byte == 3);
    runtime.free(weight);
}

} // namespace

int main()
{
    work();
    what_is_left_is_given_up();
    owners_move();
    memory_by_address();
    return verdict("owners");
}
