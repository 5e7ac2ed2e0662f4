/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random numbers, for jitter and ids. Seeded once, so a simulation can be repeated from its seed.
 */
#ifndef HF_BASE_RAND_H
#define HF_BASE_RAND_H

#include <stdint.h>

typedef struct hf__rand {
    uint64_t state;
} hf__rand;

/* A seed from the system; from the clock if the system has none. */
uint64_t hf__rand_seed(void);

uint64_t hf__rand_next(hf__rand *r);

/* A duration between 3/4 of `span` and `span`: enough to spread many clients, and never too
   late. */
int64_t hf__jitter(hf__rand *r, int64_t span);

#define HF__UUID_LENGTH 36

/* A random (version 4) UUID, from the system and not from a seed, which could repeat. */
void hf__uuid_make(char out[HF__UUID_LENGTH + 1]);

#endif
