/*
 * vtensor/tensor.h - tensors: bytes that the library keeps, wherever it has room.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef VTENSOR_TENSOR_H
#define VTENSOR_TENSOR_H

#include <stddef.h>
#include <stdint.h>

#include "runtime.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A tensor: a plain number. One that stands for nothing (any more) is refused where it is used. */
typedef uint64_t vt_tensor;

/* What a tensor is for. */
typedef uint32_t vt_kind;
enum {
    /* A weight or bias. */
    VT_KIND_PARAMETER = 1,
    VT_KIND_GRADIENT = 2,
    /* State of the optimizer, such as a momentum. */
    VT_KIND_OPTIMIZER = 3,
    /* State of the model that is not trained, such as running statistics. */
    VT_KIND_BUFFER = 4,
    /* A result of an op, or a temporary. */
    VT_KIND_ACTIVATION = 5,
    /* Data that the application loads in each iteration. */
    VT_KIND_INPUT = 6,
    /* Scratch memory of an op. */
    VT_KIND_WORKSPACE = 7
};

/* Flags of a tensor. */
enum {
    /* Its address never changes: as vt_alloc() in window.h. It then takes whole pages. */
    VT_TENSOR_FIXED_ADDRESS = 1,
    /*
     * Its content may be forgotten when an iteration ends. Only counts for tensors that outlive
     * iterations; without it those are kept, even if the next iteration overwrites them.
     */
    VT_TENSOR_SCRATCH = 2
};

/* A tensor to be created. */
typedef struct vt_tensor_desc {
    /* sizeof(vt_tensor_desc). */
    size_t size;
    /* Its bytes: from 1 to 2^43. */
    uint64_t bytes;
    /* VT_KIND_*. */
    vt_kind kind;
    /* VT_TENSOR_* together, or 0. */
    uint32_t flags;
    /* For reports; NULL is empty. Part of what is recorded: the same each time. */
    const char *name;
} vt_tensor_desc;

/*
 * Creates a tensor. Outside of iterations: one that lasts until it is destroyed, and reads as zeroes
 * until it is written. Inside: one of the iteration, created and destroyed in the same order each
 * time. No memory is taken before an op or a write uses it.
 *
 * Errors: VT_ERROR_INVALID_ARGUMENT, VT_ERROR_UNSUPPORTED for what desc asks; VT_ERROR_ORDER while
 * an op is open.
 * Ownership: the tensor is the runtime's; desc and its name are not kept; *out is written on
 * success only.
 * Threads: any, one call at a time. Allocation: a little outside and while recording; none frozen.
 */
vt_status vt_tensor_create(vt_runtime *runtime, const vt_tensor_desc *desc, vt_tensor *out);

/*
 * Destroys a tensor. Outside of iterations, programs that use it are forgotten; inside, only
 * tensors of the iteration can be destroyed.
 *
 * Errors: VT_ERROR_NOT_FOUND; VT_ERROR_ORDER while an op is open, or for a tensor that outlives
 * iterations inside of one.
 * Ownership: ends the tensor. Threads: any, one call at a time. Allocation: none frozen.
 */
vt_status vt_tensor_destroy(vt_runtime *runtime, vt_tensor tensor);

/*
 * Copies data to bytes offset .. offset + bytes of a tensor, wherever they are. Outside of
 * iterations only: inside, ops write. Bytes of the range that were lost are whole again.
 *
 * Errors: VT_ERROR_ORDER inside an iteration; VT_ERROR_NOT_FOUND; VT_ERROR_INVALID_ARGUMENT for a
 * range that leaves the tensor; VT_ERROR_SPILL_FULL, VT_ERROR_SYSTEM if the spill tier fails, and
 * then bytes of the range, or of the same 4 KiB, may be lost.
 * Ownership: data stays the caller's and is not kept; it may be NULL if bytes is 0.
 * Threads: any, one call at a time. Allocation: space in the spill tier, at first.
 */
vt_status vt_tensor_write(vt_runtime *runtime, vt_tensor tensor, uint64_t offset, const void *data,
                          uint64_t bytes);

/*
 * Copies bytes offset .. offset + bytes of a tensor to data, wherever they are. Outside of
 * iterations only. Nothing moves.
 *
 * Errors: as vt_tensor_write(), though nothing is lost; VT_ERROR_LOST if any byte of the range is
 * lost or torn, whose tensor and bytes vt_last_error() names, or scratch that was forgotten.
 * Ownership: data stays the caller's. On failure its content is undefined.
 * Threads: any, one call at a time. Allocation: none.
 */
vt_status vt_tensor_read(vt_runtime *runtime, vt_tensor tensor, uint64_t offset, void *data,
                         uint64_t bytes);

/* Whether bytes of a tensor can be used. */
typedef uint32_t vt_content;
enum {
    /* They hold what was written last. */
    VT_CONTENT_INTACT = 0,
    /*
     * They are gone: a copy failed, the spill file does not hold what was written, or a program had
     * given them up because a later op was to overwrite them.
     */
    VT_CONTENT_LOST = 1,
    /* An op that was given up was writing them: they would be old in part, new in part. */
    VT_CONTENT_TORN = 2
};

typedef struct vt_tensor_state {
    /* sizeof(vt_tensor_state), set by the caller. */
    size_t size;
    /* Of all bytes: VT_CONTENT_LOST if any is lost, else VT_CONTENT_TORN if any is torn. */
    vt_content content;
    /*
     * 1 if an op of the iteration that runs, or of the last one if that was given up, has written the
     * tensor or begun to: it is ahead of those that no op had come to. What a failure leaves of a
     * model is consistent if this is 0 for all of its tensors, or 1. Else 0.
     */
    uint32_t written;
    /* How many bytes are lost or torn, and in how many ranges: vt_tensor_lost() tells which. */
    uint64_t lost_bytes;
    uint64_t lost_ranges;
} vt_tensor_state;

/*
 * Tells whether the content of a tensor can be used: what to save after a failure. What is neither
 * lost nor torn can be read; the rest is VT_ERROR_LOST to vt_tensor_read(), to vt_tensor_pin() and to
 * ops that read the tensor, until it is written again.
 *
 * Errors: VT_ERROR_NOT_FOUND; VT_ERROR_INVALID_ARGUMENT.
 * Ownership: *out is the caller's, written on success only. Threads: any, one call at a time; outside
 * of iterations it waits for copies.
 * Allocation: none, unless something is lost.
 */
vt_status vt_tensor_status(const vt_runtime *runtime, vt_tensor tensor, vt_tensor_state *out);

/* Bytes offset .. offset + bytes of a tensor that cannot be used. */
typedef struct vt_lost_range {
    uint64_t offset;
    uint64_t bytes;
    /* VT_CONTENT_LOST or VT_CONTENT_TORN. */
    vt_content content;
    /* 0. */
    uint32_t reserved;
} vt_lost_range;

/*
 * Tells which bytes of a tensor are lost or torn, in order, without overlaps. *count is the room in
 * ranges, and becomes how many there are: 0 if the tensor is intact. With ranges NULL only that is
 * told.
 *
 * Errors: VT_ERROR_BUFFER if the room is too small: then *count is what is needed, and ranges is
 * untouched; as vt_tensor_status().
 * Ownership: ranges and count are the caller's. Threads: as vt_tensor_status().
 * Allocation: none, unless something is lost.
 */
vt_status vt_tensor_lost(const vt_runtime *runtime, vt_tensor tensor, vt_lost_range *ranges,
                         size_t *count);

/*
 * Keeps a tensor that outlives iterations resident, at one address, until vt_tensor_unpin(). The
 * bytes there are its content: the application may use them whenever no op that uses the tensor is
 * open. What is pinned is taken from the budget of everything else, so programs are planned anew:
 * pin before the first iteration. Pinning again gives the same address.
 *
 * Errors: VT_ERROR_ORDER inside an iteration; VT_ERROR_NOT_FOUND; VT_ERROR_BUDGET if the rest of
 * the arena has no room; VT_ERROR_LOST; VT_ERROR_SPILL_FULL, VT_ERROR_SYSTEM.
 * Ownership: the memory is the library's, lent until the tensor is unpinned or destroyed.
 * Threads: any, one call at a time. Allocation: yes.
 */
vt_status vt_tensor_pin(vt_runtime *runtime, vt_tensor tensor, void **pointer_out);

/*
 * Lets a pinned tensor move again. One that is not pinned stays as it is.
 *
 * Errors: VT_ERROR_ORDER inside an iteration; VT_ERROR_NOT_FOUND; VT_ERROR_SPILL_FULL,
 * VT_ERROR_SYSTEM, and then it is still pinned.
 * Ownership: takes the pointer back. Threads: any, one call at a time. Allocation: yes.
 */
vt_status vt_tensor_unpin(vt_runtime *runtime, vt_tensor tensor);

#ifdef __cplusplus
}
#endif

#endif /* VTENSOR_TENSOR_H */
