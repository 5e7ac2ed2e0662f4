/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replicas=N: a grant or renewal counts only when N replicas have it. No I/O and no clock, like the
 * sessions.
 *
 *   granted --> waiting --> asked (touch_hold.lua for each, then one WAIT for all) --> confirmed
 *                  \             \--too few--> released, then reported as failed
 *                   \--no connection in time--^
 *
 * WAIT blocks its connection, so it has a connection of its own. WAIT counts from the last write of
 * its connection that was replicated (before Redis 7.2: from its last command, even a read). So
 * each hold is first written to on this connection, after the server has answered the grant. What a
 * replica then confirms includes the grant. This connection may lead to another server. So the
 * write is skipped if the hold is not there, and a hold that expires sooner there than it should
 * does not count.
 */
#ifndef HF_STORE_REDIS_TOPOLOGY_REPLICA_WAIT_H
#define HF_STORE_REDIS_TOPOLOGY_REPLICA_WAIT_H

#include "store/redis/protocol/session.h"

typedef struct hf__replica_wait {
    hf__session *commands, *session; /* `session` sends the WAITs */
    const hf__url *url;
    hf__ops waiting; /* not sent to the replicas yet */
    hf__ops asked;   /* touched; the WAIT is in flight */
    hf__ops done;
    hf__op wait_op;
    bool busy;              /* a WAIT is in flight */
    size_t count;           /* operations it keeps */
    uint64_t commands_link; /* the link of `commands` when the connection of `session` was begun */
} hf__replica_wait;

/* An operation of `commands` was answered. True: it is kept until it is confirmed or rejected. */
bool hf__replica_wait_take(hf__replica_wait *w, hf__op *op, hf__time now);

/* The next operation that is confirmed or rejected; NULL: none. */
hf__op *hf__replica_wait_completed(hf__replica_wait *w);

void hf__replica_wait_tick(hf__replica_wait *w, hf__time now);
hf__time hf__replica_wait_due(const hf__replica_wait *w);

/* Like hf__notifications_connecting and hf__notifications_stale. */
void hf__replica_wait_begin(hf__replica_wait *w);
bool hf__replica_wait_stale(const hf__replica_wait *w);

#endif
