/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The world of a quorum: independent servers, and clients whose core uses src/store/quorum over one
 * session per node. Leases differ by client and by call. rejoin_delay is the same for all clients;
 * some calls request a longer lease, which is refused. Nothing is excused, because nodes that lose
 * their data do not vote. Only after a break is everything held at that time in doubt.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/command.h"
#include "quorum/ring.h"
#include "store/redis/protocol/script.h"

#define ROUNDS       6             /* rounds that check for leftovers */
#define CALM_AGE     (6 * HF__SEC) /* all nodes vote by then */
#define FAR_APART_US 2000000       /* clocks of nodes that keep their data need not agree */

static void draw_plan(ring *r) {
    r->nodes = ring_chance(r, 2) ? 3 : 5;
    r->clients = 2 + (int)ring_draw(r, RING_CLIENTS - 1);
    r->callers = 1 + (int)ring_draw(r, RING_CALLERS);
    r->lease_ms = 1000 * (1 + ring_draw(r, 3));
    r->lossless = ring_chance(r, 4);
    r->unclocked = ring_chance(r, 2);
    if (r->lossless) r->lease_ms = 20000;
    r->greedy = !r->lossless;
    r->breaks = r->loose = r->lossless && r->unclocked;
    if (r->breaks) r->apart_us = FAR_APART_US;
    r->command_ms = 200 + ring_draw(r, 400);
    r->trip = 100000 + ring_draw(r, 5 * HF__MS);
    r->gap = (20 << ring_draw(r, 7)) * HF__MS;
    r->think = (1 + ring_draw(r, 300)) * HF__MS;
    RING_LOG(r, "world  %d nodes, %d clients, %d callers, lease %lld ms", r->nodes, r->clients,
             r->callers, (long long)r->lease_ms);
}

static hf__store *open_client(ring_client *c) {
    ring *r = c->ring;
    hf__quorum_node nodes[RING_NODES] = {0};
    for (int i = 0; i < r->nodes; i++) {
        nodes[i].store = c->links[i] = ring_link_new(c, &r->node[i], HF__COMMANDS);
        snprintf(nodes[i].name, sizeof nodes[i].name, "node %d", i);
    }
    c->link_count = r->nodes;
    const hf__quorum_config quorum = {.command_timeout_ms = r->command_ms,
                                      .rejoin_ms = r->lossless ? 1 : r->lease_ms,
                                      .seed = hf__rand_next(&r->rand)};
    if (!r->lossless && ring_chance(r, 2)) c->lease_ms /= 8; /* expires long before other leases */
    hf__store *store = hf__quorum_new(&quorum, nodes, r->nodes, &c->log);
    if (!store) abort();
    return store;
}

/* ---- Chaos ---- */

/* Stops some nodes for the same time, like a network partition. */
static void stop_some(ring *r) {
    hf__time span = ring_draw(r, (r->lossless ? 2000 : 2 * r->lease_ms) * HF__MS);
    int64_t in = 1 + ring_draw(r, r->nodes);
    for (int i = 0; i < r->nodes; i++)
        if (!r->node[i].down && ring_chance(r, in)) ring_node_stop(&r->node[i], span);
}

/* Breaks the lock on some nodes soon after one of them granted it, while the token is in flight. */
static void note_script(ring_node *n, const rm_ran *script) {
    ring *r = n->ring;
    if (!r->breaks_next || strcmp(script->sha1, hf__script_acquire.sha1) != 0) return;
    r->breaks_next = false;
    for (int i = 0; i < r->nodes; i++)
        if (!ring_chance(r, 3)) ring_at(r, &r->node[i].broken, r->now + ring_trip(r));
}

static void disturb_world(ring *r) {
    ring_node *n = &r->node[ring_draw(r, r->nodes)];
    switch (ring_draw(r, 9)) {
    case 0:
    case 1: ring_cut_some(r); break;
    case 2:
    case 3: stop_some(r); break;
    case 4:
    case 5:
        if (!n->down)
            ring_node_restart(n, r->lossless || ring_chance(r, 4),
                              ring_chance(r, 2) ? 0 : ring_draw(r, r->lease_ms * HF__MS));
        break;
    case 6: ring_pause_some(r); break;
    case 7:
        RING_LOG(r, "node %d  SCRIPT FLUSH", n->number);
        rm_scripts_forget(&n->server);
        r->breaks_next = r->breaks;
        break;
    default:
        if (ring_chance(r, 3)) ring_client_crash(&r->client[ring_draw(r, r->clients)]);
        break;
    }
}

/* ---- A run ---- */

static void play_run(ring *r) {
    for (int i = 0; i < (r->lossless ? ROUNDS : 1); i++) {
        ring_play(r, (r->lossless ? 2 : 12) * HF__SEC);
        for (int j = 0; j < r->nodes; j++) ring_check_left(r, &r->node[j]);
    }
    hf__time until = r->now + CALM_AGE;
    while (!r->lossless && ring_step(r, until)) {
    }
    if (!r->lossless) ring_serve_all(r);
}

const ring_kind ring_this = {.plan = draw_plan,
                             .open = open_client,
                             .ran = note_script,
                             .disturb = disturb_world,
                             .play = play_run};
