/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does what src/store/redis/redis.c does, over wires: commands, messages, and a connection that
 * waits for replicas. The world replaces Sentinels: it says where the primary is on a failover, and
 * whenever the presumed primary is gone.
 */
#include <stdlib.h>
#include <string.h>

#include "failover/relay.h"
#include "store/redis/protocol/notifications.h"
#include "store/redis/topology/release_log.h"
#include "store/redis/topology/replica_wait.h"

enum { COMMANDS, SUBSCRIBER, WAITS, LINKS };

typedef struct relay_store {
    hf__store store; /* must be first */
    ring_client *client;
    ring_link *links[LINKS];
    hf__notifications notifications;
    hf__replica_wait replica_wait;
    hf__release_log releases;
    uint64_t repeated;
    bool follow_now; /* of a failover; handled when the store runs */
} relay_store;

static bool is_up(const relay_store *s, int link) {
    return s->links[link]->state == RING_UP;
}

static void publish_state(relay_store *s) {
    const hf__store *commands = &s->links[COMMANDS]->store;
    hf__notifications_update(&s->notifications, is_up(s, SUBSCRIBER));
    s->store.up = commands->up;
    s->store.link = commands->link;
    s->store.down_result = commands->down_result;
    free(s->store.down_detail); /* the link may free its own before the next read */
    s->store.down_detail = commands->down_detail ? strdup(commands->down_detail) : NULL;
    s->store.round_trip_us = commands->round_trip_us;
    s->store.commands = commands->commands;
    s->store.clock_us = commands->clock_us;
    s->store.clock_at = commands->clock_at;
}

/* ---- Following ---- */

static void go_to(relay_store *s, ring_node *n, hf__time now) {
    if (s->links[COMMANDS]->node == n) return;
    RING_LOG(s->client->ring, "client %d  switches to node %d", s->client->slot, n->number);
    for (int i = 0; i < LINKS; i++) ring_link_move(s->links[i], n, now);
    /* A grant of the other node may not have been read yet. */
    for (int i = 0; s->client->ring->loose && i < RING_CALLERS; i++)
        s->client->callers[i].doubtful = true;
}

static void go_where_it_is(relay_store *s, hf__time now) {
    ring *r = s->client->ring;
    go_to(s, &r->node[r->relay->primary], now);
}

/* Tries again: at the present primary, or at the node that an outdated source names. */
static void reconnect_commands(relay_store *s, hf__time now) {
    ring *r = s->client->ring;
    const ring_link *l = s->links[COMMANDS];
    if (l->state != RING_IDLE || now < l->retry_at) return;
    if (!r->calm && ring_chance(r, 8))
        go_to(s, &r->node[ring_draw(r, r->nodes)], now);
    else
        go_where_it_is(s, now);
}

static void notice_failover(void *arg) {
    ring_client *c = arg;
    if (c->gone) return;
    ((relay_store *)c->store)->follow_now = true;
    ring_client_wake(c);
}

const ring_node *relay_store_node(const ring_client *c) {
    return ((const relay_store *)c->store)->links[COMMANDS]->node;
}

static void repeat_releases(relay_store *s, hf__time now) {
    ring_link *l = s->links[COMMANDS];
    if (l->state != RING_UP || (s->repeated == l->session.link && !s->releases.repeat_now)) return;
    s->repeated = l->session.link;
    hf__release_log_repeat(&s->releases, &l->session, now);
}

/* ---- The store's table ---- */

static void store_submit(hf__store *store, hf__op *op, hf__time now) {
    hf__session_submit(&((relay_store *)store)->links[COMMANDS]->session, op, now);
}

static bool keep_op(relay_store *s, hf__op *op, hf__time now) {
    if (hf__release_log_reclaim(op)) return true;
    hf__release_log_note(&s->releases, op, now);
    return s->store.needs_claim && hf__replica_wait_take(&s->replica_wait, op, now);
}

static hf__op *next_completed(relay_store *s, hf__time now) {
    hf__op *op = s->store.needs_claim ? hf__replica_wait_completed(&s->replica_wait) : NULL;
    if (op) return op;
    do op = hf__session_completed(&s->links[COMMANDS]->session);
    while (op && keep_op(s, op, now));
    return op || !s->store.needs_claim ? op : hf__replica_wait_completed(&s->replica_wait);
}

static hf__op *store_completed(hf__store *store) {
    relay_store *s = (relay_store *)store;
    hf__op *op = next_completed(s, ring_client_now(s->client));
    if (op) hf__notifications_note_answer(&s->notifications, op);
    return op;
}

static bool store_notification(hf__store *store, hf__notification *out) {
    return hf__notifications_next(&((relay_store *)store)->notifications, out);
}

/* The command link leads. It subscribes once a waiter was queued. */
static bool wants_link(const relay_store *s, int link) {
    if (link == COMMANDS) return true;
    return is_up(s, COMMANDS) &&
           (link == SUBSCRIBER ? s->notifications.wanted : s->store.needs_claim);
}

static void tick_link(relay_store *s, int link, hf__time now) {
    ring_link *l = s->links[link];
    if (!wants_link(s, link)) return;
    if (l->state == RING_IDLE && link == SUBSCRIBER)
        hf__notifications_connecting(&s->notifications);
    if (l->state == RING_IDLE && link == WAITS) hf__replica_wait_begin(&s->replica_wait);
    l->store.table->tick(&l->store, now);
}

static void store_tick(hf__store *store, hf__time now) {
    relay_store *s = (relay_store *)store;
    if (s->follow_now) go_where_it_is(s, now);
    s->follow_now = false;
    reconnect_commands(s, now);
    tick_link(s, COMMANDS, now);
    repeat_releases(s, now);
    if (hf__notifications_stale(&s->notifications))
        ring_link_move(s->links[SUBSCRIBER], s->links[SUBSCRIBER]->node, now);
    tick_link(s, SUBSCRIBER, now);
    if (s->store.needs_claim && hf__replica_wait_stale(&s->replica_wait))
        ring_link_move(s->links[WAITS], s->links[WAITS]->node, now);
    tick_link(s, WAITS, now);
    if (s->store.needs_claim) hf__replica_wait_tick(&s->replica_wait, now);
    publish_state(s);
}

static hf__time store_due(const hf__store *store) {
    const relay_store *s = (const relay_store *)store;
    hf__time at = s->store.needs_claim ? hf__replica_wait_due(&s->replica_wait) : HF__NEVER;
    for (int i = 0; i < LINKS; i++) {
        const hf__store *link = &s->links[i]->store;
        if (wants_link(s, i)) at = hf__sooner(at, link->table->due(link));
    }
    return at;
}

static bool store_flush(hf__store *store, pthread_mutex_t *mutex) {
    relay_store *s = (relay_store *)store;
    bool was_up = store->up, changed = false;
    if (s->store.needs_claim) hf__replica_wait_tick(&s->replica_wait, ring_client_now(s->client));
    for (int i = 0; i < LINKS; i++) {
        hf__store *link = &s->links[i]->store;
        changed |= link->table->flush(link, mutex);
    }
    publish_state(s);
    changed |= s->releases.repeat_now && is_up(s, COMMANDS);
    return changed || store->up != was_up || s->notifications.must_recheck ||
           s->replica_wait.done.last;
}

static size_t in_flight(const hf__store *store) {
    const relay_store *s = (const relay_store *)store;
    return s->links[COMMANDS]->session.in_flight + s->replica_wait.count;
}

static void store_shut(hf__store *store, hf__time now) {
    relay_store *s = (relay_store *)store;
    for (int i = 0; i < LINKS; i++) s->links[i]->store.table->shut(&s->links[i]->store, now);
    if (s->store.needs_claim) hf__replica_wait_tick(&s->replica_wait, now);
    publish_state(s);
}

/* Frees memory that belongs to operations, which end before the store does. */
void relay_store_gone(ring_client *c) {
    relay_store *s = (relay_store *)c->store;
    for (int i = 0; i < LINKS; i++) {
        hf__session *session = &s->links[i]->session;
        for (hf__op *op = hf__fifo_first(&session->sent); op;
             op = hf__fifo_next(&session->sent, op))
            free(op->ack.why);
        for (hf__op *op; (op = hf__session_completed(session));) free(op->detail);
    }
    for (hf__op *op; (op = hf__replica_wait_completed(&s->replica_wait));) free(op->detail);
}

static void free_store(hf__store *store, bool forked) {
    relay_store *s = (relay_store *)store;
    for (int i = 0; i < LINKS; i++) s->links[i]->store.table->free(&s->links[i]->store, forked);
    hf__release_log_fini(&s->releases);
    free(s->store.down_detail);
    free(s);
}

static const hf__store_table table = {.free = free_store,
                                      .submit = store_submit,
                                      .completed = store_completed,
                                      .next_notification = store_notification,
                                      .tick = store_tick,
                                      .due = store_due,
                                      .flush = store_flush,
                                      .in_flight = in_flight,
                                      .shut = store_shut};

hf__store *relay_store_new(ring_client *c) {
    static const hf__session_role roles[LINKS] = {HF__COMMANDS, HF__MESSAGES, HF__REPLICAS};
    static char name[] = "mymaster";
    relay *y = c->ring->relay;
    relay_store *s = rm_alloc(sizeof *s);
    *s = (relay_store){.store = {.table = &table,
                                 .expires = true,
                                 .can_hand_off = true,
                                 .needs_claim = y->replicas > 0},
                       .client = c};
    c->failover_notice.fn = notice_failover;
    c->failover_notice.arg = c;
    c->url.primary = name;
    c->url.replicas = y->replicas;
    for (int i = 0; i < LINKS; i++) {
        c->links[i] = ring_link_new(c, &c->ring->node[y->primary], roles[i]);
        s->links[i] = (ring_link *)c->links[i];
    }
    c->link_count = LINKS;
    s->notifications = (hf__notifications){.commands = &s->links[COMMANDS]->session,
                                           .messages = &s->links[SUBSCRIBER]->session,
                                           .must_claim = y->replicas > 0};
    s->replica_wait = (hf__replica_wait){.commands = &s->links[COMMANDS]->session,
                                         .session = &s->links[WAITS]->session,
                                         .url = &c->url};
    hf__release_log_init(&s->releases, hf__rand_next(&c->ring->rand));
    return &s->store;
}
