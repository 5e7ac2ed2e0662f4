/*
 * The half of the Redis store that knows the protocol: operations go in and bytes come out, bytes go
 * in and completed operations come out. No socket and no clock, so that it runs in a simulator as it
 * runs in a client.
 *
 * A session spans connections. Its states:
 *
 *   AWAY  --hf__session_begin--> LOGIN --answers--> READY
 *     ^------hf__session_break------+-----------------+
 *
 * Operations are answered in the order of sending; those under way when a connection breaks are
 * completed as unreachable, and maybe done.
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

#define HF__OUT_MAX (16 << 20) /* bytes of commands not sent yet */

typedef enum hf__session_state { HF__AWAY, HF__LOGIN, HF__READY } hf__session_state;

/* A connection for commands; or one that only listens: on the client's own channel, where others say that it has
   been granted a lock (in a cluster, on a channel for each name that it waits for); or one to a Sentinel; or one that
   waits for replicas. */
typedef enum hf__session_role {
    HF__COMMANDS,
    HF__MESSAGES,
    HF__SENTINEL,
    HF__REPLICAS
} hf__session_role;

/* What a grant says, and when it came. */
typedef struct hf__message {
    uint64_t acquire_id, token;
    int64_t server_us, lease_ms;
    hf__time came_at;
} hf__message;

#define HF__MESSAGES_MAX \
    64 /* that came and were not looked at; if more come, something was missed */

typedef struct hf__session {
    hf__session_role role;
    hf__session_state state;
    const hf__url *url;
    const hf__identity *who;
    hf__log *log;
    const char *where; /* "host:port", for messages */

    hf__buffer out;
    hf__parser parser;
    unsigned login_left; /* answers of the login still to come */

    hf__op *first, *last; /* sent, not answered */
    size_t in_flight;
    size_t unsent; /* the last so many of them are still in `out` */
    hf__op *done_first, *done_last;
    hf__op registration; /* the session's own operation */
    bool registering;
    hf__time register_at;

    hf__time began; /* of the login */
    uint64_t link;  /* connections made */
    /* the server's time at its last answer, and our time before that was asked for, and after */
    int64_t server_us;
    hf__time sampled_at, received_at;
    int64_t round_trip_us; /* the shortest, of all connections */
    uint64_t round_trips;
    uint64_t commands;

    bool
        subscribed; /* commands: messages are being listened to, so that a wait need not ask often */

    hf__message messages[HF__MESSAGES_MAX]; /* messages: a ring */
    unsigned message_first, message_count;
    bool missed;
    hf__time ping_at, pinged_at; /* when to see whether it still works; 0: not being seen to */

    hf__sentinel *sentinel; /* of a Sentinel's */

    hf__channels *channels; /* messages, of a node of a cluster: what it listens to */
    bool registered;        /* of a node of a cluster: it has the client's registration */
} hf__session;

/* Borrows all it is given. False: out of memory. */
bool hf__session_init(hf__session *s, hf__session_role role, const hf__url *url,
                      const hf__identity *who, hf__log *log, const char *where);
void hf__session_fini(hf__session *s);

/* A connection was made: log in. HF_NOMEM if there is no memory for it. */
hf_result hf__session_begin(hf__session *s, const char *password, hf__time now);

/* The connection is gone: complete what was under way. */
void hf__session_break(hf__session *s);

void hf__session_submit(hf__session *s, hf__op *op, hf__time now);
hf__op *hf__session_completed(hf__session *s);

/* Bytes came. Any result but HF_OK means that the connection must be closed, and *detail why. */
hf_result hf__session_feed(hf__session *s, const char *bytes, size_t length, hf__time now,
                           char **detail);

/* The next message that came; false: none. */
bool hf__session_message(hf__session *s, hf__message *message);

/* Upkeep, and when it is due. */
void hf__session_tick(hf__session *s, hf__time now);
hf__time hf__session_due(const hf__session *s);

/* The time the oldest answer has been waited for; HF__NEVER: none is. */
hf__time hf__session_waits_since(const hf__session *s);

/* Say goodbye: the registration is taken back. To be sent, not answered. */
void hf__session_goodbye(hf__session *s);

#endif
