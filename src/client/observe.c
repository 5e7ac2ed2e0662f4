/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Observers. Each observer queries the leader repeatedly, and runs its callback when the answer
 * differs from the last one reported. States:
 *
 *   WAITING --timer or notification------> QUERYING
 *   QUERYING --no change, or no answer---> WAITING
 *   QUERYING --another leader------------> IDENTIFYING (queries the leader's identity)
 *   QUERYING --no leader-----------------> REPORTING
 *   IDENTIFYING --answer-----------------> REPORTING
 *   REPORTING --the callback returned----> WAITING
 *
 * An observer does not query while its callback is due or running. So a slow callback gets the
 * newest state next, and nothing piles up. An ended observer is freed when neither the store nor a
 * callback uses it.
 */
#include "client/observe.h"

#include <stdlib.h>
#include <string.h>

#include "client/callbacks.h"
#include "client/exchange.h"
#include "client/leader.h"
#include "client/watch.h"

#define RETRY_FAILED  (200 * HF__MS) /* the store does not answer, or refuses */
#define LONG_INTERVAL HF__SEC        /* queries at this interval or longer are spread by jitter */

typedef enum observer_state { WAITING, QUERYING, IDENTIFYING, REPORTING } observer_state;

struct hf_observer {
    hf__exchange exchange;
    hf__watch watch;
    hf__timer timer;
    hf_client *client;
    HF__LINK(hf_observer) link; /* among the client's */
    hf__callback callback;
    hf_leader_fn *fn;
    void *arg;
    observer_state state;
    bool ended;               /* hf_unobserve was called: it queries no more */
    bool orphan;              /* hf_unobserve has returned: the last one that uses it frees it */
    bool running;             /* the callback is running */
    bool begun, refused;      /* something was reported; a refusal was logged */
    uint64_t token, sequence; /* as last reported; 0: no leader */
    hf__leader_answer answer;
    size_t length;
    char name[];
};

static hf_observer *observer_of(void *member, size_t offset) {
    return (hf_observer *)((char *)member - offset);
}

/* ---- Querying ---- */

static void schedule_next(hf_observer *o, hf__time span, hf__time now) {
    hf_client *c = o->client;
    o->state = WAITING;
    if (o->ended || c->closed) return;
    hf__heap_set(&c->observer_timers, &o->timer, o->watch.notified ? now : now + span);
}

static void submit_exchange(hf_observer *o, hf__verb verb, hf__time now) {
    hf__store *store = o->client->store;
    o->state = verb == HF__CLIENT_INFO ? IDENTIFYING : QUERYING;
    o->exchange.op.verb = verb;
    o->exchange.op.detail = NULL;
    store->table->submit(store, &o->exchange.op, now);
}

static void get_leader(hf_observer *o, hf__time now) {
    o->watch.notified = false;
    o->answer.lock_info.identity = (hf__identity){0};
    submit_exchange(o, HF__LEADER, now);
}

void hf__observe_tick(hf_client *c, hf__time now) {
    for (hf__timer *t; (t = hf__heap_pop(&c->observer_timers, now));)
        get_leader(observer_of(t, offsetof(hf_observer, timer)), now);
}

static void queue_callback(hf_observer *o) {
    hf_client *c = o->client;
    o->state = c->closed ? WAITING : REPORTING;
    if (!c->closed) hf__callback_add(c, &o->callback);
}

static bool has_changed(const hf_observer *o, bool has_leader) {
    if (!o->begun) return true;
    if (!has_leader) return o->token != 0;
    return o->token != o->answer.lock_info.token || o->sequence != o->answer.leader_value.sequence;
}

static void handle_leader(hf_observer *o, hf_result r, hf__time now) {
    bool has_leader = r == HF_OK;
    o->refused = false;
    o->exchange.op.attempt++;
    if (!has_changed(o, has_leader)) {
        hf__time span = o->exchange.op.retry_ms * HF__MS;
        schedule_next(o, span < LONG_INTERVAL ? span : hf__jitter(&o->client->rand, span), now);
        return;
    }
    o->token = has_leader ? o->answer.lock_info.token : 0;
    o->sequence = has_leader ? o->answer.leader_value.sequence : 0;
    if (has_leader)
        submit_exchange(o, HF__CLIENT_INFO, now);
    else
        queue_callback(o);
}

static void handle_no_answer(hf_observer *o, hf_result r, const char *detail, hf__time now) {
    if (r != HF_UNREACHABLE && !o->refused) {
        o->refused = true;
        hf__log_add(&o->client->log, HF_LOG_WARNING, "cannot read the leader of %s: %s", o->name,
                    detail ? detail : hf_result_text(r));
    }
    schedule_next(o, RETRY_FAILED, now);
}

static void observer_free(hf_observer *o) {
    hf_client *c = o->client;
    free(o);
    hf__client_unref(c);
}

/* The user's own reference keeps the client alive while the client's operations are completed. */
static void on_answer(hf__exchange *exchange, hf__time now) {
    hf_observer *o = observer_of(exchange, offsetof(hf_observer, exchange));
    hf_result r = exchange->op.result;
    bool queried = o->state == QUERYING;
    char *detail = exchange->op.detail;
    if (o->orphan)
        observer_free(o);
    else if (!queried)
        queue_callback(o); /* with the identity, or with "" */
    else if (r == HF_OK || r == HF_NOT_HELD)
        handle_leader(o, r, now);
    else
        handle_no_answer(o, r, detail, now);
    free(detail);
}

/* ---- Reporting ---- */

static void run_callback(hf_client *c, hf__callback *self) {
    hf_observer *o = observer_of(self, offsetof(hf_observer, callback));
    bool has_leader = o->token != 0;
    o->begun = o->running = true;
    if (has_leader) hf__leader_answer_fill(&o->answer);
    pthread_mutex_unlock(&c->mutex);
    o->fn(has_leader ? &o->answer.info : NULL, o->arg);
    pthread_mutex_lock(&c->mutex);
    o->running = false;
    pthread_cond_broadcast(&c->callback_done);
    if (o->orphan)
        observer_free(o);
    else
        schedule_next(o, 0, hf__now());
}

static void cancel_callback(hf_client *c, hf_observer *o) {
    hf__callback_cancel(c, &o->callback);
    if (!o->running && o->state == REPORTING) o->state = WAITING;
}

void hf__observe_close(hf_client *c) {
    for (hf_observer *o = c->observers.first; o; o = o->link.next) {
        hf__heap_remove(&c->observer_timers, &o->timer);
        hf__watch_end(c, &o->watch);
        cancel_callback(c, o);
    }
}

/* ---- Starting and ending ---- */

static hf_observer *observer_new(hf_client *c, const char *name, size_t length, hf_leader_fn *fn,
                                 void *arg) {
    hf_observer *o = calloc(1, sizeof *o + length + 1);
    if (!o) return NULL;
    memcpy(o->name, name, length);
    o->client = c;
    o->fn = fn;
    o->arg = arg;
    o->length = length;
    o->callback.run = run_callback;
    o->watch = (hf__watch){.name = o->name, .length = length, .timer = &o->timer};
    o->exchange.on_answer = on_answer;
    o->exchange.op = (hf__op){.name = o->name,
                              .name_length = length,
                              .enqueue = true,
                              .lock_info = &o->answer.lock_info,
                              .leader_value = &o->answer.leader_value};
    return o;
}

static void begin_observing(hf_client *c, hf_observer *o) {
    atomic_fetch_add(&c->refs, 1);
    hf__list_append(&c->observers, o, link);
    hf__watch_begin(c, &o->watch);
    o->exchange.op.acquire_id = o->watch.watch_id;
    hf__heap_set(&c->observer_timers, &o->timer, hf__now());
    hf__run_once(c, NULL);
}

hf_result hf_observe(hf_client *c, const char *name, hf_leader_fn *fn, void *arg,
                     hf_observer **observer) {
    size_t length;
    if (!fn || !observer)
        return hf__fail(HF_INVALID, "hf_observe needs a callback, and a pointer for the observer");
    *observer = NULL;
    hf_result r = hf__name_check(name, &length);
    if (!r) r = hf__call_begin_latch_leader(c);
    if (r) return r;
    r = hf__background_start(c);
    if (!r) r = hf__callbacks_start(c);
    hf_observer *o = r ? NULL : observer_new(c, name, length, fn, arg);
    if (!r && !o) r = hf__fail(HF_NOMEM, "out of memory");
    if (!r) {
        *observer = o; /* before the first callback */
        begin_observing(c, o);
    }
    hf__call_end(c);
    return r;
}

static void unlink_observer(hf_client *c, hf_observer *o) {
    hf__list_remove(&c->observers, o, link);
    hf__heap_remove(&c->observer_timers, &o->timer);
    hf__watch_end(c, &o->watch);
    cancel_callback(c, o);
}

void hf_unobserve(hf_observer *o) {
    if (!o) return;
    hf_client *c = o->client;
    if (c->fork_generation != hf__fork_generation()) {
        observer_free(o);
        return;
    }
    pthread_mutex_lock(&c->mutex);
    o->ended = true;
    unlink_observer(c, o);
    hf__callback_await(c, &o->running); /* other threads need not wait for this */
    bool kept = o->running || o->state == QUERYING || o->state == IDENTIFYING;
    o->orphan = kept;
    /* otherwise a thread that frees an orphan could free the client while hf__unlock uses it */
    atomic_fetch_add(&c->refs, 1);
    hf__unlock(c);
    if (!kept) observer_free(o);
    hf__client_unref(c);
}
