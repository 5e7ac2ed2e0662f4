/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Side entries: what a client does about one name besides the mutex.
 *
 * Each has its own acquire id for its request, its hold and its position in the store's queue. So
 * readers, writers and permits are served in order of arrival, also within one client.
 *
 * Readers share. A new reader joins a hold of another reader of the client for a short time after
 * the store said that no one waits. That time is the longest delay for a writer of another client,
 * and many readers cost the store only a few requests. A new reader may also join waiting readers,
 * if no other request has arrived since.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "core/core_internal.h"

static bool is_plain_read(const hf__wait *w) {
    return w->kind == HF_READ && !w->unshared && !w->max_hold_ms &&
           !(w->flags & (HF_NO_RENEW | HF_NOT_REENTRANT));
}

/* ---- Holders ---- */

static bool has_handle(const hf__ownership *ownership, hf__owner owner) {
    if (ownership->kind != HF_READ) return hf__owner_same(ownership->owner, owner);
    for (const hf__handle *h = ownership->handles.first; h; h = h->link.next)
        if (hf__owner_same(h->owner, owner)) return true;
    return false;
}

hf__ownership *hf__sides_find_held(hf__entry *name_entry, hf__owner owner) {
    if (name_entry->ownership && has_handle(name_entry->ownership, owner))
        return name_entry->ownership;
    for (hf__entry *e = name_entry->sides.first; e; e = e->side.next)
        if (e->ownership && has_handle(e->ownership, owner)) return e->ownership;
    return NULL;
}

bool hf__kind_covers(uint32_t held, uint32_t wanted) {
    if (held == HF_PERMITS || wanted == HF_PERMITS) return false;
    if (held == HF_MUTEX || held == HF_WRITE) return true;
    return wanted == held || (held == HF_UPGRADABLE && wanted == HF_READ);
}

char *hf__kind_deadlock_line(uint32_t held, uint32_t wanted) {
    if (held == HF_PERMITS || wanted == HF_PERMITS)
        return hf__line("this owner already holds the name as another kind, and would wait for "
                        "itself; release that hold first");
    if (held == HF_UPGRADABLE)
        return hf__line(
            "this owner holds HF_UPGRADABLE, and would wait for itself; use hf_upgrade");
    return hf__line("this owner holds HF_READ, and would wait for itself; acquire HF_UPGRADABLE "
                    "and use hf_upgrade");
}

static void join_waits_of_owner(hf__entry *e, hf__ownership *ownership) {
    for (hf__wait *w = e->waits.first, *next; w; w = next) {
        next = w->link.next;
        bool both_permits = ownership->kind == HF_PERMITS && w->kind == HF_PERMITS;
        if (w->upgrade || both_permits || !hf__owner_same(w->owner, ownership->owner)) continue;
        bool covered = hf__kind_covers(ownership->kind, w->kind) &&
                       ownership->count < HF_COUNT_MAX &&
                       !((w->flags | ownership->flags) & HF_NOT_REENTRANT);
        if (covered) hf__ownership_join(ownership, w);
        hf__wait_undo(w);
        hf__wait_finish(w, covered ? HF_OK : HF_DEADLOCK,
                        covered ? NULL : hf__kind_deadlock_line(ownership->kind, w->kind));
        /* the next step releases its queue position */
        hf__heap_set(&e->core->timers, &e->timer, 0);
    }
}

void hf__sides_granted(hf__ownership *ownership) {
    hf__entry *e = ownership->entry, *name_entry = e->name_entry ? e->name_entry : e;
    if (!name_entry->sides.first) return;
    if (name_entry != e) join_waits_of_owner(name_entry, ownership);
    for (hf__entry *side = name_entry->sides.first; side; side = side->side.next)
        if (side != e) join_waits_of_owner(side, ownership);
}

/* ---- Creating and finding ---- */

/* The key is the name, which contains no NUL, then a NUL, then the acquire id. */
static hf__entry *side_new(hf__entry *name_entry, uint32_t kind) {
    size_t length = name_entry->name_length;
    hf__entry *e = calloc(1, sizeof *e + length + 1 + sizeof e->side_id);
    if (!e) return NULL;
    char *key = (char *)(e + 1);
    e->kind = kind;
    e->side_id = ++name_entry->core->last_acquire_id;
    memcpy(key, name_entry->mapped.key, length);
    memcpy(key + length + 1, &e->side_id, sizeof e->side_id);
    e->mapped.key = key;
    e->mapped.length = length + 1 + sizeof e->side_id;
    e->name_length = length;
    e->core = name_entry->core;
    e->name_entry = name_entry;
    hf__list_append(&name_entry->sides, e, side);
    hf__map_add(&e->core->entries, &e->mapped);
    return e;
}

void hf__side_unlink(hf__entry *e) {
    hf__side_set_deferred(e, false);
    hf__list_remove(&e->name_entry->sides, e, side);
}

static bool can_join(const hf__entry *e, const hf__wait *w, hf__time now) {
    const hf__ownership *ownership = e->ownership;
    return ownership && !e->closed_to_joins && ownership->kind == HF_READ &&
           now < e->grant->joinable_until && e->grant->lease_ms == w->lease_ms &&
           ownership->count < HF_COUNT_MAX && hf__ownership_valid(ownership, now);
}

static bool can_wait_with(const hf__entry *e, const hf__wait *w) {
    return !e->ownership && !e->closed_to_joins && e->waits.first &&
           is_plain_read(e->waits.first) && !e->waits.first->try_once && !w->try_once &&
           e->waits.first->lease_ms == w->lease_ms;
}

hf__entry *hf__side_for(hf__entry *name_entry, const hf__wait *w, hf__time now,
                        hf__ownership **ownership) {
    *ownership = NULL;
    if (!is_plain_read(w)) {
        if (w->kind != HF_READ) hf__sides_close(name_entry);
        return side_new(name_entry, w->kind);
    }
    for (hf__entry *e = name_entry->sides.first; e; e = e->side.next) {
        if (can_join(e, w, now)) *ownership = e->ownership;
        if (*ownership || can_wait_with(e, w)) return e;
    }
    return side_new(name_entry, w->kind);
}

void hf__sides_close(hf__entry *name_entry) {
    for (hf__entry *e = name_entry->sides.first; e; e = e->side.next) {
        e->closed_to_joins = true;
        if (e->grant) e->grant->joinable_until = 0;
    }
}

bool hf__sides_closed(const hf__entry *e) {
    if (!e->name_entry) return false;
    if (e->name_entry->waits.first) return true;
    for (const hf__entry *other = e->name_entry->sides.first; other; other = other->side.next)
        if (other != e && other->waits.first && !other->ownership && other->kind != HF_READ)
            return true;
    return false;
}
