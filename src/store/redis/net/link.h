/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session on a connection: logs in on each new one, carries bytes between the two, and gives up
 * a connection whose server does not answer in time.
 *
 * The session's state follows the connection's: it is AWAY unless that is in LOGIN or UP. Each call
 * below that changes a connection ends with this, before the mutex is unlocked.
 *
 * The caller's mutex protects the link. Functions that do I/O take it and unlock it meanwhile.
 */
#ifndef HF_STORE_REDIS_NET_LINK_H
#define HF_STORE_REDIS_NET_LINK_H

#include "store/net/connection.h"
#include "store/redis/protocol/session.h"

typedef struct hf__link {
    hf__session session;
    /* an answer is overdue, but its bytes have arrived unread: when to check again */
    hf__time recheck_at;
    hf__connection net;
} hf__link;

bool hf__link_init(hf__link *link, hf__session_role role, const hf__url *url,
                   const hf__identity *who, hf__log *log);
void hf__link_fini(hf__link *link, bool forked);

void hf__link_tick(hf__link *link, hf__time now);
hf__time hf__link_due(const hf__link *link);
void hf__link_flush(hf__link *link, pthread_mutex_t *mutex);
void hf__link_ready(hf__link *link, short events, pthread_mutex_t *mutex);

/* See hf__connection_renew and hf__connection_move. */
void hf__link_renew(hf__link *link, hf__time now);
void hf__link_move(hf__link *link, hf__time when);

/* See hf__store_table.read_blocking. `spin`: poll for a moment before sleeping. */
bool hf__link_wait(hf__link *link, bool spin, pthread_mutex_t *mutex);

/* Closes the connection permanently. If possible, removes the client's registration first. */
void hf__link_shut(hf__link *link);

#endif
