/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "quorum/ring.h"
#include "store/redis/protocol/script.h"

#define EPOCH_US  INT64_C(1794777709466788)
#define UP_US     INT64_C(3600000000) /* uptime of the nodes when the world begins */
#define LATE_MOST (3 * HF__SEC)

/* ---- Nodes ---- */

void ring_node_clock(ring_node *n) {
    n->server.now_us = EPOCH_US + sim_shows(&n->clock, n->ring->now) / 1000;
}

static void comes_back(void *arg) {
    ring_node *n = arg;
    RING_LOG(n->ring, "node %d  is back", n->number);
    n->down = false;
    ring_node_clock(n);
    n->server.started_us = n->server.now_us;
    if (ring_this.back) ring_this.back(n);
}

static const char *name_of(const char *sha1) {
    static const hf__script *const all[] = {&hf__script_acquire, &hf__script_raise_token,
                                            &hf__script_renew,   &hf__script_release,
                                            &hf__script_uptime,  &hf__script_register_client};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(all[i]->sha1, sha1)) return all[i]->name;
    return "?";
}

static void note_script(void *arg, const rm_ran *script) {
    ring_node *n = arg;
    const char *at = script->answer.at, *end = memchr(at, '\r', script->answer.length);
    n->ring->scripts++;
    if (script->key_count > 0 && script->arg_count > 0)
        RING_LOG(n->ring, "node %d  %s %s: %.*s", n->number, name_of(script->sha1),
                 script->args[0].at, (int)(end - at), at);
    if (ring_this.ran) ring_this.ran(n, script);
}

static void is_broken(void *arg) {
    ring_node *n = arg;
    ring_node_clock(n);
    rm_key *key = rm_look(&n->server, RING_KEY);
    RING_LOG(n->ring, "node %d  its lock is broken", n->number);
    if (key) rm_keys_remove(&n->server.db[0], key);
    ring_doubt_all(n->ring);
}

void ring_node_init(ring *r, int number) {
    ring_node *n = &r->node[number];
    *n = (ring_node){.ring = r,
                     .number = number,
                     .back = {.fn = comes_back, .arg = n},
                     .broken = {.fn = is_broken, .arg = n}};
    n->clock.base = ring_draw(r, r->apart_us) * 1000;
    n->clock.ppm =
        ring_chance(r, 3) ? (ring_chance(r, 2) ? 4900 : -4900) : ring_draw(r, 9801) - 4900;
    rm_init(&n->server);
    n->server.watch = note_script;
    n->server.watch_arg = n;
    ring_node_clock(n);
    n->server.started_us = n->server.now_us - UP_US;
}

void ring_node_stop(ring_node *n, hf__time span) {
    RING_LOG(n->ring, "node %d  stops until %.3f ms", n->number,
             (double)(n->ring->now + span) / HF__MS);
    n->stopped_until = n->ring->now + span;
}

void ring_node_break_wires(ring_node *n) {
    for (ring_wire *w = n->ring->wires; w; w = w->next) {
        if (w->node != n || !w->conn) continue;
        rm_disconnect(w->conn);
        w->conn = NULL;
        w->broken = true;
        if (w->link) ring_client_wake(w->link->client);
    }
}

void ring_node_restart(ring_node *n, bool keep_keys, hf__time away) {
    ring *r = n->ring;
    RING_LOG(r, "node %d  restarts %s its data, away until %.3f ms", n->number,
             keep_keys ? "with" : "without", (double)(r->now + away) / HF__MS);
    ring_node_break_wires(n);
    rm_restart(&n->server, keep_keys);
    n->stopped_until = 0;
    n->down = true;
    ring_at(r, &n->back, r->now + away);
}

/* ---- Flows ---- */

hf__time ring_trip(ring *r) {
    hf__time t = r->trip / 4 + ring_draw(r, r->trip);
    return !r->calm && ring_chance(r, 200) ? t + ring_draw(r, 300 * HF__MS) : t;
}

static void add_chunk(ring *r, ring_flow *f, const char *bytes, size_t length) {
    ring_chunk *c = rm_alloc(sizeof *c + length);
    *c = (ring_chunk){.at = r->now + ring_trip(r), .length = length};
    memcpy(c->bytes, bytes, length);
    if (f->last) {
        c->at = hf__later(c->at, f->last->at);
        f->last->next = c;
    } else {
        f->first = c;
    }
    f->last = c;
    ring_at(r, &f->event, f->first->at);
}

static ring_chunk *take_chunk(ring_flow *f) {
    ring_chunk *c = f->first;
    f->first = c->next;
    if (!f->first) f->last = NULL;
    return c;
}

static void drop_chunks(ring *r, ring_flow *f) {
    while (f->first) free(take_chunk(f));
    ring_at(r, &f->event, HF__NEVER);
}

static void free_wire(ring_wire *w) {
    ring *r = w->node->ring;
    drop_chunks(r, &w->up);
    drop_chunks(r, &w->down);
    ring_at(r, &w->opens, HF__NEVER);
    ring_at(r, &w->waited, HF__NEVER);
    if (w->conn) rm_disconnect(w->conn);
    if (w->prev)
        w->prev->next = w->next;
    else
        r->wires = w->next;
    if (w->next) w->next->prev = w->prev;
    hf__buffer_fini(&w->arrived);
    free(w);
}

void ring_wires_answer(ring_node *n) {
    for (ring_wire *w = n->ring->wires; w; w = w->next) {
        if (w->node != n || !w->conn || !w->conn->out.length) continue;
        if (w->link) add_chunk(n->ring, &w->down, w->conn->out.data, w->conn->out.length);
        hf__buffer_cut(&w->conn->out, 0);
    }
}

static void deliver_up(void *arg) {
    ring_wire *w = arg;
    ring_node *n = w->node;
    ring *r = n->ring;
    if (r->now < n->stopped_until) {
        ring_at(r, &w->up.event, n->stopped_until);
        return;
    }
    ring_chunk *c = take_chunk(&w->up);
    ring_node_clock(n);
    if (w->conn) rm_feed(w->conn, c->bytes, c->length);
    free(c);
    ring_wires_answer(n);
    if (w->up.first)
        ring_at(r, &w->up.event, hf__later(w->up.first->at, r->now));
    else if (!w->link)
        free_wire(w);
}

static void deliver_down(void *arg) {
    ring_wire *w = arg;
    ring *r = w->node->ring;
    ring_chunk *c = take_chunk(&w->down);
    hf__buffer_add(&w->arrived, c->bytes, c->length);
    free(c);
    if (w->down.first) ring_at(r, &w->down.event, hf__later(w->down.first->at, r->now));
    if (w->link) ring_client_wake(w->link->client);
}

/* ---- Wires ---- */

static void open_wire(void *arg) {
    ring_wire *w = arg;
    ring_node *n = w->node;
    if (n->down)
        w->broken = true;
    else
        w->conn = rm_connect(&n->server, w);
    w->open = true;
    if (w->link) ring_client_wake(w->link->client);
}

ring_wire *ring_wire_open(ring_node *n, ring_link *link) {
    ring *r = n->ring;
    ring_wire *w = rm_alloc(sizeof *w);
    *w = (ring_wire){.node = n,
                     .link = link,
                     .next = r->wires,
                     .up.event = {.fn = deliver_up, .arg = w},
                     .down.event = {.fn = deliver_down, .arg = w},
                     .opens = {.fn = open_wire, .arg = w}};
    hf__buffer_init(&w->arrived, RM_BYTES_MAX);
    if (w->next) w->next->prev = w;
    r->wires = w;
    ring_at(r, &w->opens, r->now + ring_trip(r));
    return w;
}

void ring_wire_send(ring_wire *w, const char *bytes, size_t length) {
    add_chunk(w->node->ring, &w->up, bytes, length);
}

/* Bytes that were sent may arrive late, after those of the next connection. */
void ring_wire_close(ring_wire *w) {
    ring *r = w->node->ring;
    w->link = NULL;
    drop_chunks(r, &w->down);
    ring_at(r, &w->opens, HF__NEVER);
    if (!w->conn || !w->up.first || ring_chance(r, 2)) {
        free_wire(w);
        return;
    }
    if (r->calm) return;
    hf__time late = r->now + ring_draw(r, LATE_MOST);
    for (ring_chunk *c = w->up.first; c; c = c->next) c->at = hf__later(c->at, late);
    ring_at(r, &w->up.event, w->up.first->at);
}

/* Breaks the client's end; answers in flight are lost. */
void ring_wire_cut(ring_wire *w) {
    if (!w->link || !w->open) return;
    RING_LOG(w->node->ring, "wire of client %d to node %d  is cut", w->link->client->slot,
             w->node->number);
    drop_chunks(w->node->ring, &w->down);
    hf__buffer_cut(&w->arrived, 0);
    w->broken = true;
    ring_client_wake(w->link->client);
}

void ring_wires_fini(ring *r) {
    while (r->wires) free_wire(r->wires);
}
