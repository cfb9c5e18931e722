/*
 * SPDX-License-Identifier: MIT OR Apache-2.0
 *
 * A machine with pages of 64 KiB, as far as a library can play it: preloaded, it tells that page
 * size and refuses or rounds what such a kernel would. So code that counts on pages of 4 KiB fails
 * here as it would there.
 *
 *   cc -shared -fPIC -o pages64k.so pages64k.c -ldl
 *   LD_PRELOAD=./pages64k.so PROGRAM
 *
 * Limits: memory files still give and take blocks of the real page, and what the C library maps for
 * itself (stacks, large allocations) is not seen.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE ((uintptr_t)65536)

static int bent(uintptr_t number)
{
    return number % PAGE != 0;
}

static size_t whole(size_t bytes)
{
    return (bytes + PAGE - 1) / PAGE * PAGE;
}

static int refused(void)
{
    errno = EINVAL;
    return -1;
}

long sysconf(int name)
{
    static long (*real)(int);

    if (name == _SC_PAGESIZE)
        return (long)PAGE;
    if (real == NULL)
        real = (long (*)(int))dlsym(RTLD_NEXT, "sysconf");
    return real(name);
}

int getpagesize(void)
{
    return (int)PAGE;
}

unsigned long getauxval(unsigned long type)
{
    static unsigned long (*real)(unsigned long);

    if (type == AT_PAGESZ)
        return PAGE;
    if (real == NULL)
        real = (unsigned long (*)(unsigned long))dlsym(RTLD_NEXT, "getauxval");
    return real(type);
}

static void *map(void *address, size_t bytes, int protection, int flags, int file, off_t offset)
{
    return (void *)syscall(SYS_mmap, address, bytes, protection, flags, file, offset);
}

void *mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset)
{
    uintptr_t start, at;
    void *room;

    if (bent((uintptr_t)offset) || bytes == 0)
        return errno = EINVAL, MAP_FAILED;
    bytes = whole(bytes);
    if (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) {
        if (bent((uintptr_t)address))
            return errno = EINVAL, MAP_FAILED;
        return map(address, bytes, protection, flags, file, offset);
    }
    room = map(NULL, bytes + PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room == MAP_FAILED)
        return MAP_FAILED;
    start = (uintptr_t)room;
    at = (start + PAGE - 1) / PAGE * PAGE;
    if (at > start)
        syscall(SYS_munmap, start, at - start);
    if (start + PAGE > at)
        syscall(SYS_munmap, at + bytes, start + PAGE - at);
    room = map((void *)at, bytes, protection, flags | MAP_FIXED, file, offset);
    if (room == MAP_FAILED) {
        int why = errno;
        syscall(SYS_munmap, at, bytes);
        errno = why;
    }
    return room;
}

void *mmap64(void *address, size_t bytes, int protection, int flags, int file, off_t offset)
{
    return mmap(address, bytes, protection, flags, file, offset);
}

int munmap(void *address, size_t bytes)
{
    if (bent((uintptr_t)address))
        return refused();
    return (int)syscall(SYS_munmap, address, whole(bytes));
}

int mprotect(void *address, size_t bytes, int protection)
{
    if (bent((uintptr_t)address))
        return refused();
    return (int)syscall(SYS_mprotect, address, whole(bytes), protection);
}

int madvise(void *address, size_t bytes, int advice)
{
    if (bent((uintptr_t)address))
        return refused();
    return (int)syscall(SYS_madvise, address, whole(bytes), advice);
}

void *mremap(void *address, size_t old, size_t bytes, int flags, ...)
{
    va_list rest;
    void *target;

    va_start(rest, flags);
    target = va_arg(rest, void *);
    va_end(rest);
    if (bent((uintptr_t)address) || ((flags & MREMAP_FIXED) && bent((uintptr_t)target)))
        return errno = EINVAL, MAP_FAILED;
    return (void *)syscall(SYS_mremap, address, whole(old), whole(bytes), flags, target);
}
