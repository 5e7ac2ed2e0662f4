/* SPDX-License-Identifier: Apache-2.0 */
/* The nodes that a client is connected to: created when an operation goes there, freed when they
   have no slots. */
#include <stdlib.h>
#include <string.h>

#include "store/cluster/cluster_internal.h"
#include "store/redis/redis.h"

/* Well above the duration of a command, and below that of a failover. */
#define SILENT         (500 * HF__MS)
#define MISSED_REFRESH (25 * HF__MS)

hf__cluster_node *hf__cluster_node_find(const hf__cluster *c, const char *where) {
    for (int i = 0; i < HF__CLUSTER_NODES_MAX; i++)
        if (c->nodes[i] && !c->nodes[i]->given_up && !strcmp(c->nodes[i]->where, where))
            return c->nodes[i];
    return NULL;
}

static bool is_idle(const hf__cluster_node *m) {
    return !m->busy && !m->map_pending && !m->store->table->in_flight(m->store);
}

/* A free index. If there is none, the least recently used idle node is freed. -1: all
   nodes are busy. */
static int find_free_index(hf__cluster *c, hf__time now) {
    int oldest = -1;
    for (int i = 0; i < HF__CLUSTER_NODES_MAX; i++) {
        const hf__cluster_node *m = c->nodes[i];
        if (!m) return i;
        if (is_idle(m) && (oldest < 0 || m->used < c->nodes[oldest]->used)) oldest = i;
    }
    if (oldest >= 0) hf__cluster_node_drop(c, oldest, now);
    return oldest >= 0 && !c->nodes[oldest] ? oldest : -1;
}

static void fill_url(hf__cluster_node *m, const hf__url *url) {
    m->url = *url;
    m->url.scheme = url->scheme == HF__SCHEME_CLUSTER_TLS ? HF__SCHEME_REDIS_TLS : HF__SCHEME_REDIS;
    m->url.in_cluster = true;
    m->url.host = m->host;
    m->url.port = (int32_t)strtol(strrchr(m->where, ':') + 1, NULL, 10);
}

hf__cluster_node *hf__cluster_node_at(hf__cluster *c, const char *where, hf__time now) {
    hf__cluster_node *m = hf__cluster_node_find(c, where);
    int index = m ? -1 : find_free_index(c, now);
    if (m || index < 0) return m;
    m = calloc(1, sizeof *m);
    if (!m) return NULL;
    hf__text_copy(m->where, sizeof m->where, where);
    hf__where_host(m->host, where);
    fill_url(m, c->url);
    m->used = now;
    m->owns = hf__slot_map_has(&c->map, where);
    m->store = hf__redis_new(&m->url, &c->who, c->log);
    if (!m->store) {
        free(m);
        return NULL;
    }
    c->nodes[index] = m;
    return m;
}

/* Take the answers that it has given meanwhile; they may go to other nodes. */
static void take_answers(hf__cluster *c, hf__cluster_node *m, hf__time now) {
    for (hf__op *op; (op = m->store->table->completed(m->store));)
        hf__cluster_answered(c, m, op, now);
}

void hf__cluster_node_drop(hf__cluster *c, int i, hf__time now) {
    hf__cluster_node *m = c->nodes[i];
    m->busy++; /* taking answers must not free it */
    take_answers(c, m, now);
    m->busy--;
    if (!is_idle(m)) return;
    c->freed_pollset_versions += m->store->pollset_version + 1;
    c->freed_commands += m->store->commands;
    m->store->table->shut(m->store, now);
    m->store->table->free(m->store, false);
    c->nodes[i] = NULL;
    free(m);
}

/* ---- Nodes that are no longer needed ---- */

void hf__cluster_node_update(hf__cluster_node *m, hf__time now) {
    if (!m->store->table->in_flight(m->store))
        m->waits_since = 0;
    else if (!m->waits_since)
        m->waits_since = now;
    m->silent = m->waits_since && now >= m->waits_since + SILENT;
}

bool hf__cluster_node_missed(const hf__cluster_node *m) {
    bool down = !m->store->up && m->store->down_result;
    return m->owns && !m->given_up && (m->silent || down);
}

/* As long as a node with slots is missed, the map is requested repeatedly. */
hf__time hf__cluster_node_due(const hf__cluster *c, const hf__cluster_node *m) {
    hf__time due = m->store->table->due(m->store);
    if (m->waits_since && !m->silent) due = hf__sooner(due, m->waits_since + SILENT);
    if (hf__cluster_node_missed(m) && !c->doubted)
        due = hf__sooner(due, c->refreshed + MISSED_REFRESH);
    return due;
}

void hf__cluster_nodes_mapped(hf__cluster *c) {
    for (int i = 0; i < HF__CLUSTER_NODES_MAX; i++) {
        hf__cluster_node *m = c->nodes[i];
        if (m) m->owns = hf__slot_map_has(&c->map, m->where);
    }
    c->must_tidy = true;
}

/* Operations without an answer may have taken effect. Their outcome is unknown, and the core
   repeats them at the new owner. */
static void give_up_node(hf__cluster *c, hf__cluster_node *m, hf__time now) {
    if (m->given_up) return;
    m->given_up = true;
    hf__log_add(c->log, HF_LOG_INFO,
                "%s has no slots any more and does not answer; its connection is closed", m->where);
    m->store->table->shut(m->store, now);
}

static bool another_is_up(const hf__cluster *c) {
    for (int i = 0; i < HF__CLUSTER_NODES_MAX; i++) {
        const hf__cluster_node *m = c->nodes[i];
        if (m && m->store->up && m->owns) return true;
    }
    return false;
}

/* Frees nodes that the map does not name, unless no other node can be asked for the map. */
void hf__cluster_nodes_tidy(hf__cluster *c, hf__time now) {
    if (!c->must_tidy || !another_is_up(c)) return;
    c->must_tidy = false;
    for (int i = 0; i < HF__CLUSTER_NODES_MAX; i++) {
        hf__cluster_node *m = c->nodes[i];
        if (!m || (m->owns && !m->given_up)) continue;
        if (m->silent) give_up_node(c, m, now);
        hf__cluster_node_drop(c, i, now);
        if (c->nodes[i]) c->must_tidy = true;
    }
}
