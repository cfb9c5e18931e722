/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The conventions of vtensor.h, seen from outside, and one runtime from birth to death. Compiled in
 * several standards of C and C++. Prints each check that does not hold; exits with 1 then.
 */
#include "check.h"

static void check_version(void)
{
    CHECK(vt_version() == VT_VERSION);
    CHECK(vt_version() >> 16 == VT_VERSION_MAJOR);
}

static void check_status_strings(void)
{
    CHECK(strcmp(vt_status_string(VT_OK), "success") == 0);
    CHECK(strlen(vt_status_string(VT_ERROR_INVALID_ARGUMENT)) > 0);
    CHECK(strlen(vt_status_string(VT_ERROR_BUFFER)) > 0);
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

/* Three bytes in, three bytes out, through an op. */
static void check_a_runtime(void)
{
    vt_config config;
    vt_runtime *runtime = NULL;
    vt_tensor_desc desc;
    vt_tensor tensor = 0;
    vt_access access;
    vt_op_desc op;
    void *pointer = NULL;
    char bytes[3] = {1, 2, 3};

    OK(vt_config_init(&config));
    CHECK(config.size == sizeof config);
    config.budget_bytes = 1u << 20;
    OK(vt_runtime_create(&config, &runtime));
    CHECK(vt_runtime_phase(runtime) == VT_PHASE_RECORDING);

    memset(&desc, 0, sizeof desc);
    desc.size = sizeof desc;
    desc.bytes = sizeof bytes;
    desc.kind = VT_KIND_PARAMETER;
    OK(vt_tensor_create(runtime, &desc, &tensor));
    OK(vt_tensor_write(runtime, tensor, 0, bytes, sizeof bytes));

    memset(&access, 0, sizeof access);
    access.tensor = tensor;
    access.mode = VT_ACCESS_READ_WRITE;
    memset(&op, 0, sizeof op);
    op.size = sizeof op;
    op.name = "increment";
    op.accesses = &access;
    op.access_count = 1;
    OK(vt_iteration_begin(runtime, 1));
    OK(vt_op_begin(runtime, &op, &pointer));
    CHECK((uintptr_t)pointer % 512 == 0);
    ((char *)pointer)[1] = 7;
    OK(vt_op_end(runtime));
    OK(vt_iteration_end(runtime));
    OK(vt_sync(runtime));

    memset(bytes, 0, sizeof bytes);
    OK(vt_tensor_read(runtime, tensor, 0, bytes, sizeof bytes));
    CHECK(bytes[0] == 1 && bytes[1] == 7 && bytes[2] == 3);
    OK(vt_tensor_destroy(runtime, tensor));
    vt_runtime_destroy(runtime);
}

static void check_the_probe(void)
{
    vt_probe_info info;

    info.size = sizeof info;
    OK(vt_probe(&info));
    CHECK(info.backend == VT_BACKEND_HOST && info.mechanism == VT_MECHANISM_MAPPED);
    CHECK(strstr(info.reasons, "VT_BACKEND_CUDA") != NULL);
    CHECK((info.cuda == 0) == (strstr(info.reasons, "there is none") != NULL));
    CHECK(info.page_bytes >= 4096 && info.memory_bytes >= info.budget_bytes);
}

int main(void)
{
    check_version();
    check_status_strings();
    check_failures(); /* before anything else fails: it wants an empty detail at first */
    check_amounts();
    check_a_runtime();
    check_the_probe();
    return verdict("smoke");
}
