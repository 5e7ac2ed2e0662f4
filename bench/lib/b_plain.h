/*
 * The library's own two scripts, sent by plain hiredis: a blocking connection and arguments made
 * beforehand, of the shape the library sends. It is what a pair costs without the library.
 */
#ifndef B_PLAIN_H
#define B_PLAIN_H

#include "b_redis.h"

#define B_CLIENT "01234567-89ab-4cde-8f01-23456789abcd"

typedef struct b_plain {
    redisContext *c;
    char key[64], fence[64];
    b_command acquire, release;
} b_plain;

/* `name` is kept away from what the library locks in the same run, and of about the same length. */
void b_plain_init(b_plain *p, b_transport transport, const char *name);
void b_plain_fini(b_plain *p);
void b_plain_pair(void *plain);

#endif
