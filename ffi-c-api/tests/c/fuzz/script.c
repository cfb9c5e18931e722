/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Kinds of iterations, written down once and followed many times.
 */
#include "world.h"

event some_op(world *w)
{
    event e;
    unsigned at;

    memset(&e, 0, sizeof e);
    e.what = OP;
    e.touches = chance(&w->in, 128);
    e.count = next(&w->in) % (USES + 1);
    for (at = 0; at < e.count; ++at) {
        e.uses[at] = next(&w->in) % ALL;
        e.modes[at] = next(&w->in) % 3 + 1;
    }
    return e;
}

void write_script(world *w, script *s)
{
    int alive[PASSING] = {0};
    unsigned i, count = next(&w->in) % (EVENTS / 2 - PASSING) + 1;

    s->made = 1;
    for (i = 0; i < count; ++i) {
        event *e = &s->events[s->count++];
        unsigned which = next(&w->in) % PASSING;
        if (chance(&w->in, 128) && !alive[which]) {
            e->what = CREATE;
            e->tensor = KEPT + which;
            e->bytes = some_bytes(&w->in);
            alive[which] = 1;
            /* It is written first, mostly. */
            e = &s->events[s->count++];
            *e = some_op(w);
            e->count += e->count == 0;
            e->uses[0] = KEPT + which;
            e->modes[0] = next(&w->in) < 8 ? VT_ACCESS_READ : VT_ACCESS_WRITE;
        } else {
            *e = some_op(w);
        }
    }
    for (i = 0; i < PASSING && s->count < EVENTS; ++i) {
        if (alive[i]) {
            s->events[s->count].what = DESTROY;
            s->events[s->count++].tensor = KEPT + i;
        }
    }
}
