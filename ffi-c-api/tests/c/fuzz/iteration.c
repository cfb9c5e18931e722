/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Iterations that follow their script, and some that do not.
 */
#include "world.h"

/* Calls that have to fail inside an iteration, and change nothing. */
static void misuse_inside(world *w)
{
    uint8_t byte = 0;
    void *pointer = NULL;

    MUST(vt_iteration_begin(w->runtime, 1) == VT_ERROR_ORDER);
    MUST(vt_free(w->runtime, &byte) == VT_ERROR_NOT_FOUND);
    if (w->touching) {
        /* It is open. */
        MUST(vt_op_end(w->runtime) == VT_OK);
        w->touching = 0;
    }
    MUST(vt_op_end(w->runtime) == VT_ERROR_ORDER);
    pointer = &byte;
    MUST(vt_touch(w->runtime, &pointer, 1) == VT_ERROR_NOT_FOUND);
    MUST(vt_tensor_read(w->runtime, w->tensors[0].id, 0, &byte, 1) != VT_OK);
    MUST(vt_tensor_pin(w->runtime, w->tensors[0].id, &pointer) != VT_OK);
    MUST(vt_plan_load(w->runtime, "/no/such/file") == VT_ERROR_SYSTEM);
    MUST(vt_op_begin(w->runtime, NULL, &pointer) == VT_ERROR_INVALID_ARGUMENT);
}

/* What passes by and was not destroyed: gone, or one that stays. */
static void settle(world *w, int ended)
{
    unsigned which;

    for (which = KEPT; which < ALL; ++which) {
        if (!w->tensors[which].alive)
            continue;
        if (!ended) {
            MUST(vt_tensor_destroy(w->runtime, w->tensors[which].id) == VT_ERROR_NOT_FOUND);
            forget(&w->tensors[which]);
        } else {
            if (w->tensors[which].written)
                compare(w, which);
            destroy(w, which);
        }
    }
}

void iterate(world *w, unsigned kind, int disturbed)
{
    script *s = &w->scripts[kind];
    int ended = 1;
    unsigned at;

    w->disturbed = disturbed;
    w->touching = 0;
    if (!s->made)
        write_script(w, s);
    MUST(vt_iteration_begin(w->runtime, kind) == VT_OK);
    for (at = 0; at < s->count && ended; ++at) {
        event *e = &s->events[at];
        if (disturbed && chance(&w->in, 16))
            continue; /* left out */
        if (disturbed && chance(&w->in, 16)) {
            event extra = some_op(w);
            ended = run_op(w, &extra);
        }
        if (!ended)
            break;
        if (disturbed && chance(&w->in, 16))
            misuse_inside(w);
        if (e->what == CREATE && !w->tensors[e->tensor].alive)
            create(w, e->tensor, e->bytes);
        else if (e->what == DESTROY && w->tensors[e->tensor].alive)
            destroy(w, e->tensor);
        else if (e->what == OP)
            ended = run_op(w, e);
    }
    if (ended && disturbed && chance(&w->in, 32)) {
        if (w->touching)
            tear(w, &w->touched);
        MUST(vt_iteration_abort(w->runtime) == VT_OK);
        ended = 0;
    } else if (ended) {
        MUST(vt_iteration_end(w->runtime) == VT_OK);
    }
    w->touching = w->disturbed = 0;
    settle(w, ended);
}
