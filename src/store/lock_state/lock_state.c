/* See lock_state.h. */
#include "store/lock_state/lock_state.h"

#include <stdlib.h>

/* ---- Parties ---- */

/* Of the client, and of its one mutex or of the rest. */
static bool related(const hf__contender *a, const hf__contender *b) {
    return a->client == b->client && (a->kind == HF_MUTEX) == (b->kind == HF_MUTEX);
}

static bool same(const hf__contender *a, const hf__contender *b) {
    return related(a, b) && a->number == b->number;
}

/* Whether what is done for `contender` is done for `it`. */
static bool stands_for(const hf__contender *contender, const hf__contender *it) {
    if (contender->kind != HF_MUTEX) return same(contender, it);
    return related(contender, it) && it->number <= contender->number;
}

static bool supersedes(const hf__contender *it, const hf__contender *contender) {
    return it->kind == HF_MUTEX && related(it, contender) && it->number > contender->number;
}

/* ---- What fits together ---- */

typedef struct filling {
    bool exclusive, readers, upgradable;
    uint32_t capacity; /* of the permits; 0: there are none */
    uint64_t permits;
} filling;

static bool fits(const filling *f, const hf__contender *contender) {
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

static void fill(filling *f, const hf__contender *contender) {
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

/* ---- Inside ---- */

/* One record is part of the room, and most often the only one. */
static hf__holder *new_record(hf__lock_state *state) {
    if (!state->record.contender.client) return &state->record;
    return malloc(sizeof(hf__holder));
}

static void free_record(hf__lock_state *state, hf__holder *holder) {
    if (holder == &state->record)
        holder->contender.client = NULL;
    else
        free(holder);
}

hf__holder *hf__lock_state_find_holder(const hf__lock_state *state,
                                       const hf__contender *contender) {
    hf__holder *it = state->holders;
    while (it && !same(&it->contender, contender)) it = it->next;
    return it;
}

hf__holder *hf__lock_state_add_holder(hf__lock_state *state, const hf__contender *contender) {
    hf__holder *made = new_record(state), **link = &state->holders;
    if (!made) return NULL;
    *made = (hf__holder){.contender = *contender};
    while (*link) link = &(*link)->next;
    *link = made;
    if (state->waiters) hf__lock_state_dequeue(state, contender);
    return made;
}

static void end_at(hf__lock_state *state, hf__holder **link) {
    hf__holder *ended = *link;
    *link = ended->next;
    if (state->waiters && ended->contender.kind == HF_UPGRADABLE)
        hf__lock_state_dequeue(state, &ended->contender);
    free_record(state, ended);
}

/* Which holds, or which places, something is done to. */
typedef bool which_holder(const hf__holder *it, const void *arg);
typedef bool which_waiter(const hf__waiter *it, const void *arg);

static bool end_those(hf__lock_state *state, which_holder *meant, const void *arg) {
    bool ended = false;
    for (hf__holder **link = &state->holders; *link;) {
        if (meant(*link, arg)) {
            end_at(state, link);
            ended = true;
        } else {
            link = &(*link)->next;
        }
    }
    return ended;
}

static bool holds_for(const hf__holder *it, const void *contender) {
    return stands_for(contender, &it->contender);
}

static bool has_token(const hf__holder *it, const void *token) {
    return !*(const uint64_t *)token || it->token == *(const uint64_t *)token;
}

bool hf__lock_state_end_holds_of(hf__lock_state *state, const hf__contender *contender) {
    return end_those(state, holds_for, contender);
}

bool hf__lock_state_end_token(hf__lock_state *state, uint64_t token) {
    return end_those(state, has_token, &token);
}

/* ---- In line ---- */

static void leave_at(hf__waiter **link) {
    hf__waiter *left = *link;
    *link = left->next;
    free(left);
}

/* Where it stands, or where the line ends. */
static hf__waiter **place_of(hf__lock_state *state, const hf__contender *contender) {
    hf__waiter **link = &state->waiters;
    while (*link && !stands_for(contender, &(*link)->contender)) link = &(*link)->next;
    return link;
}

bool hf__lock_state_can_grant(const hf__lock_state *state, const hf__contender *contender) {
    filling f = {0};
    for (const hf__holder *it = state->holders; it; it = it->next) fill(&f, &it->contender);
    for (const hf__waiter *it = state->waiters; it && !stands_for(contender, &it->contender);
         it = it->next) {
        if (!fits(&f, &it->contender)) return false;
        fill(&f, &it->contender); /* as if it had entered, which it may do at any moment */
    }
    return fits(&f, contender);
}

/* An upgrade waits for those beside it, and for nobody else. */
static bool may_enter(const hf__lock_state *state, const filling *f,
                      const hf__contender *contender) {
    if (hf__lock_state_find_holder(state, contender)) return !state->holders->next;
    return fits(f, contender);
}

size_t hf__lock_state_count_grantable(const hf__lock_state *state) {
    filling f = {0};
    size_t count = 0;
    for (const hf__holder *it = state->holders; it; it = it->next) fill(&f, &it->contender);
    for (const hf__waiter *it = state->waiters; it && may_enter(state, &f, &it->contender);
         it = it->next) {
        fill(&f, &it->contender);
        count++;
    }
    return count;
}

bool hf__lock_state_is_superseded(const hf__lock_state *state, const hf__contender *contender) {
    for (const hf__holder *it = state->holders; it; it = it->next)
        if (supersedes(&it->contender, contender)) return true;
    for (const hf__waiter *it = state->waiters; it; it = it->next)
        if (supersedes(&it->contender, contender)) return true;
    return false;
}

hf__waiter *hf__lock_state_find_waiter(const hf__lock_state *state,
                                       const hf__contender *contender) {
    hf__waiter *it = state->waiters;
    while (it && !same(&it->contender, contender)) it = it->next;
    return it;
}

bool hf__lock_state_enqueue(hf__lock_state *state, const hf__contender *contender, bool before_all,
                            hf__time now) {
    hf__waiter **link = place_of(state, contender);
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
    hf__waiter **link = place_of(state, contender);
    if (*link) leave_at(link);
}

bool hf__lock_state_has_other_waiters(const hf__lock_state *state, const hf__contender *contender) {
    const hf__waiter *first = state->waiters;
    return first && (first->next || !same(&first->contender, contender));
}

/* ---- Both ---- */

static void remove_those(hf__lock_state *state, which_holder *holders, which_waiter *waiters,
                         const void *arg) {
    (void)end_those(state, holders, arg);
    for (hf__waiter **link = &state->waiters; *link;) {
        if (waiters(*link, arg))
            leave_at(link);
        else
            link = &(*link)->next;
    }
}

static bool is_over(const hf__holder *it, const void *now) {
    return *(const hf__time *)now >= it->expires;
}

static bool is_gone(const hf__waiter *it, const void *now) {
    return *(const hf__time *)now - it->seen_at >= HF__WAITER_TIMEOUT;
}

static bool holder_is_of(const hf__holder *it, const void *client) {
    return !client || it->contender.client == client;
}

static bool waiter_is_of(const hf__waiter *it, const void *client) {
    return !client || it->contender.client == client;
}

void hf__lock_state_expire(hf__lock_state *state, hf__time now) {
    remove_those(state, is_over, is_gone, &now);
}

void hf__lock_state_remove_client(hf__lock_state *state, const hf__store_client *client) {
    remove_those(state, holder_is_of, waiter_is_of, client);
}
