/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The conventions of vtensor.h, seen from outside. Compiled as C99 and as C++11, linked with the
 * static library, run by tests/c_abi.rs. Prints each check that does not hold; exits with 1 then.
 */
#include <stdio.h>
#include <string.h>

#include "vtensor.h"

static int failures = 0;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition);         \
            ++failures;                                                                            \
        }                                                                                          \
    } while (0)

static void check_version(void)
{
    CHECK(vt_version() == VT_VERSION);
    CHECK(vt_version() >> 16 == VT_VERSION_MAJOR);
}

static void check_status_strings(void)
{
    CHECK(strcmp(vt_status_string(VT_OK), "success") == 0);
    CHECK(strlen(vt_status_string(VT_ERROR_INVALID_ARGUMENT)) > 0);
    CHECK(strlen(vt_status_string(VT_ERROR_INTERNAL)) > 0);
    CHECK(strcmp(vt_status_string(12345), vt_status_string(INT32_MIN)) == 0);
    CHECK(strcmp(vt_status_string(12345), vt_status_string(VT_OK)) != 0);
}

static void check_amounts(void)
{
    uint64_t bytes = 7;

    CHECK(vt_bytes_parse("96MiB", &bytes) == VT_OK);
    CHECK(bytes == (uint64_t)96 << 20);
    CHECK(vt_bytes_parse("2 GB", &bytes) == VT_OK);
    CHECK(bytes == 2000000000u);
}

static void check_failures(void)
{
    static const char *const wrong[] = {"", "MiB", "-1", "5 parsecs", "9999999999 TiB", "\xff"};
    uint64_t bytes = 7;
    size_t i;

    CHECK(strcmp(vt_last_error(), "") == 0);
    for (i = 0; i < sizeof wrong / sizeof wrong[0]; ++i) {
        CHECK(vt_bytes_parse(wrong[i], &bytes) == VT_ERROR_INVALID_ARGUMENT);
        CHECK(bytes == 7);
        CHECK(strstr(vt_last_error(), "vt_bytes_parse") != NULL);
    }
    CHECK(vt_bytes_parse("5 parsecs", &bytes) == VT_ERROR_INVALID_ARGUMENT);
    CHECK(strstr(vt_last_error(), "5 parsecs") != NULL);

    CHECK(vt_bytes_parse(NULL, &bytes) == VT_ERROR_INVALID_ARGUMENT);
    CHECK(strstr(vt_last_error(), "text is NULL") != NULL);
    CHECK(vt_bytes_parse("1", NULL) == VT_ERROR_INVALID_ARGUMENT);
    CHECK(strstr(vt_last_error(), "bytes_out is NULL") != NULL);

    CHECK(vt_bytes_parse("1", &bytes) == VT_OK);
    CHECK(strstr(vt_last_error(), "bytes_out is NULL") != NULL); /* success leaves it alone */
}

int main(void)
{
    check_version();
    check_status_strings();
    check_failures(); /* before anything else fails: it wants an empty detail at first */
    check_amounts();
    if (failures != 0) {
        fprintf(stderr, "%d checks do not hold\n", failures);
        return 1;
    }
    printf("vtensor.h: all checks hold\n");
    return 0;
}
