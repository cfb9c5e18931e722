/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What an application that behaves can do, beyond one runtime and one op: kinds of iterations, pins,
 * spill files, aborts, plans and traces that are saved and loaded.
 */
#include "app.h"

static vt_stats numbers(const app *a)
{
    vt_stats stats;

    stats.size = sizeof stats;
    OK(vt_runtime_stats(a->runtime, &stats));
    return stats;
}

/* What an iteration computes without a limit. */
static uint64_t unlimited_loss(void)
{
    app made;
    vt_config config;
    uint64_t loss;

    OK(vt_config_init(&config));
    OK(vt_runtime_create(&config, &made.runtime));
    made.weight = app_tensor(made.runtime, "weight", APP_PAGE, VT_KIND_PARAMETER);
    made.loss = app_tensor(made.runtime, "loss", 8, VT_KIND_BUFFER);
    app_iteration(&made, 1);
    loss = app_loss(&made);
    vt_runtime_destroy(made.runtime);
    return loss;
}

static void kinds_of_iterations(uint64_t loss)
{
    app a = app_create(NULL, NULL);
    vt_stats stats;
    int i;

    CHECK(vt_runtime_phase(a.runtime) == VT_PHASE_RECORDING);
    for (i = 0; i < 4; ++i) {
        app_iteration(&a, 1);
        CHECK(app_loss(&a) == loss);
        app_iteration(&a, UINT64_MAX);
        CHECK(app_loss(&a) == loss);
        if (i == 1)
            CHECK(vt_runtime_phase(a.runtime) == VT_PHASE_PLANNED);
    }
    CHECK(vt_runtime_phase(a.runtime) == VT_PHASE_FROZEN);
    stats = numbers(&a);
    CHECK(stats.recorded_iterations == 4 && stats.frozen_iterations == 4);
    CHECK(stats.divergences == 0 && stats.failed_copies == 0);
    CHECK(stats.switches > 0 && stats.planning_ns > 0);
    CHECK(stats.moved_out_bytes > 0 && stats.moved_in_bytes > 0);
    CHECK(stats.arena_bytes == APP_BUDGET && stats.program_bytes <= APP_BUDGET);
    CHECK(stats.program_out_bytes > 0 && stats.program_predicted_ns > 0);
    CHECK(stats.program_digest != 0 && stats.kept_bytes == 0);
    CHECK(stats.iteration_peak_bytes == (APP_LAYERS * 6 + 1) * APP_PAGE + 8);
    vt_runtime_destroy(a.runtime);
}

static void a_spill_file_and_policies(uint64_t loss)
{
    static const char *const policies[] = {"lru", "whole", "vtensor"};
    size_t policy;
    int i;

    for (policy = 0; policy < sizeof policies / sizeof policies[0]; ++policy) {
        app made;
        vt_config config;

        OK(vt_config_init(&config));
        config.budget_bytes = APP_BUDGET;
        config.spill_dir = ".";
        /* With all of them a model keeps its place, but for the last. */
        config.flags = VT_CONFIG_SPILL_IN_MEMORY | (policy == 0 ? VT_CONFIG_SPILL_READABLE : 0) |
                       (policy == 2 ? VT_CONFIG_SPILL_MODEL : 0);
        config.policy = policies[policy];
        config.warmup_iterations = 2;
        OK(vt_runtime_create(&config, &made.runtime));
        made.weight = app_tensor(made.runtime, "weight", APP_PAGE, VT_KIND_PARAMETER);
        made.loss = app_tensor(made.runtime, "loss", 8, VT_KIND_BUFFER);
        for (i = 0; i < 4; ++i) {
            app_iteration(&made, 1);
            CHECK(app_loss(&made) == loss);
        }
        CHECK(numbers(&made).frozen_iterations == 2);
        CHECK(numbers(&made).kept_bytes == (policy == 2 ? 0 : APP_PAGE + 512));
        vt_runtime_destroy(made.runtime);
    }
}

static void a_pinned_weight(void)
{
    app a = app_create(NULL, NULL);
    void *pointer = NULL, *again = NULL;
    unsigned char byte = 0;
    int i;

    OK(vt_tensor_pin(a.runtime, a.weight, &pointer));
    OK(vt_tensor_pin(a.runtime, a.weight, &again));
    CHECK(pointer == again && (uintptr_t)pointer % 512 == 0);
    for (i = 0; i < 4; ++i) {
        ((unsigned char *)pointer)[0] = (unsigned char)(i + 1);
        app_iteration(&a, 1);
        OK(vt_tensor_read(a.runtime, a.weight, 0, &byte, 1));
        CHECK(byte == i + 1);
    }
    CHECK(numbers(&a).frozen_iterations == 2);
    OK(vt_tensor_unpin(a.runtime, a.weight));
    app_iteration(&a, 1);
    OK(vt_tensor_read(a.runtime, a.weight, 0, &byte, 1));
    CHECK(byte == 4);
    vt_runtime_destroy(a.runtime);
}

/* Writes a weight that is torn again, from the middle on first. */
static void write_again(const app *a)
{
    static const char zeroes[APP_PAGE] = {0};
    vt_lost_range ranges[3];
    size_t count = 0, i;
    char byte = 1, bytes[2];

    OK(vt_tensor_write(a->runtime, a->weight, 100, zeroes, 900));
    OK(vt_tensor_lost(a->runtime, a->weight, NULL, &count));
    CHECK(count == 2);
    count = 1;
    ranges[0].bytes = 5;
    FAILS(vt_tensor_lost(a->runtime, a->weight, ranges, &count), VT_ERROR_BUFFER, "2 ranges");
    CHECK(count == 2 && ranges[0].bytes == 5);
    count = 3;
    OK(vt_tensor_lost(a->runtime, a->weight, ranges, &count));
    CHECK(count == 2 && ranges[0].offset == 0 && ranges[0].bytes == 100);
    CHECK(ranges[1].offset == 1000 && ranges[1].bytes == APP_PAGE - 1000);
    CHECK(ranges[0].content == VT_CONTENT_TORN && ranges[0].reserved == 0);
    OK(vt_tensor_read(a->runtime, a->weight, 100, &byte, 1));
    CHECK(byte == 0);
    FAILS(vt_tensor_read(a->runtime, a->weight, 999, bytes, 2), VT_ERROR_LOST,
          "bytes 1000..1001 of tensor 'weight' were torn");
    for (i = 0; i < count; ++i)
        OK(vt_tensor_write(a->runtime, a->weight, ranges[i].offset, zeroes, ranges[i].bytes));
}

static void an_abort_in_the_middle(uint64_t loss)
{
    app a = app_create(NULL, NULL);
    vt_access access = app_access(a.weight, VT_ACCESS_READ_WRITE);
    vt_op_desc op = app_op("update", &access, 1);
    vt_tensor_state state;
    void *pointer = NULL;
    size_t count = 3;
    int i;

    state.size = sizeof state;
    for (i = 0; i < 3; ++i)
        app_iteration(&a, 1);
    OK(vt_iteration_begin(a.runtime, 1));
    OK(vt_op_begin(a.runtime, &op, &pointer));
    OK(vt_iteration_abort(a.runtime));
    OK(vt_tensor_status(a.runtime, a.weight, &state));
    CHECK(state.content == VT_CONTENT_TORN && state.size == sizeof state && state.written == 1);
    CHECK(state.lost_bytes == APP_PAGE && state.lost_ranges == 1);
    OK(vt_tensor_status(a.runtime, a.loss, &state));
    CHECK(state.content == VT_CONTENT_INTACT && state.lost_bytes == 0 && state.lost_ranges == 0);
    CHECK(state.written == 0);
    OK(vt_tensor_lost(a.runtime, a.loss, NULL, &count));
    CHECK(count == 0);
    CHECK(app_loss(&a) == loss);
    write_again(&a);
    OK(vt_tensor_status(a.runtime, a.weight, &state));
    CHECK(state.content == VT_CONTENT_INTACT && state.lost_bytes == 0);
    /* A program that was built when the struct ended there. */
    state.size = 16;
    state.lost_bytes = 77;
    OK(vt_tensor_status(a.runtime, a.weight, &state));
    CHECK(state.size == 16 && state.lost_bytes == 77);
    for (i = 0; i < 3; ++i)
        app_iteration(&a, 1);
    CHECK(app_loss(&a) == loss && numbers(&a).aborted_iterations == 1);
    vt_runtime_destroy(a.runtime);
}

static void a_shipped_plan(uint64_t loss)
{
    static const char *const path = "works.plan";
    app a = app_create(NULL, NULL);
    vt_stats stats;
    uint64_t digest;
    int i;

    FAILS(vt_plan_save_key(a.runtime, 5, path), VT_ERROR_PLAN, "not frozen");
    for (i = 0; i < 3; ++i)
        app_iteration(&a, 5);
    digest = numbers(&a).program_digest;
    OK(vt_plan_save(a.runtime, path));
    OK(vt_trace_save(a.runtime, "works.json"));
    vt_runtime_destroy(a.runtime);

    a = app_create(NULL, NULL);
    OK(vt_plan_load(a.runtime, path));
    OK(vt_plan_load_key(a.runtime, 6, path));
    for (i = 0; i < 2; ++i) {
        app_iteration(&a, 5);
        CHECK(app_loss(&a) == loss);
        CHECK(vt_runtime_phase(a.runtime) == VT_PHASE_FROZEN);
        app_iteration(&a, 6);
        CHECK(app_loss(&a) == loss);
    }
    stats = numbers(&a);
    CHECK(stats.recorded_iterations == 0 && stats.frozen_iterations == 4);
    CHECK(digest != 0 && stats.program_digest == digest);
    OK(vt_plan_save_key(a.runtime, 6, path));
    vt_runtime_destroy(a.runtime);
    CHECK(remove(path) == 0 && remove("works.json") == 0);
}

/* An integration that knows pointers only: they stay good while their pages move. */
static void raw_pointers(void)
{
    app a = app_create(NULL, NULL);
    vt_tensor_desc desc;
    void *layers[APP_LAYERS], *weight, *at[2], *first = NULL;
    vt_tensor handle;
    unsigned char byte = 0;
    int i, turn;

    memset(&desc, 0, sizeof desc);
    desc.size = sizeof desc;
    desc.bytes = APP_PAGE;
    desc.kind = VT_KIND_PARAMETER;
    OK(vt_alloc(a.runtime, &desc, &weight));
    desc.bytes = 6 * APP_PAGE;
    desc.kind = VT_KIND_ACTIVATION;
    for (turn = 0; turn < 5; ++turn) {
        OK(vt_iteration_begin(a.runtime, 9));
        for (i = 0; i < APP_LAYERS; ++i) {
            OK(vt_alloc(a.runtime, &desc, &layers[i]));
            CHECK(turn < 2 || i > 0 || first == NULL || layers[0] == first);
            if (i == 0)
                first = turn > 0 ? layers[0] : NULL;
            at[0] = layers[i];
            at[1] = weight;
            OK(vt_touch(a.runtime, at, 2));
            memset(layers[i], turn * 16 + i, (size_t)6 * APP_PAGE);
        }
        for (i = APP_LAYERS; i-- > 0;) {
            OK(vt_touch(a.runtime, &layers[i], 1));
            CHECK(*(unsigned char *)layers[i] == turn * 16 + i);
            CHECK(((unsigned char *)layers[i])[6 * APP_PAGE - 1] == turn * 16 + i);
            OK(vt_touch(a.runtime, &weight, 1));
            *(unsigned char *)weight = (unsigned char)(*(unsigned char *)weight + 1);
            OK(vt_free(a.runtime, layers[i]));
        }
        OK(vt_iteration_end(a.runtime));
    }
    CHECK(numbers(&a).frozen_iterations == 3 && numbers(&a).moved_in_bytes > 0);
    CHECK(numbers(&a).divergences == 0);
    OK(vt_tensor_at(a.runtime, weight, &handle));
    OK(vt_tensor_read(a.runtime, handle, 0, &byte, 1));
    CHECK(byte == 5 * APP_LAYERS);
    OK(vt_free(a.runtime, weight));
    vt_runtime_destroy(a.runtime);
}

/* A program that would write more to a disk than it may in a day does not begin. */
static void a_limit_of_what_is_written(void)
{
    vt_config config;
    app made;

    OK(vt_config_init(&config));
    config.budget_bytes = APP_BUDGET;
    config.spill_dir = ".";
    config.flags = VT_CONFIG_SPILL_IN_MEMORY;
    config.warmup_iterations = 2;
    config.spill_write_bytes_per_day_max = APP_PAGE;
    OK(vt_runtime_create(&config, &made.runtime));
    made.weight = app_tensor(made.runtime, "weight", APP_PAGE, VT_KIND_PARAMETER);
    made.loss = app_tensor(made.runtime, "loss", 8, VT_KIND_BUFFER);
    app_iteration(&made, 1);
    app_iteration(&made, 1);
    FAILS(vt_iteration_begin(made.runtime, 1), VT_ERROR_BUDGET, "4 KiB are allowed");
    CHECK(app_loss(&made) != 0);
    vt_runtime_destroy(made.runtime);
}

/* "As much as you like" is no reason to refuse. */
static void a_spill_tier_without_a_limit(uint64_t loss)
{
    app made;
    vt_config config;

    OK(vt_config_init(&config));
    config.budget_bytes = APP_BUDGET;
    config.spill_bytes_max = UINT64_MAX;
    OK(vt_runtime_create(&config, &made.runtime));
    made.weight = app_tensor(made.runtime, "weight", APP_PAGE, VT_KIND_PARAMETER);
    made.loss = app_tensor(made.runtime, "loss", 8, VT_KIND_BUFFER);
    app_iteration(&made, 1);
    CHECK(app_loss(&made) == loss);
    vt_runtime_destroy(made.runtime);
}

static void freezing_by_hand(void)
{
    app made;
    vt_config config;

    OK(vt_config_init(&config));
    config.budget_bytes = APP_BUDGET;
    config.warmup_iterations = 100;
    OK(vt_runtime_create(&config, &made.runtime));
    made.weight = app_tensor(made.runtime, "weight", APP_PAGE, VT_KIND_PARAMETER);
    made.loss = app_tensor(made.runtime, "loss", 8, VT_KIND_BUFFER);
    app_iteration(&made, 1);
    FAILS(vt_freeze(made.runtime), VT_ERROR_PLAN, "two equal iterations");
    app_iteration(&made, 1);
    CHECK(vt_runtime_phase(made.runtime) == VT_PHASE_RECORDING);
    OK(vt_freeze(made.runtime));
    CHECK(vt_runtime_phase(made.runtime) == VT_PHASE_FROZEN);
    OK(vt_freeze_key(made.runtime, 1));
    app_iteration(&made, 1);
    CHECK(numbers(&made).frozen_iterations == 1);
    vt_runtime_destroy(made.runtime);
}

static void count_lines(void *user, vt_log_level level, const char *source, const char *message)
{
    unsigned *lines = (unsigned *)user;

    CHECK(level >= VT_LOG_ERROR && level <= VT_LOG_TRACE && *source != 0 && *message != 0);
    ++lines[level];
}

/* Nothing that is less important than what was asked for is said. */
static void levels_of_logging(void)
{
    vt_log_level level;
    int i;

    for (level = VT_LOG_ERROR; level <= VT_LOG_TRACE; ++level) {
        unsigned lines[VT_LOG_TRACE + 1] = {0};
        app made;
        vt_config config;

        OK(vt_config_init(&config));
        config.budget_bytes = APP_BUDGET;
        config.warmup_iterations = 2;
        config.log = count_lines;
        config.log_user = lines;
        config.log_level = level;
        OK(vt_runtime_create(&config, &made.runtime));
        made.weight = app_tensor(made.runtime, "weight", APP_PAGE, VT_KIND_PARAMETER);
        made.loss = app_tensor(made.runtime, "loss", 8, VT_KIND_BUFFER);
        for (i = 0; i < 3; ++i)
            app_iteration(&made, 1);
        vt_runtime_destroy(made.runtime);
        CHECK((lines[VT_LOG_INFO] > 0) == (level >= VT_LOG_INFO));
        for (i = (int)level + 1; i <= VT_LOG_TRACE; ++i)
            CHECK(lines[i] == 0);
    }
}

int main(void)
{
    uint64_t loss = unlimited_loss();

    kinds_of_iterations(loss);
    a_spill_file_and_policies(loss);
    a_pinned_weight();
    an_abort_in_the_middle(loss);
    a_shipped_plan(loss);
    raw_pointers();
    a_limit_of_what_is_written();
    a_spill_tier_without_a_limit(loss);
    freezing_by_hand();
    levels_of_logging();
    return verdict("works");
}
