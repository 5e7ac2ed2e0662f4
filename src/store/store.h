/*
 * What a store does for the core: the small table of functions that every store fills in.
 *
 * The core hands down operations and takes them back completed; a store never calls upward. All
 * functions run under the client's mutex, none blocks, and `submit` never hands an operation
 * back. Where a store has to do I/O it lets go of the mutex meanwhile (`flush`,
 * `ready`); it is then up to the store that no two threads do the same I/O.
 *
 * Numbers: every ask carries a number that grows per client. A store guarantees that what it does for
 * a number touches no hold of a higher number, so that bytes which arrive late do no harm:
 *
 *   ACQUIRE      grant the name to (client, number) if it is free, or if this number has it already;
 *            a lower number of the same client is replaced. With `enqueue`, a store that keeps a line
 *            of waiters gives it a place there, or that of a lower number of the client: `queued`.
 *   RENEW    if (client, number) holds under `token`: the re-entry count is `count`, and it lasts at least `lease_ms`
 *            from now (0: leave as is). Else HF_LOST. Never re-creates.
 *   RELEASE  (client, any number up to `acquire_id`) holds no more, and stands in no line. HF_LOST if it
 *            did not hold. With `retried`, it was submitted before and not answered, and the hold was under `token`:
 *            HF_OK also where the store knows that it was done before, or that nobody was granted the name since.
 *            HF_LOST with `outcome_unknown`: it cannot be told. With `exact_token`, an ACQUIRE of the number may have come late: what is
 *            held under another token is released, and HF_LOST. With an `next_acquire`, an ACQUIRE of the client's next: where the store can do both in
 *            one step, and the hold was there, its answer is in `next_acquire` too. Of another kind, the `next_acquire_op` is
 *            submitted with it, and completed by itself.
 *
 * Kinds: an op of a kind other than HF_MUTEX has a number that no other hold of its client has (`kind` is
 * not HF_MUTEX: then "a lower number" and "up to" mean this very number, and nothing of the client is
 * replaced). Holders of one name are either one that excludes (HF_MUTEX, HF_WRITE), or any number of
 * HF_READ and at most one HF_UPGRADABLE, or HF_PERMITS of one capacity that together do not go above it. Each
 * ends with its own lease. Nobody is granted what somebody asked for before who still waits, can be
 * reached and cannot have it yet.
 *
 *   ACQUIRE      with `upgrade`: of a number that holds HF_UPGRADABLE, to hold HF_WRITE, under a new token;
 *            with `enqueue` it waits before all others. HF_LOST: it holds nothing. HF_INVALID: permits of another capacity are in
 *            force, which `capacity` then says.
 *   ACQUIRE      a chain by `next_in_multi`, of different names: all are granted if all are free and nobody waits
 *            for any, else none is. Submitted by its first; each is completed, with a result of its own.
 *   RENEW    the hold is of `kind` at most: HF_WRITE becomes HF_UPGRADABLE or HF_READ if that is said, and
 *            an upgrade that waits is given up; who waits may be served. `token` may be that of before an
 *            upgrade which was not heard of.
 *
 * A hold may leave its client, where the store `can_export`: it is then that of `exported`, which is nobody's.
 *
 *   EXPORT   the mutex of (client, number) under `token` is that of `exported`, for `lease_ms` from now at least.
 *   ACQUIRE      with `exported`: the mutex that is that one's is this number's, under the same token.
 *   PROLONG  what is that of `exported` lasts at least `lease_ms` from now.
 *            All three: HF_LOST if there is none such. Not after `not_after`.
 *
 *   INSPECT  who holds the name.        WHO      the registration of a client.
 *   LIST     the next names of a walk over those that may be in use: see hf__list_walk.
 *   BREAK    end the hold with `token`, or any with 0, but not after `not_after`. HF_NOT_HELD if there is none such; `token` then
 *            says which holds, 0 for none.
 *
 * Beside its locks a name has a latch, and its holder may say something:
 *
 *   LATCH_SET    a new round begins, with `latch->count` to be counted.
 *   LATCH_DOWN   `latch->count` of them are. HF_NOT_HELD: the latch is not set, or forgotten.
 *   LATCH_LOOK   the same answer, nothing done.
 *            All say what is left, which round it is, and the last that came to its end; rounds
 *            grow. SET and DOWN have a number: one that was done, or is lower than one of the same
 *            client that was, is not done (again); not after `not_after`.
 *   PROCLAIM the hold of (client, number) under `token`, a mutex, says `leader_value`. HF_LOST: there is
 *            none such. Of two the one with the higher `leader_value->sequence` stands.
 *   LEADER   who holds the name and has said something under the token it holds: `lock_info`, `leader_value`.
 *            HF_NOT_HELD: nobody.
 *            LATCH_LOOK and LEADER with `enqueue`: `acquire_id` is a watch of the client's. The store may
 *            have news of it, as if it were GRANTED, when there is something new; it is asked again
 *            in `retry_ms` all the same.
 *
 * Of a store that is a node of another (quorum/), the mutex only:
 *
 *   RAISE    if (client, number) holds: its token is `token` from now on, and what is granted later is
 *            above it. Else HF_LOST.
 *   AGE      how long the server has been up, by its own count: `uptime_ms`; -1: it may not say.
 *
 * And of any kind (cluster/):
 *
 *   SLOTS_OF which node has which slot, into `slots`.
 *
 * Results of a completed operation: HF_OK; HF_BUSY (ACQUIRE: held by another, ask again in `retry_ms`); HF_TIMEOUT (ACQUIRE:
 * executed after `not_after`, and so not done); HF_LOST, HF_NOT_HELD as above; HF_UNREACHABLE (no connection, or a
 * server that cannot answer at the moment: worth trying again; `outcome_unknown` says that it may have taken effect all the
 * same); any other is final.
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
    HF__RAISE_TOKEN, /* of one node of several, by the store over them */
    HF__UPTIME,
    HF__CLUSTER_SLOTS,
    HF__LIST,
    HF__EXPORT,
    HF__EXTEND_EXPORTED,
    /* a store's own: never submitted, but for the first */
    HF__REGISTER, /* who we are; or, with `exported`, who that one was, for `lease_ms` */
    HF__TOUCH,    /* write to a hold without changing it */
    HF__CONFIRM
} hf__verb;

typedef struct hf__owner {
    uint64_t id;
    bool logical; /* the user's number, not a thread's */
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

/* Who a client is, for those who inspect its locks. */
typedef struct hf__identity {
    char client[HF__UUID_LENGTH + 1];
    int64_t pid;
    char host[HF__IDENTITY_TEXT], program[HF__IDENTITY_TEXT], label[HF__IDENTITY_TEXT];
} hf__identity;

/* A store's own: what becomes of an answer that others are to confirm. */
typedef struct hf__ack {
    hf__time sent_at;
    uint64_t link;
    char *why;
    hf_result result; /* to be told once it is undone */
    int64_t left_ms;  /* how long it lasts, where it was looked for; 0: it is not there */
    uint8_t verb;
    enum { HF__ACK_NONE, HF__ACK_WAITING, HF__ACK_UNDOING } state : 8;
    bool there; /* where it was looked for */
} hf__ack;

typedef enum hf__redirect_kind {
    HF__REDIRECT_NONE,
    HF__REDIRECT_MOVED,
    HF__REDIRECT_ASK,
    HF__REDIRECT_TRY_AGAIN,
    HF__REDIRECT_DOWN
} hf__redirect_kind;

/* A store's own: a node of a cluster did nothing, since another is to be asked, or later. */
typedef struct hf__redirect {
    hf__redirect_kind kind;
    uint32_t count; /* that it was turned away */
    uint64_t
        map_awaited; /* while its node is away: that one which may say of another; 0: not asked for */
    char *address;   /* MOVED, ACQUIRE: "host:port", on the heap */
    hf__time retry_at, until; /* while it waits: not before, and no longer than */
} hf__redirect;

#define HF__WAITERS_MAX 64 /* waiters that are looked at */

/* One who waits; who that is, is asked by WHO. */
typedef struct hf__waiter_info {
    char client[HF__UUID_LENGTH + 1], owner[HF__OWNER_TEXT];
} hf__waiter_info;

/* The answer to INSPECT and WHO; of the asker's memory. WHO asks by identity.client. */
typedef struct hf__lock_info {
    uint32_t waiter_count; /* how many wait, the first HF__WAITERS_MAX of them in `waiters` */
    hf__waiter_info waiters[HF__WAITERS_MAX];
    bool held;
    uint32_t count, kind, holders, used, capacity;
    int64_t remaining_ms, since_unix_ms;
    uint64_t token;
    char owner[HF__OWNER_TEXT];
    hf__identity identity;
} hf__lock_info;

/* A hold that has left its client. */
typedef struct hf__exported {
    char client[HF__UUID_LENGTH + 1]; /* a new one, that nobody is */
    uint64_t token;
} hf__exported;

#define HF__EXPORTED_ACQUIRE_ID 1

#define HF__LIST_BATCH 32 /* names of one step */

/* One that may be in use: INSPECT says whether it is. */
typedef struct hf__list_item {
    char name[HF_NAME_MAX + 1];
    bool from_queue; /* found by who waits for it: if it is held, it is found by that, too */
} hf__list_item;

/*
 * A walk over the names that may be in use, a step at a time; of the asker's memory, zero but for
 * `prefix` at first. What is in use all the while is found; it may be found twice.
 */
typedef struct hf__list_walk {
    const char *prefix; /* only names that begin so are wanted; others may be found, too */
    size_t prefix_length;
    bool finished; /* nothing is left to find */
    uint32_t count;
    hf__list_item names[HF__LIST_BATCH];

    /* the store's: where the walk is */
    uint64_t cursor;
    char last[HF_NAME_MAX + 1];
    void *state; /* what is open meanwhile; the asker ends it at last, however the walk ended */
    void (*free_state)(void *walk);
} hf__list_walk;

/* A latch: what is asked, and the answer. */
typedef struct hf__latch {
    uint32_t count; /* LATCH_SET: of the round; LATCH_DOWN: by how much */
    uint32_t left;
    uint64_t round, last_done; /* this one; the last that came to its end, 0: none has */
} hf__latch;

/* What a leader says: of the asker's memory. */
typedef struct hf__leader_value {
    uint64_t sequence; /* grows with each that a client says */
    uint32_t length;
    char value[HF_VALUE_MAX + 1];
} hf__leader_value;

/* The next of a client, in one step with the release before it. */
typedef struct hf__next_acquire {
    uint64_t acquire_id;
    hf__owner owner;
    int64_t lease_ms;
    uint64_t token; /* as of an ACQUIRE, in and out */
    hf__time not_after;
    hf_result result; /* HF_OK, HF_BUSY and placed, or HF_NOT_HELD: nothing was done for it */
    int64_t retry_ms;
    uint64_t holder_token; /* HF_BUSY: of who has it now */
} hf__next_acquire;

/* Every lock that is held has one of these, idle or not: what is small stands together, and what only some
   verbs have shares its place, or is elsewhere. */
typedef struct hf__op {
    struct hf__op *next; /* the store's, while it has the operation */

    /* what is asked; memory of the asker that stays until completion */
    const char *name;
    size_t name_length;
    hf__owner owner;
    uint64_t acquire_id;
    uint64_t
        token; /* ACQUIRE: the highest seen; the grant is above it. BREAK: see above. Answer: the token */
    int64_t lease_ms;
    hf__verb verb;
    uint32_t count;
    uint32_t kind;              /* HF_MUTEX, … */
    uint32_t permits, capacity; /* HF_PERMITS */
    uint32_t upgrades;          /* ACQUIRE, RENEW: how many its hold has asked for, this one too */
    uint32_t
        attempt; /* ACQUIRE: how often this number was told HF_BUSY; stores may ask less often */
    bool upgrade : 1; /* ACQUIRE */
    bool enqueue : 1; /* ACQUIRE: take a place in line if it is not free */
    bool
        inherits_position : 1; /* ACQUIRE: to a lower number of its client which gave up waiting: its turn is ours */
    bool leave_queue : 1; /* RELEASE: it stands in line, or may */
    bool retried : 1;     /* RELEASE: it was submitted before, and not answered: see above */
    bool
        exact_token : 1; /* RELEASE: what is held under another token than `token` counts as lost */
    bool outcome_unknown : 1; /* Answer: it failed, and may have taken effect all the same */
    bool
        rolled_back : 1; /* ACQUIRE: a release of its number was said: it is not to be asked for again */
    bool has_waiters : 1; /* Answer to an ACQUIRE that was granted, to RENEW: somebody waits */
    bool
        queued : 1; /* HF_BUSY: it stands in line, for HF__QUEUE_ENTRY_MS at most unless it asks again */
    bool asking : 1;      /* the store's, and below: the slot is on its way there */
    bool asking_said : 1; /* and the answer to that is still to come */
    bool single_key : 1;  /* RENEW: with one key, where the others may be elsewhere */
    bool heard : 1;       /* what is said of the name is listened to */
    bool repeated : 1;    /* its own, of what was asked for before */
    hf__time not_after;   /* ACQUIRE: must not take effect later than this; HF__NEVER: no limit */
    hf__time
        tombstone_until; /* RELEASE: an ACQUIRE of this number may arrive late, until then; 0: none can */
    hf__time held_since;            /* RELEASE: when it was granted; 0: not known */
    hf__time expired_by;            /* RELEASE: what it ends has ended by itself then */
    hf__next_acquire *next_acquire; /* RELEASE of a mutex; NULL: none */
    /* RELEASE of another kind, where the store can_hand_off: that of the client's next, of the same name */
    struct hf__op *next_acquire_op;
    union {
        hf__lock_info *lock_info;        /* INSPECT, WHO, LEADER */
        hf__latch *latch;                /* LATCH_… */
        hf__list_walk *list_walk;        /* LIST */
        struct hf__cluster_slots *slots; /* SLOTS_OF */
    };
    const hf__exported *exported;   /* see above; NULL: none */
    hf__leader_value *leader_value; /* PROCLAIM, LEADER */
    struct hf__op
        *next_in_multi; /* ACQUIRE, where the store multi_acquire: the next of a chain, see above */

    /* the answer */
    hf__time sent_at;      /* before the last sending: deadlines count from here */
    uint64_t link;         /* the connection it was last sent on; 0: none */
    uint64_t holder_token; /* HF_BUSY: of who holds it, where the store says; 0: it does not */
    int64_t server_us;     /* ACQUIRE: when it was executed, on the store's clock; 0: not known */
    hf__ack ack;           /* the store's */
    hf__redirect redirect; /* the store's: to a node of a cluster */
    union {
        int64_t retry_ms;
        int64_t uptime_ms; /* AGE */
    };
    char *detail;        /* on the heap, the taker's to free; may be NULL */
    uint32_t late_count; /* the store's: how often it came too late */
    hf_result result;
} hf__op;

#define HF__QUEUE_ENTRY_MS 60000

typedef struct hf__store hf__store;

/* What a store has heard, unasked. */
typedef struct hf__notification {
    enum {
        HF__NAME_CHANGED,  /* of a name: worth asking again at once, for who waits and who holds */
        HF__NAMES_CHANGED, /* the same, of those that `matches` says */
        HF__NOTIFICATIONS_MISSED, /* of all names: it may have missed something */
        HF__GRANTED               /* a number that stands in line has the lock */
    } type;
    const char *name; /* the store's memory, until the next call */
    size_t length;
    bool (*matches)(const struct hf__store *store, const char *name, size_t length);

    uint64_t acquire_id, token, link; /* HF__GRANTED */
    int64_t server_us;                /* when it was granted, on the store's clock */
    int64_t lease_ms;
    hf__time sent_at; /* as if it had been asked for then; 0: not known, so it must be asked for */
} hf__notification;

typedef struct hf__store_table {
    /* In a forked child only memory and descriptors of this process are given up. */
    void (*free)(hf__store *store, bool forked);

    /* Begin; connects where there is something to connect to. `completed` follows later. */
    void (*submit)(hf__store *store, hf__op *op, hf__time now);

    /* The next completed operation, or NULL. */
    hf__op *(*completed)(hf__store *store);

    /* What was heard next; false: nothing. May be left out. */
    bool (*next_notification)(hf__store *store, hf__notification *notification);

    /* Timeouts, reconnection, upkeep; and when to be called again. */
    void (*tick)(hf__store *store, hf__time now);
    hf__time (*due)(const hf__store *store);

    /* Send what was submitted. Lets go of the mutex while it sends. True if something has completed,
       as it does when the connection breaks: it is then to be carried up. */
    bool (*flush)(hf__store *store, pthread_mutex_t *mutex);

    /* What to poll: all that comes in when `reading`, otherwise only what cannot wait (a connection
       that breaks, one that is being made). Returns how many of at most HF__STORE_FDS were set. */
    int (*pollset)(hf__store *store, struct pollfd *fds, bool reading);

    /* What poll reported. Lets go of the mutex while it reads. */
    void (*ready)(hf__store *store, const struct pollfd *fds, int count, pthread_mutex_t *mutex);

    /* Block until an answer came or the connection broke, which some other thread's tick sees to when
       no answer comes. Lets go of the mutex meanwhile. False, at once: there is nothing to wait for
       in this way. */
    bool (*read_blocking)(hf__store *store, pthread_mutex_t *mutex);

    /* Operations sent and not answered yet. */
    size_t (*in_flight)(const hf__store *store);

    /* End for good: what is in flight is completed with HF_UNREACHABLE. */
    void (*shut)(hf__store *store, hf__time now);
} hf__store_table;

#define HF__NODE_FDS  4   /* of a store on one server */
#define HF__NODES_MAX 9   /* of a quorum */
#define HF__STORE_FDS 128 /* of any */

/* The head of every store. `link` counts connections made: while it stays the same, answers come in
   the order of asking; 0 is not connected. */
struct hf__store {
    const hf__store_table *table;
    const char *location; /* it is, in the store's memory, if the URL does not say; or NULL */
    uint64_t link;
    bool up;
    bool has_kinds;        /* it knows others than HF_MUTEX */
    bool has_latch_leader; /* it knows latches, and what holders say */
    bool can_hand_off;     /* RELEASE minds `next_acquire` and `next_acquire_op` */
    bool multi_acquire;    /* it takes chains of ACQUIRE */
    bool needs_claim; /* a grant counts once ACQUIRE has said so: no heirs, no entering on news */
    bool
        new_id_per_try; /* it undoes an ACQUIRE that it does not grant: the next has a number of its own */
    bool can_export; /* it knows EXPORT and its kin */
    bool expires;    /* what it holds ends by itself, with its lease or when RENEW says HF_LOST */
    hf_result down_result; /* why not up: of the last attempt to connect */
    char *down_detail;
    uint64_t pollset_version; /* changes with what pollset would say */
    int64_t round_trip_us;    /* the shortest seen; 0: not known */
    uint64_t round_trips;     /* how many were measured */
    bool wants_round_trip;    /* set by the client, who doubts it: to be measured once more, soon */
    uint64_t commands;        /* sent */
    int64_t clock_us;         /* what the server's clock said last, to what was asked at clock_at */
    hf__time clock_at;        /* 0: it has not been asked */
    const char *no_kinds_reason; /* why it does not have kinds, in a line; NULL: nothing to say */
};

#endif
