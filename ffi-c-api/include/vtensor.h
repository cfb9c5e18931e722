/*
 * vtensor.h - the C API of vTensor: training inside too little memory.
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * An application tells, op by op, which tensors it uses, and is told where they are. The library
 * records an iteration, plans which pieces of tensors leave memory and when they return, proves
 * the plan, and from then on only executes it. In outline:
 *
 *     vt_config config;
 *     vt_runtime *runtime;
 *     vt_config_init(&config);
 *     config.budget_bytes = 64u << 20;
 *     vt_runtime_create(&config, &runtime);
 *     ... vt_tensor_create() for what outlives iterations, vt_tensor_write() for its content ...
 *     for each iteration:
 *         vt_iteration_begin(runtime, 1);
 *         for each op:
 *             vt_op_begin(runtime, &op, pointers);   the tensors are at these addresses,
 *             ... compute ...
 *             vt_op_end(runtime);                    until here
 *         vt_iteration_end(runtime);
 *     vt_runtime_destroy(runtime);
 *
 * CONVENTIONS
 *
 *   Status    A call that can fail returns a vt_status: VT_OK, or a negative number. Outputs come
 *             last and are written only on success. vt_last_error() then tells the detail. A call
 *             that fails has changed nothing, unless its text says otherwise.
 *   Bugs      A bug inside the library becomes VT_ERROR_INTERNAL; every later call on that runtime
 *             is VT_ERROR_FAILED. It never unwinds into the caller.
 *   Pointers  Every pointer is checked for NULL and alignment. One that is neither NULL nor valid
 *             cannot be detected.
 *   Handles   A vt_runtime * is no address: one that was destroyed or never created is refused
 *             (VT_ERROR_NOT_FOUND), and so is such a vt_tensor.
 *   Threads   Calls on one runtime may come from any thread, but one at a time. A second call at
 *             the same time is refused (VT_ERROR_BUSY), not queued, and has no effect. Different
 *             runtimes are independent. Callbacks run on the thread of the call that they are
 *             about, and may call the library, though not for the same runtime.
 *   Structs   Structs that can grow begin with their size: set it with sizeof, and the rest to
 *             zero, which is every member's default. A size from an older header is fine; from a
 *             newer one, too, as long as members that this library does not know are zero.
 *   Text      UTF-8, ending in NUL. Text that the library returns belongs to the library; text
 *             that is handed in is not kept.
 *   fork()    A child has none of its parent's runtimes: there they are refused (VT_ERROR_NOT_FOUND),
 *             and their memory is not mapped. It may create its own.
 *   Stacks    A thread that calls the library has 256 KiB of stack or more.
 *
 * Each function states three things: who owns what, which threads may call it, and whether it
 * allocates. All headers are clean C99 and C++11. vtensor.hpp is a C++17 layer on top of them.
 */
#ifndef VTENSOR_H
#define VTENSOR_H

#include "vtensor/version.h"
#include "vtensor/status.h"
#include "vtensor/bytes.h"
#include "vtensor/config.h"
#include "vtensor/runtime.h"
#include "vtensor/tensor.h"
#include "vtensor/iteration.h"
#include "vtensor/op.h"
#include "vtensor/window.h"
#include "vtensor/plan.h"
#include "vtensor/stats.h"
#include "vtensor/probe.h"

#endif /* VTENSOR_H */
