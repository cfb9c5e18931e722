/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What vt_op_begin() and vt_op_end() cost in an iteration that a frozen program runs, when nothing
 * moves; and how often they allocate, which has to be never.
 *
 *     latency [ROUNDS]
 *
 * Each round is an iteration of OPS ops; its mean is one sample. Exits with 1 if an op of a frozen
 * iteration has allocated. Times are printed, not judged: that depends on the machine.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#include "check.h"

enum { OPS = 1000, ROUNDS_MAX = 10000 };

/* ---- counting allocations: in the program, so that the library's calls come here, too ---------- */

void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *block, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

static volatile uint64_t allocations = 0;

void *malloc(size_t bytes)
{
    ++allocations;
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
    ++allocations;
    return __libc_calloc(count, bytes);
}

void *realloc(void *block, size_t bytes)
{
    ++allocations;
    return __libc_realloc(block, bytes);
}

int posix_memalign(void **out, size_t alignment, size_t bytes)
{
    ++allocations;
    *out = __libc_memalign(alignment, bytes);
    return *out == NULL ? 12 : 0;
}

/* ---- the measurement --------------------------------------------------------------------------- */

static uint64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static vt_tensor tensor(vt_runtime *runtime, const char *name)
{
    vt_tensor_desc desc;
    vt_tensor made = 0;

    memset(&desc, 0, sizeof desc);
    desc.size = sizeof desc;
    desc.bytes = 16384;
    desc.kind = VT_KIND_PARAMETER;
    desc.name = name;
    OK(vt_tensor_create(runtime, &desc, &made));
    return made;
}

/* An iteration; answers nanoseconds for each op. */
static double round_ns(vt_runtime *runtime, const vt_op_desc *op)
{
    void *pointers[4];
    uint64_t begun, ended;
    vt_status status = VT_OK;
    int i;

    OK(vt_iteration_begin(runtime, 1));
    begun = now_ns();
    for (i = 0; i < OPS; ++i) {
        status |= vt_op_begin(runtime, op, pointers);
        status |= vt_op_end(runtime);
    }
    ended = now_ns();
    CHECK(status == VT_OK);
    OK(vt_iteration_end(runtime));
    return (double)(ended - begun) / OPS;
}

int main(int argc, char **argv)
{
    static double samples[ROUNDS_MAX];
    int rounds = argc > 1 ? atoi(argv[1]) : 1000;
    size_t accesses;

    if (rounds < 1 || rounds > ROUNDS_MAX)
        return fprintf(stderr, "latency: from 1 to %d rounds\n", (int)ROUNDS_MAX), 1;
    for (accesses = 1; accesses <= 4; accesses *= 2) {
        vt_runtime *runtime = NULL;
        vt_config config;
        vt_access uses[4];
        vt_op_desc op;
        vt_stats stats;
        uint64_t before, counted;
        size_t at;
        int i;

        OK(vt_config_init(&config));
        config.budget_bytes = 1u << 20;
        OK(vt_runtime_create(&config, &runtime));
        memset(uses, 0, sizeof uses);
        for (at = 0; at < accesses; ++at) {
            uses[at].tensor = tensor(runtime, "weight");
            uses[at].mode = at == 0 ? VT_ACCESS_READ_WRITE : VT_ACCESS_READ;
        }
        memset(&op, 0, sizeof op);
        op.size = sizeof op;
        op.name = "aten::add.Tensor";
        op.accesses = uses;
        op.access_count = accesses;
        for (i = 0; i < 5; ++i)
            round_ns(runtime, &op);
        CHECK(vt_runtime_phase(runtime) == VT_PHASE_FROZEN);
        before = allocations;
        for (i = 0; i < rounds; ++i)
            samples[i] = round_ns(runtime, &op);
        counted = allocations - before;
        CHECK(counted == 0);
        stats.size = sizeof stats;
        OK(vt_runtime_stats(runtime, &stats));
        CHECK(stats.frozen_iterations >= (uint64_t)rounds && stats.stall_ns == 0);
        qsort(samples, (size_t)rounds, sizeof samples[0], by_size);
        printf("op_begin + op_end, frozen, %u accesses: median %.1f ns, least %.1f, 99%% below "
               "%.1f; %" PRIu64 " allocations in %d ops\n",
               (unsigned)accesses, samples[rounds / 2], samples[0],
               samples[rounds - 1 - rounds / 100], counted, rounds * OPS);
        vt_runtime_destroy(runtime);
    }
    return verdict("latency");
}
