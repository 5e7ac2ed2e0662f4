/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Admission: which waits of a client send an ACQUIRE, and which are deferred.
 *
 * As with a mutex, a few waits of a client are in the store's queue on behalf of all its waits.
 * Waits behind them are deferred. A deferred wait sends its ACQUIRE together with the next release
 * of the client, or when the client has no wait left in the queue. So with many waiters the store
 * gets one request for each waiter that is granted. When a mutex is requested, all deferred waits
 * acquire at once, because the mutex must be queued behind them.
 */
#include "core/core_internal.h"

#define ADMIT_MAX 1024

static bool kinds_exclude(uint32_t a, uint32_t b) {
    if (a == HF_PERMITS || b == HF_PERMITS) return a != b;
    return a == HF_WRITE || b == HF_WRITE || (a == HF_UPGRADABLE && b == HF_UPGRADABLE);
}

/* It waits for the store: its ACQUIRE is in flight, or it is in the queue. */
static bool awaits_store(const hf__entry *e) {
    return !e->ownership && !e->deferred && e->waits.first && !e->waits.first->try_once;
}

/*
 * Whether a wait must stay behind an earlier entry of the client. It must, if the earlier one is
 * queued or deferred, or waits for a kind that excludes it. It must also, if the earlier one holds
 * HF_WRITE: the release of that hold carries the wait's ACQUIRE. The exception is a wait that a
 * downgrade of that hold would admit. An entry in an outage defers no other entry: each of them
 * detects the outage itself.
 */
static bool is_behind(const hf__entry *e, const hf__entry *other) {
    if (other->ownership)
        return other->ownership->kind == HF_WRITE && kinds_exclude(HF_READ, e->kind);
    if (other->deferred) return other->waits.first != NULL;
    if (!awaits_store(other) || other->outage_since) return false;
    return other->waits.first->queued_until || kinds_exclude(other->kind, e->kind);
}

/* A request for permits with another capacity is sent, so that the store rejects it. */
static bool differs_in_capacity(const hf__wait *w, const hf__entry *other) {
    return w->kind == HF_PERMITS && other->kind == HF_PERMITS && other->waits.first &&
           other->waits.first->capacity != w->capacity;
}

bool hf__side_must_defer(const hf__entry *e) {
    const hf__store *store = e->core->store;
    const hf__wait *w = e->waits.first;
    if (!store->can_hand_off || store->needs_claim) return false;
    if (e->name_entry->waits.first && !e->name_entry->waits.first->try_once) return false;
    if (w->try_once || w->upgrade || w->acquire_id || w->outcome_unknown || e->pending_release)
        return false;
    uint32_t acquiring = 0;
    for (const hf__entry *other = e; (other = hf__list_prev(&e->name_entry->sides, other, side));) {
        if (differs_in_capacity(w, other)) return false;
        if (is_behind(e, other)) return true;
        if (awaits_store(other) && !other->outage_since) acquiring++;
    }
    return e->deferred && acquiring > e->name_entry->admit_more;
}

void hf__side_set_deferred(hf__entry *e, bool deferred) {
    if (e->deferred == deferred) return;
    e->deferred = deferred;
    if (deferred)
        e->name_entry->deferred_sides++;
    else
        e->name_entry->deferred_sides--;
}

static hf__entry *find_first_deferred(const hf__entry *name_entry) {
    bool any =
        name_entry->deferred_sides && !name_entry->core->closing; /* all waits are about to end */
    hf__entry *e = any ? name_entry->sides.first : NULL;
    /* a side entry without a wait is about to be freed */
    while (e && !(e->deferred && e->waits.first)) e = e->side.next;
    return e;
}

hf__entry *hf__sides_next_acquire(const hf__entry *name_entry) {
    return find_first_deferred(name_entry);
}

/* As long as the store grants all of them, twice as many acquire at a time. */
void hf__side_answered(const hf__entry *e) {
    const hf__op *op = &e->op;
    hf__entry *name_entry = e->name_entry;
    if (op->result == HF_BUSY)
        name_entry->admit_more = 0;
    else if (op->result == HF_OK && !op->has_waiters && !e->sent_with_release &&
             name_entry->admit_more < ADMIT_MAX)
        name_entry->admit_more = 2 * name_entry->admit_more + 1;
}

void hf__sides_admit(hf__entry *name_entry, hf__time now) {
    for (hf__entry *e; (e = find_first_deferred(name_entry)) && !hf__side_must_defer(e);)
        if (!hf__entry_admit(e, now)) return;
}
