/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * The input of the fuzzer, byte by byte: it decides everything.
 */
#include "world.h"

unsigned next(input *in)
{
    return in->at < in->size ? in->data[in->at++] : 0;
}

int over(const input *in)
{
    return in->at >= in->size;
}

int chance(input *in, unsigned of_256)
{
    return !over(in) && next(in) < of_256;
}

size_t some_bytes(input *in)
{
    return (size_t)(next(in) % 5) * PAGE + next(in) * 16 + 1;
}
