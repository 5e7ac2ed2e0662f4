/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pair without the library: plain hiredis, a blocking connection, and exactly the two commands
 * that the library sends. They are recorded by MONITOR while the library makes one pair, so the
 * comparison stays fair when scripts or their arguments change.
 */
#ifndef B_PLAIN_H
#define B_PLAIN_H

#include "b_redis.h"

typedef struct b_plain {
    redisContext *c;
    b_command acquire, release;
} b_plain;

/* `name` must differ from the names that the library locks in the same run. */
void b_plain_init(b_plain *p, b_transport transport, const char *name);
void b_plain_fini(b_plain *p);
void b_plain_pair(void *plain);

#endif
