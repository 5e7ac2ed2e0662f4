/*
 * Staying back. Of those who wait, a few stand in the store's line for all, as it is of mutexes: who comes behind them
 * stays back, and asks in one step with the next release of the client, or when nobody stands there any
 * more. So a crowd costs the store one request for each that is served. Should a mutex be asked for, all ask at once:
 * its place is behind them.
 */
#include "core/core.h"

#define ASKING_MOST 1024

static bool exclude(uint32_t a, uint32_t b) {
    if (a == HF_PERMITS || b == HF_PERMITS) return a != b;
    return a == HF_WRITE || b == HF_WRITE || (a == HF_UPGRADABLE && b == HF_UPGRADABLE);
}

/* It waits for the store: it asks, or stands in line. */
static bool awaits_store(const hf__entry *e) {
    return !e->ownership && !e->back && e->head && !e->head->once;
}

/* Behind one who has come before: who waits, and is not to be entered with; or who writes, and whose release
   takes it along, unless a downgrade would let it in. Not behind one who is in trouble: each finds that
   out for itself. */
static bool is_behind(const hf__entry *e, const hf__entry *other) {
    if (other->ownership) return other->ownership->kind == HF_WRITE && exclude(HF_READ, e->kind);
    if (other->back) return other->head != NULL;
    if (!awaits_store(other) || other->trouble_since) return false;
    return other->head->queued_until || exclude(other->kind, e->kind);
}

/* Of permits with another capacity: it is to be told so. */
static bool disagrees(const hf__wait *w, const hf__entry *other) {
    return w->kind == HF_PERMITS && other->kind == HF_PERMITS && other->head &&
           other->head->capacity != w->capacity;
}

bool hf__lane_stays_back(const hf__entry *e) {
    const hf__store *store = e->core->store;
    const hf__wait *w = e->head;
    if (!store->can_hand_off || store->needs_claim) return false;
    if (e->anchor->head && !e->anchor->head->once) return false;
    if (w->once || w->upgrade || w->acquire_id || w->outcome_unknown || e->ghost) return false;
    uint32_t asking = 0;
    for (const hf__entry *other = e->prev_lane; other; other = other->prev_lane) {
        if (disagrees(w, other)) return false;
        if (is_behind(e, other)) return true;
        if (awaits_store(other) && !other->trouble_since) asking++;
    }
    return e->back && asking > e->anchor->asking_more;
}

void hf__lane_set_back(hf__entry *e, bool back) {
    if (e->back == back) return;
    e->back = back;
    if (back)
        e->anchor->lanes_back++;
    else
        e->anchor->lanes_back--;
}

static hf__entry *first_back(const hf__entry *anchor) {
    bool any = anchor->lanes_back && !anchor->core->closing; /* all waits are about to end */
    hf__entry *e = any ? anchor->lanes : NULL;
    while (e && !(e->back && e->head)) e = e->next_lane; /* whose wait is over is about to go */
    return e;
}

hf__entry *hf__lanes_heir(const hf__entry *anchor) {
    return first_back(anchor);
}

/* As long as there is room for all, twice as many ask at a time. */
void hf__lane_heard(const hf__entry *e) {
    const hf__op *op = &e->op;
    hf__entry *anchor = e->anchor;
    if (op->result == HF_BUSY)
        anchor->asking_more = 0;
    else if (op->result == HF_OK && !op->has_waiters && !e->carried &&
             anchor->asking_more < ASKING_MOST)
        anchor->asking_more = 2 * anchor->asking_more + 1;
}

void hf__lanes_let_on(hf__entry *anchor, hf__time now) {
    for (hf__entry *e; (e = first_back(anchor)) && !hf__lane_stays_back(e);)
        if (!hf__entry_go_on(e, now)) return;
}
