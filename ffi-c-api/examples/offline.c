/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Plans offline: one process records, plans and saves; another loads, and is frozen from its first
 * iteration on. Between the two the file can be shipped with the application.
 *
 *     offline plan FILE
 *     offline run FILE
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vtensor.h>

enum { STEPS = 6, FLOATS = 1 << 15, BUDGET = 4 * FLOATS * sizeof(float) + (1 << 16) };

/* The application's name for its one kind of iteration. */
static const uint64_t key = 2026;

static void must(vt_status status, const char *call)
{
    if (status != VT_OK) {
        fprintf(stderr, "%s: %s\n", call, vt_last_error());
        exit(1);
    }
}
#define MUST(call) must(call, #call)

static vt_tensor tensor(vt_runtime *runtime, const char *name, size_t floats, vt_kind kind)
{
    vt_tensor_desc desc = {
        .size = sizeof desc, .bytes = floats * sizeof(float), .kind = kind, .name = name};
    vt_tensor made;
    MUST(vt_tensor_create(runtime, &desc, &made));
    return made;
}

/* An op with up to three tensors: to += from scaled, or to = from scaled. */
static void add(vt_runtime *runtime, vt_tensor from, vt_tensor to, vt_access_mode mode)
{
    vt_access accesses[] = {{from, VT_ACCESS_READ, 0}, {to, mode, 0}};
    vt_op_desc op = {.size = sizeof op, .name = "add", .accesses = accesses, .access_count = 2};
    void *pointers[2];
    MUST(vt_op_begin(runtime, &op, pointers));
    const float *x = pointers[0];
    float *y = pointers[1];
    for (size_t at = 0; at < FLOATS; ++at)
        y[at] = (mode == VT_ACCESS_WRITE ? 0 : y[at]) + 0.5f * x[at];
    MUST(vt_op_end(runtime));
}

/* Results that are all needed again in the opposite order: more than the budget holds. */
static void iterate(vt_runtime *runtime, vt_tensor weight)
{
    vt_tensor results[STEPS];

    MUST(vt_iteration_begin(runtime, key));
    for (int i = 0; i < STEPS; ++i) {
        results[i] = tensor(runtime, "result", FLOATS, VT_KIND_ACTIVATION);
        add(runtime, i ? results[i - 1] : weight, results[i], VT_ACCESS_WRITE);
    }
    for (int i = STEPS; i-- > 0;) {
        add(runtime, results[i], weight, VT_ACCESS_READ_WRITE);
        MUST(vt_tensor_destroy(runtime, results[i]));
    }
    MUST(vt_iteration_end(runtime));
}

int main(int argc, char **argv)
{
    static float weight[FLOATS];
    vt_config config;
    vt_runtime *runtime;
    vt_stats stats = {.size = sizeof stats};
    const int run = argc == 3 && strcmp(argv[1], "run") == 0;

    if (!run && (argc != 3 || strcmp(argv[1], "plan") != 0))
        return fprintf(stderr, "usage: offline plan|run FILE\n"), 1;
    MUST(vt_config_init(&config));
    config.budget_bytes = BUDGET;
    MUST(vt_runtime_create(&config, &runtime));

    /* The tensors that outlive iterations come first, in the same order in both processes. */
    vt_tensor kept = tensor(runtime, "weight", FLOATS, VT_KIND_PARAMETER);
    for (size_t at = 0; at < FLOATS; ++at)
        weight[at] = (float)at;
    MUST(vt_tensor_write(runtime, kept, 0, weight, sizeof weight));

    if (run)
        MUST(vt_plan_load(runtime, argv[2]));
    for (int i = 0; i < 4; ++i)
        iterate(runtime, kept);
    if (!run)
        MUST(vt_plan_save(runtime, argv[2]));

    MUST(vt_runtime_stats(runtime, &stats));
    MUST(vt_tensor_read(runtime, kept, 0, weight, sizeof weight));
    printf("%s: %" PRIu64 " iterations recorded, %" PRIu64 " frozen, %" PRIu64
           " bytes moved out; weight[1000] is %.1f\n",
           argv[1], stats.recorded_iterations, stats.frozen_iterations, stats.moved_out_bytes,
           (double)weight[1000]);
    vt_runtime_destroy(runtime);
    return stats.frozen_iterations == (run ? 4 : 1) && stats.moved_out_bytes > 0 ? 0 : 1;
}
