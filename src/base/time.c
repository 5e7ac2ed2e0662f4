/* SPDX-License-Identifier: Apache-2.0 */
/* The clock: see time.h. */
#include "base/time.h"

#include <limits.h>
#include <time.h>

hf__time hf__now(void) {
    struct timespec ts;
    clock_gettime(CLOCK_BOOTTIME, &ts);
    return (hf__time)ts.tv_sec * HF__SEC + ts.tv_nsec;
}

int64_t hf__unix_us(void) {
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

int hf__poll_ms(hf__time now, hf__time t) {
    if (t == HF__NEVER) return -1;
    if (t <= now) return 0;
    hf__time ms = (t - now + HF__MS - 1) / HF__MS;
    return ms > INT_MAX ? INT_MAX : (int)ms;
}
