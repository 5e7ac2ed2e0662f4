/* SPDX-License-Identifier: Apache-2.0 */
/* The holders and the queue of one lock: compatibility, grants and removal. See lock_state.h. */
#include "store/lock_state/lock_state.h"

#include <stdlib.h>

/* ---- Contenders ---- */

/* A client's mutex acquires form one class, and all other kinds form another. */
static bool same_client_and_class(const hf__contender *a, const hf__contender *b) {
    return a->client == b->client && (a->kind == HF_MUTEX) == (b->kind == HF_MUTEX);
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

/* ---- Holders ---- */

/* The state contains storage for one holder, which is enough in most cases. */
static hf__holder *alloc_holder(hf__lock_state *state) {
    if (!state->first_record.contender.client) return &state->first_record;
    return malloc(sizeof(hf__holder));
}

static void free_holder(hf__lock_state *state, hf__holder *holder) {
    if (holder == &state->first_record)
        holder->contender.client = NULL;
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

bool hf__lock_state_can_grant(const hf__lock_state *state, const hf__contender *contender) {
    occupancy f = {0};
    for (const hf__holder *it = state->holders; it; it = it->next) add_occupant(&f, &it->contender);
    for (const hf__waiter *it = state->waiters; it && !covers_contender(contender, &it->contender);
         it = it->next) {
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

size_t hf__lock_state_count_grantable(const hf__lock_state *state) {
    occupancy f = {0};
    size_t count = 0;
    for (const hf__holder *it = state->holders; it; it = it->next) add_occupant(&f, &it->contender);
    for (const hf__waiter *it = state->waiters; it && can_grant_waiter(state, &f, &it->contender);
         it = it->next) {
        add_occupant(&f, &it->contender);
        count++;
    }
    return count;
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

bool hf__lock_state_enqueue(hf__lock_state *state, const hf__contender *contender, bool before_all,
                            hf__time now) {
    hf__waiter **link = find_queue_link(state, contender);
    if (!*link) {
        hf__waiter *made = malloc(sizeof *made);
        if (!made) return false;
        if (before_all) link = &state->waiters;
        made->next = *link;
        made->tag = 0;
        *link = made;
    }
    (*link)->contender = *contender;
    (*link)->seen_at = now;
    return true;
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

static bool lease_is_over(const hf__holder *it, const void *now) {
    return *(const hf__time *)now >= it->expires;
}

static bool waiter_is_gone(const hf__waiter *it, const void *now) {
    return *(const hf__time *)now - it->seen_at >= HF__WAITER_TIMEOUT;
}

static bool holder_is_of_client(const hf__holder *it, const void *client) {
    return !client || it->contender.client == client;
}

static bool waiter_is_of_client(const hf__waiter *it, const void *client) {
    return !client || it->contender.client == client;
}

void hf__lock_state_expire(hf__lock_state *state, hf__time now) {
    remove_if(state, lease_is_over, waiter_is_gone, &now);
}

void hf__lock_state_remove_client(hf__lock_state *state, const hf__store_client *client) {
    remove_if(state, holder_is_of_client, waiter_is_of_client, client);
}
