/*
 * What a lock is, on any store: one machine per client, fed with times and answers.
 *
 * The core does no I/O, reads no clock and takes no lock; its caller holds the client's mutex, says
 * what time it is, hands completed operations in and carries out what the core leaves for it:
 * operations submitted to the store, calls in `finished_calls` to wake, ownerships in `lost` to tell of.
 *
 *   entry   one per name in use: who of this client holds it, who waits for it, what is under way
 *   lane    an entry beside that of its name: what is not a mutex is asked for by itself, each with its
 *           own place in line; readers of a client share one where they can (sides.c)
 *   own     an ownership, from grant to release or loss; shared by its handles
 *   hold    a handle, as the user has it
 *   wait    a call that wants the lock
 *
 * Invariants
 *  1. One changing operation per name is under way at a time (entry.busy).
 *  2. A number is used by one wait only, and numbers of a name are asked in growing order, so that
 *     the store can tell a late command from a current one.
 *  3. What a grant needs is allocated before it is asked for: a grant never fails.
 *  4. An own is `held` only while its entry points at it, and its deadline counts from before the
 *     sending of an operation that the store confirmed.
 *  5. A number that may be held in the store by nobody here is the entry's ghost, until the store has
 *     answered its release or has surely forgotten it.
 *  6. Every call is finished exactly once; after that the core does not touch it.
 */
#ifndef HF_CORE_CORE_H
#define HF_CORE_CORE_H

#include <stdatomic.h>

#include "base/heap.h"
#include "base/map.h"
#include "store/store.h"

typedef struct hf__core hf__core;
typedef struct hf__entry hf__entry;

/* Whoever waits for an outcome. Finished once, and then in core->finished until taken from there. */
typedef struct hf__call {
    struct hf__call *next;
    void *waker; /* the client's: whom to wake */
    hf_result result;
    bool done;
    bool async;              /* the client's: nobody waits, somebody is called */
    struct hf__multi *multi; /* it is a part of this, which is told instead: next_in_multi.h */
    char *detail;            /* on the heap, the caller's to free; may be NULL */
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

    /* read without the mutex, also in signal handlers */
    atomic_int state;
    _Atomic(hf__time) deadline;
    _Atomic(uint64_t) token; /* only an upgrade changes it once a handle is out */
    const char *_Atomic lost_reason;

    hf__entry *entry; /* NULL when no longer held */
    uint64_t acquire_id;
    hf__owner owner;
    int64_t lease_ms;
    uint8_t kind, first_kind;       /* of a reader's that was upgraded, the second is what it was */
    uint8_t posted_kind, sent_kind; /* what the store was told it is; and is being told */
    uint32_t count, posted_count;   /* entries by the owner; and what the store was told */
    uint32_t upgrades;              /* asked for */
    uint32_t renew_tries;           /* of a renewal, since the last that was answered well */
    uint32_t flags;
    int lost_fd;                   /* -1: nobody asked for one */
    bool unshared;                 /* HF_READ: nobody shares it */
    bool verify;                   /* ask the store at once whether it is still there */
    bool export_unknown;           /* an EXPORT of it was sent and not answered: it is sent again */
    hf__time upgrade_queued_until; /* an upgrade that was given up may stand in line; 0: none */
    hf__time joinable_until; /* HF_READ: other readers of the client may share it until then */
    hf__time renew_at;       /* HF__NEVER: not renewed */
    hf__time max_hold_until;
    char *name;             /* of the lock; once lost, for the log */
    hf__time granted_at;    /* when it was granted, by our clock: for the counters */
    hf__time lapses_at;     /* the store has forgotten it by then, by any clock within the margin */
    int64_t extend_ms;      /* wanted by `extend_calls`, 0: none */
    hf__call *extend_calls; /* calls of hf_extend that no operation carries yet */
    hf__call *export_calls; /* the call of hf_export, while it waits for its turn */
    hf_hold *handles;
    struct hf__ownership *next_lost;
} hf__ownership;

struct hf_hold {
    hf__ownership *ownership;
    void *client;             /* the user's client; the core does not look */
    uint64_t fork_generation; /* in which process: the fork generation */
    atomic_uint refs;
    atomic_bool released;
    bool lost_reported, in_on_lost; /* on_lost was begun; is running */
    hf__owner owner;                /* who acquired through it: readers share an own */
    hf_hold *next, *prev;           /* among the own's handles, while not released */
    hf_lost_fn *on_lost;
    void *arg;
    struct hf__bundle
        *bundle;              /* the client's, of a hold of many names: this is the first of them */
    hf_hold *head;            /* of the others: that first one, which the user has */
    hf__entry *release_entry; /* whose answer a release of it waits for */
};

/* A call that wants the lock. Memory of the caller; own and hold are taken from it by a grant. */
typedef struct hf__wait {
    hf__call call;
    hf__entry *entry;
    struct hf__wait *next, *prev;
    hf__owner owner;
    uint64_t acquire_id;      /* 0: has not asked yet */
    hf__mapped by_acquire_id; /* in core->asking, while it has one */
    uint64_t token_floor;     /* highest token seen when it first asked */
    uint64_t holder_token;    /* of who held it when the store last said that another does */
    int64_t holder_seen_us;   /* when that was, on the store's clock; 0: it does not say */
    uint64_t first_link; /* the connection on which its number was first asked; 0: it was not */
    hf__notification
        early_grant; /* a grant that came before the answer to its ask; number 0: none */
    int64_t lease_ms, max_hold_ms;
    uint32_t kind, permits, capacity, flags;
    bool upgrade;                 /* it wants more of what the entry holds; own and hold are NULL */
    const hf__exported *exported; /* what it wants is this one's; NULL: nobody's */
    bool unshared;                /* readers do not share what it gets */
    bool try_once;                /* wait_ms 0 */
    bool contended;               /* another had the lock when it came, or when it asked */
    bool outcome_unknown;         /* an ask of it may have taken effect, and it was not told so */
    bool answered_late;           /* the store has answered, that it was asked too late */
    hf__time queued_until; /* it stands in the store's line, until then at most; 0: it does not */
    hf__time started_at, until;
    hf__ownership *ownership;
    hf_hold *hold; /* in: prepared; the user's once call.result is HF_OK */
} hf__wait;

struct hf__entry {
    hf__mapped
        mapped; /* key: the name, in this same allocation; a lane's goes on with its number */
    size_t name_length;
    hf__core *core;
    hf__timer timer;
    hf__wait *head, *tail;
    hf__ownership *ownership;

    hf__entry *name_entry; /* of a lane: the entry of its name; NULL: this is one */
    union {
        struct { /* of an anchor: the first lane that came, and the last */
            hf__entry *sides, *last_side;
        };
        struct { /* of a lane */
            hf__entry *next_side, *prev_side;
        };
    };
    uint64_t side_id;        /* its number, under which all of it is asked for; 0: an anchor */
    uint32_t kind;           /* of a lane */
    uint32_t deferred_sides; /* of an anchor: how many of them stay back */
    uint32_t admit_more; /* of an anchor: of those who stay back, so many may ask beside another */
    uint32_t tries;

    hf__op op;                      /* what is under way, while busy */
    hf__next_acquire *next_acquire; /* of op, once one was needed */
    hf__wait *acquirer;             /* of an ACQUIRE under way; NULL once it gave up */
    hf__call *extending;            /* calls that the RENEW under way carries */
    hf__call *exporting;            /* the call that the EXPORT under way carries */
    hf__exported *exported;         /* of an EXPORT, or of an ACQUIRE for what was exported */

    uint64_t pending_release;       /* up to this number of ours may be held by nobody; 0: none */
    hf__time pending_release_until; /* forgotten by then */
    uint64_t pending_release_token; /* of the hold that `release_calls` release */
    hf__call *release_calls;        /* releases that wait for the answer */
    hf__call *sent_release_calls;

    hf__time held_since;         /* when the last grant was asked for */
    hf__time late_acquire_until; /* an ACQUIRE of ours may arrive late, until then */
    hf__time next_try_at;        /* of an ACQUIRE or RELEASE: not before */
    hf__time outage_since;       /* the store has not answered since; 0: it did */
    char *outage_detail;

    bool busy : 1;
    bool closed_to_joins : 1; /* nobody joins those who wait in it */
    bool deferred : 1; /* it stays back: others of the client stand in the store's line for it */
    bool sent_with_release : 1;      /* it asked with a release of the client's */
    bool release_unknown : 1;        /* a release of the ghost may have taken effect unanswered */
    bool pending_release_queued : 1; /* it may stand in the store's line */
    bool pending_release_held : 1;   /* it was held, and lost or let go */
    bool release_requested : 1;      /* its holder released it: before anybody else of ours asks */
    bool known_busy : 1;             /* the last that was known of it: another holds it */
    bool recheck : 1; /* what is under way may have been answered too early: ask once more */
};

typedef struct hf__core_config {
    int64_t lease_ms, command_timeout_ms, outage_ms;
    bool unattended; /* nobody renews between the caller's calls: each lease begins whole */
} hf__core_config;

struct hf__core {
    hf__store *store;
    hf__core_config config;
    hf__map entries;
    hf__map waits_by_acquire_id; /* waits that have a number, by it */
    hf__heap timers;
    hf__rand rand;
    uint64_t renew_phase; /* of the instants at which renewals are due: see hf__lease_align */
    uint64_t last_acquire_id;
    uint64_t highest_token;
    size_t queued_waits; /* waits that stand in the store's line */
    uint64_t link;       /* of the store, as the core knows it; 0: down */
    bool closing;
    hf__call *close_call;          /* finished when no entry is left */
    hf__call *finished_calls;      /* to be woken */
    struct hf__multi *multi_ready; /* all that they had begun is answered */
    hf__ownership *lost;           /* to be told of */
    hf_stats stats;
};

void hf__core_init(hf__core *core, hf__store *store, const hf__core_config *config, uint64_t seed);
void hf__core_fini(hf__core *core);

/* ---- What callers want ---- */

/*
 * Begin to acquire. The caller filled in what it wants and allocated own and hold (hf__ownership_new,
 * hf__hold_new). It may be finished on return. On HF_OK hold is the user's; otherwise own and hold are
 * still the caller's, to free.
 */
void hf__core_acquire(hf__core *core, hf__wait *wait, const char *name, size_t length,
                      hf__time now);

/* A wait's time is up (`why` HF_TIMEOUT) or it is cancelled: finish it with what is known. */
void hf__core_give_up(hf__wait *wait, hf_result why, hf__time now);

/* When its caller should call hf__core_give_up with HF_TIMEOUT. */
hf__time hf__wait_until(const hf__core *core, const hf__wait *wait);

/* End a handle. `call` is finished at once, or when the store has answered; NULL: nobody waits. */
void hf__core_release(hf__core *core, hf_hold *hold, hf__call *call, hf__time now);

/* The caller of a release stops waiting for it; the release itself goes on. */
void hf__core_release_unwait(hf__core *core, const hf_hold *hold, hf__call *call);

void hf__core_extend(hf__core *core, hf__ownership *ownership, int64_t lease_ms, hf__call *call,
                     hf__time now);

/* Begin to make the hold nobody's. Where that is done the own is released, and its one handle. */
void hf__core_export(hf__core *core, hf__ownership *ownership, const hf__exported *exported,
                     hf__call *call, hf__time now);
void hf__core_export_unwait(hf__core *core, hf__ownership *ownership, hf__call *call);

/* Begin to make an upgradable hold a writer's. The wait's own and hold stay NULL; it is ended as any. */
void hf__core_upgrade(hf__core *core, hf__ownership *ownership, hf__wait *wait, hf__time now);

/* The own is of a lower kind from now on; `call` is finished when the store knows. */
void hf__core_downgrade(hf__core *core, hf__ownership *ownership, hf__call *call, hf__time now);

/* Its caller stops waiting for it. */
void hf__core_extend_unwait(hf__core *core, hf__ownership *ownership, hf__call *call);

/* End all waits with HF_CLOSED and release all; `call` is finished when the store has answered all. */
void hf__core_close(hf__core *core, hf__call *call, hf__time now);

/* ---- What happens ---- */

/* A completed operation that an entry had submitted. */
void hf__core_complete(hf__core *core, hf__op *op, hf__time now);

/* The store's connection may have come or gone: look, and act. */
void hf__core_link_changed(hf__core *core, hf__time now);

/* The store has heard something. */
void hf__core_notify(hf__core *core, const hf__notification *notification, hf__time now);

/* Go on with calls that concern many names, as far as the answers go. True: something was to be done. */
bool hf__core_advance_multi(hf__core *core, hf__time now);

void hf__core_tick(hf__core *core, hf__time now);
hf__time hf__core_due(const hf__core *core);

/* ---- Between the files of the core ---- */

void hf__entry_step(hf__entry *entry, hf__time now);
/* One that stayed back asks now; false: it cannot. Unlike a step it frees nothing. */
bool hf__entry_admit(hf__entry *entry, hf__time now);
void hf__entry_complete(hf__entry *entry, hf__time now);
void hf__entry_notify_granted(hf__entry *entry, hf__wait *wait,
                              const hf__notification *notification, hf__time now);
void hf__entry_expire(hf__entry *entry, hf__time now);
void hf__entry_add_pending_release(hf__entry *entry, uint64_t acquire_id, hf__time until);
void hf__entry_add_pending_leave(hf__entry *entry, uint64_t acquire_id,
                                 hf__time until); /* it may stand in line */
void hf__entry_set_outage(hf__entry *entry, char *detail, hf__time now);
void hf__entry_clear_outage(hf__entry *entry);
void hf__wait_give_up(hf__wait *wait, hf_result why, hf__time now);
void hf__wait_finish(hf__wait *wait, hf_result result, char *detail);
/* What it has in the store, or may have, is to be undone: done by any end but a good one. */
void hf__wait_undo(hf__wait *wait);
/* A re-entry: the wait's handle becomes one more of this ownership. */
void hf__ownership_join(hf__ownership *ownership, hf__wait *wait);
/* Waits for an upgrade of what the entry holds: it holds it no more, or as it is for good. */
void hf__entry_finish_upgrades(hf__entry *entry, hf_result result, const char *detail);
/* The entry of a name, made if there is none; NULL: no memory. */
hf__entry *hf__entry_get(hf__core *core, const char *name, size_t length);
bool hf__entry_idle(const hf__entry *entry); /* it can be dropped */
void hf__entry_enqueue(hf__entry *entry, hf__wait *wait);
/* The opposite, before anything was asked for. */
void hf__entry_dequeue(hf__wait *wait, hf__time now);
/* Fill in an ACQUIRE for the wait at its head; the caller submits it, with what follows in the chain. */
hf__op *hf__entry_prepare_acquire(hf__entry *entry, hf__op *next_in_multi, hf__time now);
void hf__multi_part_done(struct hf__multi *multi);
void hf__call_push(hf__call **list, hf__call *call);
void hf__call_unlink(hf__call **list, hf__call *call); /* nothing if it is not there */
void hf__call_finish(hf__core *core, hf__call *call, hf_result result, char *detail);
void hf__calls_finish(hf__core *core, hf__call **list, hf_result result, const char *detail);

/* ---- Lanes (sides.c) ---- */

/* Something that this owner holds of a name, in any lane; NULL: nothing. */
hf__ownership *hf__sides_find_held(hf__entry *name_entry, hf__owner owner);

/* Whether who holds one kind may take another, too; and why not. */
bool hf__kind_covers(uint32_t held, uint32_t wanted);
char *hf__kind_deadlock_line(uint32_t held, uint32_t wanted);

/* An owner was granted something: what it waits for besides, in other threads, it has or can never get. */
void hf__sides_granted(hf__ownership *ownership);

/* The lane for a wait of any kind but HF_MUTEX, or NULL: no memory. If *own is set, it can be joined. */
hf__entry *hf__side_for(hf__entry *name_entry, const hf__wait *wait, hf__time now,
                        hf__ownership **ownership);

/* Somebody came who does not read: readers who come later wait behind. */
void hf__sides_close(hf__entry *name_entry);
/* Whether such a one of the client still waits, apart from this lane. */
bool hf__sides_closed(const hf__entry *side);
void hf__side_unlink(hf__entry *side);

/* ---- Staying back (deferred.c) ---- */

/* Whether who waits in it is not to ask yet; and say whether it stays back. */
bool hf__side_must_defer(const hf__entry *side);
void hf__side_set_deferred(hf__entry *side, bool deferred);

/* The one that a release of the client's takes along to ask; NULL: none. */
hf__entry *hf__sides_next_acquire(const hf__entry *name_entry);

/* What it has asked for is answered. */
void hf__side_answered(const hf__entry *side);

/* Let the first of those who stay back ask, as far as they may. */
void hf__sides_admit(hf__entry *name_entry, hf__time now);

/* ---- Ownerships and handles (ownership.c) ---- */

hf__ownership *hf__ownership_new(void);
hf__ownership *hf__ownership_ref(hf__ownership *ownership);
void hf__ownership_unref(hf__ownership *ownership);

hf_hold *hf__hold_new(hf_lost_fn *on_lost, void *arg);
void hf__hold_attach(hf_hold *hold, hf__ownership *ownership);
void hf__hold_detach(hf_hold *hold);

/* Held and before its deadline. */
bool hf__ownership_valid(const hf__ownership *ownership, hf__time now);

/* Take an ownership from its entry: it is RELEASED or ENDED. */
void hf__ownership_end(hf__ownership *ownership, hf__state state, hf__time now);

/* The same, LOST: in core->lost until told. `why` is a constant. */
void hf__ownership_lose(hf__ownership *ownership, const char *why, hf__time now);

#endif
