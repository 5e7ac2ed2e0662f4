/* SPDX-License-Identifier: Apache-2.0 */
/* Does what src/store/redis/redis.c and link.c do over a socket, for commands only. */
#include <stdlib.h>

#include "base/error.h"
#include "quorum/ring.h"

#define RETRY_FIRST (20 * HF__MS)
#define RETRY_MOST  (2 * HF__SEC)

static void publish_state(ring_link *l) {
    l->store.up = l->state == RING_UP;
    l->store.link = l->session.link;
    l->store.round_trip_us = l->session.round_trip_us;
    l->store.commands = l->session.commands;
    l->store.clock_us = l->session.server_us;
    l->store.clock_at = l->client->ring->unclocked ? 0 : l->session.sampled_at;
    l->store.pollset_version++;
}

static void fail_link(ring_link *l, const char *why, hf__time now) {
    hf__time wait = l->failures < 10 ? RETRY_FIRST << l->failures : RETRY_MOST;
    if (l->wire) ring_wire_close(l->wire);
    l->wire = NULL;
    hf__session_break(&l->session);
    l->failures++;
    l->retry_at = now + hf__jitter(&l->client->ring->rand, hf__sooner(wait, RETRY_MOST));
    l->state = RING_IDLE;
    l->store.down_result = HF_UNREACHABLE;
    free(l->store.down_detail);
    l->store.down_detail = hf__line("node %d: %s", l->node->number, why);
}

static void begin_login(ring_link *l, hf__time now) {
    if (hf__session_begin(&l->session, NULL, now) != HF_OK) abort();
    l->state = RING_LOGIN;
}

static void feed_session(ring_link *l, hf__time now) {
    char *detail = NULL;
    hf_result r =
        hf__session_feed(&l->session, l->wire->arrived.data, l->wire->arrived.length, now, &detail);
    hf__buffer_cut(&l->wire->arrived, 0);
    if (r == HF_UNREACHABLE) fail_link(l, detail, now); /* it is not a primary */
    if (r && r != HF_UNREACHABLE)
        ring_fail(l->client->ring, "an answer is invalid: %s", detail ? detail : "");
    free(detail);
    if (l->state != RING_LOGIN || l->session.state != HF__READY) return;
    l->state = RING_UP;
    l->failures = 0;
    l->store.down_result = HF_OK;
    free(l->store.down_detail);
    l->store.down_detail = NULL;
}

bool ring_link_readable(const hf__store *store) {
    const ring_link *l = (const ring_link *)store;
    return l->wire && (l->wire->arrived.length || l->wire->broken ||
                       (l->state == RING_CONNECTING && l->wire->open));
}

void ring_link_read(hf__store *store, hf__time now) {
    ring_link *l = (ring_link *)store;
    if (!ring_link_readable(store)) return;
    if (l->wire->arrived.length) feed_session(l, now);
    if (l->wire && l->wire->broken)
        fail_link(l, "broken", now);
    else if (l->state == RING_CONNECTING)
        begin_login(l, now);
    publish_state(l);
}

/* ---- The store's table ---- */

static void link_submit(hf__store *store, hf__op *op, hf__time now) {
    hf__session_submit(&((ring_link *)store)->session, op, now);
}

static hf__op *link_completed(hf__store *store) {
    return hf__session_completed(&((ring_link *)store)->session);
}

static hf__time answer_due(const ring_link *l) {
    hf__time since = hf__session_waits_since(&l->session);
    return since == HF__NEVER ? HF__NEVER : hf__after_ms(since, l->client->ring->command_ms);
}

static void link_tick(hf__store *store, hf__time now) {
    ring_link *l = (ring_link *)store;
    if (l->state == RING_IDLE && now >= l->retry_at) {
        l->wire = ring_wire_open(l->node, l);
        l->state = RING_CONNECTING;
        l->attempt_until = hf__after_ms(now, l->client->ring->command_ms);
    } else if (l->state == RING_UP && now >= answer_due(l) && !l->wire->arrived.length) {
        fail_link(l, "does not answer", now);
    } else if (l->state == RING_UP) {
        hf__session_tick(&l->session, now);
    } else if (l->state != RING_IDLE && now >= l->attempt_until) {
        fail_link(l, "does not let us in", now);
    }
    publish_state(l);
}

static hf__time link_due(const hf__store *store) {
    const ring_link *l = (const ring_link *)store;
    if (l->state == RING_IDLE) return l->retry_at;
    if (l->state != RING_UP) return l->attempt_until;
    return hf__sooner(answer_due(l), hf__session_due(&l->session));
}

static bool link_flush(hf__store *store, pthread_mutex_t *mutex) {
    ring_link *l = (ring_link *)store;
    (void)mutex;
    if (l->state >= RING_LOGIN && l->session.out.length) {
        ring_wire_send(l->wire, l->session.out.data, l->session.out.length);
        hf__buffer_cut(&l->session.out, 0);
        l->session.unsent = 0;
    }
    return l->session.completed.last;
}

static size_t in_flight(const hf__store *store) {
    return ((const ring_link *)store)->session.in_flight;
}

static void link_shut(hf__store *store, hf__time now) {
    ring_link *l = (ring_link *)store;
    fail_link(l, "shut", now);
    l->retry_at = HF__NEVER;
    publish_state(l);
}

static void free_link(hf__store *store, bool forked) {
    ring_link *l = (ring_link *)store;
    (void)forked;
    if (l->wire) ring_wire_close(l->wire);
    hf__session_fini(&l->session);
    free(l->store.down_detail);
    free(l);
}

static const hf__store_table table = {.free = free_link,
                                      .submit = link_submit,
                                      .completed = link_completed,
                                      .tick = link_tick,
                                      .due = link_due,
                                      .flush = link_flush,
                                      .in_flight = in_flight,
                                      .shut = link_shut};

void ring_link_move(ring_link *l, ring_node *n, hf__time now) {
    l->node = n;
    fail_link(l, "another is wanted", now);
    l->retry_at = now;
    l->failures = 0;
    publish_state(l);
}

hf__store *ring_link_new(ring_client *c, ring_node *n, hf__session_role role) {
    ring_link *l = rm_alloc(sizeof *l);
    *l = (ring_link){.store = {.table = &table, .expires = true}, .client = c, .node = n};
    if (!hf__session_init(&l->session, role, &c->url, &c->who, &c->log, "node")) abort();
    return &l->store;
}
