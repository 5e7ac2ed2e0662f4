/* SPDX-License-Identifier: Apache-2.0 */
#include "world/world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world/chaos.h"
#include "world/client.h"
#include "world/kinds.h"
#include "world/probe.h"
#include "world/server.h"

#define STEPS_MAX    200000
#define TRACE_LINES  60
#define CALM_TRIP    (500 * HF__MS / 1000)
#define SLOW_TRIP    (700 * HF__MS)
#define CALM_SERVICE (200 * HF__MS) /* per waiter, once faults have ended */
#define CALM_CONNECT (6 * HF__SEC)  /* slow retries, logins, outages and late bytes */

const char *const sim_names[SIM_NAMES] = {"a", "b", "c"};

/* ---- Events ---- */

void sim_at(sim_world *w, sim_event *event, hf__time at) {
    hf__heap_set(&w->events, &event->timer, at);
}

hf__time sim_trip(sim_world *w) {
    if (w->calm) return 1 + sim_draw(w, CALM_TRIP);
    if ((w->plan.faults & SIM_SLOW_NET) && sim_chance(w, 25)) return sim_draw(w, SLOW_TRIP);
    return 1 + sim_draw(w, w->plan.trip);
}

void sim_fail(sim_world *w, int name, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(w->why, sizeof w->why, format, args);
    va_end(args);
    w->why_name = name;
    SIM_LOG(w, SIM_ANY, "FAILED  %s", w->why);
    longjmp(w->failed, 1);
}

/* Runs the next event if it is due by `until`; otherwise sets the time to `until`. */
static bool step_world(sim_world *w, hf__time until) {
    hf__time due = hf__heap_due(&w->events);
    if (due > until) {
        w->now = until;
        return false;
    }
    w->now = hf__later(w->now, due);
    sim_event *event = (sim_event *)hf__heap_pop(&w->events, w->now);
    event->fn(event->arg);
    sim_checks_look(w);
    if (++w->steps > STEPS_MAX) sim_fail(w, SIM_ANY, "the world never becomes idle");
    return true;
}

/* ---- The end ---- */

static bool all_idle(const sim_world *w) {
    for (int i = 0; i < SIM_SLOTS; i++)
        if (w->clients[i] && !sim_client_idle(w->clients[i])) return false;
    return true;
}

static int count_waiting(const sim_world *w) {
    int count = 0;
    for (int i = 0; i < SIM_SLOTS; i++)
        for (int k = 0; w->clients[i] && k < w->clients[i]->caller_count; k++) {
            sim_doing doing = w->clients[i]->callers[k].doing;
            count += doing == SIM_ACQUIRING || doing == SIM_UPGRADING;
            count += doing == SIM_MULTI_ACQUIRING ? SIM_NAMES : 0;
        }
    return count;
}

static const sim_caller *some_waiting(const sim_world *w) {
    for (int i = 0; i < SIM_SLOTS; i++)
        for (int k = 0; w->clients[i] && k < w->clients[i]->caller_count; k++)
            if (w->clients[i]->callers[k].doing != SIM_IDLE) return &w->clients[i]->callers[k];
    return NULL;
}

/* Returns when every waiter must have been served, without faults. That covers a lease that
   nobody releases, a clock that was set back under it, reconnects, and then one waiter after
   another. */
static hf__time served_by(const sim_world *w) {
    hf__time lease = w->plan.longest_ms * HF__MS;
    hf__time back = w->checks.set_back ? 10 * lease : 0;
    return w->now + 2 * lease + back + CALM_CONNECT + count_waiting(w) * CALM_SERVICE;
}

static void run_until_idle(sim_world *w, const char *what) {
    hf__time until = served_by(w);
    while (!all_idle(w)) {
        if (step_world(w, until)) continue;
        const sim_caller *t = some_waiting(w);
        sim_fail(w, t ? t->name : SIM_ANY, "%s: client %d.%d still %s %s", what,
                 t ? t->client->slot : -1, t ? t->index : -1,
                 t && (t->doing == SIM_ACQUIRING || t->doing == SIM_MULTI_ACQUIRING)
                     ? "waits for"
                     : "is busy with",
                 t ? sim_names[t->name] : "nothing");
    }
}

/* A new client must be able to acquire every lock. */
static void run_newcomer(sim_world *w) {
    sim_client *c = sim_client_new(w, SIM_CLIENTS, w->plan.names);
    w->clients[SIM_CLIENTS] = c;
    hf__time until = w->now + CALM_CONNECT;
    while (!c->was_up)
        if (!step_world(w, until)) sim_fail(w, SIM_ANY, "a new client cannot connect");
    for (int i = 0; i < w->plan.names; i++) sim_caller_want(&c->callers[i], i, sim_client_now(c));
    sim_client_wake(c);
    run_until_idle(w, "a newcomer");
}

static bool all_gone(const sim_world *w) {
    for (int i = 0; i < SIM_SLOTS; i++)
        if (w->clients[i] && w->clients[i]->life != SIM_GONE) return false;
    return true;
}

static bool all_connected(const sim_world *w) {
    for (int i = 0; i < SIM_SLOTS; i++)
        if (w->clients[i] && w->clients[i]->life != SIM_GONE && !w->clients[i]->store.store.up)
            return false;
    return true;
}

static void run_until_connected(sim_world *w) {
    hf__time until = w->now + CALM_CONNECT;
    while (!all_connected(w))
        if (!step_world(w, until)) sim_fail(w, SIM_ANY, "a client does not reconnect");
}

static void close_all(sim_world *w) {
    run_until_connected(w);
    w->ending = true;
    for (int i = 0; i < SIM_SLOTS; i++)
        if (w->clients[i] && w->clients[i]->life == SIM_RUNNING) sim_client_close(w->clients[i]);
    hf__time until = served_by(w);
    while (!all_gone(w))
        if (!step_world(w, until)) sim_fail(w, SIM_ANY, "a client does not close");
}

/* After the last lease, the store holds only keys that are kept for a while. */
static void check_store(sim_world *w) {
    hf__time until = served_by(w);
    while (step_world(w, until)) {
    }
    for (int i = 0; i < w->plan.names; i++) {
        if (sim_kinds_name(w, i) ? sim_kinds_held(w, i) : sim_probe(w, i).held)
            sim_fail(w, i, "%s is held, but there is no client", sim_names[i]);
    }
    for (rm_key *key = NULL; (key = rm_keys_next(&w->server.db[0], key));)
        if (key->expires_ms == RM_FOREVER)
            sim_fail(w, SIM_ANY, "%s never expires", key->mapped.key);
    SIM_CHECK(w, SIM_ANY, !w->checks.claims);
}

/* ---- A run ---- */

static void begin_world(sim_world *w) {
    sim_plan_draw(w);
    SIM_LOG(w, SIM_ANY, "world  %d clients, %d callers, %d names, faults 0x%x", w->plan.clients,
            w->plan.callers, w->plan.names, w->plan.faults);
    w->server_clock.base = sim_draw(w, 1000 * HF__SEC);
    w->server_clock.ppm = w->plan.faults & SIM_DRIFT ? sim_drift(w) : 0;
    sim_server_init(w);
    sim_checks_init(w);
    for (int i = 0; i < w->plan.clients; i++) w->clients[i] = sim_client_new(w, i, w->plan.callers);
    sim_chaos_begin(w);
}

/* In some runs clients are closed in the middle of calls, in others they finish first. */
static void play_run(sim_world *w) {
    while (step_world(w, w->plan.lasts)) {
    }
    sim_chaos_end(w);
    if (sim_chance(w, 3)) {
        for (int i = 0; i < w->plan.clients; i++)
            if (sim_chance(w, 2) && w->clients[i]->life == SIM_RUNNING)
                sim_client_close(w->clients[i]);
    }
    run_until_idle(w, "without faults");
    run_newcomer(w);
    close_all(w);
    check_store(w);
}

static void end_world(sim_world *w) {
    sim_checks_fini(w);
    for (int i = 0; i < SIM_SLOTS; i++)
        if (w->clients[i]) sim_client_free(w->clients[i]);
    sim_net_fini(w);
    rm_fini(&w->server);
}

static void print_trace(const sim_world *w, sim_trace_mode mode, bool good) {
    if (mode == SIM_TRACE_ALL) sim_trace_print(&w->trace, SIM_ANY, w->trace.count);
    if (mode == SIM_TRACE_END && !good) sim_trace_print(&w->trace, w->why_name, TRACE_LINES);
}

void sim_run(uint64_t seed, sim_trace_mode mode, sim_result *result) {
    static sim_world world;
    sim_world *w = &world;
    memset(w, 0, sizeof *w);
    w->seed = seed;
    w->rand.state = seed;
    w->now = HF__SEC;
    w->trace.on = mode != SIM_SILENT;
    *result = (sim_result){0};
    if (!setjmp(w->failed)) {
        begin_world(w);
        w->plan.lasts += w->now;
        play_run(w);
        end_world(w);
        result->good = true;
    }
    /* A failed run is not cleaned up: its process ends soon. */
    print_trace(w, mode, result->good);
    memcpy(result->why, w->why, sizeof result->why);
    result->hash = sim_trace_hash(&w->trace);
    result->steps = w->steps;
    result->counts = w->checks.counts;
    sim_trace_fini(&w->trace);
}
