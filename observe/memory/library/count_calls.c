/* Calls of the C library that read or write memory in bulk, where the program itself makes them: npc program cc links it
 * with --wrap=NAME (ld(1)) for each WRAPPED(NAME) here, so that what it calls NAME is __wrap_NAME. Each word of 8
 * bytes that is touched is an access. */
#define _GNU_SOURCE
#include "count.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define WRAPPED(name) __wrap_##name
#pragma GCC visibility push(default)

void *WRAPPED(memcpy)(void *to, const void *from, size_t bytes)
{
    npc_count_reads(from, bytes);
    npc_count_writes(to, bytes);
    return memcpy(to, from, bytes);
}

void *WRAPPED(memmove)(void *to, const void *from, size_t bytes)
{
    npc_count_reads(from, bytes);
    npc_count_writes(to, bytes);
    return memmove(to, from, bytes);
}

void *WRAPPED(memset)(void *to, int byte, size_t bytes)
{
    npc_count_writes(to, bytes);
    return memset(to, byte, bytes);
}

/* With -D_FORTIFY_SOURCE. */
extern void *__memcpy_chk(void *to, const void *from, size_t bytes, size_t room);
extern void *__memmove_chk(void *to, const void *from, size_t bytes, size_t room);
extern void *__memset_chk(void *to, int byte, size_t bytes, size_t room);

void *WRAPPED(__memcpy_chk)(void *to, const void *from, size_t bytes, size_t room)
{
    npc_count_reads(from, bytes);
    npc_count_writes(to, bytes);
    return __memcpy_chk(to, from, bytes, room);
}

void *WRAPPED(__memmove_chk)(void *to, const void *from, size_t bytes, size_t room)
{
    npc_count_reads(from, bytes);
    npc_count_writes(to, bytes);
    return __memmove_chk(to, from, bytes, room);
}

void *WRAPPED(__memset_chk)(void *to, int byte, size_t bytes, size_t room)
{
    npc_count_writes(to, bytes);
    return __memset_chk(to, byte, bytes, room);
}

ssize_t WRAPPED(read)(int file, void *to, size_t bytes)
{
    ssize_t done = read(file, to, bytes);
    npc_count_writes(to, done > 0 ? (size_t)done : 0);
    return done;
}

ssize_t WRAPPED(write)(int file, const void *from, size_t bytes)
{
    ssize_t done = write(file, from, bytes);
    npc_count_reads(from, done > 0 ? (size_t)done : 0);
    return done;
}

ssize_t WRAPPED(pread)(int file, void *to, size_t bytes, off_t offset)
{
    ssize_t done = pread(file, to, bytes, offset);
    npc_count_writes(to, done > 0 ? (size_t)done : 0);
    return done;
}

ssize_t WRAPPED(pwrite)(int file, const void *from, size_t bytes, off_t offset)
{
    ssize_t done = pwrite(file, from, bytes, offset);
    npc_count_reads(from, done > 0 ? (size_t)done : 0);
    return done;
}

size_t WRAPPED(fread)(void *to, size_t each, size_t number, FILE *file)
{
    size_t done = fread(to, each, number, file);
    npc_count_writes(to, done * each);
    return done;
}

size_t WRAPPED(fwrite)(const void *from, size_t each, size_t number, FILE *file)
{
    size_t done = fwrite(from, each, number, file);
    npc_count_reads(from, done * each);
    return done;
}
