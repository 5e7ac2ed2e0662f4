/* SPDX-License-Identifier: Apache-2.0 */
#include "world/chaos.h"

#include <string.h>

#include "world/client.h"
#include "world/server.h"

/* ---- The plan ---- */

static unsigned draw_faults(sim_world *w) {
    if (sim_chance(w, 10)) return SIM_HARMLESS & (unsigned)sim_draw(w, SIM_ALL_FAULTS + 1);
    unsigned faults = 0, few = (unsigned)sim_draw(w, 3) + 2;
    for (unsigned bit = 1; bit <= SIM_ALL_FAULTS; bit <<= 1)
        if (sim_chance(w, few)) faults |= bit;
    return faults;
}

/* One contended name on a very bad network. Late arrivals, which are rare in other worlds,
   happen here all the time. */
static void make_stormy(sim_world *w) {
    sim_plan *p = &w->plan;
    p->clients = 2 + (int)sim_draw(w, SIM_CLIENTS - 1);
    p->names = 1;
    p->faults &= SIM_DRIFT | SIM_BREAKS | SIM_PAUSES | SIM_SLOW_NET | SIM_ECHOES | SIM_MONITOR |
                 SIM_OLD_SERVER;
    p->faults |= SIM_CUTS | SIM_STALLS;
    p->gap = (2 + sim_draw(w, 20)) * HF__MS;
    p->think = (1 + sim_draw(w, 15)) * HF__MS;
    /* A request may be in flight that long and still take effect. */
    p->command_ms += sim_draw(w, 1000);
    p->hasty = sim_chance(w, 2);
}

/* Long leases, long holds and drifting clocks: samples of the server's clock become old. */
static void make_patient(sim_world *w) {
    sim_plan *p = &w->plan;
    p->clients = 3 + (int)sim_draw(w, SIM_CLIENTS - 2);
    p->callers = 1;
    p->names = 1;
    p->faults = SIM_DRIFT | SIM_STALLS | (p->faults & (SIM_CUTS | SIM_MONITOR));
    p->think = (500 + sim_draw(w, 3000)) * HF__MS;
    p->lasts = 20 * HF__SEC;
}

/* In one world of four some names are locks of other kinds. Everything else is drawn as without
   them. */
static void draw_sorts(sim_world *w) {
    hf__rand rand = {w->seed ^ 0x6b696e6473};
    sim_plan *p = &w->plan;
    if (w->seed % 4 != 3) return;
    for (int i = 0; i < SIM_NAMES; i++) {
        uint64_t drawn = hf__rand_next(&rand) % 8;
        p->sorts[i] = drawn < 5 ? SIM_SHARES : drawn < 7 ? SIM_PERMITS : SIM_MUTEXES;
    }
    p->capacity = 1 + (uint32_t)(hf__rand_next(&rand) % 5);
}

/* In one world of four, half of them with kinds, callers also acquire several names at once. */
static void draw_multi_acquire(sim_world *w) {
    sim_plan *p = &w->plan;
    p->multi_acquire = w->seed % 8 == 5 || w->seed % 8 == 7;
    if (p->multi_acquire && p->names < 2) p->names = 2 + (int)(w->seed / 8 % 2);
}

void sim_plan_draw(sim_world *w) {
    static const int64_t leases[][SIM_LEASES] = {
        {60, 200, 1000}, {80, 120, 300}, {200, 500, 3000}, {1000, 4000, 8000}};
    static const hf__time trips[] = {HF__MS / 5, 2 * HF__MS, 10 * HF__MS, 40 * HF__MS};
    sim_plan *p = &w->plan;
    draw_sorts(w);
    p->clients = 1 + (int)sim_draw(w, SIM_CLIENTS);
    p->callers = 1 + (int)sim_draw(w, SIM_CALLERS);
    p->names = 1 + (int)sim_draw(w, 1 + sim_draw(w, SIM_NAMES));
    p->faults = draw_faults(w);
    p->gap = (30 + sim_draw(w, 400)) * HF__MS;
    p->trip = trips[sim_draw(w, 4)];
    memcpy(p->leases, leases[sim_draw(w, 4)], sizeof p->leases);
    p->longest_ms = p->leases[SIM_LEASES - 1] * 3 / 2;
    p->lasts = (1000 + sim_draw(w, 2000 + p->longest_ms)) * HF__MS;
    p->think = (2 + sim_draw(w, 60)) * HF__MS;
    p->command_ms = 200 + sim_draw(w, 400);
    p->connect_ms = 300;
    p->outage_ms = 300 + sim_draw(w, 1000);
    if (sim_chance(w, 5)) make_stormy(w);
    if (p->leases[0] == 1000 && sim_chance(w, 4)) make_patient(w);
    draw_multi_acquire(w);
    p->fair = !(p->faults & ~(unsigned)SIM_HARMLESS);
}

/* ---- Faults ---- */

static sim_client *some_client(sim_world *w) {
    sim_client *c = w->clients[sim_draw(w, w->plan.clients)];
    return c->life == SIM_RUNNING ? c : NULL;
}

static sim_wire *some_wire(sim_world *w) {
    sim_client *c = some_client(w);
    return c ? c->store.links[sim_draw(w, SIM_LINKS)].wire : NULL;
}

/* Mostly short; sometimes longer than leases and timeouts. */
static hf__time some_span(sim_world *w) {
    return sim_draw(w, sim_chance(w, 3) ? w->plan.longest_ms * HF__MS * 3 / 2 : 100 * HF__MS);
}

static void cut_wire(sim_world *w) {
    sim_wire *wire = some_wire(w);
    if (wire) sim_wire_cut(wire);
}

static void stall_wire(sim_world *w) {
    sim_wire *wire = some_wire(w);
    if (wire) sim_wire_stall(wire, w->now + some_span(w));
}

static void pause_client(sim_world *w) {
    sim_client *c = some_client(w);
    if (c) sim_client_pause(c, some_span(w));
}

static void crash_client(sim_world *w) {
    sim_client *c = some_client(w);
    if (c) sim_client_crash(c);
}

static void close_client(sim_world *w) {
    sim_client *c = some_client(w);
    if (c && w->now >= c->paused_until) sim_client_close(c);
}

static void restart_server(sim_world *w) {
    if (!w->server_down) sim_server_restart(w, true, some_span(w) / 2);
}

static void lose_data(sim_world *w) {
    int64_t how = sim_draw(w, 3);
    if (how == 0)
        sim_server_flush(w);
    else if (how == 1)
        sim_server_delete(w, (int)sim_draw(w, w->plan.names));
    else if (!w->server_down)
        sim_server_restart(w, false, some_span(w) / 2);
}

static void stall_server(sim_world *w) {
    sim_server_stall(w, some_span(w));
}

static void fill_memory(sim_world *w) {
    if (!w->server.memory_full) sim_server_memory(w, some_span(w));
}

static void step_clock(sim_world *w) {
    int64_t most = sim_chance(w, 3) ? 400 : w->plan.longest_ms * 1000;
    sim_server_step(w, sim_draw(w, 2 * most + 1) - most);
}

static void forbid_messages(sim_world *w) {
    if (!w->server.refused) sim_server_no_messages(w, some_span(w));
}

static void spoil_fence(sim_world *w) {
    sim_server_spoil(w, (int)sim_draw(w, w->plan.names), some_span(w));
}

static const struct {
    unsigned fault;
    void (*happens)(sim_world *w);
} faults[] = {{SIM_CUTS, cut_wire},
              {SIM_STALLS, stall_wire},
              {SIM_PAUSES, pause_client},
              {SIM_CRASHES, crash_client},
              {SIM_CLOSINGS, close_client},
              {SIM_RESTARTS, restart_server},
              {SIM_DATA_LOSS, lose_data},
              {SIM_SCRIPT_FLUSHES, sim_server_forget_scripts},
              {SIM_SERVER_STALLS, stall_server},
              {SIM_FULL_MEMORY, fill_memory},
              {SIM_CLOCK_STEPS, step_clock},
              {SIM_ECHOES, sim_server_echo},
              {SIM_NO_MESSAGES, forbid_messages},
              {SIM_OLD_SERVER, sim_server_old_grants},
              {SIM_SPOILT, spoil_fence}};

static void cause_fault(void *arg) {
    sim_world *w = arg;
    size_t i = (size_t)sim_draw(w, (int64_t)(sizeof faults / sizeof *faults));
    if (w->plan.faults & faults[i].fault) faults[i].happens(w);
    sim_at(w, &w->chaos, w->now + sim_draw(w, w->plan.gap));
}

/* ---- Beginning and end ---- */

void sim_chaos_begin(sim_world *w) {
    w->chaos = (sim_event){.fn = cause_fault, .arg = w};
    if (w->plan.faults) sim_at(w, &w->chaos, w->now + sim_draw(w, w->plan.gap));
}

/* Ends long pauses between calls. */
static void calm_client(sim_client *c) {
    c->paused_until = 0;
    hf__time soon = sim_client_now(c);
    for (int i = 0; i < c->caller_count; i++)
        c->callers[i].next = hf__sooner(c->callers[i].next, soon);
    if (c->life == SIM_GONE)
        sim_at(c->world, &c->event, HF__NEVER); /* and no client starts in its place */
    else
        sim_client_wake(c);
}

void sim_chaos_end(sim_world *w) {
    SIM_LOG(w, SIM_ANY, "world  faults are over");
    w->calm = true;
    w->calm_at = w->now;
    sim_at(w, &w->chaos, HF__NEVER);
    sim_server_calm(w);
    sim_net_calm(w);
    for (int i = 0; i < w->plan.clients; i++) calm_client(w->clients[i]);
}
