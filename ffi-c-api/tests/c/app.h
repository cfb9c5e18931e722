/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A small training step for the C tests: it uses every call of an application that behaves.
 */
#ifndef APP_H
#define APP_H

#include "check.h"

enum { APP_PAGE = 4096, APP_BUDGET = 20 * APP_PAGE, APP_LAYERS = 4 };

typedef struct app {
    vt_runtime *runtime;
    vt_tensor weight;
    vt_tensor loss;
} app;

static inline vt_tensor app_tensor(vt_runtime *runtime, const char *name, uint64_t bytes, vt_kind kind)
{
    vt_tensor_desc desc;
    vt_tensor tensor = 0;

    memset(&desc, 0, sizeof desc);
    desc.size = sizeof desc;
    desc.bytes = bytes;
    desc.kind = kind;
    desc.name = name;
    OK(vt_tensor_create(runtime, &desc, &tensor));
    return tensor;
}

static inline vt_access app_access(vt_tensor tensor, vt_access_mode mode)
{
    vt_access access;

    memset(&access, 0, sizeof access);
    access.tensor = tensor;
    access.mode = mode;
    return access;
}

static inline vt_op_desc app_op(const char *name, const vt_access *accesses, size_t count)
{
    vt_op_desc op;

    memset(&op, 0, sizeof op);
    op.size = sizeof op;
    op.name = name;
    op.accesses = accesses;
    op.access_count = count;
    return op;
}

/* A runtime with its persistent tensors. The callback may be NULL. */
static inline app app_create(vt_log_fn log, void *user)
{
    app made;
    vt_config config;

    memset(&made, 0, sizeof made);
    OK(vt_config_init(&config));
    config.budget_bytes = APP_BUDGET;
    config.warmup_iterations = 2;
    config.log = log;
    config.log_user = user;
    OK(vt_runtime_create(&config, &made.runtime));
    made.weight = app_tensor(made.runtime, "weight", APP_PAGE, VT_KIND_PARAMETER);
    made.loss = app_tensor(made.runtime, "loss", 8, VT_KIND_BUFFER);
    return made;
}

/* Runs an op that reads `from`, if it is not 0, and fills `to` with what follows from it. */
static inline void app_layer(const app *a, vt_tensor from, vt_tensor to, vt_access_mode mode)
{
    vt_access accesses[3];
    void *pointers[3];
    vt_op_desc op;
    size_t count = 0;
    uint64_t sum = 1;

    accesses[count++] = app_access(to, mode);
    accesses[count++] = app_access(a->weight, VT_ACCESS_READ);
    if (from != 0)
        accesses[count++] = app_access(from, VT_ACCESS_READ);
    op = app_op(mode == VT_ACCESS_WRITE ? "forward" : "backward", accesses, count);
    op.phase = mode == VT_ACCESS_WRITE ? VT_OP_FORWARD : VT_OP_BACKWARD;
    OK(vt_op_begin(a->runtime, &op, pointers));
    sum += *(const uint64_t *)pointers[1];
    if (from != 0)
        sum += *(const uint64_t *)pointers[2];
    if (mode == VT_ACCESS_WRITE)
        memset(pointers[0], (int)(sum & 0xff), (size_t)6 * APP_PAGE);
    *(uint64_t *)pointers[0] += sum;
    OK(vt_op_end(a->runtime));
}

/*
 * One iteration: forward through layers whose results do not fit into the budget together, and
 * backward through them. The loss depends on every byte that has to come back.
 */
static inline void app_iteration(const app *a, uint64_t key)
{
    vt_tensor results[APP_LAYERS];
    vt_access access[2];
    void *pointers[2];
    vt_op_desc op;
    int i;

    OK(vt_iteration_begin(a->runtime, key));
    for (i = 0; i < APP_LAYERS; ++i) {
        results[i] = app_tensor(a->runtime, "result", 6 * APP_PAGE, VT_KIND_ACTIVATION);
        app_layer(a, i > 0 ? results[i - 1] : 0, results[i], VT_ACCESS_WRITE);
    }
    for (i = APP_LAYERS; i-- > 0;) {
        app_layer(a, i + 1 < APP_LAYERS ? results[i + 1] : 0, results[i], VT_ACCESS_READ_WRITE);
        if (i + 1 < APP_LAYERS)
            OK(vt_tensor_destroy(a->runtime, results[i + 1]));
    }
    access[0] = app_access(results[0], VT_ACCESS_READ);
    access[1] = app_access(a->loss, VT_ACCESS_WRITE);
    op = app_op("loss", access, 2);
    OK(vt_op_begin(a->runtime, &op, pointers));
    memcpy(pointers[1], pointers[0], 8);
    OK(vt_op_end(a->runtime));
    OK(vt_tensor_destroy(a->runtime, results[0]));
    OK(vt_iteration_end(a->runtime));
}

/* The loss of the last iteration. */
static inline uint64_t app_loss(const app *a)
{
    uint64_t loss = 0;

    OK(vt_tensor_read(a->runtime, a->loss, 0, &loss, sizeof loss));
    return loss;
}

#endif /* APP_H */
