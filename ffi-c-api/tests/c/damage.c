/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A spill file that is changed behind the library's back: what was there is lost, byte by byte, and
 * nothing else; nothing wrong is ever read; and what is written again is whole again.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* readlink, pwrite */
#endif
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "app.h"

enum { STATE = 24 * APP_PAGE, RESULT = 10 * APP_PAGE, TURNS = 12 };

/* Overwrites what the process's unlinked files hold; answers in how many. */
static int damage(void)
{
    static char noise[APP_PAGE];
    DIR *folder = opendir("/proc/self/fd");
    const struct dirent *entry;
    int damaged = 0;

    CHECK(folder != NULL);
    memset(noise, 0x5a, sizeof noise);
    while (folder != NULL && (entry = readdir(folder)) != NULL) {
        char path[64], target[512];
        struct stat found;
        ssize_t length;
        off_t at;
        int file;

        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "/proc/self/fd/%.16s", entry->d_name);
        length = readlink(path, target, sizeof target - 1);
        if (length <= 0)
            continue;
        target[length] = '\0';
        /* Not the arena, which is a file of memory. */
        if (strstr(target, "(deleted)") == NULL || strstr(target, "memfd") != NULL)
            continue;
        file = open(path, O_WRONLY);
        if (file < 0)
            continue;
        CHECK(fstat(file, &found) == 0);
        for (at = 0; at < found.st_size && at < 4 * STATE; at += APP_PAGE)
            CHECK(pwrite(file, noise, sizeof noise, at) == APP_PAGE);
        CHECK(close(file) == 0);
        ++damaged;
    }
    closedir(folder);
    return damaged;
}

/* One op; 0 if it could not begin. */
static int run(const app *a, const char *name, const vt_access *accesses, size_t count, int step)
{
    void *pointers[2] = {NULL, NULL};
    vt_op_desc op = app_op(name, accesses, count);
    vt_status status = vt_op_begin(a->runtime, &op, pointers);
    size_t at;

    if (status != VT_OK) {
        CHECK(status == VT_ERROR_SYSTEM || status == VT_ERROR_LOST);
        return 0;
    }
    for (at = 0; step != 0 && at < STATE; ++at)
        ((unsigned char *)pointers[0])[at] = (unsigned char)(((unsigned char *)pointers[0])[at] + 1);
    OK(vt_op_end(a->runtime));
    return 1;
}

/* Counts every byte of the state up once. Answers how often that was done: not if a copy failed. */
static int iteration(const app *a, vt_tensor state)
{
    vt_access access[2];
    vt_tensor results[3];
    int i, ran = 1, counted = 0;

    if (vt_iteration_begin(a->runtime, 1) != VT_OK)
        return 0;
    for (i = 0; i < 3 && ran; ++i) {
        results[i] = app_tensor(a->runtime, "result", RESULT, VT_KIND_ACTIVATION);
        access[0] = app_access(results[i], VT_ACCESS_WRITE);
        ran = run(a, "fill", access, 1, 0);
    }
    access[0] = app_access(state, VT_ACCESS_READ_WRITE);
    ran = ran && run(a, "count", access, 1, 1);
    counted = ran;
    for (i = 0; i < 3 && ran; ++i) {
        access[0] = app_access(results[i], VT_ACCESS_READ);
        ran = run(a, "use", access, 1, 0);
        if (ran)
            OK(vt_tensor_destroy(a->runtime, results[i]));
    }
    if (ran)
        OK(vt_iteration_end(a->runtime));
    else
        OK(vt_iteration_abort(a->runtime));
    return counted;
}

/* Reads what is intact, and writes the rest again; answers how many bytes were lost. */
static uint64_t restore(const app *a, vt_tensor state, unsigned char value)
{
    static unsigned char bytes[STATE], whole[STATE];
    vt_lost_range ranges[64];
    size_t count = 64, i, at;
    uint64_t intact = 0, lost = 0;

    memset(whole, value, sizeof whole);
    OK(vt_tensor_lost(a->runtime, state, ranges, &count));
    for (i = 0; i <= count; ++i) {
        uint64_t end = i < count ? ranges[i].offset : (uint64_t)STATE;

        memset(bytes, 0, sizeof bytes);
        OK(vt_tensor_read(a->runtime, state, intact, bytes, end - intact));
        for (at = 0; at < end - intact; ++at)
            if (bytes[at] != value)
                break;
        CHECK(at == end - intact);
        if (i < count) {
            CHECK(ranges[i].content == VT_CONTENT_LOST);
            FAILS(vt_tensor_read(a->runtime, state, ranges[i].offset, bytes, 1), VT_ERROR_LOST,
                  "of tensor 'state' were lost");
            intact = ranges[i].offset + ranges[i].bytes;
            lost += ranges[i].bytes;
        }
    }
    for (i = 0; i < count; ++i)
        OK(vt_tensor_write(a->runtime, state, ranges[i].offset, whole, ranges[i].bytes));
    OK(vt_tensor_lost(a->runtime, state, NULL, &count));
    CHECK(count == 0);
    return lost;
}

/* Finds damage by looking: the answer is the content, or that bytes of it are lost. */
static void look(const app *a, vt_tensor state, unsigned char value)
{
    static unsigned char bytes[STATE];
    vt_status status = vt_tensor_read(a->runtime, state, 0, bytes, STATE);
    size_t at;

    CHECK(status == VT_OK || status == VT_ERROR_LOST);
    for (at = 0; status == VT_OK && at < STATE; ++at)
        if (bytes[at] != value)
            break;
    CHECK(status != VT_OK || at == STATE);
}

int main(void)
{
    vt_config config;
    vt_tensor state;
    app a;
    unsigned char value = 0;
    uint64_t lost = 0, found = 0;
    int i, partly = 0;

    memset(&a, 0, sizeof a);
    OK(vt_config_init(&config));
    config.budget_bytes = 30 * APP_PAGE;
    config.spill_dir = ".";
    config.flags = VT_CONFIG_SPILL_IN_MEMORY | VT_CONFIG_SPILL_MODEL;
    config.warmup_iterations = 2;
    OK(vt_runtime_create(&config, &a.runtime));
    state = app_tensor(a.runtime, "state", STATE, VT_KIND_BUFFER);
    for (i = 0; i < TURNS; ++i) {
        uint64_t now = 0;

        if (i % 4 == 3)
            CHECK(damage() > 0);
        value = (unsigned char)(value + iteration(&a, state));
        now = restore(&a, state, value);
        lost += now;
        partly += now > 0 && now < STATE;
        if (i % 4 != 2) {
            CHECK(damage() > 0);
            look(&a, state, value);
            found += restore(&a, state, value);
        }
    }
    printf("damage: ops lost %llu bytes, %d times in part; looking found %llu\n",
           (unsigned long long)lost, partly, (unsigned long long)found);
    CHECK(lost > 0 && found > 0);
    vt_runtime_destroy(a.runtime);
    return verdict("damage");
}
