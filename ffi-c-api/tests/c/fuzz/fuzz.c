/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Random sequences of calls against a model.
 *
 *     fuzz SECONDS [SEED]     random inputs until the time is over; prints the seed of a failure
 *     fuzz FILE...            inputs from files
 *
 * With -DLIBFUZZER it has no main, for -fsanitize=fuzzer. An input is a program: it writes a few
 * kinds of iterations, repeats them so that they are frozen, and disturbs them: calls that were not
 * recorded, aborts, misuse, tensors that come and go, pins, plans that are saved and loaded.
 */
#include <time.h>

#include "world.h"

enum { ITERATIONS = 100 };

/* Iterations, frozen ones among them, and touches, of all inputs so far. */
static uint64_t ran, ran_frozen, ran_diverged, touches;

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
    w->fixing = chance(&w->in, 128);
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
    touches += w->touches;
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
           " left their recording, %" PRIu64 " touches: all as the model says\n",
           inputs, ran, ran_frozen, ran_diverged, touches);
    return 0;
}

#endif
