/*
 * vtensor/runtime.h - the runtime: memory under a budget.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef VTENSOR_RUNTIME_H
#define VTENSOR_RUNTIME_H

#include <stdint.h>

#include "config.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A runtime. The pointer is a handle, not an address; it stands for the same runtime until that is
 * destroyed, and for nothing ever after. A process has at most 64 at once.
 */
typedef struct vt_runtime vt_runtime;

/* How far the kind of iteration is that began last, or whose plan was loaded last. */
typedef uint32_t vt_phase;
enum {
    /* Its iterations run on demand and are recorded, or none has begun. */
    VT_PHASE_RECORDING = 0,
    /* Its next iteration is frozen: a plan was loaded, or enough was recorded for one. */
    VT_PHASE_PLANNED = 1,
    /* A frozen program runs it. */
    VT_PHASE_FROZEN = 2,
    /* The runtime has failed for good, or the handle stands for none. */
    VT_PHASE_FAILED = 3
};

/*
 * Creates a runtime. It takes its budget from the machine now, so what it promises is there.
 *
 * Errors: VT_ERROR_INVALID_ARGUMENT, VT_ERROR_UNSUPPORTED for what the configuration asks;
 * VT_ERROR_NO_MEMORY if the machine does not have the budget; VT_ERROR_SYSTEM for a spill_dir that
 * cannot be used.
 * Ownership: *out is the caller's, to be given to vt_runtime_destroy(). config and its texts are
 * not kept; the log callback and its user pointer are, until the runtime is destroyed.
 * Threads: any, also at once. Allocation: yes, the budget, mappings and threads.
 */
vt_status vt_runtime_create(const vt_config *config, vt_runtime **out);

/*
 * Destroys a runtime with all its tensors, wherever it is, and gives everything back. Pointers from
 * vt_op_begin() and vt_tensor_pin() end here. If another thread is in a call on it, the runtime is
 * gone for every later call, and is freed when that call returns; the log callback may be heard
 * until then. NULL is allowed; a handle that
 * stands for nothing only leaves its detail in vt_last_error().
 *
 * Ownership: takes the runtime. Threads: any, also at once. Allocation: none; frees.
 */
void vt_runtime_destroy(vt_runtime *runtime);

/*
 * The phase of the kind of iteration that began last, or whose plan was loaded last. While another thread is in a call on the
 * runtime, it is the answer of the last vt_runtime_phase() that was not disturbed.
 *
 * Ownership: none. Threads: any, also at once. Allocation: some, freed before it returns.
 */
vt_phase vt_runtime_phase(const vt_runtime *runtime);

/*
 * Waits until everything that the ops so far have started is complete. On the host, ops compute on
 * the calling thread, so there is nothing to wait for. A failure is noted as by vt_driver_failed().
 *
 * Errors: VT_ERROR_NOT_FOUND, VT_ERROR_BUSY, VT_ERROR_FAILED; VT_ERROR_SYSTEM if the device failed.
 * Ownership: none. Threads: any, one call at a time. Allocation: none.
 */
vt_status vt_sync(vt_runtime *runtime);

/*
 * The CUstream that ops are enqueued on: an op's kernels go there between vt_op_begin() and
 * vt_op_end(), and another stream may touch its tensors only in order with this one. While
 * iterations are recorded vt_op_end() waits for them. NULL on the host.
 *
 * Errors: VT_ERROR_INVALID_ARGUMENT, VT_ERROR_NOT_FOUND, VT_ERROR_BUSY, VT_ERROR_FAILED.
 * Ownership: *out is the runtime's, or what compute_stream was, and good as long as the runtime.
 * Threads: any, one call at a time. Allocation: none.
 */
vt_status vt_compute_stream(vt_runtime *runtime, void **out);

/*
 * Says that a call of the CUDA driver failed that the application made itself. Such a call may tell
 * of work that a frozen program had enqueued, and which is not known: what the program holds is lost
 * then, if it has enqueued anything since it was at rest. Follow it by vt_iteration_abort(), and see
 * vt_tensor_lost(). Nothing on the host.
 *
 * Errors: VT_ERROR_NOT_FOUND, VT_ERROR_BUSY, VT_ERROR_FAILED.
 * Ownership: none. Threads: any, one call at a time. Allocation: none.
 */
vt_status vt_driver_failed(vt_runtime *runtime);

#ifdef __cplusplus
}
#endif

#endif /* VTENSOR_RUNTIME_H */
