/* competitor SHARE: takes memory bandwidth away until it is killed.
 *
 * Copies one array to another, both far larger than the caches, with stores past these where the processor can
 * (non-temporal), so that the others lose bandwidth and keep most of their cache. SHARE of the time, in slices of a
 * millisecond: 0.5 rests half of it. Prints a line when all pages are there and it has begun.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#define ARRAY (256u << 20)
#define CHUNK (256u << 10)
#define SLICE 1e-3

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void copy(char *to, const char *from, size_t bytes)
{
#ifdef __SSE2__
    for (size_t i = 0; i < bytes; i += 16)
        _mm_stream_si128((__m128i *)(to + i), _mm_load_si128((const __m128i *)(from + i)));
#else
    memcpy(to, from, bytes);
    __asm__ volatile("" : : "r"(to) : "memory");
#endif
}

int main(int argc, char **argv)
{
    double share = argc == 2 ? atof(argv[1]) : 0.0;
    if (!(share > 0.0 && share <= 1.0)) {
        fprintf(stderr, "usage: competitor SHARE (above 0, at most 1)\n");
        return 2;
    }
    char *array = NULL;
    if (posix_memalign((void **)&array, 4096, 2 * ARRAY)) {
        fprintf(stderr, "competitor: no memory for two arrays of %u bytes\n", ARRAY);
        return 1;
    }
    memset(array, 1, 2 * ARRAY);
    puts("begun");
    fflush(stdout);
    for (size_t at = 0;;) {
        double begun = now(), until = begun + share * SLICE;
        do {
            copy(array + ARRAY + at, array + at, CHUNK);
            at = (at + CHUNK) % ARRAY;
        } while (now() < until);
        if (share < 1.0) {
            double worked = now() - begun, rest = worked * (1.0 - share) / share;
            struct timespec pause = {0, (long)(rest * 1e9)};
            nanosleep(&pause, NULL);
        }
    }
}
