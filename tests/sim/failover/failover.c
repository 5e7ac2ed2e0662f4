/* SPDX-License-Identifier: Apache-2.0 */
/* A world with failovers of its primary: see relay.h. */
#include "failover/relay.h"
#include "model/command.h"

#define ROUNDS      6 /* rounds that check for leftovers */
#define DETECT_MOST (1500 * HF__MS)
#define LAG_MOST    (1000 * HF__MS)

static void draw_plan(ring *r) {
    r->nodes = RELAY_NODES;
    r->clients = 2 + (int)ring_draw(r, RING_CLIENTS - 1);
    r->callers = 1 + (int)ring_draw(r, RING_CALLERS);
    r->lossless = ring_chance(r, 2);
    r->lease_ms = r->lossless ? 20000 : 1000 * (1 + ring_draw(r, 3));
    r->loose = ring_chance(r, 2); /* without replicas= */
    r->command_ms = 200 + ring_draw(r, 400);
    r->trip = 100000 + ring_draw(r, 5 * HF__MS);
    r->apart_us = r->trip / 2000; /* clocks agree to less than one trip between nodes */
    r->gap = (40 << ring_draw(r, 6)) * HF__MS;
    r->think = (1 + ring_draw(r, 300)) * HF__MS;
}

static void begin_world(ring *r) {
    relay_init(r, r->loose ? 0 : 1 + (int)ring_draw(r, 2));
    for (int i = 1; i < r->nodes; i++) r->node[i].clock.ppm = r->node[0].clock.ppm;
    RING_LOG(r, "world  %d clients, %d callers, lease %lld ms, replicas=%d", r->clients, r->callers,
             (long long)r->lease_ms, r->relay->replicas);
}

static void replicate_script(ring_node *n, const rm_ran *script) {
    (void)script;
    if (n->server.script_wrote) relay_wrote(n);
}

static void resync_node(ring_node *n) {
    relay *y = n->ring->relay;
    if (y->at[n->number].follows < 0) relay_resync(y, n->number);
}

/* Grants by a node that does not know that it is no longer the primary are in doubt. */
static bool doubts_grant(const ring_client *c) {
    const ring *r = c->ring;
    return r->loose && relay_store_node(c) != &r->node[r->relay->primary];
}

/* ---- Chaos ---- */

static void lag_node(ring *r, relay_node *n, hf__time most) {
    n->lags_until = r->now + ring_draw(r, most);
    RING_LOG(r, "node %d  lags until %.3f ms", n->node->number, (double)n->lags_until / HF__MS);
}

static void restart_node(ring *r, ring_node *n, hf__time away) {
    relay_lose_some(r->relay, n->number);
    ring_node_restart(n, true, away);
}

/* Kills the primary, stops it, or only cuts it off from the others. */
static void fail_over(ring *r) {
    ring_node *n = &r->node[r->relay->primary];
    hf__time in = ring_draw(r, DETECT_MOST);
    if (!relay_sound(r->relay)) return;
    switch (ring_draw(r, 3)) {
    case 0: restart_node(r, n, in + ring_draw(r, 2 * DETECT_MOST)); break;
    case 1: ring_node_stop(n, in + ring_draw(r, 2 * DETECT_MOST)); break;
    default: RING_LOG(r, "node %d  is cut off from the others", n->number); break;
    }
    for (int i = 0; i < r->nodes; i++)
        if (ring_chance(r, 2)) lag_node(r, &r->relay->at[i], in);
    relay_fail_over(r->relay, in);
}

static void stop_one(ring *r, ring_node *n) {
    if (!n->down) ring_node_stop(n, ring_draw(r, LAG_MOST));
}

static void disturb_world(ring *r) {
    ring_node *n = &r->node[ring_draw(r, r->nodes)];
    switch (ring_draw(r, 10)) {
    case 0:
    case 1: ring_cut_some(r); break;
    case 2: stop_one(r, n); break;
    case 3:
        if (!n->down) restart_node(r, n, ring_draw(r, LAG_MOST));
        break;
    case 4: ring_pause_some(r); break;
    case 5: rm_scripts_forget(&n->server); break;
    case 6: lag_node(r, &r->relay->at[n->number], LAG_MOST); break;
    case 7:
        if (ring_chance(r, 3)) ring_client_crash(&r->client[ring_draw(r, r->clients)]);
        break;
    default: fail_over(r); break;
    }
}

static void calm_relay(ring *r) {
    relay_calm(r->relay);
}

/* ---- A run ---- */

static void play_run(ring *r) {
    for (int i = 0; i < (r->lossless ? ROUNDS : 1); i++) {
        ring_play(r, (r->lossless ? 4 : 15) * HF__SEC);
        ring_check_left(r, &r->node[r->relay->primary]);
    }
    if (!r->lossless) ring_serve_all(r);
}

static void free_relay(ring *r) {
    relay_free(r->relay);
}

const ring_kind ring_this = {.plan = draw_plan,
                             .begin = begin_world,
                             .open = relay_store_new,
                             .ran = replicate_script,
                             .back = resync_node,
                             .doubts = doubts_grant,
                             .gone = relay_store_gone,
                             .disturb = disturb_world,
                             .calm = calm_relay,
                             .play = play_run,
                             .end = free_relay};
