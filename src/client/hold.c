/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on a hold: release, extend, upgrade, and queries. */
#include "client/hold.h"

#include <stdlib.h>

hf_result hf__hold_call_begin(const hf_hold *hold) {
    if (!hold) return hf__fail(HF_INVALID, "hold is NULL");
    if (hf__hold_forked(hold)) return hf__fail(HF_FORKED, "the hold belongs to the parent process");
    pthread_mutex_lock(&hold->client->mutex);
    hold->client->active_calls++;
    return HF_OK;
}

/* ---- References ---- */

static void free_part(hf_hold *hold) {
    hf_client *client = hold->client;
    hf__ownership_unref(hold->handle.ownership);
    free(hold);
    hf__client_unref(client);
}

static void free_hold(hf_hold *hold) {
    hf__bundle *bundle = hold->bundle;
    for (unsigned i = 1; bundle && i < bundle->count; i++) free_part(hf__hold_of(bundle->parts[i]));
    if (bundle) hf__event_free(bundle->lost_fd);
    free(bundle);
    free_part(hold);
}

hf_hold *hf_ref(hf_hold *hold) {
    if (hold) atomic_fetch_add_explicit(&hold->refs, 1, memory_order_relaxed);
    return hold;
}

/* Other threads find an unreleased handle through its ownership. So the last reference is dropped
   under the mutex, after the release. False: another reference was added meanwhile. */
static bool drop_last(hf_client *c, hf_hold *hold) {
    pthread_mutex_lock(&c->mutex);
    bool last = atomic_load(&hold->refs) == 1;
    if (last && !hf__handle_released(&hold->handle)) {
        hf__hold_release(c, hold, NULL, hf__now());
        hf__run_once(c, NULL);
    }
    hf__unlock(c);
    return last;
}

void hf_unref(hf_hold *hold) {
    if (!hold) return;
    unsigned refs = atomic_load(&hold->refs);
    for (;;) {
        bool last = refs == 1;
        if (last && !hf__hold_forked(hold) && !hf__handle_released(&hold->handle) &&
            !drop_last(hold->client, hold)) {
            refs = atomic_load(&hold->refs);
            continue;
        }
        if (atomic_compare_exchange_weak(&hold->refs, &refs, refs - 1)) {
            if (last) free_hold(hold);
            return;
        }
    }
}

/* ---- Releasing ---- */

void hf__hold_release(hf_client *c, hf_hold *hold, hf__call *call, hf__time now) {
    const hf__bundle *b = hold->bundle;
    hf__callback_cancel(c, &hold->lost);
    if (b)
        hf__core_release_all(c->core, b->parts, b->count, b->multi_release, call, now);
    else
        hf__core_release(c->core, &hold->handle, call, now);
}

void hf__hold_release_unwait(hf_client *c, const hf_hold *hold, hf__call *call) {
    const hf__bundle *b = hold->bundle;
    if (b)
        hf__core_release_all_unwait(b->multi_release, b->parts, hf__now());
    else
        hf__core_release_unwait(c->core, &hold->handle, call);
}

static hf_result release_held(hf_client *c, hf_hold *hold) {
    hf__call call = {0};
    hf__time now = hf__now();
    hf__hold_release(c, hold, &call, now);
    hf__time until = hf__command_until(c, now);
    if (hf__await(c, &call, until, NULL) != HF__DONE) {
        hf__hold_release_unwait(c, hold, &call);
        hf__run_once(c, NULL);
    }
    return hf__call_result(&call);
}

hf_result hf_release(hf_hold *hold) {
    if (!hold) return hf__fail(HF_INVALID, "hold is NULL");
    hf_client *c = hold->client;
    hf_result r;
    if (hf__hold_forked(hold)) {
        r = hf__fail(HF_FORKED, "the hold belongs to the parent process, and is still held there");
    } else {
        pthread_mutex_lock(&c->mutex);
        c->active_calls++;
        if (hf__handle_released(&hold->handle))
            r = hf__fail(HF_NOT_HELD, "the hold was already released");
        else
            r = release_held(c, hold);
        hf__callback_await(c, &hold->in_on_lost);
        hf__call_end(c);
    }
    hf_unref(hold);
    return r;
}

/* ---- Extending ---- */

static hf_result extend_one(hf_client *c, hf__handle *handle, int64_t lease_ms, hf__time until) {
    hf__call call = {0};
    hf__core_extend(c->core, handle, lease_ms, &call, hf__now());
    if (hf__await(c, &call, until, NULL) != HF__DONE) {
        hf__core_extend_unwait(c->core, handle, &call);
        hf__run_once(c, NULL);
    }
    return hf__call_result(&call);
}

/* One after the other. The first failure is the result. */
static hf_result extend_held(hf_client *c, const hf_hold *hold, int64_t lease_ms) {
    hf__time until = hf__command_until(c, hf__now());
    hf_result r = HF_OK;
    for (unsigned i = 0; i < hf__parts(hold) && !r; i++)
        r = extend_one(c, hf__part_at(hold, i), lease_ms, until);
    return r;
}

hf_result hf_extend(hf_hold *hold, int64_t lease_ms) {
    hf_result r = hf__hold_call_begin(hold);
    if (r) return r;
    hf_client *c = hold->client;
    r = hf__lease_check(lease_ms);
    if (!r) r = hf__lease_fits(c, lease_ms, &(int64_t){0}, NULL);
    if (!r && hf__handle_released(&hold->handle))
        r = hf__fail(HF_NOT_HELD, "the hold was released");
    if (!r) r = extend_held(c, hold, lease_ms);
    hf__call_end(c);
    return r;
}

/* ---- Upgrading and downgrading ---- */

static hf_result upgrade_held(hf_client *c, hf_hold *hold, int64_t wait_ms) {
    hf__wait w = {0};
    hf__time now = hf__now();
    w.try_once = wait_ms == 0;
    w.started_at = now;
    w.until = w.try_once ? HF__NEVER : hf__after_ms(now, wait_ms);
    hf__core_upgrade(c->core, &hold->handle, &w, now);
    if (hf__await(c, &w.call, hf__wait_until(c->core, &w), NULL) != HF__DONE) {
        hf__core_give_up(&w, HF_TIMEOUT, hf__now());
        hf__run_once(c, NULL);
    }
    return hf__call_result(&w.call);
}

static hf_result refuse_multi(void) {
    return hf__fail(HF_UNSUPPORTED, "a hold of several names cannot be upgraded or downgraded; "
                                    "release it, and acquire the kinds you need");
}

static hf_result check_upgrade(const hf_hold *hold, int64_t wait_ms) {
    uint32_t kind = hf__handle_holding(&hold->handle).kind;
    if (wait_ms < 0 && wait_ms != HF_FOREVER)
        return hf__fail(HF_INVALID, "wait_ms %" PRId64 " is negative", wait_ms);
    if (hf__handle_released(&hold->handle)) return hf__fail(HF_NOT_HELD, "the hold was released");
    if (hold->bundle) return refuse_multi();
    if (kind == HF_READ)
        return hf__fail(HF_DEADLOCK,
                        "a plain reader would wait for itself; acquire HF_UPGRADABLE to upgrade");
    if (kind != HF_UPGRADABLE && kind != HF_WRITE)
        return hf__fail(HF_INVALID, "only an HF_UPGRADABLE hold can be upgraded");
    return HF_OK;
}

hf_result hf_upgrade(hf_hold *hold, int64_t wait_ms) {
    hf_result r = hf__hold_call_begin(hold);
    if (r) return r;
    hf_client *c = hold->client;
    r = check_upgrade(hold, wait_ms);
    if (!r) r = upgrade_held(c, hold, wait_ms);
    hf__call_end(c);
    return r;
}

static hf_result downgrade_held(hf_client *c, hf__handle *handle) {
    hf__call call = {0};
    hf__time now = hf__now();
    hf__core_downgrade(c->core, handle, &call, now);
    if (hf__await(c, &call, hf__command_until(c, now), NULL) != HF__DONE) {
        hf__core_extend_unwait(c->core, handle, &call);
        hf__run_once(c, NULL);
    }
    hf_result r = hf__call_result(&call);
    bool known = r == HF_OK || r == HF_LOST || r == HF_NOT_HELD || r == HF_CLOSED;
    return known ? r : HF_UNKNOWN_OUTCOME; /* the next RENEW repeats the new kind */
}

hf_result hf_downgrade(hf_hold *hold) {
    hf_result r = hf__hold_call_begin(hold);
    if (r) return r;
    hf_client *c = hold->client;
    uint32_t kind = hf__handle_holding(&hold->handle).kind;
    if (hf__handle_released(&hold->handle))
        r = hf__fail(HF_NOT_HELD, "the hold was released");
    else if (hold->bundle)
        r = refuse_multi();
    else if (kind == HF_MUTEX || kind == HF_PERMITS)
        r = hf__fail(HF_INVALID, "only an HF_WRITE hold can be downgraded");
    else
        r = downgrade_held(c, &hold->handle);
    hf__call_end(c);
    return r;
}

/* ---- Queries ---- */

static bool is_usable(const hf_hold *hold) {
    return hold && !hf__handle_released(&hold->handle) && !hf__hold_forked(hold);
}

/* Until when all parts are valid; 0: not all are. */
static hf__time valid_until(const hf_hold *hold, hf__time now) {
    hf__time until = HF__NEVER;
    for (unsigned i = 0; until && i < hf__parts(hold); i++)
        until = hf__sooner(until, hf__handle_valid_until(hf__part_at(hold, i), now));
    return until;
}

bool hf__hold_valid(const hf_hold *hold, hf__time now) {
    return valid_until(hold, now) != 0;
}

int32_t hf_held(const hf_hold *hold) {
    return is_usable(hold) && hf__hold_valid(hold, hf__now());
}

int64_t hf_remaining_ms(const hf_hold *hold) {
    hf__time now = hf__now(), until = is_usable(hold) ? valid_until(hold, now) : 0;
    return until > now ? (until - now) / HF__MS : 0;
}

uint64_t hf_fence(const hf_hold *hold) {
    return hf_fence_of(hold, 0);
}

uint64_t hf_fence_of(const hf_hold *hold, size_t i) {
    if (!hold) return 0;
    const hf__bundle *b = hold->bundle;
    if (i >= (b ? b->requests : 1)) return 0;
    return hf__handle_token(hf__part_at(hold, b ? b->part_of[i] : 0));
}

const char *hf_why_lost(const hf_hold *hold) {
    const char *why = NULL;
    for (unsigned i = 0; hold && !why && i < hf__parts(hold); i++)
        why = hf__handle_lost_reason(hf__part_at(hold, i));
    return why;
}

/* Checks all parts, as of now. */
static bool any_part_lost(const hf_hold *hold) {
    bool any = false;
    for (unsigned i = 0; i < hf__parts(hold); i++)
        any |= hf__handle_lost(hf__part_at(hold, i), hf__now());
    return any;
}

int32_t hf_lost_fd(hf_hold *hold) {
    if (!hold || hf__hold_forked(hold)) return -1;
    hf_client *c = hold->client;
    int *fd = hold->bundle ? &hold->bundle->lost_fd : hf__handle_lost_fd(&hold->handle);
    pthread_mutex_lock(&c->mutex);
    bool is_lost = any_part_lost(hold);
    if (*fd < 0) *fd = hf__event_new();
    if (is_lost) hf__event_set(*fd);
    hf__run_once(c, NULL);
    int32_t out = *fd;
    hf__unlock(c);
    return out;
}
