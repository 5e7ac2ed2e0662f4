/*
 * How many spans there were of each length, in fixed memory: buckets of which 32 make a doubling,
 * so that what is read from it is right to three per cent.
 */
#ifndef CLI_BENCH_HISTOGRAM_H
#define CLI_BENCH_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_BUCKETS (64 * 32)

typedef struct histogram {
    uint64_t count;
    int64_t longest;
    uint64_t bucket[HISTOGRAM_BUCKETS];
} histogram;

void histogram_add(histogram *s, int64_t duration);
void histogram_merge(histogram *to, const histogram *from);

/* The span that `share` of them (0 to 1) do not exceed; 0: there are none. */
int64_t histogram_quantile(const histogram *s, double share);

#endif
