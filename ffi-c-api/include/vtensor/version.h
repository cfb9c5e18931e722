/*
 * vtensor/version.h - the version, of the header and of the library.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef VTENSOR_VERSION_H
#define VTENSOR_VERSION_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

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

#ifdef __cplusplus
}
#endif

#endif /* VTENSOR_VERSION_H */
