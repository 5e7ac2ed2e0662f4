/* SPDX-License-Identifier: Apache-2.0 */
/* Async calls: they return the same results as the blocking calls. */
#include "conformance.h"

#include <poll.h>
#include <unistd.h>

/* What a callback received, and the order in which callbacks ran. */
typedef struct callback_outcome {
    atomic_int calls;
    hf_result result;
    hf_hold *hold;
    int order;
    char detail[256];
} callback_outcome;

static atomic_int order;

static void on_acquired(hf_result result, hf_hold *hold, void *arg) {
    callback_outcome *o = arg;
    o->result = result;
    o->hold = hold;
    o->order = atomic_fetch_add(&order, 1);
    snprintf(o->detail, sizeof o->detail, "%s", result == HF_OK ? "" : hf_error_detail());
    atomic_fetch_add(&o->calls, 1);
}

static void on_released(hf_result result, void *arg) {
    on_acquired(result, NULL, arg);
}

static callback_outcome *begin_acquire(cf *f, hf_client *client, const char *name,
                                       const hf_options *options) {
    callback_outcome *o = cf_new(f, sizeof *o);
    CF_IS(HF_OK, hf_acquire_async(client, name, options, on_acquired, o));
    return o;
}

static void check_ended(callback_outcome *o, hf_result result) {
    CF_UNTIL(atomic_load(&o->calls) == 1);
    cf_is(result, o->result, o->detail, __FILE__, __LINE__);
    if (result != HF_OK) assert_null(o->hold);
    if (result != HF_OK) assert_true(*o->detail);
}

static hf_hold *check_granted(callback_outcome *o) {
    check_ended(o, HF_OK);
    assert_non_null(o->hold);
    return o->hold;
}

/* ---- With the client's own threads ----------------------------------------------------------- */

static void B05_async_agrees_with_sync(cf *f) {
    hf_hold *hold = check_granted(begin_acquire(f, f->a, f->name, NULL));
    assert_int_equal(hf_held(hold), 1);
    uint64_t token = hf_fence(hold);
    CF_REFUSED(HF_BUSY, f->b, f->name, NULL);
    check_ended(begin_acquire(f, f->b, f->name, NULL), HF_BUSY);
    check_ended(begin_acquire(f, f->b, f->name, &(hf_options){.wait_ms = 300}), HF_TIMEOUT);

    callback_outcome *waits = begin_acquire(f, f->b, f->name, &(hf_options){.wait_ms = HF_FOREVER});
    CF_UNTIL(cf_stats(f->b).waiting == 1);
    callback_outcome *released = cf_new(f, sizeof *released);
    CF_IS(HF_OK, hf_release_async(hold, on_released, released));
    check_ended(released, HF_OK);
    hold = check_granted(waits);
    assert_true(hf_fence(hold) > token);
    CF_FREE(hold);
}

static void B05_sync_and_async_waiters_share_one_queue(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    callback_outcome *first = begin_acquire(f, f->a, f->name, &(hf_options){.wait_ms = HF_FOREVER});
    CF_UNTIL(cf_stats(f->a).waiting == 1);
    cf_attempt *second = cf_queue(f, f->a, f->name, &(hf_options){.wait_ms = HF_FOREVER});
    callback_outcome *third = begin_acquire(f, f->a, f->name, &(hf_options){.wait_ms = HF_FOREVER});
    CF_UNTIL(cf_stats(f->a).waiting == 3);
    CF_FREE(hold);
    hold = check_granted(first);
    assert_int_equal(cf_stats(f->a).waiting, 2);
    CF_FREE(hold);
    hold = cf_granted(second);
    assert_int_equal(atomic_load(&third->calls), 0);
    CF_FREE(hold);
    CF_FREE(check_granted(third));
}

static void B07_a_cancel_ends_async_waits(cf *f) {
    hf_cancel *cancel = cf_cancel();
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    hf_options options = {.wait_ms = HF_FOREVER, .cancel = cancel};
    callback_outcome *one = begin_acquire(f, f->b, f->name, &options),
                     *two = begin_acquire(f, f->a, f->name, &options);
    CF_UNTIL(cf_stats(f->b).waiting == 1 && cf_stats(f->a).waiting == 1);
    hf_cancel_fire(cancel);
    check_ended(one, HF_CANCELLED);
    check_ended(two, HF_CANCELLED);
    callback_outcome never = {0};
    CF_IS(HF_CANCELLED, hf_acquire_async(f->a, f->name, &options, on_acquired, &never));
    assert_int_equal(atomic_load(&never.calls), 0);
    hf_cancel_free(cancel);
    CF_FREE(hold);
}

/* Every async acquire with owner 0 gets a new owner, even from one thread. */
static void B25_async_owners_are_fresh(cf *f) {
    hf_hold *hold = check_granted(begin_acquire(f, f->a, f->name, NULL));
    check_ended(begin_acquire(f, f->a, f->name, NULL), HF_BUSY);
    CF_REFUSED(HF_BUSY, f->a, f->name, NULL);
    CF_FREE(hold);
    hold = check_granted(begin_acquire(f, f->a, f->name, &(hf_options){.owner = 7}));
    hf_hold *again = check_granted(begin_acquire(f, f->a, f->name, &(hf_options){.owner = 7}));
    assert_true(hf_fence(again) == hf_fence(hold));
    CF_FREE(hold);
    CF_FREE(again);
}

static void F47_close_ends_async_waits_and_runs_their_callbacks(cf *f) {
    hf_client *client = cf_open(f);
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    callback_outcome *waits =
        begin_acquire(f, client, f->name, &(hf_options){.wait_ms = HF_FOREVER});
    CF_UNTIL(cf_stats(client).waiting == 1);
    cf_close(f, client);
    assert_int_equal(atomic_load(&waits->calls), 1);
    check_ended(waits, HF_CLOSED);
    CF_FREE(hold);
}

/* Delays the next callbacks until its own hold has ended. */
static void delay_callbacks(hf_result result, hf_hold *hold, void *arg) {
    on_acquired(result, hold, arg);
    CF_UNTIL(!hold || !hf_held(hold));
}

/* The lock was granted, and close ended the grant before its callback ran. */
static void F47_a_grant_that_close_ends_is_not_reported_as_held(cf *f) {
    hf_client *client = cf_open(f);
    callback_outcome *slow = cf_new(f, sizeof *slow);
    CF_IS(HF_OK, hf_acquire_async(client, cf_name(f, "-slow"), NULL, delay_callbacks, slow));
    CF_UNTIL(atomic_load(&slow->calls) == 1);
    callback_outcome *behind = begin_acquire(f, client, f->name, NULL);
    CF_UNTIL(cf_stats(client).acquired == 2);
    cf_close(f, client);
    check_ended(behind, HF_CLOSED);
    hf_unref(slow->hold);
    CF_FREE(CF_TAKE(f->a, f->name, NULL));
}

static void F48_a_second_async_release_returns_not_held(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    hf_ref(hold);
    callback_outcome *first = cf_new(f, sizeof *first), never = {0};
    CF_IS(HF_OK, hf_release_async(hold, on_released, first));
    CF_IS(HF_NOT_HELD, hf_release_async(hold, on_released, &never));
    check_ended(first, HF_OK);
    assert_int_equal(atomic_load(&never.calls), 0);
}

static void async_calls_without_a_callback_are_refused(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    CF_IS(HF_INVALID, hf_acquire_async(f->a, f->name, NULL, NULL, NULL));
    CF_IS(HF_INVALID, hf_release_async(hold, NULL, NULL));
    CF_IS(HF_INVALID, hf_release_async(NULL, on_released, NULL));
    assert_int_equal(hf_fd(f->a), -1);
    CF_IS(HF_INVALID, hf_dispatch(f->a));
    CF_FREE(hold);
}

/* ---- Callbacks that start the next call ------------------------------------------------------ */

/* Each callback starts the next call: acquire, release, acquire, … */
typedef struct async_chain {
    hf_client *client;
    const char *name;
    cf_section *section;
    int left;
    atomic_int over, failures;
} async_chain;

static void chain_acquire(async_chain *c);

static void chain_released(hf_result result, void *arg) {
    async_chain *c = arg;
    if (result != HF_OK) atomic_fetch_add(&c->failures, 1);
    if (--c->left > 0)
        chain_acquire(c);
    else
        atomic_store(&c->over, 1);
}

static void chain_acquired(hf_result result, hf_hold *hold, void *arg) {
    async_chain *c = arg;
    if (result != HF_OK) {
        atomic_fetch_add(&c->failures, 1);
        atomic_store(&c->over, 1);
        return;
    }
    if (atomic_fetch_add(&c->section->inside, 1)) atomic_fetch_add(&c->section->collisions, 1);
    atomic_store(&c->section->visits, atomic_load(&c->section->visits) + 1);
    atomic_fetch_sub(&c->section->inside, 1);
    if (hf_release_async(hold, chain_released, c) != HF_OK) atomic_fetch_add(&c->failures, 1);
}

static void chain_acquire(async_chain *c) {
    hf_options options = {.wait_ms = HF_FOREVER};
    if (hf_acquire_async(c->client, c->name, &options, chain_acquired, c) != HF_OK) {
        atomic_fetch_add(&c->failures, 1);
        atomic_store(&c->over, 1);
    }
}

static void B08_callbacks_may_begin_the_next_call(cf *f) {
    enum { CHAINS = 8, ROUNDS = 25 };
    cf_section *section = cf_new(f, sizeof *section);
    async_chain *chains = cf_new(f, CHAINS * sizeof *chains);
    for (int i = 0; i < CHAINS; i++) {
        chains[i] = (async_chain){
            .client = i % 2 ? f->a : f->b, .name = f->name, .section = section, .left = ROUNDS};
        chain_acquire(&chains[i]);
    }
    for (int i = 0; i < CHAINS; i++) {
        CF_UNTIL(atomic_load(&chains[i].over));
        assert_int_equal(atomic_load(&chains[i].failures), 0);
    }
    cf_section_check(section, CHAINS * ROUNDS);
}

/* ---- Cancel and close against a grant -------------------------------------------------------- */

/* One wait has a callback, another blocks in a thread behind it. The first is cancelled while the
   holder releases. The lease is far longer than the watchdog, so a grant to the cancelled wait
   would make the test fail. */
static void race_cancel_with_release(cf *f, hf_client *first, hf_client *second, int round) {
    hf_cancel *cancel = cf_cancel();
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    uint64_t before = cf_stats(first).waiting;
    callback_outcome *o =
        begin_acquire(f, first, f->name, &(hf_options){.wait_ms = HF_FOREVER, .cancel = cancel});
    CF_UNTIL(cf_stats(first).waiting == before + 1);
    cf_attempt *behind = cf_queue(f, second, f->name, &(hf_options){.wait_ms = CF_WATCHDOG_MS});
    callback_outcome *released = cf_new(f, sizeof *released);
    if (round % 2) hf_cancel_fire(cancel);
    CF_IS(HF_OK, hf_release_async(hold, on_released, released));
    if (!(round % 2)) hf_cancel_fire(cancel);
    check_ended(released, HF_OK);
    CF_UNTIL(atomic_load(&o->calls) == 1);
    if (o->result == HF_OK)
        CF_FREE(o->hold);
    else
        check_ended(o, HF_CANCELLED);
    CF_FREE(cf_granted(behind));
    hf_cancel_free(cancel);
}

static void B20_an_async_cancel_racing_a_release_loses_no_wake_up(cf *f) {
    hf_client *third = cf_open(f);
    for (int i = 0; i < (cf_has(CF_QUEUE) ? 60 : 15); i++) { /* without a queue, waiters poll */
        race_cancel_with_release(f, f->b, third, i);
        race_cancel_with_release(f, f->a, f->a, i);
        race_cancel_with_release(f, f->b, f->b, i);
    }
    CF_FREE(CF_TAKE(f->b, f->name, NULL));
}

/* A client closes while one of its waits is granted: the callback runs once, and nothing stays
   held. */
static void race_close_with_release(cf *f) {
    hf_client *client = cf_open(f);
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    callback_outcome *waits[3], *released = cf_new(f, sizeof *released);
    for (int i = 0; i < 3; i++)
        waits[i] = begin_acquire(f, client, f->name, &(hf_options){.wait_ms = HF_FOREVER});
    CF_UNTIL(cf_stats(client).waiting == 3);
    CF_IS(HF_OK, hf_release_async(hold, on_released, released));
    cf_close(f, client);
    check_ended(released, HF_OK);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(atomic_load(&waits[i]->calls), 1);
        if (waits[i]->result == HF_OK)
            CF_IS(HF_CLOSED, hf_release(waits[i]->hold));
        else
            check_ended(waits[i], HF_CLOSED);
    }
    CF_FREE(CF_TAKE(f->b, f->name, &(hf_options){.wait_ms = CF_WATCHDOG_MS}));
}

static void F47_close_racing_an_async_grant_leaves_nothing_held(cf *f) {
    for (int i = 0; i < 40; i++) race_close_with_release(f);
    if (cf_has(CF_QUEUE)) assert_int_equal(cf_queue_length(f->name), 0);
}

/* If the first waiter ended first, the next one would acquire before it ends, and so on. */
static void B07_a_cancel_of_many_waiters_costs_few_commands(cf *f) {
    enum { WAITERS = 40 };
    const hf_options kind = {.kind = cf_has(CF_KINDS) ? HF_WRITE : HF_MUTEX};
    hf_options options = kind;
    hf_cancel *cancel = options.cancel = cf_cancel();
    hf_hold *hold = CF_TAKE(f->a, f->name, &kind);
    callback_outcome *waits[WAITERS];
    options.wait_ms = HF_FOREVER;
    for (int i = 0; i < WAITERS; i++) waits[i] = begin_acquire(f, f->b, f->name, &options);
    CF_UNTIL(cf_stats(f->b).waiting == WAITERS);
    CF_REFUSED(HF_BUSY, f->b, f->name, &kind); /* what the waits have sent is answered */
    uint64_t before = cf_stats(f->b).commands;
    hf_cancel_fire(cancel);
    for (int i = 0; i < WAITERS; i++) check_ended(waits[i], HF_CANCELLED);
    CF_FREE(hold);
    CF_FREE(CF_TAKE(f->b, f->name, &(hf_options){.kind = kind.kind, .wait_ms = HF_FOREVER}));
    uint64_t commands = cf_stats(f->b).commands - before;
    if (commands > WAITERS * 3 / 2) t_fail("%d commands after the cancel", (int)commands);
    hf_cancel_free(cancel);
}

/* Callbacks that are due, and one that runs and lets them wait until a lock is lost. */
typedef struct slow_callback {
    cf *f;
    callback_outcome outcome;
    hf_hold *victim;
    uint64_t acquired; /* wait until the client has acquired so many locks */
    int lost_order;
} slow_callback;

static void let_others_wait(hf_result result, hf_hold *hold, void *arg) {
    slow_callback *slow = arg;
    CF_UNTIL(cf_stats(slow->f->a).acquired >= slow->acquired);
    CF_UNTIL(cf_readable(hf_lost_fd(slow->victim)));
    on_acquired(result, hold, &slow->outcome);
}

static void note_order(hf_hold *hold, void *arg) {
    (void)hold;
    ((slow_callback *)arg)->lost_order = atomic_fetch_add(&order, 1);
}

static void B11_a_loss_is_reported_before_other_callbacks(cf *f) {
    enum { OTHERS = 20 };
    slow_callback *slow = cf_new(f, sizeof *slow);
    callback_outcome *others[OTHERS];
    *slow = (slow_callback){.f = f, .acquired = cf_stats(f->a).acquired + 2 + OTHERS};
    slow->victim = CF_TAKE(f->a, cf_name(f, "-victim"),
                           &(hf_options){.max_hold_ms = 500, .on_lost = note_order, .arg = slow});
    assert_true(hf_lost_fd(slow->victim) >= 0);
    CF_IS(HF_OK, hf_acquire_async(f->a, f->name, NULL, let_others_wait, slow));
    for (int i = 0; i < OTHERS; i++) {
        char suffix[16];
        snprintf(suffix, sizeof suffix, "-%d", i);
        others[i] = begin_acquire(f, f->a, cf_name(f, suffix), NULL);
    }
    CF_FREE(check_granted(&slow->outcome));
    for (int i = 0; i < OTHERS; i++) CF_FREE(check_granted(others[i]));
    for (int i = 0; i < OTHERS; i++) assert_true(slow->lost_order < others[i]->order);
    CF_IS(HF_LOST, hf_release(slow->victim));
}

/* ---- In the user's own loop ------------------------------------------------------------------ */

static hf_client *open_loop(cf *f) {
    return cf_open_url(f, cf_url(), &(hf_client_options){.flags = HF_NO_THREAD});
}

/* Run the client once, as an event loop with no other work would. */
static void run_loop_once(hf_client *client, int ms) {
    struct pollfd fd = {.fd = hf_fd(client), .events = POLLIN};
    if (poll(&fd, 1, ms) > 0) CF_IS(HF_OK, hf_dispatch(client));
}

static void run_loop_until(hf_client *client, atomic_int *flag) {
    int64_t until = t_now_ms() + t_patience(CF_WATCHDOG_MS);
    while (!atomic_load(flag) && t_now_ms() < until) run_loop_once(client, 100);
    assert_true(atomic_load(flag));
}

static void B05_a_client_without_threads_works_in_a_loop(cf *f) {
    hf_client *client = open_loop(f);
    assert_true(hf_fd(client) >= 0);
    callback_outcome *o = begin_acquire(f, client, f->name, NULL);
    assert_int_equal(atomic_load(&o->calls), 0); /* callbacks never run inside a library call */
    run_loop_until(client, &o->calls);
    hf_hold *hold = check_granted(o);
    CF_REFUSED(HF_BUSY, f->a, f->name, NULL);

    cf_attempt *waiter = cf_queue(f, f->a, f->name, &(hf_options){.wait_ms = HF_FOREVER});
    callback_outcome *released = cf_new(f, sizeof *released);
    CF_IS(HF_OK, hf_release_async(hold, on_released, released));
    run_loop_until(client, &released->calls);
    check_ended(released, HF_OK);
    hold = cf_granted(waiter);

    callback_outcome *waits =
        begin_acquire(f, client, f->name, &(hf_options){.wait_ms = HF_FOREVER});
    callback_outcome *times_out = begin_acquire(f, client, f->name, &(hf_options){.wait_ms = 300});
    run_loop_until(client, &times_out->calls);
    check_ended(times_out, HF_TIMEOUT);
    assert_int_equal(atomic_load(&waits->calls), 0);
    CF_FREE(hold);
    run_loop_until(client, &waits->calls);
    CF_FREE(check_granted(waits));
}

static void B15_a_loop_renews(cf *f) {
    hf_client *client = open_loop(f);
    hf_hold *hold = CF_TAKE(client, f->name, &(hf_options){.lease_ms = CF_KEPT_LEASE_MS});
    int64_t until = t_now_ms() + t_patience(4 * CF_KEPT_LEASE_MS);
    while (cf_stats(client).renewed < 4 && t_now_ms() < until) run_loop_once(client, 20);
    assert_int_equal(hf_held(hold), 1);
    assert_true(cf_stats(client).renewed >= 4);
    CF_FREE(hold);
}

static void B11_a_loop_reports_a_loss(cf *f) {
    hf_client *client = open_loop(f);
    cf_lost *lost = cf_new(f, sizeof *lost);
    hf_options options = {
        .lease_ms = CF_SHORT_LEASE_MS, .flags = HF_NO_RENEW, .on_lost = cf_on_lost, .arg = lost};
    hf_hold *hold = CF_TAKE(client, f->name, &options);
    run_loop_until(client, &lost->calls);
    assert_int_equal(atomic_load(&lost->calls), 1);
    CF_IS(HF_LOST, hf_release(hold));
}

/* A slow callback keeps the loop from renewing and from running the next callback in time. */
static void F03_a_grant_that_ends_before_its_callback_is_reported_as_lost(cf *f) {
    hf_client *client = open_loop(f);
    cf_lost *lost = cf_new(f, sizeof *lost);
    callback_outcome *slow = cf_new(f, sizeof *slow), *behind = cf_new(f, sizeof *behind);
    hf_options longer = {.lease_ms = 2 * CF_SHORT_LEASE_MS, .flags = HF_NO_RENEW};
    hf_options shorter = {
        .lease_ms = CF_SHORT_LEASE_MS, .flags = HF_NO_RENEW, .on_lost = cf_on_lost, .arg = lost};
    CF_IS(HF_OK, hf_acquire_async(client, cf_name(f, "-slow"), &longer, delay_callbacks, slow));
    CF_IS(HF_OK, hf_acquire_async(client, f->name, &shorter, on_acquired, behind));
    uint64_t others = 0; /* these calls run the client, but no callbacks */
    do CF_FREE(CF_TAKE(client, cf_name(f, "-other"), NULL));
    while (cf_stats(client).acquired < 2 + ++others && others < 100);
    assert_int_equal(cf_stats(client).acquired, 2 + others);
    run_loop_until(client, &behind->calls);
    check_ended(behind, HF_LOST);
    /* no callback received this hold, so no loss is reported */
    assert_int_equal(atomic_load(&lost->calls), 0);
    CF_IS(HF_LOST, hf_release(slow->hold));
    CF_FREE(CF_TAKE(f->a, f->name, &(hf_options){.wait_ms = HF_FOREVER}));
}

static void B07_a_loop_sees_a_cancel(cf *f) {
    hf_client *client = open_loop(f);
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    hf_cancel *cancel = cf_cancel();
    callback_outcome *waits =
        begin_acquire(f, client, f->name, &(hf_options){.wait_ms = HF_FOREVER, .cancel = cancel});
    run_loop_once(client, 0);
    hf_cancel_fire(cancel);
    run_loop_until(client, &waits->calls);
    check_ended(waits, HF_CANCELLED);
    hf_cancel_free(cancel);
    CF_FREE(hold);
}

typedef struct nested_loop {
    cf *f;
    hf_client *client;
    callback_outcome outer, *inner;
    bool ended; /* the inner call, when the outer callback returned */
} nested_loop;

static void run_loop_in_callback(hf_result result, hf_hold *hold, void *arg) {
    nested_loop *n = arg;
    n->inner = begin_acquire(n->f, n->client, cf_name(n->f, "-inner"), NULL);
    run_loop_until(n->client, &n->inner->calls);
    n->ended = atomic_load(&n->inner->calls) == 1;
    on_acquired(result, hold, &n->outer);
}

/* A callback may call hf_dispatch, and so wait for a call that it has begun. */
static void B05_a_callback_of_a_loop_may_run_it(cf *f) {
    nested_loop *n = cf_new(f, sizeof *n);
    *n = (nested_loop){.f = f, .client = open_loop(f)};
    CF_IS(HF_OK, hf_acquire_async(n->client, f->name, NULL, run_loop_in_callback, n));
    run_loop_until(n->client, &n->outer.calls);
    assert_true(n->ended);
    CF_FREE(check_granted(n->inner));
    CF_FREE(check_granted(&n->outer));
}

/* Blocking calls do the client's work, and leave the callbacks to the loop. */
static void B05_blocking_calls_of_a_loop_run_no_callback(cf *f) {
    hf_client *client = open_loop(f);
    callback_outcome *o = begin_acquire(f, client, cf_name(f, "-async"), NULL);
    CF_FREE(CF_TAKE(client, f->name, NULL));
    assert_int_equal(atomic_load(&o->calls), 0);
    run_loop_until(client, &o->calls);
    CF_FREE(check_granted(o));
}

const cf_case cf_async[] = {
    CF_CASE(B05_async_agrees_with_sync),
    CF_CASE(B05_sync_and_async_waiters_share_one_queue),
    CF_CASE(B07_a_cancel_ends_async_waits),
    CF_CASE(B25_async_owners_are_fresh),
    CF_CASE(F47_close_ends_async_waits_and_runs_their_callbacks),
    CF_CASE(F47_a_grant_that_close_ends_is_not_reported_as_held),
    CF_CASE(F48_a_second_async_release_returns_not_held),
    CF_CASE(async_calls_without_a_callback_are_refused),
    CF_CASE(B08_callbacks_may_begin_the_next_call),
    CF_CASE(B20_an_async_cancel_racing_a_release_loses_no_wake_up),
    CF_CASE(F47_close_racing_an_async_grant_leaves_nothing_held),
    CF_CASE(B07_a_cancel_of_many_waiters_costs_few_commands),
    CF_CASE(B11_a_loss_is_reported_before_other_callbacks),
    CF_CASE(B05_a_client_without_threads_works_in_a_loop),
    CF_CASE(B15_a_loop_renews),
    CF_CASE(B11_a_loop_reports_a_loss),
    CF_CASE(F03_a_grant_that_ends_before_its_callback_is_reported_as_lost),
    CF_CASE(B07_a_loop_sees_a_cancel),
    CF_CASE(B05_a_callback_of_a_loop_may_run_it),
    CF_CASE(B05_blocking_calls_of_a_loop_run_no_callback),
    CF_CASES_END,
};
