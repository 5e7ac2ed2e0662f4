/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Time in tests: the clock the library uses, and waiting for a condition instead of sleeping. A
 * deadline only says when to give up a test. So deadlines and the leases of tests are stretched:
 * twofold, because a machine may pause for a moment, or fivefold under a sanitizer; and by the
 * factor $HOLDFAST_TEST_PATIENCE. With 0 nothing is stretched.
 */
#ifndef T_TIME_H
#define T_TIME_H

#include <stdint.h>

#include "t_fail.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define T_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define T_SANITIZED 1
#endif
#endif
#ifndef T_SANITIZED
#define T_SANITIZED 0
#endif

/* CLOCK_BOOTTIME in milliseconds, and in microseconds. */
int64_t t_now_ms(void);
int64_t t_now_us(void);

/* For time that must pass (a lease that expires). Never use it to wait for an event. */
void t_sleep_ms(int64_t ms);

/* A deadline in milliseconds, stretched as described above. The test library stretches all of
   its deadlines. */
int64_t t_patience(int64_t ms);

/* From now on this percentage of it is enough: for tests in which many waits are expected to
   fail. */
void t_hurry(int percent);

/* Check every millisecond until the condition is true; at the deadline the test fails with its
   text. */
#define T_WAIT_UNTIL(condition, deadline_ms)                               \
    do {                                                                   \
        const int64_t t_until_ = t_now_ms() + t_patience(deadline_ms);     \
        while (!(condition)) {                                             \
            if (t_now_ms() > t_until_)                                     \
                t_fail_at(__FILE__, __LINE__, "waited %lld ms for: %s",    \
                          (long long)t_patience(deadline_ms), #condition); \
            t_sleep_ms(1);                                                 \
        }                                                                  \
    } while (0)

#endif
