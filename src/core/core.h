/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock logic, the same on every store: one state machine per client, driven by times and
 * answers.
 *
 * The core does no I/O, reads no clock and takes no lock. Its caller holds the client's mutex,
 * passes the time, and passes in completed operations. The caller also carries out what the core
 * leaves for it: operations submitted to the store, finished calls to wake, and lost ownerships to
 * report.
 *
 * This is the core's interface; core_internal.h has its insides.
 *
 *   name entry  one per name in use: the mutex that this client holds, the waits for it, and the
 *               operation in flight
 *   side entry  an entry next to the name entry, for a request of another kind than the mutex. It
 *               has its own position in the store's queue. Readers of a client share one where they
 *               can (side_entries.c).
 *   grant       what the store gave: acquire id, token, lease; it belongs to an entry
 *   ownership   who in this client has the grant, until release or loss; shared by its handles
 *   handle      the core's part of an hf_hold
 *   wait        a call that wants the lock
 */
#ifndef HF_CORE_CORE_H
#define HF_CORE_CORE_H

#include <stdatomic.h>

#include "base/list.h"
#include "base/map.h"
#include "store/store.h"

typedef struct hf__core hf__core;
typedef struct hf__entry hf__entry;
typedef struct hf__grant hf__grant;
typedef struct hf__ownership hf__ownership;

/* A caller that waits for an outcome. It is finished once, and is then kept until the client takes
   it with hf__core_next_finished. */
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

/* Calls, in order. */
typedef HF__FIFO(hf__call) hf__calls;

/* The core's part of an hf_hold: one of the handles on an ownership. Memory of the caller, zero at
   first. */
typedef struct hf__handle {
    hf__ownership *ownership; /* since the grant; the handle has a reference to it */
    /* the owner that acquired through this handle: readers share an ownership */
    hf__owner owner;
    union {
        HF__LINK(struct hf__handle) link; /* until released: among those of the ownership */
        /* after that: the entry whose answer the release waits for; NULL: it waits for none */
        hf__entry *release_entry;
    };
    atomic_bool released;
} hf__handle;

/* A call that wants the lock, in the caller's memory. A grant takes `grant` and `ownership`, and
   attaches `handle`. */
typedef struct hf__wait {
    hf__call call;

    /* what the caller wants */
    hf__owner owner;
    int64_t lease_ms, max_hold_ms;
    uint32_t kind, permits, capacity, flags;
    const hf__exported *exported; /* it takes over this exported hold; NULL: an ordinary acquire */
    hf__time started_at, until;
    bool try_once; /* wait_ms 0 */
    bool unshared; /* what it gets is not shared with other readers */

    /* the core's */
    /* an upgrade of what the entry holds; `handle` is NULL */
    bool upgrade;
    /* another held the lock when the wait began, or when its ACQUIRE was executed */
    bool contended;
    bool outcome_unknown; /* an ACQUIRE of it may have taken effect, and had no answer */
    bool answered_late;   /* the store answered that the ACQUIRE was executed too late */
    hf__entry *entry;
    HF__LINK(struct hf__wait) link; /* among the waits of the entry */
    uint64_t acquire_id;            /* 0: no ACQUIRE was sent yet */
    hf__mapped by_acquire_id;       /* in core->waits_by_acquire_id, while it has an id */
    uint64_t token_floor;           /* highest token known when its ACQUIRE was first sent */
    uint64_t holder_token;          /* of the holder, as of the store's last HF_BUSY */
    int64_t holder_seen_us;         /* when that was, by the store's clock; 0: not known */
    uint64_t first_link;   /* the connection on which its acquire id was first sent; 0: none */
    hf__time queued_until; /* it is in the store's queue, until then at most; 0: it is not */
    /* a grant that arrived before the answer to its ACQUIRE; acquire_id 0: none */
    hf__notification early_grant;

    hf__grant *grant; /* memory for both, until they are taken */
    hf__ownership *ownership;
    hf__handle *handle;
} hf__wait;

typedef struct hf__core_config {
    int64_t lease_ms, command_timeout_ms, outage_ms;
    /* no thread renews between calls of the user, so each lease must begin at its full length */
    bool unattended;
} hf__core_config;

/* NULL: no memory. */
hf__core *hf__core_new(hf__store *store, const hf__core_config *config, uint64_t seed);
void hf__core_free(hf__core *core);

/* ---- Requests of callers ---- */

/* Allocate what a grant to the wait needs; false: no memory. And free what was not used of it. */
bool hf__wait_prepare(hf__wait *wait);
void hf__wait_discard(hf__wait *wait);

/* Begin to acquire. The caller has filled in what it wants and `handle`, and has prepared the wait.
   The wait may be finished on return. On HF_OK the handle is on an ownership; otherwise the caller
   discards the wait. */
void hf__core_acquire(hf__core *core, hf__wait *wait, const char *name, size_t length,
                      hf__time now);

/* A wait has timed out (`why` is HF_TIMEOUT) or is cancelled: finish it with what is known. */
void hf__core_give_up(hf__wait *wait, hf_result why, hf__time now);

/* When the caller should call hf__core_give_up with HF_TIMEOUT. */
hf__time hf__wait_until(const hf__core *core, const hf__wait *wait);

/* Release a handle. `call` is finished at once, or when the store has answered; NULL: no one
   waits. */
void hf__core_release(hf__core *core, hf__handle *handle, hf__call *call, hf__time now);

/* The caller of a release stops waiting. The release itself goes on. */
void hf__core_release_unwait(hf__core *core, const hf__handle *handle, hf__call *call);

void hf__core_extend(hf__core *core, hf__handle *handle, int64_t lease_ms, hf__call *call,
                     hf__time now);

/* Begin to export the hold. On success the ownership and its only handle are released. */
void hf__core_export(hf__core *core, hf__handle *handle, const hf__exported *exported,
                     hf__call *call, hf__time now);
void hf__core_export_unwait(hf__core *core, hf__handle *handle, hf__call *call);

/* Begin to upgrade an upgradable hold to HF_WRITE. The wait is not prepared, and has no handle.
   Otherwise the wait ends like any other. */
void hf__core_upgrade(hf__core *core, hf__handle *handle, hf__wait *wait, hf__time now);

/* Lower the kind of the ownership at once. `call` is finished when the store has confirmed it. */
void hf__core_downgrade(hf__core *core, hf__handle *handle, hf__call *call, hf__time now);

/* The caller of an extend or a downgrade stops waiting. */
void hf__core_extend_unwait(hf__core *core, hf__handle *handle, hf__call *call);

/* The store does not seem to have the hold any more: check it at once. */
void hf__core_verify(hf__core *core, const hf__handle *handle, hf__time now);

/* End all waits with HF_CLOSED and release all holds. `call` is finished when the store has
   answered everything. */
void hf__core_close(hf__core *core, hf__call *call, hf__time now);

/* The caller of hf__core_close stops waiting. */
void hf__core_close_unwait(hf__core *core);

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

/* The next call that is finished, for the client to wake; NULL: none is left. */
hf__call *hf__core_next_finished(hf__core *core);

/* Whether there is such a call. */
bool hf__core_has_finished(const hf__core *core);

/* The next lost ownership, for the client to report and to unref; NULL: none is left. */
hf__ownership *hf__core_next_lost(hf__core *core);

/* ---- Calls ---- */

/* A list of calls that the client keeps itself. */
void hf__calls_push(hf__calls *calls, hf__call *call);
void hf__calls_remove(hf__calls *calls, const hf__call *call); /* if it is one of them */

/* Finish a call that the client itself made; or all of them, each with a copy of `detail`. */
void hf__call_finish(hf__core *core, hf__call *call, hf_result result, char *detail);
void hf__calls_finish(hf__core *core, hf__calls *calls, hf_result result, const char *detail);

/* ---- Ownerships and handles ---- */

void hf__ownership_unref(hf__ownership *ownership);

/* What is to be reported of a lost ownership, which owns the strings. */
typedef struct hf__loss {
    const char *name; /* of the lock; NULL: there was no memory for it */
    const char *reason;
    uint64_t token;
    int fd;              /* the descriptor to set; -1: none */
    hf__handle *handles; /* the first one */
} hf__loss;

hf__loss hf__ownership_loss(const hf__ownership *ownership);

/* What a handle knows without the mutex, also in a signal handler: until when it is valid (0: it is
   not), its token, and why it was lost (NULL: it was not). */
hf__time hf__handle_valid_until(const hf__handle *handle, hf__time now);
uint64_t hf__handle_token(const hf__handle *handle);
const char *hf__handle_lost_reason(const hf__handle *handle);

static inline bool hf__handle_released(const hf__handle *handle) {
    return atomic_load_explicit(&handle->released, memory_order_acquire);
}

/* What a handle holds. */
typedef struct hf__holding {
    /* HF_OK; otherwise why nothing is held: HF_LOST, HF_CLOSED or HF_NOT_HELD */
    hf_result result;
    const char *name; /* NULL if nothing is held */
    size_t name_length;
    uint64_t acquire_id, token;
    int64_t lease_ms;
    uint32_t kind, count;
} hf__holding;

hf__holding hf__handle_holding(const hf__handle *handle);

/* Whether it was lost; also if its deadline has passed and nobody has noticed. */
bool hf__handle_lost(const hf__handle *handle, hf__time now);

/* The descriptor that is set when it is lost, -1 at first. The client creates it, and the ownership
   closes it. */
int *hf__handle_lost_fd(const hf__handle *handle);

/* Whether the holder of one kind may also acquire another. */
bool hf__kind_covers(uint32_t held, uint32_t wanted);

/* ---- The client's own requests ---- */

/* A new acquire id, for a request that belongs to no entry. */
uint64_t hf__core_new_acquire_id(hf__core *core);

/* The counters. The client adds what it counts itself. */
hf_stats *hf__core_stats(hf__core *core);

/* Whether the store is connected, as far as the core has noticed. */
bool hf__core_connected(const hf__core *core);

/* Whether waits are in the store's queue, so that notifications may arrive. */
bool hf__core_queued(const hf__core *core);

#endif
