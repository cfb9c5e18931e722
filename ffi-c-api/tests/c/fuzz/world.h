/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The world of the fuzzer: a runtime, and a model that keeps every tensor in memory of its own.
 *
 * What an op or a read sees has to be what the model holds, and a call that has to fail has to fail.
 * The first thing that is not so ends the process.
 *
 *     input.c       the input, byte by byte
 *     shadow.c      tensors: what they have to hold
 *     script.c      kinds of iterations, written down
 *     op.c          ops, and touches of memory by address
 *     iteration.c   iterations that follow their script, or do not
 *     between.c     what an application does between iterations
 *     fuzz.c        the whole of it, and where inputs come from
 */
#ifndef WORLD_H
#define WORLD_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "vtensor.h"

enum {
    PAGE = 4096,
    KEPT = 5,    /* tensors that outlive iterations */
    PASSING = 6, /* tensors of an iteration */
    ALL = KEPT + PASSING,
    KINDS = 3,
    EVENTS = 32,
    USES = 4
};

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: does not hold: %s (last error: %s)\n", __FILE__, __LINE__,     \
                    #condition, vt_last_error());                                                  \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* The input; zeroes when it is over. */
typedef struct input {
    const uint8_t *data;
    size_t size, at;
} input;

/* A tensor, and what it has to hold. */
typedef struct shadow {
    int alive, written;
    vt_tensor id;
    /* Whether its address is for life, and what it is, once that was told. */
    int fixed;
    void *address;
    /* It was allocated, and so it is freed. */
    int allocated;
    size_t bytes;
    uint8_t *content;
    /* VT_CONTENT_* of each byte: torn as the model knows, lost as the library has said. */
    uint8_t *state;
} shadow;

/* One call of a script. */
typedef struct event {
    enum { CREATE, DESTROY, OP } what;
    unsigned tensor;
    size_t bytes;
    /* It is a touch, if all that it uses has an address for life. */
    int touches;
    unsigned count;
    unsigned uses[USES];
    vt_access_mode modes[USES];
} event;

/* A kind of iteration. */
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
    /* The op of a touch is open, and which that is. */
    int touching;
    event touched;
    uint64_t touches;
} world;

/* input.c */
unsigned next(input *in);
int over(const input *in);
/* Happens about `of_256` times in 256. */
int chance(input *in, unsigned of_256);
size_t some_bytes(input *in);

/* shadow.c */
/* Bytes that no two ops write alike. */
void fill(world *w, uint8_t *to, size_t bytes);
void create(world *w, unsigned which, size_t bytes);
void destroy(world *w, unsigned which);
void forget(shadow *s);
/* Whether any byte is lost or torn. */
int is_lost(const shadow *s);
/* Asks which bytes are lost: those that were, and no torn ones but those that an op was writing. */
void learn(world *w, shadow *s);
/* Reads a tensor between iterations, wherever it is not lost, and compares it. */
void compare(world *w, unsigned which);
/* Writes a part of a tensor, or all of it, between iterations. */
void overwrite(world *w, unsigned which);

/* script.c */
event some_op(world *w);
/* Writes a kind of iteration down: creations and ops, and in the end all destructions. */
void write_script(world *w, script *s);

/* op.c */
/* Runs an op; 0 if the iteration was given up in it. */
int run_op(world *w, const event *e);
/* What is being written when an iteration is given up is lost. */
void tear(world *w, const event *e);

/* iteration.c */
void iterate(world *w, unsigned kind, int disturbed);

/* between.c */
void between(world *w);

#endif /* WORLD_H */
