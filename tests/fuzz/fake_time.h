/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fake time. With --wrap the library's clock_gettime, poll, nanosleep and getrandom come here. Time
 * passes only where the library would have slept. So a wait of an hour takes no real time, and ends
 * at the same moment in every run. Random numbers are also the same in every run.
 *
 * For clients without threads (HF_NO_THREAD), whose calls do all the work.
 */
#ifndef FUZZ_FAKE_TIME_H
#define FUZZ_FAKE_TIME_H

#include <stdbool.h>
#include <stdint.h>

/* Start again, at the same time and with the same random numbers. */
void fake_time_begin(void);

int64_t fake_time_now_ms(void);
int64_t fake_time_unix_us(void);
void fake_time_pass_ms(int64_t ms);

/* Called where poll has no events and would sleep; true: check again, there may be events now. */
typedef bool fake_time_idle_fn(void);
void fake_time_on_idle(fake_time_idle_fn *fn);

/* Call it before each library call. It aborts a call that polls very often without any time
   passing. */
void fake_time_call_begins(void);

#endif
