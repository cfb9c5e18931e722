/*
 * vtensor.hpp - vTensor for C++17: the C API with owners, spans and exceptions.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 *     vt::options options;
 *     options.budget_bytes = 64 << 20;
 *     vt::runtime runtime(options);
 *     vt::tensor weight(runtime, VT_KIND_PARAMETER, 4096, "weight");
 *     {
 *         vt::iteration iteration(runtime, 1);
 *         vt::tensor result(runtime, VT_KIND_ACTIVATION, 4096, "result");
 *         {
 *             vt::op op(runtime, "forward", {vt::reads(weight), vt::writes(result)});
 *             vt::span<const float> from = op.in<float>(0);
 *             vt::span<float> to = op.out<float>(1);
 *         }
 *         result.destroy();
 *         iteration.end();
 *     }
 *
 * A layer without a library of its own: everything that vtensor.h says about threads, order and
 * allocation holds here. What fails throws vt::error. An owner that ends destroys what it owns; it
 * never throws, so what must not fail unseen has a function of its own (end, destroy). A frozen op
 * allocates nothing here either.
 */
#ifndef VTENSOR_HPP
#define VTENSOR_HPP

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <initializer_list>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "vtensor.h"

namespace vt {

/* A call that failed: its status, and what vt_last_error() said. */
class error : public std::runtime_error {
public:
    error(vt_status status, const char *detail) : std::runtime_error(detail), status_(status) {}

    vt_status status() const noexcept { return status_; }

private:
    vt_status status_;
};

/* Throws what a call of the C API has failed with. */
inline void check(vt_status status)
{
    if (status != VT_OK)
        throw error(status, vt_last_error());
}

/* Elements in a row that somebody else owns. (C++20 has one; this is C++17.) */
template <class T> class span {
public:
    constexpr span() noexcept = default;
    constexpr span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}

    constexpr T *data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }
    constexpr bool empty() const noexcept { return size_ == 0; }
    constexpr T *begin() const noexcept { return data_; }
    constexpr T *end() const noexcept { return data_ + size_; }
    constexpr T &operator[](std::size_t at) const { return data_[at]; }

private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

/* One line of what the library says; the texts are valid during the call. */
struct log_line {
    vt_log_level level;
    std::string_view source;
    std::string_view message;
};

/* What may be chosen about a runtime, as in vt_config: zero and empty are the defaults. */
struct options {
    std::uint64_t budget_bytes = 0;
    std::uint64_t page_bytes = 0;
    vt_backend backend = VT_BACKEND_AUTO;
    vt_mechanism mechanism = VT_MECHANISM_AUTO;
    vt_spill spill = VT_SPILL_AUTO;
    std::uint32_t warmup_iterations = 0;
    std::string spill_dir;
    std::uint64_t spill_bytes_max = 0;
    std::uint64_t spill_write_bytes_per_day_max = 0;
    /* VT_CONFIG_* together. */
    std::uint32_t flags = 0;
    std::string policy;
    vt_methods methods = VT_METHODS_DEFAULT;
    /* An exception that it throws is swallowed: it must not cross the library. */
    std::function<void(const log_line &)> log;
    vt_log_level log_level = VT_LOG_INFO;
};

/* Owns a runtime. */
class runtime {
public:
    explicit runtime(const options &chosen = options())
    {
        vt_config config;
        check(vt_config_init(&config));
        config.budget_bytes = chosen.budget_bytes;
        config.page_bytes = chosen.page_bytes;
        config.backend = chosen.backend;
        config.mechanism = chosen.mechanism;
        config.spill = chosen.spill;
        config.warmup_iterations = chosen.warmup_iterations;
        config.spill_dir = chosen.spill_dir.empty() ? nullptr : chosen.spill_dir.c_str();
        config.spill_bytes_max = chosen.spill_bytes_max;
        config.spill_write_bytes_per_day_max = chosen.spill_write_bytes_per_day_max;
        config.policy = chosen.policy.empty() ? nullptr : chosen.policy.c_str();
        config.methods = chosen.methods;
        config.flags = chosen.flags;
        config.log_level = chosen.log_level;
        if (chosen.log) {
            log_ = std::make_unique<log_function>(chosen.log);
            config.log = &runtime::hear;
            config.log_user = log_.get();
        }
        check(vt_runtime_create(&config, &handle_));
    }

    runtime(runtime &&other) noexcept
        : log_(std::move(other.log_)), handle_(std::exchange(other.handle_, nullptr))
    {
    }

    runtime &operator=(runtime &&other) noexcept
    {
        if (this != &other) {
            vt_runtime_destroy(handle_);
            log_ = std::move(other.log_);
            handle_ = std::exchange(other.handle_, nullptr);
        }
        return *this;
    }

    runtime(const runtime &) = delete;
    runtime &operator=(const runtime &) = delete;

    /* No call may run on it on another thread, for that one may still log. */
    ~runtime() { vt_runtime_destroy(handle_); }

    /* The handle, for what has no function here. */
    vt_runtime *get() const noexcept { return handle_; }

    vt_phase phase() const noexcept { return vt_runtime_phase(handle_); }
    void sync() { check(vt_sync(handle_)); }

    /* The CUstream of ops; nullptr on the host. */
    void *compute_stream()
    {
        void *stream = nullptr;
        check(vt_compute_stream(handle_, &stream));
        return stream;
    }
    /* A call of the driver failed that the application made itself. */
    void driver_failed() { check(vt_driver_failed(handle_)); }
    void freeze() { check(vt_freeze(handle_)); }
    void freeze(std::uint64_t key) { check(vt_freeze_key(handle_, key)); }
    void save_plan(const char *path) const { check(vt_plan_save(handle_, path)); }
    void load_plan(const char *path) { check(vt_plan_load(handle_, path)); }
    void save_trace(const char *path) const { check(vt_trace_save(handle_, path)); }

    /* Memory by address, for allocator hooks: as in window.h. */
    void *alloc(vt_kind kind, std::uint64_t bytes, const char *name = nullptr)
    {
        vt_tensor_desc desc = {};
        void *pointer = nullptr;
        desc.size = sizeof desc;
        desc.bytes = bytes;
        desc.kind = kind;
        desc.name = name;
        check(vt_alloc(handle_, &desc, &pointer));
        return pointer;
    }

    void free(void *pointer) { check(vt_free(handle_, pointer)); }

    void touch(std::initializer_list<void *> pointers)
    {
        check(vt_touch(handle_, pointers.begin(), pointers.size()));
    }

    vt_stats stats() const
    {
        vt_stats stats;
        stats.size = sizeof stats;
        check(vt_runtime_stats(handle_, &stats));
        return stats;
    }

    std::string report() const
    {
        std::size_t bytes = 0;
        check(vt_report(handle_, nullptr, &bytes));
        for (;;) {
            std::string text(bytes, '\0');
            vt_status status = vt_report(handle_, &text[0], &bytes);
            if (status == VT_ERROR_BUFFER)
                continue; /* it has grown */
            check(status);
            text.resize(bytes - 1);
            return text;
        }
    }

private:
    using log_function = std::function<void(const log_line &)>;

    static void hear(void *user, vt_log_level level, const char *source, const char *message)
    {
        try {
            (*static_cast<log_function *>(user))(log_line{level, source, message});
        } catch (...) {
        }
    }

    std::unique_ptr<log_function> log_;
    vt_runtime *handle_ = nullptr;
};

/*
 * Owns a tensor. One that is destroyed by its owner's end inside an iteration, though it was
 * created outside, stays until its runtime ends.
 */
class tensor {
public:
    tensor(runtime &of, vt_kind kind, std::uint64_t bytes, const char *name = nullptr,
           std::uint32_t flags = 0)
        : runtime_(of.get()), bytes_(bytes)
    {
        vt_tensor_desc desc = {};
        desc.size = sizeof desc;
        desc.bytes = bytes;
        desc.kind = kind;
        desc.flags = flags;
        desc.name = name;
        check(vt_tensor_create(runtime_, &desc, &id_));
    }

    tensor(tensor &&other) noexcept
        : runtime_(std::exchange(other.runtime_, nullptr)), id_(other.id_), bytes_(other.bytes_)
    {
    }

    tensor &operator=(tensor &&other) noexcept
    {
        if (this != &other) {
            drop();
            runtime_ = std::exchange(other.runtime_, nullptr);
            id_ = other.id_;
            bytes_ = other.bytes_;
        }
        return *this;
    }

    tensor(const tensor &) = delete;
    tensor &operator=(const tensor &) = delete;

    ~tensor() { drop(); }

    vt_tensor id() const noexcept { return id_; }
    std::uint64_t bytes() const noexcept { return bytes_; }

    /* Destroys it now, and says if that fails. */
    void destroy()
    {
        if (runtime_ != nullptr)
            check(vt_tensor_destroy(runtime_, id_));
        runtime_ = nullptr;
    }

    /* Copies elements in, from byte `offset` on. Outside of iterations. */
    template <class T> void write(const T *from, std::size_t count, std::uint64_t offset = 0)
    {
        check(vt_tensor_write(runtime_, id_, offset, from, count * sizeof(T)));
    }

    /* Copies elements out, from byte `offset` on. Outside of iterations. */
    template <class T> void read(T *to, std::size_t count, std::uint64_t offset = 0) const
    {
        check(vt_tensor_read(runtime_, id_, offset, to, count * sizeof(T)));
    }

    /* Its one address, until it is unpinned. */
    template <class T> span<T> pin()
    {
        void *pointer = nullptr;
        check(vt_tensor_pin(runtime_, id_, &pointer));
        return span<T>(static_cast<T *>(pointer), static_cast<std::size_t>(bytes_ / sizeof(T)));
    }

    void unpin() { check(vt_tensor_unpin(runtime_, id_)); }

    vt_tensor_state state() const
    {
        vt_tensor_state state;
        state.size = sizeof state;
        check(vt_tensor_status(runtime_, id_, &state));
        return state;
    }

    bool intact() const { return state().content == VT_CONTENT_INTACT; }
    /* By the iteration that runs, or was given up last. */
    bool written() const { return state().written == 1; }

    /* Its bytes that are lost or torn, in order: what to write again. */
    std::vector<vt_lost_range> lost() const
    {
        std::vector<vt_lost_range> ranges;
        std::size_t count = 0;
        check(vt_tensor_lost(runtime_, id_, nullptr, &count));
        ranges.resize(count);
        if (count > 0)
            check(vt_tensor_lost(runtime_, id_, ranges.data(), &count));
        return ranges;
    }

private:
    void drop() noexcept
    {
        if (runtime_ != nullptr)
            vt_tensor_destroy(runtime_, id_);
    }

    vt_runtime *runtime_;
    vt_tensor id_ = 0;
    std::uint64_t bytes_;
};

/* How an op uses a tensor. */
struct access {
    vt_access raw;
    std::uint64_t bytes;
};

inline access with_mode(const tensor &of, vt_access_mode mode) noexcept
{
    return access{vt_access{of.id(), mode, 0}, of.bytes()};
}

/* It reads. */
inline access reads(const tensor &of) noexcept { return with_mode(of, VT_ACCESS_READ); }
/* It overwrites the whole tensor. */
inline access writes(const tensor &of) noexcept { return with_mode(of, VT_ACCESS_WRITE); }
/* Everything else. */
inline access updates(const tensor &of) noexcept { return with_mode(of, VT_ACCESS_READ_WRITE); }

/* An iteration. Left without end(), by an exception for example, it is given up. */
class iteration {
public:
    iteration(runtime &of, std::uint64_t key) : runtime_(of.get())
    {
        check(vt_iteration_begin(runtime_, key));
    }

    iteration(const iteration &) = delete;
    iteration &operator=(const iteration &) = delete;

    ~iteration()
    {
        if (runtime_ != nullptr)
            vt_iteration_abort(runtime_);
    }

    void end()
    {
        check(vt_iteration_end(runtime_));
        runtime_ = nullptr;
    }

private:
    vt_runtime *runtime_;
};

/*
 * An op, and its tensors at their addresses while it lives. With a callback it may run again later
 * in its iteration, as vt_op_desc says; the callback must not throw. Left by an exception it stays open, for
 * what it was writing is torn: its iteration is to be given up, which the iteration's end does.
 */
template <std::size_t N> class op {
public:
    op(runtime &of, const char *name, const access (&accesses)[N],
       vt_op_phase phase = VT_OP_FORWARD, vt_replay_fn replay = nullptr, void *user = nullptr)
        : runtime_(of.get()), exceptions_(std::uncaught_exceptions())
    {
        vt_access raw[N];
        for (std::size_t at = 0; at < N; ++at) {
            raw[at] = accesses[at].raw;
            bytes_[at] = accesses[at].bytes;
            modes_[at] = accesses[at].raw.mode;
        }
        vt_op_desc desc = {};
        desc.size = sizeof desc;
        desc.name = name;
        desc.accesses = raw;
        desc.access_count = N;
        desc.phase = phase;
        desc.replay = replay;
        desc.user = user;
        check(vt_op_begin(runtime_, &desc, pointers_));
    }

    op(const op &) = delete;
    op &operator=(const op &) = delete;

    ~op()
    {
        if (runtime_ != nullptr && std::uncaught_exceptions() == exceptions_)
            vt_op_end(runtime_);
    }

    /* Ends it now, and says if that fails. */
    void end()
    {
        check(vt_op_end(runtime_));
        runtime_ = nullptr;
    }

    /* The tensor of access `at`, to read. */
    template <class T> span<const T> in(std::size_t at) const
    {
        return whole<const T>(at);
    }

    /* The tensor of access `at`, to write. */
    template <class T> span<T> out(std::size_t at) const
    {
        span<T> to = whole<T>(at);
        if (modes_[at] == VT_ACCESS_READ)
            throw std::logic_error("vt::op: this access only reads");
        return to;
    }

private:
    template <class T> span<T> whole(std::size_t at) const
    {
        if (at >= N)
            throw std::out_of_range("vt::op: there is no such access");
        const std::uint64_t count = bytes_[at] / sizeof(T);
        return span<T>(static_cast<T *>(pointers_[at]), static_cast<std::size_t>(count));
    }

    vt_runtime *runtime_;
    int exceptions_;
    void *pointers_[N] = {};
    std::uint64_t bytes_[N] = {};
    vt_access_mode modes_[N] = {};
};

} // namespace vt

#endif /* VTENSOR_HPP */
