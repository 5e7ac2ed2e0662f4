/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protocol part of the Redis store. It turns operations into bytes to send, and received bytes
 * into completed operations. It has no socket and no clock, so it runs in a simulator exactly as in
 * a client.
 *
 * A session spans connections. Its states:
 *
 *   AWAY  --hf__session_begin--> LOGIN --answers--> READY
 *     ^------hf__session_break------+-----------------+
 *
 * Operations are answered in the order of sending. Those in flight when a connection breaks are
 * completed as unreachable, with an unknown outcome if they were sent.
 */
#ifndef HF_STORE_REDIS_PROTOCOL_SESSION_H
#define HF_STORE_REDIS_PROTOCOL_SESSION_H

#include "base/buffer.h"
#include "base/log.h"
#include "base/url.h"
#include "store/redis/protocol/channels.h"
#include "store/redis/protocol/reply.h"
#include "store/redis/protocol/sentinel.h"
#include "store/store.h"

#define HF__OUT_MAX (16 << 20) /* bytes of commands that are not sent yet */

typedef enum hf__session_state { HF__AWAY, HF__LOGIN, HF__READY } hf__session_state;

/*
 * What a connection is for:
 *
 *   HF__COMMANDS   commands
 *   HF__MESSAGES   grants, received on the client's own channel; in a cluster, on one channel for
 *                  each name that the client waits for
 *   HF__SENTINEL   requests to a Sentinel
 *   HF__REPLICAS   waiting for replicas
 */
typedef enum hf__session_role {
    HF__COMMANDS,
    HF__MESSAGES,
    HF__SENTINEL,
    HF__REPLICAS
} hf__session_role;

/* A published grant, and when it arrived. */
typedef struct hf__message {
    uint64_t acquire_id, token;
    int64_t server_us, lease_ms;
    hf__time arrived_at;
} hf__message;

#define HF__MESSAGES_MAX 64 /* received and not yet taken; if more arrive, `missed` is set */

typedef struct hf__session {
    hf__session_role role;
    hf__session_state state;
    const hf__url *url;
    const hf__identity *who;
    hf__log *log;
    const char *where; /* "host:port", for messages */

    hf__buffer out;
    hf__parser parser;
    unsigned login_left; /* replies of the login still to come */

    hf__ops sent; /* in flight, in order of sending */
    size_t in_flight;
    size_t unsent; /* how many at the end of the list are still in `out` */
    hf__ops completed;
    hf__op registration; /* the session's own operation */
    bool registering;
    hf__time register_at;

    hf__time began; /* when the login began */
    uint64_t link;  /* number of connections so far */
    /* the server's time in its last answer, and our time before that answer was requested and after
       it arrived */
    int64_t server_us;
    hf__time sampled_at, received_at;
    int64_t round_trip_us; /* the shortest, of all connections */
    uint64_t round_trips;
    uint64_t commands;

    /* HF__COMMANDS: the client is subscribed, so a waiter need not poll */
    bool subscribed;

    hf__message messages[HF__MESSAGES_MAX]; /* HF__MESSAGES: a ring */
    unsigned message_first, message_count;
    bool missed;
    hf__time ping_at, pinged_at; /* when to ping; when the unanswered ping was sent, 0: none */

    hf__sentinel *sentinel; /* HF__SENTINEL */

    hf__channels *channels; /* HF__MESSAGES, at a cluster node: its subscriptions */
    bool registered;        /* at a cluster node: it has the client's registration */
} hf__session;

/* Borrows all arguments. False: out of memory. */
bool hf__session_init(hf__session *s, hf__session_role role, const hf__url *url,
                      const hf__identity *who, hf__log *log, const char *where);
void hf__session_fini(hf__session *s);

/* A connection was made: log in. HF_NOMEM if memory is out. */
hf_result hf__session_begin(hf__session *s, const char *password, hf__time now);

/* The connection is gone: complete the operations in flight. */
void hf__session_break(hf__session *s);

void hf__session_submit(hf__session *s, hf__op *op, hf__time now);
hf__op *hf__session_completed(hf__session *s);

/* Bytes arrived. Any result but HF_OK means that the connection must be closed; *detail says
   why. */
hf_result hf__session_feed(hf__session *s, const char *bytes, size_t length, hf__time now,
                           char **detail);

/* The next received message; false: none. */
bool hf__session_message(hf__session *s, hf__message *message);

/* Upkeep (registration, pings, subscriptions), and when it is due. */
void hf__session_tick(hf__session *s, hf__time now);
hf__time hf__session_due(const hf__session *s);

/* Since when the session has waited for the oldest outstanding answer; HF__NEVER: it waits for
   none. */
hf__time hf__session_waits_since(const hf__session *s);

/* Adds the command that removes the client's registration to `out`. Its reply is not read. */
void hf__session_unregister(hf__session *s);

#endif
