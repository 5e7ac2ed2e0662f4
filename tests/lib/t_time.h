/*
 * Time in tests: the clock the library uses, and waiting for a condition instead of sleeping and
 * hoping. A deadline only says when to give the test up, so it is stretched, and with it the leases that a test keeps: twofold,
 * since a machine may stand still for a moment; fivefold under a sanitizer; and by $HOLDFAST_TEST_PATIENCE anywhere. With 0 there is
 * no such allowance.
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

/* For time that must pass (a lease that runs out), never for something that must happen. */
void t_sleep_ms(int64_t ms);

/* A deadline in milliseconds, stretched as said above. All the library's deadlines are. */
int64_t t_patience(int64_t ms);

/* So many percent of it are enough from now on: where much is to fail, and is not waited for. */
void t_hurry(int percent);

/* Check every millisecond until it holds; at the deadline the test fails with the text of it. */
#define T_WAIT_UNTIL(condition, deadline_ms)                                    \
    do {                                                                        \
        const int64_t t_until_ = t_now_ms() + t_patience(deadline_ms);          \
        while (!(condition)) {                                                  \
            if (t_now_ms() > t_until_)                                          \
                t_fail_at(__FILE__, __LINE__, "waited %lld ms in vain for: %s", \
                          (long long)t_patience(deadline_ms), #condition);      \
            t_sleep_ms(1);                                                      \
        }                                                                       \
    } while (0)

#endif
