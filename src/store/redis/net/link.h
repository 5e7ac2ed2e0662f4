/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection to a server, made again whenever it breaks: the part of the Redis store that does
 * I/O.
 *
 *   IDLE --retry_at--> RESOLVING --> CONNECTING --> [TLS] --> LOGIN --> UP
 *    ^  \--unix socket, IP address-------^             |         |       |
 *    +------------------- any failure -----------------+---------+-------+
 *                                                   (BREAKING while a thread still uses the socket)
 *
 * Invariants
 *  0. The socket blocks only in hf__link_wait; all other calls use MSG_DONTWAIT.
 *  1. At most one thread reads and at most one writes, each without the mutex. `reading` and
 *     `writing` say so, and the socket is closed only when both are false.
 *  2. Bytes that were read are fed to the session before another thread may read.
 *  3. A connection that is given up is closed by a reset, so that as little as possible of the sent
 *     bytes is still delivered. Acquire ids make the rest harmless.
 *
 * The caller's mutex protects the link. Functions that do I/O take it and unlock it meanwhile.
 */
#ifndef HF_STORE_REDIS_NET_LINK_H
#define HF_STORE_REDIS_NET_LINK_H

#include "store/net/resolve.h"
#include "store/net/tls.h"
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
    struct addrinfo *addresses, *address; /* of the host name; the one being tried */
    hf__time attempt_until, address_until, retry_at;
    unsigned failures; /* since it was last up */
    bool quiet;        /* the owner of the link reports failures */
    bool warned;       /* tls_verify=none was reported */

    bool reading, writing, want_write;
    /* reader's: how often in a row polling for an answer found nothing */
    unsigned empty_polls;
    unsigned sleeps;    /* reader's: how many reads are still to sleep without polling */
    hf__buffer sending; /* writer's, while `writing` */
    size_t sent;
    hf__time fed_at; /* when bytes last arrived */
    /* an answer is overdue, but its bytes are there unread: check again then */
    hf__time recheck_at;

    hf__tls *tls;             /* rediss://, while connected */
    hf__buffer sealed, plain; /* TLS records to send; decrypted bytes received */

    hf_result down_result; /* why the last attempt failed; HF_OK: unknown, or up */
    char *down_detail;

    /* Reader's, while `reading`. Last, so that it is not between fields that other threads use. */
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

/* Closes the connection and makes it again at once. */
void hf__link_renew(hf__link *link, hf__time now);

/* The URL has a new address: connect there, not before `when`. */
void hf__link_move(hf__link *link, hf__time when);

/* See hf__store_table.read_blocking. `spin`: poll for a moment before sleeping. */
bool hf__link_wait(hf__link *link, bool spin, pthread_mutex_t *mutex);

/* Says goodbye if possible and closes, for good. */
void hf__link_shut(hf__link *link);

#endif
