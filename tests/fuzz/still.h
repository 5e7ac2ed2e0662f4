/*
 * Time that stands still. With --wrap the library's clock_gettime, poll, nanosleep and getrandom come here: a
 * moment passes only where the library would have slept, so that a wait of an hour takes no
 * time and ends at the same moment in every run; and chance is the same in every run.
 *
 * For clients without threads (HF_NO_THREAD), whose calls do all there is to do.
 */
#ifndef FUZZ_STILL_H
#define FUZZ_STILL_H

#include <stdbool.h>
#include <stdint.h>

/* Begin anew, at the same moment and with the same chance each time. */
void still_begin(void);

int64_t still_now_ms(void);
int64_t still_unix_us(void);
void still_pass_ms(int64_t ms);

/* Called where poll has nothing to tell and would sleep; true: there may be something now. */
typedef bool still_idle_fn(void);
void still_on_idle(still_idle_fn *fn);

/* A call that looks so often without any time passing does not end. */
void still_call_begins(void);

#endif
