/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers: see rand.h. */
#include "base/rand.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/time.h"

static void fill_random(unsigned char *out, size_t length) {
    size_t have = 0;
    while (have < length) {
        ssize_t n = getrandom(out + have, length - have, 0);
        if (n > 0)
            have += (size_t)n;
        else if (n < 0 && errno != EINTR)
            break;
    }
    hf__rand fallback = {(uint64_t)hf__now() ^ (uint64_t)getpid() << 32};
    while (have < length) out[have++] = (unsigned char)hf__rand_next(&fallback);
}

uint64_t hf__rand_seed(void) {
    union {
        unsigned char bytes[8];
        uint64_t value;
    } seed;
    fill_random(seed.bytes, sizeof seed.bytes);
    return seed.value;
}

/* splitmix64: any seed will do, even 0. */
uint64_t hf__rand_next(hf__rand *r) {
    uint64_t z = r->state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

int64_t hf__jitter(hf__rand *r, int64_t span) {
    if (span < 4) return span;
    return span - (int64_t)(hf__rand_next(r) % ((uint64_t)span / 4 + 1));
}

void hf__uuid_make(char out[HF__UUID_LENGTH + 1]) {
    unsigned char b[16];
    fill_random(b, sizeof b);
    b[6] = (unsigned char)((b[6] & 0x0f) | 0x40);
    b[8] = (unsigned char)((b[8] & 0x3f) | 0x80);
    snprintf(out, HF__UUID_LENGTH + 1,
             "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0], b[1],
             b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13], b[14],
             b[15]);
}
