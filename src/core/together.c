#include "core/together.h"

#include <stdlib.h>

#include "base/error.h"

/* ---- Parts ---- */

static bool holds(const hf__part *p, hf__time now) {
    const hf__wait *w = &p->wait;
    return p->asked && w->call.done && w->call.result == HF_OK &&
           hf__ownership_valid(w->hold->ownership, now);
}

/* It is let go, and its handle as new. */
static void let_go(hf__part *p, hf__core *core, hf__time now) {
    hf_hold *hold = p->wait.hold;
    if (p->asked && p->wait.call.done && p->wait.call.result == HF_OK) {
        hf__core_release(core, hold, NULL, now);
        hf__ownership_unref(hold->ownership);
        hold->ownership = NULL;
        atomic_store(&hold->released, false);
    }
    p->asked = false;
}

static void free_detail(hf__wait *w) {
    free(w->call.detail);
    w->call.detail = NULL;
}

/* False: no memory. */
static bool prepare(hf__together *t, hf__part *p, bool once, hf__time now) {
    hf__wait *w = &p->wait;
    free_detail(w);
    if (!w->ownership) w->ownership = hf__ownership_new();
    *w = (hf__wait){.call.whole = &t->gather,
                    .owner = w->owner,
                    .lease_ms = w->lease_ms,
                    .kind = w->kind,
                    .permits = w->permits,
                    .capacity = w->capacity,
                    .flags = w->flags,
                    .unshared = t->no_renew || t->max_hold_ms,
                    .try_once = once,
                    .started_at = now,
                    .until = once ? HF__NEVER : t->until,
                    .ownership = w->ownership,
                    .hold = w->hold};
    p->asked = true;
    t->gather.under_way++;
    return w->ownership != NULL;
}

/* ---- The end ---- */

static void fail(hf__together *t, hf_result result, char *detail, hf__time now) {
    for (unsigned i = 0; i < t->count; i++) {
        let_go(&t->parts[i], t->gather.core, now);
        free_detail(&t->parts[i].wait);
    }
    t->gather.core->stats.refused++;
    hf__call_finish(t->gather.core, &t->call, result, detail);
}

/* What is bounded is so from when all are held; but not an ownership that others have, too. */
static void bound(const hf__together *t, hf__ownership *ownership, hf__time now) {
    if (ownership->count > 1) return;
    if (t->max_hold_ms) {
        ownership->max_hold_until = hf__after_ms(now, t->max_hold_ms);
        atomic_store(&ownership->deadline,
                     hf__sooner(atomic_load(&ownership->deadline), ownership->max_hold_until));
    }
    if (t->no_renew) {
        ownership->flags |= HF_NO_RENEW;
        ownership->renew_at = HF__NEVER;
    }
    hf__entry_step(ownership->entry, now);
}

/* Waiting for the others has cost some of a lease that is not renewed any more: each begins anew. Where the store
   does not answer, what was renewed before stands. */
static void begin_leases(hf__together *t, hf__time now) {
    t->leases_begun = true;
    t->gather.under_way = t->count;
    for (unsigned i = 0; i < t->count; i++) {
        hf__part *p = &t->parts[i];
        p->extends = (hf__call){.whole = &t->gather};
        hf__core_extend(t->gather.core, p->wait.hold->ownership, p->wait.lease_ms, &p->extends,
                        now);
    }
}

static void stop_extending(hf__together *t) {
    for (unsigned i = 0; i < t->count; i++) {
        hf__part *p = &t->parts[i];
        if (p->extends.whole && !p->extends.done)
            hf__core_extend_unwait(t->gather.core, p->wait.hold->ownership, &p->extends);
    }
}

static void free_extends(hf__together *t) {
    for (unsigned i = 0; i < t->count; i++) {
        free(t->parts[i].extends.detail);
        t->parts[i].extends = (hf__call){0};
    }
}

static void finish(hf__together *t, hf__time now) {
    for (unsigned i = 0; i < t->count; i++) bound(t, t->parts[i].wait.hold->ownership, now);
    hf__call_finish(t->gather.core, &t->call, HF_OK, NULL);
}

/* ---- One by one ---- */

static void begin_one(hf__together *t, hf__part *p, hf__time now) {
    t->one_by_one = true;
    if (prepare(t, p, t->once, now))
        hf__core_acquire(t->gather.core, &p->wait, p->name, p->length, now);
    else
        hf__call_finish(t->gather.core, &p->wait.call, HF_NOMEM, NULL);
}

/* What came of asking for all in one step may not be the end. Busy: one by one there may be more to be had, beside
   others or past a line that nobody stands in any more. No answer: who waits has patience, once. */
static bool worth_asking_again(const hf__together *t, hf_result r, hf__time now) {
    if (r == HF_BUSY) return true;
    bool away = r == HF_TIMEOUT || r == HF_UNREACHABLE || r == HF_UNKNOWN_OUTCOME;
    return away && !t->once && now < hf__after_ms(t->began, t->gather.core->config.outage_ms);
}

/* The first that is not held. What became of it, if it was asked for, is the end or not. */
static bool goes_on(const hf__together *t, const hf__part *p, hf__time now) {
    hf_result r = p->wait.call.result;
    if (t->why) return false;
    if (!p->asked) return true;
    if (now >= t->until) return false;
    if (r == HF_OK) return !t->once; /* lost since */
    return !t->one_by_one && worth_asking_again(t, r, now);
}

static void stop_at(hf__together *t, hf__part *p, hf__time now) {
    hf_result r = p->asked ? p->wait.call.result : t->why;
    char *detail = p->wait.call.detail;
    p->wait.call.detail = NULL;
    if (r == HF_OK && t->gather.core->closing) r = HF_CLOSED;
    if (r == HF_OK && t->why != HF_TIMEOUT) r = t->why;
    if (r == HF_OK) {
        r = HF_LOST;
        detail = hf__line("%.*s was lost before all were held", (int)p->length, p->name);
    }
    fail(t, r, detail, now);
}

static void advance(hf__together *t, hf__time now) {
    unsigned i = 0;
    while (i < t->count && holds(&t->parts[i], now)) i++;
    free_extends(t);
    if (i == t->count && t->no_renew && t->one_by_one && !t->leases_begun && !t->why) {
        begin_leases(t, now);
        return;
    }
    if (i == t->count) {
        finish(t, now);
        return;
    }
    t->leases_begun = false;
    hf__part *p = &t->parts[i];
    if (!goes_on(t, p, now)) {
        stop_at(t, p, now);
        return;
    }
    for (unsigned j = i; j < t->count; j++) let_go(&t->parts[j], t->gather.core, now);
    begin_one(t, p, now);
}

/* ---- All in one step ---- */

/* Nobody of this client has anything to do with any of them. */
static bool all_untouched(const hf__together *t) {
    for (unsigned i = 0; i < t->count; i++) {
        const hf__part *p = &t->parts[i];
        const hf__mapped *entry = hf__map_find(&t->gather.core->entries, p->name, p->length);
        if (entry && !hf__entry_idle((const hf__entry *)entry)) return false;
    }
    return true;
}

/* The entry in which it will wait; NULL: no memory. */
static hf__entry *entry_for(hf__core *core, hf__part *p, hf__time now) {
    hf__ownership *ownership;
    hf__entry *e = hf__entry_get(core, p->name, p->length);
    if (e && p->wait.kind != HF_MUTEX) {
        hf__entry *side = hf__side_for(e, &p->wait, now, &ownership);
        if (!side) hf__entry_step(e, now);
        return side;
    }
    return e;
}

/* The operations are one chain, from the first name on. */
static void submit(hf__together *t, hf__time now) {
    hf__op *chain = NULL;
    for (unsigned i = t->count; i-- > 0;)
        chain = hf__entry_prepare_acquire(t->parts[i].wait.entry, chain, now);
    t->gather.core->store->table->submit(t->gather.core->store, chain, now);
    for (unsigned i = 0; i < t->count; i++) hf__entry_step(t->parts[i].wait.entry, now);
}

/* False, and nothing was begun: it has to be one by one. */
static bool begin_all(hf__together *t, hf__time now) {
    unsigned made = 0;
    for (; made < t->count; made++) {
        hf__part *p = &t->parts[made];
        hf__entry *e = prepare(t, p, true, now) ? entry_for(t->gather.core, p, now) : NULL;
        if (!e) break;
        hf__entry_enqueue(e, &p->wait);
    }
    if (made == t->count) {
        submit(t, now);
        return true;
    }
    t->parts[made].asked = false;
    while (made-- > 0) hf__entry_dequeue(&t->parts[made].wait, now);
    for (unsigned i = 0; i < t->count; i++) t->parts[i].asked = false;
    t->gather.under_way = 0;
    return false;
}

void hf__core_acquire_all(hf__together *t, hf__time now) {
    hf__core *core = t->gather.core;
    if (core->closing) {
        core->stats.refused++;
        hf__call_finish(core, &t->call, HF_CLOSED, NULL);
        return;
    }
    t->began = now;
    t->gather.acquires = true;
    bool at_once = core->store->multi_acquire && core->link && t->count > 1 && all_untouched(t);
    if (at_once && begin_all(t, now)) return;
    advance(t, now);
    hf__core_gather(core, now);
}

void hf__core_give_up_all(hf__together *t, hf_result why, hf__time now) {
    t->why = why;
    for (unsigned i = 0; i < t->count; i++) {
        hf__wait *w = &t->parts[i].wait;
        if (t->parts[i].asked && !w->call.done) hf__core_give_up(w, why, now);
    }
    stop_extending(t);
    hf__core_gather(t->gather.core, now);
}

/* ---- Letting go ---- */

/* Lost is worse than not known, and that than anything else. */
static void sum_up(hf__letting_go *l) {
    hf_result worst = HF_OK;
    char *detail = NULL;
    for (unsigned i = 0; i < l->count; i++) {
        hf_result r = l->calls[i].result;
        bool worse = r != HF_OK && worst != HF_LOST &&
                     (worst == HF_OK || r == HF_LOST || r == HF_UNKNOWN_OUTCOME);
        if (worse) worst = r;
        free(worse ? detail : l->calls[i].detail);
        if (worse) detail = l->calls[i].detail;
    }
    hf__call_finish(l->gather.core, l->call, worst, detail);
}

void hf__core_release_all(hf__core *core, hf_hold *const *holds, unsigned count, hf__letting_go *l,
                          hf__call *call, hf__time now) {
    l->gather = (hf__gather){.core = core, .under_way = count};
    l->call = call;
    l->count = count;
    for (unsigned i = 0; i < count; i++) {
        l->calls[i] = (hf__call){.whole = &l->gather};
        hf__core_release(core, holds[i], call ? &l->calls[i] : NULL, now);
    }
}

void hf__core_release_all_unwait(hf__letting_go *l, hf_hold *const *holds, hf__time now) {
    for (unsigned i = 0; i < l->count; i++)
        if (!l->calls[i].done) hf__core_release_unwait(l->gather.core, holds[i], &l->calls[i]);
    hf__core_gather(l->gather.core, now);
}

/* ---- Calls that are waited for as one ---- */

void hf__gather_part_done(hf__gather *g) {
    if (--g->under_way) return;
    g->next = g->core->gathered;
    g->core->gathered = g;
}

bool hf__core_gather(hf__core *core, hf__time now) {
    bool some = core->gathered != NULL;
    for (hf__gather *g; (g = core->gathered);) {
        core->gathered = g->next;
        if (g->acquires)
            advance((hf__together *)g, now);
        else
            sum_up((hf__letting_go *)g);
    }
    return some;
}
