/* SPDX-License-Identifier: Apache-2.0 */
#include "world/net.h"

#include <stdlib.h>
#include <string.h>

#include "world/link.h"
#include "world/server.h"
#include "world/world.h"

#define LATE_MOST  (2 * HF__SEC)
#define LATE_OFTEN (250 * HF__MS)
#define CALM_LATE  HF__SEC

#define RESET_AFTER (100 * HF__MS)

enum { COMES_UP, BREAKS, SERVER_CLOSES };

/* ---- Flows ---- */

static void plan_flow(sim_world *w, sim_flow *flow) {
    hf__time at = flow->first ? hf__later(flow->first->at, flow->stalled_until) : HF__NEVER;
    sim_at(w, &flow->event, at);
}

static void add_chunk(sim_world *w, sim_flow *flow, const char *bytes, size_t length) {
    sim_chunk *chunk = rm_alloc(sizeof *chunk + length);
    chunk->next = NULL;
    chunk->length = length;
    memcpy(chunk->bytes, bytes, length);
    chunk->at = w->now + sim_trip(w);
    if (flow->last) {
        chunk->at = hf__later(chunk->at, flow->last->at);
        flow->last->next = chunk;
    } else {
        flow->first = chunk;
    }
    flow->last = chunk;
    plan_flow(w, flow);
}

/* Sometimes sends two pieces, one later than the other. */
static void put_bytes(sim_world *w, sim_flow *flow, const char *bytes, size_t length) {
    size_t first = length;
    if (length > 1 && sim_chance(w, 16)) first = 1 + (size_t)sim_draw(w, (int64_t)length - 1);
    add_chunk(w, flow, bytes, first);
    if (first < length) add_chunk(w, flow, bytes + first, length - first);
}

static sim_chunk *take_chunk(sim_flow *flow) {
    sim_chunk *chunk = flow->first;
    flow->first = chunk->next;
    if (!flow->first) flow->last = NULL;
    return chunk;
}

static void drop_flow(sim_world *w, sim_flow *flow) {
    while (flow->first) free(take_chunk(flow));
    sim_at(w, &flow->event, HF__NEVER);
}

/* ---- Wires ---- */

static void free_wire(sim_wire *wire) {
    sim_world *w = wire->world;
    drop_flow(w, &wire->up);
    drop_flow(w, &wire->down);
    sim_at(w, &wire->turn, HF__NEVER);
    if (wire->prev)
        wire->prev->next = wire->next;
    else
        w->wires = wire->next;
    if (wire->next) wire->next->prev = wire->prev;
    hf__buffer_fini(&wire->arrived);
    free(wire);
}

static void disconnect_server(sim_wire *wire) {
    if (wire->conn) rm_disconnect(wire->conn);
    wire->conn = NULL;
}

/* The client notices the break only as the result of a read. */
static void break_wire(sim_wire *wire) {
    wire->broken = true;
    drop_flow(wire->world, &wire->down);
    if (wire->link) sim_link_wake(wire->link);
}

static void turn_wire(void *arg) {
    sim_wire *wire = arg;
    sim_world *w = wire->world;
    SIM_LOG(w, SIM_ANY, "wire %d  %s", wire->number,
            wire->turns == COMES_UP ? (w->server_down ? "is refused" : "comes up")
            : wire->turns == BREAKS ? "breaks"
                                    : "closes at the server");
    if (wire->turns == SERVER_CLOSES) {
        disconnect_server(wire);
        free_wire(wire);
    } else if (wire->turns == BREAKS || w->server_down) {
        break_wire(wire);
    } else {
        wire->conn = rm_connect(&w->server, wire);
        wire->open = true;
        sim_link_wake(wire->link);
    }
}

static void plan_turn(sim_wire *wire, int what, hf__time at) {
    wire->turns = what;
    sim_at(wire->world, &wire->turn, at);
}

static void deliver_up(void *arg) {
    sim_wire *wire = arg;
    sim_world *w = wire->world;
    if (w->server_stalled_until > w->now) { /* it reads when it is awake again */
        sim_at(w, &wire->up.event, w->server_stalled_until);
        return;
    }
    sim_chunk *chunk = take_chunk(&wire->up);
    if (wire->conn) {
        sim_server_clock(w);
        rm_feed(wire->conn, chunk->bytes, chunk->length);
        sim_net_answers(w);
        w->checks.stale = true;
    }
    free(chunk);
    plan_flow(w, &wire->up);
    if (!wire->up.first && !wire->link) plan_turn(wire, SERVER_CLOSES, w->now + sim_trip(w));
}

static void deliver_down(void *arg) {
    sim_wire *wire = arg;
    sim_chunk *chunk = take_chunk(&wire->down);
    hf__buffer_add(&wire->arrived, chunk->bytes, chunk->length);
    free(chunk);
    plan_flow(wire->world, &wire->down);
    sim_link_wake(wire->link);
}

sim_wire *sim_wire_open(sim_world *w, struct sim_link *link) {
    sim_wire *wire = rm_alloc(sizeof *wire);
    *wire = (sim_wire){.world = w,
                       .next = w->wires,
                       .number = ++w->wires_made,
                       .link = link,
                       .up = {.event = {.fn = deliver_up, .arg = wire}},
                       .down = {.event = {.fn = deliver_down, .arg = wire}},
                       .turn = {.fn = turn_wire, .arg = wire}};
    if (wire->next) wire->next->prev = wire;
    w->wires = wire;
    hf__buffer_init(&wire->arrived, RM_BYTES_MAX);
    plan_turn(wire, COMES_UP, w->now + sim_trip(w) + sim_trip(w));
    return wire;
}

void sim_wire_send(sim_wire *wire, const char *bytes, size_t length) {
    if (!wire->broken) put_bytes(wire->world, &wire->up, bytes, length);
}

/* ---- Closing ---- */

/* Mostly in time for its acquires to take effect; sometimes much later. */
static hf__time how_late(sim_world *w) {
    if (w->calm || sim_chance(w, 4)) return sim_trip(w);
    return sim_draw(w, sim_chance(w, 3) ? LATE_MOST : LATE_OFTEN);
}

/* Drops bytes in flight from a random offset on. The bytes before it may arrive late. */
static void make_late(sim_wire *wire) {
    sim_world *w = wire->world;
    sim_flow *up = &wire->up;
    if (sim_chance(w, 3)) drop_flow(w, up);
    hf__time at = w->now + how_late(w);
    up->stalled_until = 0;
    for (sim_chunk *chunk = up->first; chunk; chunk = chunk->next) {
        chunk->at = hf__later(chunk->at, at);
        if (!sim_chance(w, 6)) continue;
        chunk->length = (size_t)sim_draw(w, (int64_t)chunk->length + 1);
        while (chunk->next) { /* the stream ends at the first lost byte */
            sim_chunk *rest = chunk->next;
            chunk->next = rest->next;
            free(rest);
        }
        up->last = chunk;
    }
    if (up->first)
        SIM_LOG(w, SIM_ANY, "wire %d  its bytes in flight may arrive until %.3f ms", wire->number,
                (double)up->last->at / HF__MS);
    plan_flow(w, up);
}

void sim_wire_close(sim_wire *wire) {
    sim_world *w = wire->world;
    SIM_LOG(w, SIM_ANY, "wire %d  closes", wire->number);
    wire->link = NULL;
    drop_flow(w, &wire->down);
    if (!wire->conn) {
        free_wire(wire);
        return;
    }
    make_late(wire);
    plan_turn(wire, SERVER_CLOSES,
              wire->up.first     ? HF__NEVER
              : sim_chance(w, 4) ? w->now + sim_draw(w, LATE_MOST)
                                 : w->now + sim_trip(w));
}

/* ---- Faults ---- */

static void stall_flow(sim_world *w, sim_flow *flow, hf__time until) {
    flow->stalled_until = hf__later(flow->stalled_until, until);
    plan_flow(w, flow);
}

void sim_wire_cut(sim_wire *wire) {
    enum { RESET, NOTHING_PASSES, NO_ANSWERS, NO_COMMANDS };
    static const char *const said[] = {"reset", "nothing passes", "no answers pass",
                                       "no commands pass"};
    sim_world *w = wire->world;
    int64_t how = wire->open ? sim_draw(w, 4) : RESET;
    SIM_LOG(w, SIM_ANY, "wire %d  is cut: %s", wire->number, said[how]);
    if (how == RESET)
        plan_turn(wire, BREAKS, w->now + sim_trip(w));
    else if (sim_chance(w, 2)) /* so a later reset finds more bytes in flight */
        plan_turn(wire, BREAKS, w->now + sim_draw(w, RESET_AFTER));
    if (how == NOTHING_PASSES || how == NO_COMMANDS) stall_flow(w, &wire->up, HF__NEVER);
    if (how == NOTHING_PASSES || how == NO_ANSWERS) stall_flow(w, &wire->down, HF__NEVER);
}

void sim_wire_stall(sim_wire *wire, hf__time until) {
    SIM_LOG(wire->world, SIM_ANY, "wire %d  stalls until %.3f ms", wire->number,
            (double)until / HF__MS);
    if (!sim_chance(wire->world, 3)) stall_flow(wire->world, &wire->up, until);
    if (!sim_chance(wire->world, 3)) stall_flow(wire->world, &wire->down, until);
}

static void calm_flow(sim_world *w, sim_flow *flow, hf__time latest) {
    flow->stalled_until = 0;
    for (sim_chunk *chunk = flow->first; chunk; chunk = chunk->next)
        chunk->at = hf__sooner(chunk->at, latest);
    plan_flow(w, flow);
}

void sim_net_calm(sim_world *w) {
    for (sim_wire *wire = w->wires; wire; wire = wire->next) {
        bool cut = wire->up.stalled_until == HF__NEVER || wire->down.stalled_until == HF__NEVER;
        if (cut && wire->link && !wire->broken) plan_turn(wire, BREAKS, w->now + sim_trip(w));
        hf__time latest = w->now + (wire->link ? sim_trip(w) : CALM_LATE);
        if (hf__timer_armed(&wire->turn.timer))
            sim_at(w, &wire->turn, hf__sooner(wire->turn.timer.due, latest));
        calm_flow(w, &wire->up, latest);
        calm_flow(w, &wire->down, latest);
    }
}

/* ---- The server's side ---- */

void sim_net_answers(sim_world *w) {
    for (rm_conn *conn = w->server.conns; conn; conn = conn->next) {
        sim_wire *wire = conn->owner;
        if (!conn->out.length) continue;
        if (wire && wire->link && !wire->broken)
            put_bytes(w, &wire->down, conn->out.data, conn->out.length);
        hf__buffer_cut(&conn->out, 0);
    }
}

void sim_net_server_gone(sim_world *w) {
    for (sim_wire *wire = w->wires, *next; wire; wire = next) {
        next = wire->next;
        wire->conn = NULL; /* rm_restart has freed it */
        drop_flow(w, &wire->up);
        if (!wire->link)
            free_wire(wire);
        else if (wire->open && !wire->broken)
            plan_turn(wire, BREAKS, w->now + sim_trip(w));
    }
}

void sim_net_fini(sim_world *w) {
    while (w->wires) {
        disconnect_server(w->wires);
        free_wire(w->wires);
    }
}
