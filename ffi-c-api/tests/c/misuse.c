/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Every way to call the library wrongly that it can notice: the status and the words are checked,
 * nothing crashes, and the runtime works afterwards.
 */
#include <stdlib.h>

#include "refuses.h"

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
    config.spill_bytes_max = 1u << 16;
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
    /* No driver, or one whose pages are larger than the budget. */
    REFUSED(backend, VT_BACKEND_CUDA, VT_ERROR_UNSUPPORTED, "cannot be used");
    REFUSED(backend, 99, VT_ERROR_INVALID_ARGUMENT, "VT_BACKEND_*");
    REFUSED(mechanism, VT_MECHANISM_MANAGED, VT_ERROR_UNSUPPORTED, "mechanism");
    REFUSED(mechanism, 99, VT_ERROR_INVALID_ARGUMENT, "VT_MECHANISM_*");
    REFUSED(spill, 99, VT_ERROR_INVALID_ARGUMENT, "VT_SPILL_*");
    REFUSED(spill, VT_SPILL_FILE, VT_ERROR_INVALID_ARGUMENT, "spill_dir");
    REFUSED(spill_dir, "/no/such/folder", VT_ERROR_SYSTEM, "/no/such/folder");
    REFUSED(spill_dir, "\xff", VT_ERROR_INVALID_ARGUMENT, "UTF-8");
    REFUSED(warmup_iterations, 1, VT_ERROR_INVALID_ARGUMENT, "two equal iterations");
    REFUSED(compute_stream, &config, VT_ERROR_UNSUPPORTED, "has neither");
    REFUSED(log_level, 99, VT_ERROR_INVALID_ARGUMENT, "VT_LOG_*");
    REFUSED(flags, 1u << 31, VT_ERROR_INVALID_ARGUMENT, "flags");
    REFUSED(spill_dir, "/proc", VT_ERROR_SYSTEM, "/proc");
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
    size_t count = 3;
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
    state.size = 8;
    FAILS(vt_tensor_status(a.runtime, tensor, &state), VT_ERROR_INVALID_ARGUMENT, "at least 16");
    FAILS(vt_tensor_lost(a.runtime, tensor, NULL, NULL), VT_ERROR_INVALID_ARGUMENT, "count is NULL");
    FAILS(vt_tensor_lost(a.runtime, tensor, (vt_lost_range *)(uintptr_t)4, &count),
          VT_ERROR_INVALID_ARGUMENT, "not aligned");
    FAILS(vt_tensor_lost(a.runtime, 12345, NULL, &count), VT_ERROR_NOT_FOUND, "no tensor");
    CHECK(count == 3);
    FAILS(vt_tensor_pin(a.runtime, tensor, NULL), VT_ERROR_INVALID_ARGUMENT, "pointer_out is NULL");
    FAILS(vt_tensor_pin(a.runtime, 12345, &pointer), VT_ERROR_NOT_FOUND, "no tensor");
    FAILS(vt_tensor_unpin(a.runtime, 12345), VT_ERROR_NOT_FOUND, "no tensor");
    OK(vt_tensor_unpin(a.runtime, tensor));
    large = app_tensor(a.runtime, "large", 2 * APP_BUDGET, VT_KIND_BUFFER);
    FAILS(vt_tensor_pin(a.runtime, large, &pointer), VT_ERROR_BUDGET, "not taken by others");
    OK(vt_tensor_destroy(a.runtime, large));
    FAILS(vt_alloc(a.runtime, NULL, &pointer), VT_ERROR_INVALID_ARGUMENT, "desc is NULL");
    FAILS(vt_alloc(a.runtime, &good, NULL), VT_ERROR_INVALID_ARGUMENT, "pointer_out is NULL");
    FAILS(vt_free(a.runtime, NULL), VT_ERROR_INVALID_ARGUMENT, "pointer is NULL");
    FAILS(vt_free(a.runtime, &good), VT_ERROR_NOT_FOUND, "was allocated at");
    FAILS(vt_touch(a.runtime, NULL, 1), VT_ERROR_INVALID_ARGUMENT, "pointers is NULL");
    FAILS(vt_touch(a.runtime, &pointer, 1), VT_ERROR_INVALID_ARGUMENT, "a pointer is NULL");
    FAILS(vt_touch(a.runtime, &pointer, SIZE_MAX), VT_ERROR_INVALID_ARGUMENT, "count is");
    FAILS(vt_touch(a.runtime, NULL, 0), VT_ERROR_ORDER, "outside an iteration");
    FAILS(vt_tensor_at(a.runtime, NULL, &tensor), VT_ERROR_INVALID_ARGUMENT, "pointer is NULL");
    FAILS(vt_tensor_at(a.runtime, &good, NULL), VT_ERROR_INVALID_ARGUMENT, "out is NULL");
    FAILS(vt_tensor_at(a.runtime, &good, &large), VT_ERROR_NOT_FOUND, "was allocated at");
    CHECK(pointer == NULL);
    OK(vt_alloc(a.runtime, &good, &pointer));
    FAILS(vt_touch(a.runtime, &pointer, 1), VT_ERROR_ORDER, "outside an iteration");
    pointer = (char *)pointer + 512;
    FAILS(vt_free(a.runtime, pointer), VT_ERROR_NOT_FOUND, "was allocated at");
    pointer = (char *)pointer - 512;
    OK(vt_free(a.runtime, pointer));
    FAILS(vt_free(a.runtime, pointer), VT_ERROR_NOT_FOUND, "was allocated at");
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
    FAILS(vt_tensor_read(a.runtime, a.weight, 7, &byte, 1), VT_ERROR_LOST,
          "bytes 7..8 of tensor 'weight' were torn");
    FAILS(vt_tensor_pin(a.runtime, a.weight, &pointer), VT_ERROR_LOST, "'weight' were torn");
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

/* The largest tensor that there can be, with a budget and without one. */
static void huge(void)
{
    const uint64_t bytes = (uint64_t)1 << 43;
    uint64_t budget;

    for (budget = 0; budget <= APP_BUDGET; budget += APP_BUDGET) {
        vt_config config;
        vt_runtime *runtime = NULL;
        vt_tensor tensor;
        vt_access access;
        vt_op_desc op;
        void *pointer = NULL;
        char byte = 1;

        OK(vt_config_init(&config));
        config.budget_bytes = budget;
        config.spill_bytes_max = 1u << 20;
        OK(vt_runtime_create(&config, &runtime));
        tensor = app_tensor(runtime, "huge", bytes, VT_KIND_BUFFER);
        OK(vt_tensor_read(runtime, tensor, bytes - 1, &byte, 1));
        CHECK(byte == 0);
        FAILS(vt_tensor_write(runtime, tensor, bytes - 1, &byte, 1), VT_ERROR_SPILL_FULL, "no room");
        FAILS(vt_tensor_pin(runtime, tensor, &pointer), VT_ERROR_BUDGET, "huge");
        access = app_access(tensor, VT_ACCESS_READ_WRITE);
        op = app_op("op", &access, 1);
        OK(vt_iteration_begin(runtime, 1));
        FAILS(vt_op_begin(runtime, &op, &pointer), VT_ERROR_BUDGET, "budget");
        OK(vt_iteration_end(runtime));
        CHECK(pointer == NULL);
        vt_runtime_destroy(runtime);
    }
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
    huge();
    return verdict("misuse");
}
