/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store table over the stores of the nodes. Operations go to all nodes (quorum_op.h). This file
 * also combines the state of the nodes for the client and its core.
 *
 *   opening --a majority is up, the others are too or had a short time--> up <--> down: no majority
 */
#include "store/quorum/quorum.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/url.h"
#include "store/quorum/quorum_op.h"

/* During opening, nodes that are slower than the majority get this long, plus 3 times as long as
   the majority took. */
#define GRACE        (20 * HF__MS)
#define UPTIME_RETRY (100 * HF__MS)

static const char NO_KINDS[] = "; the nodes of a quorum are independent, so they cannot agree on "
                               "a queue or on several holders (a single Redis can)";

static hf__quorum *quorum_of(hf__store *store) {
    return (hf__quorum *)store;
}

/* ---- Uptime of a node ---- */

static void request_uptime(hf__node *n, hf__time now) {
    hf__store *s = n->at.store;
    if (!s->up || n->uptime_pending || now < n->uptime_retry_at || (n->known && n->link == s->link))
        return;
    n->link = s->link;
    n->known = false;
    n->uptime_pending = true;
    n->uptime_op = (hf__op){.verb = HF__UPTIME, .name = ""};
    s->table->submit(s, &n->uptime_op, now);
}

/* A server counts whole seconds between clock readings that it rounds down, so its uptime may be
   one second too long. A server that does not report its uptime is assumed to have started just
   now. */
static void note_uptime(hf__quorum *q, hf__node *n, hf__time now) {
    bool reported = n->uptime_op.result == HF_OK && n->uptime_op.uptime_ms >= 0;
    n->uptime_pending = false;
    free(n->uptime_op.detail);
    n->uptime_op.detail = NULL;
    if (n->uptime_op.result == HF_UNREACHABLE || n->uptime_op.link != n->link) {
        n->link = 0;
        n->uptime_retry_at = now + UPTIME_RETRY;
        return;
    }
    n->uptime_retry_at = 0;
    n->known = true;
    n->born = reported && n->uptime_op.uptime_ms > 1000
                  ? now - (n->uptime_op.uptime_ms - 1000) * HF__MS
                  : now;
    if (!reported)
        hf__log_add(q->log, HF_LOG_WARNING,
                    "%s does not let us see how long it has been up (INFO): it votes when we have "
                    "been connected for rejoin_delay (%" PRId64 " ms)",
                    n->at.name, q->config.rejoin_ms);
    else if (hf__node_too_young(q, n, now))
        hf__log_add(q->log, HF_LOG_INFO,
                    "%s has been up for %" PRId64 " ms; it votes after rejoin_delay (%" PRId64
                    " ms)",
                    n->at.name, (now - n->born) / HF__MS, q->config.rejoin_ms);
}

static void check_node(hf__quorum *q, hf__node *n, hf__time now) {
    uint64_t before = n->link;
    request_uptime(n, now);
    if (n->link != before && n->link) hf__quorum_ops_retry(q, n, now);
}

/* ---- State for the client and its core ---- */

static int count_up(const hf__quorum *q) {
    int n = 0;
    for (int i = 0; i < q->count; i++) n += q->nodes[i].at.store->up;
    return n;
}

/* Whether too many nodes failed to connect for a majority. */
static bool majority_failed(const hf__quorum *q) {
    int n = 0;
    for (int i = 0; i < q->count; i++)
        n += !q->nodes[i].at.store->up && q->nodes[i].at.store->down_result;
    return q->count - n < q->majority;
}

static uint64_t count_links(const hf__quorum *q) {
    uint64_t n = 0;
    for (int i = 0; i < q->count; i++) n += q->nodes[i].at.store->link;
    return n;
}

/* The store is opened when a majority is up, and each other node is up, has failed, or had a short
   time. */
static void open_up(hf__quorum *q, hf__time now) {
    bool all = true;
    for (int i = 0; i < q->count; i++)
        all &= q->nodes[i].at.store->up || q->nodes[i].at.store->down_result;
    if (count_up(q) < q->majority)
        q->open_by = 0;
    else if (!q->open_by)
        q->open_by = now + GRACE + 3 * (now - q->began);
    if (!q->open_by) return;
    if (!all && now < q->open_by) return;
    q->opened = true;
    q->first_links = count_links(q);
}

/* The shortest round trip to any node. It is used to refuse leases that are too short, so the slow
   first sample of a node must not count. */
static int64_t round_trip_us(const hf__quorum *q) {
    int64_t best = 0;
    for (int i = 0; i < q->count; i++) {
        int64_t trip = q->nodes[i].at.store->round_trip_us;
        if (trip && (!best || trip < best)) best = trip;
    }
    return best;
}

/* The result, such as a wrong password or certificate, of so many nodes that the others are no
   majority. HF_NO_QUORUM: there is none. */
static hf_result shared_result(const hf__quorum *q) {
    for (int i = 0; i < q->count; i++) {
        hf_result r = q->nodes[i].at.store->down_result;
        int same = 0;
        for (int j = 0; j < q->count; j++)
            same += !q->nodes[j].at.store->up && q->nodes[j].at.store->down_result == r;
        if (r && r != HF_UNREACHABLE && q->count - same < q->majority) return r;
    }
    return HF_NO_QUORUM;
}

/* The detail is built again only if its contents would change. */
static void set_down_result(hf__quorum *q) {
    uint64_t signature = q->store.up ? 0 : 1;
    for (int i = 0; !q->store.up && i < q->count; i++) {
        const hf__store *s = q->nodes[i].at.store;
        for (const char *at = s->up ? "up" : s->down_detail; at && *at; at++)
            signature = signature * 31 + (unsigned char)*at;
        signature = signature * 31 + (uint64_t)s->down_result;
    }
    bool says = !q->store.up && (q->opened || majority_failed(q));
    q->store.down_result = says ? shared_result(q) : q->no_quorum ? HF_NO_QUORUM : HF_OK;
    if (signature == q->signature) return;
    q->signature = signature;
    free(q->store.down_detail);
    q->store.down_detail = says ? hf__quorum_why(q, NULL) : NULL;
}

static void update_status(hf__quorum *q, hf__time now) {
    hf__store *s = &q->store;
    if (!q->opened) open_up(q, now);
    s->up = q->opened && count_up(q) >= q->majority;
    s->link = q->opened ? 1 + count_links(q) - q->first_links : 0;
    s->pollset_version = s->commands = s->round_trips = 0;
    for (int i = 0; i < q->count; i++) {
        s->pollset_version += q->nodes[i].at.store->pollset_version;
        s->commands += q->nodes[i].at.store->commands;
        s->round_trips += q->nodes[i].at.store->round_trips;
    }
    s->round_trip_us = round_trip_us(q);
    set_down_result(q);
}

/* ---- Answers ---- */

static hf__node *node_of_uptime_op(hf__quorum *q, const hf__op *op) {
    for (int i = 0; i < q->count; i++)
        if (op == &q->nodes[i].uptime_op) return &q->nodes[i];
    return NULL;
}

/* An answer may submit further operations, some of which complete at once. */
static bool take_answers(hf__quorum *q) {
    bool any = false;
    for (int i = 0; i < q->count; i++) {
        hf__store *s = q->nodes[i].at.store;
        for (hf__op *op; (op = s->table->completed(s)); any = true) {
            hf__node *n = node_of_uptime_op(q, op);
            if (n) {
                note_uptime(q, n, q->now);
                hf__quorum_ops_uptime_known(q, q->now);
            } else {
                hf__quorum_op_answered((hf__vote *)op, q->now);
            }
        }
    }
    return any;
}

static hf__op *quorum_completed(hf__store *store) {
    hf__quorum *q = quorum_of(store);
    while (take_answers(q)) {
    }
    hf__op *op = hf__ops_pop(&q->done);
    if (op) set_down_result(q); /* the core reads it for the result of a wait */
    return op;
}

static void quorum_submit(hf__store *store, hf__op *op, hf__time now) {
    hf__quorum *q = quorum_of(store);
    q->now = hf__later(q->now, now);
    for (int i = 0; i < q->count; i++) check_node(q, &q->nodes[i], now);
    switch (op->verb) {
    case HF__ACQUIRE: hf__quorum_acquire(q, op, now); break;
    case HF__RENEW: hf__quorum_renew(q, op, now); break;
    case HF__RELEASE: hf__quorum_release(q, op, now); break;
    case HF__INSPECT:
    case HF__CLIENT_INFO:
    case HF__BREAK: hf__quorum_inspect(q, op, now); break;
    default:
        hf__quorum_complete(
            q, op, HF_UNSUPPORTED,
            hf__line("a quorum does not support this operation; a single Redis does"));
        break;
    }
}

/* ---- Running ---- */

static void quorum_tick(hf__store *store, hf__time now) {
    hf__quorum *q = quorum_of(store);
    q->now = hf__later(q->now, now);
    if (!q->began) q->began = now;
    for (int i = 0; i < q->count; i++) {
        hf__store *s = q->nodes[i].at.store;
        s->wants_round_trip |= store->wants_round_trip;
        s->table->tick(s, now);
        check_node(q, &q->nodes[i], now);
    }
    store->wants_round_trip = false;
    update_status(q, now);
    hf__timer *due = NULL; /* drained first, because a timer that is due may be set again */
    for (hf__timer *t; (t = hf__heap_pop(&q->timers, now)); due = t) t->next_due = due;
    while (due) {
        hf__quorum_op *qop = (hf__quorum_op *)((char *)due - offsetof(hf__quorum_op, timer));
        due = due->next_due;
        hf__quorum_op_due(qop, now);
    }
}

static hf__time quorum_due(const hf__store *store) {
    const hf__quorum *q = (const hf__quorum *)store;
    hf__time first = store->wants_round_trip ? 0 : hf__heap_due(&q->timers);
    if (!q->opened && q->open_by) first = hf__sooner(first, q->open_by);
    for (int i = 0; i < q->count; i++) {
        const hf__node *n = &q->nodes[i];
        first = hf__sooner(first, n->at.store->table->due(n->at.store));
        if (n->uptime_retry_at && n->at.store->up && !n->uptime_pending)
            first = hf__sooner(first, n->uptime_retry_at);
    }
    return first;
}

static bool quorum_flush(hf__store *store, pthread_mutex_t *mutex) {
    hf__quorum *q = quorum_of(store);
    bool any = false;
    for (int i = 0; i < q->count; i++) {
        hf__store *s = q->nodes[i].at.store;
        any |= s->table->flush(s, mutex);
    }
    update_status(q, q->now);
    return any || q->done.last;
}

/* Each node has a fixed range of descriptors. */
static int quorum_pollset(hf__store *store, struct pollfd *fds, bool reading) {
    hf__quorum *q = quorum_of(store);
    for (int i = 0; i < q->count; i++) {
        hf__store *s = q->nodes[i].at.store;
        struct pollfd *at = fds + (ptrdiff_t)i * HF__NODE_FDS;
        int n = s->table->pollset(s, at, reading);
        for (; n < HF__NODE_FDS; n++) at[n] = (struct pollfd){.fd = -1};
    }
    return q->count * HF__NODE_FDS;
}

/* The mutex is released while a node is read. Another thread may handle another node meanwhile, and
   then the result of poll is out of date for that node. */
static void quorum_ready(hf__store *store, const struct pollfd *fds, int count,
                         pthread_mutex_t *mutex) {
    hf__quorum *q = quorum_of(store);
    uint64_t polls[HF__NODES_MAX];
    for (int i = 0; i < q->count; i++) polls[i] = q->nodes[i].at.store->pollset_version;
    for (int i = 0; i < q->count && (i + 1) * HF__NODE_FDS <= count; i++) {
        hf__store *s = q->nodes[i].at.store;
        if (s->pollset_version == polls[i])
            s->table->ready(s, fds + (ptrdiff_t)i * HF__NODE_FDS, HF__NODE_FDS, mutex);
    }
    update_status(q, q->now);
}

/* There are several descriptors to wait for, which only poll can do. */
static bool quorum_read_blocking(hf__store *store, pthread_mutex_t *mutex) {
    (void)store, (void)mutex;
    return false;
}

static size_t quorum_in_flight(const hf__store *store) {
    const hf__quorum *q = (const hf__quorum *)store;
    size_t n = 0;
    for (int i = 0; i < q->count; i++)
        n += q->nodes[i].at.store->table->in_flight(q->nodes[i].at.store);
    return n;
}

static void quorum_shut(hf__store *store, hf__time now) {
    hf__quorum *q = quorum_of(store);
    q->shut = true;
    for (int i = 0; i < q->count; i++) q->nodes[i].at.store->table->shut(q->nodes[i].at.store, now);
    update_status(q, now);
}

/* ---- Leases ---- */

hf_result hf__quorum_lease_check(int64_t rejoin_ms, int64_t lease_ms, char **detail) {
    if (lease_ms <= rejoin_ms || rejoin_ms < HF__REJOIN_FORGETFUL_MS) return HF_OK;
    *detail = hf__line("a lease of %" PRId64 " ms is longer than rejoin_delay (%" PRId64
                       " ms), after which a node that lost its data votes again: use a shorter "
                       "lease, or give all clients of this quorum rejoin_delay=%" PRId64
                       "ms or more, or rejoin_delay=1ms if its nodes never lose data",
                       lease_ms, rejoin_ms, lease_ms);
    return HF_INVALID;
}

/* ---- Creation ---- */

static void free_nodes(const hf__quorum_node *nodes, int count, bool forked) {
    for (int i = 0; i < count; i++)
        if (nodes[i].store) nodes[i].store->table->free(nodes[i].store, forked);
}

static void quorum_free(hf__store *store, bool forked) {
    hf__quorum *q = quorum_of(store);
    for (int i = 0; i < q->count; i++) {
        free_nodes(&q->nodes[i].at, 1, forked);
        free(q->nodes[i].uptime_op.detail);
    }
    while (q->acquires) hf__quorum_op_free(q->acquires);
    while (q->others) hf__quorum_op_free(q->others);
    free(q->store.down_detail);
    free(q);
}

static const hf__store_table quorum_table = {
    .free = quorum_free,
    .submit = quorum_submit,
    .completed = quorum_completed,
    .tick = quorum_tick,
    .due = quorum_due,
    .flush = quorum_flush,
    .pollset = quorum_pollset,
    .ready = quorum_ready,
    .read_blocking = quorum_read_blocking,
    .in_flight = quorum_in_flight,
    .shut = quorum_shut,
};

hf__store *hf__quorum_new(const hf__quorum_config *config, const hf__quorum_node *nodes, int count,
                          hf__log *log) {
    hf__quorum *q = calloc(1, sizeof *q);
    bool all = q != NULL;
    for (int i = 0; i < count; i++) all &= nodes[i].store != NULL;
    if (!all) {
        free_nodes(nodes, count, false);
        free(q);
        return NULL;
    }
    q->store.table = &quorum_table;
    q->store.expires = q->store.new_id_per_try = true;
    q->store.no_kinds_reason = NO_KINDS;
    q->config = *config;
    q->log = log;
    q->rand.state = config->seed;
    q->count = count;
    q->majority = count / 2 + 1;
    for (int i = 0; i < count; i++) q->nodes[i].at = nodes[i];
    return &q->store;
}
