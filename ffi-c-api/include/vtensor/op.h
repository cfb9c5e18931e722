/*
 * vtensor/op.h - ops: what an iteration is made of.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef VTENSOR_OP_H
#define VTENSOR_OP_H

#include <stddef.h>
#include <stdint.h>

#include "runtime.h"
#include "status.h"
#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/* How an op uses a tensor. */
typedef uint32_t vt_access_mode;
enum {
    /* It reads, and writes nothing: a copy elsewhere would become stale unnoticed. */
    VT_ACCESS_READ = 1,
    /* It overwrites the whole tensor; what is there when the op begins is undefined. */
    VT_ACCESS_WRITE = 2,
    /* Everything else: it changes the tensor, or writes a part of it. */
    VT_ACCESS_READ_WRITE = 3
};

/* One tensor of an op. */
typedef struct vt_access {
    vt_tensor tensor;
    vt_access_mode mode;
    /* 0. */
    uint32_t reserved;
} vt_access;

/* Which part of a training step an op belongs to: for traces and baselines, it changes no result. */
typedef uint32_t vt_op_phase;
enum {
    VT_OP_FORWARD = 0,
    /* Input data arrives. */
    VT_OP_LOAD = 1,
    VT_OP_BACKWARD = 2,
    VT_OP_OPTIMIZER = 3
};

/*
 * Computes an op again: what its tensors were given up for comes back by computing it. pointers[i]
 * is the address of the tensor of the op's accesses[i] now, at a multiple of 512 bytes, and is
 * valid during the call. Returns VT_OK when the op is complete; anything else stops the program,
 * and what the op was to compute may be lost, which reading it tells by VT_ERROR_LOST.
 *
 * What the op overwrites is a function of what it reads; what it reads and writes, of that and of
 * its content before, with no influence on what it overwrites: so a step that updates running
 * statistics may run again, on a copy of them that is thrown away. No random numbers, and no result
 * outside of its tensors. It computes the same bits each time.
 *
 * It is called inside vt_op_begin() of a later op or inside vt_iteration_end(), on the thread that
 * calls that, never at once with anything else of its runtime; any number of times from the end of
 * its op to the end of the iteration, also none. It must return: no exception, no longjmp. It may
 * not call the library for the same runtime (VT_ERROR_BUSY).
 */
typedef vt_status (*vt_replay_fn)(void *user, void *const *pointers);

/* An op. Zero is the default of every member but size. */
typedef struct vt_op_desc {
    /* sizeof(vt_op_desc). */
    size_t size;
    /* What it is called. Part of what is recorded: the same each time. */
    const char *name;
    /* The tensors that it uses, and how many. */
    const vt_access *accesses;
    size_t access_count;
    /* vt_compute_stream(), or NULL, which means the same. */
    void *stream;
    vt_op_phase phase;
    /* No flag is known yet: 0. */
    uint32_t flags;
    /*
     * Computes the op again; NULL if it may not run again. Part of what is recorded is whether
     * there is one; which one it is, and user, may differ each time. Both must be valid until the
     * iteration ends or is aborted.
     */
    vt_replay_fn replay;
    void *user;
} vt_op_desc;

/*
 * Begins an op. pointers_out[i] becomes the address of the tensor of accesses[i], at a multiple of
 * 512 bytes, and is valid until vt_op_end() or vt_iteration_abort(). An op that names a tensor
 * twice has the modes of both, and one pointer, twice. In an iteration that a frozen program runs,
 * a tensor has the same address at the same op each time.
 *
 * A tensor of the iteration must be written before it is read. A tensor of the application reads
 * as zeroes until then.
 *
 * Errors: VT_ERROR_ORDER outside an iteration, while an op is open, and for a tensor of the
 * iteration that was not written; VT_ERROR_NOT_FOUND for a tensor that is none; VT_ERROR_BUDGET if
 * its tensors do not fit together; VT_ERROR_SPILL_FULL, VT_ERROR_SYSTEM if one cannot be brought;
 * VT_ERROR_LOST for one whose content is gone, or if another op was to run again before this one
 * and its callback failed. No op is open then; it may be tried again.
 * Ownership: the memory is the library's, lent until the op ends; desc is not kept but for replay
 * and user, which are lent until the iteration ends; pointers_out
 * has room for access_count pointers and may be NULL if that is 0.
 * Threads: any, one call at a time; the op may end on another thread than it began.
 * Allocation: while recording; none frozen.
 */
vt_status vt_op_begin(vt_runtime *runtime, const vt_op_desc *desc, void **pointers_out);

/*
 * Ends the open op. Its pointers are no longer valid: the bytes may move.
 *
 * Errors: VT_ERROR_ORDER if no op is open.
 * Ownership: takes the op's pointers back. Threads: any, one call at a time.
 * Allocation: while recording; none frozen.
 */
vt_status vt_op_end(vt_runtime *runtime);

#ifdef __cplusplus
}
#endif

#endif /* VTENSOR_OP_H */
