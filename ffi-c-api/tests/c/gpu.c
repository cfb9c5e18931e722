/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A small training step on a GPU, beside the same on the host: the same bytes. Its ops stand in for
 * kernels: they bring their tensors to the host in the order of the stream, and back.
 *
 *     gpu [FOLDER TO SPILL TO]
 *
 * Needs a CUDA driver: VTENSOR_CUDA_LIBRARY names one.
 */
#define _POSIX_C_SOURCE 200809L
#include <dlfcn.h>
#include <stdlib.h>

#include "app.h"

enum { LAYERS = 6, ITERATIONS = 8 };
static const uint64_t BYTES = (uint64_t)2 << 20;
static const uint64_t BUDGET = (uint64_t)12 << 20;

/* Functions of the driver. */
static struct {
    int (*init)(unsigned);
    int (*retain)(void **context, int device);
    int (*release)(int device);
    int (*set)(void *context);
    int (*to_device)(unsigned long long, const void *, size_t, void *stream);
    int (*to_host)(void *, unsigned long long, size_t, void *stream);
    int (*stream_wait)(void *stream);
    int (*stream_make)(void **stream, unsigned flags, int priority);
    int (*stream_end)(void *stream);
} cu;

static int load(const char *library)
{
    const char *const names[] = {"cuInit",
                                 "cuDevicePrimaryCtxRetain",
                                 "cuDevicePrimaryCtxRelease_v2",
                                 "cuCtxSetCurrent",
                                 "cuMemcpyHtoDAsync_v2",
                                 "cuMemcpyDtoHAsync_v2",
                                 "cuStreamSynchronize",
                                 "cuStreamCreateWithPriority",
                                 "cuStreamDestroy_v2"};
    void **const functions[] = {
        (void **)(void *)&cu.init,      (void **)(void *)&cu.retain,  (void **)(void *)&cu.release,
        (void **)(void *)&cu.set,       (void **)(void *)&cu.to_device,
        (void **)(void *)&cu.to_host,   (void **)(void *)&cu.stream_wait,
        (void **)(void *)&cu.stream_make, (void **)(void *)&cu.stream_end};
    void *driver = dlopen(library, RTLD_NOW);
    size_t at;

    if (driver == NULL)
        return fprintf(stderr, "%s\n", dlerror()), 0;
    for (at = 0; at < sizeof names / sizeof *names; ++at)
        if ((*functions[at] = dlsym(driver, names[at])) == NULL)
            return fprintf(stderr, "%s has no %s\n", library, names[at]), 0;
    return 1;
}

/* What an application holds. */
typedef struct run {
    vt_runtime *runtime;
    void *stream;
    int on_gpu;
    unsigned replays;
    unsigned char *parts[3];
} run;

static void bring(const run *r, unsigned char *to, void *from)
{
    if (!r->on_gpu) {
        memcpy(to, from, BYTES);
        return;
    }
    CHECK(cu.to_host(to, (unsigned long long)(uintptr_t)from, BYTES, r->stream) == 0);
    CHECK(cu.stream_wait(r->stream) == 0);
}

static void take(const run *r, void *to, const unsigned char *from)
{
    if (!r->on_gpu) {
        memcpy(to, from, BYTES);
        return;
    }
    CHECK(cu.to_device((unsigned long long)(uintptr_t)to, from, BYTES, r->stream) == 0);
    CHECK(cu.stream_wait(r->stream) == 0);
}

/* Writes the first tensor: a function of the two others. */
static vt_status forward(void *user, void *const *pointers)
{
    run *r = (run *)user;
    uint64_t at;

    ++r->replays;
    bring(r, r->parts[1], pointers[1]);
    bring(r, r->parts[2], pointers[2]);
    for (at = 0; at < BYTES; ++at)
        r->parts[0][at] = (unsigned char)(3 * r->parts[1][at] + r->parts[2][at] + at);
    take(r, pointers[0], r->parts[0]);
    return VT_OK;
}

/* Changes the first tensor by the second. */
static void backward(run *r, void *const *pointers)
{
    uint64_t at;

    bring(r, r->parts[0], pointers[0]);
    bring(r, r->parts[1], pointers[1]);
    for (at = 0; at < BYTES; ++at)
        r->parts[0][at] = (unsigned char)(5 * r->parts[0][at] + r->parts[1][at]);
    take(r, pointers[0], r->parts[0]);
}

static void op(run *r, const char *name, const vt_tensor *tensors, const vt_access_mode *modes,
               size_t count, int replayable)
{
    vt_access accesses[3];
    void *pointers[3];
    vt_op_desc desc;
    size_t at;

    for (at = 0; at < count; ++at)
        accesses[at] = app_access(tensors[at], modes[at]);
    desc = app_op(name, accesses, count);
    if (replayable) {
        desc.replay = forward;
        desc.user = r;
    }
    OK(vt_op_begin(r->runtime, &desc, pointers));
    if (replayable)
        (void)forward(r, pointers);
    else
        backward(r, pointers);
    OK(vt_op_end(r->runtime));
}

static void step(run *r, vt_tensor weight, vt_tensor input)
{
    static const vt_access_mode makes[] = {VT_ACCESS_WRITE, VT_ACCESS_READ, VT_ACCESS_READ};
    static const vt_access_mode changes[] = {VT_ACCESS_READ_WRITE, VT_ACCESS_READ};
    vt_tensor made[LAYERS];
    int layer;

    OK(vt_iteration_begin(r->runtime, 1));
    for (layer = 0; layer < LAYERS; ++layer) {
        vt_tensor tensors[3];

        made[layer] = app_tensor(r->runtime, "made", BYTES, VT_KIND_ACTIVATION);
        tensors[0] = made[layer];
        tensors[1] = input;
        tensors[2] = layer == 0 ? input : made[layer - 1];
        op(r, "forward", tensors, makes, 3, 1);
    }
    for (layer = LAYERS - 1; layer >= 0; --layer) {
        vt_tensor tensors[2];

        tensors[0] = weight;
        tensors[1] = made[layer];
        op(r, "backward", tensors, changes, 2, 0);
        OK(vt_tensor_destroy(r->runtime, made[layer]));
    }
    OK(vt_iteration_end(r->runtime));
}

/* Trains with a budget and says what the weight is. */
static void train(vt_backend backend, vt_methods methods, const char *folder, void *stream,
                  unsigned char *weight)
{
    vt_config config;
    vt_stats stats;
    vt_tensor tensor, input;
    run r;
    int at;

    memset(&r, 0, sizeof r);
    r.on_gpu = backend == VT_BACKEND_CUDA;
    for (at = 0; at < 3; ++at)
        r.parts[at] = (unsigned char *)malloc(BYTES);
    OK(vt_config_init(&config));
    config.budget_bytes = BUDGET;
    config.warmup_iterations = 2;
    config.backend = backend;
    config.methods = methods;
    config.compute_stream = stream;
    config.spill_dir = folder;
    OK(vt_runtime_create(&config, &r.runtime));
    OK(vt_compute_stream(r.runtime, &r.stream));
    CHECK((r.stream != NULL) == r.on_gpu && (stream == NULL || r.stream == stream));
    tensor = app_tensor(r.runtime, "weight", BYTES, VT_KIND_PARAMETER);
    input = app_tensor(r.runtime, "input", BYTES, VT_KIND_INPUT);
    OK(vt_tensor_write(r.runtime, tensor, 0, weight, BYTES));
    OK(vt_tensor_write(r.runtime, input, 0, weight, BYTES));
    for (at = 0; at < ITERATIONS; ++at)
        step(&r, tensor, input);
    OK(vt_sync(r.runtime));
    OK(vt_tensor_read(r.runtime, tensor, 0, weight, BYTES));
    memset(&stats, 0, sizeof stats);
    stats.size = sizeof stats;
    OK(vt_runtime_stats(r.runtime, &stats));
    CHECK(stats.frozen_iterations == ITERATIONS - 2);
    CHECK(vt_runtime_phase(r.runtime) == VT_PHASE_FROZEN);
    CHECK(methods != VT_METHODS_RECOMPUTE || r.replays > LAYERS * ITERATIONS);
    OK(vt_driver_failed(r.runtime));
    vt_runtime_destroy(r.runtime);
    for (at = 0; at < 3; ++at)
        free(r.parts[at]);
}

static void refusals(const char *folder)
{
    vt_config config;
    vt_runtime *runtime = NULL;

    OK(vt_config_init(&config));
    config.backend = VT_BACKEND_CUDA;
    FAILS(vt_runtime_create(&config, &runtime), VT_ERROR_UNSUPPORTED, "no budget");
    config.spill_dir = folder;
    config.budget_bytes = 1;
    FAILS(vt_runtime_create(&config, &runtime), VT_ERROR_UNSUPPORTED, "not between a page");
    config.budget_bytes = BUDGET;
    config.device = 7;
    FAILS(vt_runtime_create(&config, &runtime), VT_ERROR_UNSUPPORTED, "device 7");
    CHECK(runtime == NULL);
}

int main(int argc, char **argv)
{
    static const vt_methods methods[] = {VT_METHODS_SWAP, VT_METHODS_RECOMPUTE, VT_METHODS_BOTH};
    const char *folder = argc > 1 ? argv[1] : NULL;
    const char *library = getenv("VTENSOR_CUDA_LIBRARY");
    unsigned char *host = (unsigned char *)malloc(BYTES), *gpu = (unsigned char *)malloc(BYTES);
    void *context = NULL, *stream = NULL;
    vt_probe_info info;
    size_t at;

    if (library == NULL || !load(library))
        return 1;
    memset(&info, 0, sizeof info);
    info.size = sizeof info;
    OK(vt_probe(&info));
    CHECK(info.cuda == 1 && strstr(info.reasons, "VT_BACKEND_CUDA") != NULL);
    CHECK(cu.init(0) == 0 && cu.retain(&context, 0) == 0 && cu.set(context) == 0);
    for (at = 0; at < sizeof methods / sizeof *methods; ++at) {
        memset(host, 7, BYTES);
        memset(gpu, 7, BYTES);
        train(VT_BACKEND_HOST, methods[at], NULL, NULL, host);
        train(VT_BACKEND_CUDA, methods[at], folder, NULL, gpu);
        CHECK(memcmp(host, gpu, BYTES) == 0);
        /* On a stream of the application. */
        memset(gpu, 7, BYTES);
        CHECK(cu.stream_make(&stream, 1, 0) == 0);
        train(VT_BACKEND_CUDA, methods[at], folder, stream, gpu);
        CHECK(cu.stream_end(stream) == 0);
        CHECK(memcmp(host, gpu, BYTES) == 0);
    }
    refusals(folder);
    CHECK(cu.release(0) == 0);
    free(host);
    free(gpu);
    return verdict("gpu");
}
