/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * What the C tests have in common. A check that does not hold is printed and counted.
 */
#ifndef CHECK_H
#define CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "vtensor.h"

static int failures = 0;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: does not hold: %s (last error: %s)\n", __FILE__, __LINE__,     \
                    #condition, vt_last_error());                                                  \
            ++failures;                                                                            \
        }                                                                                          \
    } while (0)

/* A call that succeeds. */
#define OK(call) CHECK((call) == VT_OK)

/* A call that fails with a status, and with a detail that says so. */
#define FAILS(call, status, words)                                                                 \
    do {                                                                                           \
        vt_status found_ = (call);                                                                 \
        if (found_ != (status) || strstr(vt_last_error(), (words)) == NULL) {                      \
            fprintf(stderr, "%s:%d: wanted status %d with \"%s\", found %d, \"%s\": %s\n",         \
                    __FILE__, __LINE__, (int)(status), (words), (int)found_, vt_last_error(),      \
                    #call);                                                                        \
            ++failures;                                                                            \
        }                                                                                          \
    } while (0)

/* The end of main. */
static int verdict(const char *name)
{
    if (failures != 0) {
        fprintf(stderr, "%s: %d checks do not hold\n", name, failures);
        return 1;
    }
    printf("%s: all checks hold\n", name);
    return 0;
}

#endif /* CHECK_H */
