/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of one lock: its holders, its queue of waiters, and which waiters can be granted.
 * operations.c applies operations to it, and saved_state.c writes it as bytes. The memory store
 * keeps one per lock. The file store reads one from the lock's file and writes the changes back.
 *
 * It reads no clock, knows no store and refers to no memory but its own. What the rules need to
 * know besides the state is in hf__lock_env.
 *
 * Invariants:
 *  - Holders are compatible with each other. They are one exclusive holder, or readers with at most
 *    one upgradable, or permits of one capacity whose sum does not exceed it.
 *  - The tokens of the holders grow from first to last, and none is above `last_token`.
 *  - No contender occurs twice, except that an upgradable holder may also wait for its upgrade.
 *
 * Waiters are served strictly in queue order. From the front, each waiter that is compatible with
 * the holders and with the waiters before it can be granted. The first waiter that is not
 * compatible blocks all waiters behind it. A waiter whose client cannot be reached is passed over:
 * it keeps its position and blocks no one.
 *
 * Acquire ids: a client has at most one mutex acquire at a time. The one with the highest id
 * supersedes all lower ones. For other kinds each acquire id is independent, also of the client's
 * mutex.
 *
 * Not thread-safe; the store serialises access.
 */
#ifndef HF_STORE_LOCK_STATE_LOCK_STATE_H
#define HF_STORE_LOCK_STATE_LOCK_STATE_H

#include "store/lock_state/client_id.h"
#include "store/store.h"

/* What the rules need to know besides the state. The store fills it in for each operation. */
typedef struct hf__lock_env {
    /* The time of the operation. All clients of a lock use the same clock, and no time is negative:
       CLOCK_BOOTTIME within one machine, a server's clock across machines. */
    hf__time now;
    int64_t unix_us;     /* the wall clock; only an ACQUIRE and a hand-over need it */
    int64_t token_clock; /* no new token is lower: see hf__token_next. Usually `unix_us` */

    /* A waiter that has not repeated its acquire for this long leaves the queue. */
    hf__time waiter_timeout;
    int64_t queued_retry_ms; /* when a queued waiter is told to repeat its acquire */

    /* Whether a waiter of this client would notice a grant. NULL: it always would. */
    bool (*is_reachable)(const void *store, hf__client_id client);
    const void *store;

    uint32_t max_holders, max_waiters; /* 0: no limit */

    /* Waiters are granted as soon as they can be, by the operation that makes it possible.
       Otherwise they are granted when they repeat their acquire. */
    bool hands_over;
} hf__lock_env;

/* One acquire of a client: the identity and kind of a holder or a waiter. */
typedef struct hf__contender {
    hf__client_id client;
    uint64_t acquire_id;
    hf__owner owner;
    uint32_t kind;
    uint32_t permits, capacity; /* HF_PERMITS only */
} hf__contender;

typedef struct hf__holder {
    struct hf__holder *next; /* granted later, under a higher token */
    hf__contender contender;
    uint32_t count;
    uint64_t token;
    int64_t since_unix_ms;
    hf__time expires;
    uint32_t tag;     /* for the store's use; 0 in a new holder */
    bool handed_over; /* effect of the last hf__lock_state_apply: it was granted to a waiter */
} hf__holder;

typedef struct hf__waiter {
    struct hf__waiter *next; /* joined the queue later */
    hf__contender contender;
    uint32_t count;
    uint64_t seen_token;   /* the highest that its client has seen */
    int64_t since_unix_ms; /* when it joined the queue */
    int64_t lease_ms;
    hf__time seen_at;    /* when it last repeated its acquire */
    uint32_t tag;        /* for the store's use; 0 in a new waiter */
    bool can_be_granted; /* as of the last hf__lock_state_mark_grantable */
} hf__waiter;

/* A lock that is all zero is free. A state must stay where it is: it points to itself. */
typedef struct hf__lock_state {
    uint64_t last_token;
    hf__holder *holders;
    hf__waiter *waiters;
    hf__holder first_record; /* storage for one holder, so that a mutex needs no allocation */
    bool first_record_in_use;
} hf__lock_state;

/* Free its memory. The state is then that of a lock that was never used. */
void hf__lock_state_fini(hf__lock_state *state);

/* Remove holders whose lease has ended, and waiters that have timed out. Call it first: the
   functions below take every holder and waiter as live. */
void hf__lock_state_expire(hf__lock_state *state, const hf__lock_env *env);

/* ---- Holders ---- */

/* Whether the first two invariants hold. A state that was made elsewhere may break them. */
bool hf__lock_state_holders_are_valid(const hf__lock_state *state);

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
bool hf__lock_state_can_grant(const hf__lock_state *state, const hf__lock_env *env,
                              const hf__contender *contender);

/* Set `can_be_granted` of all waiters. Without `is_reachable`, those that can be granted are the
   first ones of the queue. */
void hf__lock_state_mark_grantable(hf__lock_state *state, const hf__lock_env *env);

/* A mutex acquire of the same client with a higher id holds or waits, so this one is too late. */
bool hf__lock_state_is_superseded(const hf__lock_state *state, const hf__contender *contender);

/* The waiter with exactly this client and acquire id, or NULL. */
hf__waiter *hf__lock_state_find_waiter(const hf__lock_state *state, const hf__contender *contender);

/* Keep its position in the queue, or join at the end, or at the front with `before_all`. A new
   waiter is zero but for `contender`; the caller fills in the rest. NULL: out of memory, or it
   would be a waiter more than `max` (0: no limit). */
hf__waiter *hf__lock_state_enqueue(hf__lock_state *state, const hf__contender *contender,
                                   bool before_all, uint32_t max);
void hf__lock_state_dequeue(hf__lock_state *state, const hf__contender *contender);

/* Whether any other contender waits. */
bool hf__lock_state_has_other_waiters(const hf__lock_state *state, const hf__contender *contender);

/* ---- Holders and waiters ---- */

/* Remove all holders and waiters of a client. */
void hf__lock_state_remove_client(hf__lock_state *state, hf__client_id client);

#endif
