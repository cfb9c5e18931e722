/*
 * vtensor/iteration.h - iterations: the unit that repeats.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Iterations of one kind make the same calls in the same order: create, op, destroy. After
 * vt_config.warmup_iterations equal ones, the next one runs by a frozen program. One that leaves
 * what was recorded is not an error: it goes on on demand with the same bytes, vt_stats.divergences
 * and the log tell, and the new sequence is recorded. A call that fails is not part of the sequence:
 * one that has to fail (an op that the budget has no room for, a tensor that is none, a call out of
 * order) fails in a frozen iteration as it did before, and the program goes on.
 */
#ifndef VTENSOR_ITERATION_H
#define VTENSOR_ITERATION_H

#include <stdint.h>

#include "runtime.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Begins an iteration of the kind that the application calls program_key: a training step, its odd
 * last batch, an evaluation, each has a key of its own, any number. This is where a program is
 * planned, proven and frozen, once, which may take seconds for thousands of ops, and where the
 * program of another kind makes way.
 *
 * Errors: VT_ERROR_ORDER if an iteration runs; VT_ERROR_SYSTEM, VT_ERROR_LOST if tensors cannot be
 * carried over: then nothing began and nothing is lost that was not before.
 * Ownership: none. Threads: any, one call at a time. Allocation: yes, when a program is made or
 * makes way; none otherwise once it is frozen.
 */
vt_status vt_iteration_begin(vt_runtime *runtime, uint64_t program_key);

/*
 * Ends the iteration. Tensors that it has created and not destroyed stay, from now on as those that
 * were created outside; such an iteration is not planned, the next one is.
 *
 * Errors: VT_ERROR_ORDER outside an iteration, or while an op is open.
 * Ownership: none. Threads: any, one call at a time. Allocation: while recording; none frozen.
 */
vt_status vt_iteration_end(vt_runtime *runtime);

/*
 * Gives the iteration up, wherever it is. What the ops before have written stays; what an open op
 * was writing is torn (vt_tensor_status() tells). Tensors of the iteration are gone.
 *
 * Errors: VT_ERROR_ORDER outside an iteration.
 * Ownership: ends the pointers of an open op. Threads: any, one call at a time. Allocation: yes.
 */
vt_status vt_iteration_abort(vt_runtime *runtime);

#ifdef __cplusplus
}
#endif

#endif /* VTENSOR_ITERATION_H */
