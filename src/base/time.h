/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One type for times and durations: nanoseconds on CLOCK_BOOTTIME, which includes suspend. Only
 * hf__now() reads the clock; everything below the client is passed the time.
 */
#ifndef HF_BASE_TIME_H
#define HF_BASE_TIME_H

#include <stdint.h>

typedef int64_t hf__time;

#define HF__NEVER INT64_MAX
#define HF__MS    INT64_C(1000000)
#define HF__SEC   (1000 * HF__MS)

/* The longest duration that is counted. Longer ones (292 years would overflow) are HF__NEVER. */
#define HF__SPAN_MAX_MS (INT64_C(100) * 365 * 24 * 3600 * 1000)

hf__time hf__now(void);

/* The wall clock, in microseconds since 1970: for tokens, and for what people read. It may be set
   back at any time. */
int64_t hf__unix_us(void);

/* now + ms. A negative duration (HF_FOREVER), or one that is too long to count, is HF__NEVER. */
static inline hf__time hf__after_ms(hf__time now, int64_t ms) {
    return ms < 0 || ms > HF__SPAN_MAX_MS ? HF__NEVER : now + ms * HF__MS;
}

static inline hf__time hf__sooner(hf__time a, hf__time b) {
    return a < b ? a : b;
}

static inline hf__time hf__later(hf__time a, hf__time b) {
    return a > b ? a : b;
}

/* Milliseconds from `now` until `t`, for poll(2): rounded up, so that no thread wakes early; -1 for
   never. */
int hf__poll_ms(hf__time now, hf__time t);

#endif
