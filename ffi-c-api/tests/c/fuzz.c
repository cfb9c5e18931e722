/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Random sequences of calls against a model that keeps every tensor in memory of its own.
 *
 *     fuzz SECONDS [SEED]     random inputs until the time is over; prints the seed of a failure
 *     fuzz FILE...            inputs from files
 *
 * With -DLIBFUZZER it has no main, for -fsanitize=fuzzer. An input is a program: it writes a few
 * kinds of iterations, repeats them so that they are frozen, and disturbs them: calls that were not
 * recorded, aborts, misuse, tensors that come and go, pins, plans that are saved and loaded. What
 * an op or a read sees has to be what the model holds, and a call that has to fail has to fail. The
 * first thing that is not so ends the process.
 */
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "vtensor.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    PAGE = 4096,
    KEPT = 5,    /* tensors that outlive iterations */
    PASSING = 6, /* tensors of an iteration */
    ALL = KEPT + PASSING,
    KINDS = 3,
    EVENTS = 32,
    USES = 4,
    ITERATIONS = 100
};

/* The input, byte by byte; zeroes when it is over. */
typedef struct input {
    const uint8_t *data;
    size_t size, at;
} input;

static unsigned next(input *in)
{
    return in->at < in->size ? in->data[in->at++] : 0;
}

static int over(const input *in)
{
    return in->at >= in->size;
}

/* Happens about `of_256` times in 256. */
static int chance(input *in, unsigned of_256)
{
    return !over(in) && next(in) < of_256;
}

/* A tensor, and what it has to hold. */
typedef struct shadow {
    int alive, written, lost;
    /* It was pinned while an op that wrote it was given up: it may be lost, or hold anything. */
    int torn;
    vt_tensor id;
    /* Whether its address is for life, and what it is, once an op was told. */
    int fixed;
    void *address;
    size_t bytes;
    uint8_t *content;
} shadow;

typedef struct event {
    enum { CREATE, DESTROY, OP } what;
    int fails;
    unsigned tensor;
    size_t bytes;
    unsigned count;
    unsigned uses[USES];
    vt_access_mode modes[USES];
} event;

typedef struct script {
    int made;
    unsigned count;
    event events[EVENTS];
} script;

typedef struct world {
    input in;
    vt_runtime *runtime;
    vt_config config;
    shadow tensors[ALL];
    script scripts[KINDS];
    uint64_t random;
    int pinned[KEPT];
    void *pins[KEPT];
    int disturbed; /* the iteration that runs */
    int fixing;    /* some tensors keep their address for life */
} world;

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: does not hold: %s (last error: %s)\n", __FILE__, __LINE__,     \
                    #condition, vt_last_error());                                                  \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* Bytes that no two ops write alike. */
static void fill(world *w, uint8_t *to, size_t bytes)
{
    size_t at;

    for (at = 0; at < bytes; at += 8) {
        size_t part = bytes - at < 8 ? bytes - at : 8;
        w->random = w->random * 6364136223846793005u + 1442695040888963407u;
        memcpy(to + at, &w->random, part);
    }
}

/* ---- tensors ----------------------------------------------------------------------------------- */

/* Whether parameters have a place in the arena for good. */
static int keeps_models(const world *w)
{
    return w->config.spill_dir != NULL && (w->config.flags & VT_CONFIG_SPILL_MODEL) == 0;
}

static void create(world *w, unsigned which, size_t bytes)
{
    shadow *s = &w->tensors[which];
    vt_tensor_desc desc;
    vt_status status;

    memset(&desc, 0, sizeof desc);
    desc.size = sizeof desc;
    desc.bytes = bytes;
    desc.kind = which < KEPT ? VT_KIND_PARAMETER : VT_KIND_ACTIVATION;
    desc.name = which < KEPT ? "kept" : "passing";
    s->fixed = w->fixing && bytes / 16 % 3 == 0;
    s->address = NULL;
    desc.flags = s->fixed ? VT_TENSOR_FIXED_ADDRESS : 0;
    status = vt_tensor_create(w->runtime, &desc, &s->id);
    if (status == VT_ERROR_BUDGET && which < KEPT && keeps_models(w)) {
        /* A parameter must stay in the arena and there is no room: a gradient may leave. */
        desc.kind = VT_KIND_GRADIENT;
        status = vt_tensor_create(w->runtime, &desc, &s->id);
    }
    MUST(status == VT_OK);
    s->alive = 1;
    s->written = s->lost = 0;
    s->bytes = bytes;
    s->content = (uint8_t *)calloc(1, bytes);
    MUST(s->content != NULL);
}

static void forget(shadow *s)
{
    free(s->content);
    memset(s, 0, sizeof *s);
}

static void destroy(world *w, unsigned which)
{
    MUST(vt_tensor_destroy(w->runtime, w->tensors[which].id) == VT_OK);
    /* Once more is refused; a frozen program takes it for a call that was not recorded. */
    if (w->disturbed)
        MUST(vt_tensor_destroy(w->runtime, w->tensors[which].id) == VT_ERROR_NOT_FOUND);
    forget(&w->tensors[which]);
}

/* Takes over what a torn tensor holds. */
static void adopt(shadow *s, const void *found)
{
    if (s->torn) {
        memcpy(s->content, found, s->bytes);
        s->lost = s->torn = 0;
    }
}

/* Reads a whole tensor between iterations and compares it. */
static void compare(world *w, unsigned which)
{
    shadow *s = &w->tensors[which];
    uint8_t *found = (uint8_t *)malloc(s->bytes);
    vt_status status = vt_tensor_read(w->runtime, s->id, 0, found, s->bytes);
    vt_tensor_state state;

    state.size = sizeof state;
    MUST(vt_tensor_status(w->runtime, s->id, &state) == VT_OK);
    if (status == VT_ERROR_LOST) {
        MUST(state.content == VT_CONTENT_LOST);
        s->lost = 1;
    } else {
        MUST(status == VT_OK && state.content == VT_CONTENT_INTACT);
        adopt(s, found);
        MUST(!s->lost);
        MUST(memcmp(found, s->content, s->bytes) == 0);
    }
    free(found);
}

/* Writes a part of a tensor, or all of it, between iterations. */
static void overwrite(world *w, unsigned which)
{
    shadow *s = &w->tensors[which];
    size_t offset = next(&w->in) * 37 % s->bytes;
    size_t bytes = next(&w->in) * 97 % (s->bytes - offset) + 1;
    vt_status status;

    if (s->lost || s->torn || chance(&w->in, 64)) {
        offset = 0;
        bytes = s->bytes;
    }
    fill(w, s->content + offset, bytes);
    status = vt_tensor_write(w->runtime, s->id, offset, s->content + offset, bytes);
    if (status == VT_ERROR_LOST && bytes < s->bytes)
        s->lost = 1;
    else
        MUST(status == VT_OK);
    if (bytes == s->bytes)
        s->lost = s->torn = 0;
    s->written = 1;
}

/* ---- ops ---------------------------------------------------------------------------------------- */

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
        if (reads)
            adopt(s, pointers[at]);
        if (reads && (s->written || e->uses[at] < KEPT)) {
            MUST(!s->lost);
            MUST(memcmp(pointers[at], s->content, s->bytes) == 0);
        }
        if (writes) {
            int whole = !reads || !s->written;
            size_t offset = whole ? 0 : s->bytes / 3;
            fill(w, s->content + offset, s->bytes - offset);
            memcpy((uint8_t *)pointers[at] + offset, s->content + offset, s->bytes - offset);
            s->written = 1;
            s->lost = s->torn = 0;
        }
    }
}

/* What is being written when an iteration is given up is lost. */
static void tear(world *w, const event *e)
{
    unsigned at;

    for (at = 0; at < e->count; ++at)
        if (e->modes[at] & VT_ACCESS_WRITE) {
            w->tensors[e->uses[at]].lost = 1;
            w->tensors[e->uses[at]].torn = e->uses[at] < KEPT && w->pinned[e->uses[at]];
        }
}

/* Runs an op; 0 if the iteration was given up in it. */
static int run_op(world *w, event *e)
{
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
    op.size = sizeof op;
    op.name = "op";
    op.accesses = accesses;
    op.access_count = e->count;
    status = vt_op_begin(w->runtime, &op, pointers);
    if (status != VT_OK) {
        /* Too large, unwritten, or lost by an iteration that left its recording. */
        MUST(status == VT_ERROR_BUDGET || status == VT_ERROR_ORDER || status == VT_ERROR_LOST);
        MUST(pointers[0] == NULL);
        /* It is left out from now on: an iteration that tries what fails is never frozen. */
        e->fails = 1;
        return 1;
    }
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
    if (w->disturbed && chance(&w->in, 16)) {
        MUST(vt_op_begin(w->runtime, &op, pointers) == VT_ERROR_ORDER);
        MUST(vt_iteration_end(w->runtime) == VT_ERROR_ORDER);
    }
    if (w->disturbed && chance(&w->in, 16)) {
        tear(w, e);
        MUST(vt_iteration_abort(w->runtime) == VT_OK);
        return 0;
    }
    MUST(vt_op_end(w->runtime) == VT_OK);
    return 1;
}

/* ---- iterations --------------------------------------------------------------------------------- */

static size_t some_bytes(input *in)
{
    return (size_t)(next(in) % 5) * PAGE + next(in) * 16 + 1;
}

static event some_op(world *w)
{
    event e;
    unsigned at;

    memset(&e, 0, sizeof e);
    e.what = OP;
    e.count = next(&w->in) % (USES + 1);
    for (at = 0; at < e.count; ++at) {
        e.uses[at] = next(&w->in) % ALL;
        e.modes[at] = next(&w->in) % 3 + 1;
    }
    return e;
}

/* Writes a kind of iteration down: creations and ops, and in the end all destructions. */
static void write_script(world *w, script *s)
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

/* Calls that have to fail inside an iteration, and change nothing. */
static void misuse_inside(world *w)
{
    uint8_t byte = 0;
    void *pointer = NULL;

    MUST(vt_iteration_begin(w->runtime, 1) == VT_ERROR_ORDER);
    MUST(vt_op_end(w->runtime) == VT_ERROR_ORDER);
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

static void iterate(world *w, unsigned kind, int disturbed)
{
    script *s = &w->scripts[kind];
    int ended = 1;
    unsigned at;

    w->disturbed = disturbed;
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
        else if (e->what == OP && !e->fails)
            ended = run_op(w, e);
    }
    if (ended && disturbed && chance(&w->in, 32)) {
        MUST(vt_iteration_abort(w->runtime) == VT_OK);
        ended = 0;
    } else if (ended) {
        MUST(vt_iteration_end(w->runtime) == VT_OK);
    }
    settle(w, ended);
}

/* ---- between iterations ------------------------------------------------------------------------- */

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
    if (status != VT_OK) {
        MUST(status == VT_ERROR_BUDGET || status == VT_ERROR_LOST);
        return;
    }
    MUST(!w->pinned[which] || w->pins[which] == pointer);
    adopt(&w->tensors[which], pointer);
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

static void between(world *w)
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

/* Iterations, frozen ones among them, of all inputs so far. */
static uint64_t ran, ran_frozen, ran_diverged;

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const policies[] = {"vtensor", "whole", "lru", NULL};
    static const char *const folder = ".";
    world *w = (world *)calloc(1, sizeof *w);
    vt_stats stats;
    unsigned which, i;

    MUST(w != NULL);
    w->in.data = data;
    w->in.size = size;
    MUST(vt_config_init(&w->config) == VT_OK);
    w->config.budget_bytes = (uint64_t)(next(&w->in) % 24 + 8) * PAGE;
    w->config.warmup_iterations = 2;
    w->config.page_bytes = next(&w->in) % 2 ? PAGE : 0;
    w->config.policy = policies[next(&w->in) % 4];
    w->config.flags = VT_CONFIG_SPILL_IN_MEMORY;
    w->config.spill_dir = chance(&w->in, 32) ? folder : NULL;
    w->fixing = chance(&w->in, 64);
    w->config.flags |= chance(&w->in, 128) ? VT_CONFIG_SPILL_MODEL : 0;
    MUST(vt_runtime_create(&w->config, &w->runtime) == VT_OK);
    for (which = 0; which < KEPT; ++which)
        create(w, which, some_bytes(&w->in));
    for (i = 0; i < ITERATIONS && !over(&w->in); ++i) {
        unsigned kind = next(&w->in) % (chance(&w->in, 64) ? KINDS : 1);
        iterate(w, kind, chance(&w->in, 32));
        while (chance(&w->in, 48))
            between(w);
    }
    stats.size = sizeof stats;
    MUST(vt_runtime_stats(w->runtime, &stats) == VT_OK);
    ran += stats.recorded_iterations + stats.frozen_iterations;
    ran_frozen += stats.frozen_iterations;
    ran_diverged += stats.divergences;
    for (which = 0; which < KEPT; ++which) {
        compare(w, which);
        forget(&w->tensors[which]);
    }
    vt_runtime_destroy(w->runtime);
    MUST(vt_sync(w->runtime) == VT_ERROR_NOT_FOUND);
    free(w);
    return 0;
}

#ifndef LIBFUZZER

static void run_file(const char *path)
{
    static uint8_t data[1 << 16];
    FILE *file = fopen(path, "rb");
    size_t size;

    if (file == NULL) {
        perror(path);
        exit(2);
    }
    size = fread(data, 1, sizeof data, file);
    fclose(file);
    LLVMFuzzerTestOneInput(data, size);
}

int main(int argc, char **argv)
{
    static uint8_t data[1 << 10];
    char *end = NULL;
    double seconds = argc > 1 ? strtod(argv[1], &end) : 0;
    uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)time(NULL), inputs = 0;
    time_t begun = time(NULL);
    int i;

    if (argc > 1 && *end != '\0') {
        for (i = 1; i < argc; ++i)
            run_file(argv[i]);
        return 0;
    }
    do {
        uint64_t state = seed * 0x9e3779b97f4a7c15u + 1;
        size_t at;
        for (at = 0; at < sizeof data; ++at) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            data[at] = (uint8_t)(state >> 32);
        }
        /* Known before anything goes wrong, so that it can be run again alone. */
        if (argc > 2 || inputs == 0)
            fprintf(stderr, "fuzz: seed %" PRIu64 "\n", seed);
        LLVMFuzzerTestOneInput(data, sizeof data);
        ++inputs;
        ++seed;
    } while (difftime(time(NULL), begun) < seconds);
    printf("fuzz: %" PRIu64 " inputs, %" PRIu64 " iterations, %" PRIu64 " frozen, %" PRIu64
           " left their recording: all as the model says\n",
           inputs, ran, ran_frozen, ran_diverged);
    return 0;
}

#endif
