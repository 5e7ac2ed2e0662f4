/* SPDX-License-Identifier: Apache-2.0 */
/* Histograms of durations, in buckets of powers of two. Adding one costs a few instructions. */
#ifndef HF_CORE_HISTOGRAM_H
#define HF_CORE_HISTOGRAM_H

#include "base/time.h"
#include "holdfast.h"

/* The bucket of a duration in microseconds: the first whose bound, 2^i, is not less than it. */
static inline unsigned hf__bucket_of(uint64_t us) {
    unsigned i = us > 1 ? 64 - (unsigned)__builtin_clzll(us - 1) : 0;
    return i < HF_BUCKETS ? i : HF_BUCKETS - 1;
}

/* Rounded up to microseconds, so that a bucket's bound is inclusive. */
static inline void hf__histogram_add(hf_histogram *h, hf__time span) {
    uint64_t us = span > 0 ? ((uint64_t)span + 999) / 1000 : 0;
    h->count++;
    h->sum_us += us;
    h->bucket[hf__bucket_of(us)]++;
}

#endif
