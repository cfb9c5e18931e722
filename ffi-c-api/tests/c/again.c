/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Ops that may run again: under every method the results are those without a limit, to the bit.
 */
#include "app.h"

enum { LAYERS = 6, NUMBERS = 10240, SMALL = 512, BYTES = NUMBERS * 8 };

/* What a layer's callback is handed: it lives as long as its iteration. */
typedef struct layer {
    uint64_t salt;
    int has_input;
    /* How often the callback was called, and when it fails, counted from 1; 0: never. */
    int calls;
    int failing;
} layer;

typedef struct net {
    vt_runtime *runtime;
    vt_tensor weight;
    vt_tensor statistic;
    vt_tensor loss;
    layer layers[LAYERS];
} net;

/* Output, weight, statistic, and an input if there is one. The statistic changes nothing else. */
static void compute(const layer *of, void *const *pointers)
{
    uint64_t *out = (uint64_t *)pointers[0];
    const uint64_t *weight = (const uint64_t *)pointers[1];
    uint64_t *statistic = (uint64_t *)pointers[2];
    const uint64_t *in = of->has_input ? (const uint64_t *)pointers[3] : NULL;
    size_t i;

    for (i = 0; i < NUMBERS; ++i)
        out[i] = (in != NULL ? in[i] * 3 : i) + weight[i % SMALL] + of->salt;
    statistic[0] += out[7];
}

static vt_status again(void *user, void *const *pointers)
{
    layer *of = (layer *)user;

    ++of->calls;
    if (of->failing == of->calls)
        return VT_ERROR_SYSTEM;
    compute(of, pointers);
    return VT_OK;
}

static net create(uint64_t budget, vt_methods methods, uint32_t flags)
{
    net made;
    vt_config config;
    int i;

    memset(&made, 0, sizeof made);
    OK(vt_config_init(&config));
    config.budget_bytes = budget;
    config.warmup_iterations = 2;
    config.methods = methods;
    config.flags = flags;
    OK(vt_runtime_create(&config, &made.runtime));
    made.weight = app_tensor(made.runtime, "weight", SMALL * 8, VT_KIND_PARAMETER);
    made.statistic = app_tensor(made.runtime, "statistic", 8, VT_KIND_BUFFER);
    made.loss = app_tensor(made.runtime, "loss", 8, VT_KIND_BUFFER);
    for (i = 0; i < LAYERS; ++i) {
        made.layers[i].salt = (uint64_t)i + 1;
        made.layers[i].has_input = i > 0;
    }
    return made;
}

/* The status of the first call that fails; then the iteration is aborted. */
static vt_status iteration(net *n)
{
    vt_tensor results[LAYERS];
    vt_access accesses[4];
    void *pointers[4];
    vt_status status = VT_OK;
    vt_op_desc op;
    int i;

    OK(vt_iteration_begin(n->runtime, 1));
    for (i = 0; i < LAYERS; ++i) {
        results[i] = app_tensor(n->runtime, "result", BYTES, VT_KIND_ACTIVATION);
        accesses[0] = app_access(results[i], VT_ACCESS_WRITE);
        accesses[1] = app_access(n->weight, VT_ACCESS_READ);
        accesses[2] = app_access(n->statistic, VT_ACCESS_READ_WRITE);
        accesses[3] = app_access(i > 0 ? results[i - 1] : 0, VT_ACCESS_READ);
        op = app_op("forward", accesses, i > 0 ? 4 : 3);
        op.replay = again;
        op.user = &n->layers[i];
        OK(vt_op_begin(n->runtime, &op, pointers));
        compute(&n->layers[i], pointers);
        OK(vt_op_end(n->runtime));
    }
    for (i = LAYERS; i-- > 0;) {
        accesses[0] = app_access(results[i], VT_ACCESS_READ);
        accesses[1] = app_access(n->weight, VT_ACCESS_READ_WRITE);
        accesses[2] = app_access(n->loss, VT_ACCESS_READ_WRITE);
        op = app_op("backward", accesses, 3);
        op.phase = VT_OP_BACKWARD;
        /* The weight changes at the very end: what runs again reads it. */
        if (i > 0)
            accesses[1].mode = VT_ACCESS_READ;
        status = vt_op_begin(n->runtime, &op, pointers);
        if (status != VT_OK) {
            CHECK(strstr(vt_last_error(), "its callback returned an error") != NULL);
            OK(vt_iteration_abort(n->runtime));
            return status;
        }
        {
            const uint64_t *result = (const uint64_t *)pointers[0];
            uint64_t *loss = (uint64_t *)pointers[2];
            size_t at;

            for (at = 0; at < NUMBERS; ++at)
                *loss = *loss * 31 + result[at];
            if (i == 0)
                ((uint64_t *)pointers[1])[3] += *loss;
        }
        OK(vt_op_end(n->runtime));
        OK(vt_tensor_destroy(n->runtime, results[i]));
    }
    OK(vt_iteration_end(n->runtime));
    return status;
}

/* Everything that lasts. */
static uint64_t state(const net *n)
{
    uint64_t words[SMALL + 2] = {0};
    uint64_t sum = 0;
    size_t i;

    OK(vt_tensor_read(n->runtime, n->weight, 0, words, SMALL * 8));
    OK(vt_tensor_read(n->runtime, n->statistic, 0, &words[SMALL], 8));
    OK(vt_tensor_read(n->runtime, n->loss, 0, &words[SMALL + 1], 8));
    for (i = 0; i < SMALL + 2; ++i)
        sum = sum * 0x9e3779b97f4a7c15u + words[i];
    return sum;
}

static vt_stats numbers(const net *n)
{
    vt_stats stats;

    stats.size = sizeof stats;
    OK(vt_runtime_stats(n->runtime, &stats));
    return stats;
}

/* Four of the six results fit. */
static const uint64_t budget = 4 * BYTES + 24 * 1024;

static void results_are_the_same(void)
{
    static const vt_methods methods[] = {VT_METHODS_SWAP, VT_METHODS_RECOMPUTE, VT_METHODS_BOTH,
                                         VT_METHODS_DEFAULT};
    net unlimited = create(0, VT_METHODS_DEFAULT, 0);
    uint64_t wanted;
    size_t at;
    int i;

    for (i = 0; i < 6; ++i)
        OK(iteration(&unlimited));
    wanted = state(&unlimited);
    vt_runtime_destroy(unlimited.runtime);
    for (at = 0; at < sizeof methods / sizeof methods[0]; ++at) {
        net n = create(budget, methods[at], VT_CONFIG_CHECK_REPLAYS);
        vt_stats stats;

        for (i = 0; i < 6; ++i)
            OK(iteration(&n));
        CHECK(state(&n) == wanted);
        stats = numbers(&n);
        CHECK(stats.frozen_iterations == 4 && stats.divergences == 0);
        if (methods[at] == VT_METHODS_SWAP)
            CHECK(stats.recomputed_bytes == 0 && stats.program_out_bytes > 0);
        if (methods[at] == VT_METHODS_RECOMPUTE) {
            CHECK(stats.recomputed_bytes >= 4 * BYTES && stats.recompute_ns > 0);
            CHECK(stats.program_out_bytes == 0 && stats.program_in_bytes == 0);
        }
        vt_runtime_destroy(n.runtime);
    }
}

/* A callback that fails stops the program, and no more than what it was to compute is lost. */
static void a_callback_fails(void)
{
    net n = create(budget, VT_METHODS_RECOMPUTE, 0);
    vt_stats stats;
    int i;

    for (i = 0; i < 3; ++i)
        OK(iteration(&n));
    for (i = 0; i < LAYERS; ++i)
        n.layers[i].failing = n.layers[i].calls + 1;
    CHECK(iteration(&n) == VT_ERROR_LOST);
    for (i = 0; i < LAYERS; ++i)
        n.layers[i].failing = 0;
    for (i = 0; i < 3; ++i)
        OK(iteration(&n));
    CHECK(state(&n) != 0);
    stats = numbers(&n);
    CHECK(stats.aborted_iterations == 1 && stats.divergences == 1);
    vt_runtime_destroy(n.runtime);
}

/* One that does not compute the same again is found by the check, and is not run again. */
static vt_status wrong(void *user, void *const *pointers)
{
    ++((layer *)user)->calls;
    compute((layer *)user, pointers);
    ((uint64_t *)pointers[0])[NUMBERS - 1] ^= 1;
    return VT_OK;
}

static void a_check_finds_what_is_wrong(void)
{
    static char text[1 << 16];
    net n = create(budget, VT_METHODS_BOTH, VT_CONFIG_CHECK_REPLAYS);
    size_t bytes = sizeof text;
    int i, calls = 0;

    for (i = 0; i < 4; ++i) {
        vt_tensor result;
        vt_access accesses[3];
        void *pointers[3];
        vt_op_desc op;

        OK(vt_iteration_begin(n.runtime, 1));
        result = app_tensor(n.runtime, "result", BYTES, VT_KIND_ACTIVATION);
        accesses[0] = app_access(result, VT_ACCESS_WRITE);
        accesses[1] = app_access(n.weight, VT_ACCESS_READ);
        accesses[2] = app_access(n.statistic, VT_ACCESS_READ_WRITE);
        op = app_op("careless", accesses, 3);
        op.replay = wrong;
        op.user = &n.layers[0];
        OK(vt_op_begin(n.runtime, &op, pointers));
        compute(&n.layers[0], pointers);
        OK(vt_op_end(n.runtime));
        OK(vt_tensor_destroy(n.runtime, result));
        OK(vt_iteration_end(n.runtime));
        if (i == 0)
            calls = n.layers[0].calls;
    }
    CHECK(calls == 1 && n.layers[0].calls == 1);
    OK(vt_report(n.runtime, text, &bytes));
    CHECK(strstr(text, "op \"careless\" left other bits when it ran again") != NULL);
    vt_runtime_destroy(n.runtime);
}

static void settings_are_checked(void)
{
    vt_runtime *runtime = NULL;
    vt_config config;

    OK(vt_config_init(&config));
    config.methods = 4;
    FAILS(vt_runtime_create(&config, &runtime), VT_ERROR_INVALID_ARGUMENT, "methods is 4");
    config.methods = VT_METHODS_SWAP;
    config.device = 1;
    FAILS(vt_runtime_create(&config, &runtime), VT_ERROR_UNSUPPORTED, "device");
}

int main(void)
{
    results_are_the_same();
    a_callback_fails();
    a_check_finds_what_is_wrong();
    settings_are_checked();
    return verdict("again");
}
