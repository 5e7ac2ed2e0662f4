/* SPDX-License-Identifier: Apache-2.0 */
/* Waits: how they end without a grant, and what they may have left in the store. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "core/core_internal.h"
#include "core/lease.h"

/* ---- Outage: a store that does not answer ---- */

void hf__entry_set_outage(hf__entry *e, char *detail, hf__time now) {
    if (!e->outage_since) e->outage_since = now;
    free(e->outage_detail);
    e->outage_detail = detail;
}

void hf__entry_clear_outage(hf__entry *e) {
    e->outage_since = 0;
    e->tries = 0;
    free(e->outage_detail);
    e->outage_detail = NULL;
}

/* ---- Pending releases ---- */

void hf__entry_add_pending_release(hf__entry *e, uint64_t acquire_id, hf__time until) {
    if (!acquire_id || !until) return;
    if (!e->pending_release) e->release_unknown = false;
    if (acquire_id > e->pending_release) e->pending_release = acquire_id;
    e->pending_release_until = hf__later(e->pending_release_until, until);
    e->pending_release_held = true;
    e->next_try_at = 0;
}

void hf__entry_clear_pending_release(hf__entry *e) {
    e->pending_release = 0;
    e->pending_release_until = 0;
    e->release_unknown = e->pending_release_queued = e->pending_release_held =
        e->release_requested = false;
}

/* A queue position lasts longer than a lease, where the store has a queue. */
hf__time hf__entry_expired_by(const hf__entry *e, hf__time latest, int64_t lease_ms) {
    hf__time gone = hf__lease_lapse(latest, lease_ms);
    return e->core->store->can_hand_off ? hf__later(gone, hf__after_ms(latest, HF__QUEUE_ENTRY_MS))
                                        : gone;
}

/* A wait ended: its acquire id may hold the lock, or be in the queue. */
void hf__entry_add_pending_leave(hf__entry *e, uint64_t acquire_id, hf__time until) {
    bool held = e->pending_release_held;
    if (acquire_id && until) e->pending_release_queued = true;
    hf__entry_add_pending_release(e, acquire_id, until);
    e->pending_release_held = held;
}

/* ---- Waits ---- */

void hf__wait_set_acquire_id(hf__wait *w, uint64_t acquire_id) {
    hf__map *waits = &w->entry->core->waits_by_acquire_id;
    if (w->acquire_id) hf__map_remove(waits, &w->by_acquire_id);
    w->acquire_id = acquire_id;
    w->first_link = 0;
    w->early_grant.acquire_id = 0;
    if (!acquire_id) return;
    w->by_acquire_id.key = (const char *)&w->acquire_id;
    w->by_acquire_id.length = sizeof w->acquire_id;
    hf__map_add(waits, &w->by_acquire_id);
    w->token_floor = w->entry->core->highest_token;
}

void hf__wait_set_queued(hf__wait *w, hf__time until) {
    if (until && !w->queued_until) w->entry->core->queued_waits++;
    if (!until && w->queued_until) w->entry->core->queued_waits--;
    w->queued_until = until;
}

static void unlink_wait(hf__wait *w) {
    hf__entry *e = w->entry;
    hf__list_remove(&e->waits, w, link);
    e->core->stats.waiting--;
}

void hf__entry_dequeue(hf__wait *w, hf__time now) {
    unlink_wait(w);
    hf__entry_step(w->entry, now);
}

/* The next RENEW is sent at once, and tells the store which kind is held. */
void hf__entry_cancel_upgrade(hf__entry *e) {
    if (e->grant) e->grant->verify = true;
    e->next_try_at = 0;
}

/* Until when an upgrade may be in the queue, also through requests that had no answer. */
static hf__time upgrade_queued_until(const hf__entry *e, const hf__wait *w) {
    hf__time latest = e->busy && e->acquirer == w ? e->op.not_after : 0;
    latest = hf__later(latest, e->late_acquire_until);
    return latest ? hf__later(w->queued_until, hf__after_ms(latest, HF__QUEUE_ENTRY_MS))
                  : w->queued_until;
}

static void undo_upgrade(hf__entry *e, const hf__wait *w) {
    hf__time until = upgrade_queued_until(e, w);
    hf__entry_cancel_upgrade(e);
    if (e->grant)
        e->grant->upgrade_queued_until = hf__later(e->grant->upgrade_queued_until, until);
    else
        hf__entry_add_pending_leave(e, w->acquire_id, until);
}

void hf__wait_undo(hf__wait *w) {
    hf__entry *e = w->entry;
    if (w->upgrade) {
        undo_upgrade(e, w);
        return;
    }
    /* The release leaves a tombstone, so that a late ACQUIRE of this id does nothing. */
    if (w->acquire_id && e->late_acquire_until)
        hf__entry_add_pending_leave(e, w->acquire_id,
                                    hf__entry_expired_by(e, e->late_acquire_until, w->lease_ms));
    hf__entry_add_pending_leave(e, w->acquire_id, w->queued_until); /* it leaves the queue */
}

void hf__entry_finish_upgrades(hf__entry *e, hf_result result, const char *detail) {
    for (hf__wait *w = e->waits.first, *next; w; w = next) {
        next = w->link.next;
        if (w->upgrade) hf__wait_finish(w, result, detail ? strdup(detail) : NULL);
    }
}

void hf__wait_finish(hf__wait *w, hf_result result, char *detail) {
    hf__entry *e = w->entry;
    unlink_wait(w);
    if (result != HF_OK && !w->call.multi) e->core->stats.refused++;
    if (result != HF_OK) hf__wait_undo(w);
    hf__wait_set_queued(w, 0);
    hf__wait_set_acquire_id(w, 0);
    if (e->acquirer == w) e->acquirer = NULL;
    hf__call_finish(e->core, &w->call, result, detail);
}

/* The result of a wait that ends without an answer. */
static hf_result decide_wait_result(const hf__wait *w, hf_result why, bool acquiring) {
    if (why != HF_TIMEOUT && why != HF_UNREACHABLE) return why;
    const hf__entry *e = w->entry;
    const hf__store *store = e->core->store;
    if (w->upgrade && (why == HF_UNREACHABLE || !e->outage_since)) return why;
    if (w->upgrade) return HF_UNREACHABLE;
    /* all tries were undone */
    if (store->new_id_per_try && store->down_result) return store->down_result;
    if (w->outcome_unknown || (acquiring && (e->outage_since || !e->known_busy)))
        return HF_UNKNOWN_OUTCOME;
    bool others = e->known_busy || e->ownership || e->deferred ||
                  e->waits.first != w || /* held it, or came before */
                  (e->busy && e->acquirer != w);
    if (!e->outage_since && (others || w->answered_late)) return HF_TIMEOUT;
    /* the lock may have been handed to it meanwhile */
    if (w->queued_until) return HF_UNKNOWN_OUTCOME;
    return store->up || !store->down_result ? HF_UNREACHABLE : store->down_result;
}

static char *make_wait_detail(const hf__wait *w, hf_result result) {
    const hf__store *store = w->entry->core->store;
    const char *outage_detail = w->entry->outage_detail ? w->entry->outage_detail
                                : !store->up            ? store->down_detail
                                                        : NULL;
    switch (result) {
    case HF_CLOSED:
    case HF_CANCELLED: return NULL;
    case HF_UNKNOWN_OUTCOME:
        return hf__line("the store did not answer in time%s%s; if it granted the lock, the grant "
                        "is undone or expires",
                        outage_detail ? ": " : "", outage_detail ? outage_detail : "");
    case HF_TIMEOUT:
        if (w->answered_late && !w->entry->known_busy)
            return hf__line("the store took longer to answer than wait_ms");
        return hf__line("'%.*s' was not granted within %" PRId64
                        " ms: it was held, or others were first",
                        (int)w->entry->name_length, w->entry->mapped.key,
                        (hf__wait_until(w->entry->core, w) - w->started_at) / HF__MS);
    default: return outage_detail ? strdup(outage_detail) : NULL;
    }
}

void hf__wait_give_up(hf__wait *w, hf_result why, hf__time now) {
    hf__entry *e = w->entry;
    bool acquiring = e->busy && e->acquirer == w;
    hf_result result = decide_wait_result(w, why, acquiring);
    if ((acquiring || w->outcome_unknown) && !w->upgrade) {
        hf__time latest = hf__later(e->op.not_after, now);
        hf__entry_add_pending_leave(e, w->acquire_id, hf__entry_expired_by(e, latest, w->lease_ms));
    }
    hf__wait_finish(w, result, make_wait_detail(w, result));
}

/* A wait ends when the store has been silent for too long since the wait began. Waits behind a hold
   of this client do not depend on the store. */
bool hf__entry_awaits_store(const hf__entry *e) {
    return e->waits.first && (!e->ownership || e->waits.first->upgrade);
}

void hf__entry_fail_outage_waits(hf__entry *e, hf__time now) {
    if (!e->outage_since || !hf__entry_awaits_store(e)) return;
    for (hf__wait *w = e->waits.first, *next; w; w = next) {
        next = w->link.next;
        /* try_once waits for an answer in flight, but not for a store that cannot be reached. */
        bool at_once = w->try_once && !w->outcome_unknown && !(e->busy && e->acquirer == w);
        hf__time patience = at_once ? 0 : e->core->config.outage_ms * HF__MS;
        if (now >= hf__later(e->outage_since, w->started_at) + patience)
            hf__wait_give_up(w, HF_UNREACHABLE, now);
    }
}

hf__time hf__entry_outage_due(const hf__entry *e) {
    if (!e->outage_since || !hf__entry_awaits_store(e)) return HF__NEVER;
    return hf__later(e->outage_since, e->waits.first->started_at) +
           e->core->config.outage_ms * HF__MS;
}
