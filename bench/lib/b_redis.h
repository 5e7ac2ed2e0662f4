/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A private redis-server on a free port and a unix socket, which ends with the program, and plain
 * hiredis connections to it for comparisons. Any error ends the program with a message.
 *
 * $HOLDFAST_TEST_SERVER names another binary, such as valkey-server.
 */
#ifndef B_REDIS_H
#define B_REDIS_H

#include <hiredis/hiredis.h>
#include <stddef.h>
#include <stdint.h>

typedef enum b_transport { B_TCP, B_UNIX } b_transport;

/* One server per program: start it first, from the main thread. */
void b_redis_start(void);
const char *b_redis_url(b_transport transport);

/* From now on the server, this thread and the threads it starts share one core. The cost of a
   pair is then the work of both, without the wake-up of an idle core. In a virtual machine a
   wake-up takes several times as long as the work, and its duration varies. */
void b_redis_share_core(void);

/* A blocking connection with TCP_NODELAY, as hiredis sets it by itself. */
redisContext *b_redis_connect(b_transport transport);

/* ---- A command that is sent repeatedly ---- */

#define B_ARGS_MAX 16

typedef struct b_command {
    int count;
    char *args[B_ARGS_MAX];
    size_t lengths[B_ARGS_MAX];
} b_command;

/* The arguments end with NULL, and are copied. */
b_command b_command_make(const char *const *args);
void b_command_fini(b_command *command);

/* Send it and wait for the answer: an integer, or a list whose first element is one. */
long long b_command_run(redisContext *c, const b_command *command);

/* Load a script. Returns its SHA1, which the caller frees. */
char *b_script_load(redisContext *c, const char *text);

/* ---- Counters of the server ---- */

typedef struct b_usage {
    int64_t calls, usec;
} b_usage;

/* Reset the counters; the cost of one command since then. */
void b_usage_reset(redisContext *c);
b_usage b_usage_of(redisContext *c, const char *command);

#endif
