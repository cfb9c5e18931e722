/*
 * vtensor/config.h - what an application may choose about a runtime.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef VTENSOR_CONFIG_H
#define VTENSOR_CONFIG_H

#include <stddef.h>
#include <stdint.h>

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where tensors are while ops use them. */
typedef uint32_t vt_backend;
enum {
    /* The host: an application whose ops are kernels says so. */
    VT_BACKEND_AUTO = 0,
    /* Ordinary memory, which stands in for a device with a hard budget. */
    VT_BACKEND_HOST = 1,
    /*
     * A GPU, by the CUDA driver, which is opened now: libcuda.so.1, or what VTENSOR_CUDA_LIBRARY
     * names. Ops are kernels on vt_compute_stream(), their tensors at addresses of the device.
     * budget_bytes is needed. VT_ERROR_UNSUPPORTED without a driver or a device, without virtual
     * memory management, and for a spill tier in host memory where device and host have one
     * memory. Not here: memory by address (vt_alloc, VT_TENSOR_FIXED_ADDRESS), and
     * VT_CONFIG_CHECK_REPLAYS. Calls make the device's primary context current on their thread.
     */
    VT_BACKEND_CUDA = 2
};

/* How tensors get their addresses. */
typedef uint32_t vt_mechanism;
enum {
    VT_MECHANISM_AUTO = 0,
    /* Windows that alias pages, mapped once. */
    VT_MECHANISM_MAPPED = 1,
    /* One allocation, packed. To come: VT_ERROR_UNSUPPORTED. */
    VT_MECHANISM_PACKED = 2,
    /* Pages that the driver places. To come: VT_ERROR_UNSUPPORTED. */
    VT_MECHANISM_MANAGED = 3
};

/* Where pieces of tensors go. */
typedef uint32_t vt_spill;
enum {
    /* A file if spill_dir is set, host memory otherwise. */
    VT_SPILL_AUTO = 0,
    /* Host memory, beside the budget. */
    VT_SPILL_HOST = 1,
    /*
     * A file in spill_dir, without a name: it is gone with its runtime, however that ends. It takes
     * memory beside the budget: buffers, 10 MiB at most for each kind of iteration and 6 MiB for
     * recording, and 24 bytes for each 4 KiB that was spilled.
     */
    VT_SPILL_FILE = 2
};

/* How room is made once an iteration is recorded. */
typedef uint32_t vt_methods;
enum {
    /* What the device's owner has set, else VT_METHODS_BOTH. */
    VT_METHODS_DEFAULT = 0,
    /* Tensors move. */
    VT_METHODS_SWAP = 1,
    /* Ops run again that have a replay callback; nothing moves. */
    VT_METHODS_RECOMPUTE = 2,
    /* Both, each where it is faster. */
    VT_METHODS_BOTH = 3
};

/* Flags of a configuration. */
enum {
    /* A spill file is kept readable, with checksums; without it, it is encrypted. */
    VT_CONFIG_SPILL_READABLE = 1,
    /*
     * A spill_dir whose files are in memory is accepted. On a device with one memory that frees
     * none, so it is refused without this.
     */
    VT_CONFIG_SPILL_IN_MEMORY = 2,
    /*
     * Parameters, optimizer state and buffers go to a spill file like everything else. Without it
     * they keep their place in the arena, so that a disk that fails can cost an iteration but never
     * the model.
     */
    VT_CONFIG_SPILL_MODEL = 4,
    /*
     * Each op that has a replay callback runs again once while it is recorded, on copies beside the
     * budget. One that does not leave the same bits is named in the log and in vt_report(), and no
     * program runs it again.
     */
    VT_CONFIG_CHECK_REPLAYS = 8
};

/* How much the library says; each level includes those above it. */
typedef uint32_t vt_log_level;
enum {
    VT_LOG_ERROR = 1,
    /* Something is slower or other than it should be: a sequence that was not recorded. */
    VT_LOG_WARN = 2,
    /* What was chosen, and when a program was frozen. */
    VT_LOG_INFO = 3,
    VT_LOG_DEBUG = 4,
    VT_LOG_TRACE = 5
};

/*
 * Hears one line of what the library says. Source names the part of the library that speaks; both
 * texts are valid during the call. It is called on the thread of the call that it is about, and
 * never while a frozen program runs as recorded. It must return: no exception, no longjmp. It may
 * call the library, though not for the same runtime (VT_ERROR_BUSY).
 */
typedef void (*vt_log_fn)(void *user, vt_log_level level, const char *source, const char *message);

/*
 * How a runtime is built. Zero is the default of every member: what the device's owner has set for
 * all programs, in /etc/vtensor.toml or the environment (vtensor(3) has the options), else what is
 * said here.
 */
typedef struct vt_config {
    /* sizeof(vt_config). */
    size_t size;
    /*
     * The memory of the arena: hard, from the first op on. 0 takes what the probe finds: on the
     * host there is then no limit but the machine's memory, and nothing ever moves.
     */
    uint64_t budget_bytes;
    /*
     * The page of plans, a power of two and a multiple of the machine's. 0 takes the power of two
     * near 1/1024 of an iteration's peak.
     */
    uint64_t page_bytes;
    vt_backend backend;
    vt_mechanism mechanism;
    vt_spill spill;
    /*
     * Equal iterations in a row, at least 2, before a program is made of them. Their durations are
     * what the planner knows of time. 0 takes 3.
     */
    uint32_t warmup_iterations;
    /* The folder of the spill file: on a fast disk. */
    const char *spill_dir;
    /*
     * What tensors may take of the spill tier while nothing is frozen; 0 takes what the machine
     * has. A frozen program takes exactly what it needs, beside this.
     */
    uint64_t spill_bytes_max;
    /*
     * The CUstream that ops are enqueued on, of the device's primary context; it outlives the
     * runtime. NULL is a stream of the library's, and the host.
     */
    void *compute_stream;
    /* Hears what the library says; NULL is nobody, and then nothing is formatted. */
    vt_log_fn log;
    void *log_user;
    /* The level of log; 0 takes VT_LOG_INFO. */
    vt_log_level log_level;
    /* VT_CONFIG_* together, or 0. */
    uint32_t flags;
    /* What chooses the moves: "vtensor" (also NULL), "whole", "lru", ...: see vtensor-bench(1). */
    const char *policy;
    /*
     * What iterations may write to a spill file in a day, for flash wears out. Those that would
     * write more, by a frozen program or where there can be none, are refused by
     * vt_iteration_begin() with VT_ERROR_BUDGET. 0 is no limit.
     */
    uint64_t spill_write_bytes_per_day_max;
    vt_methods methods;
    /* Which GPU, counted from 0. */
    uint32_t device;
} vt_config;

/*
 * Sets a struct of size bytes to the defaults: its size, and zeroes.
 *
 * Errors: VT_ERROR_INVALID_ARGUMENT if config is NULL or size is that of no vt_config.
 * Ownership: none. Threads: any, also at once. Allocation: none.
 */
vt_status vt_config_init_sized(vt_config *config, size_t size);

/* As vt_config_init_sized(), for the struct that the application was compiled with. */
static inline vt_status vt_config_init(vt_config *config)
{
    return vt_config_init_sized(config, sizeof(vt_config));
}

#ifdef __cplusplus
}
#endif

#endif /* VTENSOR_CONFIG_H */
