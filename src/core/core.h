/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock logic, the same on every store: one state machine per client, driven by times and
 * answers.
 *
 * The core does no I/O, reads no clock and takes no lock. Its caller holds the client's mutex,
 * passes the time, and passes in completed operations. The caller also carries out what the core
 * leaves for it: operations submitted to the store, finished calls in `finished_calls` to wake, and
 * lost ownerships in `lost` to report.
 *
 *   name entry  one per name in use: the mutex that this client holds, the waits for it, and the
 *               operation in flight
 *   side entry  an entry next to the name entry, for a request of another kind than the mutex. It
 *               has its own position in the store's queue. Readers of a client share one where they
 *               can (side_entries.c).
 *   ownership   what the store granted, from the grant until release or loss; shared by its handles
 *   handle      an hf_hold, as the user has it
 *   wait        a call that wants the lock
 *
 * Invariants
 *  1. At most one changing operation per entry is in flight (entry.busy).
 *  2. An acquire id belongs to one wait only. The ids of a name are sent in growing order, so the
 *     store can tell a late command from a current one.
 *  3. Everything a grant needs is allocated before the request is sent, so a grant cannot fail.
 *  4. An ownership is HELD only while its entry points at it. Its deadline counts from just before
 *     the send of an operation that the store has confirmed.
 *  5. An acquire id that may hold the lock in the store, without an ownership here, is the entry's
 *     pending release. It stays so until the store confirms its release, or the lease has surely
 *     expired.
 *  6. Every call is finished exactly once. The core does not touch it afterwards.
 */
#ifndef HF_CORE_CORE_H
#define HF_CORE_CORE_H

#include <stdatomic.h>

#include "base/heap.h"
#include "base/map.h"
#include "store/store.h"

typedef struct hf__core hf__core;
typedef struct hf__entry hf__entry;

/* A caller that waits for an outcome. It is finished once, and is then in core->finished_calls
   until the client takes it from there. */
typedef struct hf__call {
    struct hf__call *next;
    void *waker; /* the client's: what to wake */
    hf_result result;
    bool done;
    bool async; /* the client's: a callback is run instead of waking a thread */
    /* set: the call is a part of this, which is notified instead (multi.h) */
    struct hf__multi *multi;
    char *detail; /* on the heap, freed by the caller; may be NULL */
} hf__call;

/*
 * States of an ownership:
 *
 *   HELD --hf_release--------------------> RELEASED
 *   HELD --deadline, store, max_hold-----> LOST
 *   HELD --hf_close----------------------> ENDED
 */
typedef enum hf__state { HF__HELD, HF__RELEASED, HF__LOST, HF__ENDED } hf__state;

typedef struct hf__ownership {
    atomic_uint refs; /* one per handle, one of the entry, one while in core->lost */

    /* these are read without the mutex, and also in signal handlers */
    atomic_int state;
    _Atomic(hf__time) deadline;
    _Atomic(uint64_t) token; /* after a handle was returned, only an upgrade changes it */
    const char *_Atomic lost_reason;

    hf__entry *entry; /* NULL when no longer held */
    uint64_t acquire_id;
    hf__owner owner;
    int64_t lease_ms;
    /* `first_kind`: the kind of an upgraded hold before its upgrade, and after a downgrade */
    uint8_t kind, first_kind;
    uint8_t posted_kind, sent_kind; /* confirmed by the store; being sent to the store */
    uint32_t count, posted_count;   /* re-entries by the owner; what the store has confirmed */
    uint32_t upgrades;              /* upgrades requested so far */
    uint32_t renew_tries;           /* tries of a renewal, since the last successful one */
    uint32_t flags;
    int lost_fd;         /* -1: not requested */
    bool unshared;       /* HF_READ: not shared with other readers */
    bool verify;         /* ask the store at once whether it still exists */
    bool export_unknown; /* an EXPORT of it had no answer; it is sent again */
    /* an upgrade that was given up may be in the queue until then; 0: none */
    hf__time upgrade_queued_until;
    hf__time joinable_until; /* HF_READ: other readers of the client may share it until then */
    hf__time renew_at;       /* HF__NEVER: not renewed */
    hf__time max_hold_until;
    char *name;          /* of the lock; set on loss, for the log */
    hf__time granted_at; /* by our clock; for statistics */
    /* the store's lease has expired by then, for any clock within the margin */
    hf__time lapses_at;
    int64_t extend_ms;      /* the longest lease that `extend_calls` want; 0: none */
    hf__call *extend_calls; /* hf_extend calls that are not part of an operation yet */
    hf__call *export_calls; /* the hf_export call, until it is sent */
    hf_hold *handles;
    struct hf__ownership *next_lost;
} hf__ownership;

struct hf_hold {
    hf__ownership *ownership;
    void *client;             /* the user's client; not used by the core */
    uint64_t fork_generation; /* the process that acquired it, as a fork generation */
    atomic_uint refs;
    atomic_bool released;
    bool lost_reported, in_on_lost; /* on_lost was started; it is running */
    /* the owner that acquired through this handle: readers share an ownership */
    hf__owner owner;
    hf_hold *next, *prev; /* among the handles of the ownership, until released */
    hf_lost_fn *on_lost;
    void *arg;
    struct hf__bundle *bundle; /* the client's: set in the first handle of a hold of many names */
    /* in the other handles of such a hold: the first one, which the user has */
    hf_hold *head;
    hf__entry *release_entry; /* the entry whose answer a release of this handle waits for */
};

/* A call that wants the lock, in the caller's memory. A grant takes `ownership` and `hold` from
   it. */
typedef struct hf__wait {
    hf__call call;
    hf__entry *entry;
    struct hf__wait *next, *prev;
    hf__owner owner;
    uint64_t acquire_id;      /* 0: no ACQUIRE was sent yet */
    hf__mapped by_acquire_id; /* in core->waits_by_acquire_id, while it has an id */
    uint64_t token_floor;     /* highest token known when its ACQUIRE was first sent */
    uint64_t holder_token;    /* of the holder, as of the store's last HF_BUSY */
    int64_t holder_seen_us;   /* when that was, by the store's clock; 0: not known */
    uint64_t first_link;      /* the connection on which its acquire id was first sent; 0: none */
    /* a grant that arrived before the answer to its ACQUIRE; acquire_id 0: none */
    hf__notification early_grant;
    int64_t lease_ms, max_hold_ms;
    uint32_t kind, permits, capacity, flags;
    /* an upgrade of what the entry holds; `ownership` and `hold` are NULL */
    bool upgrade;
    const hf__exported *exported; /* it takes over this exported hold; NULL: an ordinary acquire */
    bool unshared;                /* what it gets is not shared with other readers */
    bool try_once;                /* wait_ms 0 */
    /* another held the lock when the wait began, or when its ACQUIRE was executed */
    bool contended;
    bool outcome_unknown;  /* an ACQUIRE of it may have taken effect, and had no answer */
    bool answered_late;    /* the store answered that the ACQUIRE was executed too late */
    hf__time queued_until; /* it is in the store's queue, until then at most; 0: it is not */
    hf__time started_at, until;
    hf__ownership *ownership;
    hf_hold *hold; /* in: allocated by the caller; out: the user's, if call.result is HF_OK */
} hf__wait;

struct hf__entry {
    /* key: the name, in the same allocation; in a side entry `side_id` follows */
    hf__mapped mapped;
    size_t name_length;
    hf__core *core;
    hf__timer timer;
    hf__wait *head, *tail;
    hf__ownership *ownership;

    hf__entry *name_entry; /* of a side entry: the entry of its name; NULL: this is a name entry */
    union {
        struct { /* of a name entry: the oldest side entry, and the newest */
            hf__entry *sides, *last_side;
        };
        struct { /* of a side entry */
            hf__entry *next_side, *prev_side;
        };
    };
    /* the acquire id of everything this side entry sends; 0: this is a name entry */
    uint64_t side_id;
    uint32_t kind;           /* of a side entry */
    uint32_t deferred_sides; /* of a name entry: how many of its side entries are deferred */
    /* of a name entry: how many deferred side entries may acquire next to another one */
    uint32_t admit_more;
    uint32_t tries;

    hf__op op;                      /* in flight while `busy` */
    hf__next_acquire *next_acquire; /* of `op`; allocated when first needed */
    hf__wait *acquirer;             /* of an ACQUIRE in flight; NULL once it gave up */
    hf__call *extending;            /* calls that wait for the RENEW in flight */
    hf__call *exporting;            /* the call that waits for the EXPORT in flight */
    /* of an EXPORT, or of an ACQUIRE that takes over an exported hold */
    hf__exported *exported;

    /* ids up to this may hold the lock without an ownership here; 0: none */
    uint64_t pending_release;
    hf__time pending_release_until; /* expired by then */
    uint64_t pending_release_token; /* of the ownership that `release_calls` release */
    hf__call *release_calls;        /* releases that wait for an answer */
    hf__call *sent_release_calls;

    hf__time held_since;         /* when the request for the last grant was sent */
    hf__time late_acquire_until; /* an ACQUIRE of ours may arrive late, until then */
    hf__time next_try_at;        /* not before this is an ACQUIRE or RELEASE sent */
    hf__time outage_since;       /* the store has not answered since then; 0: it answers */
    char *outage_detail;

    bool busy : 1;
    bool closed_to_joins : 1; /* no other reader joins it */
    /* it waits without a request: other waits of the client are in the store's queue */
    bool deferred : 1;
    bool sent_with_release : 1;      /* its ACQUIRE was sent with a release of this client */
    bool release_unknown : 1;        /* a RELEASE had no answer, and may have taken effect */
    bool pending_release_queued : 1; /* the id may be in the store's queue */
    bool pending_release_held : 1;   /* the id did hold the lock, which was lost or released */
    bool release_requested : 1;      /* the user released it: send that before the next ACQUIRE */
    bool known_busy : 1;             /* as far as known, another holds the lock */
    bool recheck : 1; /* the answer in flight may be outdated on arrival: ask once more */
};

typedef struct hf__core_config {
    int64_t lease_ms, command_timeout_ms, outage_ms;
    /* no thread renews between calls of the user, so each lease must begin at its full length */
    bool unattended;
} hf__core_config;

struct hf__core {
    hf__store *store;
    hf__core_config config;
    hf__map entries;
    hf__map waits_by_acquire_id; /* waits that have an acquire id, by that */
    hf__heap timers;
    hf__rand rand;
    uint64_t renew_phase; /* of the instants at which renewals are due; see hf__lease_align */
    uint64_t last_acquire_id;
    uint64_t highest_token;
    size_t queued_waits; /* waits that are in the store's queue */
    uint64_t link;       /* the store's connection as the core knows it; 0: down */
    bool closing;
    hf__call *close_call;          /* finished when no entry is left */
    hf__call *finished_calls;      /* to be woken by the client */
    struct hf__multi *multi_ready; /* multi-calls of which every part that was begun is answered */
    hf__ownership *lost;           /* to be reported by the client */
    hf_stats stats;
};

void hf__core_init(hf__core *core, hf__store *store, const hf__core_config *config, uint64_t seed);
void hf__core_fini(hf__core *core);

/* ---- Requests of callers ---- */

/* Begin to acquire. The caller has filled in what it wants and allocated `ownership` and `hold`
   (hf__ownership_new, hf__hold_new). The wait may be finished on return. On HF_OK the hold is the
   user's; otherwise `ownership` and `hold` still belong to the caller, which frees them. */
void hf__core_acquire(hf__core *core, hf__wait *wait, const char *name, size_t length,
                      hf__time now);

/* A wait has timed out (`why` is HF_TIMEOUT) or is cancelled: finish it with what is known. */
void hf__core_give_up(hf__wait *wait, hf_result why, hf__time now);

/* When the caller should call hf__core_give_up with HF_TIMEOUT. */
hf__time hf__wait_until(const hf__core *core, const hf__wait *wait);

/* Release a handle. `call` is finished at once, or when the store has answered; NULL: no one
   waits. */
void hf__core_release(hf__core *core, hf_hold *hold, hf__call *call, hf__time now);

/* The caller of a release stops waiting. The release itself goes on. */
void hf__core_release_unwait(hf__core *core, const hf_hold *hold, hf__call *call);

void hf__core_extend(hf__core *core, hf__ownership *ownership, int64_t lease_ms, hf__call *call,
                     hf__time now);

/* Begin to export the hold. On success the ownership and its only handle are released. */
void hf__core_export(hf__core *core, hf__ownership *ownership, const hf__exported *exported,
                     hf__call *call, hf__time now);
void hf__core_export_unwait(hf__core *core, hf__ownership *ownership, hf__call *call);

/* Begin to upgrade an upgradable hold to HF_WRITE. `ownership` and `hold` of the wait stay NULL. In
   all other respects the wait ends like any other. */
void hf__core_upgrade(hf__core *core, hf__ownership *ownership, hf__wait *wait, hf__time now);

/* Lower the kind of the ownership at once. `call` is finished when the store has confirmed it. */
void hf__core_downgrade(hf__core *core, hf__ownership *ownership, hf__call *call, hf__time now);

/* The caller of an extend or a downgrade stops waiting. */
void hf__core_extend_unwait(hf__core *core, hf__ownership *ownership, hf__call *call);

/* End all waits with HF_CLOSED and release all holds. `call` is finished when the store has
   answered everything. */
void hf__core_close(hf__core *core, hf__call *call, hf__time now);

/* ---- Events ---- */

/* An operation that an entry had submitted is completed. */
void hf__core_complete(hf__core *core, hf__op *op, hf__time now);

/* The store may have connected or disconnected: check that, and react. */
void hf__core_link_changed(hf__core *core, hf__time now);

/* A notification from the store. */
void hf__core_notify(hf__core *core, const hf__notification *notification, hf__time now);

/* Continue the calls that concern many names, as far as the answers allow. True: there was
   something to do. */
bool hf__core_advance_multi(hf__core *core, hf__time now);

void hf__core_tick(hf__core *core, hf__time now);
hf__time hf__core_due(const hf__core *core);

/* ---- Between the files of the core ---- */

void hf__entry_step(hf__entry *entry, hf__time now);
/* Send the ACQUIRE of a deferred entry now. False: not possible. Unlike a step it frees nothing. */
bool hf__entry_admit(hf__entry *entry, hf__time now);
void hf__entry_complete(hf__entry *entry, hf__time now);
void hf__entry_notify_granted(hf__entry *entry, hf__wait *wait,
                              const hf__notification *notification, hf__time now);
void hf__entry_expire(hf__entry *entry, hf__time now);
void hf__entry_add_pending_release(hf__entry *entry, uint64_t acquire_id, hf__time until);
void hf__entry_add_pending_leave(hf__entry *entry, uint64_t acquire_id,
                                 hf__time until); /* the id may be in the queue */
void hf__entry_set_outage(hf__entry *entry, char *detail, hf__time now);
void hf__entry_clear_outage(hf__entry *entry);
void hf__wait_give_up(hf__wait *wait, hf_result why, hf__time now);
void hf__wait_finish(hf__wait *wait, hf_result result, char *detail);
/* Undo what the wait has, or may have, in the store. Every end except HF_OK does this. */
void hf__wait_undo(hf__wait *wait);
/* A re-entry: the wait's handle becomes one more handle of this ownership. */
void hf__ownership_join(hf__ownership *ownership, hf__wait *wait);
/* End the waits for an upgrade of the entry's hold: the hold has ended, or can never be
   upgraded. */
void hf__entry_finish_upgrades(hf__entry *entry, hf_result result, const char *detail);
/* The entry of a name, created if needed; NULL: no memory. */
hf__entry *hf__entry_get(hf__core *core, const char *name, size_t length);
bool hf__entry_idle(const hf__entry *entry); /* it can be freed */
void hf__entry_enqueue(hf__entry *entry, hf__wait *wait);
/* The opposite, before anything was sent. */
void hf__entry_dequeue(hf__wait *wait, hf__time now);
/* Fill in an ACQUIRE for the first wait of the entry. The caller submits it, with the rest of the
   chain. */
hf__op *hf__entry_prepare_acquire(hf__entry *entry, hf__op *next_in_multi, hf__time now);
void hf__multi_part_done(struct hf__multi *multi);
void hf__call_push(hf__call **list, hf__call *call);
void hf__call_unlink(hf__call **list, hf__call *call); /* does nothing if it is not in the list */
void hf__call_finish(hf__core *core, hf__call *call, hf_result result, char *detail);
void hf__calls_finish(hf__core *core, hf__call **list, hf_result result, const char *detail);

/* ---- Side entries (side_entries.c) ---- */

/* A hold that this owner has of the name, of any kind; NULL: none. */
hf__ownership *hf__sides_find_held(hf__entry *name_entry, hf__owner owner);

/* Whether the holder of one kind may also acquire another; and the reason why not. */
bool hf__kind_covers(uint32_t held, uint32_t wanted);
char *hf__kind_deadlock_line(uint32_t held, uint32_t wanted);

/* An owner was granted a hold. Its other waits for the name, from other threads, now join that
   hold, or end with HF_DEADLOCK. */
void hf__sides_granted(hf__ownership *ownership);

/* The side entry for a wait of any kind except HF_MUTEX; NULL: no memory. If *ownership is set, the
   wait can join that at once. */
hf__entry *hf__side_for(hf__entry *name_entry, const hf__wait *wait, hf__time now,
                        hf__ownership **ownership);

/* A request that is not a read has arrived: readers that come later wait behind it. */
void hf__sides_close(hf__entry *name_entry);
/* Whether such a request of this client still waits, in another entry than this one. */
bool hf__sides_closed(const hf__entry *side);
void hf__side_unlink(hf__entry *side);

/* ---- Admission (admission.c) ---- */

/* Whether the first wait of the side entry must be deferred. And set that state. */
bool hf__side_must_defer(const hf__entry *side);
void hf__side_set_deferred(hf__entry *side, bool deferred);

/* The side entry whose ACQUIRE is sent with a release of this client; NULL: none. */
hf__entry *hf__sides_next_acquire(const hf__entry *name_entry);

/* The ACQUIRE of the side entry was answered. */
void hf__side_answered(const hf__entry *side);

/* Let deferred side entries acquire, oldest first, as far as allowed. */
void hf__sides_admit(hf__entry *name_entry, hf__time now);

/* ---- Ownerships and handles (ownership.c) ---- */

hf__ownership *hf__ownership_new(void);
hf__ownership *hf__ownership_ref(hf__ownership *ownership);
void hf__ownership_unref(hf__ownership *ownership);

hf_hold *hf__hold_new(hf_lost_fn *on_lost, void *arg);
void hf__hold_attach(hf_hold *hold, hf__ownership *ownership);
void hf__hold_detach(hf_hold *hold);

/* Whether it is held, and its deadline has not passed. */
bool hf__ownership_valid(const hf__ownership *ownership, hf__time now);

/* Detach an ownership from its entry, in state RELEASED or ENDED. */
void hf__ownership_end(hf__ownership *ownership, hf__state state, hf__time now);

/* The same, in state LOST; it is in core->lost until the client has reported it. `why` is a
   constant string. */
void hf__ownership_lose(hf__ownership *ownership, const char *why, hf__time now);

#endif
