/*
 * A private redis-server: on a port and a socket of its own, in a directory of its own, gone with
 * the test. Several may run at once. Start and restart it from the main thread (see t_proc.h); the
 * rest may be called from any thread. In a forked child t_redis_cmd and its kin work, on a
 * connection of the child's. A test that crashes leaves no server, only its directory.
 *
 * $HOLDFAST_TEST_SERVER names another binary, such as valkey-server. $HOLDFAST_TEST_LACKS says what that one
 * lacks, "tls preload", as scripts/test-servers finds out. Where it is not set, nothing is left out.
 */
#ifndef T_REDIS_H
#define T_REDIS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <hiredis/hiredis.h>

#include "t_fail.h"

typedef struct t_redis t_redis;

/* Zero is the default everywhere. */
typedef struct t_redis_options {
    uint16_t port;             /* 0: one that is free */
    bool unix_only;            /* no port at all */
    bool appendonly;           /* an append-only file synced at every write: survives kill9 */
    const char *requirepass;   /* part of t_redis_url */
    const char *const *acl;    /* users, each "alice on >secret ~* &* +@all"; ends with NULL */
    const char *const *config; /* lines of redis.conf, "maxmemory 2mb"; ends with NULL; they win */
    bool sentinel;             /* a Sentinel; what it finds out it keeps over a restart */
    const char *binary;        /* NULL: $HOLDFAST_TEST_SERVER, else redis-server */
} t_redis_options;

/* It answers when this returns. NULL options are the defaults: no persistence, no password. */
t_redis *t_redis_start(const t_redis_options *options);
void t_redis_free(t_redis *redis); /* NULL is allowed */

/* Strings of these live as long as the server; that of t_redis_url_as until it is called again. */
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
 * Commands, with the format of redisCommand, by an administrator whom no ACL of the test restrains.
 * The server must answer within 5 s. t_redis_cmd gives error replies back; the others fail on them.
 */
redisReply *t_redis_cmd(t_redis *redis, const char *format, ...); /* freeReplyObject */
redisReply *t_redis_try(t_redis *redis, const char *format, ...); /* NULL: no answer just now */
redisReply *t_redis_eval(t_redis *redis, const char *script, int keys, ...); /* keys, args, NULL */
int64_t t_redis_int(t_redis *redis, const char *format, ...); /* integer, or digits; not nil */

/* NULL if nil. Lives until the sixteenth call after this one, or the end of the server. */
const char *t_redis_str(t_redis *redis, const char *format, ...);

/* Whether it knows a command: servers differ. */
bool t_redis_knows(t_redis *redis, const char *command);

/* A number out of INFO: t_redis_info(r, "total_commands_processed"). INFO itself counts as one. */
int64_t t_redis_info(t_redis *redis, const char *field);

#endif
