/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lease arithmetic, without state: the deadline, when to renew, when to retry.
 *
 * The store starts to count a lease when it executes the command, which is after the command was
 * sent. The holder counts from before it was sent, and subtracts a margin for clocks that run at
 * different rates. So the holder's deadline is never later than the store's.
 */
#ifndef HF_CORE_LEASE_H
#define HF_CORE_LEASE_H

#include "base/rand.h"
#include "base/time.h"

/* 1 % of the lease plus 2 ms: ample for quartz clocks, which drift by about 100 ppm. */
hf__time hf__lease_margin(int64_t lease_ms);

hf__time hf__lease_deadline(hf__time sent_at, int64_t lease_ms);

/* When the store's lease has surely expired, if it was begun or renewed no later than `at`. */
hf__time hf__lease_lapse(hf__time at, int64_t lease_ms);

/* The lease whose deadline is at least `span_ms` after the request. */
int64_t hf__lease_covering(int64_t span_ms);

/* A third of the lease after the request, with jitter so that many holds do not renew together. */
hf__time hf__lease_renew_at(hf__time sent_at, int64_t lease_ms, hf__rand *rand);

/*
 * Moves `at` earlier, by less than 1/128 of the lease, to one of a few instants. So the renewals of
 * many holds go out in one write. `phase` differs between clients; otherwise all clients of a
 * machine would send at the same instants.
 */
hf__time hf__lease_align(hf__time at, int64_t lease_ms, uint64_t phase);

/* When to try for the n-th time after a failure: from 10 ms, doubling, at most a tenth of the lease
   or 1 s. */
hf__time hf__lease_retry_at(hf__time now, int64_t lease_ms, uint32_t n, hf__rand *rand);

#endif
