/* SPDX-License-Identifier: Apache-2.0 */
#include "world/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world/queue.h"

#define REBIRTH_MOST (500 * HF__MS)

hf__time sim_client_now(const sim_client *c) {
    return sim_shows(&c->clock, c->world->now);
}

void sim_client_uuid(char out[HF__UUID_LENGTH + 1], int slot, int number) {
    snprintf(out, HF__UUID_LENGTH + 1, "%08x-0000-4000-8000-%012x", (unsigned)slot,
             (unsigned)number);
}

void sim_client_wake(sim_client *c) {
    sim_world *w = c->world;
    hf__time at = hf__later(w->now, c->paused_until);
    if (hf__timer_armed(&c->event.timer)) at = hf__sooner(at, c->event.timer.due);
    sim_at(w, &c->event, at);
}

hf__entry *sim_client_entry(const sim_client *c, int name) {
    return (hf__entry *)hf__map_find(&c->core.entries, sim_names[name], strlen(sim_names[name]));
}

hf__entry *sim_client_side(const sim_client *c, int name, uint64_t acquire_id) {
    const hf__entry *anchor = sim_client_entry(c, name);
    for (hf__entry *e = anchor ? anchor->sides.first : NULL; e; e = e->side.next)
        if (e->side_id == acquire_id) return e;
    return NULL;
}

/* ---- Start ---- */

static void start_process(sim_client *c) {
    sim_world *w = c->world;
    c->number = ++w->clients_made;
    c->life = SIM_RUNNING;
    c->was_up = c->shut = false;
    c->listens_since = HF__NEVER;
    c->who = (hf__identity){.pid = c->number, .host = "host", .program = "sim", .label = ""};
    sim_client_uuid(c->who.client, c->slot, c->number);
    sim_store_init(&c->store, c, &c->url, &c->who, &c->log, hf__rand_next(&w->rand));
    hf__core_config config = {.lease_ms = w->plan.leases[0],
                              .command_timeout_ms = w->plan.command_ms,
                              .outage_ms = w->plan.outage_ms};
    hf__core_init(&c->core, &c->store.store, &config, hf__rand_next(&w->rand));
    for (int i = 0; i < c->caller_count; i++) sim_caller_init(&c->callers[i], c, i);
    SIM_LOG(w, SIM_ANY, "client %d  opens, as number %d", c->slot, c->number);
}

static void run_client(void *arg);

sim_client *sim_client_new(sim_world *w, int slot, int callers) {
    sim_client *c = rm_alloc(sizeof *c);
    *c = (sim_client){.world = w,
                      .slot = slot,
                      .life = SIM_GONE,
                      .caller_count = callers,
                      .event = {.fn = run_client, .arg = c}};
    c->clock.base = HF__SEC + sim_draw(w, 1000 * HF__SEC);
    c->clock.ppm = w->plan.faults & SIM_DRIFT ? sim_drift(w) : 0;
    c->url = (hf__url){.scheme = HF__SCHEME_REDIS,
                       .host = "sim",
                       .prefix = "hf",
                       .connect_timeout_ms = w->plan.connect_ms,
                       .command_timeout_ms = w->plan.command_ms};
    hf__log_init(&c->log, NULL, NULL, 0);
    start_process(c);
    sim_at(w, &c->event, w->now);
    return c;
}

/* ---- End ---- */

static void free_hold(sim_hold *h) {
    hf__ownership_unref(h->hold->ownership);
    free(h->hold);
    *h = (sim_hold){0};
}

/* Releases all operations from the store, and frees details that no caller will fetch. */
static void drop_operations(sim_client *c) {
    hf__session_break(&c->store.session);
    for (hf__op *op; (op = hf__session_completed(&c->store.session));) {
        free(op->detail);
        op->detail = NULL;
    }
}

/* Frees all memory of a process. Nothing else happens. */
static void discard_memory(sim_client *c) {
    drop_operations(c);
    for (hf__mapped *m = NULL; (m = hf__map_next(&c->core.entries, m));) {
        hf__entry *e = (hf__entry *)m;
        hf__ownership_unref(e->ownership);
        e->ownership = NULL;
    }
    for (hf__ownership *ownership; (ownership = hf__core_next_lost(&c->core));) {
        hf__ownership_unref(ownership);
    }
    for (int i = 0; i < c->caller_count; i++) sim_caller_discard(&c->callers[i]);
    for (int i = 0; i < SIM_HOLDS; i++)
        if (c->holds[i].hold) free_hold(&c->holds[i]);
    hf__core_fini(&c->core);
    sim_store_fini(&c->store);
    c->life = SIM_GONE;
}

static void plan_rebirth(sim_client *c) {
    sim_world *w = c->world;
    sim_at(w, &c->event, w->calm ? HF__NEVER : w->now + sim_draw(w, REBIRTH_MOST));
}

void sim_client_crash(sim_client *c) {
    SIM_LOG(c->world, SIM_ANY, "client %d  crashes", c->slot);
    sim_checks_client_gone(c->world, c);
    discard_memory(c);
    c->paused_until = 0;
    plan_rebirth(c);
}

void sim_client_free(sim_client *c) {
    sim_at(c->world, &c->event, HF__NEVER);
    free(c);
}

/* ---- Closing ---- */

void sim_client_close(sim_client *c) {
    hf__time now = sim_client_now(c);
    SIM_LOG(c->world, SIM_ANY, "client %d  hf_close", c->slot);
    c->life = SIM_CLOSING;
    c->closer = (hf__call){0};
    c->unhindered = c->world->ending;
    hf__core_close(&c->core, &c->closer, now);
    c->close_until = c->core.link ? hf__after_ms(now, c->core.config.command_timeout_ms) : now;
    sim_client_wake(c);
}

/* Checks what a closed client leaves behind. */
static void check_closed(sim_client *c) {
    sim_world *w = c->world;
    SIM_CHECK(w, SIM_ANY, c->core.stats.held == 0);
    SIM_CHECK(w, SIM_ANY, c->core.stats.waiting == 0);
    SIM_CHECK(w, SIM_ANY,
              !c->core.lost.last && !c->core.finished_calls.last && !c->core.multi_ready.first);
    SIM_CHECK(w, SIM_ANY, !c->closer.done || c->core.entries.count == 0);
    SIM_CHECK(w, SIM_ANY, !c->closer.done || !c->core.timers.root);
    SIM_CHECK(w, SIM_ANY, c->closer.done || !c->unhindered);
    if (c->closer.done) sim_queue_closed(w, c);
}

static bool calls_over(const sim_client *c) {
    for (int i = 0; i < c->caller_count; i++)
        if (c->callers[i].doing != SIM_IDLE) return false;
    return true;
}

/* Returns true if it did something, so that the scheduler must run again. */
static bool close_step(sim_client *c, hf__time now) {
    if (!c->shut) {
        if (!c->closer.done && now < c->close_until) return false;
        if (!c->closer.done) c->core.close_call = NULL;
        c->store.store.table->shut(&c->store.store, now);
        c->shut = true;
        return true;
    }
    if (!calls_over(c)) return false;
    for (int i = 0; i < SIM_HOLDS; i++)
        if (c->holds[i].hold) sim_caller_release_closed(c, &c->holds[i], now);
    check_closed(c);
    SIM_LOG(c->world, SIM_ANY, "client %d  is closed", c->slot);
    discard_memory(c);
    plan_rebirth(c);
    return false;
}

/* ---- Scheduler: like src/client/scheduler.c ---- */

static void take_finished(sim_client *c) {
    for (const hf__call *call; (call = hf__core_next_finished(&c->core));)
        SIM_CHECK(c->world, SIM_ANY, call->done);
}

static void take_lost(sim_client *c) {
    for (hf__ownership *ownership; (ownership = hf__core_next_lost(&c->core));) {
        sim_checks_lost(c->world, c, ownership);
        hf__ownership_unref(ownership);
    }
}

static void take_notifications(sim_client *c, hf__time now) {
    hf__notification notification;
    hf__store *store = &c->store.store;
    while (store->table->next_notification(store, &notification))
        hf__core_notify(&c->core, &notification, now);
}

static void process_client(sim_client *c, hf__time now) {
    hf__store *store = &c->store.store;
    hf__core_tick(&c->core, now);
    store->table->tick(store, now);
    if (store->up && c->core.link != store->link) c->up_since = now;
    hf__core_link_changed(&c->core, now);
    take_notifications(c, now);
    do {
        for (hf__op *op; (op = store->table->completed(store));)
            if (!sim_caller_completed(c, op)) hf__core_complete(&c->core, op, now);
    } while (hf__core_advance_multi(&c->core, now));
    take_finished(c);
    take_lost(c);
    c->was_up |= store->up;
}

static bool callers_step(sim_client *c, hf__time now) {
    bool acted = false;
    for (int i = 0; i < c->caller_count; i++) acted |= sim_caller_step(&c->callers[i], now);
    return acted;
}

static void run_scheduler(sim_client *c, hf__time now) {
    hf__store *store = &c->store.store;
    bool again;
    do {
        do process_client(c, now);
        while (store->table->flush(store, NULL));
        again = callers_step(c, now);
        if (c->life == SIM_CLOSING) again |= close_step(c, now);
    } while (again && c->life != SIM_GONE);
}

static hf__time next_due(const sim_client *c) {
    hf__time at = hf__sooner(hf__core_due(&c->core), c->store.store.table->due(&c->store.store));
    for (int i = 0; i < c->caller_count; i++) at = hf__sooner(at, sim_caller_due(&c->callers[i]));
    if (c->life == SIM_CLOSING && !c->shut) at = hf__sooner(at, c->close_until);
    return at;
}

/* Mostly reads arrived bytes first; but another thread may run first. */
static void run_client(void *arg) {
    sim_client *c = arg;
    sim_world *w = c->world;
    if (c->life == SIM_GONE) start_process(c);
    if (w->now < c->paused_until) {
        sim_at(w, &c->event, c->paused_until);
        return;
    }
    hf__time now = sim_client_now(c);
    c->ran_at = c->turns_at;
    c->turns_at = w->now;
    if (!sim_chance(w, 4)) sim_store_read(&c->store, now);
    run_scheduler(c, now);
    if (c->life != SIM_GONE && sim_store_readable(&c->store)) {
        sim_store_read(&c->store, now);
        run_scheduler(c, now);
    }
    if (c->life == SIM_GONE) return;
    sim_at(w, &c->event, hf__later(w->now, sim_moment(&c->clock, next_due(c))));
}

void sim_client_pause(sim_client *c, hf__time span) {
    sim_world *w = c->world;
    SIM_LOG(w, SIM_ANY, "client %d  is paused until %.3f ms", c->slot,
            (double)(w->now + span) / HF__MS);
    c->paused_until = hf__later(c->paused_until, w->now + span);
    /* A paused client is as good as disconnected. */
    c->up_since = sim_shows(&c->clock, c->paused_until);
}

bool sim_client_idle(const sim_client *c) {
    if (c->life == SIM_GONE) return true;
    for (int i = 0; i < SIM_HOLDS; i++)
        if (c->holds[i].hold) return false;
    return calls_over(c);
}
