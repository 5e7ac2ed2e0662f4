/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An entry: everything a client does about one name.
 *
 * An entry sends one operation at a time. Which one is next follows from its state, in this order
 * (hf__entry_step):
 *
 *   a hold was released by the user   release_requested                              RELEASE
 *   a hold is to be exported          ownership: export_calls                        EXPORT
 *   a hold needs the store            grant: renew_at, verify; ownership: count, …   RENEW
 *   a wait needs a hold               head, and no ownership                         ACQUIRE
 *   an id needs to be released        pending_release                                RELEASE
 *
 * An ACQUIRE comes before a pending release, because its higher id replaces the pending one.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "core/core_internal.h"
#include "core/lease.h"

static const char LOST_DEADLINE[] =
    "the store did not confirm a renewal before the deadline; it was unreachable, or this process "
    "was paused";
static const char LOST_LEASE[] = "the lease expired, and HF_NO_RENEW prevents its renewal";
static const char LOST_MAX[] = "max_hold_ms was reached";

/* ---- Time ---- */

void hf__entry_expire_ownership(hf__entry *e, hf__time now) {
    hf__ownership *ownership = e->ownership;
    if (!ownership || now < atomic_load(&ownership->deadline)) return;
    const char *why = now >= ownership->max_hold_until ? LOST_MAX
                      : ownership->flags & HF_NO_RENEW ? LOST_LEASE
                                                       : LOST_DEADLINE;
    hf__grant_give_back(e);
    hf__ownership_lose(ownership, why, now);
}

static hf__time pending_release_expires_at(const hf__entry *e) {
    return e->pending_release && !e->busy && e->core->store->expires ? e->pending_release_until
                                                                     : HF__NEVER;
}

void hf__entry_expire(hf__entry *e, hf__time now) {
    hf__entry_expire_ownership(e, now);
    hf__entry_fail_outage_waits(e, now);
    if (now >= pending_release_expires_at(e)) {
        hf__calls_finish(e->core, &e->release_calls, HF_UNKNOWN_OUTCOME, e->outage_detail);
        hf__entry_clear_pending_release(e);
    }
}

/* ---- Sending ---- */

static void prepare_op(hf__entry *e, hf__verb verb, uint64_t acquire_id) {
    hf__op *op = &e->op;
    op->verb = verb;
    op->acquire_id = acquire_id;
    op->name = e->mapped.key;
    op->name_length = e->name_length;
    op->result = HF_OK;
    op->outcome_unknown = op->rolled_back = op->queued = op->has_waiters = false;
    op->retried = op->exact_token = false;
    op->detail = NULL;
    op->next_in_multi = op->next_acquire_op = NULL;
    op->exported = NULL;
    e->busy = true;
}

static void send_op(hf__entry *e, hf__verb verb, uint64_t acquire_id, hf__time now) {
    prepare_op(e, verb, acquire_id);
    e->core->store->table->submit(e->core->store, &e->op, now);
}

static void begin_acquire(hf__entry *e, hf__wait *w) {
    if (!w->acquire_id) e->op.attempt = 0;
    if (!w->acquire_id || e->core->store->new_id_per_try)
        hf__wait_set_acquire_id(w, e->side_id ? e->side_id : ++e->core->last_acquire_id);
    if (!w->first_link) w->first_link = e->core->link;
    e->acquirer = w;
}

static hf__time acquire_deadline(const hf__entry *e, const hf__wait *w, hf__time now) {
    return hf__sooner(w->until, hf__after_ms(now, e->core->config.command_timeout_ms));
}

/* Request no lease beyond max_hold_ms: other clients should not wait for a hold that is over. */
static int64_t lease_to_request(const hf__entry *e, hf__time now) {
    const hf__ownership *ownership = e->ownership;
    int64_t lease = ownership->extend_ms;
    if (!(ownership->flags & HF_NO_RENEW) && lease < e->grant->lease_ms) lease = e->grant->lease_ms;
    if (ownership->max_hold_until == HF__NEVER) return lease;
    int64_t left = hf__lease_covering((ownership->max_hold_until - now + HF__MS - 1) / HF__MS);
    return left < lease ? left : lease;
}

/* A late ACQUIRE may have found the lock held, and may now be in the queue without a wait here. */
static bool late_acquire_may_be_queued(const hf__entry *e, hf__time now) {
    return e->late_acquire_until && now < hf__after_ms(e->late_acquire_until, HF__QUEUE_ENTRY_MS);
}

static void prepare_acquire(hf__entry *e, hf__time now) {
    hf__wait *w = e->waits.first;
    begin_acquire(e, w);
    e->op.owner = w->owner;
    e->op.count = 1;
    e->op.kind = w->kind;
    e->op.permits = w->permits;
    e->op.capacity = w->capacity;
    e->op.upgrade = w->upgrade;
    e->op.upgrades = e->ownership ? e->grant->upgrades : 0;
    e->op.enqueue = !w->try_once;
    e->op.inherits_position = e->pending_release_queued && !e->pending_release_held;
    e->op.lease_ms = w->upgrade && e->ownership ? lease_to_request(e, now) : hf__wait_lease(w);
    e->op.token = w->token_floor;
    e->op.not_after = acquire_deadline(e, w, now);
    if (e->side_id) hf__side_set_deferred(e, false);
    e->sent_with_release = false;
    prepare_op(e, HF__ACQUIRE, w->acquire_id);
    if (!w->exported) return;
    *e->exported = *w->exported;
    e->op.exported = e->exported;
}

static void send_acquire(hf__entry *e, hf__time now) {
    prepare_acquire(e, now);
    e->core->store->table->submit(e->core->store, &e->op, now);
}

hf__op *hf__entry_prepare_acquire(hf__entry *e, hf__op *next_in_multi, hf__time now) {
    prepare_acquire(e, now);
    e->op.next_in_multi = next_in_multi;
    return &e->op;
}

/* The store executes the next waiter's ACQUIRE in one step with the release. */
static void add_next_acquire(hf__entry *e, hf__time now) {
    hf__wait *w = e->waits.first;
    e->op.next_acquire = NULL;
    if (e->side_id || e->core->store->needs_claim) return;
    if (!e->core->store->can_hand_off || !w || w->acquire_id || w->try_once || now >= w->until)
        return;
    if (!e->next_acquire) e->next_acquire = malloc(sizeof *e->next_acquire);
    if (!e->next_acquire) return; /* it sends its own ACQUIRE after this answer */
    e->op.next_acquire = e->next_acquire;
    begin_acquire(e, w);
    *e->next_acquire = (hf__next_acquire){.acquire_id = w->acquire_id,
                                          .owner = w->owner,
                                          .lease_ms = hf__wait_lease(w),
                                          .token = w->token_floor,
                                          .not_after = acquire_deadline(e, w, now),
                                          .result = HF_NOT_HELD};
}

static void send_renew(hf__entry *e, hf__time now) {
    hf__ownership *ownership = e->ownership;
    hf__grant *grant = e->grant;
    e->op.owner = ownership->owner;
    /* a RENEW of a lower kind would cancel the upgrade */
    bool upgrading = e->waits.first && e->waits.first->upgrade;
    e->op.kind = upgrading ? HF_WRITE : ownership->kind;
    e->op.upgrade = upgrading;
    e->op.upgrades = grant->upgrades;
    grant->sent_kind = ownership->kind;
    e->op.count = ownership->count;
    e->op.token = grant->token;
    e->op.lease_ms = lease_to_request(e, now);
    /* If the ownership is lost before the answer, the store may still execute this RENEW. */
    hf__grant_extend_lapse(grant, e->op.lease_ms,
                           hf__after_ms(now, e->core->config.command_timeout_ms));
    grant->verify = false;
    ownership->extend_ms = 0;
    e->extending = ownership->extend_calls;
    ownership->extend_calls = (hf__calls){0};
    send_op(e, HF__RENEW, grant->acquire_id, now);
}

static void send_export(hf__entry *e, hf__time now) {
    hf__ownership *ownership = e->ownership;
    e->op.owner = ownership->owner;
    e->op.kind = ownership->kind;
    e->op.upgrade = false;
    e->op.token = e->grant->token;
    e->op.lease_ms = e->grant->lease_ms;
    e->op.not_after = hf__after_ms(now, e->core->config.command_timeout_ms);
    e->exporting = ownership->export_calls;
    ownership->export_calls = (hf__calls){0};
    prepare_op(e, HF__EXPORT, e->grant->acquire_id);
    e->op.exported = e->exported;
    e->core->store->table->submit(e->core->store, &e->op, now);
}

static void send_release(hf__entry *e, hf__time now) {
    e->sent_release_calls = e->release_calls;
    e->release_calls = (hf__calls){0};
    e->op.kind = e->kind;
    e->op.upgrade = false;
    e->op.lease_ms = e->core->config.lease_ms;
    e->op.held_since = e->held_since;
    e->op.tombstone_until = e->late_acquire_until > now ? e->late_acquire_until : 0;
    e->op.expired_by = e->pending_release_until;
    e->op.leave_queue = e->pending_release_queued || late_acquire_may_be_queued(e, now);
    /* Both flags only if a caller waits for the result. With one of them set, the next waiter sends
       its own ACQUIRE. */
    bool retried = e->sent_release_calls.last && e->release_unknown;
    bool exact = e->sent_release_calls.last && e->op.tombstone_until && !e->side_id;
    if (!retried && !exact) add_next_acquire(e, now);
    prepare_op(e, HF__RELEASE, e->pending_release);
    e->op.retried = retried;
    e->op.exact_token = exact;
    e->op.token = e->pending_release_token;
    hf__entry *next = e->side_id && !retried ? hf__sides_next_acquire(e->name_entry) : NULL;
    if (next && now >= next->next_try_at && now < next->waits.first->until) {
        e->op.next_acquire_op = hf__entry_prepare_acquire(next, NULL, now);
        next->sent_with_release = true;
    }
    e->core->store->table->submit(e->core->store, &e->op, now);
}

/* A deferred wait has no outage of its own, and counts the lock as held by others. */
static void acquire_or_defer(hf__entry *e, hf__time now) {
    bool defer = e->side_id && hf__side_must_defer(e);
    if (e->side_id) hf__side_set_deferred(e, defer);
    if (defer) {
        hf__entry_clear_outage(e);
        e->known_busy = e->waits.first->contended = true;
    } else {
        send_acquire(e, now);
    }
}

/* The store must learn something, or be asked, about a hold that is not due for renewal yet. */
static bool has_unposted_state(const hf__entry *e) {
    return e->grant->verify || e->grant->posted_count != e->ownership->count ||
           e->grant->posted_kind != e->ownership->kind;
}

static bool needs_renew(const hf__entry *e, hf__time now) {
    if (!e->ownership) return false;
    if (e->ownership->extend_calls.last || now >= e->grant->renew_at) return true;
    return has_unposted_state(e) && now >= e->next_try_at;
}

static void send_next_op(hf__entry *e, hf__time now) {
    if (e->release_requested && now >= e->next_try_at)
        send_release(e, now);
    else if (e->ownership && e->ownership->export_calls.last)
        send_export(e, now);
    else if (needs_renew(e, now))
        send_renew(e, now);
    else if (e->waits.first && now < e->waits.first->until &&
             !e->ownership == !e->waits.first->upgrade && !e->release_requested) {
        if (now >= e->next_try_at) acquire_or_defer(e, now);
    } else if (e->pending_release && !e->ownership && !(e->side_id && e->waits.first) &&
               now >= e->next_try_at)
        send_release(e, now); /* not while waits of the side entry may still use its id */
}

/* ---- The step ---- */

static hf__time next_due(const hf__entry *e) {
    hf__time due = hf__entry_outage_due(e);
    bool may_send = e->core->link && !e->busy;
    if (e->ownership) {
        due = hf__sooner(due, atomic_load(&e->ownership->deadline));
        if (may_send) due = hf__sooner(due, e->grant->renew_at);
        if (may_send && has_unposted_state(e)) due = hf__sooner(due, e->next_try_at);
        if (may_send && e->waits.first && e->waits.first->upgrade)
            due = hf__sooner(due, e->next_try_at);
    } else if (may_send && !e->deferred &&
               ((e->waits.first && e->next_try_at < e->waits.first->until) || e->pending_release)) {
        due = hf__sooner(due, e->next_try_at);
    }
    return hf__sooner(due, pending_release_expires_at(e));
}

bool hf__entry_idle(const hf__entry *e) {
    return !e->busy && !e->waits.first && !e->ownership && !e->pending_release &&
           !e->release_calls.last && (e->name_entry || !e->sides.first);
}

bool hf__entry_reserve_export(hf__entry *e) {
    if (!e->exported) e->exported = malloc(sizeof *e->exported);
    return e->exported;
}

void hf__entry_free(hf__entry *e) {
    free(e->outage_detail);
    free(e->next_acquire);
    free(e->exported);
    free(e->grant);
    free(e);
}

static void drop_entry(hf__entry *e) {
    hf__core *core = e->core;
    hf__heap_remove(&core->timers, &e->timer);
    hf__map_remove(&core->entries, &e->mapped);
    /* the name entry is freed in a step of its own: a caller may be walking over entries */
    if (e->name_entry) {
        hf__side_unlink(e);
        hf__heap_set(&core->timers, &e->name_entry->timer, 0);
    }
    hf__entry_free(e);
    if (core->close_call && !core->entries.count) {
        hf__call *closer = core->close_call;
        core->close_call = NULL;
        hf__call_finish(core, closer, HF_OK, NULL);
    }
}

/* Nothing can be sent. Waits may outlast an outage; extensions fail at once. */
static void fail_disconnected(hf__entry *e, hf__time now) {
    if (hf__entry_awaits_store(e) && !e->outage_since) hf__entry_set_outage(e, NULL, now);
    hf__entry_fail_outage_waits(e, now);
    if (!e->ownership) return;
    hf__calls_finish(e->core, &e->ownership->extend_calls, HF_UNREACHABLE,
                     e->core->store->down_detail);
    if (!e->grant->export_unknown)
        hf__calls_finish(e->core, &e->ownership->export_calls, HF_UNREACHABLE,
                         e->core->store->down_detail);
}

bool hf__entry_admit(hf__entry *e, hf__time now) {
    if (!e->core->link || e->busy || now < e->next_try_at || now >= e->waits.first->until)
        return false;
    send_acquire(e, now);
    hf__heap_set(&e->core->timers, &e->timer, next_due(e));
    return true;
}

/* Send the next operation, and set the timer for the step after that. Frees the entry when it is
   idle. */
void hf__entry_step(hf__entry *e, hf__time now) {
    hf__entry_expire(e, now);
    if (!e->core->link) fail_disconnected(e, now);
    if (e->core->link && !e->busy) send_next_op(e, now);
    hf__entry *name_entry = e->name_entry;
    if (hf__entry_idle(e))
        drop_entry(e);
    else
        hf__heap_set(&e->core->timers, &e->timer, next_due(e));
    if (name_entry && name_entry->deferred_sides) hf__sides_admit(name_entry, now);
}
