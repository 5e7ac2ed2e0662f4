/* SPDX-License-Identifier: Apache-2.0 */
#include "world/queue.h"

#include <inttypes.h>
#include <string.h>

#include "world/client.h"
#include "world/kinds.h"
#include "world/probe.h"
#include "world/server.h"

#define TRIPS_TO_NOTICE 8
#define TIME_TO_NOTICE  (20 * HF__MS)
#define CALM_TO_NOTICE  HF__SEC /* delayed messages come first */

typedef struct queue_step {
    const rm_ran *ran;
    int name;
    const sim_seen *before, *now;
    const sim_queue *was, *queue;
    bool has_actor;
    int slot, number; /* the client that the script acts for */
    uint64_t acquire_id;
} queue_step;

static bool same_hold(const sim_seen *a, const sim_seen *b) {
    return a->held && b->held && a->slot == b->slot && a->number == b->number &&
           a->acquire_id == b->acquire_id && a->token == b->token;
}

static bool is_actor(const queue_step *l, int slot, int number) {
    return l->has_actor && l->slot == slot && l->number == number;
}

/* ---- After a script ---- */

static void check_marks(sim_world *w, const queue_step *l) {
    if (!l->queue->count) return;
    if (!l->queue->fence_says)
        sim_fail(w, l->name, "%s has a queue, but its fence does not record it",
                 sim_names[l->name]);
    if (l->now->held && !l->queue->lock_says)
        sim_fail(w, l->name, "%s has a queue, but its lock does not record it", sim_names[l->name]);
}

static const sim_waiter *find_waiter(const sim_queue *queue, int slot, int number) {
    for (size_t i = 0; i < queue->count; i++)
        if (queue->at[i].slot == slot && queue->at[i].number == number) return &queue->at[i];
    return NULL;
}

static void check_positions(sim_world *w, const queue_step *l) {
    for (size_t i = 0; i < l->queue->count; i++) {
        const sim_waiter *s = &l->queue->at[i];
        if (find_waiter(l->queue, s->slot, s->number) != s)
            sim_fail(w, l->name, "client %d is queued for %s twice", s->slot, sim_names[l->name]);
        if (l->now->held && l->now->slot == s->slot && l->now->number == s->number)
            sim_fail(w, l->name, "client %d holds %s, but is queued for it", s->slot,
                     sim_names[l->name]);
        const sim_waiter *was = find_waiter(l->was, s->slot, s->number);
        if (was && was->acquire_id > s->acquire_id && !w->checks.stepped)
            sim_fail(w, l->name,
                     "client %d was queued for %s with acquire id %" PRIu64
                     ", and now with %" PRIu64,
                     s->slot, sim_names[l->name], was->acquire_id, s->acquire_id);
    }
}

/* A waiter stays queued until it gets the lock or leaves. */
static void check_left(sim_world *w, const queue_step *l) {
    if (w->checks.stepped || sim_probe_failed(l->ran)) return;
    for (size_t i = 0; i < l->was->count; i++) {
        const sim_waiter *s = &l->was->at[i];
        if (find_waiter(l->queue, s->slot, s->number)) continue;
        if (l->now->held && l->now->slot == s->slot && l->now->number == s->number) continue;
        if (is_actor(l, s->slot, s->number) && l->acquire_id >= s->acquire_id) continue;
        sim_fail(w, l->name,
                 "client %d, acquire id %" PRIu64 ", has lost its position in the queue for %s",
                 s->slot, s->acquire_id, sim_names[l->name]);
    }
}

bool sim_queue_reachable(const sim_world *w, const sim_waiter *s) {
    return sim_probe_listens(w, s->slot, s->number) && sim_server_ms(w) - s->seen_us / 1000 < 25000;
}

/* Fail if the new holder passed an earlier waiter that is reachable. If the holder was not
   queued, every waiter counts. */
static void check_turn(sim_world *w, const queue_step *l) {
    const sim_seen *now = l->now;
    for (size_t i = 0; i < l->was->count; i++) {
        const sim_waiter *s = &l->was->at[i];
        if (s->slot == now->slot && s->number == now->number) return;
        if (find_waiter(l->queue, s->slot, s->number) && sim_queue_reachable(w, s))
            sim_fail(w, l->name,
                     "client %d got %s, although client %d was queued before it and listened",
                     now->slot, sim_names[l->name], s->slot);
    }
}

/* Returns true if the waiter was queued for a second without a subscription and kept retrying:
   then it will see the grant itself. After a restart the queue is as it was saved, and is not
   checked. */
static bool retried_often(const sim_world *w, const queue_step *l) {
    const sim_waiter *s = find_waiter(l->was, l->now->slot, l->now->number);
    int64_t now_ms = sim_server_ms(w);
    if (!l->was->count) return true;
    return s && now_ms - s->seen_us / 1000 <= 1000 && now_ms - s->since_us / 1000 >= 1000;
}

static void check_holder(sim_world *w, const queue_step *l) {
    const sim_seen *now = l->now;
    if (!now->held || same_hold(l->before, now)) return;
    bool handed = !is_actor(l, now->slot, now->number);
    bool listens = !w->server.refused && sim_probe_listens(w, now->slot, now->number);
    if (handed && !listens && !retried_often(w, l))
        sim_fail(w, l->name, "client %d was handed %s, but cannot be notified", now->slot,
                 sim_names[l->name]);
    if (!w->server.refused && !w->checks.stepped && !sim_probe_succeeds(l->ran)) check_turn(w, l);
}

static void check_free(sim_world *w, const queue_step *l) {
    if (l->now->held || !l->before->held || sim_server_ms(w) >= l->before->expires_ms) return;
    if (w->server.refused || sim_probe_failed(l->ran)) return;
    for (size_t i = 0; i < l->queue->count; i++) {
        const sim_waiter *s = &l->queue->at[i];
        if (sim_queue_reachable(w, s))
            sim_fail(w, l->name, "%s is free, although client %d is queued and listens",
                     sim_names[l->name], s->slot);
    }
}

void sim_queue_ran(sim_world *w, const rm_ran *ran, int name, const sim_seen *before) {
    sim_queue *kept = &w->checks.queues[name], queue;
    sim_probe_queue(w, name, &queue);
    queue_step l = {.ran = ran,
                    .name = name,
                    .before = before,
                    .now = &w->checks.names[name].seen,
                    .was = kept,
                    .queue = &queue};
    l.has_actor = sim_probe_actor(ran, name, &l.slot, &l.number, &l.acquire_id);
    if (!same_hold(before, l.now)) w->checks.names[name].since = w->now;
    check_marks(w, &l);
    check_positions(w, &l);
    check_left(w, &l);
    check_holder(w, &l);
    check_free(w, &l);
    sim_queue_copy(kept, &queue);
}

void sim_queue_copy(sim_queue *to, const sim_queue *from) {
    to->count = from->count;
    to->fence_says = from->fence_says;
    to->lock_says = from->lock_says;
    memcpy(to->at, from->at, from->count * sizeof *from->at);
}

void sim_queue_lost(sim_world *w, int name) {
    w->checks.queues[name].count = 0;
}

/* ---- After an event ---- */

static void note_listening(sim_world *w, sim_client *c) {
    const sim_link *links = c->store.links;
    bool listens = c->life == SIM_RUNNING && w->now >= c->paused_until &&
                   links[SIM_COMMANDS].state == SIM_LINK_UP &&
                   links[SIM_MESSAGES].state == SIM_LINK_UP;
    if (!listens)
        c->listens_since = HF__NEVER;
    else if (c->listens_since == HF__NEVER)
        c->listens_since = w->now;
}

hf__time sim_queue_notice_by(const sim_world *w, const sim_client *c, hf__time granted_at) {
    hf__time since = hf__later(granted_at, c->listens_since);
    if (since == HF__NEVER) return HF__NEVER;
    if (w->plan.fair) return since + TRIPS_TO_NOTICE * w->plan.trip + TIME_TO_NOTICE;
    return w->calm ? hf__later(since, w->calm_at) + CALM_TO_NOTICE : HF__NEVER;
}

static void check_noticed(sim_world *w, int name) {
    const sim_name *n = &w->checks.names[name];
    if (!n->seen.held || n->stray || w->checks.stepped) return;
    if (sim_server_ms(w) >= n->seen.expires_ms) return;
    const sim_client *c = w->clients[n->seen.slot];
    if (!c || c->number != n->seen.number || c->life != SIM_RUNNING) return;
    const hf__entry *e = sim_client_entry(c, name);
    if (!e || e->ownership || !e->waits.first || e->waits.first->acquire_id != n->seen.acquire_id)
        return;
    if (w->now > sim_queue_notice_by(w, c, n->since))
        sim_fail(w, name, "client %d waits for %s, but does not notice that it was granted",
                 c->slot, sim_names[name]);
}

void sim_queue_look(sim_world *w) {
    for (int slot = 0; slot < SIM_SLOTS; slot++)
        if (w->clients[slot]) note_listening(w, w->clients[slot]);
    for (int name = 0; name < w->plan.names; name++)
        if (!sim_kinds_name(w, name)) check_noticed(w, name);
}

/* ---- Closing ---- */

static bool is_in_queue(const sim_queue *queue, const sim_client *c) {
    for (size_t i = 0; i < queue->count; i++) {
        const sim_waiter *s = &queue->at[i];
        if (s->slot == c->slot && s->number == c->number) return true;
    }
    return false;
}

void sim_queue_closed(sim_world *w, const sim_client *c) {
    for (int name = 0; name < w->plan.names; name++) {
        sim_queue queue;
        sim_probe_queue(w, name, &queue);
        if (!is_in_queue(&queue, c)) continue;
        /* The tombstones of the client are lost, too. */
        if (w->checks.stepped || w->checks.names[name].lost_at) continue;
        sim_fail(w, name, "client %d is closed, but is queued for %s", c->slot, sim_names[name]);
    }
}
