/* Jitter and identities. Seeded once, so that a simulation can be repeated from its seed. */
#ifndef HF_BASE_RAND_H
#define HF_BASE_RAND_H

#include <stdint.h>

typedef struct hf__rand {
    uint64_t state;
} hf__rand;

/* A seed from the system; falls back on the clock where the system has none to give. */
uint64_t hf__rand_seed(void);

uint64_t hf__rand_next(hf__rand *r);

/* A span between 3/4 of it and all of it: enough to spread a herd, never later than asked. */
int64_t hf__jitter(hf__rand *r, int64_t span);

#define HF__UUID_LENGTH 36

/* A random (version 4) UUID, straight from the system and not from a seed that could repeat. */
void hf__uuid_make(char out[HF__UUID_LENGTH + 1]);

#endif
