/* The Redis store of one node: the store's table over a link. */
#include "store/redis/redis.h"

#include <stdlib.h>

#include "store/redis/link.h"

typedef struct redis {
    hf__store store;
    hf__identity who;
    hf__link link;
    hf__link_state state; /* as last published */
    int fd;
    bool want_write;
} redis;

/* What the client and its core may know of the link. */
static void publish(redis *r) {
    if (r->state != r->link.state || r->fd != r->link.fd || r->want_write != r->link.want_write) {
        r->state = r->link.state;
        r->fd = r->link.fd;
        r->want_write = r->link.want_write;
        r->store.polls++;
    }
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
    free(r);
}

static void submit(hf__store *store, hf__op *op, hf__time now) {
    hf__session_submit(&((redis *)store)->link.session, op, now);
}

static hf__op *completed(hf__store *store) {
    return hf__session_completed(&((redis *)store)->link.session);
}

static void tick(hf__store *store, hf__time now) {
    redis *r = (redis *)store;
    hf__link_tick(&r->link, now);
    publish(r);
}

static hf__time due(const hf__store *store) {
    return hf__link_due(&((const redis *)store)->link);
}

static bool flush(hf__store *store, pthread_mutex_t *mutex) {
    redis *r = (redis *)store;
    bool was_up = r->store.up;
    hf__link_flush(&r->link, mutex);
    publish(r);
    return r->store.up != was_up || r->link.session.done_first;
}

static int pollset(hf__store *store, struct pollfd *fds, bool reading) {
    return hf__link_pollset(&((redis *)store)->link, fds, reading);
}

static void ready(hf__store *store, const struct pollfd *fds, int count, pthread_mutex_t *mutex) {
    redis *r = (redis *)store;
    if (count) hf__link_ready(&r->link, fds[0].revents, mutex);
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
    publish(r);
}

static const hf__store_table table = {
    .free = redis_free,
    .submit = submit,
    .completed = completed,
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
    r->store.forgets = true;
    r->who = *who;
    if (hf__link_init(&r->link, url, &r->who, log)) return &r->store;
    redis_free(&r->store, false);
    return NULL;
}
