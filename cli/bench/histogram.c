/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/histogram.h"

#define FINE_BITS 5 /* 32 buckets per power of two */

static unsigned bucket_of(uint64_t duration) {
    if (duration < 1U << FINE_BITS) return (unsigned)duration;
    unsigned doublings = 63 - FINE_BITS - (unsigned)__builtin_clzll(duration);
    return (doublings + 1) << FINE_BITS |
           (unsigned)(duration >> doublings & ((1U << FINE_BITS) - 1));
}

/* The largest duration in a bucket. */
static uint64_t bucket_bound(unsigned index) {
    if (index < 1U << FINE_BITS) return index;
    unsigned doublings = (index >> FINE_BITS) - 1;
    uint64_t fine = 1U << FINE_BITS | (index & ((1U << FINE_BITS) - 1));
    return ((fine + 1) << doublings) - 1;
}

void histogram_add(histogram *s, int64_t duration) {
    if (duration < 0) duration = 0;
    s->count++;
    s->bucket[bucket_of((uint64_t)duration)]++;
    if (duration > s->longest) s->longest = duration;
}

void histogram_merge(histogram *to, const histogram *from) {
    to->count += from->count;
    if (from->longest > to->longest) to->longest = from->longest;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) to->bucket[i] += from->bucket[i];
}

int64_t histogram_quantile(const histogram *s, double share) {
    uint64_t wanted = (uint64_t)(share * (double)s->count), seen = 0;
    if (!s->count) return 0;
    if (wanted >= s->count) wanted = s->count - 1;
    for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += s->bucket[i];
        if (seen <= wanted) continue;
        int64_t bound = (int64_t)bucket_bound(i);
        return bound < s->longest ? bound : s->longest;
    }
    return s->longest;
}
