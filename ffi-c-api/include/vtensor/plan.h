/*
 * vtensor/plan.h - plans and traces as files, and freezing by hand.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Calls without a key are about the kind of iteration that ended last.
 */
#ifndef VTENSOR_PLAN_H
#define VTENSOR_PLAN_H

#include <stdint.h>

#include "runtime.h"
#include "status.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Makes a program now, from at least two equal iterations, rather than when the next one begins
 * after vt_config.warmup_iterations of them. Tells why there can be none, which the automatic
 * freeze only logs.
 *
 * Errors: VT_ERROR_ORDER inside an iteration, or if none has ended; VT_ERROR_PLAN with the reason
 * if there is no program.
 * Ownership: none. Threads: any, one call at a time. Allocation: yes, the program's.
 */
vt_status vt_freeze(vt_runtime *runtime);

/*
 * As vt_freeze(), for the kind of iteration program_key.
 *
 * Ownership: none. Threads: any, one call at a time. Allocation: yes, the program's.
 */
vt_status vt_freeze_key(vt_runtime *runtime, uint64_t program_key);

/*
 * Saves what was recorded of the kind of iteration that ended last, as a trace: JSON, with the
 * durations of this machine under the name "host". vtensor-bench(1) plans and compares traces.
 *
 * Errors: VT_ERROR_ORDER if no iteration has ended; VT_ERROR_PLAN if none was recorded;
 * VT_ERROR_SYSTEM if the file cannot be written: then what was there is untouched.
 * Ownership: path is not kept. Threads: any, one call at a time. Allocation: yes, freed before it
 * returns.
 */
vt_status vt_trace_save(const vt_runtime *runtime, const char *path);

/*
 * As vt_trace_save(), for the kind of iteration program_key.
 *
 * Ownership: path is not kept. Threads: any, one call at a time. Allocation: yes, freed before it
 * returns.
 */
vt_status vt_trace_save_key(const vt_runtime *runtime, uint64_t program_key, const char *path);

#ifdef __cplusplus
}
#endif

#endif /* VTENSOR_PLAN_H */
