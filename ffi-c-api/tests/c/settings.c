/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What the owner of a device has set, in a file and in the environment, is the default of every
 * member of vt_config, and gives way to what the program sets.
 */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <unistd.h>

#include "app.h"

static char path[] = "vtensor-settings-XXXXXX";
static char said[4096];

/* The text of the file. */
static void settings(const char *text)
{
    FILE *file = fopen(path, "w");

    CHECK(file != NULL);
    if (file != NULL) {
        CHECK(fputs(text, file) >= 0);
        CHECK(fclose(file) == 0);
    }
}

static void hear(void *user, vt_log_level level, const char *source, const char *message)
{
    (void)user;
    (void)level;
    (void)source;
    if (strlen(said) + strlen(message) + 1 < sizeof said)
        strcat(said, message);
}

/* What the library says of a runtime with this budget, 0 for the default, and this spill tier. */
static const char *created(uint64_t budget, vt_spill spill)
{
    vt_config config;
    vt_runtime *runtime = NULL;

    said[0] = '\0';
    OK(vt_config_init(&config));
    config.budget_bytes = budget;
    config.spill = spill;
    config.log = hear;
    OK(vt_runtime_create(&config, &runtime));
    vt_runtime_destroy(runtime);
    return said;
}

static void refused(const char *words)
{
    vt_config config;
    vt_runtime *runtime = NULL;

    OK(vt_config_init(&config));
    FAILS(vt_runtime_create(&config, &runtime), VT_ERROR_INVALID_ARGUMENT, words);
    CHECK(runtime == NULL);
}

static void who_goes_first(void)
{
    settings("budget = \"1MiB\"  # of every program\n");
    CHECK(strstr(created(0, VT_SPILL_AUTO), "budget: Some(Bytes(1048576))") != NULL);
    setenv("VTENSOR_BUDGET", "2MiB", 1);
    CHECK(strstr(created(0, VT_SPILL_AUTO), "budget: Some(Bytes(2097152))") != NULL);
    CHECK(strstr(created(3u << 20, VT_SPILL_AUTO), "budget: Some(Bytes(3145728))") != NULL);
    unsetenv("VTENSOR_BUDGET");
    settings("");
    CHECK(strstr(created(0, VT_SPILL_AUTO), "budget: None") != NULL);
}

static void the_spill_folder(void)
{
    vt_config config;
    vt_runtime *runtime = NULL;

    settings("spill_dir = \"/no/such/folder\"\nbudget = \"1MiB\"\n");
    OK(vt_config_init(&config));
    FAILS(vt_runtime_create(&config, &runtime), VT_ERROR_SYSTEM, "/no/such/folder");
    created(0, VT_SPILL_HOST);
    setenv("VTENSOR_SPILL_DIR", "", 1);
    created(0, VT_SPILL_AUTO);
    OK(vt_config_init(&config));
    config.spill = VT_SPILL_FILE;
    FAILS(vt_runtime_create(&config, &runtime), VT_ERROR_INVALID_ARGUMENT, "spill_dir is empty");
    unsetenv("VTENSOR_SPILL_DIR");
}

static void what_is_wrong(void)
{
    settings("budget = \"1MiB\"\nbudgit = 3\n");
    refused("line 2: there is no option `budgit`");
    settings("");
    setenv("VTENSOR_POLICY", "best", 1);
    refused("VTENSOR_POLICY: `policy` is \"best\"");
    unsetenv("VTENSOR_POLICY");
    setenv("VTENSOR_CONFIG", "/no/such/file", 1);
    refused("/no/such/file cannot be read");
}

int main(void)
{
    int file = mkstemp(path);

    CHECK(file >= 0 && close(file) == 0);
    setenv("VTENSOR_CONFIG", path, 1);
    who_goes_first();
    the_spill_folder();
    what_is_wrong();
    CHECK(remove(path) == 0);
    return verdict("settings");
}
