/* SPDX-License-Identifier: Apache-2.0 */
/* Acquiring and releasing many names at once: see multi.h. */
#include "core/multi.h"

#include <stdlib.h>

#include "base/error.h"

/* ---- Parts ---- */

static bool is_part_held(const hf__multi_part *p, hf__time now) {
    const hf__wait *w = &p->wait;
    return p->requested && w->call.done && w->call.result == HF_OK &&
           hf__ownership_valid(w->hold->ownership, now);
}

/* Release the part, and reset its handle for another try. */
static void release_part(hf__multi_part *p, hf__core *core, hf__time now) {
    hf_hold *hold = p->wait.hold;
    if (p->requested && p->wait.call.done && p->wait.call.result == HF_OK) {
        hf__core_release(core, hold, NULL, now);
        hf__ownership_unref(hold->ownership);
        hold->ownership = NULL;
        atomic_store(&hold->released, false);
    }
    p->requested = false;
}

static void free_detail(hf__wait *w) {
    free(w->call.detail);
    w->call.detail = NULL;
}

/* False: no memory. */
static bool prepare_part(hf__multi_acquire *t, hf__multi_part *p, bool once, hf__time now) {
    hf__wait *w = &p->wait;
    free_detail(w);
    if (!w->ownership) w->ownership = hf__ownership_new();
    *w = (hf__wait){.call.multi = &t->multi,
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
    p->requested = true;
    t->multi.pending++;
    return w->ownership != NULL;
}

/* ---- Finishing ---- */

static void fail_multi(hf__multi_acquire *t, hf_result result, char *detail, hf__time now) {
    for (unsigned i = 0; i < t->count; i++) {
        release_part(&t->parts[i], t->multi.core, now);
        free_detail(&t->parts[i].wait);
    }
    t->multi.core->stats.refused++;
    hf__call_finish(t->multi.core, &t->call, result, detail);
}

/* max_hold_ms and HF_NO_RENEW apply from when all are held; but not to an ownership that others
   share. */
static void bound_ownership(const hf__multi_acquire *t, hf__ownership *ownership, hf__time now) {
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

/* Waiting for the other names has used up some of a lease that is not renewed from now on, so each
   lease is restarted. If the store does not answer, the last renewal still counts. */
static void restart_leases(hf__multi_acquire *t, hf__time now) {
    t->leases_restarted = true;
    t->multi.pending = t->count;
    for (unsigned i = 0; i < t->count; i++) {
        hf__multi_part *p = &t->parts[i];
        p->extend_call = (hf__call){.multi = &t->multi};
        hf__core_extend(t->multi.core, p->wait.hold->ownership, p->wait.lease_ms, &p->extend_call,
                        now);
    }
}

static void stop_extending(hf__multi_acquire *t) {
    for (unsigned i = 0; i < t->count; i++) {
        hf__multi_part *p = &t->parts[i];
        if (p->extend_call.multi && !p->extend_call.done)
            hf__core_extend_unwait(t->multi.core, p->wait.hold->ownership, &p->extend_call);
    }
}

static void free_extends(hf__multi_acquire *t) {
    for (unsigned i = 0; i < t->count; i++) {
        free(t->parts[i].extend_call.detail);
        t->parts[i].extend_call = (hf__call){0};
    }
}

static void finish_multi(hf__multi_acquire *t, hf__time now) {
    for (unsigned i = 0; i < t->count; i++)
        bound_ownership(t, t->parts[i].wait.hold->ownership, now);
    hf__call_finish(t->multi.core, &t->call, HF_OK, NULL);
}

/* ---- One by one ---- */

static void acquire_one(hf__multi_acquire *t, hf__multi_part *p, hf__time now) {
    t->one_by_one = true;
    if (prepare_part(t, p, t->try_once, now))
        hf__core_acquire(t->multi.core, &p->wait, p->name, p->length, now);
    else
        hf__call_finish(t->multi.core, &p->wait.call, HF_NOMEM, NULL);
}

/*
 * Whether to go on one by one after a request for all names failed. HF_BUSY: one by one may succeed
 * where others share a name, or where a queue is left without waiters. No answer: a call that may
 * wait tries once more, within the outage time.
 */
static bool worth_retrying(const hf__multi_acquire *t, hf_result r, hf__time now) {
    if (r == HF_BUSY) return true;
    bool away = r == HF_TIMEOUT || r == HF_UNREACHABLE || r == HF_UNKNOWN_OUTCOME;
    return away && !t->try_once &&
           now < hf__after_ms(t->started_at, t->multi.core->config.outage_ms);
}

/* `p` is the first part that is not held. Its result, if it was requested, decides. */
static bool can_continue(const hf__multi_acquire *t, const hf__multi_part *p, hf__time now) {
    hf_result r = p->wait.call.result;
    if (t->give_up_reason) return false;
    if (!p->requested) return true;
    if (now >= t->until) return false;
    if (r == HF_OK) return !t->try_once; /* it was lost since */
    return !t->one_by_one && worth_retrying(t, r, now);
}

static void fail_at_part(hf__multi_acquire *t, hf__multi_part *p, hf__time now) {
    hf_result r = p->requested ? p->wait.call.result : t->give_up_reason;
    char *detail = p->wait.call.detail;
    p->wait.call.detail = NULL;
    if (r == HF_OK && t->multi.core->closing) r = HF_CLOSED;
    if (r == HF_OK && t->give_up_reason != HF_TIMEOUT) r = t->give_up_reason;
    if (r == HF_OK) {
        r = HF_LOST;
        detail = hf__line("%.*s was lost before all were held", (int)p->length, p->name);
    }
    fail_multi(t, r, detail, now);
}

static void advance_acquire(hf__multi_acquire *t, hf__time now) {
    unsigned i = 0;
    while (i < t->count && is_part_held(&t->parts[i], now)) i++;
    free_extends(t);
    if (i == t->count && t->no_renew && t->one_by_one && !t->leases_restarted &&
        !t->give_up_reason) {
        restart_leases(t, now);
        return;
    }
    if (i == t->count) {
        finish_multi(t, now);
        return;
    }
    t->leases_restarted = false;
    hf__multi_part *p = &t->parts[i];
    if (!can_continue(t, p, now)) {
        fail_at_part(t, p, now);
        return;
    }
    for (unsigned j = i; j < t->count; j++) release_part(&t->parts[j], t->multi.core, now);
    acquire_one(t, p, now);
}

/* ---- All in one request ---- */

/* This client neither holds nor waits for any of the names. */
static bool all_untouched(const hf__multi_acquire *t) {
    for (unsigned i = 0; i < t->count; i++) {
        const hf__multi_part *p = &t->parts[i];
        const hf__mapped *entry = hf__map_find(&t->multi.core->entries, p->name, p->length);
        if (entry && !hf__entry_idle((const hf__entry *)entry)) return false;
    }
    return true;
}

/* The entry in which the part will wait; NULL: no memory. */
static hf__entry *entry_for(hf__core *core, hf__multi_part *p, hf__time now) {
    hf__ownership *ownership;
    hf__entry *e = hf__entry_get(core, p->name, p->length);
    if (e && p->wait.kind != HF_MUTEX) {
        hf__entry *side = hf__side_for(e, &p->wait, now, &ownership);
        if (!side) hf__entry_step(e, now);
        return side;
    }
    return e;
}

/* The operations form one chain, from the first name on. */
static void submit_multi(hf__multi_acquire *t, hf__time now) {
    hf__op *chain = NULL;
    for (unsigned i = t->count; i-- > 0;)
        chain = hf__entry_prepare_acquire(t->parts[i].wait.entry, chain, now);
    t->multi.core->store->table->submit(t->multi.core->store, chain, now);
    for (unsigned i = 0; i < t->count; i++) hf__entry_step(t->parts[i].wait.entry, now);
}

/* False: nothing was begun, and the names must be acquired one by one. */
static bool acquire_in_one_step(hf__multi_acquire *t, hf__time now) {
    unsigned made = 0;
    for (; made < t->count; made++) {
        hf__multi_part *p = &t->parts[made];
        hf__entry *e = prepare_part(t, p, true, now) ? entry_for(t->multi.core, p, now) : NULL;
        if (!e) break;
        hf__entry_enqueue(e, &p->wait);
    }
    if (made == t->count) {
        submit_multi(t, now);
        return true;
    }
    t->parts[made].requested = false;
    while (made-- > 0) hf__entry_dequeue(&t->parts[made].wait, now);
    for (unsigned i = 0; i < t->count; i++) t->parts[i].requested = false;
    t->multi.pending = 0;
    return false;
}

void hf__core_acquire_all(hf__multi_acquire *t, hf__time now) {
    hf__core *core = t->multi.core;
    if (core->closing) {
        core->stats.refused++;
        hf__call_finish(core, &t->call, HF_CLOSED, NULL);
        return;
    }
    t->started_at = now;
    t->multi.is_acquire = true;
    bool at_once = core->store->multi_acquire && core->link && t->count > 1 && all_untouched(t);
    if (at_once && acquire_in_one_step(t, now)) return;
    advance_acquire(t, now);
    hf__core_advance_multi(core, now);
}

void hf__core_give_up_all(hf__multi_acquire *t, hf_result why, hf__time now) {
    t->give_up_reason = why;
    for (unsigned i = 0; i < t->count; i++) {
        hf__wait *w = &t->parts[i].wait;
        if (t->parts[i].requested && !w->call.done) hf__core_give_up(w, why, now);
    }
    stop_extending(t);
    hf__core_advance_multi(t->multi.core, now);
}

/* ---- Releasing ---- */

/* HF_LOST is the worst, then HF_UNKNOWN_OUTCOME, then any other failure. */
static void finish_release(hf__multi_release *l) {
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
    hf__call_finish(l->multi.core, l->call, worst, detail);
}

void hf__core_release_all(hf__core *core, hf_hold *const *holds, unsigned count,
                          hf__multi_release *l, hf__call *call, hf__time now) {
    l->multi = (hf__multi){.core = core, .pending = count};
    l->call = call;
    l->count = count;
    for (unsigned i = 0; i < count; i++) {
        l->calls[i] = (hf__call){.multi = &l->multi};
        hf__core_release(core, holds[i], call ? &l->calls[i] : NULL, now);
    }
}

void hf__core_release_all_unwait(hf__multi_release *l, hf_hold *const *holds, hf__time now) {
    for (unsigned i = 0; i < l->count; i++)
        if (!l->calls[i].done) hf__core_release_unwait(l->multi.core, holds[i], &l->calls[i]);
    hf__core_advance_multi(l->multi.core, now);
}

/* ---- Calls awaited as one ---- */

void hf__multi_part_done(hf__multi *g) {
    if (--g->pending) return;
    g->next = g->core->multi_ready;
    g->core->multi_ready = g;
}

bool hf__core_advance_multi(hf__core *core, hf__time now) {
    bool some = core->multi_ready != NULL;
    for (hf__multi *g; (g = core->multi_ready);) {
        core->multi_ready = g->next;
        if (g->is_acquire)
            advance_acquire((hf__multi_acquire *)g, now);
        else
            finish_release((hf__multi_release *)g);
    }
    return some;
}
