/* SPDX-License-Identifier: Apache-2.0 */
/* See t_time.h. */
#include "t_time.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

int64_t t_now_us(void) {
    struct timespec now;
    if (clock_gettime(CLOCK_BOOTTIME, &now) != 0) t_fail("CLOCK_BOOTTIME is not available");
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t t_now_ms(void) {
    return t_now_us() / 1000;
}

void t_sleep_ms(int64_t ms) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t ns = until.tv_nsec + ms % 1000 * 1000000;
    until.tv_sec += (time_t)(ms / 1000 + ns / 1000000000);
    until.tv_nsec = (long)(ns % 1000000000);
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {
    }
}

static _Atomic int enough = 100;

void t_hurry(int percent) {
    enough = percent;
}

int64_t t_patience(int64_t ms) {
    const char *factor = getenv("HOLDFAST_TEST_PATIENCE");
    long times = factor ? strtol(factor, NULL, 10) : 1;
    if (times < 1) return ms;
    return ms * times * (T_SANITIZED ? 5 : 2) * enough / 100;
}
