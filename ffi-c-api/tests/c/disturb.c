/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What goes wrong later, or elsewhere: calls that a frozen program does not know, plans that are
 * not this application's, and two calls at once. The status and the words are checked, nothing
 * crashes, and the runtime works afterwards.
 */
#include <pthread.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "refuses.h"

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

/* Calls that have to fail in an iteration, each time; `pointer` was allocated and does not fit. */
static void attempts(const app *a, vt_tensor large, void *pointer)
{
    vt_access access = app_access(large, VT_ACCESS_WRITE);
    vt_op_desc op = app_op("too large", &access, 1);
    void *at = NULL;

    FAILS(vt_op_begin(a->runtime, &op, &at), VT_ERROR_BUDGET, "at once");
    FAILS(vt_touch(a->runtime, &pointer, 1), VT_ERROR_BUDGET, "at once");
    FAILS(vt_touch(a->runtime, &at, 1), VT_ERROR_INVALID_ARGUMENT, "NULL");
    access.tensor = 12345;
    FAILS(vt_op_begin(a->runtime, &op, &at), VT_ERROR_NOT_FOUND, "no tensor");
    FAILS(vt_tensor_destroy(a->runtime, 12345), VT_ERROR_NOT_FOUND, "no tensor");
    FAILS(vt_tensor_destroy(a->runtime, a->weight), VT_ERROR_ORDER, "outlives iterations");
    FAILS(vt_free(a->runtime, pointer), VT_ERROR_ORDER, "outlives iterations");
    FAILS(vt_op_end(a->runtime), VT_ERROR_ORDER, "op_begin");
    CHECK(at == NULL);
}

/* An application that tries what fails, and falls back, is frozen all the same. */
static void failing_each_time(void)
{
    app a = app_create(NULL, NULL);
    vt_tensor large = app_tensor(a.runtime, "large", 2 * APP_BUDGET, VT_KIND_BUFFER), made;
    vt_access access;
    vt_op_desc op = app_op("op", &access, 1);
    vt_tensor_desc desc;
    vt_stats stats;
    void *allocated = NULL, *at = NULL;
    int i;

    memset(&desc, 0, sizeof desc);
    desc.size = sizeof desc;
    desc.bytes = 2 * APP_BUDGET;
    desc.kind = VT_KIND_BUFFER;
    OK(vt_alloc(a.runtime, &desc, &allocated));
    for (i = 0; i < 6; ++i) {
        OK(vt_iteration_begin(a.runtime, 1));
        attempts(&a, large, allocated);
        made = app_tensor(a.runtime, "made", APP_PAGE, VT_KIND_ACTIVATION);
        access = app_access(made, VT_ACCESS_READ);
        FAILS(vt_op_begin(a.runtime, &op, &at), VT_ERROR_ORDER, "nothing has written");
        access = app_access(made, VT_ACCESS_WRITE);
        OK(vt_op_begin(a.runtime, &op, &at));
        OK(vt_op_end(a.runtime));
        at = NULL;
        attempts(&a, large, allocated);
        OK(vt_tensor_destroy(a.runtime, made));
        FAILS(vt_op_begin(a.runtime, &op, &at), VT_ERROR_NOT_FOUND, "no tensor");
        FAILS(vt_tensor_destroy(a.runtime, made), VT_ERROR_NOT_FOUND, "no tensor");
        OK(vt_iteration_end(a.runtime));
    }
    stats.size = sizeof stats;
    OK(vt_runtime_stats(a.runtime, &stats));
    CHECK(stats.frozen_iterations == 4 && stats.divergences == 0);
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

/* One call at a time, each from another thread, as an autograd engine may do it. */
static void *one_call(void *user)
{
    static vt_access access;
    static vt_op_desc op;
    static void *pointer;
    static int call = 0;
    const app *a = (const app *)user;

    access = app_access(a->loss, VT_ACCESS_READ_WRITE);
    op = app_op("count", &access, 1);
    switch (call++ % 4) {
    case 0:
        OK(vt_iteration_begin(a->runtime, 1));
        break;
    case 1:
        OK(vt_op_begin(a->runtime, &op, &pointer));
        ++*(uint64_t *)pointer;
        break;
    case 2:
        OK(vt_op_end(a->runtime));
        break;
    default:
        OK(vt_iteration_end(a->runtime));
        break;
    }
    return NULL;
}

static void a_thread_for_each_call(void)
{
    app a = app_create(NULL, NULL);
    pthread_t thread;
    int i;

    for (i = 0; i < 4 * 5; ++i) {
        CHECK(pthread_create(&thread, NULL, one_call, &a) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    CHECK(app_loss(&a) == 5);
    CHECK(vt_runtime_phase(a.runtime) == VT_PHASE_FROZEN);
    vt_runtime_destroy(a.runtime);
}

/* A child has none of its parent's runtimes, and can have its own. */
static void forked(void)
{
    app a = app_create(NULL, NULL);
    int i, status = 1;
    pid_t child;

    for (i = 0; i < 4; ++i)
        app_iteration(&a, 1);
    fflush(stdout);
    child = fork();
    if (child == 0) {
        app own = app_create(NULL, NULL);
        every_call_refuses(a.runtime, VT_ERROR_NOT_FOUND, "is no runtime");
        vt_runtime_destroy(a.runtime);
        for (i = 0; i < 4; ++i)
            app_iteration(&own, 1);
        CHECK(vt_runtime_phase(own.runtime) == VT_PHASE_FROZEN);
        vt_runtime_destroy(own.runtime);
        _exit(failures != 0);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child && status == 0);
    for (i = 0; i < 4; ++i)
        app_iteration(&a, 1);
    CHECK(vt_runtime_phase(a.runtime) == VT_PHASE_FROZEN);
    vt_runtime_destroy(a.runtime);
}

int main(void)
{
    /* Under Valgrind a child with threads of its own does not come to an end. */
    if (getenv("VTENSOR_TESTS_WITHOUT_FORK") == NULL)
        forked();
    frozen();
    failing_each_time();
    foreign_plans();
    two_at_once();
    destroyed_by_another();
    racing();
    a_thread_for_each_call();
    return verdict("disturb");
}
