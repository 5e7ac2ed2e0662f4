/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The insides of the core: its objects, and the functions that its files offer each other. Only the
 * core and its tests include this.
 *
 * Invariants
 *  1. At most one changing operation per entry is in flight (entry.busy).
 *  2. An acquire id belongs to one wait only. The ids of a name are sent in growing order, so the
 *     store can tell a late command from a current one.
 *  3. Everything a grant needs is allocated before the request is sent, so a grant cannot fail.
 *  4. An ownership is HELD only while its entry points at it, and the entry then has a grant. The
 *     deadline counts from before an operation was sent that the store then confirmed.
 *  5. An acquire id that may hold the lock in the store, without a grant here, is the entry's
 *     pending release. It stays so until the store confirms its release, or the lease has surely
 *     expired.
 *  6. Every call is finished exactly once. The core does not touch it afterwards.
 */
#ifndef HF_CORE_CORE_INTERNAL_H
#define HF_CORE_CORE_INTERNAL_H

#include "base/heap.h"
#include "core/core.h"

/*
 * What the store gave this client: a hold of one name. It belongs to its entry, which has at most
 * one. It begins with the answer or the notification that granted it. It ends when it is released,
 * exported or lost; today that is when its ownership ends. Its memory comes from the wait.
 */
struct hf__grant {
    uint64_t acquire_id;
    uint64_t token;     /* as the store has it */
    int64_t lease_ms;   /* that its renewals ask for */
    hf__time deadline;  /* until then the store keeps it, by our clock */
    hf__time lapses_at; /* by then the lease has expired, for any clock within the margin */
    hf__time renew_at;  /* HF__NEVER: not renewed */
    /* HF_READ: other readers of the client may share it until then */
    hf__time joinable_until;
    /* an upgrade that was given up may be in the queue until then; 0: none */
    hf__time upgrade_queued_until;
    uint32_t posted_count;          /* re-entries that the store has confirmed */
    uint32_t upgrades;              /* requested so far */
    uint32_t renew_tries;           /* since the last successful renewal */
    uint8_t posted_kind, sent_kind; /* confirmed by the store; being sent to the store */
    bool verify;                    /* ask the store at once whether it still exists */
    bool export_unknown;            /* an EXPORT of it had no answer; it is sent again */
};

/*
 * States of an ownership:
 *
 *   HELD --hf_release--------------------> RELEASED
 *   HELD --deadline, store, max_hold-----> LOST
 *   HELD --hf_close----------------------> ENDED
 */
typedef enum hf__state { HF__HELD, HF__RELEASED, HF__LOST, HF__ENDED } hf__state;

/*
 * The owner in this client that has the grant now, with its handles; or several readers. It is HELD
 * from the grant until its last handle is released, or it is lost. Handles keep its memory for
 * longer, because they still know its token and why it was lost.
 */
struct hf__ownership {
    atomic_uint refs; /* one per handle, one of the entry, one while in core->lost */

    /* these are read without the mutex, and also in signal handlers */
    atomic_int state;
    _Atomic(hf__time) deadline; /* that of the grant, or max_hold_until if that is sooner */
    _Atomic(uint64_t) token;    /* after a handle was returned, only an upgrade changes it */
    const char *_Atomic lost_reason;

    hf__entry *entry;    /* NULL when no longer held */
    uint64_t acquire_id; /* of the grant, also after that has ended */
    hf__owner owner;
    HF__LIST(hf__handle) handles;
    uint32_t count; /* of handles: re-entries by the owner */
    uint32_t flags;
    /* `first_kind`: the kind of an upgraded hold before its upgrade, and after a downgrade */
    uint8_t kind, first_kind;
    bool unshared; /* HF_READ: not shared with other readers */
    int lost_fd;   /* -1: not requested */
    hf__time max_hold_until;
    hf__time granted_at;    /* by our clock; for statistics */
    int64_t extend_ms;      /* the longest lease that `extend_calls` want; 0: none */
    hf__calls extend_calls; /* hf_extend calls that are not part of an operation yet */
    hf__calls export_calls; /* the hf_export call, until it is sent */
    char *name;             /* of the lock; set on loss, for the log */
    hf__ownership *next;    /* in core->lost */
};

struct hf__entry {
    /* key: the name, in the same allocation; in a side entry `side_id` follows */
    hf__mapped mapped;
    size_t name_length;
    hf__core *core;
    hf__timer timer;
    HF__LIST(hf__wait) waits; /* in order of arrival */
    hf__grant *grant;         /* NULL: the store gave it nothing */
    hf__ownership *ownership; /* who has the grant; NULL as well if there is none */

    hf__entry *name_entry; /* of a side entry: the entry of its name; NULL: this is a name entry */
    union {
        HF__LIST(hf__entry) sides; /* of a name entry: in order of age */
        HF__LINK(hf__entry) side;  /* of a side entry */
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
    hf__calls extending;            /* calls that wait for the RENEW in flight */
    hf__calls exporting;            /* the call that waits for the EXPORT in flight */
    /* of an EXPORT, or of an ACQUIRE that takes over an exported hold */
    hf__exported *exported;

    /* ids up to this may hold the lock without an ownership here; 0: none */
    uint64_t pending_release;
    hf__time pending_release_until; /* expired by then */
    uint64_t pending_release_token; /* of the ownership that `release_calls` release */
    hf__calls release_calls;        /* releases that wait for an answer */
    hf__calls sent_release_calls;

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
    hf__call *close_call;                   /* finished when no entry is left */
    hf__calls finished_calls;               /* to be woken by the client */
    HF__LIST(struct hf__multi) multi_ready; /* every part that they began is answered */
    HF__FIFO(hf__ownership) lost;           /* to be reported by the client */
    hf_stats stats;
};

/* The core in memory of the caller. */
void hf__core_init(hf__core *core, hf__store *store, const hf__core_config *config, uint64_t seed);
void hf__core_fini(hf__core *core);

/* ---- Entries and waits ---- */

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
hf__call *hf__calls_pop(hf__calls *calls); /* NULL: there is none */

/* ---- Side entries (side_entries.c) ---- */

/* A hold that this owner has of the name, of any kind; NULL: none. */
hf__ownership *hf__sides_find_held(hf__entry *name_entry, hf__owner owner);

/* Why the holder of one kind may not acquire another: see hf__kind_covers. */
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

hf__ownership *hf__ownership_ref(hf__ownership *ownership);

/* Set the deadline, from that of the entry's grant and max_hold_until. */
void hf__ownership_set_deadline(hf__ownership *ownership);

void hf__handle_attach(hf__handle *handle, hf__ownership *ownership);
void hf__handle_detach(hf__handle *handle);

/* Whether it is held, and its deadline has not passed. */
bool hf__ownership_valid(const hf__ownership *ownership, hf__time now);

/* Detach an ownership from its entry, in state RELEASED or ENDED. The grant ends with it. */
void hf__ownership_end(hf__ownership *ownership, hf__state state, hf__time now);

/* The same, in state LOST; it is in core->lost until the client has reported it. `why` is a
   constant string. */
void hf__ownership_lose(hf__ownership *ownership, const char *why, hf__time now);

/* Why it is not held any more: HF_LOST, HF_CLOSED or HF_NOT_HELD. */
hf_result hf__ownership_end_result(const hf__ownership *ownership);

/* ---- wait.c ---- */

/* Set the id by which a wait is found when the store notifies us of its grant. 0: none. */
void hf__wait_set_acquire_id(hf__wait *wait, uint64_t acquire_id);

/* Set until when the wait is in the store's queue; 0: it is not. */
void hf__wait_set_queued(hf__wait *wait, hf__time until);

/* No acquire id of this entry needs a release any more. */
void hf__entry_clear_pending_release(hf__entry *entry);

/* When an ACQUIRE that is executed at `latest` has surely expired: its hold, and its queue
   position, which lasts longer. */
hf__time hf__entry_expired_by(const hf__entry *entry, hf__time latest, int64_t lease_ms);

/* An upgrade is no longer wanted. */
void hf__entry_cancel_upgrade(hf__entry *entry);

/* Whether a wait of the entry depends on the store, and not on a hold of this client. */
bool hf__entry_awaits_store(const hf__entry *entry);

/* End the waits for which the store has been silent too long. And when the next one is due. */
void hf__entry_fail_outage_waits(hf__entry *entry, hf__time now);
hf__time hf__entry_outage_due(const hf__entry *entry);

/* ---- grant.c ---- */

/* The lease to request for a wait. */
int64_t hf__wait_lease(const hf__wait *wait);

/* The store has granted the entry's operation; `wait` is NULL if it has given up. */
void hf__entry_acquired(hf__entry *entry, hf__wait *wait, hf__time now);
void hf__entry_upgraded(hf__entry *entry, hf__wait *wait, hf__time now);

/* A notification says that the wait was granted. Accept it where that is safe; otherwise send an
   ACQUIRE to confirm it. */
void hf__entry_enter_notified(hf__entry *entry, hf__wait *wait,
                              const hf__notification *notification, hf__time now);

/* When to renew a lease that was requested at `sent_at`. */
hf__time hf__core_renew_at(hf__core *core, hf__time sent_at, int64_t lease_ms);

/* Set until when other readers may join the entry's grant, as of this answer. */
void hf__grant_set_joinable(hf__entry *entry);

/* The store has confirmed the entry's grant: it lasts until `deadline`, or longer. */
void hf__grant_confirm(hf__entry *entry, hf__time deadline);

/* The store may have begun a lease of the grant as late as `now`. */
void hf__grant_extend_lapse(hf__grant *grant, int64_t lease_ms, hf__time now);

/* It is not wanted any more: its acquire id becomes a pending release. */
void hf__grant_give_back(hf__entry *entry);

/* ---- entry.c ---- */

/* Allocate `exported`, for an export or an adoption; false: no memory. */
bool hf__entry_reserve_export(hf__entry *entry);

void hf__entry_free(hf__entry *entry);

/* An ownership past its deadline is lost. */
void hf__entry_expire_ownership(hf__entry *entry, hf__time now);

#endif
