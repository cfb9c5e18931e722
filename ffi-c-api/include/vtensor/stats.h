/*
 * vtensor/stats.h - what a runtime has done.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef VTENSOR_STATS_H
#define VTENSOR_STATS_H

#include <stddef.h>
#include <stdint.h>

#include "runtime.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Numbers since the runtime was created. */
typedef struct vt_stats {
    /* sizeof(vt_stats), set by the caller. */
    size_t size;
    /* Iterations that ended: recorded on demand, and run by a frozen program. */
    uint64_t recorded_iterations;
    uint64_t frozen_iterations;
    uint64_t aborted_iterations;
    /* How often an iteration left what was recorded. */
    uint64_t divergences;
    /* Bytes that left the arena, and that came into it. */
    uint64_t moved_out_bytes;
    uint64_t moved_in_bytes;
    /* How long ops waited for copies. */
    uint64_t stall_ns;
    /* How often, and how long, tensors were carried between kinds of iterations. */
    uint64_t switches;
    uint64_t switch_ns;
    /* How long planning and proving took. */
    uint64_t planning_ns;
    /* The size of the arena: more is never resident. */
    uint64_t arena_bytes;
    /* Bytes of tensors that wait in the spill tier now, outside of any program. */
    uint64_t waiting_bytes;
    /* Copies of frozen programs that failed. */
    uint64_t failed_copies;
    /*
     * Of the program of the kind of iteration that began last, 0 without one: the memory that it
     * takes; what an iteration moves out, and in; how long its ops computed when they were
     * recorded; and how long an iteration takes, as the cost model sees it.
     */
    uint64_t program_bytes;
    uint64_t program_out_bytes;
    uint64_t program_in_bytes;
    uint64_t program_compute_ns;
    uint64_t program_predicted_ns;
    /*
     * Of the same program, the first bytes of its plan's digest: equal numbers are equal programs,
     * with the same copies and addresses. The first byte is the highest.
     */
    uint64_t program_digest;
    /* Bytes of tensors that keep their place in the arena: pinned, or of a model beside a file. */
    uint64_t kept_bytes;
    /* Bytes of tensors at once, at most, in the iteration of that kind: what it takes unlimited. */
    uint64_t iteration_peak_bytes;
    /* Bytes that frozen iterations computed again for ops that read them, and how long that took. */
    uint64_t recomputed_bytes;
    uint64_t recompute_ns;
} vt_stats;

/*
 * Tells what was done so far. These numbers are kept anyway: asking for them costs this call, not
 * asking costs nothing.
 *
 * Errors: VT_ERROR_INVALID_ARGUMENT, VT_ERROR_NOT_FOUND, VT_ERROR_BUSY, VT_ERROR_FAILED.
 * Ownership: *out is the caller's, written on success only, as far as its size goes.
 * Threads: any, one call at a time. Allocation: a little, freed before it
 * returns.
 */
vt_status vt_runtime_stats(const vt_runtime *runtime, vt_stats *out);

/*
 * Tells what the runtime is, has and does, as text for people, of no fixed form. *bytes is the room
 * in text, and becomes what is needed, the final NUL included. With text NULL only that is told.
 *
 * Errors: VT_ERROR_BUFFER if the room is too small: then *bytes is what is needed, and text is
 * untouched; VT_ERROR_INVALID_ARGUMENT, VT_ERROR_NOT_FOUND, VT_ERROR_BUSY, VT_ERROR_FAILED.
 * Ownership: text and bytes are the caller's. Threads: any, one call at a time.
 * Allocation: yes, freed before it returns.
 */
vt_status vt_report(const vt_runtime *runtime, char *text, size_t *bytes);

#ifdef __cplusplus
}
#endif

#endif /* VTENSOR_STATS_H */
