/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A histogram of durations in fixed memory. It has 32 buckets per power of two, so quantiles are
 * exact to three per cent.
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

/* The duration that this share of all durations (0 to 1) does not exceed; 0 if there are none. */
int64_t histogram_quantile(const histogram *s, double share);

#endif
