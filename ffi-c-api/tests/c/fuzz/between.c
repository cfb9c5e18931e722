/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What an application does between two iterations.
 */
#include <unistd.h>

#include "world.h"

static void pin(world *w, unsigned which)
{
    void *pointer = NULL;
    vt_status status;

    if (w->pinned[which] && chance(&w->in, 128)) {
        MUST(vt_tensor_unpin(w->runtime, w->tensors[which].id) == VT_OK);
        w->pinned[which] = 0;
        return;
    }
    status = vt_tensor_pin(w->runtime, w->tensors[which].id, &pointer);
    learn(w, &w->tensors[which]);
    if (status != VT_OK) {
        MUST(status == VT_ERROR_BUDGET || status == VT_ERROR_LOST);
        MUST(status != VT_ERROR_LOST || is_lost(&w->tensors[which]));
        return;
    }
    MUST(!w->pinned[which] || w->pins[which] == pointer);
    if (is_lost(&w->tensors[which]))
        return; /* it was pinned before */
    MUST(memcmp(pointer, w->tensors[which].content, w->tensors[which].bytes) == 0);
    w->pinned[which] = 1;
    w->pins[which] = pointer;
}

static void plans(world *w, unsigned kind)
{
    char path[64];
    vt_status status;

    snprintf(path, sizeof path, "fuzz-%ld.plan", (long)getpid());
    status = vt_plan_save_key(w->runtime, kind, path);
    if (status == VT_OK) {
        status = vt_plan_load_key(w->runtime, kind, path);
        MUST(status == VT_OK || status == VT_ERROR_PLAN);
        MUST(remove(path) == 0);
    } else {
        MUST(status == VT_ERROR_PLAN);
    }
}

void between(world *w)
{
    unsigned which = next(&w->in) % KEPT;
    vt_stats stats;
    vt_status status;
    size_t bytes = 0;

    switch (next(&w->in) % 12) {
    case 0:
    case 1:
    case 2:
        overwrite(w, which);
        break;
    case 3:
    case 4:
        compare(w, which);
        break;
    case 5:
        pin(w, which);
        break;
    case 6:
        w->pinned[which] = 0;
        destroy(w, which);
        create(w, which, some_bytes(&w->in));
        break;
    case 7:
        plans(w, next(&w->in) % KINDS);
        break;
    case 8:
        status = vt_freeze_key(w->runtime, next(&w->in) % KINDS);
        MUST(status == VT_OK || status == VT_ERROR_PLAN || status == VT_ERROR_LOST);
        break;
    case 9:
        stats.size = sizeof stats;
        MUST(vt_runtime_stats(w->runtime, &stats) == VT_OK);
        MUST(stats.arena_bytes == w->config.budget_bytes);
        MUST(vt_report(w->runtime, NULL, &bytes) == VT_OK && bytes > 0);
        break;
    case 10:
        MUST(vt_runtime_phase(w->runtime) <= VT_PHASE_FROZEN);
        MUST(vt_op_end(w->runtime) == VT_ERROR_ORDER);
        MUST(vt_iteration_end(w->runtime) == VT_ERROR_ORDER);
        MUST(vt_tensor_read(w->runtime, w->tensors[which].id, UINT64_MAX, &stats, 1) ==
             VT_ERROR_INVALID_ARGUMENT);
        break;
    default:
        MUST(vt_tensor_destroy(w->runtime, (vt_tensor)next(&w->in) << 40 | 0xffff) ==
             VT_ERROR_NOT_FOUND);
        break;
    }
}
