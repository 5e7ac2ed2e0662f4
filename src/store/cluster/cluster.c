/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store table over the stores of the nodes, and the combined state for the client and its core.
 *
 *   opening --a node answers with the slot map--> up <--> down: no node is connected
 *
 * While the store is up, some nodes may be unreachable. Only the operations for those nodes fail as
 * unreachable.
 */
#include "store/cluster/cluster.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/cluster/cluster_internal.h"
#include "store/cluster/slot.h"

#define EACH(c, i, m)                               \
    for (int i = 0; i < HF__CLUSTER_NODES_MAX; i++) \
        for (hf__cluster_node *m = (c)->nodes[i]; m; m = NULL)

static hf__cluster *cluster_of(hf__store *store) {
    return (hf__cluster *)store;
}

/* ---- State for the client and its core ---- */

static bool any_up(const hf__cluster *c) {
    EACH(c, i, m) if (m->store->up) return true;
    return false;
}

static void set_down(hf__cluster *c, hf_result result, const char *detail) {
    c->store.down_result = result;
    if (detail) snprintf(c->down_text, sizeof c->down_text, "%s", detail);
    c->store.down_detail = detail ? c->down_text : NULL;
}

/* Why no node is connected: the last error of a request for the map, or else of a connection. */
static void set_down_reason(hf__cluster *c) {
    EACH(c, i, m) {
        if (m->store->up || !m->store->down_result || c->last_error) continue;
        set_down(c, m->store->down_result, m->store->down_detail);
        return;
    }
    if (c->last_error)
        set_down(c, c->last_error, c->last_error_text);
    else
        set_down(c, HF_UNREACHABLE, "no node of the cluster answered within connect_timeout");
}

/* Whether all nodes have failed that could have given the slot map. */
static bool opening_failed(const hf__cluster *c) {
    bool all = c->seeds > 0;
    for (int i = c->seeds; i < HF__HOSTS_MAX; i++) all &= !c->url->hosts[i].name;
    EACH(c, i, m) all &= m->store->down_result || m->map_failed;
    return all && !c->map_source;
}

static void set_down_result(hf__cluster *c, hf__time now) {
    bool opening = !c->opened && now < c->open_until;
    if (c->store.up || (opening && !opening_failed(c)))
        set_down(c, HF_OK, NULL);
    else
        set_down_reason(c);
}

static void update_status(hf__cluster *c, hf__time now) {
    hf__store *s = &c->store;
    bool up = c->opened && !c->shut && any_up(c);
    if (up && !s->up) s->link++;
    s->up = up;
    s->pollset_version = c->freed_pollset_versions;
    s->commands = c->freed_commands;
    s->round_trip_us = 0;
    s->round_trips = 0;
    EACH(c, i, m) {
        int64_t trip = m->store->round_trip_us;
        if (trip && (!s->round_trip_us || trip < s->round_trip_us)) s->round_trip_us = trip;
        s->pollset_version += m->store->pollset_version + 1;
        s->commands += m->store->commands;
        s->round_trips += m->store->round_trips;
    }
    if (!up || s->down_result) set_down_result(c, now);
}

/* ---- Operations ---- */

static void cluster_submit(hf__store *store, hf__op *op, hf__time now) {
    hf__cluster_submit(cluster_of(store), op, now);
}

static hf__op *cluster_completed(hf__store *store) {
    hf__cluster *c = cluster_of(store);
    EACH(c, i, m) {
        m->busy++; /* an answer may submit other operations, and free nodes */
        for (hf__op *op; (op = m->store->table->completed(m->store));) {
            hf__time now = hf__now();
            if (m->waits_since) m->waits_since = now;
            hf__cluster_answered(c, m, op, now);
        }
        m->busy--;
    }
    return hf__ops_pop(&c->done);
}

static bool slot_changed(const hf__store *store, const char *name, size_t length) {
    const hf__cluster *c = (const hf__cluster *)store;
    return hf__slot_map_was_changed(&c->map, hf__slot_of_name(name, length));
}

/* Holds and waits for names in slots that have moved are rechecked. Their releases are repeated,
   because a promoted node may have lost them. */
static bool cluster_next_notification(hf__store *store, hf__notification *out) {
    hf__cluster *c = cluster_of(store);
    if (hf__slot_map_take_changed(&c->map)) {
        hf__release_log_repeat_to(&c->releases, store, slot_changed, hf__now());
        *out = (hf__notification){.type = HF__NAMES_CHANGED, .matches = slot_changed};
        return true;
    }
    EACH(c, i, m) if (m->store->table->next_notification(m->store, out)) {
        out->link = store->link;
        return true;
    }
    return false;
}

/* ---- Running ---- */

static void check_node(hf__cluster *c, hf__cluster_node *m, hf__time now) {
    const hf__store *s = m->store;
    if (s->up && s->link != m->link) {
        if (m->link) hf__slot_map_node_changed(&c->map, m->where);
        m->link = s->link;
        m->map_failed = false;
    }
    hf__cluster_node_update(m, now);
    if (m->silent && !m->owns) c->must_tidy = true;
    if (c->opened && hf__cluster_node_missed(m)) hf__cluster_doubt_map(c, now);
}

/* One registration serves all nodes: it is on the node that has the slot of its key. */
static void register_client(hf__cluster *c, hf__time now) {
    if (!c->store.up || c->registering || now < c->register_at) return;
    c->registering = true;
    c->registration = (hf__op){.verb = HF__REGISTER};
    hf__cluster_submit(c, &c->registration, now);
}

static void begin_opening(hf__cluster *c, hf__time now) {
    c->began = now;
    c->open_until = hf__after_ms(now, c->url->connect_timeout_ms);
    c->doubted = true;
}

static void cluster_tick(hf__store *store, hf__time now) {
    hf__cluster *c = cluster_of(store);
    if (!c->began) begin_opening(c, now);
    if (c->shut) return;
    EACH(c, i, m) {
        m->store->table->tick(m->store, now);
        check_node(c, m, now);
    }
    update_status(c, now);
    hf__cluster_refresh(c, now);
    if (store->wants_round_trip) c->register_at = now; /* the registration serves as the exchange */
    store->wants_round_trip = false;
    c->woken = false;
    if (c->waiting.last) hf__cluster_resume_waiting(c, now);
    register_client(c, now);
    hf__cluster_nodes_tidy(c, now);
    update_status(c, now);
}

static hf__time cluster_due(const hf__store *store) {
    const hf__cluster *c = (const hf__cluster *)store;
    hf__time first = hf__sooner(hf__cluster_refresh_due(c), hf__cluster_waiting_due(c));
    if (c->shut) return HF__NEVER;
    if (!c->opened) first = hf__sooner(first, c->open_until);
    if (c->store.up && !c->registering)
        first = hf__sooner(first, store->wants_round_trip ? 0 : c->register_at);
    EACH(c, i, m) first = hf__sooner(first, hf__cluster_node_due(c, m));
    return first;
}

static bool cluster_flush(hf__store *store, pthread_mutex_t *mutex) {
    hf__cluster *c = cluster_of(store);
    bool any = false, was_up = store->up;
    EACH(c, i, m) {
        m->busy++;
        any |= m->store->table->flush(m->store, mutex);
        m->busy--;
    }
    update_status(c, hf__now());
    return any || store->up != was_up || c->done.last || c->map.any_changed ||
           (c->woken && c->waiting.last);
}

/* Each node has a fixed range of descriptors. */
static int fds_per_node(const hf__cluster *c) {
    return c->url->replicas ? 4 : 2;
}

static int cluster_pollset(hf__store *store, struct pollfd *fds, bool reading) {
    hf__cluster *c = cluster_of(store);
    int each = fds_per_node(c), count = 0;
    EACH(c, i, m) {
        for (; count < i * each; count++) fds[count] = (struct pollfd){.fd = -1};
        count += m->store->table->pollset(m->store, fds + count, reading);
        for (; count < (i + 1) * each; count++) fds[count] = (struct pollfd){.fd = -1};
    }
    return count;
}

/* The mutex is released while a node is read. Another thread may handle another node meanwhile, and
   then the result of poll is out of date for that node. */
static void cluster_ready(hf__store *store, const struct pollfd *fds, int count,
                          pthread_mutex_t *mutex) {
    hf__cluster *c = cluster_of(store);
    int each = fds_per_node(c);
    struct {
        const hf__cluster_node *node;
        uint64_t polls;
    } seen[HF__CLUSTER_NODES_MAX] = {0};
    EACH(c, i, m) {
        seen[i].node = m;
        seen[i].polls = m->store->pollset_version;
    }
    EACH(c, i, m) {
        if (m != seen[i].node || m->store->pollset_version != seen[i].polls ||
            (i + 1) * each > count)
            continue;
        m->busy++;
        m->store->table->ready(m->store, fds + (ptrdiff_t)i * each, each, mutex);
        m->busy--;
    }
    update_status(c, hf__now());
}

/* There are several descriptors to wait for, which only poll can do. */
static bool cluster_read_blocking(hf__store *store, pthread_mutex_t *mutex) {
    (void)store, (void)mutex;
    return false;
}

static size_t cluster_in_flight(const hf__store *store) {
    const hf__cluster *c = (const hf__cluster *)store;
    size_t n = 0;
    EACH(c, i, m) n += m->store->table->in_flight(m->store);
    return n;
}

static void cluster_shut(hf__store *store, hf__time now) {
    hf__cluster *c = cluster_of(store);
    c->shut = true;
    EACH(c, i, m) m->store->table->shut(m->store, now);
    hf__cluster_end_waiting(c);
    update_status(c, now);
}

/* ---- Creation ---- */

static void cluster_free(hf__store *store, bool forked) {
    hf__cluster *c = cluster_of(store);
    EACH(c, i, m) {
        m->store->table->free(m->store, forked);
        free(m->map_op.slots);
        free(m->map_op.detail);
        free(m->map_op.redirect.address);
        free(m);
        c->nodes[i] = NULL;
    }
    free(c->registration.detail);
    free(c->registration.redirect.address);
    hf__release_log_fini(&c->releases);
    hf__slot_map_fini(&c->map);
    free(c);
}

static const hf__store_table cluster_table = {
    .free = cluster_free,
    .submit = cluster_submit,
    .completed = cluster_completed,
    .next_notification = cluster_next_notification,
    .tick = cluster_tick,
    .due = cluster_due,
    .flush = cluster_flush,
    .pollset = cluster_pollset,
    .ready = cluster_ready,
    .read_blocking = cluster_read_blocking,
    .in_flight = cluster_in_flight,
    .shut = cluster_shut,
};

hf__store *hf__cluster_new(const hf__url *url, const hf__identity *who, hf__log *log) {
    hf__cluster *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->store.table = &cluster_table;
    c->store.has_kinds = c->store.has_latch_leader = true;
    c->store.expires = c->store.can_hand_off = c->store.can_export = true;
    c->store.needs_claim = url->replicas > 0;
    c->url = url;
    c->who = *who;
    c->log = log;
    c->rand.state = hf__rand_seed();
    hf__release_log_init(&c->releases, hf__rand_seed());
    if (hf__slot_map_init(&c->map)) return &c->store;
    cluster_free(&c->store, false);
    return NULL;
}
