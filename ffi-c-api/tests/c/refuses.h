/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Every call that takes a runtime, made on one that must not be taken.
 */
#ifndef REFUSES_H
#define REFUSES_H

#include "app.h"

/* Calls everything that takes a runtime on one that must not be taken. */
static inline void every_call_refuses(vt_runtime *runtime, vt_status status, const char *words)
{
    vt_tensor_desc desc;
    vt_op_desc op = app_op("op", NULL, 0);
    vt_stats stats;
    vt_tensor_state state;
    void *pointer = NULL;
    vt_tensor tensor = 77;
    size_t bytes = 0;
    char byte = 0;

    memset(&desc, 0, sizeof desc);
    desc.size = sizeof desc;
    desc.bytes = 1;
    desc.kind = VT_KIND_BUFFER;
    state.size = sizeof state;
    state.content = 9;
    stats.size = sizeof stats;
    stats.divergences = 5;
    FAILS(vt_tensor_create(runtime, &desc, &tensor), status, words);
    CHECK(tensor == 77);
    FAILS(vt_tensor_destroy(runtime, 0), status, words);
    FAILS(vt_tensor_write(runtime, 0, 0, &byte, 1), status, words);
    FAILS(vt_tensor_read(runtime, 0, 0, &byte, 1), status, words);
    FAILS(vt_tensor_status(runtime, 0, &state), status, words);
    FAILS(vt_tensor_lost(runtime, 0, NULL, &bytes), status, words);
    FAILS(vt_tensor_pin(runtime, 0, &pointer), status, words);
    FAILS(vt_tensor_unpin(runtime, 0), status, words);
    CHECK(pointer == NULL && state.content == 9);
    FAILS(vt_alloc(runtime, &desc, &pointer), status, words);
    FAILS(vt_free(runtime, &byte), status, words);
    FAILS(vt_touch(runtime, &pointer, 1), status, words);
    FAILS(vt_tensor_at(runtime, &byte, &tensor), status, words);
    CHECK(tensor == 77);
    FAILS(vt_plan_save(runtime, "never.plan"), status, words);
    FAILS(vt_plan_save_key(runtime, 1, "never.plan"), status, words);
    FAILS(vt_plan_load(runtime, "never.plan"), status, words);
    FAILS(vt_plan_load_key(runtime, 1, "never.plan"), status, words);
    FAILS(vt_iteration_begin(runtime, 0), status, words);
    FAILS(vt_iteration_end(runtime), status, words);
    FAILS(vt_iteration_abort(runtime), status, words);
    FAILS(vt_op_begin(runtime, &op, NULL), status, words);
    FAILS(vt_op_end(runtime), status, words);
    FAILS(vt_sync(runtime), status, words);
    FAILS(vt_freeze(runtime), status, words);
    FAILS(vt_freeze_key(runtime, 1), status, words);
    FAILS(vt_trace_save(runtime, "never.json"), status, words);
    FAILS(vt_trace_save_key(runtime, 1, "never.json"), status, words);
    FAILS(vt_runtime_stats(runtime, &stats), status, words);
    CHECK(stats.divergences == 5);
    FAILS(vt_report(runtime, NULL, &bytes), status, words);
    CHECK(bytes == 0);
    if (status != VT_ERROR_BUSY)
        CHECK(vt_runtime_phase(runtime) == VT_PHASE_FAILED);
}

#endif /* REFUSES_H */
