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
 * Saves the frozen program of the kind of iteration that ended last, with all that is needed to run
 * and to prove it. Another process of the same application, on this device or on one like it, loads
 * it and is frozen from the first iteration on.
 *
 * Errors: VT_ERROR_ORDER if no iteration has ended; VT_ERROR_PLAN if its kind is not frozen;
 * VT_ERROR_SYSTEM if the file cannot be written: then what was there is untouched.
 * Ownership: path is not kept. Threads: any, one call at a time. Allocation: yes, freed before it
 * returns.
 */
vt_status vt_plan_save(const vt_runtime *runtime, const char *path);

/*
 * As vt_plan_save(), for the kind of iteration program_key.
 *
 * Ownership: path is not kept. Threads: any, one call at a time. Allocation: yes, freed before it
 * returns.
 */
vt_status vt_plan_save_key(const vt_runtime *runtime, uint64_t program_key, const char *path);

/*
 * Loads a program for the kind of iteration that it was saved for; its next iteration runs it. The
 * tensors that outlive iterations must exist: those of the recording, created in the same order
 * with the same names, sizes and kinds. The file is checked like a stranger's, and the program is
 * proven again. If the machine or the budget cannot run it, that shows when the iteration begins:
 * it runs on demand then, and vt_report() tells why.
 *
 * Errors: VT_ERROR_ORDER inside an iteration; VT_ERROR_PLAN if the file is no plan, is damaged, or
 * is one of another application; VT_ERROR_SYSTEM if it cannot be read.
 * Ownership: path is not kept. Threads: any, one call at a time. Allocation: yes.
 */
vt_status vt_plan_load(vt_runtime *runtime, const char *path);

/*
 * As vt_plan_load(), for the kind of iteration program_key, whichever it was saved for.
 *
 * Ownership: path is not kept. Threads: any, one call at a time. Allocation: yes.
 */
vt_status vt_plan_load_key(vt_runtime *runtime, uint64_t program_key, const char *path);

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
