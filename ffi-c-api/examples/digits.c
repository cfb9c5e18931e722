/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Trains a small network on handwritten digits, once without a limit and once within half of the
 * memory that it took, and compares the weights: they are the same to the bit.
 *
 *     digits DIGITS.csv [EPOCHS]
 *
 * The file has a line for each image: 64 pixels from 0 to 16 and the digit, separated by commas.
 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vtensor.h>

enum {
    PIXELS = 64,
    WIDTH = 64,
    LAYERS = 8,
    CLASSES = 10,
    BATCH = 256,
    BATCHES = 6,
    TESTED = 261,
    IMAGES = BATCH * BATCHES + TESTED,
    /* A linear layer with its offsets; the last one has fewer columns in use. */
    WEIGHTS = (PIXELS + 1) * WIDTH
};

/* The two kinds of iterations: training, and what the network makes of the rest of the images. */
enum { TRAIN = 1, TEST = 2 };

static float images[IMAGES][PIXELS];
static float labels[IMAGES];

/* Every call says whether it worked. */
static void must(vt_status status, const char *call)
{
    if (status != VT_OK) {
        fprintf(stderr, "%s: %s\n", call, vt_last_error());
        exit(1);
    }
}
#define MUST(call) must(call, #call)

/* ---- tensors and ops -------------------------------------------------------------------------- */

static vt_tensor tensor(vt_runtime *runtime, const char *name, size_t floats, vt_kind kind)
{
    vt_tensor_desc desc = {
        .size = sizeof desc, .bytes = floats * sizeof(float), .kind = kind, .name = name};
    vt_tensor made;
    MUST(vt_tensor_create(runtime, &desc, &made));
    return made;
}

static vt_access reads(vt_tensor of) { return (vt_access){of, VT_ACCESS_READ, 0}; }
static vt_access writes(vt_tensor of) { return (vt_access){of, VT_ACCESS_WRITE, 0}; }
static vt_access updates(vt_tensor of) { return (vt_access){of, VT_ACCESS_READ_WRITE, 0}; }

/* Begins an op: floats[i] is where the tensor of accesses[i] is, until vt_op_end(). */
static void begin(vt_runtime *runtime, const char *name, vt_op_phase phase, vt_access *accesses,
                  size_t count, float **floats)
{
    vt_op_desc op = {.size = sizeof op, .name = name, .accesses = accesses,
                     .access_count = count, .phase = phase};
    void *pointers[8];
    MUST(vt_op_begin(runtime, &op, pointers));
    for (size_t at = 0; at < count; ++at)
        floats[at] = pointers[at];
}

/* y = x w, and nothing below 0 if it is followed by another layer. */
static void forward(vt_runtime *runtime, size_t rows, vt_tensor from, vt_tensor weight,
                    vt_tensor to, int last)
{
    vt_access accesses[] = {reads(from), reads(weight), writes(to)};
    float *f[3];
    begin(runtime, "forward", VT_OP_FORWARD, accesses, 3, f);
    for (size_t row = 0; row < rows; ++row) {
        const float *x = f[0] + row * WIDTH;
        float *y = f[2] + row * WIDTH;
        memcpy(y, f[1] + (size_t)PIXELS * WIDTH, WIDTH * sizeof(float));
        for (size_t in = 0; in < WIDTH; ++in)
            for (size_t out = 0; out < WIDTH; ++out)
                y[out] += x[in] * f[1][in * WIDTH + out];
        for (size_t out = 0; out < WIDTH && !last; ++out)
            y[out] = y[out] > 0 ? y[out] : 0;
    }
    MUST(vt_op_end(runtime));
}

/* The loss, how many are right, and the gradient of the last layer's result, in its place. */
static void judge(vt_runtime *runtime, size_t rows, vt_tensor result, vt_tensor label,
                  vt_tensor score)
{
    vt_access accesses[] = {updates(result), reads(label), writes(score)};
    float *f[3];
    begin(runtime, "judge", VT_OP_FORWARD, accesses, 3, f);
    f[2][0] = f[2][1] = 0;
    for (size_t row = 0; row < rows; ++row) {
        float *y = f[0] + row * WIDTH, sum = 0;
        size_t best = 0, wanted = (size_t)f[1][row];
        for (size_t c = 1; c < CLASSES; ++c)
            best = y[c] > y[best] ? c : best;
        float most = y[best];
        for (size_t c = 0; c < CLASSES; ++c)
            sum += y[c] = expf(y[c] - most);
        f[2][0] -= logf(y[wanted] / sum) / (float)rows;
        f[2][1] += best == wanted;
        for (size_t c = 0; c < WIDTH; ++c)
            y[c] = c < CLASSES ? (y[c] / sum - (c == wanted)) / (float)rows : 0;
    }
    MUST(vt_op_end(runtime));
}

/* From the gradient of y, those of w and of x; y's becomes x's. */
static void backward(vt_runtime *runtime, size_t rows, vt_tensor from, vt_tensor weight,
                     vt_tensor gradient, vt_tensor change, int first)
{
    vt_access accesses[] = {reads(from), reads(weight), updates(gradient), writes(change)};
    float *f[4], below[WIDTH];
    begin(runtime, "backward", VT_OP_BACKWARD, accesses, 4, f);
    memset(f[3], 0, WEIGHTS * sizeof(float));
    for (size_t row = 0; row < rows; ++row) {
        const float *x = f[0] + row * WIDTH;
        float *d = f[2] + row * WIDTH;
        for (size_t in = 0; in < WIDTH; ++in) {
            below[in] = 0;
            for (size_t out = 0; out < WIDTH; ++out) {
                f[3][in * WIDTH + out] += x[in] * d[out];
                below[in] += d[out] * f[1][in * WIDTH + out];
            }
            /* What was cut off in the layer before has no gradient. */
            below[in] = first || x[in] > 0 ? below[in] : 0;
        }
        for (size_t out = 0; out < WIDTH; ++out)
            f[3][(size_t)PIXELS * WIDTH + out] += d[out];
        memcpy(d, below, sizeof below);
    }
    MUST(vt_op_end(runtime));
}

static void update(vt_runtime *runtime, vt_tensor weight, vt_tensor momentum, vt_tensor change)
{
    vt_access accesses[] = {updates(weight), updates(momentum), reads(change)};
    float *f[3];
    begin(runtime, "update", VT_OP_OPTIMIZER, accesses, 3, f);
    for (size_t at = 0; at < WEIGHTS; ++at) {
        f[1][at] = 0.9f * f[1][at] + f[2][at];
        f[0][at] -= 0.01f * f[1][at];
    }
    MUST(vt_op_end(runtime));
}

/* ---- the network ------------------------------------------------------------------------------ */

typedef struct network {
    vt_runtime *runtime;
    vt_tensor weights[LAYERS], momenta[LAYERS], input, label, score;
} network;

static network build(uint64_t budget_bytes)
{
    network n;
    vt_config config;
    uint32_t random = 1;
    static float start[WEIGHTS];

    MUST(vt_config_init(&config));
    config.budget_bytes = budget_bytes;
    MUST(vt_runtime_create(&config, &n.runtime));
    for (int layer = 0; layer < LAYERS; ++layer) {
        n.weights[layer] = tensor(n.runtime, "weight", WEIGHTS, VT_KIND_PARAMETER);
        n.momenta[layer] = tensor(n.runtime, "momentum", WEIGHTS, VT_KIND_OPTIMIZER);
        for (size_t at = 0; at < WEIGHTS; ++at) {
            random = random * 1664525u + 1013904223u;
            float uniform = (float)(random >> 8) / (float)(1 << 23) - 1;
            start[at] = at < (size_t)PIXELS * WIDTH ? uniform * sqrtf(6.0f / WIDTH) : 0;
        }
        MUST(vt_tensor_write(n.runtime, n.weights[layer], 0, start, sizeof start));
    }
    n.input = tensor(n.runtime, "images", (size_t)TESTED * PIXELS, VT_KIND_INPUT);
    n.label = tensor(n.runtime, "labels", TESTED, VT_KIND_INPUT);
    n.score = tensor(n.runtime, "score", 2, VT_KIND_BUFFER);
    return n;
}

/* One iteration over images first .. first + rows; returns how many are recognised. */
static int iterate(const network *n, uint64_t kind, size_t first, size_t rows)
{
    vt_runtime *runtime = n->runtime;
    vt_tensor results[LAYERS], change;
    float score[2];

    MUST(vt_tensor_write(runtime, n->input, 0, images[first], rows * sizeof images[0]));
    MUST(vt_tensor_write(runtime, n->label, 0, &labels[first], rows * sizeof labels[0]));
    MUST(vt_iteration_begin(runtime, kind));
    for (int layer = 0; layer < LAYERS; ++layer) {
        results[layer] = tensor(runtime, "result", rows * WIDTH, VT_KIND_ACTIVATION);
        forward(runtime, rows, layer ? results[layer - 1] : n->input, n->weights[layer],
                results[layer], layer + 1 == LAYERS);
        if (kind == TEST && layer)
            MUST(vt_tensor_destroy(runtime, results[layer - 1]));
    }
    vt_tensor gradient = results[LAYERS - 1];
    judge(runtime, rows, gradient, n->label, n->score);
    for (int layer = LAYERS; kind == TRAIN && layer-- > 0;) {
        change = tensor(runtime, "change", WEIGHTS, VT_KIND_GRADIENT);
        backward(runtime, rows, layer ? results[layer - 1] : n->input, n->weights[layer], gradient,
                 change, layer == 0);
        update(runtime, n->weights[layer], n->momenta[layer], change);
        MUST(vt_tensor_destroy(runtime, change));
        if (layer)
            MUST(vt_tensor_destroy(runtime, results[layer - 1]));
    }
    MUST(vt_tensor_destroy(runtime, gradient));
    MUST(vt_iteration_end(runtime));
    MUST(vt_tensor_read(runtime, n->score, 0, score, sizeof score));
    return (int)score[1];
}

/* Trains; answers how many of the other images are recognised. */
static int train(const network *n, int epochs)
{
    int right = 0;
    for (int epoch = 0; epoch < epochs; ++epoch) {
        for (size_t batch = 0; batch < BATCHES; ++batch)
            iterate(n, TRAIN, batch * BATCH, BATCH);
        right = iterate(n, TEST, (size_t)BATCH * BATCHES, TESTED);
        printf("  epoch %d: %d of %d are recognised\n", epoch + 1, right, (int)TESTED);
    }
    return right;
}

static void load(const char *path)
{
    FILE *file = fopen(path, "r");
    char line[1024];
    int row = 0;

    if (file == NULL) {
        perror(path);
        exit(1);
    }
    for (; row < IMAGES && fgets(line, sizeof line, file); ++row) {
        char *at = line;
        for (int pixel = 0; pixel < PIXELS; ++pixel, ++at)
            images[row][pixel] = strtof(at, &at) / 16;
        labels[row] = strtof(at, &at);
        if (*at != '\n' || !(labels[row] >= 0 && labels[row] < CLASSES))
            break;
    }
    fclose(file);
    if (row != IMAGES) {
        fprintf(stderr, "%s: line %d is no image, or missing; %d are wanted\n", path, row + 1,
                (int)IMAGES);
        exit(1);
    }
}

int main(int argc, char **argv)
{
    static float wanted[WEIGHTS], found[WEIGHTS];
    int epochs = argc > 2 ? atoi(argv[2]) : 15, same = 1;
    vt_stats stats = {.size = sizeof stats};

    if (argc < 2)
        return fprintf(stderr, "usage: digits DIGITS.csv [EPOCHS]\n"), 1;
    load(argv[1]);
    printf("without a limit\n");
    network unlimited = build(0);
    int right = train(&unlimited, epochs);
    iterate(&unlimited, TRAIN, 0, BATCH); /* its program tells what training takes */
    MUST(vt_runtime_stats(unlimited.runtime, &stats));
    uint64_t bytes = stats.program_bytes;

    printf("in half of it\n");
    network half = build(bytes / 2);
    same &= train(&half, epochs) == right;
    iterate(&half, TRAIN, 0, BATCH);
    MUST(vt_runtime_stats(half.runtime, &stats));
    for (int layer = 0; layer < LAYERS; ++layer) {
        MUST(vt_tensor_read(unlimited.runtime, unlimited.weights[layer], 0, wanted, sizeof wanted));
        MUST(vt_tensor_read(half.runtime, half.weights[layer], 0, found, sizeof found));
        same &= memcmp(wanted, found, sizeof wanted) == 0;
    }
    printf("%" PRIu64 " bytes instead of %" PRIu64 ": %" PRIu64 " iterations frozen, %" PRIu64
           " bytes moved out; the weights are %s\n",
           stats.arena_bytes, bytes, stats.frozen_iterations, stats.moved_out_bytes,
           same ? "the same, to the bit" : "NOT the same");
    vt_runtime_destroy(unlimited.runtime);
    vt_runtime_destroy(half.runtime);
    return same && stats.frozen_iterations > 0 && stats.moved_out_bytes > 0 ? 0 : 1;
}
