/*
 * The Redis store of one node: the store's table over two links. One carries the commands; the other
 * listens for grants, and is made when somebody first stands in line.
 */
#include "store/redis/redis.h"

#include <stdlib.h>

#include "store/redis/hearing.h"
#include "store/redis/link.h"

/* What pollset would say of a link, as last published. */
typedef struct seen {
    hf__link_state state;
    int fd;
    bool want_write;
} seen;

typedef struct redis {
    hf__store store;
    hf__identity who;
    hf__link link, ears;
    seen link_seen, ears_seen;
    hf__hearing hearing;
} redis;

/* ---- What the client and its core may know of the links ---- */

static bool changed(seen *before, const hf__link *l) {
    if (before->state == l->state && before->fd == l->fd && before->want_write == l->want_write)
        return false;
    *before = (seen){l->state, l->fd, l->want_write};
    return true;
}

static void publish(redis *r) {
    bool link = changed(&r->link_seen, &r->link), ears = changed(&r->ears_seen, &r->ears);
    if (link || ears) r->store.polls++;
    hf__hearing_look(&r->hearing, r->ears.state == HF__LINK_UP);
    r->store.up = r->link.state == HF__LINK_UP;
    r->store.link = r->link.session.link;
    r->store.down_result = r->link.down_result;
    r->store.down_detail = r->link.down_detail;
    r->store.round_trip_us = r->link.session.round_trip_us;
    r->store.commands = r->link.session.commands;
}

static void redis_free(hf__store *store, bool forked) {
    redis *r = (redis *)store;
    hf__link_fini(&r->link, forked);
    hf__link_fini(&r->ears, forked);
    free(r);
}

static void submit(hf__store *store, hf__op *op, hf__time now) {
    redis *r = (redis *)store;
    hf__session_submit(&r->link.session, op, now);
}

static hf__op *completed(hf__store *store) {
    redis *r = (redis *)store;
    hf__op *op = hf__session_completed(&r->link.session);
    if (op) hf__hearing_complete(&r->hearing, op);
    return op;
}

static bool news(hf__store *store, hf__news *out) {
    return hf__hearing_news(&((redis *)store)->hearing, out);
}

/* ---- Turning ---- */

static void tick(hf__store *store, hf__time now) {
    redis *r = (redis *)store;
    hf__link_tick(&r->link, now);
    if (hf__hearing_stale(&r->hearing)) hf__link_renew(&r->ears, now);
    if (r->hearing.waits && r->link.state == HF__LINK_UP) {
        if (r->ears.state == HF__LINK_IDLE) hf__hearing_begin(&r->hearing);
        hf__link_tick(&r->ears, now);
    }
    publish(r);
}

static hf__time due(const hf__store *store) {
    const redis *r = (const redis *)store;
    hf__time link = hf__link_due(&r->link);
    bool ears = r->hearing.waits && r->link.state == HF__LINK_UP;
    return ears ? hf__sooner(link, hf__link_due(&r->ears)) : link;
}

static bool flush(hf__store *store, pthread_mutex_t *mutex) {
    redis *r = (redis *)store;
    bool was_up = r->store.up;
    hf__link_flush(&r->link, mutex);
    hf__link_flush(&r->ears, mutex);
    publish(r);
    return r->store.up != was_up || r->hearing.ask_again || r->link.session.done_first;
}

/* Both have a place of their own; what is not to be polled is -1. */
static int pollset(hf__store *store, struct pollfd *fds, bool reading) {
    redis *r = (redis *)store;
    if (!hf__link_pollset(&r->link, &fds[0], reading)) fds[0] = (struct pollfd){.fd = -1};
    if (!hf__link_pollset(&r->ears, &fds[1], reading)) fds[1] = (struct pollfd){.fd = -1};
    return 2;
}

static void ready(hf__store *store, const struct pollfd *fds, int count, pthread_mutex_t *mutex) {
    redis *r = (redis *)store;
    if (count > 0) hf__link_ready(&r->link, fds[0].revents, mutex);
    if (count > 1) hf__link_ready(&r->ears, fds[1].revents, mutex);
    publish(r);
}

static bool wait_for_answer(hf__store *store, pthread_mutex_t *mutex) {
    redis *r = (redis *)store;
    bool waited = hf__link_wait(&r->link, mutex);
    publish(r);
    return waited;
}

static size_t in_flight(const hf__store *store) {
    return ((const redis *)store)->link.session.in_flight;
}

static void shut(hf__store *store, hf__time now) {
    redis *r = (redis *)store;
    (void)now;
    hf__link_shut(&r->link);
    hf__link_shut(&r->ears);
    publish(r);
}

static const hf__store_table table = {
    .free = redis_free,
    .submit = submit,
    .completed = completed,
    .news = news,
    .tick = tick,
    .due = due,
    .flush = flush,
    .pollset = pollset,
    .ready = ready,
    .wait = wait_for_answer,
    .in_flight = in_flight,
    .shut = shut,
};

hf__store *hf__redis_new(const hf__url *url, const hf__identity *who, hf__log *log) {
    redis *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    r->store.table = &table;
    r->store.forgets = r->store.hands_on = r->store.has_kinds = r->store.asks_together =
        r->store.hands_over = true;
    r->who = *who;
    r->hearing.commands = &r->link.session;
    r->hearing.messages = &r->ears.session;
    bool link = hf__link_init(&r->link, HF__COMMANDS, url, &r->who, log);
    bool ears = hf__link_init(&r->ears, HF__MESSAGES, url, &r->who, log);
    if (link && ears) return &r->store;
    redis_free(&r->store, false);
    return NULL;
}
