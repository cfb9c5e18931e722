// The ops of a replay on a GPU: write a content, check a content, take some time.
//
// vt_fill (dst, bytes, tensor, version, offset)       writes the content
// vt_check(src, bytes, tensor, version, offset, out)  adds the number of wrong bytes to *out (u64)
// vt_spin (nanoseconds)                               is busy for that long; launch one thread
//
// All arguments are 64 bits wide. Any grid of one dimension will do. The content of a tensor is
// that of the replay on the host: 8-byte little-endian words, base(tensor, version) + index * STEP,
// wrapping; `offset` is where the range begins in its tensor.
//
// `build.sh` makes vt_kernels.ptx of this file. Nothing but the compiler is needed: no header of
// CUDA, so what those would give is written as instructions of PTX.

#define GLOBAL extern "C" __attribute__((global))
#define DEVICE static __attribute__((device))

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;

#define STEP 0x9e3779b97f4a7c15ull
#define LOW_56 ((1ull << 56) - 1)

#define REGISTER(name, from)                                 \
    DEVICE u32 name(void)                                    \
    {                                                        \
        u32 value;                                           \
        asm volatile("mov.u32 %0, %%" from ";" : "=r"(value)); \
        return value;                                        \
    }
REGISTER(thread, "tid.x")
REGISTER(threads, "ntid.x")
REGISTER(block, "ctaid.x")
REGISTER(blocks, "nctaid.x")

DEVICE u64 clock_ns(void)
{
    u64 value;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(value));
    return value;
}

// A different number for each tensor and version; its lowest byte differs between neighbouring
// versions.
DEVICE u64 base(u32 tensor, u32 version)
{
    u64 high = (u64)tensor << 24 | version >> 8;
    high = (high * 0xbf58476d1ce4e5b9ull) & LOW_56;
    high ^= high >> 29;
    high = (high * 0x94d049bb133111ebull) & LOW_56;
    high ^= high >> 31;
    u32 of_tensor = tensor * 0x9e3779b1u >> 24;
    return high << 8 | ((version + of_tensor) & 0xff);
}

// Word `index` of a tensor covers its bytes 8 * index and the seven after it. Each thread takes
// every n-th word of those that the range touches, as one word where it can, else byte by byte.
struct words {
    u64 first, end, index, stride;
};

DEVICE struct words words_of(u64 offset, u64 bytes)
{
    struct words words;
    words.first = offset / 8;
    words.end = bytes ? (offset + bytes - 1) / 8 + 1 : words.first;
    words.index = words.first + (u64)block() * threads() + thread();
    words.stride = (u64)blocks() * threads();
    return words;
}

GLOBAL void vt_fill(u64 dst, u64 bytes, u64 tensor, u64 version, u64 offset)
{
    const u64 start = base((u32)tensor, (u32)version);
    // Where byte 0 of the tensor would be.
    const u64 origin = dst - offset;
    for (struct words w = words_of(offset, bytes); w.index < w.end; w.index += w.stride) {
        const u64 word = start + w.index * STEP;
        const u64 from = w.index * 8;
        if (from >= offset && from + 8 <= offset + bytes && (origin & 7) == 0) {
            *(u64 *)(origin + from) = word;
            continue;
        }
        for (u64 at = from; at < from + 8; ++at)
            if (at >= offset && at < offset + bytes)
                *(u8 *)(origin + at) = (u8)(word >> 8 * (at - from));
    }
}

GLOBAL void vt_check(u64 src, u64 bytes, u64 tensor, u64 version, u64 offset, u64 out)
{
    const u64 start = base((u32)tensor, (u32)version);
    const u64 origin = src - offset;
    u64 wrong = 0;
    for (struct words w = words_of(offset, bytes); w.index < w.end; w.index += w.stride) {
        const u64 word = start + w.index * STEP;
        const u64 from = w.index * 8;
        if (from >= offset && from + 8 <= offset + bytes && (origin & 7) == 0
            && *(const u64 *)(origin + from) == word)
            continue;
        for (u64 at = from; at < from + 8; ++at)
            if (at >= offset && at < offset + bytes
                && *(const u8 *)(origin + at) != (u8)(word >> 8 * (at - from)))
                ++wrong;
    }
    if (wrong)
        asm volatile("red.add.u64 [%0], %1;" : : "l"(out), "l"(wrong) : "memory");
}

GLOBAL void vt_spin(u64 nanoseconds)
{
    const u64 start = clock_ns();
    while (clock_ns() - start < nanoseconds) {
    }
}
