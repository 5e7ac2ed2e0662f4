/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The token clock: the one rule for the next token of a name. Tokens grow with every grant, by
 * counting, and follow the clock where they can. So they also grow if the last one was forgotten.
 */
#ifndef HF_STORE_LOCK_STATE_TOKEN_H
#define HF_STORE_LOCK_STATE_TOKEN_H

#include <stdint.h>

/* The token after `last`: higher than `last` and than `seen`, the highest that the client has seen,
   and not lower than `clock_us`, the engine's clock in microseconds; 0: not known. */
static inline uint64_t hf__token_next(uint64_t last, uint64_t seen, int64_t clock_us) {
    uint64_t token = (last > seen ? last : seen) + 1;
    return clock_us > 0 && token < (uint64_t)clock_us ? (uint64_t)clock_us : token;
}

#endif
