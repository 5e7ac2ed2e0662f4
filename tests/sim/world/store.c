/* SPDX-License-Identifier: Apache-2.0 */
#include "world/store.h"

#include <stdlib.h>

#include "world/client.h"
#include "world/world.h"

/* ---- The session as the half of a link ---- */

static hf_result half_begin(void *half, hf__time now) {
    return hf__session_begin(half, NULL, now);
}

static void half_broke(void *half) {
    hf__session_break(half);
}

static hf_result half_feed(void *half, const char *bytes, size_t length, hf__time now,
                           char **detail) {
    return hf__session_feed(half, bytes, length, now, detail);
}

static bool half_ready(const void *half) {
    return ((const hf__session *)half)->state == HF__READY;
}

static hf__buffer *half_out(void *half) {
    return &((hf__session *)half)->out;
}

static void half_sent(void *half) {
    ((hf__session *)half)->unsent = 0;
}

static bool must_look(const void *half) {
    const hf__session *s = half;
    return s->out.length && s->in_flight == s->unsent;
}

static hf__time waits_since(const void *half) {
    return hf__session_waits_since(half);
}

static void session_tick(void *half, hf__time now) {
    hf__session_tick(half, now);
}

static hf__time session_due(const void *half) {
    return hf__session_due(half);
}

static const sim_half half_table = {.begin = half_begin,
                                    .broke = half_broke,
                                    .feed = half_feed,
                                    .ready = half_ready,
                                    .out = half_out,
                                    .sent = half_sent,
                                    .must_look = must_look,
                                    .waits_since = waits_since,
                                    .tick = session_tick,
                                    .due = session_due};

/* ---- The store's table ---- */

static void publish_state(sim_store *s) {
    const sim_link *commands = &s->links[SIM_COMMANDS];
    hf__notifications_update(&s->notifications, s->links[SIM_MESSAGES].state == SIM_LINK_UP);
    s->store.up = commands->state == SIM_LINK_UP;
    s->store.link = s->session.link;
    s->store.down_result = commands->down_result;
    s->store.down_detail = commands->down_detail;
    s->store.round_trip_us = s->session.round_trip_us;
    s->store.commands = s->session.commands;
}

static void store_submit(hf__store *store, hf__op *op, hf__time now) {
    sim_store *s = (sim_store *)store;
    hf__session_submit(&s->session, op, now);
}

static bool store_notification(hf__store *store, hf__notification *out) {
    return hf__notifications_next(&((sim_store *)store)->notifications, out);
}

/* The store subscribes once a waiter was queued, while the command link is up. */
static bool wants_link(const sim_store *s, int link) {
    return link == SIM_COMMANDS ||
           (s->notifications.wanted && s->links[SIM_COMMANDS].state == SIM_LINK_UP);
}

static hf__op *store_completed(hf__store *store) {
    sim_store *s = (sim_store *)store;
    hf__op *op = hf__session_completed(&s->session);
    if (op) hf__notifications_note_answer(&s->notifications, op);
    return op;
}

static void store_tick(hf__store *store, hf__time now) {
    sim_store *s = (sim_store *)store;
    if (hf__notifications_stale(&s->notifications)) sim_link_renew(&s->links[SIM_MESSAGES], now);
    for (int i = 0; i < SIM_LINKS; i++) {
        if (!wants_link(s, i)) continue;
        if (i == SIM_MESSAGES && s->links[i].state == SIM_LINK_IDLE)
            hf__notifications_connecting(&s->notifications);
        sim_link_tick(&s->links[i], now);
    }
    publish_state(s);
}

static hf__time store_due(const hf__store *store) {
    const sim_store *s = (const sim_store *)store;
    hf__time at = HF__NEVER;
    for (int i = 0; i < SIM_LINKS; i++)
        if (wants_link(s, i)) at = hf__sooner(at, sim_link_due(&s->links[i]));
    return at;
}

static bool store_flush(hf__store *store, pthread_mutex_t *mutex) {
    (void)mutex;
    sim_store *s = (sim_store *)store;
    bool was_up = store->up;
    hf__time now = sim_client_now(s->client);
    for (int i = 0; i < SIM_LINKS; i++) sim_link_flush(&s->links[i], now);
    publish_state(s);
    return store->up != was_up || s->notifications.must_recheck || s->session.completed.last;
}

static size_t in_flight(const hf__store *store) {
    return ((const sim_store *)store)->session.in_flight;
}

/* With nothing in flight it says goodbye, as the real store does. */
static void store_shut(hf__store *store, hf__time now) {
    sim_store *s = (sim_store *)store;
    if (store->up && !s->session.sent.last && !s->session.out.length) {
        hf__session_unregister(&s->session);
        sim_link_flush(&s->links[SIM_COMMANDS], now);
    }
    for (int i = 0; i < SIM_LINKS; i++) sim_link_shut(&s->links[i]);
    publish_state(s);
}

static const hf__store_table table = {.submit = store_submit,
                                      .completed = store_completed,
                                      .next_notification = store_notification,
                                      .tick = store_tick,
                                      .due = store_due,
                                      .flush = store_flush,
                                      .in_flight = in_flight,
                                      .shut = store_shut};

/* ---- Making and reading ---- */

void sim_store_init(sim_store *s, struct sim_client *client, const hf__url *url,
                    const hf__identity *who, hf__log *log, uint64_t seed) {
    *s = (sim_store){.store = {.table = &table,
                               .expires = true,
                               .can_hand_off = true,
                               .has_kinds = true,
                               .multi_acquire = true},
                     .client = client,
                     .notifications = {.commands = &s->session, .messages = &s->subscriber}};
    s->links[SIM_COMMANDS] = (sim_link){.table = &half_table, .half = &s->session};
    s->links[SIM_MESSAGES] = (sim_link){.table = &half_table, .half = &s->subscriber};
    for (int i = 0; i < SIM_LINKS; i++) {
        sim_link *l = &s->links[i];
        l->client = client;
        l->rand.state = seed + (uint64_t)i;
        l->connect_ms = url->connect_timeout_ms;
        l->command_ms = url->command_timeout_ms;
    }
    if (!hf__session_init(&s->session, HF__COMMANDS, url, who, log, "sim") ||
        !hf__session_init(&s->subscriber, HF__MESSAGES, url, who, log, "sim"))
        abort();
}

void sim_store_fini(sim_store *s) {
    for (int i = 0; i < SIM_LINKS; i++) sim_link_fini(&s->links[i]);
    hf__session_fini(&s->session);
    hf__session_fini(&s->subscriber);
}

void sim_store_read(sim_store *s, hf__time now) {
    for (int i = 0; i < SIM_LINKS; i++) sim_link_read(&s->links[i], now);
    publish_state(s);
}

bool sim_store_readable(const sim_store *s) {
    for (int i = 0; i < SIM_LINKS; i++)
        if (sim_link_readable(&s->links[i])) return true;
    return false;
}
