/*
 * vtensor/bytes.h - amounts of memory as text.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef VTENSOR_BYTES_H
#define VTENSOR_BYTES_H

#include <stdint.h>

#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

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

#endif /* VTENSOR_BYTES_H */
