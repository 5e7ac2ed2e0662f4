/* SPDX-License-Identifier: Apache-2.0 */
/* Acquiring and releasing many names at once: see multi.h. */
#include "core/multi.h"

#include <stdlib.h>

#include "base/error.h"
#include "core/core_internal.h"

/* ---- Parts ---- */

static bool is_part_held(const hf__multi_part *p, hf__time now) {
    const hf__wait *w = &p->wait;
    return p->requested && w->call.done && w->call.result == HF_OK &&
           hf__ownership_valid(w->handle->ownership, now);
}

/* Release the part, and reset its handle for another try. */
static void release_part(hf__multi_part *p, hf__core *core, hf__time now) {
    hf__handle *handle = p->wait.handle;
    if (p->requested && p->wait.call.done && p->wait.call.result == HF_OK) {
        hf__core_release(core, handle, NULL, now);
        hf__ownership_unref(handle->ownership);
        handle->ownership = NULL;
        atomic_store(&handle->released, false);
    }
    p->requested = false;
}

static void free_detail(hf__wait *w) {
    free(w->call.detail);
    w->call.detail = NULL;
}

/* False: no memory. */
static bool prepare_part(hf__multi_acquire *m, hf__multi_part *p, bool once, hf__time now) {
    hf__wait *w = &p->wait;
    free_detail(w);
    bool prepared = hf__wait_prepare(w);
    *w = (hf__wait){.call.multi = &m->multi,
                    .owner = w->owner,
                    .lease_ms = w->lease_ms,
                    .kind = w->kind,
                    .permits = w->permits,
                    .capacity = w->capacity,
                    .flags = w->flags,
                    .unshared = m->no_renew || m->max_hold_ms,
                    .try_once = once,
                    .started_at = now,
                    .until = once ? HF__NEVER : m->until,
                    .grant = w->grant,
                    .ownership = w->ownership,
                    .handle = w->handle};
    p->requested = true;
    m->multi.pending++;
    return prepared;
}

/* ---- Finishing ---- */

static void fail_multi(hf__multi_acquire *m, hf_result result, char *detail, hf__time now) {
    for (unsigned i = 0; i < m->count; i++) {
        release_part(&m->parts[i], m->multi.core, now);
        free_detail(&m->parts[i].wait);
    }
    m->multi.core->stats.refused++;
    hf__call_finish(m->multi.core, &m->call, result, detail);
}

/* max_hold_ms and HF_NO_RENEW apply once all names are held. They do not apply to an ownership that
   other handles share. */
static void bound_ownership(const hf__multi_acquire *m, hf__ownership *ownership, hf__time now) {
    if (ownership->count > 1) return;
    if (m->max_hold_ms) {
        ownership->max_hold_until = hf__after_ms(now, m->max_hold_ms);
        hf__ownership_set_deadline(ownership);
    }
    if (m->no_renew) {
        ownership->flags |= HF_NO_RENEW;
        ownership->entry->grant->renew_at = HF__NEVER;
    }
    hf__entry_step(ownership->entry, now);
}

/* The leases are not renewed from now on, and waiting for the other names has used up a part of
   them. So each lease is restarted. If the store does not answer, the last renewal still counts. */
static void restart_leases(hf__multi_acquire *m, hf__time now) {
    m->leases_restarted = true;
    m->multi.pending = m->count;
    for (unsigned i = 0; i < m->count; i++) {
        hf__multi_part *p = &m->parts[i];
        p->extend_call = (hf__call){.multi = &m->multi};
        hf__core_extend(m->multi.core, p->wait.handle, p->wait.lease_ms, &p->extend_call, now);
    }
}

static void stop_extending(hf__multi_acquire *m) {
    for (unsigned i = 0; i < m->count; i++) {
        hf__multi_part *p = &m->parts[i];
        if (p->extend_call.multi && !p->extend_call.done)
            hf__core_extend_unwait(m->multi.core, p->wait.handle, &p->extend_call);
    }
}

static void free_extends(hf__multi_acquire *m) {
    for (unsigned i = 0; i < m->count; i++) {
        free(m->parts[i].extend_call.detail);
        m->parts[i].extend_call = (hf__call){0};
    }
}

static void finish_multi(hf__multi_acquire *m, hf__time now) {
    for (unsigned i = 0; i < m->count; i++)
        bound_ownership(m, m->parts[i].wait.handle->ownership, now);
    hf__call_finish(m->multi.core, &m->call, HF_OK, NULL);
}

/* ---- One by one ---- */

static void acquire_one(hf__multi_acquire *m, hf__multi_part *p, hf__time now) {
    m->one_by_one = true;
    if (prepare_part(m, p, m->try_once, now))
        hf__core_acquire(m->multi.core, &p->wait, p->name, p->length, now);
    else
        hf__call_finish(m->multi.core, &p->wait.call, HF_NOMEM, NULL);
}

/*
 * Whether to go on one by one after a request for all names failed. HF_BUSY: one by one may succeed
 * if a name can be shared, or if a queue has lost its waiters. No answer: a call that may wait
 * tries once more, within the outage time.
 */
static bool worth_retrying(const hf__multi_acquire *m, hf_result r, hf__time now) {
    if (r == HF_BUSY) return true;
    bool away = r == HF_TIMEOUT || r == HF_UNREACHABLE || r == HF_UNKNOWN_OUTCOME;
    return away && !m->try_once &&
           now < hf__after_ms(m->started_at, m->multi.core->config.outage_ms);
}

/* `p` is the first part that is not held. Its result, if it was requested, decides. */
static bool can_continue(const hf__multi_acquire *m, const hf__multi_part *p, hf__time now) {
    hf_result r = p->wait.call.result;
    if (m->give_up_reason) return false;
    if (!p->requested) return true;
    if (now >= m->until) return false;
    if (r == HF_OK) return !m->try_once; /* it was lost since */
    return !m->one_by_one && worth_retrying(m, r, now);
}

static void fail_at_part(hf__multi_acquire *m, hf__multi_part *p, hf__time now) {
    hf_result r = p->requested ? p->wait.call.result : m->give_up_reason;
    char *detail = p->wait.call.detail;
    p->wait.call.detail = NULL;
    if (r == HF_OK && m->multi.core->closing) r = HF_CLOSED;
    if (r == HF_OK && m->give_up_reason != HF_TIMEOUT) r = m->give_up_reason;
    if (r == HF_OK) {
        r = HF_LOST;
        detail = hf__line("%.*s was lost before all were held", (int)p->length, p->name);
    }
    fail_multi(m, r, detail, now);
}

static void advance_acquire(hf__multi_acquire *m, hf__time now) {
    unsigned i = 0;
    while (i < m->count && is_part_held(&m->parts[i], now)) i++;
    free_extends(m);
    if (i == m->count && m->no_renew && m->one_by_one && !m->leases_restarted &&
        !m->give_up_reason) {
        restart_leases(m, now);
        return;
    }
    if (i == m->count) {
        finish_multi(m, now);
        return;
    }
    m->leases_restarted = false;
    hf__multi_part *p = &m->parts[i];
    if (!can_continue(m, p, now)) {
        fail_at_part(m, p, now);
        return;
    }
    for (unsigned j = i; j < m->count; j++) release_part(&m->parts[j], m->multi.core, now);
    acquire_one(m, p, now);
}

/* ---- All in one request ---- */

/* This client neither holds nor waits for any of the names. */
static bool are_all_unused(const hf__multi_acquire *m) {
    for (unsigned i = 0; i < m->count; i++) {
        const hf__multi_part *p = &m->parts[i];
        const hf__mapped *entry = hf__map_find(&m->multi.core->entries, p->name, p->length);
        if (entry && !hf__entry_idle((const hf__entry *)entry)) return false;
    }
    return true;
}

/* The entry in which the part will wait; NULL: no memory. */
static hf__entry *get_part_entry(hf__core *core, hf__multi_part *p, hf__time now) {
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
static void submit_multi(hf__multi_acquire *m, hf__time now) {
    hf__op *chain = NULL;
    for (unsigned i = m->count; i-- > 0;)
        chain = hf__entry_prepare_acquire(m->parts[i].wait.entry, chain, now);
    m->multi.core->store->table->submit(m->multi.core->store, chain, now);
    for (unsigned i = 0; i < m->count; i++) hf__entry_step(m->parts[i].wait.entry, now);
}

/* False: nothing was begun, and the names must be acquired one by one. */
static bool acquire_in_one_step(hf__multi_acquire *m, hf__time now) {
    unsigned made = 0;
    for (; made < m->count; made++) {
        hf__multi_part *p = &m->parts[made];
        hf__entry *e = prepare_part(m, p, true, now) ? get_part_entry(m->multi.core, p, now) : NULL;
        if (!e) break;
        hf__entry_enqueue(e, &p->wait);
    }
    if (made == m->count) {
        submit_multi(m, now);
        return true;
    }
    m->parts[made].requested = false;
    while (made-- > 0) hf__entry_dequeue(&m->parts[made].wait, now);
    for (unsigned i = 0; i < m->count; i++) m->parts[i].requested = false;
    m->multi.pending = 0;
    return false;
}

void hf__core_acquire_all(hf__multi_acquire *m, hf__time now) {
    hf__core *core = m->multi.core;
    if (core->closing) {
        core->stats.refused++;
        hf__call_finish(core, &m->call, HF_CLOSED, NULL);
        return;
    }
    m->started_at = now;
    m->multi.is_acquire = true;
    bool at_once = core->store->multi_acquire && core->link && m->count > 1 && are_all_unused(m);
    if (at_once && acquire_in_one_step(m, now)) return;
    advance_acquire(m, now);
    hf__core_advance_multi(core, now);
}

void hf__core_give_up_all(hf__multi_acquire *m, hf_result why, hf__time now) {
    m->give_up_reason = why;
    for (unsigned i = 0; i < m->count; i++) {
        hf__wait *w = &m->parts[i].wait;
        if (m->parts[i].requested && !w->call.done) hf__core_give_up(w, why, now);
    }
    stop_extending(m);
    hf__core_advance_multi(m->multi.core, now);
}

/* ---- Releasing ---- */

/* HF_LOST is the worst, then HF_UNKNOWN_OUTCOME, then any other failure. */
static void finish_release(hf__multi_release *release) {
    hf_result worst = HF_OK;
    char *detail = NULL;
    for (unsigned i = 0; i < release->count; i++) {
        hf_result r = release->calls[i].result;
        bool worse = r != HF_OK && worst != HF_LOST &&
                     (worst == HF_OK || r == HF_LOST || r == HF_UNKNOWN_OUTCOME);
        if (worse) worst = r;
        free(worse ? detail : release->calls[i].detail);
        if (worse) detail = release->calls[i].detail;
    }
    hf__call_finish(release->multi.core, release->call, worst, detail);
}

void hf__core_release_all(hf__core *core, hf__handle *const *handles, unsigned count,
                          hf__multi_release *release, hf__call *call, hf__time now) {
    release->multi = (hf__multi){.core = core, .pending = count};
    release->call = call;
    release->count = count;
    for (unsigned i = 0; i < count; i++) {
        release->calls[i] = (hf__call){.multi = &release->multi};
        hf__core_release(core, handles[i], call ? &release->calls[i] : NULL, now);
    }
}

void hf__core_release_all_unwait(hf__multi_release *release, hf__handle *const *handles,
                                 hf__time now) {
    for (unsigned i = 0; i < release->count; i++)
        if (!release->calls[i].done)
            hf__core_release_unwait(release->multi.core, handles[i], &release->calls[i]);
    hf__core_advance_multi(release->multi.core, now);
}

/* ---- Calls awaited as one ---- */

void hf__multi_part_done(hf__multi *m) {
    if (--m->pending) return;
    hf__list_prepend(&m->core->multi_ready, m, link);
}

bool hf__core_advance_multi(hf__core *core, hf__time now) {
    bool some = core->multi_ready.first;
    for (hf__multi *m; (m = core->multi_ready.first);) {
        hf__list_remove(&core->multi_ready, m, link);
        if (m->is_acquire)
            advance_acquire((hf__multi_acquire *)m, now);
        else
            finish_release((hf__multi_release *)m);
    }
    return some;
}
