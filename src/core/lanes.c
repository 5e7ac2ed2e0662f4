/*
 * Lanes: what a client does about one name beside its mutex. Each has a number of its own under which it
 * asks, holds and stands in the store's line, so that the order among readers, writers and takers of
 * permits is the order in which they came, also within a client.
 *
 * Readers share. One who comes joins a hold that another reader of the client has, for a short while after
 * the store has said that nobody waits: so a writer elsewhere is held up no longer than that, and many
 * readers cost the store a few requests. Or it joins readers who wait, if nobody else has come since.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "core/core.h"

static bool reads_plainly(const hf__wait *w) {
    return w->kind == HF_READ && !w->unshared && !w->max_hold_ms &&
           !(w->flags & (HF_NO_RENEW | HF_NOT_REENTRANT));
}

/* ---- Who holds ---- */

static bool has_handle(const hf__ownership *ownership, hf__owner owner) {
    if (ownership->kind != HF_READ) return hf__owner_same(ownership->owner, owner);
    for (const hf_hold *hold = ownership->handles; hold; hold = hold->next)
        if (hf__owner_same(hold->owner, owner)) return true;
    return false;
}

hf__ownership *hf__lanes_held(hf__entry *anchor, hf__owner owner) {
    if (anchor->ownership && has_handle(anchor->ownership, owner)) return anchor->ownership;
    for (hf__entry *e = anchor->lanes; e; e = e->next_lane)
        if (e->ownership && has_handle(e->ownership, owner)) return e->ownership;
    return NULL;
}

bool hf__kind_covers(uint32_t held, uint32_t wanted) {
    if (held == HF_PERMITS || wanted == HF_PERMITS) return false;
    if (held == HF_MUTEX || held == HF_WRITE) return true;
    return wanted == held || (held == HF_UPGRADABLE && wanted == HF_READ);
}

char *hf__lanes_deadlock(uint32_t held, uint32_t wanted) {
    if (held == HF_PERMITS || wanted == HF_PERMITS)
        return hf__line("this owner holds the name as another kind, and would wait for itself");
    if (held == HF_UPGRADABLE)
        return hf__line("this owner reads and may upgrade: hf_upgrade does that; another hold "
                        "would wait for its own");
    return hf__line("this owner reads, and would wait for itself; take HF_UPGRADABLE and "
                    "hf_upgrade it");
}

static void join_waits(hf__entry *e, hf__ownership *ownership) {
    for (hf__wait *w = e->head, *next; w; w = next) {
        next = w->next;
        bool both_permits = ownership->kind == HF_PERMITS && w->kind == HF_PERMITS;
        if (w->upgrade || both_permits || !hf__owner_same(w->owner, ownership->owner)) continue;
        bool covered = hf__kind_covers(ownership->kind, w->kind) &&
                       ownership->count < HF_COUNT_MAX &&
                       !((w->flags | ownership->flags) & HF_NOT_REENTRANT);
        if (covered) hf__ownership_join(ownership, w);
        hf__wait_forgo(w);
        hf__wait_finish(w, covered ? HF_OK : HF_DEADLOCK,
                        covered ? NULL : hf__lanes_deadlock(ownership->kind, w->kind));
        hf__heap_set(&e->core->timers, &e->timer, 0); /* what it stands for is to be left */
    }
}

void hf__lanes_granted(hf__ownership *ownership) {
    hf__entry *e = ownership->entry, *anchor = e->anchor ? e->anchor : e;
    if (!anchor->lanes) return;
    if (anchor != e) join_waits(anchor, ownership);
    for (hf__entry *lane = anchor->lanes; lane; lane = lane->next_lane)
        if (lane != e) join_waits(lane, ownership);
}

/* ---- Making and finding ---- */

/* The key is the name, which has no NUL, then one, then the number. */
static hf__entry *lane_new(hf__entry *anchor, uint32_t kind) {
    size_t length = anchor->name_length;
    hf__entry *e = calloc(1, sizeof *e + length + 1 + sizeof e->lane);
    if (!e) return NULL;
    char *key = (char *)(e + 1);
    e->kind = kind;
    e->lane = ++anchor->core->last_acquire_id;
    memcpy(key, anchor->mapped.key, length);
    memcpy(key + length + 1, &e->lane, sizeof e->lane);
    e->mapped.key = key;
    e->mapped.length = length + 1 + sizeof e->lane;
    e->name_length = length;
    e->core = anchor->core;
    e->anchor = anchor;
    e->prev_lane = anchor->last_lane;
    if (e->prev_lane)
        e->prev_lane->next_lane = e;
    else
        anchor->lanes = e;
    anchor->last_lane = e;
    hf__map_add(&e->core->entries, &e->mapped);
    return e;
}

void hf__lane_drop(hf__entry *e) {
    hf__lane_set_back(e, false);
    if (e->prev_lane)
        e->prev_lane->next_lane = e->next_lane;
    else
        e->anchor->lanes = e->next_lane;
    if (e->next_lane)
        e->next_lane->prev_lane = e->prev_lane;
    else
        e->anchor->last_lane = e->prev_lane;
}

static bool can_join(const hf__entry *e, const hf__wait *w, hf__time now) {
    const hf__ownership *ownership = e->ownership;
    return ownership && !e->closed && ownership->kind == HF_READ &&
           now < ownership->joinable_until && ownership->lease_ms == w->lease_ms &&
           ownership->count < HF_COUNT_MAX && hf__ownership_valid(ownership, now);
}

static bool can_wait_with(const hf__entry *e, const hf__wait *w) {
    return !e->ownership && !e->closed && e->head && reads_plainly(e->head) && !e->head->once &&
           !w->once && e->head->lease_ms == w->lease_ms;
}

hf__entry *hf__lane_for(hf__entry *anchor, const hf__wait *w, hf__time now,
                        hf__ownership **ownership) {
    *ownership = NULL;
    if (!reads_plainly(w)) {
        if (w->kind != HF_READ) hf__lanes_close(anchor);
        return lane_new(anchor, w->kind);
    }
    for (hf__entry *e = anchor->lanes; e; e = e->next_lane) {
        if (can_join(e, w, now)) *ownership = e->ownership;
        if (*ownership || can_wait_with(e, w)) return e;
    }
    return lane_new(anchor, w->kind);
}

void hf__lanes_close(hf__entry *anchor) {
    for (hf__entry *e = anchor->lanes; e; e = e->next_lane) {
        e->closed = true;
        if (e->ownership) e->ownership->joinable_until = 0;
    }
}

bool hf__lanes_closed(const hf__entry *e) {
    if (!e->anchor) return false;
    if (e->anchor->head) return true;
    for (const hf__entry *other = e->anchor->lanes; other; other = other->next_lane)
        if (other != e && other->head && !other->ownership && other->kind != HF_READ) return true;
    return false;
}
