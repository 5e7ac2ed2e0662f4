/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A private redis-server with a port, a socket and a directory of its own, which ends with the
 * test. Several may run at once. Start and restart it from the main thread (see t_proc.h); any
 * thread may make the other calls. In a forked child t_redis_cmd and the calls like it work, on the
 * child's own connection. A test that crashes leaves no server behind, only its directory.
 *
 * $HOLDFAST_TEST_SERVER names another binary, such as valkey-server. $HOLDFAST_TEST_LACKS lists
 * what that server lacks, such as "tls preload"; scripts/test-servers finds it out. If it is not
 * set, no test is left out.
 */
#ifndef T_REDIS_H
#define T_REDIS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <hiredis/hiredis.h>

#include "t_fail.h"

typedef struct t_redis t_redis;

/* Zero is the default of every field. */
typedef struct t_redis_options {
    uint16_t port;             /* 0: a free port */
    bool unix_only;            /* no TCP port at all */
    bool appendonly;           /* an append-only file, synced at every write: data survives kill9 */
    const char *requirepass;   /* becomes part of t_redis_url */
    const char *const *acl;    /* users, each "alice on >secret ~* &* +@all"; ends with NULL */
    const char *const *config; /* lines of redis.conf that override ours; ends with NULL */
    bool sentinel;             /* a Sentinel; it keeps its findings over a restart */
    const char *binary;        /* NULL: $HOLDFAST_TEST_SERVER, else redis-server */
} t_redis_options;

/* The server answers when this returns. NULL options are the defaults: no persistence, no
   password. */
t_redis *t_redis_start(const t_redis_options *options);
void t_redis_free(t_redis *redis); /* NULL is allowed */

/* These strings live as long as the server; that of t_redis_url_as until its next call. */
const char *t_redis_url(const t_redis *redis);      /* with the password, if there is one */
const char *t_redis_unix_url(const t_redis *redis); /* without: see t_redis_password_file */
const char *t_redis_url_as(t_redis *redis, const char *user, const char *password);
const char *t_redis_password_file(const t_redis *redis); /* holds requirepass */
const char *t_redis_socket(const t_redis *redis);
const char *t_redis_dir(const t_redis *redis);
uint16_t t_redis_port(const t_redis *redis);
pid_t t_redis_pid(const t_redis *redis);

void t_redis_kill9(t_redis *redis);
void t_redis_restart(
    t_redis *redis);               /* kill9 if it runs; then the same port, directory and options */
void t_redis_stop(t_redis *redis); /* SIGSTOP; it has stopped when this returns */
void t_redis_cont(t_redis *redis);

/*
 * Commands, in the format of redisCommand, by an administrator whom no ACL of the test restricts.
 * The server must answer within 5 s. t_redis_cmd returns error replies; the others fail the test.
 */
redisReply *t_redis_cmd(t_redis *redis, const char *format, ...); /* freeReplyObject */
redisReply *t_redis_try(t_redis *redis, const char *format, ...); /* NULL: no answer now */
redisReply *t_redis_eval(t_redis *redis, const char *script, int keys, ...); /* keys, args, NULL */
int64_t t_redis_int(t_redis *redis, const char *format, ...); /* integer, or digits; not nil */

/* NULL if nil. Lives until the sixteenth call after this one, or until the server is freed. */
const char *t_redis_str(t_redis *redis, const char *format, ...);

/* Whether the server knows a command: servers differ. */
bool t_redis_knows(t_redis *redis, const char *command);

/* A number of INFO: t_redis_info(r, "total_commands_processed"). INFO itself counts as one. */
int64_t t_redis_info(t_redis *redis, const char *field);

#endif
