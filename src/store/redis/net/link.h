/*
 * The half of the Redis store that does I/O: one connection, made again whenever it breaks.
 *
 *   IDLE --retry_at--> RESOLVING --> CONNECTING --> [TLS] --> LOGIN --> UP
 *    ^  \--unix socket, digits-----------^             |         |       |
 *    +------------------- any failure -----------------+---------+-------+
 *                                                       (BREAKING while a thread still has the socket)
 *
 * Invariants
 *  0. The socket blocks only for hf__link_wait; all else says MSG_DONTWAIT.
 *  1. At most one thread reads and at most one writes, each without the mutex; `reading` and `writing`
 *     say so, and the socket is closed only when neither does.
 *  2. What was read is fed to the session before another thread may read.
 *  3. A connection that is given up is closed by a reset, so that as little as possible of what was
 *     sent on it is still delivered; numbers take care of the rest.
 */
#ifndef HF_STORE_REDIS_NET_LINK_H
#define HF_STORE_REDIS_NET_LINK_H

#include "store/redis/net/resolve.h"
#include "store/redis/net/tls.h"
#include "store/redis/protocol/session.h"

typedef enum hf__link_state {
    HF__LINK_IDLE,
    HF__LINK_RESOLVING,
    HF__LINK_CONNECTING,
    HF__LINK_TLS,
    HF__LINK_LOGIN,
    HF__LINK_UP,
    HF__LINK_BREAKING,
    HF__LINK_SHUT
} hf__link_state;

#define HF__WHERE_MAX 300
#define HF__READ_SIZE 16384

typedef struct hf__link {
    hf__link_state state;
    const hf__url *url;
    hf__log *log;
    hf__session session;
    hf__rand rand;
    char where[HF__WHERE_MAX]; /* "host:port" or the socket's path, for messages */

    int fd;
    hf__resolve *resolve;
    struct addrinfo *addresses, *address; /* those of the name; the one being tried */
    hf__time attempt_until, address_until, retry_at;
    unsigned failures; /* since the last time it was up */
    bool quiet;        /* what fails is for its owner to say */
    bool warned;       /* that nobody is verified */

    bool reading, writing, want_write;
    unsigned
        in_vain;     /* the reader's: times it looked for an answer and had to sleep all the same */
    unsigned sleeps; /* and waits in which it therefore does not look */
    hf__buffer sending; /* the writer's, while `writing` */
    size_t sent;
    hf__time fed_at;        /* when bytes last came */
    hf__time look_again_at; /* an answer was due, and is there unread: not before that again */

    hf__tls *tls;             /* rediss://, while connected */
    hf__buffer sealed, plain; /* its records to send; and what was in those received */

    hf_result down_result; /* why the last attempt failed; HF_OK: not known, or up */
    char *down_detail;

    /* The reader's, while `reading`; apart from what others look at meanwhile. */
    char incoming[HF__READ_SIZE];
} hf__link;

bool hf__link_init(hf__link *link, hf__session_role role, const hf__url *url,
                   const hf__identity *who, hf__log *log);
void hf__link_fini(hf__link *link, bool forked);

void hf__link_tick(hf__link *link, hf__time now);
hf__time hf__link_due(const hf__link *link);
void hf__link_flush(hf__link *link, pthread_mutex_t *mutex);
int hf__link_pollset(hf__link *link, struct pollfd *fd, bool reading);
void hf__link_ready(hf__link *link, short events, pthread_mutex_t *mutex);

/* Give the connection up and make it again, at once. */
void hf__link_renew(hf__link *link, hf__time now);

/* The URL names another place now: go there, not before `when`. */
void hf__link_move(hf__link *link, hf__time when);

/* See hf__store_table.wait. `look`: for a moment before it sleeps. */
bool hf__link_wait(hf__link *link, bool look, pthread_mutex_t *mutex);

/* Take leave and close, for good. */
void hf__link_shut(hf__link *link);

#endif
