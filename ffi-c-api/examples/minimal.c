/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The smallest useful program: a sum over data that is twice as large as the memory that it gets.
 *
 *     cc minimal.c $(pkg-config --cflags --libs vtensor) -o minimal && ./minimal
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <vtensor.h>

enum { BLOCKS = 8, BLOCK_BYTES = 1 << 18, FLOATS = BLOCK_BYTES / 4 };

/* Every call says whether it worked; the detail is one call away. */
#define TRY(call)                                                                                  \
    do {                                                                                           \
        if ((call) != VT_OK)                                                                       \
            return fprintf(stderr, "%s: %s\n", #call, vt_last_error()), 1;                         \
    } while (0)

int main(void)
{
    vt_config config;
    vt_runtime *runtime;
    vt_tensor blocks[BLOCKS];
    vt_stats stats = {.size = sizeof stats};
    double sum = 0;

    TRY(vt_config_init(&config));
    config.budget_bytes = BLOCKS / 2 * BLOCK_BYTES;
    TRY(vt_runtime_create(&config, &runtime));

    for (int i = 0; i < BLOCKS; ++i) {
        vt_tensor_desc desc = {.size = sizeof desc, .bytes = BLOCK_BYTES, .kind = VT_KIND_BUFFER,
                               .name = "block"};
        TRY(vt_tensor_create(runtime, &desc, &blocks[i]));
    }
    for (int iteration = 0; iteration < 6; ++iteration) {
        sum = 0;
        TRY(vt_iteration_begin(runtime, 1));
        for (int i = 0; i < BLOCKS; ++i) {
            vt_access access = {.tensor = blocks[i], .mode = VT_ACCESS_READ_WRITE};
            vt_op_desc op = {.size = sizeof op, .name = "add", .accesses = &access,
                             .access_count = 1};
            void *pointer;
            TRY(vt_op_begin(runtime, &op, &pointer));
            float *data = pointer; /* the block is here, until the op ends */
            for (int at = 0; at < FLOATS; ++at)
                sum += data[at] += 1;
            TRY(vt_op_end(runtime));
        }
        TRY(vt_iteration_end(runtime));
    }
    TRY(vt_runtime_stats(runtime, &stats));
    printf("sum %.0f, in %d bytes instead of %d; %" PRIu64 " of 6 iterations ran frozen\n", sum,
           BLOCKS / 2 * BLOCK_BYTES, BLOCKS * BLOCK_BYTES, stats.frozen_iterations);
    vt_runtime_destroy(runtime);
    return sum == 6.0 * BLOCKS * FLOATS && stats.frozen_iterations == 3 ? 0 : 1;
}
