/* SPDX-License-Identifier: Apache-2.0 */
/* Grants: how an answer or a notification turns a wait into an ownership. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/probe.h"
#include "core/core_internal.h"
#include "core/histogram.h"
#include "core/lease.h"

/* How long readers may join a hold after the store said that no one waits. */
#define JOIN_MS  100
#define CHECK_MS 30000 /* on a store without leases, a hold is checked three times in this period */

/* ---- Grants ---- */

void hf__ownership_join(hf__ownership *ownership, hf__wait *w) {
    w->handle->owner = w->owner;
    hf__handle_attach(w->handle, ownership);
    hf__wait_discard(w);
    ownership->entry->core->stats.reentered++;
}

static void count_wait(hf__core *core, const hf__wait *w, hf__time now) {
    hf__histogram_add(&core->stats.waits, now - w->started_at);
    if (w->contended) core->stats.handed_over++;
}

/* Other waits join an ownership that covers them: waits of the same owner in other threads
   re-enter, and all waiting readers join. A thread waits for one lock at a time. So for the
   ownership of a thread, the queue is not searched, because it may be long. */
static void join_others(hf__entry *e, hf__time now) {
    if (e->ownership->kind != HF_READ && !e->ownership->owner.logical) return;
    for (hf__wait *w = e->waits.first, *next; w; w = next) {
        next = w->link.next;
        hf__ownership *ownership = e->ownership;
        if (ownership->kind != HF_READ && !hf__owner_same(w->owner, ownership->owner)) continue;
        if ((w->flags | ownership->flags) & HF_NOT_REENTRANT)
            hf__wait_finish(w, HF_DEADLOCK,
                            hf__line("this owner was granted the lock meanwhile, and "
                                     "HF_NOT_REENTRANT forbids acquiring it again"));
        else if (ownership->count < HF_COUNT_MAX) {
            hf__ownership_join(ownership, w);
            count_wait(e->core, w, now);
            hf__wait_finish(w, HF_OK, NULL);
        }
    }
}

static hf__time max_hold_until(const hf__wait *w, const hf__op *op) {
    return w->max_hold_ms ? hf__after_ms(op->sent_at, w->max_hold_ms) : HF__NEVER;
}

static hf__time deadline_of(const hf__wait *w, const hf__op *op) {
    return hf__sooner(hf__lease_deadline(op->sent_at, op->lease_ms), max_hold_until(w, op));
}

/* On a store without leases, a renewal only checks that the hold exists. Such checks must not
   become rare because the lease is long. */
hf__time hf__core_renew_at(hf__core *core, hf__time sent_at, int64_t lease_ms) {
    bool only_checks = !core->store->expires && lease_ms > CHECK_MS;
    int64_t every_ms = only_checks ? CHECK_MS : lease_ms;
    hf__time at = hf__lease_renew_at(sent_at, every_ms, &core->rand);
    return hf__lease_align(at, every_ms, core->renew_phase);
}

/* If there are waiters, readers that come later must not overtake them. */
static hf__time joinable_until(const hf__entry *e) {
    const hf__ownership *ownership = e->ownership;
    bool plain = ownership->kind == HF_READ && !ownership->unshared &&
                 ownership->max_hold_until == HF__NEVER &&
                 !(ownership->flags & (HF_NO_RENEW | HF_NOT_REENTRANT));
    if (!plain || e->op.has_waiters || hf__sides_closed(e)) return 0;
    return hf__after_ms(e->op.sent_at, JOIN_MS);
}

void hf__grant_set_joinable(hf__entry *e) {
    e->grant->joinable_until = joinable_until(e);
}

static void begin_grant(hf__entry *e, hf__wait *w, hf__time now) {
    const hf__op *op = &e->op;
    hf__grant *grant = e->grant = w->grant;
    w->grant = NULL;
    *grant = (hf__grant){.acquire_id = op->acquire_id,
                         .token = op->token,
                         .lease_ms = w->lease_ms,
                         .deadline = hf__lease_deadline(op->sent_at, op->lease_ms),
                         .lapses_at = hf__lease_lapse(now, op->lease_ms),
                         .renew_at = HF__NEVER,
                         .posted_kind = (uint8_t)w->kind,
                         .posted_count = 1};
    /* a duplicate of this ACQUIRE may arrive late, and restart its lease */
    if (e->late_acquire_until)
        hf__grant_extend_lapse(grant, grant->lease_ms, e->late_acquire_until);
    if (!(w->flags & HF_NO_RENEW))
        grant->renew_at = hf__core_renew_at(e->core, op->sent_at, op->lease_ms);
}

/* The entry has a grant. */
static void begin_ownership(hf__entry *e, hf__wait *w, hf__time now) {
    hf__ownership *ownership = e->ownership = w->ownership; /* and its reference */
    w->ownership = NULL;
    ownership->entry = e;
    ownership->acquire_id = e->grant->acquire_id;
    ownership->token = e->grant->token;
    ownership->owner = w->owner;
    ownership->flags = w->flags;
    ownership->unshared = w->unshared;
    ownership->kind = (uint8_t)w->kind;
    ownership->first_kind = ownership->kind == HF_WRITE ? HF_READ : ownership->kind;
    ownership->max_hold_until = max_hold_until(w, &e->op);
    ownership->granted_at = now;
    hf__ownership_set_deadline(ownership);
    atomic_store_explicit(&ownership->state, HF__HELD, memory_order_release);
    w->handle->owner = w->owner;
    hf__handle_attach(w->handle, ownership);
}

static void grant_wait(hf__entry *e, hf__wait *w, hf__time now) {
    hf__core *core = e->core;
    begin_grant(e, w, now);
    begin_ownership(e, w, now);
    hf__grant_set_joinable(e);
    core->stats.acquired++;
    core->stats.held++;
    count_wait(core, w, now);
    HF__PROBE3(granted, e->mapped.key, e->op.token, now - w->started_at);
    e->held_since = e->op.sent_at;
    hf__entry_clear_pending_release(e); /* older ids of ours were replaced */
    e->known_busy = true;               /* for the waits behind it */
    hf__wait_finish(w, HF_OK, NULL);
    join_others(e, now);
    hf__sides_granted(e->ownership);
}

void hf__entry_acquired(hf__entry *e, hf__wait *w, hf__time now) {
    hf__op *op = &e->op;
    if (op->token > e->core->highest_token) e->core->highest_token = op->token;
    if (w && now < deadline_of(w, op)) {
        grant_wait(e, w, now);
        return;
    }
    /* The wait is over, or the answer came when the lease may have expired. */
    hf__entry_add_pending_leave(e, op->acquire_id, hf__lease_lapse(now, op->lease_ms));
    if (!w) return;
    hf__wait_set_acquire_id(w, 0);
    w->outcome_unknown = true; /* it was granted, and the grant must still be undone */
    e->next_try_at = hf__lease_retry_at(now, op->lease_ms, e->tries++, &e->core->rand);
    if (w->try_once)
        hf__wait_finish(w, HF_UNKNOWN_OUTCOME,
                        hf__line("the store's answer came after the lease had expired, and the "
                                 "grant is undone; use a lease much longer than the round trip"));
}

void hf__grant_confirm(hf__entry *e, hf__time deadline) {
    e->grant->deadline = hf__later(e->grant->deadline, deadline);
    hf__ownership_set_deadline(e->ownership);
}

/* The operation was sent, so it may have been executed as late as `now`. */
void hf__grant_extend_lapse(hf__grant *grant, int64_t lease_ms, hf__time now) {
    grant->lapses_at = hf__later(grant->lapses_at, hf__lease_lapse(now, lease_ms));
}

void hf__grant_give_back(hf__entry *e) {
    hf__entry_add_pending_release(e, e->grant->acquire_id, e->grant->lapses_at);
}

/* A read hold is now a write hold. */
void hf__entry_upgraded(hf__entry *e, hf__wait *w, hf__time now) {
    hf__ownership *ownership = e->ownership;
    const hf__op *op = &e->op;
    if (op->token > e->core->highest_token) e->core->highest_token = op->token;
    hf__grant_extend_lapse(e->grant, op->lease_ms, now);
    if (!w) { /* the wait was given up */
        hf__entry_cancel_upgrade(e);
        return;
    }
    hf__grant_confirm(e, hf__lease_deadline(op->sent_at, op->lease_ms));
    e->grant->token = op->token;
    atomic_store(&ownership->token, op->token);
    if (ownership->kind != HF_WRITE) ownership->first_kind = ownership->kind;
    ownership->kind = e->grant->posted_kind = HF_WRITE;
    hf__wait_finish(w, HF_OK, NULL);
}

int64_t hf__wait_lease(const hf__wait *w) {
    int64_t bound = w->max_hold_ms ? hf__lease_covering(w->max_hold_ms) : w->lease_ms;
    return bound < w->lease_ms ? bound : w->lease_ms;
}

/*
 * A queued wait was granted the lock. The notification alone is enough if we know when the grant
 * was made, and that no later answer contradicts it. Otherwise an ACQUIRE confirms the grant.
 *
 * An acquire id that was sent on two connections may be in the queues of two servers, so it always
 * needs an ACQUIRE. So does a wait that cannot renew soon, because the lease of such a grant is
 * short.
 */
void hf__entry_enter_notified(hf__entry *e, hf__wait *w, const hf__notification *notification,
                              hf__time now) {
    bool renews = !(w->flags & HF_NO_RENEW) && !e->core->config.unattended;
    bool one_link = notification->link == w->first_link && notification->link == e->core->link;
    bool newer =
        notification->server_us >= w->holder_seen_us && notification->token > w->holder_token;
    bool sure = notification->sent_at && one_link && newer &&
                notification->lease_ms <= hf__wait_lease(w) && !w->outcome_unknown && renews;
    hf__op *op = &e->op;
    if (!sure) {
        e->next_try_at = 0;
        return;
    }
    op->acquire_id = notification->acquire_id;
    op->token = notification->token;
    op->lease_ms = notification->lease_ms;
    op->sent_at = notification->sent_at;
    op->has_waiters = true; /* the notification does not say, so assume it */
    hf__entry_acquired(e, w, now);
}
