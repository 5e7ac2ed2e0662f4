/* SPDX-License-Identifier: Apache-2.0 */
/* The holders and the queue of one lock: compatibility, grants and removal. See lock_state.h. */
#include "store/lock_state/lock_state.h"

#include <stdlib.h>

/* ---- Contenders ---- */

/* A client's mutex acquires form one class, and all other kinds form another. */
static bool same_client_and_class(const hf__contender *a, const hf__contender *b) {
    return hf__client_id_is_same(a->client, b->client) &&
           (a->kind == HF_MUTEX) == (b->kind == HF_MUTEX);
}

static bool same_contender(const hf__contender *a, const hf__contender *b) {
    return same_client_and_class(a, b) && a->acquire_id == b->acquire_id;
}

/* Whether an operation for `contender` also applies to `it`: a mutex covers all lower acquire
   ids. */
static bool covers_contender(const hf__contender *contender, const hf__contender *it) {
    if (contender->kind != HF_MUTEX) return same_contender(contender, it);
    return same_client_and_class(contender, it) && it->acquire_id <= contender->acquire_id;
}

static bool supersedes_contender(const hf__contender *it, const hf__contender *contender) {
    return it->kind == HF_MUTEX && same_client_and_class(it, contender) &&
           it->acquire_id > contender->acquire_id;
}

/* ---- Compatibility ---- */

typedef struct occupancy {
    bool exclusive, readers, upgradable;
    uint32_t capacity; /* of the permits; 0: no permits are held */
    uint64_t permits;
} occupancy;

static bool fits_beside(const occupancy *f, const hf__contender *contender) {
    switch (contender->kind) {
    case HF_READ: return !f->exclusive && !f->capacity;
    case HF_UPGRADABLE: return !f->exclusive && !f->capacity && !f->upgradable;
    case HF_PERMITS:
        if (f->capacity && f->capacity != contender->capacity) return false;
        return !f->exclusive && !f->readers &&
               f->permits + contender->permits <= contender->capacity;
    default: return !f->exclusive && !f->readers && !f->capacity;
    }
}

static void add_occupant(occupancy *f, const hf__contender *contender) {
    switch (contender->kind) {
    case HF_UPGRADABLE: f->upgradable = true; /* fall through */
    case HF_READ: f->readers = true; break;
    case HF_PERMITS:
        f->capacity = contender->capacity;
        f->permits += contender->permits;
        break;
    default: f->exclusive = true;
    }
}

bool hf__lock_state_holders_are_valid(const hf__lock_state *state) {
    occupancy f = {0};
    uint64_t last = 0;
    for (const hf__holder *it = state->holders; it; last = it->token, it = it->next) {
        if (it->token <= last || !fits_beside(&f, &it->contender)) return false;
        add_occupant(&f, &it->contender);
    }
    return last <= state->last_token;
}

/* ---- Holders ---- */

/* The state contains storage for one holder, which is enough in most cases. */
static hf__holder *alloc_holder(hf__lock_state *state) {
    if (state->first_record_in_use) return malloc(sizeof(hf__holder));
    state->first_record_in_use = true;
    return &state->first_record;
}

static void free_holder(hf__lock_state *state, hf__holder *holder) {
    if (holder == &state->first_record)
        state->first_record_in_use = false;
    else
        free(holder);
}

hf__holder *hf__lock_state_find_holder(const hf__lock_state *state,
                                       const hf__contender *contender) {
    hf__holder *it = state->holders;
    while (it && !same_contender(&it->contender, contender)) it = it->next;
    return it;
}

hf__holder *hf__lock_state_add_holder(hf__lock_state *state, const hf__contender *contender) {
    hf__holder *made = alloc_holder(state), **link = &state->holders;
    if (!made) return NULL;
    *made = (hf__holder){.contender = *contender};
    while (*link) link = &(*link)->next;
    *link = made;
    if (state->waiters) hf__lock_state_dequeue(state, contender);
    return made;
}

static void end_hold_at(hf__lock_state *state, hf__holder **link) {
    hf__holder *ended = *link;
    *link = ended->next;
    if (state->waiters && ended->contender.kind == HF_UPGRADABLE)
        hf__lock_state_dequeue(state, &ended->contender);
    free_holder(state, ended);
}

/* Select the holders, or the waiters, to remove. */
typedef bool holder_predicate(const hf__holder *it, const void *arg);
typedef bool waiter_predicate(const hf__waiter *it, const void *arg);

static bool end_holds_if(hf__lock_state *state, holder_predicate *matches, const void *arg) {
    bool ended = false;
    for (hf__holder **link = &state->holders; *link;) {
        if (matches(*link, arg)) {
            end_hold_at(state, link);
            ended = true;
        } else {
            link = &(*link)->next;
        }
    }
    return ended;
}

static bool holder_is_covered(const hf__holder *it, const void *contender) {
    return covers_contender(contender, &it->contender);
}

static bool holder_has_token(const hf__holder *it, const void *token) {
    return !*(const uint64_t *)token || it->token == *(const uint64_t *)token;
}

bool hf__lock_state_end_holds_of(hf__lock_state *state, const hf__contender *contender) {
    return end_holds_if(state, holder_is_covered, contender);
}

bool hf__lock_state_end_token(hf__lock_state *state, uint64_t token) {
    return end_holds_if(state, holder_has_token, &token);
}

/* ---- Waiters ---- */

static void remove_waiter_at(hf__waiter **link) {
    hf__waiter *removed = *link;
    *link = removed->next;
    free(removed);
}

/* The link to its waiter, or the link at the end of the queue. */
static hf__waiter **find_queue_link(hf__lock_state *state, const hf__contender *contender) {
    hf__waiter **link = &state->waiters;
    while (*link && !covers_contender(contender, &(*link)->contender)) link = &(*link)->next;
    return link;
}

static bool is_reachable(const hf__lock_env *env, const hf__waiter *it) {
    return !env->is_reachable || env->is_reachable(env->store, it->contender.client);
}

static occupancy occupancy_of_holders(const hf__lock_state *state) {
    occupancy f = {0};
    for (const hf__holder *it = state->holders; it; it = it->next) add_occupant(&f, &it->contender);
    return f;
}

bool hf__lock_state_can_grant(const hf__lock_state *state, const hf__lock_env *env,
                              const hf__contender *contender) {
    occupancy f = occupancy_of_holders(state);
    for (const hf__waiter *it = state->waiters; it && !covers_contender(contender, &it->contender);
         it = it->next) {
        if (!is_reachable(env, it)) continue;
        if (!fits_beside(&f, &it->contender)) return false;
        add_occupant(&f, &it->contender); /* count it as granted: it may be at any moment */
    }
    return fits_beside(&f, contender);
}

/* An upgrade waits only until it is the sole holder. */
static bool can_grant_waiter(const hf__lock_state *state, const occupancy *f,
                             const hf__contender *contender) {
    if (hf__lock_state_find_holder(state, contender)) return !state->holders->next;
    return fits_beside(f, contender);
}

void hf__lock_state_mark_grantable(hf__lock_state *state, const hf__lock_env *env) {
    occupancy f = occupancy_of_holders(state);
    bool blocked = false;
    for (hf__waiter *it = state->waiters; it; it = it->next) {
        it->can_be_granted = false;
        if (blocked || !is_reachable(env, it)) continue;
        it->can_be_granted = can_grant_waiter(state, &f, &it->contender);
        blocked = !it->can_be_granted;
        add_occupant(&f, &it->contender);
    }
}

bool hf__lock_state_is_superseded(const hf__lock_state *state, const hf__contender *contender) {
    for (const hf__holder *it = state->holders; it; it = it->next)
        if (supersedes_contender(&it->contender, contender)) return true;
    for (const hf__waiter *it = state->waiters; it; it = it->next)
        if (supersedes_contender(&it->contender, contender)) return true;
    return false;
}

hf__waiter *hf__lock_state_find_waiter(const hf__lock_state *state,
                                       const hf__contender *contender) {
    hf__waiter *it = state->waiters;
    while (it && !same_contender(&it->contender, contender)) it = it->next;
    return it;
}

static bool queue_is_full(const hf__lock_state *state, uint32_t max) {
    uint32_t count = 0;
    for (const hf__waiter *it = state->waiters; it && count < max; it = it->next) count++;
    return max && count == max;
}

hf__waiter *hf__lock_state_enqueue(hf__lock_state *state, const hf__contender *contender,
                                   bool before_all, uint32_t max) {
    hf__waiter **link = find_queue_link(state, contender);
    if (!*link) {
        hf__waiter *made = queue_is_full(state, max) ? NULL : calloc(1, sizeof *made);
        if (!made) return NULL;
        if (before_all) link = &state->waiters;
        made->next = *link;
        *link = made;
    }
    (*link)->contender = *contender;
    return *link;
}

void hf__lock_state_dequeue(hf__lock_state *state, const hf__contender *contender) {
    hf__waiter **link = find_queue_link(state, contender);
    if (*link) remove_waiter_at(link);
}

bool hf__lock_state_has_other_waiters(const hf__lock_state *state, const hf__contender *contender) {
    const hf__waiter *first = state->waiters;
    return first && (first->next || !same_contender(&first->contender, contender));
}

/* ---- Holders and waiters ---- */

static void remove_if(hf__lock_state *state, holder_predicate *holders, waiter_predicate *waiters,
                      const void *arg) {
    (void)end_holds_if(state, holders, arg);
    for (hf__waiter **link = &state->waiters; *link;) {
        if (waiters(*link, arg))
            remove_waiter_at(link);
        else
            link = &(*link)->next;
    }
}

static bool lease_is_over(const hf__holder *it, const void *env) {
    return ((const hf__lock_env *)env)->now >= it->expires;
}

static bool waiter_is_gone(const hf__waiter *it, const void *env) {
    const hf__lock_env *at = env;
    return at->now - it->seen_at >= at->waiter_timeout;
}

static bool holder_is_of_client(const hf__holder *it, const void *client) {
    return hf__client_id_is_same(it->contender.client, *(const hf__client_id *)client);
}

static bool waiter_is_of_client(const hf__waiter *it, const void *client) {
    return hf__client_id_is_same(it->contender.client, *(const hf__client_id *)client);
}

void hf__lock_state_expire(hf__lock_state *state, const hf__lock_env *env) {
    remove_if(state, lease_is_over, waiter_is_gone, env);
}

void hf__lock_state_remove_client(hf__lock_state *state, hf__client_id client) {
    remove_if(state, holder_is_of_client, waiter_is_of_client, &client);
}

void hf__lock_state_fini(hf__lock_state *state) {
    while (state->waiters) remove_waiter_at(&state->waiters);
    while (state->holders) end_hold_at(state, &state->holders);
    *state = (hf__lock_state){0};
}
