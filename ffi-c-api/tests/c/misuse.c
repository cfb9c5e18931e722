/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Every way to call the library wrongly that it can notice: the status and the words are checked,
 * nothing crashes, and the runtime works afterwards.
 */
#include <pthread.h>
#include <stdlib.h>

#include "app.h"

/* Calls everything that takes a runtime on one that must not be taken. */
static void every_call_refuses(vt_runtime *runtime, vt_status status, const char *words)
{
    vt_tensor_desc desc;
    vt_op_desc op = app_op("op", NULL, 0);
    vt_stats stats;
    vt_tensor_state state;
    void *pointer = NULL;
    vt_tensor tensor = 77;
    size_t bytes = 0;
    char byte = 0;

    memset(&desc, 0, sizeof desc);
    desc.size = sizeof desc;
    desc.bytes = 1;
    desc.kind = VT_KIND_BUFFER;
    state.size = sizeof state;
    state.content = 9;
    stats.size = sizeof stats;
    stats.divergences = 5;
    FAILS(vt_tensor_create(runtime, &desc, &tensor), status, words);
    CHECK(tensor == 77);
    FAILS(vt_tensor_destroy(runtime, 0), status, words);
    FAILS(vt_tensor_write(runtime, 0, 0, &byte, 1), status, words);
    FAILS(vt_tensor_read(runtime, 0, 0, &byte, 1), status, words);
    FAILS(vt_tensor_status(runtime, 0, &state), status, words);
    FAILS(vt_tensor_pin(runtime, 0, &pointer), status, words);
    FAILS(vt_tensor_unpin(runtime, 0), status, words);
    CHECK(pointer == NULL && state.content == 9);
    FAILS(vt_alloc(runtime, &desc, &pointer), status, words);
    FAILS(vt_free(runtime, &byte), status, words);
    FAILS(vt_touch(runtime, &pointer, 1), status, words);
    FAILS(vt_plan_save(runtime, "never.plan"), status, words);
    FAILS(vt_plan_save_key(runtime, 1, "never.plan"), status, words);
    FAILS(vt_plan_load(runtime, "never.plan"), status, words);
    FAILS(vt_plan_load_key(runtime, 1, "never.plan"), status, words);
    FAILS(vt_iteration_begin(runtime, 0), status, words);
    FAILS(vt_iteration_end(runtime), status, words);
    FAILS(vt_iteration_abort(runtime), status, words);
    FAILS(vt_op_begin(runtime, &op, NULL), status, words);
    FAILS(vt_op_end(runtime), status, words);
    FAILS(vt_sync(runtime), status, words);
    FAILS(vt_freeze(runtime), status, words);
    FAILS(vt_freeze_key(runtime, 1), status, words);
    FAILS(vt_trace_save(runtime, "never.json"), status, words);
    FAILS(vt_trace_save_key(runtime, 1, "never.json"), status, words);
    FAILS(vt_runtime_stats(runtime, &stats), status, words);
    CHECK(stats.divergences == 5);
    FAILS(vt_report(runtime, NULL, &bytes), status, words);
    CHECK(bytes == 0);
    if (status != VT_ERROR_BUSY)
        CHECK(vt_runtime_phase(runtime) == VT_PHASE_FAILED);
}

static void handles(void)
{
    app a = app_create(NULL, NULL);
    app b;

    every_call_refuses(NULL, VT_ERROR_INVALID_ARGUMENT, "runtime is NULL");
    every_call_refuses((vt_runtime *)(uintptr_t)8, VT_ERROR_NOT_FOUND, "is no runtime");
    every_call_refuses((vt_runtime *)(uintptr_t)-1, VT_ERROR_NOT_FOUND, "is no runtime");
    every_call_refuses((vt_runtime *)&a, VT_ERROR_NOT_FOUND, "is no runtime");
    vt_runtime_destroy(NULL);
    vt_runtime_destroy(a.runtime);
    every_call_refuses(a.runtime, VT_ERROR_NOT_FOUND, "destroyed");
    b = app_create(NULL, NULL); /* in the same place, but not the same */
    CHECK(b.runtime != a.runtime);
    every_call_refuses(a.runtime, VT_ERROR_NOT_FOUND, "destroyed");
    vt_runtime_destroy(a.runtime);
    app_iteration(&b, 1);
    vt_runtime_destroy(b.runtime);
    vt_runtime_destroy(b.runtime);
}

static void too_many_runtimes(void)
{
    enum { MAX = 64 };
    vt_runtime *runtimes[MAX + 1];
    vt_config config;
    int i, made = 0;
    vt_status status = VT_OK;

    OK(vt_config_init(&config));
    config.budget_bytes = 1u << 16;
    for (i = 0; i <= MAX && status == VT_OK; ++i) {
        status = vt_runtime_create(&config, &runtimes[i]);
        made += status == VT_OK;
    }
    CHECK(made == MAX && status == VT_ERROR_UNSUPPORTED);
    for (i = 0; i < made; ++i)
        vt_runtime_destroy(runtimes[i]);
}

static void configurations(void)
{
    vt_runtime *runtime = NULL;
    vt_config good, config;

    OK(vt_config_init(&good));
    good.budget_bytes = 1u << 20;
    FAILS(vt_config_init(NULL), VT_ERROR_INVALID_ARGUMENT, "config is NULL");
    FAILS(vt_config_init_sized(&config, 0), VT_ERROR_INVALID_ARGUMENT, "sizeof(vt_config)");
    FAILS(vt_runtime_create(NULL, &runtime), VT_ERROR_INVALID_ARGUMENT, "config is NULL");
    FAILS(vt_runtime_create(&good, NULL), VT_ERROR_INVALID_ARGUMENT, "out is NULL");

#define REFUSED(member, value, status, words)                                                      \
    do {                                                                                           \
        config = good;                                                                             \
        config.member = (value);                                                                   \
        FAILS(vt_runtime_create(&config, &runtime), status, words);                                \
    } while (0)
    REFUSED(size, 0, VT_ERROR_INVALID_ARGUMENT, "sizeof(vt_config)");
    REFUSED(size, (size_t)-1, VT_ERROR_INVALID_ARGUMENT, "sizeof(vt_config)");
    REFUSED(budget_bytes, UINT64_MAX, VT_ERROR_NO_MEMORY, "memory");
    REFUSED(budget_bytes, (uint64_t)1 << 60, VT_ERROR_NO_MEMORY, "memory");
    REFUSED(page_bytes, 5000, VT_ERROR_INVALID_ARGUMENT, "page_bytes");
    REFUSED(page_bytes, UINT64_MAX, VT_ERROR_INVALID_ARGUMENT, "page_bytes");
    REFUSED(backend, VT_BACKEND_CUDA, VT_ERROR_UNSUPPORTED, "no CUDA backend");
    REFUSED(backend, 99, VT_ERROR_INVALID_ARGUMENT, "VT_BACKEND_*");
    REFUSED(mechanism, VT_MECHANISM_MANAGED, VT_ERROR_UNSUPPORTED, "mechanism");
    REFUSED(mechanism, 99, VT_ERROR_INVALID_ARGUMENT, "VT_MECHANISM_*");
    REFUSED(spill, 99, VT_ERROR_INVALID_ARGUMENT, "VT_SPILL_*");
    REFUSED(spill, VT_SPILL_FILE, VT_ERROR_INVALID_ARGUMENT, "spill_dir");
    REFUSED(spill_dir, "/no/such/folder", VT_ERROR_SYSTEM, "/no/such/folder");
    REFUSED(spill_dir, "\xff", VT_ERROR_INVALID_ARGUMENT, "UTF-8");
    REFUSED(warmup_iterations, 1, VT_ERROR_INVALID_ARGUMENT, "two equal iterations");
    REFUSED(compute_stream, &config, VT_ERROR_UNSUPPORTED, "streams");
    REFUSED(log_level, 99, VT_ERROR_INVALID_ARGUMENT, "VT_LOG_*");
    REFUSED(flags, 1, VT_ERROR_INVALID_ARGUMENT, "flags");
    REFUSED(policy, "best", VT_ERROR_INVALID_ARGUMENT, "`best`");
#undef REFUSED
    CHECK(runtime == NULL);
}

/* A struct from a newer header: refused only if it asks for what this version does not know. */
static void newer_structs(void)
{
    struct {
        vt_config config;
        uint64_t later;
    } newer;
    vt_runtime *runtime = NULL;
    struct {
        vt_stats stats;
        uint64_t later;
    } answer;

    OK(vt_config_init_sized(&newer.config, sizeof newer));
    CHECK(newer.later == 0);
    newer.config.budget_bytes = 1u << 20;
    newer.later = 1;
    FAILS(vt_runtime_create(&newer.config, &runtime), VT_ERROR_INVALID_ARGUMENT, "newer vTensor");
    newer.later = 0;
    OK(vt_runtime_create(&newer.config, &runtime));
    answer.stats.size = sizeof answer;
    answer.later = 9;
    OK(vt_runtime_stats(runtime, &answer.stats));
    CHECK(answer.stats.size == sizeof answer && answer.stats.arena_bytes == 1u << 20);
    CHECK(answer.later == 0);
    vt_runtime_destroy(runtime);
}

static void tensors(void)
{
    app a = app_create(NULL, NULL);
    vt_tensor_desc good, desc;
    vt_tensor tensor = 0, large;
    vt_tensor_state state;
    void *pointer = NULL;
    char bytes[16] = {0};
    char *name = (char *)malloc(5000);

    memset(&good, 0, sizeof good);
    good.size = sizeof good;
    good.bytes = 16;
    good.kind = VT_KIND_BUFFER;
    FAILS(vt_tensor_create(a.runtime, NULL, &tensor), VT_ERROR_INVALID_ARGUMENT, "desc is NULL");
    FAILS(vt_tensor_create(a.runtime, &good, NULL), VT_ERROR_INVALID_ARGUMENT, "out is NULL");
#define REFUSED(member, value, status, words)                                                      \
    do {                                                                                           \
        desc = good;                                                                               \
        desc.member = (value);                                                                     \
        FAILS(vt_tensor_create(a.runtime, &desc, &tensor), status, words);                         \
    } while (0)
    memset(name, 'x', 5000);
    name[4999] = '\0';
    REFUSED(size, 8, VT_ERROR_INVALID_ARGUMENT, "sizeof(vt_tensor_desc)");
    REFUSED(bytes, 0, VT_ERROR_INVALID_ARGUMENT, "0 bytes");
    REFUSED(bytes, UINT64_MAX, VT_ERROR_INVALID_ARGUMENT, "2^43");
    REFUSED(kind, 0, VT_ERROR_INVALID_ARGUMENT, "VT_KIND_*");
    REFUSED(kind, 99, VT_ERROR_INVALID_ARGUMENT, "VT_KIND_*");
    REFUSED(flags, VT_TENSOR_FIXED_ADDRESS, VT_ERROR_UNSUPPORTED, "VT_TENSOR_FIXED_ADDRESS");
    REFUSED(flags, 1u << 31, VT_ERROR_INVALID_ARGUMENT, "unknown bits");
    REFUSED(name, "\xc3(", VT_ERROR_INVALID_ARGUMENT, "UTF-8");
    REFUSED(name, name, VT_ERROR_INVALID_ARGUMENT, "shorter name");
#undef REFUSED
    free(name);
    CHECK(tensor == 0);

    tensor = app_tensor(a.runtime, NULL, 16, VT_KIND_BUFFER);
    FAILS(vt_tensor_write(a.runtime, tensor, 0, NULL, 1), VT_ERROR_INVALID_ARGUMENT, "NULL");
    FAILS(vt_tensor_read(a.runtime, tensor, 0, NULL, 1), VT_ERROR_INVALID_ARGUMENT, "NULL");
    OK(vt_tensor_write(a.runtime, tensor, 16, NULL, 0));
    OK(vt_tensor_read(a.runtime, tensor, 16, NULL, 0));
    FAILS(vt_tensor_write(a.runtime, tensor, 1, bytes, 16), VT_ERROR_INVALID_ARGUMENT, "leave");
    FAILS(vt_tensor_read(a.runtime, tensor, 17, bytes, 0), VT_ERROR_INVALID_ARGUMENT, "leave");
    FAILS(vt_tensor_read(a.runtime, tensor, UINT64_MAX, bytes, 2), VT_ERROR_INVALID_ARGUMENT, "leave");
    FAILS(vt_tensor_read(a.runtime, tensor, 0, bytes, UINT64_MAX), VT_ERROR_INVALID_ARGUMENT, "bytes");
    FAILS(vt_tensor_read(a.runtime, tensor + 1, 0, bytes, 1), VT_ERROR_NOT_FOUND, "no tensor");
    FAILS(vt_tensor_read(a.runtime, UINT64_MAX, 0, bytes, 1), VT_ERROR_NOT_FOUND, "no tensor");
    state.size = sizeof state;
    FAILS(vt_tensor_status(a.runtime, tensor, NULL), VT_ERROR_INVALID_ARGUMENT, "out is NULL");
    FAILS(vt_tensor_status(a.runtime, 12345, &state), VT_ERROR_NOT_FOUND, "no tensor");
    FAILS(vt_tensor_pin(a.runtime, tensor, NULL), VT_ERROR_INVALID_ARGUMENT, "pointer_out is NULL");
    FAILS(vt_tensor_pin(a.runtime, 12345, &pointer), VT_ERROR_NOT_FOUND, "no tensor");
    FAILS(vt_tensor_unpin(a.runtime, 12345), VT_ERROR_NOT_FOUND, "no tensor");
    OK(vt_tensor_unpin(a.runtime, tensor));
    large = app_tensor(a.runtime, "large", 2 * APP_BUDGET, VT_KIND_BUFFER);
    FAILS(vt_tensor_pin(a.runtime, large, &pointer), VT_ERROR_BUDGET, "not pinned yet");
    OK(vt_tensor_destroy(a.runtime, large));
    FAILS(vt_alloc(a.runtime, NULL, &pointer), VT_ERROR_INVALID_ARGUMENT, "desc is NULL");
    FAILS(vt_alloc(a.runtime, &good, NULL), VT_ERROR_INVALID_ARGUMENT, "pointer_out is NULL");
    FAILS(vt_alloc(a.runtime, &good, &pointer), VT_ERROR_UNSUPPORTED, "fixed windows");
    FAILS(vt_free(a.runtime, NULL), VT_ERROR_INVALID_ARGUMENT, "pointer is NULL");
    FAILS(vt_free(a.runtime, &good), VT_ERROR_UNSUPPORTED, "fixed windows");
    FAILS(vt_touch(a.runtime, NULL, 1), VT_ERROR_INVALID_ARGUMENT, "pointers is NULL");
    FAILS(vt_touch(a.runtime, &pointer, 1), VT_ERROR_UNSUPPORTED, "fixed windows");
    CHECK(pointer == NULL);
    OK(vt_tensor_destroy(a.runtime, tensor));
    FAILS(vt_tensor_destroy(a.runtime, tensor), VT_ERROR_NOT_FOUND, "destroyed");
    FAILS(vt_tensor_write(a.runtime, tensor, 0, bytes, 1), VT_ERROR_NOT_FOUND, "destroyed");
    app_iteration(&a, 1);
    vt_runtime_destroy(a.runtime);
}

static void order(void)
{
    app a = app_create(NULL, NULL);
    vt_access access = app_access(a.weight, VT_ACCESS_READ_WRITE);
    vt_op_desc op = app_op("op", &access, 1);
    void *pointer = NULL;
    vt_tensor_desc desc;
    vt_tensor tensor = 0;
    char byte = 0;

    memset(&desc, 0, sizeof desc);
    desc.size = sizeof desc;
    desc.bytes = 1;
    desc.kind = VT_KIND_ACTIVATION;
    FAILS(vt_iteration_end(a.runtime), VT_ERROR_ORDER, "outside an iteration");
    FAILS(vt_iteration_abort(a.runtime), VT_ERROR_ORDER, "outside an iteration");
    FAILS(vt_op_begin(a.runtime, &op, &pointer), VT_ERROR_ORDER, "begin an iteration");
    FAILS(vt_op_end(a.runtime), VT_ERROR_ORDER, "op_begin");
    FAILS(vt_freeze(a.runtime), VT_ERROR_ORDER, "no iteration has ended");
    FAILS(vt_trace_save(a.runtime, "never.json"), VT_ERROR_ORDER, "no iteration has ended");
    OK(vt_iteration_begin(a.runtime, 1));
    FAILS(vt_iteration_begin(a.runtime, 1), VT_ERROR_ORDER, "inside an iteration");
    FAILS(vt_op_end(a.runtime), VT_ERROR_ORDER, "op_begin");
    FAILS(vt_tensor_read(a.runtime, a.weight, 0, &byte, 1), VT_ERROR_ORDER, "inside");
    FAILS(vt_tensor_write(a.runtime, a.weight, 0, &byte, 1), VT_ERROR_ORDER, "inside");
    FAILS(vt_tensor_destroy(a.runtime, a.weight), VT_ERROR_ORDER, "outlives");
    FAILS(vt_freeze_key(a.runtime, 1), VT_ERROR_ORDER, "inside");
    OK(vt_tensor_create(a.runtime, &desc, &tensor));
    access = app_access(tensor, VT_ACCESS_READ);
    FAILS(vt_op_begin(a.runtime, &op, &pointer), VT_ERROR_ORDER, "nothing has written");
    access = app_access(a.weight, VT_ACCESS_READ_WRITE);
    OK(vt_op_begin(a.runtime, &op, &pointer));
    FAILS(vt_op_begin(a.runtime, &op, &pointer), VT_ERROR_ORDER, "inside an op");
    FAILS(vt_iteration_end(a.runtime), VT_ERROR_ORDER, "inside an op");
    FAILS(vt_tensor_create(a.runtime, &desc, &tensor), VT_ERROR_ORDER, "inside an op");
    FAILS(vt_tensor_destroy(a.runtime, tensor), VT_ERROR_ORDER, "inside an op");
    OK(vt_iteration_abort(a.runtime));
    FAILS(vt_tensor_read(a.runtime, a.weight, 0, &byte, 1), VT_ERROR_LOST, "lost");
    FAILS(vt_tensor_destroy(a.runtime, tensor), VT_ERROR_NOT_FOUND, "iteration is over");
    FAILS(vt_freeze_key(a.runtime, 1), VT_ERROR_PLAN, "two equal iterations");
    FAILS(vt_trace_save_key(a.runtime, 9, "never.json"), VT_ERROR_PLAN, "key 9");
    {
        static const char zeroes[APP_PAGE] = {0};
        OK(vt_tensor_write(a.runtime, a.weight, 0, zeroes, sizeof zeroes));
    }
    app_iteration(&a, 1);
    vt_runtime_destroy(a.runtime);
}

static void ops(void)
{
    app a = app_create(NULL, NULL);
    vt_access access = app_access(a.weight, VT_ACCESS_READ);
    vt_access twice[3];
    vt_op_desc good = app_op("op", &access, 1), op;
    void *pointers[3] = {NULL, NULL, NULL};
    vt_tensor large;

    OK(vt_iteration_begin(a.runtime, 1));
    FAILS(vt_op_begin(a.runtime, NULL, pointers), VT_ERROR_INVALID_ARGUMENT, "desc is NULL");
    FAILS(vt_op_begin(a.runtime, &good, NULL), VT_ERROR_INVALID_ARGUMENT, "pointers_out is NULL");
#define REFUSED(member, value, status, words)                                                      \
    do {                                                                                           \
        op = good;                                                                                 \
        op.member = (value);                                                                       \
        FAILS(vt_op_begin(a.runtime, &op, pointers), status, words);                               \
    } while (0)
    REFUSED(size, 16, VT_ERROR_INVALID_ARGUMENT, "sizeof(vt_op_desc)");
    REFUSED(accesses, NULL, VT_ERROR_INVALID_ARGUMENT, "accesses is NULL");
    REFUSED(access_count, (size_t)-1, VT_ERROR_INVALID_ARGUMENT, "access_count");
    REFUSED(stream, &op, VT_ERROR_UNSUPPORTED, "streams");
    REFUSED(phase, 99, VT_ERROR_INVALID_ARGUMENT, "VT_OP_*");
    REFUSED(flags, 1, VT_ERROR_INVALID_ARGUMENT, "flags");
    REFUSED(name, "\xf0", VT_ERROR_INVALID_ARGUMENT, "UTF-8");
#undef REFUSED
    access.mode = 0;
    FAILS(vt_op_begin(a.runtime, &good, pointers), VT_ERROR_INVALID_ARGUMENT, "VT_ACCESS_*");
    access.mode = VT_ACCESS_READ;
    access.reserved = 1;
    FAILS(vt_op_begin(a.runtime, &good, pointers), VT_ERROR_INVALID_ARGUMENT, "reserved");
    access.reserved = 0;
    access.tensor = 12345;
    FAILS(vt_op_begin(a.runtime, &good, pointers), VT_ERROR_NOT_FOUND, "no tensor");
    large = app_tensor(a.runtime, "large", 2 * APP_BUDGET, VT_KIND_ACTIVATION);
    access = app_access(large, VT_ACCESS_WRITE);
    FAILS(vt_op_begin(a.runtime, &good, pointers), VT_ERROR_BUDGET, "budget");
    CHECK(pointers[0] == NULL);

    /* A tensor that is named twice has one pointer. */
    twice[0] = app_access(a.weight, VT_ACCESS_READ);
    twice[1] = app_access(a.loss, VT_ACCESS_READ);
    twice[2] = app_access(a.weight, VT_ACCESS_READ_WRITE);
    op = app_op("twice", twice, 3);
    OK(vt_op_begin(a.runtime, &op, pointers));
    CHECK(pointers[0] != NULL && pointers[0] == pointers[2] && pointers[0] != pointers[1]);
    OK(vt_op_end(a.runtime));
    op = app_op(NULL, NULL, 0);
    OK(vt_op_begin(a.runtime, &op, NULL));
    OK(vt_op_end(a.runtime));
    OK(vt_tensor_destroy(a.runtime, large));
    OK(vt_iteration_end(a.runtime));
    app_iteration(&a, 2);
    vt_runtime_destroy(a.runtime);
}

/* A frozen program meets calls that were not recorded: it goes on, with the same bytes. */
static void frozen(void)
{
    app a = app_create(NULL, NULL);
    vt_stats stats;
    vt_access access = app_access(a.weight, VT_ACCESS_READ);
    vt_op_desc op = app_op("another", &access, 1);
    void *pointer = NULL;
    uint64_t loss;
    size_t bytes = 0, room;
    char *text;
    int i;

    for (i = 0; i < 4; ++i)
        app_iteration(&a, 1);
    CHECK(vt_runtime_phase(a.runtime) == VT_PHASE_FROZEN);
    loss = app_loss(&a);
    stats.size = sizeof stats;
    OK(vt_runtime_stats(a.runtime, &stats));
    CHECK(stats.frozen_iterations == 2 && stats.recorded_iterations == 2);
    CHECK(stats.moved_out_bytes > 0 && stats.moved_in_bytes > 0);
    FAILS(vt_op_end(a.runtime), VT_ERROR_ORDER, "op_begin");
    OK(vt_iteration_begin(a.runtime, 1));
    FAILS(vt_iteration_begin(a.runtime, 1), VT_ERROR_ORDER, "inside an iteration");
    FAILS(vt_op_end(a.runtime), VT_ERROR_ORDER, "op_begin");
    OK(vt_op_begin(a.runtime, &op, &pointer)); /* not what was recorded */
    OK(vt_op_end(a.runtime));
    OK(vt_iteration_end(a.runtime));
    OK(vt_runtime_stats(a.runtime, &stats));
    CHECK(stats.divergences == 1);
    CHECK(vt_runtime_phase(a.runtime) == VT_PHASE_RECORDING);
    for (i = 0; i < 3; ++i)
        app_iteration(&a, 1);
    CHECK(app_loss(&a) == loss);
    CHECK(vt_runtime_phase(a.runtime) == VT_PHASE_FROZEN);

    FAILS(vt_report(a.runtime, NULL, NULL), VT_ERROR_INVALID_ARGUMENT, "bytes is NULL");
    OK(vt_report(a.runtime, NULL, &bytes));
    CHECK(bytes > 200);
    text = (char *)malloc(bytes + 100);
    text[0] = 'x';
    room = 10;
    FAILS(vt_report(a.runtime, text, &room), VT_ERROR_BUFFER, "room for 10");
    CHECK(room > 200 && text[0] == 'x');
    room = bytes + 100;
    OK(vt_report(a.runtime, text, &room));
    CHECK(strlen(text) + 1 == room && strstr(text, "left its recording") != NULL);
    free(text);
    FAILS(vt_trace_save(a.runtime, NULL), VT_ERROR_INVALID_ARGUMENT, "path is NULL");
    FAILS(vt_trace_save(a.runtime, ""), VT_ERROR_INVALID_ARGUMENT, "path is empty");
    FAILS(vt_trace_save(a.runtime, "/no/such/folder/x.json"), VT_ERROR_SYSTEM, "/no/such/folder");
    OK(vt_freeze(a.runtime));
    FAILS(vt_plan_save(a.runtime, NULL), VT_ERROR_INVALID_ARGUMENT, "path is NULL");
    FAILS(vt_plan_save(a.runtime, "/no/such/folder/x"), VT_ERROR_SYSTEM, "/no/such/folder");
    FAILS(vt_plan_save_key(a.runtime, 9, "never.plan"), VT_ERROR_PLAN, "key 9");
    vt_runtime_destroy(a.runtime);
}

static void store(const char *path, const char *bytes, size_t count)
{
    FILE *file = fopen(path, "wb");

    CHECK(file != NULL && fwrite(bytes, 1, count, file) == count && fclose(file) == 0);
}

/* Plan files that are none, that are damaged, or that are another application's. */
static void foreign_plans(void)
{
    static const char *const path = "misuse.plan";
    app a = app_create(NULL, NULL);
    vt_tensor extra;
    char *bytes = (char *)malloc(1 << 20);
    size_t count, at;
    FILE *file;
    int i;

    for (i = 0; i < 3; ++i)
        app_iteration(&a, 7);
    OK(vt_plan_save(a.runtime, path));
    vt_runtime_destroy(a.runtime);
    file = fopen(path, "rb");
    CHECK(file != NULL);
    count = fread(bytes, 1, 1 << 20, file);
    CHECK(fclose(file) == 0 && count > 100);

    a = app_create(NULL, NULL);
    FAILS(vt_plan_load(a.runtime, NULL), VT_ERROR_INVALID_ARGUMENT, "path is NULL");
    FAILS(vt_plan_load(a.runtime, "/no/such/file"), VT_ERROR_SYSTEM, "/no/such/file");
    FAILS(vt_plan_load(a.runtime, "."), VT_ERROR_SYSTEM, "cannot be read");
    store(path, "hello", 5);
    FAILS(vt_plan_load(a.runtime, path), VT_ERROR_PLAN, "too short");
    store(path, "hello, this is not a plan", 25);
    FAILS(vt_plan_load(a.runtime, path), VT_ERROR_PLAN, "other bytes");
    for (at = 16; at < count; at += count / 64) {
        store(path, bytes, at);
        FAILS(vt_plan_load(a.runtime, path), VT_ERROR_PLAN, "cannot be loaded");
    }
    for (at = 16; at < count / 2; at += count / 64) {
        bytes[at] ^= 4;
        store(path, bytes, count);
        bytes[at] ^= 4;
        FAILS(vt_plan_load(a.runtime, path), VT_ERROR_PLAN, "cannot be loaded");
    }
    store(path, bytes, count);
    OK(vt_iteration_begin(a.runtime, 1));
    FAILS(vt_plan_load(a.runtime, path), VT_ERROR_ORDER, "inside");
    OK(vt_iteration_abort(a.runtime));
    OK(vt_tensor_destroy(a.runtime, a.weight));
    FAILS(vt_plan_load(a.runtime, path), VT_ERROR_PLAN, "create the tensors");
    a.weight = app_tensor(a.runtime, "weight", 2 * APP_PAGE, VT_KIND_PARAMETER);
    FAILS(vt_plan_load(a.runtime, path), VT_ERROR_PLAN, "create the tensors");
    OK(vt_tensor_destroy(a.runtime, a.weight));
    a.weight = app_tensor(a.runtime, "weight", APP_PAGE, VT_KIND_PARAMETER);
    OK(vt_plan_load(a.runtime, path));
    CHECK(vt_runtime_phase(a.runtime) == VT_PHASE_PLANNED);
    app_iteration(&a, 7);
    CHECK(vt_runtime_phase(a.runtime) == VT_PHASE_FROZEN);
    extra = app_tensor(a.runtime, "extra", 5, VT_KIND_BUFFER);
    OK(vt_tensor_destroy(a.runtime, extra));
    vt_runtime_destroy(a.runtime);
    CHECK(remove(path) == 0);
    free(bytes);
}

/* ---- two at once ------------------------------------------------------------------------------ */

typedef struct listener {
    app *application;
    int lines;
    int destroys;
} listener;

static void *meddle(void *user)
{
    every_call_refuses(((listener *)user)->application->runtime, VT_ERROR_BUSY, "is running");
    return NULL;
}

/* Called inside of a call: everything that is done here is at once with it. */
static void on_log(void *user, vt_log_level level, const char *source, const char *message)
{
    listener *self = (listener *)user;
    pthread_t thread;

    CHECK(level >= VT_LOG_ERROR && level <= VT_LOG_INFO);
    CHECK(strlen(source) > 0 && strlen(message) > 0);
    ++self->lines;
    if (self->application->runtime == NULL || self->destroys > 1)
        return; /* it is being created, or is gone */
    CHECK(vt_runtime_phase(self->application->runtime) <= VT_PHASE_FROZEN);
    every_call_refuses(self->application->runtime, VT_ERROR_BUSY, "is running");
    CHECK(pthread_create(&thread, NULL, meddle, user) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    if (self->destroys) {
        ++self->destroys;
        vt_runtime_destroy(self->application->runtime);
        every_call_refuses(self->application->runtime, VT_ERROR_NOT_FOUND, "destroyed");
    }
}

static void two_at_once(void)
{
    app a;
    listener self = {NULL, 0, 0};
    int i, lines;

    memset(&a, 0, sizeof a);
    self.application = &a;
    a = app_create(on_log, &self);
    CHECK(self.lines > 0);
    for (i = 0; i < 4; ++i)
        app_iteration(&a, 1);
    lines = self.lines;
    CHECK(lines > 1); /* it was frozen */
    for (i = 0; i < 4; ++i)
        app_iteration(&a, 1);
    CHECK(self.lines == lines); /* while it runs as recorded there is nothing to say */
    app_iteration(&a, 2);
    vt_runtime_destroy(a.runtime);
}

/* A runtime that is destroyed while a call runs on it is freed when that call ends. */
static void destroyed_by_another(void)
{
    app a;
    listener self = {NULL, 0, 0};
    int i;

    memset(&a, 0, sizeof a);
    self.application = &a;
    a = app_create(on_log, &self);
    for (i = 0; i < 2; ++i)
        app_iteration(&a, 1);
    self.destroys = 1;
    OK(vt_iteration_begin(a.runtime, 1)); /* freezes, says so, and is the last call */
    every_call_refuses(a.runtime, VT_ERROR_NOT_FOUND, "destroyed");
}

typedef struct racer {
    const app *application;
    int busy;
    int other;
} racer;

static void *race(void *user)
{
    racer *self = (racer *)user;
    char byte;
    int i;

    for (i = 0; i < 20000; ++i) {
        vt_status status = vt_tensor_read(self->application->runtime, self->application->weight,
                                          0, &byte, 1);
        self->busy += status == VT_ERROR_BUSY;
        self->other += status != VT_ERROR_BUSY && status != VT_OK;
    }
    return NULL;
}

static void racing(void)
{
    app a = app_create(NULL, NULL);
    racer racers[4];
    pthread_t threads[4];
    int i;

    for (i = 0; i < 4; ++i) {
        racers[i].application = &a;
        racers[i].busy = racers[i].other = 0;
        CHECK(pthread_create(&threads[i], NULL, race, &racers[i]) == 0);
    }
    for (i = 0; i < 4; ++i) {
        CHECK(pthread_join(threads[i], NULL) == 0);
        CHECK(racers[i].other == 0);
    }
    app_iteration(&a, 1);
    vt_runtime_destroy(a.runtime);
}

int main(void)
{
    handles();
    too_many_runtimes();
    configurations();
    newer_structs();
    tensors();
    order();
    ops();
    frozen();
    foreign_plans();
    two_at_once();
    destroyed_by_another();
    racing();
    return verdict("misuse");
}
