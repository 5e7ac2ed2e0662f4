/*
 * How many spans there were of each length, in fixed memory: buckets of which 32 make a doubling, so that
 * what is read from it is right to three per cent.
 */
#ifndef CLI_BENCH_SPREAD_H
#define CLI_BENCH_SPREAD_H

#include <stdint.h>

#define SPREAD_BUCKETS (64 * 32)

typedef struct spread {
    uint64_t count;
    int64_t most;
    uint64_t bucket[SPREAD_BUCKETS];
} spread;

void spread_add(spread *s, int64_t span);
void spread_join(spread *to, const spread *from);

/* The span that `share` of them (0 to 1) do not exceed; 0: there are none. */
int64_t spread_quantile(const spread *s, double share);

#endif
