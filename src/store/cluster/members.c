/* The nodes that a client is connected to: made when something is to go there, given up when nothing can be. */
#include <stdlib.h>
#include <string.h>

#include "store/cluster/inside.h"
#include "store/redis/redis.h"

hf__member *hf__member_find(const hf__cluster *c, const char *where) {
    for (int i = 0; i < HF__MEMBERS_MAX; i++)
        if (c->members[i] && !strcmp(c->members[i]->where, where)) return c->members[i];
    return NULL;
}

static bool idle(const hf__member *m) {
    return !m->busy && !m->asking && !m->store->table->in_flight(m->store);
}

/* A place that is free, or is made so: the one least recently used goes. -1: all are at work. */
static int find_place(hf__cluster *c, hf__time now) {
    int oldest = -1;
    for (int i = 0; i < HF__MEMBERS_MAX; i++) {
        const hf__member *m = c->members[i];
        if (!m) return i;
        if (idle(m) && (oldest < 0 || m->used < c->members[oldest]->used)) oldest = i;
    }
    if (oldest >= 0) hf__member_drop(c, oldest, now);
    return oldest >= 0 && !c->members[oldest] ? oldest : -1;
}

static void fill_url(hf__member *m, const hf__url *url) {
    m->url = *url;
    m->url.scheme = url->scheme == HF__SCHEME_CLUSTER_TLS ? HF__SCHEME_REDIS_TLS : HF__SCHEME_REDIS;
    m->url.in_cluster = true;
    m->url.host = m->host;
    m->url.port = (int32_t)strtol(strrchr(m->where, ':') + 1, NULL, 10);
}

hf__member *hf__member_at(hf__cluster *c, const char *where, hf__time now) {
    hf__member *m = hf__member_find(c, where);
    int place = m ? -1 : find_place(c, now);
    if (m || place < 0) return m;
    m = calloc(1, sizeof *m);
    if (!m) return NULL;
    hf__text_copy(m->where, sizeof m->where, where);
    hf__where_host(m->host, where);
    fill_url(m, c->url);
    m->used = now;
    m->store = hf__redis_new(&m->url, &c->who, c->log);
    if (!m->store) {
        free(m);
        return NULL;
    }
    c->members[place] = m;
    return m;
}

/* What it has answered meanwhile is carried on: it may go to others. */
static void take_answers(hf__cluster *c, hf__member *m, hf__time now) {
    for (hf__op *op; (op = m->store->table->completed(m->store));)
        hf__cluster_answered(c, m, op, now);
}

void hf__member_drop(hf__cluster *c, int i, hf__time now) {
    hf__member *m = c->members[i];
    m->busy++; /* not from within */
    take_answers(c, m, now);
    m->busy--;
    if (!idle(m)) return;
    c->polls_gone += m->store->polls + 1;
    c->commands_gone += m->store->commands;
    m->store->table->shut(m->store, now);
    m->store->table->free(m->store, false);
    c->members[i] = NULL;
    free(m);
}

/* Those that the map does not name, unless there is nobody else to ask for it. */
void hf__members_tidy(hf__cluster *c, hf__time now) {
    if (!c->untidy || !c->store.up) return;
    c->untidy = false;
    for (int i = 0; i < HF__MEMBERS_MAX; i++) {
        const hf__member *m = c->members[i];
        if (!m || hf__slot_map_has(&c->map, m->where)) continue;
        hf__member_drop(c, i, now);
        if (c->members[i]) c->untidy = true;
    }
}
