/* SPDX-License-Identifier: Apache-2.0 */
#include "world/kinds.h"

#include <inttypes.h>
#include <string.h>

#include "world/client.h"
#include "world/probe.h"
#include "world/queue.h"
#include "world/server.h"

/* How long a client may rely on the answer that nobody waits, plus clock differences. */
#define JOINED_MOST_US 102000

/* ---- Who holds ---- */

static bool same_holder(const sim_holder *a, const sim_holder *b) {
    return a->slot == b->slot && a->number == b->number && a->acquire_id == b->acquire_id &&
           a->side == b->side;
}

static const sim_holder *find_holder(const sim_holding *holding, const sim_holder *h) {
    for (size_t i = 0; i < holding->count; i++)
        if (same_holder(&holding->at[i], h)) return &holding->at[i];
    return NULL;
}

static const sim_holder *find_acquire(const sim_holding *holding, int slot, int number,
                                      uint64_t acquire_id) {
    for (size_t i = 0; i < holding->count; i++) {
        const sim_holder *h = &holding->at[i];
        if (h->slot == slot && h->number == number && h->acquire_id == acquire_id) return h;
    }
    return NULL;
}

static bool is_exclusive(const sim_holder *h) {
    return h->kind == 'm' || h->kind == 'w' || h->kind == 'g';
}

static bool has_expired(const sim_world *w, const sim_holder *h) {
    return sim_server_ms(w) * 1000 > h->ends_us;
}

bool sim_kinds_held(sim_world *w, int name) {
    sim_holding holding;
    sim_probe_holding(w, name, &holding);
    return holding.count > 0;
}

bool sim_kinds_has(sim_world *w, const sim_client *c, int name, uint64_t acquire_id) {
    sim_holding holding;
    sim_probe_holding(w, name, &holding);
    return find_acquire(&holding, c->slot, c->number, acquire_id) != NULL;
}

/* ---- What clients think ---- */

static bool covers_claim(const sim_holder *h, const sim_claim *claim) {
    const hf__ownership *ownership = claim->own;
    /* The client has not learned of its upgrade. */
    bool not_notified = h->before == ownership->token && ownership->kind != HF_WRITE;
    if (h->token != ownership->token && !not_notified) return false;
    switch (ownership->kind) {
    case HF_MUTEX: return h->kind == 'm';
    case HF_WRITE: return h->kind == 'w' || h->kind == 'g';
    case HF_UPGRADABLE: return h->kind == 'u' || h->kind == 'g';
    case HF_READ: return h->kind == 'r' || h->kind == 'w';
    case HF_PERMITS: return h->kind == 'p' && h->weight == claim->weight;
    }
    return false;
}

static void check_count(sim_world *w, const sim_claim *claim, const sim_holder *h) {
    const hf__ownership *ownership = claim->own;
    if (h->miscounted || !ownership->entry || ownership->entry->busy ||
        ownership->entry->grant->posted_count != ownership->count ||
        ownership->entry->grant->renew_tries)
        return;
    if (ownership->kind != HF_WRITE && h->before == ownership->token)
        return; /* upgraded, but not yet notified */
    if (h->count != ownership->count)
        sim_fail(w, claim->name,
                 "client %d entered %s %u times, but the server's count is %" PRId64,
                 claim->client->slot, sim_names[claim->name], ownership->count, h->count);
}

static void check_capacity(sim_world *w, const sim_claim *claim) {
    uint32_t used = 0;
    for (const sim_claim *c = w->checks.claims; c; c = c->next)
        if (c->name == claim->name && c->own->kind == HF_PERMITS && sim_checks_good(c) &&
            !sim_checks_excused(w, c))
            used += c->weight;
    if (used > claim->capacity)
        sim_fail(w, claim->name, "%" PRIu32 " permits of %s are held, but the capacity is %" PRIu32,
                 used, sim_names[claim->name], claim->capacity);
}

void sim_kinds_claim(sim_world *w, const sim_claim *claim, bool looked) {
    const hf__ownership *ownership = claim->own;
    if (sim_checks_excused(w, claim)) return;
    const sim_holder *h = find_acquire(&w->checks.holdings[claim->name], claim->client->slot,
                                       claim->client->number, ownership->acquire_id);
    if (!h || has_expired(w, h) || !covers_claim(h, claim))
        sim_fail(w, claim->name,
                 "client %d holds %s as kind %" PRIu32 ", acquire id %" PRIu64 ", token %" PRIu64
                 ", for %.3f ms more, but in the server's data as %c, token %" PRIu64,
                 claim->client->slot, sim_names[claim->name], ownership->kind,
                 ownership->acquire_id, ownership->token,
                 (double)(atomic_load(&ownership->deadline) - sim_client_now(claim->client)) /
                     HF__MS,
                 h && !has_expired(w, h) ? h->kind : '-', h ? h->token : 0);
    if (looked) check_count(w, claim, h);
    if (ownership->kind == HF_PERMITS) check_capacity(w, claim);
}

/* Returns true if both may hold at the same time. */
bool sim_kinds_agree(const sim_claim *a, const sim_claim *b) {
    uint32_t one = a->own->kind, other = b->own->kind;
    if (one == HF_PERMITS && other == HF_PERMITS) return a->capacity == b->capacity;
    bool read =
        (one == HF_READ || one == HF_UPGRADABLE) && (other == HF_READ || other == HF_UPGRADABLE);
    return read && !(one == HF_UPGRADABLE && other == HF_UPGRADABLE);
}

/* ---- Calls that ended ---- */

/* An exclusive holder's token is above all before it, and below all that enter after it. */
static void check_token(sim_world *w, sim_claim *claim) {
    sim_name *n = &w->checks.names[claim->name];
    uint64_t token = claim->own->token;
    bool excludes = claim->own->kind == HF_MUTEX || claim->own->kind == HF_WRITE;
    bool may_fall = sim_checks_excused(w, claim) || (w->checks.data_lost && w->checks.set_back);
    uint64_t last = excludes ? n->entered : n->excluded;
    bool goes_on = excludes && token == n->excluded && token == last && claim->upgraded;
    if (token <= last && !may_fall && !goes_on)
        sim_fail(w, claim->name,
                 "%s was entered under token %" PRIu64 ", which is not above %" PRIu64,
                 sim_names[claim->name], token, last);
    if (token > n->entered) n->entered = token;
    if (excludes && token > n->excluded) n->excluded = token;
    claim->upgraded = excludes;
}

void sim_kinds_entered(sim_world *w, sim_claim *claim) {
    check_token(w, claim);
}

static bool had_it(const hf__ownership *ownership, const hf__handle *hold) {
    for (const hf__handle *h = ownership->handles.first; h; h = h->link.next)
        if (h != hold && hf__owner_same(h->owner, hold->owner)) return true;
    return false;
}

/* A reader that joined a hold of its own client at once must not have passed waiters. */
void sim_kinds_joined(sim_world *w, const sim_caller *t) {
    const sim_client *c = t->client;
    const sim_queue *queue = &w->checks.queues[t->name];
    const hf__ownership *ownership = t->wait.handle->ownership;
    if (t->began != sim_client_now(c) || !ownership->entry || had_it(ownership, t->wait.handle))
        return;
    if (w->checks.names[t->name].lost_at || ownership->kind != HF_READ) return;
    sim_server_clock(w);
    for (size_t i = 0; i < queue->count && !w->checks.stepped; i++) {
        const sim_waiter *s = &queue->at[i];
        if (s->kind != 'r' && w->server.now_us - s->since_us > JOINED_MOST_US && s->since_us)
            sim_fail(w, t->name, "client %d.%d joined a read of %s although client %d waits",
                     c->slot, t->index, sim_names[t->name], s->slot);
    }
    for (int i = 0; i < c->caller_count; i++) {
        const sim_caller *other = &c->callers[i];
        if (other->doing == SIM_ACQUIRING && other->name == t->name && !other->wait.call.done &&
            t->began - other->began > JOINED_MOST_US * 1000 && other->wait.kind != HF_READ)
            sim_fail(w, t->name, "client %d.%d joined a read of %s although caller %d.%d waits",
                     c->slot, t->index, sim_names[t->name], c->slot, other->index);
    }
}

static sim_claim *claim_of(const sim_world *w, const hf__ownership *ownership) {
    sim_claim *claim = w->checks.claims;
    while (claim && claim->own != ownership) claim = claim->next;
    return claim;
}

void sim_kinds_upgraded(sim_world *w, const sim_caller *t) {
    const hf__ownership *ownership = t->hold->hold->ownership;
    sim_claim *claim = claim_of(w, ownership);
    if (t->wait.call.result != HF_OK || !claim || !sim_checks_good(claim)) return;
    if (!t->wait.by_acquire_id.key || ownership->kind != HF_WRITE)
        return; /* another caller did it, or undid it */
    check_token(w, claim);
}

void sim_kinds_downgraded(sim_world *w, const sim_caller *t) {
    const hf__ownership *ownership = t->hold->hold->ownership;
    const sim_client *c = t->client;
    sim_holding holding;
    if (t->call.result != HF_OK || !ownership->entry || ownership->entry->waits.first ||
        ownership->entry->busy)
        return;
    if (ownership->kind == HF_WRITE || w->checks.stepped) return;
    const sim_holder *h =
        find_acquire(&w->checks.holdings[t->name], c->slot, c->number, ownership->acquire_id);
    if (h && h->stray) return;
    sim_probe_holding(w, t->name, &holding);
    h = find_acquire(&holding, c->slot, c->number, ownership->acquire_id);
    if (h && is_exclusive(h))
        sim_fail(w, t->name, "client %d.%d has downgraded %s, but the server has not", c->slot,
                 t->index, sim_names[t->name]);
}

void sim_kinds_broken(sim_world *w, int name) {
    const sim_holding *was = &w->checks.holdings[name];
    sim_holding now;
    sim_probe_holding(w, name, &now);
    for (size_t i = 0; i < was->count; i++) {
        const sim_holder *h = &was->at[i];
        if (find_holder(&now, h)) continue;
        sim_checks_note_broken(w, name, h->token);
        for (sim_claim *claim = w->checks.claims; claim; claim = claim->next)
            if (claim->name == name && claim->client->slot == h->slot &&
                claim->client->number == h->number && claim->own->acquire_id == h->acquire_id)
                claim->empty = true;
    }
}

/* ---- What the server has ---- */

/* A new or upgraded holder must have a higher token than all before it. */
static void check_grant(sim_world *w, int name, const sim_holder *was, const sim_holder *h) {
    sim_name *n = &w->checks.names[name];
    bool back = was && (h->token == was->token || h->token == was->before);
    /* A clock that was set back revives expired holders. */
    if (!back && h->token <= n->granted && !w->checks.set_back)
        sim_fail(w, name, "%s was granted with token %" PRIu64 ", which is not above %" PRIu64,
                 sim_names[name], h->token, n->granted);
}

static void carry_history(sim_world *w, int name, sim_holder *h, const sim_holder *was, bool late) {
    const sim_name *n = &w->checks.names[name];
    if (!was) {
        h->stray = late && n->exposed;
        h->since = w->now;
        return;
    }
    bool more = is_exclusive(h) && !is_exclusive(was);
    h->stray = was->stray || (late && (h->ends_us > was->ends_us || more));
    h->miscounted = was->miscounted;
    h->since = more ? w->now : was->since;
}

/* Compares the last known holders of a name with the server's data now. */
static void read_holders(sim_world *w, int name, bool late, sim_holding *now) {
    const sim_holding *was = &w->checks.holdings[name];
    uint64_t granted = w->checks.names[name].granted;
    sim_probe_holding(w, name, now);
    for (size_t i = 0; i < now->count; i++) {
        sim_holder *h = &now->at[i];
        const sim_holder *before = find_holder(was, h);
        check_grant(w, name, before, h);
        carry_history(w, name, h, before, late);
        if (h->token > granted) granted = h->token;
    }
    w->checks.names[name].granted = granted;
}

static void keep_holders(sim_world *w, int name, const sim_holding *now) {
    sim_holding *kept = &w->checks.holdings[name];
    kept->count = now->count;
    kept->capacity = now->capacity;
    memcpy(kept->at, now->at, now->count * sizeof *now->at);
}

void sim_kinds_reread(sim_world *w, int name) {
    sim_holding now;
    read_holders(w, name, false, &now);
    keep_holders(w, name, &now);
}

/* ---- After a script ---- */

typedef struct kinds_step {
    const rm_ran *ran;
    int name;
    bool late;
    const sim_holding *before, *now;
    const sim_queue *was;
    sim_queue *queue;
    bool has_actor;
    int slot, number; /* the client that the script acts for */
    uint64_t acquire_id;
    uint64_t next; /* next acquire of the same client in this script; 0: none */
} kinds_step;

static const sim_waiter *find_position(const sim_queue *queue, const sim_waiter *s) {
    for (size_t i = 0; i < queue->count; i++)
        if (sim_probe_same_position(&queue->at[i], s)) return &queue->at[i];
    return NULL;
}

/* Returns true if the waiter now holds what it was queued for. */
static bool got_lock(const kinds_step *l, const sim_waiter *s) {
    for (size_t i = 0; i < l->now->count; i++) {
        const sim_holder *h = &l->now->at[i];
        if (h->slot != s->slot || h->number != s->number || h->side != s->side) continue;
        if (!s->side) return true;
        if (h->acquire_id == s->acquire_id) return s->kind != 'g' || h->kind == 'g';
    }
    return false;
}

static bool still_holds(const kinds_step *l, const sim_waiter *s) {
    return find_acquire(l->now, s->slot, s->number, s->acquire_id) != NULL;
}

static void check_marks(sim_world *w, const kinds_step *l) {
    if (!l->queue->count) return;
    if (!l->queue->fence_says)
        sim_fail(w, l->name, "%s has a queue, but its fence does not record it",
                 sim_names[l->name]);
    if (l->now->count && !l->queue->lock_says)
        sim_fail(w, l->name, "%s has a queue, but its lock does not record it", sim_names[l->name]);
}

static void check_positions(sim_world *w, const kinds_step *l) {
    for (size_t i = 0; i < l->queue->count; i++) {
        sim_waiter *s = &l->queue->at[i];
        if (find_position(l->queue, s) != s)
            sim_fail(w, l->name, "client %d is queued for %s twice, acquire id %" PRIu64, s->slot,
                     sim_names[l->name], s->acquire_id);
        if (got_lock(l, s))
            sim_fail(w, l->name, "client %d holds %s, but is queued for it, acquire id %" PRIu64,
                     s->slot, sim_names[l->name], s->acquire_id);
        if (s->kind == 'g' && l->queue->at[0].kind != 'g')
            sim_fail(w, l->name, "client %d waits to upgrade %s behind other waiters", s->slot,
                     sim_names[l->name]);
        const sim_waiter *was = find_position(l->was, s);
        s->stray = was ? was->stray : l->late && w->checks.names[l->name].exposed;
        if (was && was->acquire_id > s->acquire_id && !w->checks.stepped)
            sim_fail(w, l->name,
                     "client %d fell from acquire id %" PRIu64 " to %" PRIu64 " in the queue",
                     s->slot, was->acquire_id, s->acquire_id);
    }
}

static bool is_actor(const kinds_step *l, const sim_waiter *s) {
    return l->has_actor && l->slot == s->slot && l->number == s->number &&
           (s->side ? l->acquire_id == s->acquire_id : l->acquire_id >= s->acquire_id);
}

/* Returns true if the wait is futile: the hold to upgrade is gone, or permits of another
   capacity are in use. */
static bool is_futile(const kinds_step *l, const sim_waiter *s) {
    if (s->kind == 'g') return !still_holds(l, s);
    return s->kind == 'p' && l->now->capacity && l->now->capacity != s->capacity;
}

static void check_left(sim_world *w, const kinds_step *l) {
    if (w->checks.stepped || sim_probe_failed(l->ran)) return;
    for (size_t i = 0; i < l->was->count; i++) {
        const sim_waiter *s = &l->was->at[i];
        if (find_position(l->queue, s) || got_lock(l, s) || is_actor(l, s)) continue;
        if (s->kind == 'g' && !still_holds(l, s)) continue;
        sim_fail(w, l->name,
                 "client %d, acquire id %" PRIu64 ", has lost its position in the queue for %s",
                 s->slot, s->acquire_id, sim_names[l->name]);
    }
}

/* Returns true if the waiter could hold together with the present holders. */
static bool fits_now(const kinds_step *l, const sim_waiter *s) {
    uint32_t used = 0;
    if (!l->now->count) return true;
    for (size_t i = 0; i < l->now->count; i++) {
        const sim_holder *h = &l->now->at[i];
        bool read = h->kind == 'r' || h->kind == 'u';
        used += h->weight;
        if (s->kind == 'g' && l->now->count == 1 && read && h->acquire_id == s->acquire_id &&
            h->slot == s->slot && h->number == s->number)
            return true;
        if (s->kind == 'p' ? h->kind != 'p' : !read) return false;
        if (s->kind == 'u' && h->kind == 'u') return false;
    }
    if (s->kind == 'p') return l->now->capacity == s->capacity && used + s->weight <= s->capacity;
    return s->kind == 'r' || s->kind == 'u';
}

/* Fail if the new holder passed an earlier waiter that is reachable. If the holder was not
   queued, every waiter counts. */
static void check_turn(sim_world *w, const kinds_step *l, const sim_holder *h) {
    for (size_t i = 0; i < l->was->count; i++) {
        const sim_waiter *s = &l->was->at[i];
        if (s->slot == h->slot && s->number == h->number && s->side == h->side &&
            (!s->side || s->acquire_id == h->acquire_id))
            return;
        if (find_position(l->queue, s) && sim_queue_reachable(w, s) && !is_futile(l, s))
            sim_fail(w, l->name,
                     "client %d got %s, acquire id %" PRIu64
                     ", although client %d, acquire id %" PRIu64
                     ", was queued before it and listened",
                     h->slot, sim_names[l->name], h->acquire_id, s->slot, s->acquire_id);
    }
}

/* Returns true if the waiter was queued for a second without a subscription and kept retrying:
   then it will see the grant itself. */
static bool retries_often(const sim_world *w, const sim_waiter *s) {
    int64_t now_ms = sim_server_ms(w);
    return now_ms - s->seen_us / 1000 <= 1000 && now_ms - s->since_us / 1000 >= 1000;
}

static bool retried_often(const sim_world *w, const kinds_step *l, const sim_holder *h) {
    if (!l->was->count) return true;
    for (size_t i = 0; i < l->was->count; i++) {
        const sim_waiter *s = &l->was->at[i];
        if (s->slot != h->slot || s->number != h->number || s->acquire_id != h->acquire_id)
            continue;
        return retries_often(w, s);
    }
    return false;
}

static void check_holder(sim_world *w, const kinds_step *l, const sim_holder *h) {
    const sim_holder *before = find_holder(l->before, h);
    if (before && is_exclusive(before) == is_exclusive(h)) return;
    if (before && !is_exclusive(h)) return; /* a downgrade */
    bool acquires = l->acquire_id == h->acquire_id || (l->next && l->next == h->acquire_id);
    bool handed = !(l->has_actor && l->slot == h->slot && l->number == h->number && acquires);
    if (l->has_actor && !h->side && l->slot == h->slot && l->number == h->number) handed = false;
    bool listens = !w->server.refused && sim_probe_listens(w, h->slot, h->number);
    if (handed && !listens && !retried_often(w, l, h))
        sim_fail(w, l->name, "client %d was handed %s, but cannot be notified", h->slot,
                 sim_names[l->name]);
    if (before || h->kind == 'g') return; /* upgrades come first */
    if (!w->server.refused && !w->checks.stepped && !sim_probe_succeeds(l->ran))
        check_turn(w, l, h);
}

/* Returns true if the script ended or reduced a hold, or removed a waiter. */
static bool made_room(sim_world *w, const kinds_step *l) {
    sim_server_clock(w);
    for (size_t i = 0; i < l->before->count; i++) {
        const sim_holder *h = &l->before->at[i], *now = find_holder(l->now, h);
        if (h->ends_us - 1000 <= w->server.now_us) continue;
        if (!now || (is_exclusive(h) && !is_exclusive(now))) return true;
    }
    for (size_t i = 0; i < l->was->count; i++)
        if (!find_position(l->queue, &l->was->at[i]) && !got_lock(l, &l->was->at[i])) return true;
    return false;
}

static void check_served(sim_world *w, const kinds_step *l) {
    if (w->server.refused || sim_probe_failed(l->ran) || sim_probe_is_acquire(l->ran)) return;
    if (!made_room(w, l)) return;
    for (size_t i = 0; i < l->queue->count; i++) {
        const sim_waiter *s = &l->queue->at[i];
        if (is_futile(l, s)) continue;
        if (!sim_queue_reachable(w, s)) {
            /* Waiting for it is still correct. */
            if (retries_often(w, s) && (s->kind == 'g' || !fits_now(l, s))) return;
            continue;
        }
        if (s->kind == 'g') return; /* it is notified, and then acquires */
        if (fits_now(l, s))
            sim_fail(w, l->name,
                     "client %d, acquire id %" PRIu64 ", fits into %s, is queued and listens, "
                     "but was not granted",
                     s->slot, s->acquire_id, sim_names[l->name]);
        return;
    }
}

/* A client that was told that the store is unavailable must hold nothing, now and later. */
static void check_refused(sim_world *w, const kinds_step *l, const sim_holder *h) {
    const sim_busy_answer *refused = &w->checks.names[l->name].refused[h->slot];
    if (h->stray || find_holder(l->before, h)) return;
    if (refused->number != h->number || refused->acquire_id != h->acquire_id) return;
    sim_fail(w, l->name,
             "client %d was told that the store is unavailable, and later was granted %s", h->slot,
             sim_names[l->name]);
}

void sim_kinds_ran(sim_world *w, const rm_ran *ran, int name, bool late, bool kept) {
    sim_queue queue;
    sim_holding now;
    kinds_step l = {.ran = ran,
                    .name = name,
                    .late = late,
                    .before = &w->checks.holdings[name],
                    .now = &now,
                    .was = &w->checks.queues[name],
                    .queue = &queue};
    read_holders(w, name, late, &now);
    sim_probe_queue(w, name, &queue);
    l.has_actor = sim_probe_actor(ran, name, &l.slot, &l.number, &l.acquire_id);
    l.next = sim_probe_next(ran);
    check_marks(w, &l);
    check_positions(w, &l);
    check_left(w, &l);
    for (size_t i = 0; i < now.count; i++) {
        sim_holder *h = &now.at[i];
        if (l.has_actor && h->slot == l.slot && h->number == l.number &&
            h->acquire_id == l.acquire_id)
            h->miscounted = late || (h->miscounted && !kept);
        check_refused(w, &l, h);
        check_holder(w, &l, h);
    }
    check_served(w, &l);
    keep_holders(w, name, &now);
    sim_queue_copy(&w->checks.queues[name], &queue);
}

/* ---- After an event ---- */

/* Returns the client with that serial number if it runs, else NULL. */
static const sim_client *client_of(const sim_world *w, int slot, int number) {
    const sim_client *c = w->clients[slot];
    return c && c->life == SIM_RUNNING && c->number == number ? c : NULL;
}

static bool client_knows(const sim_client *c, int name, uint64_t acquire_id, bool side) {
    return side ? sim_client_side(c, name, acquire_id) != NULL
                : sim_check_known(c, name, acquire_id);
}

static void check_noticed(sim_world *w, int name, const sim_client *c, const sim_holder *h) {
    const hf__entry *e =
        h->side ? sim_client_side(c, name, h->acquire_id) : sim_client_entry(c, name);
    if (!e || !e->waits.first || e->waits.first->acquire_id != h->acquire_id) return;
    if (e->ownership && !(h->kind == 'g' && e->waits.first->upgrade)) return;
    if (w->now > sim_queue_notice_by(w, c, h->since))
        sim_fail(w, name, "client %d waits for %s, but does not notice that it was granted",
                 c->slot, sim_names[name]);
}

static void check_holders(sim_world *w, int name) {
    const sim_holding *holding = &w->checks.holdings[name];
    for (size_t i = 0; i < holding->count; i++) {
        const sim_holder *h = &holding->at[i];
        const sim_client *c = client_of(w, h->slot, h->number);
        if (!c || h->stray || has_expired(w, h)) continue;
        if (!client_knows(c, name, h->acquire_id, h->side))
            sim_fail(w, name,
                     "the server has %s for client %d, acquire id %" PRIu64
                     ", but the client does not know",
                     sim_names[name], c->slot, h->acquire_id);
        check_noticed(w, name, c, h);
    }
}

/* Returns true if an upgrade is queued that no caller waits for any more. */
static bool is_abandoned(const sim_world *w, const hf__entry *e, const sim_waiter *s) {
    if (s->kind != 'g' || !w->plan.fair || !e || !e->ownership) return false;
    return !e->busy && !e->grant->verify && !(e->waits.first && e->waits.first->upgrade);
}

static void check_queue(sim_world *w, int name) {
    const sim_queue *queue = &w->checks.queues[name];
    for (size_t i = 0; i < queue->count; i++) {
        const sim_waiter *s = &queue->at[i];
        const sim_client *c = client_of(w, s->slot, s->number);
        if (!c || s->stray) continue;
        const hf__entry *e = s->side ? sim_client_side(c, name, s->acquire_id) : NULL;
        if (!client_knows(c, name, s->acquire_id, s->side) || is_abandoned(w, e, s))
            sim_fail(w, name,
                     "client %d, acquire id %" PRIu64 ", is queued for %s as %c, but does "
                     "not wait",
                     c->slot, s->acquire_id, sim_names[name], s->kind);
    }
}

void sim_kinds_look(sim_world *w, int name) {
    if (w->checks.stepped) return;
    check_holders(w, name);
    check_queue(w, name);
}
