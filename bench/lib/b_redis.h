/*
 * A private redis-server on a free port and a unix socket, gone with the program, and plain hiredis
 * connections to it: the other side of every comparison. Whatever goes wrong ends the program with
 * a line that says what.
 *
 * $HOLDFAST_TEST_SERVER names another binary, such as valkey-server.
 */
#ifndef B_REDIS_H
#define B_REDIS_H

#include <hiredis/hiredis.h>
#include <stddef.h>
#include <stdint.h>

typedef enum b_transport { B_TCP, B_UNIX } b_transport;

/* One server for each program: start it first, from the main thread. */
void b_redis_start(void);
const char *b_redis_url(b_transport transport);

/* From now on the server and this thread, with the threads it starts, share one core. What a pair
   costs is then the work of both and no waking of an idle core, which in a virtual machine takes
   several times as long as the work and no two times as long. */
void b_redis_share_core(void);

/* A blocking connection with TCP_NODELAY, as hiredis sets it by itself. */
redisContext *b_redis_connect(b_transport transport);

/* ---- A command that is sent again and again ---- */

#define B_ARGS_MAX 16

typedef struct b_command {
    int count;
    char *args[B_ARGS_MAX];
    size_t lengths[B_ARGS_MAX];
} b_command;

/* The arguments end with NULL, and are copied. */
b_command b_command_make(const char *const *args);
void b_command_fini(b_command *command);

/* Send it, wait for the answer: a number, or the first of a list, which must be one. */
long long b_command_run(redisContext *c, const b_command *command);

/* Load a script; its SHA1, which the caller frees. */
char *b_script_load(redisContext *c, const char *text);

/* ---- What the server counts ---- */

typedef struct b_usage {
    int64_t calls, usec;
} b_usage;

/* Forget what was counted; and what one command has cost since. */
void b_usage_reset(redisContext *c);
b_usage b_usage_of(redisContext *c, const char *command);

#endif
