/*
 * vtensor.h - the C API of vTensor.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * This header is the start of the API: conventions, status codes, version. Runtime, tensors,
 * iterations and plans follow. It is clean C99 and C++11.
 *
 * CONVENTIONS
 *
 *   Status    A call that can fail returns a vt_status: VT_OK, or a negative number. Outputs come
 *             last and are written only on success. vt_last_error() then tells the detail.
 *   Bugs      A bug inside the library becomes VT_ERROR_INTERNAL. It never unwinds into the caller.
 *   Pointers  Every pointer is checked for NULL. One that is neither NULL nor valid cannot be
 *             detected.
 *   Text      UTF-8, ending in NUL. Text that the library returns belongs to the library.
 *
 * Each function below states three things: who owns what, which threads may call it, and whether it
 * allocates.
 */
#ifndef VTENSOR_H
#define VTENSOR_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- version -------------------------------------------------------------------------------- */

#define VT_VERSION_MAJOR 0
#define VT_VERSION_MINOR 1
#define VT_VERSION_PATCH 0

/* The version of this header as one number, 0x00MMmmpp. Later versions have larger numbers. */
#define VT_VERSION                                                                                 \
    (((uint32_t)VT_VERSION_MAJOR << 16) | ((uint32_t)VT_VERSION_MINOR << 8) |                      \
     (uint32_t)VT_VERSION_PATCH)

/*
 * The version of the library that runs, in the form of VT_VERSION. Before 1.0 use header and
 * library of the same version.
 *
 * Ownership: none. Threads: any, also at once. Allocation: none.
 */
uint32_t vt_version(void);

/* ---- status --------------------------------------------------------------------------------- */

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
    VT_ERROR_INTERNAL = -2
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

/* ---- amounts of memory ---------------------------------------------------------------------- */

/*
 * Reads an amount of memory as people write it: "4096", "96MiB", "1.5 GiB" (1024-based), "2GB"
 * (1000-based). Fractions are rounded down to whole bytes. The amount is below 2^63.
 *
 * Errors: VT_ERROR_INVALID_ARGUMENT if a pointer is NULL or the text is not such an amount.
 * Ownership: text stays the caller's and is not kept; *bytes_out is written on success only.
 * Threads: any, also at once. Allocation: none.
 */
vt_status vt_bytes_parse(const char *text, uint64_t *bytes_out);

#ifdef __cplusplus
}
#endif

#endif /* VTENSOR_H */
