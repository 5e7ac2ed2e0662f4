/*
 * replicas=N: what was granted or renewed counts when so many replicas have it, too. Pure, as the
 * sessions are.
 *
 *   answered well --> waiting --> asked for (touch_hold.lua of each, then one WAIT for all) --> confirmed: handed up
 *                        \             \--too few--> given back, and then told so
 *                         \--no connection in time--^
 *
 * WAIT blocks its connection, so it has one of its own. It counts from the last write of that connection that was
 * replicated (before Redis 7.2: from its last command, a read too). So each hold is written to on this connection
 * first, after the server has answered its grant: what a replica then confirms includes the grant. The write does not
 * happen where the hold is not there, in case the connection leads to another server; and what ends sooner there than
 * was granted or renewed does not count.
 */
#ifndef HF_STORE_REDIS_TOPOLOGY_REPLICA_WAIT_H
#define HF_STORE_REDIS_TOPOLOGY_REPLICA_WAIT_H

#include "store/redis/protocol/session.h"

typedef struct hf__replica_wait {
    hf__session *commands, *session; /* the second says WAIT */
    const hf__url *url;
    hf__op *waiting_first, *waiting_last; /* not asked for yet */
    hf__op *asked_first, *asked_last;     /* looked for; the WAIT is under way */
    hf__op *done_first, *done_last;
    hf__op wait_op;
    bool busy;              /* a WAIT is under way */
    size_t count;           /* operations it has */
    uint64_t commands_link; /* the connection of the commands when that of the WAITs was begun */
} hf__replica_wait;

/* An operation was answered to the commands. True: it is kept until it is confirmed. */
bool hf__replica_wait_take(hf__replica_wait *w, hf__op *op, hf__time now);

/* The next that is confirmed, or is not. */
hf__op *hf__replica_wait_completed(hf__replica_wait *w);

void hf__replica_wait_tick(hf__replica_wait *w, hf__time now);
hf__time hf__replica_wait_due(const hf__replica_wait *w);

/* As hf__notifications_connecting and hf__notifications_stale. */
void hf__replica_wait_begin(hf__replica_wait *w);
bool hf__replica_wait_stale(const hf__replica_wait *w);

#endif
