/* SPDX-License-Identifier: Apache-2.0 */
/* Acquiring one name: check, copy, pass to the core, wait. */
#include <stdlib.h>
#include <string.h>

#include "client/acquire.h"
#include "client/hold.h"
#include "client/options.h"

static hf_result check_permits(const hf_options *o) {
    if (o->kind != HF_PERMITS && (o->permits || o->capacity))
        return hf__fail(HF_INVALID, "only HF_PERMITS has permits and a capacity: leave both 0");
    if (o->kind != HF_PERMITS) return HF_OK;
    if (!o->capacity || o->capacity > HF_PERMITS_MAX)
        return hf__fail(HF_INVALID, "a capacity of %u is not between 1 and %d", o->capacity,
                        HF_PERMITS_MAX);
    if (o->permits > o->capacity)
        return hf__fail(HF_INVALID, "%u permits are more than the capacity of %u", o->permits,
                        o->capacity);
    return HF_OK;
}

static hf_result check_kind(const hf_client *c, const hf_options *o) {
    if (o->kind > HF_PERMITS)
        return hf__fail(HF_UNSUPPORTED, "this version does not know kind %u", o->kind);
    if (o->kind != HF_MUTEX && !c->store->has_kinds)
        return hf__fail(HF_UNSUPPORTED, "this store supports only the kind HF_MUTEX%s",
                        c->store->no_kinds_reason ? c->store->no_kinds_reason
                                                  : "; Redis supports all kinds");
    return check_permits(o);
}

int64_t hf__lease_of(const hf_client *c, const hf_options *o) {
    return o->lease_ms ? o->lease_ms : c->url.lease_ms;
}

hf_result hf__acquire_check(hf_client *c, const hf_options *o) {
    hf_result kind = check_kind(c, o);
    if (kind) return kind;
    if (o->flags & ~(uint32_t)(HF_NO_RENEW | HF_NOT_REENTRANT | HF_FRESH_OWNER))
        return hf__fail(HF_UNSUPPORTED, "flags 0x%x contain a flag that this version does not know",
                        o->flags);
    if (o->flags & HF_FRESH_OWNER && o->owner)
        return hf__fail(
            HF_INVALID,
            "HF_FRESH_OWNER creates an owner, but the options also name one; use only one of them");
    if (o->wait_ms < 0 && o->wait_ms != HF_FOREVER)
        return hf__fail(HF_INVALID,
                        "wait_ms %" PRId64 " is negative; use HF_FOREVER to wait without a limit",
                        o->wait_ms);
    if (o->max_hold_ms && o->max_hold_ms < HF_LEASE_MIN_MS)
        return hf__fail(HF_INVALID, "max_hold_ms %" PRId64 " is below %" PRId64 "; 0 means none",
                        o->max_hold_ms, HF_LEASE_MIN_MS);
    return hf__lease_check(hf__lease_of(c, o));
}

hf__owner hf__owner_fresh(void) {
    return (hf__owner){hf__fresh_owner_id(), false};
}

hf__owner hf__owner_of(const hf_options *o) {
    if (o->flags & HF_FRESH_OWNER) return hf__owner_fresh();
    return (hf__owner){o->owner ? o->owner : hf__thread_id(), o->owner != 0};
}

void hf__acquire_fill(hf__wait *w, const hf_client *c, const hf_options *o, hf__owner owner,
                      hf__time now) {
    w->owner = owner;
    w->lease_ms = hf__lease_of(c, o);
    w->max_hold_ms = o->max_hold_ms;
    w->kind = o->kind;
    w->permits = o->kind == HF_PERMITS && !o->permits ? 1 : o->permits;
    w->capacity = o->capacity;
    w->flags = o->flags;
    w->try_once = o->wait_ms == 0;
    w->started_at = now;
    w->until = w->try_once ? HF__NEVER : hf__after_ms(now, o->wait_ms);
}

static hf_hold *hold_new(hf_client *c, hf_lost_fn *on_lost, void *arg) {
    hf_hold *hold = malloc(sizeof *hold);
    if (!hold) return NULL;
    atomic_fetch_add(&c->refs, 1); /* for the hold: on_lost may release it before we return */
    *hold = (hf_hold){.client = c, .refs = 1, .on_lost = on_lost, .arg = arg};
    return hold;
}

hf_result hf__acquire_prepare(hf_client *c, hf__wait *w, const hf_options *o) {
    hf_result r = hf__background_start(c);
    if (!r && o->on_lost) r = hf__callbacks_start(c);
    if (r) return r;
    hf_hold *hold = hf__wait_prepare(w) ? hold_new(c, o->on_lost, o->arg) : NULL;
    if (!hold) return hf__fail(HF_NOMEM, "out of memory; nothing was acquired");
    w->handle = &hold->handle;
    return HF_OK;
}

void hf__acquire_undo(hf_client *c, hf__wait *w) {
    if (w->handle) {
        atomic_fetch_sub(&c->refs, 1); /* the user's reference is left */
        free(hf__hold_of(w->handle));
    }
    hf__wait_discard(w);
}

static hf_result acquire_and_wait(hf_client *c, const char *name, size_t length,
                                  const hf_options *o, hf__wait *w) {
    if (o->cancel && atomic_load(&o->cancel->fired)) {
        hf__core_stats(c->core)->refused++;
        return hf__fail(HF_CANCELLED, "the cancel was fired before the call began");
    }
    hf_result r = hf__acquire_prepare(c, w, o);
    if (r) return r;
    hf__time now = hf__now();
    /* An exported hold has no owner, so it gets a new one. */
    hf__acquire_fill(w, c, o, w->exported ? hf__owner_fresh() : hf__owner_of(o), now);
    hf__core_acquire(c->core, w, name, length, now);
    hf__awaited how = hf__await(c, &w->call, hf__wait_until(c->core, w), o->cancel);
    if (how != HF__DONE) {
        hf__core_give_up(w, how == HF__FIRED ? HF_CANCELLED : HF_TIMEOUT, hf__now());
        hf__run_once(c, NULL);
    }
    return hf__call_result(&w->call);
}

hf_result hf__acquire(hf_client *c, const char *name, size_t length, hf_options *o,
                      const hf__exported *exported, hf_hold **hold) {
    hf_result r = hf__acquire_check(c, o);
    if (!r) r = hf__lease_fits(c, hf__lease_of(c, o), &o->wait_ms, o->cancel);
    if (r) return r;
    hf__wait w = {.exported = exported};
    r = acquire_and_wait(c, name, length, o, &w);
    if (r == HF_OK) {
        *hold = hf__hold_of(w.handle);
        return r;
    }
    hf__acquire_undo(c, &w);
    return r;
}

hf_result hf_acquire_v(hf_client *c, const char *name, const hf_options *options, size_t size,
                       hf_hold **hold) {
    size_t length;
    hf_options o;
    if (!hold) return hf__fail(HF_INVALID, "hf_acquire needs a pointer for the hold");
    *hold = NULL;
    hf_result r = hf__options_copy("hf_options", &o, sizeof o, options, size);
    if (!r) r = hf__name_check(name, &length);
    if (!r) r = hf__call_begin(c);
    if (r) return r;
    r = hf__acquire(c, name, length, &o, NULL, hold);
    hf__call_end(c);
    return r;
}

hf_result hf_lock(hf_client *c, const char *name, hf_hold **hold) {
    return hf_acquire(c, name, &(hf_options){.wait_ms = HF_FOREVER}, hold);
}

hf_result hf_try_lock(hf_client *c, const char *name, hf_hold **hold) {
    return hf_acquire(c, name, NULL, hold);
}
