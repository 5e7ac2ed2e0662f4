/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quorum/ring.h"

#define OUTAGE_MS 3000

hf__time ring_client_now(const ring_client *c) {
    return sim_shows(&c->clock, c->ring->now);
}

void ring_client_wake(ring_client *c) {
    ring *r = c->ring;
    if (c->gone) return;
    hf__time at = hf__later(r->now, c->paused_until);
    if (hf__timer_armed(&c->event.timer)) at = hf__sooner(at, c->event.timer.due);
    ring_at(r, &c->event, at);
}

/* ---- Callers ---- */

bool ring_caller_holds(const ring_caller *t) {
    if (t->doing != RING_HOLDS) return false;
    const hf__ownership *ownership = t->hold->ownership;
    return atomic_load(&ownership->state) == HF__HELD &&
           ring_client_now(t->client) < atomic_load(&ownership->deadline);
}

static void think_again(ring_caller *t, hf__time now) {
    ring *r = t->client->ring;
    t->doing = RING_THINKS;
    t->at = r->calm ? HF__NEVER : now + ring_draw(r, r->think);
}

static void begin_acquire(ring_caller *t, hf__time now) {
    ring *r = t->client->ring;
    bool once = !t->last && ring_chance(r, 4);
    int64_t lease_ms = t->client->lease_ms;
    if (r->greedy && !t->last && ring_chance(r, 8)) lease_ms = 4 * r->lease_ms;
    t->wait = (hf__wait){.owner = {(uint64_t)t->number + 1, true},
                         .lease_ms = lease_ms / 2 + ring_draw(r, lease_ms / 2 + 1),
                         .flags = ring_chance(r, 3) ? HF_NO_RENEW : 0,
                         .try_once = once,
                         .started_at = now,
                         .until = once ? HF__NEVER : now + ring_draw(r, 4000 * HF__MS)};
    if (t->last) t->wait.until = HF__NEVER;
    t->wait.handle = calloc(1, sizeof(hf__handle));
    if (!hf__wait_prepare(&t->wait) || !t->wait.handle) abort();
    t->doing = RING_WAITS;
    t->doubtful = false;
    t->floor = r->ended_token;
    RING_LOG(r, "client %d.%d  acquires the name", t->client->slot, t->number);
    hf__core_acquire(&t->client->core, &t->wait, RING_NAME, strlen(RING_NAME), now);
}

static void finish_acquire(ring_caller *t, hf__time now) {
    ring *r = t->client->ring;
    RING_LOG(r, "client %d.%d  acquire: %s %s", t->client->slot, t->number,
             hf_result_name(t->wait.call.result), t->wait.call.detail ? t->wait.call.detail : "");
    free(t->wait.call.detail);
    if (t->wait.call.result != HF_OK) {
        r->refused++;
        free(t->wait.handle);
        hf__wait_discard(&t->wait);
        think_again(t, now);
        return;
    }
    t->hold = t->wait.handle;
    t->doing = RING_HOLDS;
    bool stays = ring_chance(r, 3) && !r->lossless && !t->last;
    t->at = now + (stays ? 2 * r->lease_ms * HF__MS : ring_draw(r, 40 * HF__MS));
    t->served = true;
    t->doubtful |= ring_this.doubts && ring_this.doubts(t->client);
    ring_entered(r, t);
}

static void begin_release(ring_caller *t, hf__time now) {
    RING_LOG(t->client->ring, "client %d.%d  releases", t->client->slot, t->number);
    ring_left(t->client->ring, t);
    t->doing = RING_RELEASES;
    t->call = (hf__call){0};
    t->at = hf__after_ms(now, t->client->ring->command_ms);
    hf__core_release(&t->client->core, t->hold, &t->call, now);
}

static void drop_hold(ring_caller *t) {
    hf__ownership_unref(t->hold->ownership);
    free(t->hold);
    t->hold = NULL;
}

static void finish_release(ring_caller *t, hf__time now) {
    ring *r = t->client->ring;
    RING_LOG(r, "client %d.%d  release: %s", t->client->slot, t->number,
             hf_result_name(t->call.result));
    r->lost += t->call.result == HF_LOST;
    free(t->call.detail);
    drop_hold(t);
    think_again(t, now);
}

/* Returns true if it did something. */
static bool act_caller(ring_caller *t, hf__time now) {
    switch (t->doing) {
    case RING_THINKS:
        if (now < t->at || t->client->ring->calm) return false;
        begin_acquire(t, now);
        return true;
    case RING_WAITS:
        if (t->wait.call.done)
            finish_acquire(t, now);
        else if (now >= hf__wait_until(&t->client->core, &t->wait))
            hf__core_give_up(&t->wait, HF_TIMEOUT, now);
        else
            return false;
        return true;
    case RING_HOLDS:
        if (now < t->at && ring_caller_holds(t)) return false;
        begin_release(t, now);
        return true;
    case RING_RELEASES:
        if (t->call.done)
            finish_release(t, now);
        else if (now >= t->at)
            hf__core_release_unwait(&t->client->core, t->hold, &t->call);
        else
            return false;
        return true;
    }
    return false;
}

void ring_client_resume(ring_client *c) {
    if (c->gone) return;
    for (int i = 0; i < c->ring->callers; i++) think_again(&c->callers[i], ring_client_now(c));
    ring_client_wake(c);
}

void ring_client_cancel(ring_client *c) {
    for (int i = 0; !c->gone && i < c->ring->callers; i++) {
        ring_caller *t = &c->callers[i];
        if (t->doing == RING_WAITS && !t->wait.call.done)
            hf__core_give_up(&t->wait, HF_CANCELLED, ring_client_now(c));
    }
}

void ring_client_want(ring_client *c) {
    ring_caller *t = &c->callers[0];
    t->last = true;
    t->served = false;
    begin_acquire(t, ring_client_now(c));
    ring_client_wake(c);
}

bool ring_client_served(const ring_client *c) {
    return c->callers[0].served;
}

static hf__time caller_due(const ring_caller *t) {
    switch (t->doing) {
    case RING_THINKS: return t->client->ring->calm ? HF__NEVER : t->at;
    case RING_WAITS: return hf__wait_until(&t->client->core, &t->wait);
    case RING_HOLDS: return hf__sooner(t->at, atomic_load(&t->hold->ownership->deadline));
    default: return t->at;
    }
}

static void discard_caller(ring_caller *t) {
    if (t->doing == RING_WAITS) {
        free(t->wait.handle);
        hf__wait_discard(&t->wait);
        free(t->wait.call.detail);
    } else if (t->hold) {
        if (t->doing == RING_HOLDS) ring_left(t->client->ring, t);
        drop_hold(t);
    }
    t->doing = RING_THINKS;
}

/* ---- Scheduler: like src/client/scheduler.c ---- */

static void process_client(ring_client *c, hf__time now) {
    hf__core_tick(&c->core, now);
    c->store->table->tick(c->store, now);
    hf__core_link_changed(&c->core, now);
    for (hf__notification notification;
         c->store->table->next_notification &&
         c->store->table->next_notification(c->store, &notification);)
        hf__core_notify(&c->core, &notification, now);
    for (hf__op *op; (op = c->store->table->completed(c->store));)
        hf__core_complete(&c->core, op, now);
    c->core.finished_calls = (hf__calls){0};
    for (hf__ownership *ownership; (ownership = hf__core_next_lost(&c->core));) {
        hf__ownership_unref(ownership);
    }
}

static void run_scheduler(ring_client *c, hf__time now) {
    bool again;
    do {
        do process_client(c, now);
        while (c->store->table->flush(c->store, NULL));
        again = false;
        for (int i = 0; i < c->ring->callers; i++) again |= act_caller(&c->callers[i], now);
    } while (again);
}

static hf__time next_due(const ring_client *c) {
    hf__time at = hf__sooner(hf__core_due(&c->core), c->store->table->due(c->store));
    for (int i = 0; i < c->ring->callers; i++) at = hf__sooner(at, caller_due(&c->callers[i]));
    return at;
}

static void start_process(ring_client *c);

static void run_client(void *arg) {
    ring_client *c = arg;
    ring *r = c->ring;
    if (c->gone) start_process(c);
    if (r->now < c->paused_until) {
        ring_at(r, &c->event, c->paused_until);
        return;
    }
    hf__time now = ring_client_now(c);
    for (int i = 0; i < c->link_count; i++)
        if (!ring_chance(r, 8)) ring_link_read(c->links[i], now);
    run_scheduler(c, now);
    bool more = false;
    for (int i = 0; i < c->link_count; i++) more |= ring_link_readable(c->links[i]);
    ring_at(r, &c->event,
            more ? r->now + 1000 : hf__later(r->now, sim_moment(&c->clock, next_due(c))));
}

/* ---- Start and end ---- */

static void start_process(ring_client *c) {
    ring *r = c->ring;
    c->gone = false;
    c->number = ++r->clients_made;
    c->who = (hf__identity){.pid = c->number, .host = "host", .program = "sim"};
    snprintf(c->who.client, sizeof c->who.client, "%08x-0000-4000-8000-%012x", (unsigned)c->slot,
             (unsigned)c->number);
    c->lease_ms = r->lease_ms;
    c->store = ring_this.open(c);
    const hf__core_config config = {
        .lease_ms = c->lease_ms, .command_timeout_ms = r->command_ms, .outage_ms = OUTAGE_MS};
    hf__core_init(&c->core, c->store, &config, hf__rand_next(&r->rand));
    for (int i = 0; i < r->callers; i++) {
        c->callers[i] = (ring_caller){.client = c, .number = i};
        think_again(&c->callers[i], ring_client_now(c));
    }
    RING_LOG(r, "client %d  opens, as number %d", c->slot, c->number);
}

void ring_client_init(ring *r, int slot) {
    ring_client *c = &r->client[slot];
    *c = (ring_client){.ring = r, .slot = slot, .event = {.fn = run_client, .arg = c}};
    c->clock.base = HF__SEC + ring_draw(r, 1000 * HF__SEC);
    c->clock.ppm =
        ring_chance(r, 3) ? (ring_chance(r, 2) ? 4900 : -4900) : ring_draw(r, 9801) - 4900;
    c->url = (hf__url){.scheme = HF__SCHEME_REDIS,
                       .host = "sim",
                       .prefix = "hf",
                       .connect_timeout_ms = r->command_ms,
                       .command_timeout_ms = r->command_ms};
    hf__log_init(&c->log, NULL, NULL, 0);
    start_process(c);
    ring_at(r, &c->event, r->now);
}

/* Frees all memory of a process. Nothing else happens. */
void ring_client_fini(ring_client *c) {
    if (c->gone) return;
    c->gone = true;
    if (ring_this.gone) ring_this.gone(c);
    for (hf__mapped *m = NULL; (m = hf__map_next(&c->core.entries, m));) {
        hf__entry *e = (hf__entry *)m;
        hf__ownership_unref(e->ownership);
        e->ownership = NULL;
    }
    for (int i = 0; i < c->ring->callers; i++) discard_caller(&c->callers[i]);
    hf__core_fini(&c->core);
    c->store->table->free(c->store, false);
}

void ring_client_crash(ring_client *c) {
    ring *r = c->ring;
    if (c->gone) return;
    RING_LOG(r, "client %d  crashes", c->slot);
    ring_client_fini(c);
    c->paused_until = 0;
    ring_at(r, &c->event, r->now + ring_draw(r, 500 * HF__MS));
}
