/*
 * vtensor/status.h - how calls end.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef VTENSOR_STATUS_H
#define VTENSOR_STATUS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The result of a call. A number keeps its meaning for ever; later versions may return negative
 * numbers that are not listed here, so test for VT_OK, or for < 0.
 */
typedef int32_t vt_status;

enum {
    VT_OK = 0,
    /* An argument is not what the call takes: NULL, out of range, or text that cannot be read. */
    VT_ERROR_INVALID_ARGUMENT = -1,
    /* A bug in vTensor, caught before it could do harm. Please report it with vt_last_error(). */
    VT_ERROR_INTERNAL = -2,
    /* The request is understood, but this version or this machine cannot do it. */
    VT_ERROR_UNSUPPORTED = -3,
    /* Another call on the same runtime is running. This one had no effect. */
    VT_ERROR_BUSY = -4,
    /* The runtime or tensor does not exist: never created, destroyed, its iteration over. */
    VT_ERROR_NOT_FOUND = -5,
    /* The call came out of order: inside an iteration, outside one, while an op is open. */
    VT_ERROR_ORDER = -6,
    /* The machine does not have the memory, or not the mappings. */
    VT_ERROR_NO_MEMORY = -7,
    /* The tensors of one op do not fit into the budget together. */
    VT_ERROR_BUDGET = -8,
    /* The spill tier has no room. */
    VT_ERROR_SPILL_FULL = -9,
    /* The operating system refused something: a file, a copy, a thread. */
    VT_ERROR_SYSTEM = -10,
    /* Bytes of a tensor are gone: vt_tensor_lost() tells which. Write them again. */
    VT_ERROR_LOST = -11,
    /* No plan can be made, or a file is no plan for this application. */
    VT_ERROR_PLAN = -12,
    /* The runtime has failed for good. Destroy it. */
    VT_ERROR_FAILED = -13,
    /* The buffer is too small for the answer. */
    VT_ERROR_BUFFER = -14
};

/*
 * What a status means, as a short English sentence. Any number may be asked for; never NULL.
 *
 * Ownership: static text, valid for ever, not to be freed. Threads: any, also at once.
 * Allocation: none.
 */
const char *vt_status_string(vt_status status);

/*
 * The detail of the last call that failed on this thread: what was wanted, what was found, what to
 * do. Empty if none has failed. A call that succeeds leaves it alone, so look at the status first.
 * Never NULL.
 *
 * Ownership: the library's, valid until the next call on this thread; copy it to keep it.
 * Threads: any, also at once; each thread has its own. Allocation: none.
 */
const char *vt_last_error(void);

#ifdef __cplusplus
}
#endif

#endif /* VTENSOR_STATUS_H */
