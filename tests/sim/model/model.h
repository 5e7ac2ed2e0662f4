/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A model of a Redis 7.0 server: bytes in, bytes out, and a clock that its owner sets.
 *
 * It implements the commands that Holdfast's scripts may use, with the answers and errors of the
 * real server (tests/sim/model_check.c compares them). It has RESP2 in pipelines, pub/sub, scripts
 * in Lua 5.1, and a full memory. Its clock stops while a command or a script runs.
 *
 * It does no I/O and has no time of its own. The owner decides when and whether bytes arrive, and
 * takes the answers from `out` of each connection.
 */
#ifndef SIM_MODEL_MODEL_H
#define SIM_MODEL_MODEL_H

#include "base/buffer.h"
#include "model/bytes.h"
#include "model/keys.h"
#include "model/sha1.h"

#define RM_DATABASES 16
#define RM_ARGS_MAX  256
#define RM_BYTES_MAX (64u << 20)

typedef struct rm_server rm_server;

typedef struct rm_channel {
    rm_bytes name;
    bool pattern;
} rm_channel;

typedef struct rm_conn {
    struct rm_conn *next, *prev;
    rm_server *server;
    hf__buffer in, out;
    int db;
    bool authenticated;
    bool failed; /* the input is not RESP: a real server would close */
    rm_channel *channels;
    size_t subscribed;
    uint64_t offset; /* the server's offset after this connection's last write: WAIT waits for it */
    void *owner;     /* set by the creator */
} rm_conn;

/* A script that has run, for the watcher. */
typedef struct rm_ran {
    rm_conn *conn;
    const char *sha1;
    const rm_bytes *keys, *args;
    size_t key_count, arg_count;
    rm_bytes answer; /* in RESP */
} rm_ran;

typedef void rm_watch(void *arg, const rm_ran *ran);
typedef void rm_on_publish(void *arg, rm_bytes channel, rm_bytes message);
typedef void rm_wait(void *arg, rm_conn *conn, int64_t replicas, int64_t timeout_ms);

struct rm_server {
    int64_t now_us;
    int64_t started_us; /* for INFO */
    rm_keys db[RM_DATABASES];
    rm_conn *conns;
    const char *password; /* NULL: not required */
    bool memory_full;
    const char *refused;                 /* a command that no user may run; NULL: none */
    char (*scripts)[RM_SHA1_LENGTH + 1]; /* the script cache; lua.c has their code */
    size_t script_count;
    rm_watch *watch;           /* called after each script */
    rm_on_publish *on_publish; /* called for each message that a command publishes */
    void *watch_arg;           /* passed to both, and to `wait` */

    /* The owner does the replication; `offset` grows with every write. `wait` answers WAIT
       later. Without it there are no replicas. */
    bool replica;
    uint64_t offset;
    rm_wait *wait;

    /* Only while a command runs. */
    bool in_script, script_wrote, script_full;
    hf__buffer lua_out;
};

void rm_init(rm_server *server);
void rm_fini(rm_server *server);

/* Restarts: drops connections and scripts, and keeps the keys if they were on disk. */
void rm_restart(rm_server *server, bool keep_keys);

rm_conn *rm_connect(rm_server *server, void *owner);
void rm_disconnect(rm_conn *conn);

/* Executes every command that is complete with these bytes. */
void rm_feed(rm_conn *conn, const char *bytes, size_t length);

/* Publishes a message without a sender; returns the number of receivers. */
int64_t rm_publish(rm_server *server, rm_bytes channel, rm_bytes message);

/* Returns a key of the first database without side effects on clients; NULL if there is none. */
rm_key *rm_look(rm_server *server, const char *name);

#endif
