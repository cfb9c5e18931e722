/*
 * vtensor/window.h - memory whose address is fixed when it is allocated.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * For integrations that hold raw pointers, such as allocator hooks of a framework. To come: in this
 * version every call here is VT_ERROR_UNSUPPORTED, so that programs can be written against it and
 * ask. vt_op_begin() gives pointers for an op, vt_tensor_pin() one that lasts.
 */
#ifndef VTENSOR_WINDOW_H
#define VTENSOR_WINDOW_H

#include <stddef.h>

#include "runtime.h"
#include "status.h"
#include "tensor.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Allocates memory whose address never changes, though its pages may leave between ops.
 *
 * Errors: VT_ERROR_UNSUPPORTED.
 * Ownership: the memory is the library's until vt_free(). Threads: any, one call at a time.
 * Allocation: none yet.
 */
vt_status vt_alloc(vt_runtime *runtime, const vt_tensor_desc *desc, void **pointer_out);

/*
 * Frees what vt_alloc() has allocated.
 *
 * Errors: VT_ERROR_UNSUPPORTED.
 * Ownership: takes the memory. Threads: any, one call at a time. Allocation: none.
 */
vt_status vt_free(vt_runtime *runtime, void *pointer);

/*
 * Says which allocations the op that begins now uses: they are resident until the next vt_touch().
 *
 * Errors: VT_ERROR_UNSUPPORTED.
 * Ownership: pointers stays the caller's. Threads: any, one call at a time. Allocation: none.
 */
vt_status vt_touch(vt_runtime *runtime, void *const *pointers, size_t count);

#ifdef __cplusplus
}
#endif

#endif /* VTENSOR_WINDOW_H */
