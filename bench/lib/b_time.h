/* SPDX-License-Identifier: Apache-2.0 */
/* The clock of the benchmarks: nanoseconds, never stepped. */
#ifndef B_TIME_H
#define B_TIME_H

#include <stdint.h>
#include <time.h>

static inline int64_t b_now(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

#endif
