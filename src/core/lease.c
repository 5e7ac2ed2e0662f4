/* SPDX-License-Identifier: Apache-2.0 */
/* Lease arithmetic: see lease.h. */
#include "core/lease.h"

#define INSTANTS 128 /* instants per lease at which renewals can be due */

hf__time hf__lease_margin(int64_t lease_ms) {
    return lease_ms * HF__MS / 100 + 2 * HF__MS;
}

hf__time hf__lease_deadline(hf__time sent_at, int64_t lease_ms) {
    return sent_at + lease_ms * HF__MS - hf__lease_margin(lease_ms);
}

hf__time hf__lease_lapse(hf__time at, int64_t lease_ms) {
    return at + lease_ms * HF__MS + hf__lease_margin(lease_ms);
}

int64_t hf__lease_covering(int64_t span_ms) {
    return span_ms > HF__SPAN_MAX_MS ? INT64_MAX : span_ms + span_ms / 50 + 5;
}

hf__time hf__lease_renew_at(hf__time sent_at, int64_t lease_ms, hf__rand *rand) {
    return sent_at + hf__jitter(rand, lease_ms * HF__MS / 3);
}

hf__time hf__lease_align(hf__time at, int64_t lease_ms, uint64_t phase) {
    uint64_t grain = (uint64_t)(lease_ms * HF__MS / INSTANTS);
    return at - (hf__time)(((uint64_t)at + phase % grain) % grain);
}

hf__time hf__lease_retry_at(hf__time now, int64_t lease_ms, uint32_t n, hf__rand *rand) {
    hf__time longest = hf__sooner(lease_ms * HF__MS / 10, HF__SEC);
    hf__time wait = n < 10 ? (10 * HF__MS) << n : longest;
    return now + hf__jitter(rand, hf__sooner(wait, longest));
}
