/* SPDX-License-Identifier: Apache-2.0 */
/* Requests for the map: when, and to which node. Any node can answer. One node is asked at a time,
   and each time another one, because a node that is cut off from the others has an old map. While
   no node answers, the store connects to the nodes of the URL, one more after each short
   interval. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/cluster/cluster_internal.h"

#define PAUSE_FIRST      (25 * HF__MS)
#define DOUBLINGS        5 /* up to 800 ms */
#define DOUBTS_RESET     (5 * HF__SEC)
#define SEED_INTERVAL    (200 * HF__MS)
#define SEED_INTERVAL_UP (2 * HF__SEC)
#define ANSWER_TIMEOUT   (300 * HF__MS) /* then another node is asked */
/* After this many maps in a row without a change, nodes of the URL are asked, too. */
#define DOUBTS_MAX 3

static hf__time refresh_pause(hf__cluster *c) {
    unsigned doublings = c->doubts < DOUBLINGS ? c->doubts : DOUBLINGS;
    return c->doubts ? hf__jitter(&c->rand, PAUSE_FIRST << doublings) : 0;
}

void hf__cluster_doubt_map(hf__cluster *c, hf__time now) {
    if (c->doubted) return;
    c->doubted = true;
    if (now - c->refreshed > DOUBTS_RESET) c->doubts = 0;
    c->refresh_at = c->refreshed + refresh_pause(c);
}

static hf__cluster_node *next_node_to_ask(hf__cluster *c) {
    for (int k = 1; k <= HF__CLUSTER_NODES_MAX; k++) {
        int i = (c->last_asked + k) % HF__CLUSTER_NODES_MAX;
        const hf__cluster_node *m = c->nodes[i];
        if (!m || !m->store->up || m->map_pending || m->silent) continue;
        c->last_asked = i;
        return c->nodes[i];
    }
    return NULL;
}

/* ---- Choosing a node ---- */

/* A URL has at least one host. */
static int seed_count(const hf__cluster *c) {
    int n = 1;
    while (n < HF__HOSTS_MAX && c->url->hosts[n].name) n++;
    return n;
}

static bool all_have_failed(const hf__cluster *c) {
    for (int i = 0; i < HF__CLUSTER_NODES_MAX; i++)
        if (c->nodes[i] && !c->nodes[i]->store->down_result && !c->nodes[i]->map_failed)
            return false;
    return true;
}

static void connect_seed(hf__cluster *c, hf__time now) {
    const hf__host *host = &c->url->hosts[c->seeds % seed_count(c)];
    char where[HF__WHERE_TEXT];
    snprintf(where, sizeof where, "%s:%d", host->name, (int)host->port);
    (void)hf__cluster_node_at(c, where, now);
    c->seeds++;
    c->seed_at = now + (c->store.up ? SEED_INTERVAL_UP : SEED_INTERVAL);
    c->must_tidy = true;
}

/* Connects to each host once: to the next one after a short interval, or when all before it have
   failed. Later the hosts are tried again, because their nodes may have been freed. */
static void connect_seeds(hf__cluster *c, hf__time now) {
    while (now >= c->seed_at || (c->seeds < seed_count(c) && all_have_failed(c)))
        connect_seed(c, now);
}

static void note_failure(hf__cluster *c, hf__cluster_node *m, hf_result result, const char *why,
                         hf__time now) {
    c->last_error = result;
    snprintf(c->last_error_text, sizeof c->last_error_text, "%s",
             why ? why : hf_result_text(result));
    m->map_failed = true;
    c->doubts++;
    c->refresh_at = now + refresh_pause(c);
}

static void request_map(hf__cluster *c, hf__cluster_node *m, hf__time now) {
    hf__cluster_slots *slots = calloc(1, sizeof *slots);
    if (!slots) {
        note_failure(c, m, HF_NOMEM, NULL, now);
        return;
    }
    m->map_op = (hf__op){.verb = HF__CLUSTER_SLOTS, .slots = slots};
    m->map_pending = true;
    c->map_source = m;
    c->refreshed = now;
    m->store->table->submit(m->store, &m->map_op, now);
}

/* A node may never answer, so a request counts as in flight only for a limited time. */
static bool map_in_flight(const hf__cluster *c, hf__time now) {
    return c->map_source && now < c->refreshed + ANSWER_TIMEOUT;
}

void hf__cluster_refresh(hf__cluster *c, hf__time now) {
    if (!c->doubted || map_in_flight(c, now) || c->shut) return;
    hf__cluster_node *m = now >= c->refresh_at ? next_node_to_ask(c) : NULL;
    bool none_up = !m && !c->store.up;
    if (none_up || c->doubts >= DOUBTS_MAX) connect_seeds(c, now);
    if (m) request_map(c, m, now);
}

hf__time hf__cluster_refresh_due(const hf__cluster *c) {
    if (!c->doubted || c->shut) return HF__NEVER;
    if (c->map_source && c->store.up) return c->refreshed + ANSWER_TIMEOUT;
    bool seeds = !c->store.up || c->doubts >= DOUBTS_MAX;
    hf__time due = c->store.up ? c->refresh_at : HF__NEVER;
    return seeds ? hf__sooner(due, c->seed_at) : due;
}

/* ---- Answers ---- */

static void adopt_map(hf__cluster *c, hf__cluster_node *m, hf__time now) {
    bool changed = hf__slot_map_adopt(&c->map, m->map_op.slots, m->host);
    m->map_op.slots = NULL;
    if (changed)
        hf__log_add(c->log, c->opened ? HF_LOG_INFO : HF_LOG_DEBUG,
                    "%s: %u primaries have slots of the cluster", m->where, c->map.now->nodes);
    c->doubts = changed ? 0 : c->doubts + 1;
    c->refreshed = now;
    c->last_error = HF_OK;
    c->doubted = m->map_failed = false;
    c->opened = c->woken = true;
    hf__cluster_nodes_mapped(c);
    c->maps++;
}

void hf__cluster_take_map(hf__cluster *c, hf__cluster_node *m, hf__time now) {
    bool wanted = c->map_source == m;
    m->map_pending = false;
    if (wanted) c->map_source = NULL;
    if (!wanted)
        m->map_failed = false; /* another node was asked meanwhile, and may know better */
    else if (m->map_op.result)
        note_failure(c, m, m->map_op.result, m->map_op.detail, now);
    else if (!m->map_op.slots->nodes)
        note_failure(c, m, HF_UNREACHABLE, "no node has slots; create the cluster first", now);
    else
        adopt_map(c, m, now);
    free(m->map_op.slots);
    free(m->map_op.detail);
    m->map_op.slots = NULL;
    m->map_op.detail = NULL;
}
