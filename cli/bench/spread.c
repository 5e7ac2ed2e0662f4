#include "bench/spread.h"

#define FINE_BITS 5 /* 32 buckets a doubling */

static unsigned index_of(uint64_t span) {
    if (span < 1U << FINE_BITS) return (unsigned)span;
    unsigned doublings = 63 - FINE_BITS - (unsigned)__builtin_clzll(span);
    return (doublings + 1) << FINE_BITS | (unsigned)(span >> doublings & ((1U << FINE_BITS) - 1));
}

/* The largest span of a bucket. */
static uint64_t bound_of(unsigned index) {
    if (index < 1U << FINE_BITS) return index;
    unsigned doublings = (index >> FINE_BITS) - 1;
    uint64_t fine = 1U << FINE_BITS | (index & ((1U << FINE_BITS) - 1));
    return ((fine + 1) << doublings) - 1;
}

void spread_add(spread *s, int64_t span) {
    if (span < 0) span = 0;
    s->count++;
    s->bucket[index_of((uint64_t)span)]++;
    if (span > s->most) s->most = span;
}

void spread_join(spread *to, const spread *from) {
    to->count += from->count;
    if (from->most > to->most) to->most = from->most;
    for (unsigned i = 0; i < SPREAD_BUCKETS; i++) to->bucket[i] += from->bucket[i];
}

int64_t spread_quantile(const spread *s, double share) {
    uint64_t wanted = (uint64_t)(share * (double)s->count), seen = 0;
    if (!s->count) return 0;
    if (wanted >= s->count) wanted = s->count - 1;
    for (unsigned i = 0; i < SPREAD_BUCKETS; i++) {
        seen += s->bucket[i];
        if (seen <= wanted) continue;
        int64_t bound = (int64_t)bound_of(i);
        return bound < s->most ? bound : s->most;
    }
    return s->most;
}
