/* SPDX-License-Identifier: Apache-2.0 */
#include "quorum/ring.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/command.h"
#include "world/world.h" /* sim_run */

#define STEPS_MAX    400000
#define APART_US     20000 /* default difference of the nodes' clocks */
#define TRACE_LINES  80
#define CALM_SERVICE (12 * HF__SEC)  /* the longest wait, nodes that may not vote yet, an outage */
#define CALM_LAST    (6 * HF__SEC)   /* a dead client's lock is free by then */
#define CALM_UNDO    (3500 * HF__MS) /* all are connected, and unused locks are returned */

/* ---- Events and failures ---- */

void ring_at(ring *r, ring_event *event, hf__time at) {
    hf__heap_set(&r->events, &event->timer, at);
}

void ring_fail(ring *r, const char *format, ...) {
    va_list args;
    va_start(args, format);
    vsnprintf(r->why, sizeof r->why, format, args);
    va_end(args);
    RING_LOG(r, "%s", r->why);
    longjmp(r->failed, 1);
}

/* ---- Checks ---- */

static ring_caller *holder_but(ring *r, const ring_caller *other) {
    for (int i = 0; i < r->clients; i++)
        for (int j = 0; !r->client[i].gone && j < r->callers; j++) {
            ring_caller *t = &r->client[i].callers[j];
            if (t != other && ring_caller_holds(t)) return t;
        }
    return NULL;
}

void ring_entered(ring *r, const ring_caller *t) {
    uint64_t token = t->hold->ownership->token, floor = r->loose ? t->floor : r->last_token;
    r->entered++;
    RING_LOG(r, "client %d.%d  enters, token %llu%s", t->client->slot, t->number,
             (unsigned long long)token, t->doubtful ? ", in doubt" : "");
    if (token <= floor)
        ring_fail(r, "client %d.%d entered under token %llu, which is not above %llu",
                  t->client->slot, t->number, (unsigned long long)token, (unsigned long long)floor);
    if (token > r->last_token) r->last_token = token;
    r->excused += holder_but(r, t) != NULL;
}

void ring_left(ring *r, const ring_caller *t) {
    uint64_t token = t->hold->ownership->token;
    if (token > r->ended_token) r->ended_token = token;
}

void ring_doubt_all(ring *r) {
    for (int i = 0; i < r->clients; i++)
        for (int j = 0; !r->client[i].gone && j < r->callers; j++) {
            ring_caller *t = &r->client[i].callers[j];
            if (t->doing == RING_WAITS || t->doing == RING_HOLDS) t->doubtful = true;
        }
}

static void check_exclusion(ring *r) {
    const ring_caller *holder = NULL;
    for (int i = 0; i < r->clients; i++)
        for (int j = 0; !r->client[i].gone && j < r->callers; j++) {
            const ring_caller *t = &r->client[i].callers[j];
            if (t->doubtful || !ring_caller_holds(t)) continue;
            if (holder)
                ring_fail(r, "client %d.%d and client %d.%d both hold the name",
                          holder->client->slot, holder->number, t->client->slot, t->number);
            holder = t;
        }
}

void ring_check_left(ring *r, ring_node *n) {
    ring_node_clock(n);
    const rm_key *key = rm_look(&n->server, RING_KEY);
    int64_t at = key ? rm_index(key, rm_text("n")) : -1;
    for (int j = 0; at >= 0 && j < r->clients; j++)
        if (!strncmp(key->items[at].value.at, r->client[j].who.client, HF__UUID_LENGTH))
            ring_fail(r, "node %d has the name held by client %d, which does not hold it: %s",
                      n->number, j, key->items[at].value.at);
}

/* ---- Chaos ---- */

void ring_pause_some(ring *r) {
    ring_client *c = &r->client[ring_draw(r, r->clients)];
    if (c->gone) return;
    c->paused_until = r->now + ring_draw(r, (r->lossless ? 1000 : 2 * r->lease_ms) * HF__MS);
    RING_LOG(r, "client %d  is paused until %.3f ms", c->slot, (double)c->paused_until / HF__MS);
}

static bool may_cut(const ring_wire *w, bool answering) {
    return w->link && (!answering || w->down.first);
}

void ring_cut_some(ring *r) {
    int count = 0;
    bool answering = ring_chance(r, 2); /* prefer a wire with answers in flight */
    for (ring_wire *w = r->wires; w; w = w->next) count += may_cut(w, answering);
    int64_t chosen = ring_draw(r, count);
    for (ring_wire *w = r->wires; w; w = w->next)
        if (may_cut(w, answering) && !chosen--) {
            ring_wire_cut(w);
            return;
        }
}

static void disturb_world(void *arg) {
    ring *r = arg;
    ring_this.disturb(r);
    ring_at(r, &r->chaos, r->now + ring_draw(r, 2 * r->gap));
}

static void end_chaos(ring *r) {
    RING_LOG(r, "world  faults have ended");
    r->calm = true;
    r->breaks_next = false;
    ring_at(r, &r->chaos, HF__NEVER);
    for (int i = 0; i < r->nodes; i++) {
        r->node[i].stopped_until = 0;
        if (r->node[i].down) ring_at(r, &r->node[i].back, r->now);
    }
    for (ring_wire *w = r->wires; w; w = w->next)
        if (w->up.first) ring_at(r, &w->up.event, hf__sooner(w->up.first->at, r->now + r->trip));
    for (int i = 0; i < r->clients; i++) {
        r->client[i].paused_until = 0;
        if (r->lossless) ring_client_cancel(&r->client[i]); /* a later hold would hide leftovers */
        if (!r->client[i].gone) ring_at(r, &r->client[i].event, r->now);
    }
    if (ring_this.calm) ring_this.calm(r);
}

/* ---- A run ---- */

bool ring_step(ring *r, hf__time until) {
    hf__time at = hf__heap_due(&r->events);
    if (at > until) {
        r->now = until;
        return false;
    }
    ring_event *event = (ring_event *)hf__heap_pop(&r->events, at);
    r->now = hf__later(r->now, at);
    if (++r->steps > STEPS_MAX) ring_fail(r, "the world never becomes idle");
    event->fn(event->arg);
    check_exclusion(r);
    return true;
}

static bool all_idle(const ring *r) {
    for (int i = 0; i < r->clients; i++)
        for (int j = 0; !r->client[i].gone && j < r->callers; j++)
            if (r->client[i].callers[j].doing != RING_THINKS) return false;
    return true;
}

static void begin_world(ring *r) {
    r->apart_us = APART_US;
    ring_this.plan(r);
    for (int i = 0; i < r->nodes; i++) ring_node_init(r, i);
    if (ring_this.begin) ring_this.begin(r);
    for (int i = 0; i < r->clients; i++) ring_client_init(r, i);
    r->chaos = (ring_event){.fn = disturb_world, .arg = r};
}

static void serve_client(ring *r, ring_client *c) {
    if (c->gone) return;
    hf__time until = r->now + CALM_LAST;
    ring_client_want(c);
    while (!all_idle(r))
        if (!ring_step(r, until)) break;
    if (!ring_client_served(c)) ring_fail(r, "client %d cannot acquire the name any more", c->slot);
}

void ring_serve_all(ring *r) {
    for (int i = 0; i < r->clients; i++) serve_client(r, &r->client[i]);
}

void ring_play(ring *r, hf__time span) {
    hf__time until = r->now + span;
    r->calm = false;
    ring_at(r, &r->chaos, r->now + ring_draw(r, r->gap));
    for (int i = 0; i < r->clients; i++) ring_client_resume(&r->client[i]);
    while (ring_step(r, until)) {
    }
    end_chaos(r);
    until = r->now + CALM_SERVICE;
    while (!all_idle(r))
        if (!ring_step(r, until))
            ring_fail(r, "a caller still waits or releases, although there are no faults");
    until = r->now + CALM_UNDO;
    while (ring_step(r, until)) {
    }
}

static void end_world(ring *r) {
    for (int i = 0; i < r->clients; i++) ring_client_fini(&r->client[i]);
    ring_wires_fini(r);
    if (ring_this.end) ring_this.end(r);
    for (int i = 0; i < r->nodes; i++) rm_fini(&r->node[i].server);
}

void sim_run(uint64_t seed, sim_trace_mode mode, sim_result *result) {
    static ring world;
    ring *r = &world;
    memset(r, 0, sizeof *r);
    r->rand.state = seed;
    r->now = HF__SEC;
    r->trace.on = mode != SIM_SILENT;
    *result = (sim_result){0};
    if (!setjmp(r->failed)) {
        begin_world(r);
        ring_this.play(r);
        end_world(r);
        result->good = true;
    }
    /* A failed run is not cleaned up: its process ends soon. */
    if (mode == SIM_TRACE_ALL || (mode == SIM_TRACE_END && !result->good))
        sim_trace_print(&r->trace, SIM_ANY, mode == SIM_TRACE_ALL ? r->trace.count : TRACE_LINES);
    memcpy(result->why, r->why, sizeof result->why);
    result->hash = sim_trace_hash(&r->trace);
    result->steps = r->steps;
    result->counts = (sim_counts){.entered = r->entered,
                                  .refused = r->refused,
                                  .lost = r->lost,
                                  .scripts = r->scripts,
                                  .excused = r->excused};
    sim_trace_fini(&r->trace);
}
