/*
 * Fake time. With --wrap the library's clock_gettime, poll, nanosleep and getrandom come here. Time
 * passes only where the library would have slept. So a wait of an hour takes no real time, and ends
 * at the same moment in every run. Random numbers are also the same in every run.
 *
 * For clients without threads (HF_NO_THREAD), whose calls do all the work.
 */
#ifndef FUZZ_STILL_H
#define FUZZ_STILL_H

#include <stdbool.h>
#include <stdint.h>

/* Start again, at the same time and with the same random numbers. */
void still_begin(void);

int64_t still_now_ms(void);
int64_t still_unix_us(void);
void still_pass_ms(int64_t ms);

/* Called where poll has no events and would sleep; true: check again, there may be events now. */
typedef bool still_idle_fn(void);
void still_on_idle(still_idle_fn *fn);

/* Call it before each library call. It aborts a call that polls very often without any time
   passing. */
void still_call_begins(void);

#endif
