/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract between the core and every store: the operations, what a store guarantees for each,
 * and the table of functions that a store fills in.
 *
 * Rules of a call
 *
 * The core submits operations and fetches them back when they are completed. A store never calls
 * upward. All functions run under the client's mutex, and none except `read_blocking` waits for a
 * server or another client. Local files may be read under the mutex: the files of `file:`, and for
 * each new connection the password file, OpenSSL and certificates. `submit` never hands an
 * operation back; only `completed` does. `flush`, `ready` and `read_blocking` do network I/O, and
 * unlock the mutex while they do. The store must then make sure that no two threads do the same
 * I/O.
 *
 * Acquire ids
 *
 * Every acquire has an acquire id, which grows per client. A hold is identified in the store by
 * (client, acquire id). RENEW and RELEASE carry the id of the acquire that they belong to.
 *
 * Invariant: an operation with one id never changes a hold with a higher id of the same client. So
 * a command that arrives late does no harm.
 *
 * The mutex (kind HF_MUTEX)
 *
 *   ACQUIRE  Grants the name to (client, acquire_id) if it is free, or if this id already has it.
 *            Replaces a lower id of the same client. With `enqueue`, a store that has a queue puts
 *            the acquire into it, or gives it the position of a lower id of the client, and sets
 *            `queued`. Must not take effect after `not_after`.
 *   RENEW    If (client, acquire_id) holds under `token`: sets the re-entry count to `count`, and
 *            makes the lease last at least `lease_ms` from now (0: leaves the lease as it is).
 *            Otherwise HF_LOST. Never creates a hold.
 *   RELEASE  Afterwards no id of the client up to `acquire_id` holds the name or is in its queue.
 *            HF_LOST if none held it.
 *            `retried`: the same RELEASE was submitted before and had no answer; the hold was under
 *            `token`. HF_OK also if the store knows that the first RELEASE was executed, or that
 *            nobody was granted the name since. HF_LOST with `outcome_unknown`: the store cannot
 *            know whether the hold was released or lost.
 *            `exact_token`: an ACQUIRE of this id may have arrived late. A hold under another token
 *            than `token` is released too, and the result is HF_LOST.
 *            `next_acquire`: the acquire of the client's next waiter. If the hold existed, and the
 *            store can do both in one step, `next_acquire` receives the answer to that acquire.
 *            For other kinds than the mutex, `next_acquire_op` is submitted together with the
 *            RELEASE, and is completed separately.
 *
 * Other kinds (HF_READ, HF_UPGRADABLE, HF_WRITE, HF_PERMITS)
 *
 * Such an operation has an acquire id that no other hold of its client has. Where the text above
 * says "a lower id" or "up to", only this id counts, and no other hold of the client is replaced.
 *
 * Invariants:
 *  - The holders of a name are one of these: a single HF_MUTEX or HF_WRITE; any number of HF_READ
 *    with at most one HF_UPGRADABLE; or HF_PERMITS of one capacity, whose sum is at most that.
 *  - Every hold has its own lease.
 *  - Fairness: never grant past an earlier waiter that can be reached and is still blocked.
 *
 *   ACQUIRE  With `upgrade`: an id that holds HF_UPGRADABLE becomes HF_WRITE, under a new token.
 *            With `enqueue` it waits ahead of all other waiters. HF_LOST: the id holds nothing.
 *            HF_INVALID: permits of another capacity are in use; `capacity` is set to that.
 *   ACQUIRE  A chain, linked by `next_in_multi`, of different names: grants all if all are free and
 *            none has a waiter, otherwise grants none. The first one is submitted. Each is
 *            completed with a result of its own.
 *   RENEW    Lowers the hold to `kind`: HF_WRITE becomes HF_UPGRADABLE or HF_READ. A waiting
 *            upgrade is then given up, and other waiters may be granted. `token` may be the one
 *            from before an upgrade whose answer was lost.
 *
 * Exported holds (stores with `can_export`; the mutex only)
 *
 * An exported hold belongs to `exported`, the id of a client that does not exist. All three give
 * HF_LOST if there is no such hold, and must not take effect after `not_after`.
 *
 *   EXPORT           Moves the hold of (client, acquire_id) under `token` to `exported`, for at
 *                    least `lease_ms` from now.
 *   ACQUIRE          With `exported`: moves that hold to this id, under the same token.
 *   EXTEND_EXPORTED  Makes the lease of that hold last at least `lease_ms` from now.
 *
 * Inspection
 *
 *   INSPECT      Who holds the name, and who waits for it.
 *   CLIENT_INFO  The registration of a client: its host, process and program.
 *   LIST         The next names of a walk over all that may be in use: see hf__list_walk.
 *   BREAK        Ends the hold that has `token` (0: any hold), but not after `not_after`.
 *                HF_NOT_HELD if there is none; `token` is then the current holder's, 0 for none.
 *
 * Latches and leaders (stores with `has_latch_leader`)
 *
 * A name has a latch, which is independent of its locks. The holder of its mutex may publish a
 * value.
 *
 *   LATCH_SET         Begins a new round, with `latch->count` still to be counted down.
 *   LATCH_COUNT_DOWN  Counts down by `latch->count`. HF_NOT_HELD: the latch is not set, or expired.
 *   LATCH_GET         Changes nothing.
 *                     All three answer with what is left, the current round, and the last completed
 *                     round. Rounds only grow. SET and COUNT_DOWN carry an acquire id. A store
 *                     skips a command that it has already executed, or whose id is lower than that
 *                     of an executed one of the same client. Neither takes effect after
 *                     `not_after`.
 *   PROCLAIM          Publishes `leader_value` for the mutex that (client, acquire_id) holds under
 *                     `token`. HF_LOST: there is no such hold. A higher `leader_value->sequence`
 *                     replaces a lower one, never the other way round.
 *   LEADER            The holder that has published a value under its current token, in `lock_info`
 *                     and `leader_value`. HF_NOT_HELD: there is none.
 *
 * LATCH_GET and LEADER with `enqueue`: `acquire_id` is a watch of the client. The store may send a
 * HF__GRANTED notification for it when something has changed. The client repeats the operation
 * after `retry_ms` in any case.
 *
 * Stores that are nodes of another store
 *
 *   RAISE_TOKEN    (quorum/, the mutex only) If (client, acquire_id) holds: sets its token to
 *                  `token`, and makes all later tokens higher. Otherwise HF_LOST.
 *   UPTIME         (quorum/) How long the server has been up by its own clock, in `uptime_ms`;
 *                  -1: the user may not ask.
 *   CLUSTER_SLOTS  (cluster/) Which node has which slot, in `slots`.
 *
 * Results of a completed operation
 *
 *   HF_OK                 Done.
 *   HF_BUSY               ACQUIRE: another holds it; try again in `retry_ms`.
 *   HF_TIMEOUT            ACQUIRE: executed after `not_after`, and therefore without effect.
 *   HF_LOST, HF_NOT_HELD  As described above.
 *   HF_UNREACHABLE        No connection, or the server cannot answer now; worth a retry.
 *                         `outcome_unknown`: the operation may have taken effect nevertheless.
 *   any other             Final.
 */
#ifndef HF_STORE_STORE_H
#define HF_STORE_STORE_H

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/list.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/time.h"
#include "holdfast.h"

typedef enum hf__verb {
    HF__ACQUIRE,
    HF__RENEW,
    HF__RELEASE,
    HF__INSPECT,
    HF__CLIENT_INFO,
    HF__BREAK,
    HF__LATCH_SET,
    HF__LATCH_COUNT_DOWN,
    HF__LATCH_GET,
    HF__PROCLAIM,
    HF__LEADER,
    HF__RAISE_TOKEN, /* a quorum raises the token of one of its nodes */
    HF__UPTIME,
    HF__CLUSTER_SLOTS,
    HF__LIST,
    HF__EXPORT,
    HF__EXTEND_EXPORTED,
    /* internal to stores; the core submits none of these except HF__REGISTER */
    HF__REGISTER, /* publish who we are; with `exported`, who exported that hold, for `lease_ms` */
    /* write to a hold without changing it, so that replicas have something to confirm */
    HF__TOUCH,
    HF__CONFIRM
} hf__verb;

typedef struct hf__owner {
    uint64_t id;
    bool logical; /* `id` was chosen by the user; otherwise it is a thread's */
} hf__owner;

static inline bool hf__owner_same(hf__owner a, hf__owner b) {
    return a.id == b.id && a.logical == b.logical;
}

/* "t3" for a thread, "o7" for a logical owner. */
#define HF__OWNER_TEXT 24

static inline void hf__owner_text(char out[HF__OWNER_TEXT], hf__owner owner) {
    char text[HF__DIGITS], *end = text + sizeof text, *at = hf__digits(end, owner.id);
    out[0] = owner.logical ? 'o' : 't';
    memcpy(out + 1, at, (size_t)(end - at));
    out[1 + (end - at)] = '\0';
}

#define HF__IDENTITY_TEXT 256

/* Identifies a client to others that inspect its locks. */
typedef struct hf__identity {
    char client[HF__UUID_LENGTH + 1];
    int64_t pid;
    char host[HF__IDENTITY_TEXT], program[HF__IDENTITY_TEXT], label[HF__IDENTITY_TEXT];
} hf__identity;

/* Internal to the Redis store: the state of an answer that replicas have yet to confirm. */
typedef struct hf__ack {
    hf__time sent_at;
    uint64_t link;
    char *why;
    hf_result result; /* reported once the operation is undone */
    int64_t left_ms;  /* the rest of the lease, as TOUCH reported it; 0: there is no such hold */
    uint8_t verb;
    enum { HF__ACK_NONE, HF__ACK_WAITING, HF__ACK_UNDOING } state : 8;
    bool hold_found; /* TOUCH found the hold, and it lasts long enough */
} hf__ack;

typedef enum hf__redirect_kind {
    HF__REDIRECT_NONE,
    HF__REDIRECT_MOVED,
    HF__REDIRECT_ASK,
    HF__REDIRECT_TRY_AGAIN,
    HF__REDIRECT_DOWN
} hf__redirect_kind;

/* Internal to the cluster store: a node did nothing, because another node has the slot, or because
   the operation must be sent again later. */
typedef struct hf__redirect {
    hf__redirect_kind kind;
    uint32_t count; /* how often it was redirected */
    /* while its node cannot be reached: the number of the next slot map, which may name another
       node; 0: it waits for none */
    uint64_t map_awaited;
    char *address; /* MOVED, ASK: "host:port", on the heap */
    /* while it waits: send it not before `retry_at`, and not after `until` */
    hf__time retry_at, until;
} hf__redirect;

#define HF__WAITERS_MAX 64 /* waiters that INSPECT returns */

/* A waiter. CLIENT_INFO returns its client's identity. */
typedef struct hf__waiter_info {
    char client[HF__UUID_LENGTH + 1], owner[HF__OWNER_TEXT];
} hf__waiter_info;

/* The answer to INSPECT and CLIENT_INFO, in the caller's memory. CLIENT_INFO looks up
   identity.client. */
typedef struct hf__lock_info {
    uint32_t waiter_count; /* of all; the first HF__WAITERS_MAX of them are in `waiters` */
    hf__waiter_info waiters[HF__WAITERS_MAX];
    bool held;
    uint32_t count, kind, holders, used, capacity;
    int64_t remaining_ms, since_unix_ms;
    uint64_t token;
    char owner[HF__OWNER_TEXT];
    hf__identity identity;
} hf__lock_info;

/* A hold that was exported from its client. */
typedef struct hf__exported {
    char client[HF__UUID_LENGTH + 1]; /* a new id that belongs to no client */
    uint64_t token;
} hf__exported;

#define HF__EXPORTED_ACQUIRE_ID 1

#define HF__LIST_BATCH 32 /* names per step */

/* A name that may be in use. INSPECT tells whether it is. */
typedef struct hf__list_item {
    char name[HF_NAME_MAX + 1];
    bool from_queue; /* found through its queue; if it is also held, it is found a second time */
} hf__list_item;

/* A walk over the names that may be in use, one step at a time. Memory of the caller, zero at first
   except `prefix`. A name that is in use during the whole walk is found at least once, perhaps
   twice. */
typedef struct hf__list_walk {
    const char *prefix; /* only names with this prefix are wanted; others may be found too */
    size_t prefix_length;
    bool finished; /* nothing is left to find */
    uint32_t count;
    hf__list_item names[HF__LIST_BATCH];

    /* the store's position in the walk */
    uint64_t cursor;
    char last[HF_NAME_MAX + 1];
    /* open resources of the store; the caller frees them at the end, however the walk ended */
    void *state;
    void (*free_state)(void *walk);
} hf__list_walk;

/* A latch: the request and the answer. */
typedef struct hf__latch {
    uint32_t count; /* LATCH_SET: of the round; LATCH_COUNT_DOWN: by how much */
    uint32_t left;
    uint64_t round, last_done; /* the current round; the last completed one, 0: none */
} hf__latch;

/* The value that a leader publishes, in the caller's memory. */
typedef struct hf__leader_value {
    uint64_t sequence; /* grows with each value of a client */
    uint32_t length;
    char value[HF_VALUE_MAX + 1];
} hf__leader_value;

/* The acquire of the client's next waiter, executed in one step with the RELEASE before it. */
typedef struct hf__next_acquire {
    uint64_t acquire_id;
    hf__owner owner;
    int64_t lease_ms;
    uint64_t token; /* in and out, as in an ACQUIRE */
    hf__time not_after;
    hf_result result; /* HF_OK; HF_BUSY: queued; HF_NOT_HELD: it was not executed */
    int64_t retry_ms;
    uint64_t holder_token; /* HF_BUSY: of the current holder */
} hf__next_acquire;

/* An operation. Every name entry has one, idle or not, so it is kept small: flags are bits, fields
   of different verbs share a union, and rare fields are behind pointers. */
typedef struct hf__op {
    struct hf__op *next; /* in an hf__ops of the store, while it has the operation */

    /* the request; the caller's memory, which must stay until completion */
    const char *name;
    size_t name_length;
    hf__owner owner;
    uint64_t acquire_id;
    /* ACQUIRE: the highest token seen; the grant gets a higher one. BREAK: see above. Answer: the
       token */
    uint64_t token;
    int64_t lease_ms;
    hf__verb verb;
    uint32_t count;
    uint32_t kind;              /* HF_MUTEX, … */
    uint32_t permits, capacity; /* HF_PERMITS */
    /* ACQUIRE, RENEW: upgrades requested for the hold so far, including this one */
    uint32_t upgrades;
    /* ACQUIRE: how often this id got HF_BUSY; a store may lengthen `retry_ms` with it */
    uint32_t attempt;
    bool upgrade : 1; /* ACQUIRE */
    bool enqueue : 1; /* ACQUIRE: queue it if the name is not free */
    /* ACQUIRE: a lower id of the client gave up waiting, and this one takes its position */
    bool inherits_position : 1;
    bool leave_queue : 1;     /* RELEASE: the id is in the queue, or may be */
    bool retried : 1;         /* RELEASE: it was submitted before and had no answer; see above */
    bool exact_token : 1;     /* RELEASE: a hold under another token than `token` counts as lost */
    bool outcome_unknown : 1; /* answer: it failed, but may have taken effect */
    bool rolled_back : 1; /* ACQUIRE: the store has released this id; it must not be used again */
    bool has_waiters : 1; /* answer to RENEW and to a granted ACQUIRE: there are waiters */
    /* HF_BUSY: it is in the queue, for at most HF__QUEUE_ENTRY_MS unless repeated */
    bool queued : 1;
    /* internal to Redis, as are those below: send ASKING first, because the slot is moving */
    bool asking : 1;
    bool asking_sent : 1; /* the answer to ASKING is still to come */
    /* RENEW: send one key only, because the other keys may be on another node */
    bool single_key : 1;
    bool subscribed : 1; /* the channel of the name is subscribed */
    bool repeated : 1;   /* internal: repeats an operation that was sent before */
    hf__time not_after;  /* ACQUIRE: must not take effect after this; HF__NEVER: no limit */
    /* RELEASE: an ACQUIRE of this id may arrive late, until then; 0: none can */
    hf__time tombstone_until;
    hf__time held_since;            /* RELEASE: when it was granted; 0: not known */
    hf__time expired_by;            /* RELEASE: by then the hold has expired by itself */
    hf__next_acquire *next_acquire; /* RELEASE of a mutex: see above; NULL: none */
    /* RELEASE of another kind, where the store can_hand_off: the ACQUIRE of the client's next
       waiter for the same name */
    struct hf__op *next_acquire_op;
    union {
        hf__lock_info *lock_info;        /* INSPECT, CLIENT_INFO, LEADER */
        hf__latch *latch;                /* LATCH_… */
        hf__list_walk *list_walk;        /* LIST */
        struct hf__cluster_slots *slots; /* CLUSTER_SLOTS */
    };
    const hf__exported *exported;   /* see above; NULL: none */
    hf__leader_value *leader_value; /* PROCLAIM, LEADER */
    /* ACQUIRE, where the store has multi_acquire: the next of the chain, see above */
    struct hf__op *next_in_multi;

    /* the answer */
    hf__time sent_at;      /* taken before it was last sent; deadlines count from here */
    uint64_t link;         /* the connection on which it was last sent; 0: none */
    uint64_t holder_token; /* HF_BUSY: the current holder's; 0: the store does not tell */
    int64_t server_us;     /* ACQUIRE: when it was executed, by the store's clock; 0: not known */
    hf__ack ack;           /* internal to Redis */
    hf__redirect redirect; /* internal to the cluster */
    union {
        int64_t retry_ms;
        int64_t uptime_ms; /* UPTIME */
    };
    char *detail;        /* on the heap, freed by the receiver; may be NULL */
    uint32_t late_count; /* internal to Redis: how often it arrived after `not_after` */
    hf_result result;
} hf__op;

/* Operations, in order. */
typedef HF__FIFO(hf__op) hf__ops;

static inline void hf__ops_push(hf__ops *ops, hf__op *op) {
    hf__fifo_push(ops, op);
}

static inline hf__op *hf__ops_pop(hf__ops *ops) {
    hf__op *op = hf__fifo_first(ops);
    if (op) hf__fifo_shift(ops);
    return op;
}

#define HF__QUEUE_ENTRY_MS 60000

typedef struct hf__store hf__store;

/* Something that a store has learned without a request. */
typedef struct hf__notification {
    enum {
        HF__NAME_CHANGED,         /* one name: waiters and holders of it should check at once */
        HF__NAMES_CHANGED,        /* the same, for the names that `matches` accepts */
        HF__NOTIFICATIONS_MISSED, /* all names: notifications may have been missed */
        HF__GRANTED               /* a queued acquire was granted the lock */
    } type;
    const char *name; /* the store's memory, valid until the next call */
    size_t length;
    bool (*matches)(const struct hf__store *store, const char *name, size_t length);

    uint64_t acquire_id, token, link; /* HF__GRANTED */
    int64_t server_us;                /* when it was granted, by the store's clock */
    int64_t lease_ms;
    /* the grant counts as requested then; 0: not known, so an ACQUIRE must confirm it */
    hf__time sent_at;
} hf__notification;

typedef struct hf__store_table {
    /* In a forked child it only frees memory and closes descriptors of this process. */
    void (*free)(hf__store *store, bool forked);

    /* Begin an operation; connect if needed. `completed` returns it later. */
    void (*submit)(hf__store *store, hf__op *op, hf__time now);

    /* The next completed operation, or NULL. */
    hf__op *(*completed)(hf__store *store);

    /* The next notification; false: there is none. May be NULL. */
    bool (*next_notification)(hf__store *store, hf__notification *notification);

    /* Timeouts, reconnection and upkeep; and when to be called again. */
    void (*tick)(hf__store *store, hf__time now);
    hf__time (*due)(const hf__store *store);

    /* Send what was submitted. Unlocks the mutex while it sends. True: something has completed, for
       example because the connection broke; the caller then fetches it with `completed`. */
    bool (*flush)(hf__store *store, pthread_mutex_t *mutex);

    /* The descriptors to poll: all input when `reading`, otherwise only what cannot wait (a
       connection that breaks, or that is being made). Returns how many of at most HF__STORE_FDS
       were set. */
    int (*pollset)(hf__store *store, struct pollfd *fds, bool reading);

    /* Handle what poll reported. Unlocks the mutex while it reads. */
    void (*ready)(hf__store *store, const struct pollfd *fds, int count, pthread_mutex_t *mutex);

    /* Block until an answer arrives or the connection breaks. If no answer comes, the tick of
       another thread breaks the connection. Unlocks the mutex meanwhile. Returns false at once if
       the store cannot wait in this way. */
    bool (*read_blocking)(hf__store *store, pthread_mutex_t *mutex);

    /* Operations that were sent and are not answered yet. */
    size_t (*in_flight)(const hf__store *store);

    /* Shut down permanently: operations in flight are completed with HF_UNREACHABLE. */
    void (*shut)(hf__store *store, hf__time now);
} hf__store_table;

#define HF__NODE_FDS  4   /* descriptors of a store on one server */
#define HF__NODES_MAX 9   /* nodes of a quorum */
#define HF__STORE_FDS 128 /* descriptors of any store */

/* The head of every store. `link` counts the connections made. While it stays the same, answers
   come in the order of the requests. 0: not connected. */
struct hf__store {
    const hf__store_table *table;
    /* where the store is, if the URL does not say so; memory of the store; may be NULL */
    const char *location;
    uint64_t link;
    bool up;
    bool has_kinds;        /* supports other kinds than HF_MUTEX */
    bool has_latch_leader; /* supports latches and leaders */
    bool can_hand_off;     /* RELEASE supports `next_acquire` and `next_acquire_op` */
    bool multi_acquire;    /* supports chains of ACQUIRE */
    /* a grant counts only once ACQUIRE has confirmed it: no `next_acquire`, and no grant by a
       notification alone */
    bool needs_claim;
    /* it undoes each ACQUIRE that it does not grant, so each try needs a new acquire id */
    bool new_id_per_try;
    bool can_export;       /* supports EXPORT, ACQUIRE with `exported`, and EXTEND_EXPORTED */
    bool expires;          /* a hold ends by itself: with its lease, or when RENEW says HF_LOST */
    hf_result down_result; /* why it is not up, from the last attempt to connect */
    char *down_detail;
    uint64_t pollset_version; /* changes whenever pollset would return something else */
    int64_t round_trip_us;    /* the shortest measured, in microseconds; 0: not known */
    uint64_t round_trips;     /* how many were measured */
    /* set by the client when `round_trip_us` may be wrong: measure again soon */
    bool wants_round_trip;
    uint64_t commands; /* commands sent */
    /* the server's clock in the last reply that had it, to the request sent at clock_at */
    int64_t clock_us;
    hf__time clock_at; /* 0: not known */
    /* why it does not support other kinds, as one line; NULL: no reason given */
    const char *no_kinds_reason;
};

#endif
