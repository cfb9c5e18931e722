/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Ops, and touches of memory by address: what they see is what the model holds.
 */
#include "world.h"

/* Computes: checks what the op reads, and writes what it writes, here and in the model. */
static void compute(world *w, const event *e, void **pointers)
{
    unsigned at, other;

    for (at = 0; at < e->count; ++at) {
        shadow *s = &w->tensors[e->uses[at]];
        int reads = 0, writes = 0, first = 1;

        for (other = 0; other < e->count; ++other) {
            if (e->uses[other] != e->uses[at])
                continue;
            first = first && other >= at;
            reads |= (e->modes[other] & VT_ACCESS_READ) != 0;
            writes |= (e->modes[other] & VT_ACCESS_WRITE) != 0;
            MUST(pointers[other] == pointers[at]);
        }
        MUST((uintptr_t)pointers[at] % 512 == 0);
        if (!first)
            continue;
        if (reads && (s->written || e->uses[at] < KEPT)) {
            MUST(!is_lost(s));
            MUST(memcmp(pointers[at], s->content, s->bytes) == 0);
        }
        if (writes) {
            int whole = !reads || !s->written;
            size_t offset = whole ? 0 : s->bytes / 3;
            fill(w, s->content + offset, s->bytes - offset);
            memcpy((uint8_t *)pointers[at] + offset, s->content + offset, s->bytes - offset);
            s->written = 1;
            memset(s->state, VT_CONTENT_INTACT, s->bytes);
        }
    }
}

void tear(world *w, const event *e)
{
    unsigned at;

    for (at = 0; at < e->count; ++at)
        if (e->modes[at] & VT_ACCESS_WRITE) {
            shadow *s = &w->tensors[e->uses[at]];
            memset(s->state, VT_CONTENT_TORN, s->bytes);
        }
}

/* How often an iteration has left its recording. */
static uint64_t divergences(world *w)
{
    vt_stats stats;

    stats.size = sizeof stats;
    MUST(vt_runtime_stats(w->runtime, &stats) == VT_OK);
    return stats.divergences;
}

/* A call that may fail where it is: too large, unwritten, or lost; `left`: divergences before. */
static void failed(world *w, const event *e, vt_status status, uint64_t left)
{
    int lost = 0;
    unsigned at;

    MUST(status == VT_ERROR_BUDGET || status == VT_ERROR_ORDER || status == VT_ERROR_LOST);
    for (at = 0; at < e->count; ++at) {
        learn(w, &w->tensors[e->uses[at]]);
        lost |= is_lost(&w->tensors[e->uses[at]]);
    }
    MUST(status != VT_ERROR_LOST || lost);
    /* What could be known beforehand stops no program. */
    MUST(status == VT_ERROR_LOST || divergences(w) == left);
}

/* Whether all that an op uses has an address that is known. */
static int may_touch(const world *w, const event *e)
{
    unsigned at;

    for (at = 0; at < e->count; ++at)
        if (!w->tensors[e->uses[at]].fixed || w->tensors[e->uses[at]].address == NULL)
            return 0;
    return e->touches;
}

/* A touch reads and writes; its op ends with the next call. */
static void run_touch(world *w, const event *e)
{
    void *pointers[USES] = {NULL, NULL, NULL, NULL};
    event touched = *e;
    uint64_t left = divergences(w);
    vt_status status;
    unsigned at;

    for (at = 0; at < e->count; ++at) {
        pointers[at] = w->tensors[e->uses[at]].address;
        touched.modes[at] = VT_ACCESS_READ_WRITE;
    }
    status = vt_touch(w->runtime, pointers, e->count);
    w->touching = status == VT_OK;
    if (status != VT_OK) {
        failed(w, e, status, left);
        return;
    }
    compute(w, &touched, pointers);
    w->touched = touched;
    ++w->touches;
}

/* Ops and ends of iterations that are refused while an op is open. */
static void misuse_op(world *w, const vt_op_desc *op, void **pointers)
{
    MUST(vt_op_begin(w->runtime, op, pointers) == VT_ERROR_ORDER);
    MUST(vt_touch(w->runtime, NULL, 0) == VT_ERROR_ORDER);
    MUST(vt_iteration_end(w->runtime) == VT_ERROR_ORDER);
}

/* Computes in an op that has begun; 0 if the iteration was given up in it. */
static int inside(world *w, const event *e, const vt_op_desc *op, void **pointers)
{
    unsigned at;

    for (at = 0; at < e->count; ++at) {
        shadow *s = &w->tensors[e->uses[at]];
        MUST(!s->fixed || s->address == NULL || s->address == pointers[at]);
        s->address = pointers[at];
        if (s->fixed && w->disturbed) {
            vt_tensor found = 0;
            MUST(vt_tensor_at(w->runtime, pointers[at], &found) == VT_OK && found == s->id);
        }
    }
    compute(w, e, pointers);
    if (w->disturbed && chance(&w->in, 16))
        misuse_op(w, op, pointers);
    if (w->disturbed && chance(&w->in, 16)) {
        tear(w, e);
        MUST(vt_iteration_abort(w->runtime) == VT_OK);
        return 0;
    }
    MUST(vt_op_end(w->runtime) == VT_OK);
    return 1;
}

int run_op(world *w, const event *e)
{
    uint64_t left = divergences(w);
    vt_access accesses[USES];
    void *pointers[USES] = {NULL, NULL, NULL, NULL};
    vt_op_desc op;
    vt_status status;
    unsigned at;

    memset(accesses, 0, sizeof accesses);
    memset(&op, 0, sizeof op);
    for (at = 0; at < e->count; ++at) {
        if (!w->tensors[e->uses[at]].alive)
            return 1;
        accesses[at].tensor = w->tensors[e->uses[at]].id;
        accesses[at].mode = e->modes[at];
    }
    if (may_touch(w, e)) {
        run_touch(w, e);
        return 1;
    }
    op.size = sizeof op;
    op.name = "op";
    op.accesses = accesses;
    op.access_count = e->count;
    w->touching = 0;
    status = vt_op_begin(w->runtime, &op, pointers);
    if (status != VT_OK) {
        MUST(pointers[0] == NULL);
        failed(w, e, status, left);
        return 1;
    }
    return inside(w, e, &op, pointers);
}
