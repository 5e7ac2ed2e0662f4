/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Redis store: the store's table over up to four connections (links).
 *
 *   link           carries the commands
 *   subscriber     receives grants; opened when an acquire is first queued
 *   watch          asks Sentinels for the primary, and the other links follow (redis+sentinel://)
 *   replica_link   waits until replicas have confirmed (replicas=N)
 */
#include "store/redis/redis.h"

#include <stdlib.h>

#include "store/redis/net/link.h"
#include "store/redis/protocol/notifications.h"
#include "store/redis/topology/release_log.h"
#include "store/redis/topology/replica_wait.h"
#include "store/redis/topology/sentinel_watch.h"

#define RECHECK_AFTER (500 * HF__MS)
#define CONTENDED_FOR HF__SEC /* how long after queuing this client expects contention */

/* What pollset would return for a link, as last published. */
typedef struct link_snapshot {
    hf__net_state state;
    int fd;
    bool want_write;
} link_snapshot;

typedef struct redis {
    hf__store store;
    hf__identity who;
    hf__log *log;
    hf__link link, subscriber, replica_link;
    link_snapshot link_seen, subscriber_seen, watch_seen, replica_link_seen;
    bool wants_replicas; /* replicas=N: `replica_link` is used */
    bool in_cluster;
    /* in a cluster: the channels that `subscriber` listens to */
    hf__channels channels;
    hf__replica_wait replica_wait;
    hf__notifications notifications;

    /* Only for redis+sentinel:// */
    hf__sentinel_watch *watch;
    hf__url node; /* the links' URL: parts of the client's, and the primary's address */
    hf__address primary;
    hf__release_log releases;
    unsigned failures; /* of `link`, as last seen */
    uint64_t repeated; /* the connection on which the release log was last repeated */
} redis;

/* ---- Link state, as the client and the core see it ---- */

static bool link_changed(link_snapshot *before, const hf__link *l) {
    const hf__connection *c = &l->net;
    if (before->state == c->state && before->fd == c->fd && before->want_write == c->want_write)
        return false;
    *before = (link_snapshot){c->state, c->fd, c->want_write};
    return true;
}

/* Why the store is down. With Sentinels, a node that cannot be reached is not a final answer while
   the first connection is being made. */
static void update_down_result(redis *r) {
    const hf__sentinel_watch *w = r->watch;
    bool lost =
        w && w->result && r->link.net.state != HF__NET_UP; /* no Sentinel knows the primary */
    bool wait =
        w && !lost && hf__sentinel_watch_opening(w) && r->link.net.down_result == HF_UNREACHABLE;
    r->store.down_result = lost ? w->result : wait ? HF_OK : r->link.net.down_result;
    r->store.down_detail = lost ? w->detail : wait ? NULL : r->link.net.down_detail;
    static char late[] = "the primary could not be reached within connect_timeout; check that the "
                         "address which Sentinels report is reachable from here";
    if (!w || hf__sentinel_watch_opening(w) || r->link.net.state == HF__NET_UP ||
        r->store.down_result)
        return;
    r->store.down_result = HF_UNREACHABLE;
    r->store.down_detail = late;
}

static void update_status(redis *r) {
    bool link = link_changed(&r->link_seen, &r->link),
         subscriber = link_changed(&r->subscriber_seen, &r->subscriber);
    bool watch = r->watch && link_changed(&r->watch_seen, &r->watch->link);
    bool replica_link = link_changed(&r->replica_link_seen, &r->replica_link);
    if (link || subscriber || watch || replica_link) r->store.pollset_version++;
    hf__notifications_update(&r->notifications, r->subscriber.net.state == HF__NET_UP);
    r->store.up = r->link.net.state == HF__NET_UP;
    r->store.link = r->link.session.link;
    update_down_result(r);
    r->store.round_trip_us = r->link.session.round_trip_us;
    r->store.round_trips = r->link.session.round_trips;
    r->store.clock_us = r->link.session.server_us;
    r->store.clock_at = r->link.session.sampled_at;
    r->store.commands = r->link.session.commands;
}

static void redis_free(hf__store *store, bool forked) {
    redis *r = (redis *)store;
    hf__link_fini(&r->link, forked);
    hf__link_fini(&r->subscriber, forked);
    hf__link_fini(&r->replica_link, forked);
    hf__channels_fini(&r->channels);
    hf__sentinel_watch_free(r->watch, forked);
    hf__release_log_fini(&r->releases);
    free(r);
}

static void redis_submit(hf__store *store, hf__op *op, hf__time now) {
    redis *r = (redis *)store;
    if (r->in_cluster && op->name)
        op->subscribed = hf__channels_subscribed(&r->channels, op->name, op->name_length);
    hf__session_submit(&r->link.session, op, now);
}

/* Whether the store keeps the operation: a repeated release, a grant that replicas must still
   confirm, or a grant that is being undone. */
static bool keep_op(redis *r, hf__op *op) {
    /* in a cluster the cluster store reclaims it */
    if (!r->in_cluster && hf__release_log_reclaim(op)) return true;
    if (r->watch)
        hf__release_log_note(&r->releases, op, hf__later(op->sent_at, r->link.net.fed_at));
    return r->wants_replicas && hf__replica_wait_take(&r->replica_wait, op, r->link.net.fed_at);
}

/* The next operation to return to the core, confirmed by replicas where that is required. */
static hf__op *next_completed(redis *r) {
    hf__op *op = r->wants_replicas ? hf__replica_wait_completed(&r->replica_wait) : NULL;
    if (op) return op;
    do op = hf__session_completed(&r->link.session);
    while (op && keep_op(r, op));
    return op || !r->wants_replicas ? op : hf__replica_wait_completed(&r->replica_wait);
}

static hf__op *redis_completed(hf__store *store) {
    redis *r = (redis *)store;
    hf__op *op = next_completed(r);
    if (op) hf__notifications_note_answer(&r->notifications, op);
    if (op && r->in_cluster && hf__is_queued(op))
        hf__channels_want(&r->channels, op->name, op->name_length,
                          hf__later(op->sent_at, r->link.net.fed_at));
    return op;
}

static bool redis_next_notification(hf__store *store, hf__notification *out) {
    redis *r = (redis *)store;
    size_t length;
    const char *name = r->in_cluster ? hf__channels_next_changed(&r->channels, &length) : NULL;
    if (name) {
        *out = (hf__notification){.type = HF__NAME_CHANGED, .name = name, .length = length};
        return true;
    }
    return hf__notifications_next(&((redis *)store)->notifications, out);
}

/* ---- Running ---- */

/* Whether the address to connect to is known: from the URL, or from a recent answer of the
   Sentinels. */
static bool primary_known(const redis *r) {
    bool busy = r->link.net.state != HF__NET_IDLE;
    return !r->watch || (r->primary.port && (busy || hf__sentinel_watch_primary(r->watch)));
}

/* When to suspect that a primary that does not answer is down, and to ask the Sentinels. Its
   connection is closed later. */
static hf__time recheck_primary_at(const redis *r) {
    hf__time since = hf__session_waits_since(&r->link.session);
    return since == HF__NEVER ? HF__NEVER : since + RECHECK_AFTER;
}

static void follow_primary(redis *r, hf__time now) {
    if (r->link.net.failures > r->failures) hf__sentinel_watch_recheck(r->watch);
    r->failures = r->link.net.failures;
    hf__sentinel_watch_tick(r->watch,
                            r->link.net.state == HF__NET_UP && now < recheck_primary_at(r), now);
    const hf__address *primary = hf__sentinel_watch_primary(r->watch);
    if (!primary || (primary->port == r->primary.port && !strcmp(primary->host, r->primary.host)))
        return;
    hf__log_add(r->log, HF_LOG_INFO, "the primary '%s' is at %s, port %d", r->node.primary,
                primary->host, (int)primary->port);
    r->primary = *primary;
    r->node.port = primary->port;
    hf__link_move(&r->link, now);
    hf__link_move(&r->subscriber, now);
    if (r->wants_replicas) hf__link_move(&r->replica_link, now);
}

/* A server other than the one that answered a release may not know of it. */
static void repeat_releases(redis *r, hf__time now) {
    bool same = r->repeated == r->link.session.link;
    if (r->link.net.state != HF__NET_UP || (same && !r->releases.repeat_now)) return;
    r->repeated = r->link.session.link;
    hf__release_log_repeat(&r->releases, &r->link.session, now);
}

static void tick_replica_link(redis *r, hf__time now) {
    if (hf__replica_wait_stale(&r->replica_wait)) hf__link_renew(&r->replica_link, now);
    if (r->link.net.state == HF__NET_UP) {
        if (r->replica_link.net.state == HF__NET_IDLE) hf__replica_wait_begin(&r->replica_wait);
        hf__link_tick(&r->replica_link, now);
    }
    hf__replica_wait_tick(&r->replica_wait, now);
}

static void redis_tick(hf__store *store, hf__time now) {
    redis *r = (redis *)store;
    if (r->watch) follow_primary(r, now);
    /* the registration is an exchange, so it measures the round trip */
    if (r->store.wants_round_trip) r->link.session.register_at = now;
    r->store.wants_round_trip = false;
    if (primary_known(r)) hf__link_tick(&r->link, now);
    if (r->watch) repeat_releases(r, now);
    if (hf__notifications_stale(&r->notifications)) hf__link_renew(&r->subscriber, now);
    if (r->notifications.wanted && r->link.net.state == HF__NET_UP) {
        if (r->subscriber.net.state == HF__NET_IDLE)
            hf__notifications_connecting(&r->notifications);
        hf__link_tick(&r->subscriber, now);
    }
    if (r->wants_replicas) tick_replica_link(r, now);
    update_status(r);
}

static hf__time redis_due(const hf__store *store) {
    const redis *r = (const redis *)store;
    hf__time link = primary_known(r) ? hf__link_due(&r->link) : HF__NEVER;
    if (r->store.wants_round_trip) link = 0;
    if (r->watch) link = hf__sooner(link, hf__sentinel_watch_due(r->watch));
    if (r->watch && r->watch->primary_up) link = hf__sooner(link, recheck_primary_at(r));
    bool up = r->link.net.state == HF__NET_UP, subscriber = r->notifications.wanted && up;
    if (r->wants_replicas) link = hf__sooner(link, hf__replica_wait_due(&r->replica_wait));
    if (r->wants_replicas && up) link = hf__sooner(link, hf__link_due(&r->replica_link));
    return subscriber ? hf__sooner(link, hf__link_due(&r->subscriber)) : link;
}

static bool redis_flush(hf__store *store, pthread_mutex_t *mutex) {
    redis *r = (redis *)store;
    bool was_up = r->store.up;
    if (r->wants_replicas) /* for operations that were just answered */
        hf__replica_wait_tick(&r->replica_wait, hf__now());
    if (r->in_cluster) hf__session_tick(&r->subscriber.session, hf__now());
    hf__link_flush(&r->link, mutex);
    hf__link_flush(&r->subscriber, mutex);
    if (r->watch) hf__link_flush(&r->watch->link, mutex);
    if (r->wants_replicas) hf__link_flush(&r->replica_link, mutex);
    update_status(r);
    bool completed = r->link.session.completed.last || r->replica_link.session.completed.last ||
                     r->replica_wait.done.last;
    bool repeat = r->releases.repeat_now && r->link.net.state == HF__NET_UP;
    return r->store.up != was_up || r->notifications.must_recheck || r->channels.changed_count ||
           completed || repeat;
}

/* Each link has a fixed index; fd is -1 if there is nothing to poll. Messages of a Sentinel are
   always read. */
static int redis_pollset(hf__store *store, struct pollfd *fds, bool reading) {
    redis *r = (redis *)store;
    fds[0] = hf__connection_poll(&r->link.net, reading);
    fds[1] = hf__connection_poll(&r->subscriber.net, reading);
    if (!r->watch && !r->wants_replicas) return 2;
    fds[2] = fds[3] = (struct pollfd){.fd = -1};
    if (r->watch) fds[2] = hf__connection_poll(&r->watch->link.net, true);
    if (r->wants_replicas) fds[3] = hf__connection_poll(&r->replica_link.net, true);
    return 4;
}

static void redis_ready(hf__store *store, const struct pollfd *fds, int count,
                        pthread_mutex_t *mutex) {
    redis *r = (redis *)store;
    if (count > 0) hf__link_ready(&r->link, fds[0].revents, mutex);
    if (count > 1) hf__link_ready(&r->subscriber, fds[1].revents, mutex);
    if (count > 2 && r->watch) hf__link_ready(&r->watch->link, fds[2].revents, mutex);
    if (count > 3 && r->wants_replicas) hf__link_ready(&r->replica_link, fds[3].revents, mutex);
    update_status(r);
}

/* Polling before sleeping pays off only if no other thread or client needs the CPU: not while this
   client hands locks over to others, or waits among many. */
static bool is_alone(const redis *r) {
    bool contended =
        r->notifications.wanted && hf__now() - r->notifications.queued_at < CONTENDED_FOR;
    return !contended && r->link.session.in_flight == 1;
}

static bool redis_read_blocking(hf__store *store, pthread_mutex_t *mutex) {
    redis *r = (redis *)store;
    bool waited = !r->wants_replicas && hf__link_wait(&r->link, is_alone(r), mutex);
    update_status(r);
    return waited;
}

static size_t redis_in_flight(const hf__store *store) {
    const redis *r = (const redis *)store;
    return r->link.session.in_flight + r->replica_wait.count;
}

static void redis_shut(hf__store *store, hf__time now) {
    redis *r = (redis *)store;
    hf__link_shut(&r->link);
    hf__link_shut(&r->subscriber);
    if (r->watch) hf__link_shut(&r->watch->link);
    hf__link_shut(&r->replica_link);
    if (r->wants_replicas) hf__replica_wait_tick(&r->replica_wait, now);
    update_status(r);
}

static const hf__store_table redis_table = {
    .free = redis_free,
    .submit = redis_submit,
    .completed = redis_completed,
    .next_notification = redis_next_notification,
    .tick = redis_tick,
    .due = redis_due,
    .flush = redis_flush,
    .pollset = redis_pollset,
    .ready = redis_ready,
    .read_blocking = redis_read_blocking,
    .in_flight = redis_in_flight,
    .shut = redis_shut,
};

/* The links use a URL of their own, which changes with the primary. */
static const hf__url *find_through_sentinels(redis *r, const hf__url *url) {
    r->node = *url;
    r->node.scheme =
        url->scheme == HF__SCHEME_SENTINEL_TLS ? HF__SCHEME_REDIS_TLS : HF__SCHEME_REDIS;
    r->node.host = r->primary.host;
    r->watch = hf__sentinel_watch_new(url, &r->who, r->log);
    return &r->node;
}

hf__store *hf__redis_new(const hf__url *url, const hf__identity *who, hf__log *log) {
    redis *r = calloc(1, sizeof *r);
    if (!r) return NULL;
    r->store.table = &redis_table;
    r->store.has_kinds = r->store.has_latch_leader = true;
    r->store.expires = r->store.can_hand_off = r->store.multi_acquire = r->store.can_export = true;
    r->who = *who;
    r->log = log;
    r->notifications.commands = &r->link.session;
    r->notifications.messages = &r->subscriber.session;
    hf__release_log_init(&r->releases, hf__rand_seed());
    bool found = true;
    if (url->primary) {
        url = find_through_sentinels(r, url);
        found = r->watch != NULL;
    }
    bool link = hf__link_init(&r->link, HF__COMMANDS, url, &r->who, log);
    bool subscriber = hf__link_init(&r->subscriber, HF__MESSAGES, url, &r->who, log);
    bool replica_link = hf__link_init(&r->replica_link, HF__REPLICAS, url, &r->who, log);
    r->in_cluster = r->notifications.per_name = url->in_cluster;
    hf__channels_init(&r->channels, url->prefix, r->who.client, hf__rand_seed());
    if (r->in_cluster) r->subscriber.session.channels = &r->channels;
    r->wants_replicas = r->store.needs_claim = r->notifications.must_claim = url->replicas > 0;
    if (r->in_cluster) r->notifications.must_claim = true;
    /* replicas confirm each name separately */
    if (r->wants_replicas) r->store.multi_acquire = false;
    r->replica_wait = (hf__replica_wait){
        .commands = &r->link.session, .session = &r->replica_link.session, .url = url};
    if (found && link && subscriber && replica_link) return &r->store;
    redis_free(&r->store, false);
    return NULL;
}
