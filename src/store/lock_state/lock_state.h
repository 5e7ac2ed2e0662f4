/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of one lock: its holders, its queue of waiters, and which waiters can be granted. It
 * contains no operations and reads no clock; operations.c applies operations to it. The memory
 * store keeps one per lock. The file store reads one from the lock's file and writes the changes
 * back.
 *
 * Invariant: holders are compatible with each other. They are one exclusive holder, or readers with
 * at most one upgradable, or permits of one capacity whose sum does not exceed it.
 *
 * Waiters are served strictly in queue order. From the front, each waiter that is compatible with
 * the holders and with the waiters before it can be granted. The first waiter that is not
 * compatible blocks all waiters behind it.
 *
 * Acquire ids: a client has at most one mutex acquire at a time. The one with the highest id
 * supersedes all lower ones. For other kinds each acquire id is independent, also of the client's
 * mutex.
 *
 * Not thread-safe; the store serialises access.
 */
#ifndef HF_STORE_LOCK_STATE_LOCK_STATE_H
#define HF_STORE_LOCK_STATE_LOCK_STATE_H

#include "store/store.h"

/* A waiter that has not repeated its acquire for this long leaves the queue. */
#define HF__WAITER_TIMEOUT HF__SEC

/* A client of the store. Each client has one object and is identified by its address. */
typedef struct hf__store_client {
    char uuid[HF__UUID_LENGTH + 1];
    bool is_notified; /* the store wakes it when it can be granted, so it need not retry often */
} hf__store_client;

/* One acquire of a client: the identity and kind of a holder or a waiter. */
typedef struct hf__contender {
    const hf__store_client *client;
    uint64_t acquire_id;
    hf__owner owner;
    uint32_t kind;
    uint32_t permits, capacity; /* HF_PERMITS only */
} hf__contender;

typedef struct hf__holder {
    struct hf__holder *next; /* granted later, under a higher token */
    hf__contender contender; /* client NULL: this record is not in use */
    uint32_t count;
    uint64_t token;
    int64_t since_unix_ms;
    hf__time expires;
    uint32_t tag; /* for the store's use; 0 in a new holder */
} hf__holder;

typedef struct hf__waiter {
    struct hf__waiter *next; /* joined the queue later */
    hf__contender contender;
    hf__time seen_at; /* when it last repeated its acquire */
    uint32_t tag;     /* for the store's use; 0 in a new waiter */
} hf__waiter;

/* A lock that is all zero is free. */
typedef struct hf__lock_state {
    uint64_t last_token;
    hf__holder *holders;
    hf__waiter *waiters;
    hf__holder first_record; /* storage for one holder, so that a mutex needs no allocation */
} hf__lock_state;

/* Remove holders whose lease has ended, and waiters that have timed out. Call it first: the
   functions below take every holder and waiter as live. */
void hf__lock_state_expire(hf__lock_state *state, hf__time now);

/* ---- Holders ---- */

/* The holder with exactly this client and acquire id, or NULL. */
hf__holder *hf__lock_state_find_holder(const hf__lock_state *state, const hf__contender *contender);

/* Append a holder, and remove its waiter from the queue. The caller fills in token, count and
   times. NULL: out of memory. */
hf__holder *hf__lock_state_add_holder(hf__lock_state *state, const hf__contender *contender);

/* End the holds that `contender` covers, or the hold with this token (0: all holds). A pending
   upgrade of an ended hold leaves the queue too. False: no hold matched. */
bool hf__lock_state_end_holds_of(hf__lock_state *state, const hf__contender *contender);
bool hf__lock_state_end_token(hf__lock_state *state, uint64_t token);

/* ---- Waiters ---- */

/* Whether it can be granted now: from its position in the queue, or from the end if it has none. */
bool hf__lock_state_can_grant(const hf__lock_state *state, const hf__contender *contender);

/* How many waiters at the front of the queue can be granted now. */
size_t hf__lock_state_count_grantable(const hf__lock_state *state);

/* A mutex acquire of the same client with a higher id holds or waits, so this one is too late. */
bool hf__lock_state_is_superseded(const hf__lock_state *state, const hf__contender *contender);

/* The waiter with exactly this client and acquire id, or NULL. */
hf__waiter *hf__lock_state_find_waiter(const hf__lock_state *state, const hf__contender *contender);

/* Keep its position in the queue, or join at the end, or at the front with `before_all`. False: out
   of memory. */
bool hf__lock_state_enqueue(hf__lock_state *state, const hf__contender *contender, bool before_all,
                            hf__time now);
void hf__lock_state_dequeue(hf__lock_state *state, const hf__contender *contender);

/* Whether any other contender waits. */
bool hf__lock_state_has_other_waiters(const hf__lock_state *state, const hf__contender *contender);

/* ---- Holders and waiters ---- */

/* Remove all holders and waiters of a client; NULL: of all clients. */
void hf__lock_state_remove_client(hf__lock_state *state, const hf__store_client *client);

#endif
