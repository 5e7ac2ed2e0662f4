/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Latches.
 *
 * Setting and counting down are one exchange each, repeated under the same acquire id until it is
 * answered. A client sends one change of a latch at a time. The store remembers only the highest id
 * of a client, and treats lower ids as done.
 *
 * A wait polls the latch at the times that the store names, and sooner after a notification.
 */
#include <stdlib.h>
#include <string.h>

#include "client/exchange.h"
#include "client/options.h"
#include "client/watch.h"

#define POLL_AGAIN ((hf_result)-1) /* not a result: poll again later */

#define RETRY_FIRST (5 * HF__MS)
#define RETRY_MAX   (100 * HF__MS)

static hf__time retry_delay(uint32_t tries) {
    hf__time span = RETRY_FIRST << (tries < 5 ? tries : 5);
    return span < RETRY_MAX ? span : RETRY_MAX;
}

/* ---- Setting and counting down ---- */

struct hf__change {
    HF__LINK(hf__change) link;
    const char *name;
    size_t length;
    hf__call turn; /* finished when those before it have ended */
};

static bool same_latch(const hf__change *a, const hf__change *b) {
    return a->length == b->length && !memcmp(a->name, b->name, a->length);
}

static void leave_turns(hf_client *c, hf__change *me) {
    hf__change *next = me->link.next;
    hf__list_remove(&c->changes, me, link);
    while (next && !same_latch(me, next)) next = next->link.next;
    for (const hf__change *it = c->changes.first; next && it != next; it = it->link.next)
        if (same_latch(it, next)) return; /* `me` stopped waiting: there are others before `next` */
    if (next && !next->turn.done) hf__call_finish(c->core, &next->turn, HF_OK, NULL);
}

static hf_result take_turn(hf_client *c, hf__change *me, hf__time until) {
    bool first = true;
    for (const hf__change *it = c->changes.first; it; it = it->link.next)
        first = first && !same_latch(it, me);
    hf__list_append(&c->changes, me, link);
    if (first || hf__await(c, &me->turn, until, NULL) == HF__DONE) return HF_OK;
    return hf__fail(
        HF_UNREACHABLE,
        "the store did not answer earlier changes of this latch by this client in time");
}

/* Sleep, while the client goes on working. */
static void pause_for(hf_client *c, hf__time span, hf__time until) {
    hf__call never = {0};
    (void)hf__await(c, &never, hf__sooner(hf__now() + span, until), NULL);
}

/* Repeat the exchange until it is answered. The acquire id is the same each time. */
static hf_result exchange_until_answered(hf_client *c, hf__exchange *exchange, hf__time until) {
    bool sent_unanswered = false;
    hf_result r;
    for (uint32_t tries = 0;; tries++) {
        r = hf__exchange_run(c, exchange, until);
        sent_unanswered |= exchange->op.outcome_unknown;
        if (r != HF_UNREACHABLE || c->closed || hf__now() >= until) break;
        pause_for(c, retry_delay(tries), until);
    }
    if (r == HF_TIMEOUT)
        r = hf__fail(HF_UNREACHABLE,
                     "the request reached the store too late, and was not executed; try again");
    bool unknown = sent_unanswered && r != HF_OK && r != HF_NOT_HELD;
    return unknown ? hf__fail(HF_UNKNOWN_OUTCOME,
                              "the store did not answer whether the latch was changed; check it "
                              "with hf_latch_left before changing it again")
                   : r;
}

static hf_result change_latch(hf_client *c, hf__verb verb, const char *name, hf__latch *latch) {
    hf__change me = {.name = name};
    hf_result r = hf__name_check(name, &me.length);
    if (!r) r = hf__call_begin_latch_leader(c);
    if (r) return r;
    const hf__url *config = &c->url;
    int64_t span = config->outage_ms > config->command_timeout_ms ? config->outage_ms
                                                                  : config->command_timeout_ms;
    hf__time until = hf__after_ms(hf__now(), span);
    r = take_turn(c, &me, until);
    if (!r) {
        hf__exchange exchange = {.op = {.verb = verb,
                                        .name = name,
                                        .name_length = me.length,
                                        .acquire_id = hf__core_new_acquire_id(c->core),
                                        .latch = latch}};
        r = exchange_until_answered(c, &exchange, until);
    }
    leave_turns(c, &me);
    hf__run_once(c, NULL); /* wakes the next one */
    hf__call_end(c);
    return r;
}

static hf_result report_not_set(const char *what) {
    return hf__fail(HF_NOT_HELD, "the latch is not set, or has expired%s; call hf_latch_set first",
                    what);
}

hf_result hf_latch_set(hf_client *c, const char *name, uint32_t count) {
    hf__latch latch = {.count = count};
    if (count > HF_LATCH_MAX)
        return hf__fail(HF_INVALID, "a count of %u is above %d", count, HF_LATCH_MAX);
    return change_latch(c, HF__LATCH_SET, name, &latch);
}

hf_result hf_latch_count_down(hf_client *c, const char *name, uint32_t by, uint32_t *left) {
    hf__latch latch = {.count = by};
    if (left) *left = 0;
    if (!by || by > HF_LATCH_MAX)
        return hf__fail(HF_INVALID, "a latch can be counted down by 1 to %d, not by %u",
                        HF_LATCH_MAX, by);
    hf_result r = change_latch(c, HF__LATCH_COUNT_DOWN, name, &latch);
    if (r == HF_NOT_HELD) return report_not_set("; nothing was counted");
    if (!r && left) *left = latch.left;
    return r;
}

hf_result hf_latch_left(hf_client *c, const char *name, uint32_t *left) {
    hf__latch latch = {0};
    size_t length;
    if (!left) return hf__fail(HF_INVALID, "hf_latch_left needs a pointer for the count");
    *left = 0;
    hf_result r = hf__name_check(name, &length);
    if (!r) r = hf__call_begin_latch_leader(c);
    if (r) return r;
    hf__exchange exchange = {
        .op = {.verb = HF__LATCH_GET, .name = name, .name_length = length, .latch = &latch}};
    r = hf__exchange_run(c, &exchange, hf__command_until(c, hf__now()));
    hf__call_end(c);
    if (r == HF_NOT_HELD) return report_not_set("");
    *left = latch.left;
    return r;
}

/* ---- Waiting ---- */

/* The store may still use this after the wait has ended. */
typedef struct latch_request {
    hf__exchange exchange; /* first: see hf__exchange_complete */
    hf__latch latch;
    char name[HF_NAME_MAX];
} latch_request;

typedef struct latch_wait {
    hf_client *client;
    hf__watch watch;
    const hf_cancel *cancel;
    bool try_once;
    hf__time until;
    hf__time poll_at;      /* when to poll next */
    hf__time outage_since; /* the store has not answered since then; 0: it answers */
    uint32_t attempt, tries;
    uint64_t round; /* the round at the first answer; 0: no answer yet */
    uint32_t left;
} latch_wait;

static latch_request *latch_request_new(const latch_wait *w) {
    latch_request *g = calloc(1, sizeof *g);
    if (!g) return NULL;
    memcpy(g->name, w->watch.name, w->watch.length);
    g->exchange.op = (hf__op){.verb = HF__LATCH_GET,
                              .name = g->name,
                              .name_length = w->watch.length,
                              .acquire_id = w->watch.watch_id,
                              .enqueue = !w->try_once,
                              .attempt = w->attempt,
                              .latch = &g->latch};
    return g;
}

/* The wait ends before the latch is open. */
static hf_result report_time_up(const latch_wait *w) {
    const hf__store *store = w->client->store;
    if (w->outage_since || !w->round) {
        bool why = !store->up && store->down_result;
        const char *line =
            why && store->down_detail ? store->down_detail : "the store did not answer in time";
        return hf__fail_line(why ? store->down_result : HF_UNREACHABLE, line);
    }
    if (w->try_once) return hf__fail(HF_BUSY, "the latch is not open: %u are left", w->left);
    return hf__fail(HF_TIMEOUT, "the latch was not open in time: %u are left", w->left);
}

static hf_result report_wait_end(const latch_wait *w, hf__awaited how) {
    if (how == HF__FIRED) return hf__fail(HF_CANCELLED, "the wait was cancelled");
    return report_time_up(w);
}

/* The wait is over when the round it joined, or a later one, is complete. */
static hf_result evaluate_latch(latch_wait *w, const latch_request *g) {
    w->outage_since = 0;
    w->tries = 0;
    if (!w->round) w->round = g->latch.round;
    w->left = g->latch.left;
    if (g->latch.last_done >= w->round) return HF_OK;
    if (w->try_once) return report_time_up(w);
    w->attempt++;
    hf_client *c = w->client;
    w->poll_at = hf__now() + hf__jitter(&c->rand, g->exchange.op.retry_ms * HF__MS);
    return POLL_AGAIN;
}

static hf_result handle_no_answer(latch_wait *w, hf__time sent_at, const char *detail) {
    hf_client *c = w->client;
    const hf__url *config = &c->url;
    hf__time now = hf__now();
    if (!w->outage_since) w->outage_since = sent_at;
    hf__time patience = (w->try_once ? config->command_timeout_ms : config->outage_ms) * HF__MS;
    if (now < w->outage_since + patience) {
        w->poll_at = hf__sooner(now + retry_delay(w->tries++), w->outage_since + patience);
        return POLL_AGAIN;
    }
    return detail && c->store->up ? hf__fail_line(HF_UNREACHABLE, detail) : report_time_up(w);
}

static hf_result get_latch(latch_wait *w) {
    hf_client *c = w->client;
    latch_request *g = latch_request_new(w);
    if (!g) return hf__fail(HF_NOMEM, "out of memory");
    hf__time now = hf__now();
    w->watch.notified = false;
    c->store->table->submit(c->store, &g->exchange.op, now);
    hf__awaited how = hf__await(c, &g->exchange.call, w->until, w->cancel);
    if (how != HF__DONE) {
        g->exchange.abandoned = true;
        return report_wait_end(w, how);
    }
    hf_result r = g->exchange.call.result;
    if (r == HF_OK)
        r = evaluate_latch(w, g);
    else if (r == HF_UNREACHABLE)
        r = handle_no_answer(w, now, g->exchange.call.detail);
    else if (r == HF_NOT_HELD)
        r = report_not_set(w->round ? "; it was set when the wait began" : "");
    else
        hf__fail_line(r, g->exchange.call.detail);
    free(g->exchange.call.detail);
    free(g);
    return r;
}

static hf_result wait_until_open(latch_wait *w) {
    hf_client *c = w->client;
    for (;;) {
        if (c->closed) return hf__fail_line(HF_CLOSED, NULL);
        hf_result r = get_latch(w);
        if (r != POLL_AGAIN) return r;
        hf__awaited how = hf__watch_wait(c, &w->watch, hf__sooner(w->poll_at, w->until), w->cancel);
        if (how == HF__FIRED || (how == HF__TIME_UP && hf__now() >= w->until))
            return report_wait_end(w, how);
    }
}

static hf_result check_wait_options(const hf_options *o) {
    hf_options others = *o;
    others.wait_ms = 0;
    others.cancel = NULL;
    const unsigned char *bytes = (const unsigned char *)&others;
    for (size_t i = 0; i < sizeof others; i++)
        if (bytes[i])
            return hf__fail(
                HF_INVALID,
                "a latch supports only the options wait_ms and cancel; leave the others 0");
    if (o->wait_ms < 0 && o->wait_ms != HF_FOREVER)
        return hf__fail(HF_INVALID,
                        "wait_ms %" PRId64 " is negative; use HF_FOREVER to wait without a limit",
                        o->wait_ms);
    if (o->cancel && atomic_load(&o->cancel->fired))
        return hf__fail(HF_CANCELLED, "the cancel was fired before the call began");
    return HF_OK;
}

hf_result hf_latch_wait_v(hf_client *c, const char *name, const hf_options *options, size_t size) {
    hf_options o;
    latch_wait w = {.client = c, .watch.name = name};
    hf_result r = hf__options_copy("hf_options", &o, sizeof o, options, size);
    if (!r) r = hf__name_check(name, &w.watch.length);
    if (!r) r = check_wait_options(&o);
    if (!r) r = hf__call_begin_latch_leader(c);
    if (r) return r;
    w.cancel = o.cancel;
    w.try_once = o.wait_ms == 0;
    w.until = w.try_once ? HF__NEVER : hf__after_ms(hf__now(), o.wait_ms);
    hf__watch_begin(c, &w.watch);
    hf__core_stats(c->core)->waiting++;
    r = wait_until_open(&w);
    hf__core_stats(c->core)->waiting--;
    hf__watch_end(c, &w.watch);
    hf__call_end(c);
    return r;
}
