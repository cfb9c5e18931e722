/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * Tensors of the fuzzer: made, read, written and destroyed, here and in the model.
 */
#include "world.h"

void fill(world *w, uint8_t *to, size_t bytes)
{
    size_t at;

    for (at = 0; at < bytes; at += 8) {
        size_t part = bytes - at < 8 ? bytes - at : 8;
        w->random = w->random * 6364136223846793005u + 1442695040888963407u;
        memcpy(to + at, &w->random, part);
    }
}

/* Whether parameters have a place in the arena for good. */
static int keeps_models(const world *w)
{
    return w->config.spill_dir != NULL && (w->config.flags & VT_CONFIG_SPILL_MODEL) == 0;
}

/* Makes a tensor as its shadow says: by its address, or by its handle. */
static vt_status make(world *w, shadow *s, const vt_tensor_desc *desc)
{
    vt_status status;

    if (!s->allocated)
        return vt_tensor_create(w->runtime, desc, &s->id);
    status = vt_alloc(w->runtime, desc, &s->address);
    if (status == VT_OK)
        MUST(vt_tensor_at(w->runtime, s->address, &s->id) == VT_OK);
    return status;
}

void create(world *w, unsigned which, size_t bytes)
{
    shadow *s = &w->tensors[which];
    vt_tensor_desc desc;
    vt_status status;

    memset(&desc, 0, sizeof desc);
    desc.size = sizeof desc;
    desc.bytes = bytes;
    desc.kind = which < KEPT ? VT_KIND_PARAMETER : VT_KIND_ACTIVATION;
    desc.name = which < KEPT ? "kept" : "passing";
    s->fixed = w->fixing && bytes / 16 % 3 != 0;
    s->allocated = s->fixed && bytes / 16 % 3 == 1;
    s->address = NULL;
    desc.flags = s->fixed && !s->allocated ? VT_TENSOR_FIXED_ADDRESS : 0;
    status = make(w, s, &desc);
    if (status == VT_ERROR_BUDGET && which < KEPT && keeps_models(w)) {
        /* A parameter must stay in the arena and there is no room: a gradient may leave. */
        desc.kind = VT_KIND_GRADIENT;
        status = make(w, s, &desc);
    }
    MUST(status == VT_OK);
    w->touching = 0;
    s->alive = 1;
    s->written = 0;
    s->bytes = bytes;
    s->content = (uint8_t *)calloc(1, bytes);
    s->state = (uint8_t *)calloc(1, bytes);
    MUST(s->content != NULL && s->state != NULL);
}

void forget(shadow *s)
{
    free(s->content);
    free(s->state);
    memset(s, 0, sizeof *s);
}

static vt_status unmake(world *w, const shadow *s)
{
    return s->allocated ? vt_free(w->runtime, s->address) : vt_tensor_destroy(w->runtime, s->id);
}

void destroy(world *w, unsigned which)
{
    MUST(unmake(w, &w->tensors[which]) == VT_OK);
    w->touching = 0;
    /* Once more is refused, and is no call that was not recorded. */
    if (w->disturbed)
        MUST(unmake(w, &w->tensors[which]) == VT_ERROR_NOT_FOUND);
    forget(&w->tensors[which]);
}

int is_lost(const shadow *s)
{
    size_t at;

    for (at = 0; at < s->bytes; ++at)
        if (s->state[at] != VT_CONTENT_INTACT)
            return 1;
    return 0;
}

void learn(world *w, shadow *s)
{
    vt_lost_range *ranges;
    vt_tensor_state state;
    uint8_t *found = (uint8_t *)calloc(1, s->bytes);
    size_t count = 0, at, last = 0;
    uint64_t bytes = 0;

    MUST(vt_tensor_lost(w->runtime, s->id, NULL, &count) == VT_OK);
    ranges = (vt_lost_range *)calloc(count + 1, sizeof *ranges);
    MUST(found != NULL && ranges != NULL);
    MUST(vt_tensor_lost(w->runtime, s->id, ranges, &count) == VT_OK);
    for (at = 0; at < count; ++at) {
        MUST(ranges[at].offset >= last && ranges[at].bytes > 0);
        MUST(ranges[at].content == VT_CONTENT_LOST || ranges[at].content == VT_CONTENT_TORN);
        last = ranges[at].offset + ranges[at].bytes;
        MUST(last <= s->bytes);
        memset(found + ranges[at].offset, (int)ranges[at].content, ranges[at].bytes);
        bytes += ranges[at].bytes;
    }
    state.size = sizeof state;
    MUST(vt_tensor_status(w->runtime, s->id, &state) == VT_OK);
    MUST(state.lost_ranges == count && state.lost_bytes == bytes);
    MUST((state.content == VT_CONTENT_INTACT) == (count == 0));
    for (at = 0; at < s->bytes; ++at)
        MUST(s->state[at] == found[at] ||
             (s->state[at] == VT_CONTENT_INTACT && found[at] == VT_CONTENT_LOST));
    memcpy(s->state, found, s->bytes);
    free(found);
    free(ranges);
}

void compare(world *w, unsigned which)
{
    shadow *s = &w->tensors[which];
    uint8_t *found = (uint8_t *)malloc(s->bytes);
    size_t at = 0, end;
    vt_status status;

    MUST(found != NULL);
    learn(w, s);
    while (at < s->bytes) {
        for (end = at; end < s->bytes && s->state[end] == VT_CONTENT_INTACT; ++end)
            ;
        MUST(vt_tensor_read(w->runtime, s->id, at, found, end - at) == VT_OK);
        MUST(memcmp(found, s->content + at, end - at) == 0);
        for (at = end; at < s->bytes && s->state[at] != VT_CONTENT_INTACT; ++at)
            ;
    }
    status = vt_tensor_read(w->runtime, s->id, 0, found, s->bytes);
    MUST(status == (is_lost(s) ? VT_ERROR_LOST : VT_OK));
    free(found);
}

void overwrite(world *w, unsigned which)
{
    shadow *s = &w->tensors[which];
    size_t offset = next(&w->in) * 37 % s->bytes;
    size_t bytes = next(&w->in) * 97 % (s->bytes - offset) + 1;

    learn(w, s);
    if (chance(&w->in, is_lost(s) ? 160 : 64)) {
        offset = 0;
        bytes = s->bytes;
    }
    fill(w, s->content + offset, bytes);
    MUST(vt_tensor_write(w->runtime, s->id, offset, s->content + offset, bytes) == VT_OK);
    memset(s->state + offset, VT_CONTENT_INTACT, bytes);
    s->written = 1;
}
