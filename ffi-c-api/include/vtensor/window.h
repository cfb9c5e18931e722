/*
 * vtensor/window.h - memory whose address is fixed when it is allocated.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * For integrations that hold raw pointers, such as the allocator hooks of a framework. What is
 * allocated is a tensor, made as vt_tensor_create() makes one: outside iterations it lasts until it
 * is freed, inside it is one of the iteration. Its address never changes; its pages leave and
 * return. They are there while an op that uses them is open: from vt_touch() to the next call here
 * or of vt_op_begin(), vt_op_end(), vt_tensor_create(), vt_tensor_destroy() or vt_iteration_end().
 * At other times an access is a fault, or sees what is no longer the tensor's.
 *
 * Since a pointer does not tell how it is used, a touch reads and writes all of it. An op that only
 * reads something is better begun with vt_op_begin() and the handles of vt_tensor_at(): what was
 * not written need not be copied out again.
 *
 * Tensors take whole pages of the system here. Policies that give tensors another address each time
 * (all but "vtensor" and those that end in "-paged") leave such iterations on demand.
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
 * Allocates memory whose address never changes, at a multiple of the system's page. Within an
 * iteration the same allocations are expected in the same order each time; a frozen program answers
 * the same addresses each time. Ends the op of a touch.
 *
 * Errors: as vt_tensor_create(); VT_ERROR_SYSTEM if there are no addresses or mappings left.
 * Ownership: the memory is the library's until vt_free(); *pointer_out is written on success only.
 * Threads: any, one call at a time. Allocation: yes, but for a frozen iteration.
 */
vt_status vt_alloc(vt_runtime *runtime, const vt_tensor_desc *desc, void **pointer_out);

/*
 * Frees what vt_alloc() has allocated, or vt_tensor_create() with VT_TENSOR_FIXED_ADDRESS. Ends the
 * op of a touch.
 *
 * Errors: as vt_tensor_destroy(); VT_ERROR_NOT_FOUND if nothing that is alive begins there.
 * Ownership: takes the memory. Threads: any, one call at a time. Allocation: none in a frozen
 * iteration.
 */
vt_status vt_free(vt_runtime *runtime, void *pointer);

/*
 * Ends the op of the touch before, even if the call fails then, and begins one that reads and writes
 * these allocations; with count 0 one that uses none. Each pointer is one that vt_alloc() has answered.
 *
 * Errors: VT_ERROR_ORDER outside an iteration; VT_ERROR_NOT_FOUND if nothing that is alive begins
 * at a pointer; as vt_op_begin().
 * Ownership: pointers stays the caller's. Threads: any, one call at a time. Allocation: none in a
 * frozen iteration.
 */
vt_status vt_touch(vt_runtime *runtime, void *const *pointers, size_t count);

/*
 * Tells the handle of an allocation, for vt_op_begin(), vt_tensor_read() and all others.
 *
 * Errors: VT_ERROR_NOT_FOUND if nothing that is alive begins there; VT_ERROR_INVALID_ARGUMENT.
 * Ownership: none; *out is written on success only. Threads: any, one call at a time.
 * Allocation: none.
 */
vt_status vt_tensor_at(const vt_runtime *runtime, const void *pointer, vt_tensor *out);

#ifdef __cplusplus
}
#endif

#endif /* VTENSOR_WINDOW_H */
