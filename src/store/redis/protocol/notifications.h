/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Combines the two sessions of a store, the one for commands and the subscribed one: whether grants
 * are being received, and what a received grant means. No I/O and no clock, like the sessions.
 */
#ifndef HF_STORE_REDIS_PROTOCOL_NOTIFICATIONS_H
#define HF_STORE_REDIS_PROTOCOL_NOTIFICATIONS_H

#include "store/redis/protocol/session.h"

typedef struct hf__notifications {
    hf__session *commands, *messages;
    bool wanted;        /* an acquire was queued: subscribe */
    hf__time queued_at; /* when the last queued acquire was sent */
    bool listening;     /* as last reported */
    bool must_recheck;  /* to be reported: all waiters must recheck */
    /* a grant must be confirmed by an acquire, because replicas must have it, or because it may
       come from the wrong node of a cluster */
    bool must_claim;
    /* cluster: each name has its own channel, and its waiters recheck when that is subscribed */
    bool per_name;
    /* the link of `commands` when the subscribed connection was begun */
    uint64_t commands_link;
} hf__notifications;

/* Whether the operation was answered as queued. */
bool hf__is_queued(const hf__op *op);

/* An operation was answered. If it is queued, a subscription is needed. */
void hf__notifications_note_answer(hf__notifications *n, const hf__op *op);

/* The connections may have changed. `listening`: the subscription is active. */
void hf__notifications_update(hf__notifications *n, bool listening);

/* The subscribed connection is about to be made. */
void hf__notifications_connecting(hf__notifications *n);

/* The commands use another connection than when the subscription was begun, perhaps to another
   server. The subscribed connection must be made again, and what it has received does not count. */
bool hf__notifications_stale(hf__notifications *n);

/* The next notification; false: none. */
bool hf__notifications_next(hf__notifications *n, hf__notification *notification);

#endif
