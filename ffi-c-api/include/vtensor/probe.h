/*
 * vtensor/probe.h - what this machine has.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef VTENSOR_PROBE_H
#define VTENSOR_PROBE_H

#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What was found, and what a runtime without wishes takes. */
typedef struct vt_probe_info {
    /* sizeof(vt_probe_info), set by the caller. */
    size_t size;
    /* What VT_BACKEND_AUTO, VT_MECHANISM_AUTO and VT_SPILL_AUTO without a folder stand for. */
    vt_backend backend;
    vt_mechanism mechanism;
    vt_spill spill;
    /* GPUs that VT_BACKEND_CUDA could take; the reasons say why there is none. */
    uint32_t cuda;
    /* What a runtime with a budget of 0 may take: the memory that is available now. */
    uint64_t budget_bytes;
    uint64_t memory_bytes;
    /* The page of the machine: plans have no smaller one. */
    uint64_t page_bytes;
    /* Mappings that the system grants a process. */
    uint64_t mappings_max;
    /* All of this with reasons, as text. */
    const char *reasons;
} vt_probe_info;

/*
 * Looks at this machine. A number that it does not tell is 0. For GPUs it opens the CUDA
 * driver, if there is one, and closes it again.
 *
 * Errors: VT_ERROR_INVALID_ARGUMENT.
 * Ownership: *out is the caller's; its reasons are the library's, valid until the next vt_probe()
 * on this thread. Threads: any, also at once. Allocation: a text for each thread that probes.
 */
vt_status vt_probe(vt_probe_info *out);

#ifdef __cplusplus
}
#endif

#endif /* VTENSOR_PROBE_H */
