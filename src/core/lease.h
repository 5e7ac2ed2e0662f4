/*
 * The arithmetic of leases, pure: when a deadline is, when to renew, when to try again.
 *
 * The deadline is honest: the store starts to count when it executes a command, which is after the
 * command was sent; so counting from before the sending, and a margin less for clocks that run at
 * different rates, the holder's deadline is never after the store's.
 */
#ifndef HF_CORE_LEASE_H
#define HF_CORE_LEASE_H

#include "base/rand.h"
#include "base/time.h"

/* 1 % of the lease and 2 ms: generous for quartz, which drifts by some 100 ppm. */
hf__time hf__lease_margin(int64_t lease_ms);

hf__time hf__lease_deadline(hf__time sent_at, int64_t lease_ms);

/* When the store has surely forgotten a lease that it began, or renewed, by `at` at the latest. */
hf__time hf__lease_lapse(hf__time at, int64_t lease_ms);

/* The lease whose deadline is not before `span_ms` after the asking. */
int64_t hf__lease_covering(int64_t span_ms);

/* A third of the lease after the asking, jittered so that many holds do not renew as one. */
hf__time hf__lease_renew_at(hf__time sent_at, int64_t lease_ms, hf__rand *rand);

/*
 * The same a little earlier, by less than 1/128 of the lease: at one of few instants, so that what many
 * holds need goes out in one write and not each by itself. `phase` is the client's own, or the clients of
 * a machine would all speak at once.
 */
hf__time hf__lease_align(hf__time at, int64_t lease_ms, uint64_t phase);

/* The n-th try again after a failure: from 10 ms, doubling, at most a tenth of the lease, or 1 s. */
hf__time hf__lease_retry_at(hf__time now, int64_t lease_ms, uint32_t n, hf__rand *rand);

#endif
