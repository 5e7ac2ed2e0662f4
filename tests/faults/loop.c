/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Non-blocking calls, and clients without threads, under faults (B5, B6, B7, B20, B32, F3, F19,
 * F47, F52, F56).
 */
#include "outcome.h"

/* ---- A loop that is not run ------------------------------------------------------------------ */

static void F03_a_loop_not_run_for_longer_than_a_lease_reports_the_loss(void **state) {
    bed *b = *state;
    hf_client *client = open_loop(b, t_redis_url(b->redis), (hf_client_options){0});
    hf_hold *hold =
        TAKE(client, .lease_ms = t_patience(400), .on_lost = count_loss, .arg = &b->loss);
    attempt *next = enqueue_against(b, bed_subscriber(b), &FOREVER, hold);
    hf_hold *others = await_grant(next); /* when the lease is over */
    assert_int_equal(next->rival_held, 0);
    assert_int_equal(hf_held(hold), 0);
    assert_int_equal(atomic_load(&b->loss.calls), 0); /* no thread could call it yet */
    RUN_LOOP_UNTIL(client, atomic_load(&b->loss.calls) == 1);
    T_HF(HF_LOST, hf_release(hold));
    check_held(b, others);
    FREE(others);
}

/* The client was granted the lock and notified. It reads the message after the grant is over and
   another client has the lock. */
static void F52_a_loop_that_reads_its_grant_too_late_does_not_enter(void **state) {
    bed *b = *state;
    static async_outcome o;
    hf_client *client = open_loop(b, t_redis_url(b->redis), (hf_client_options){0});
    hf_client *other = bed_direct(b);
    hf_hold *hold = TAKE(other);
    enqueue_in_loop(b, client, &(hf_options){.wait_ms = HF_FOREVER, .lease_ms = 300}, &o);
    queued_id waiter_id = queued_at(b, 0);
    FREE(hold);
    assert_true(same_id(id_of_holder(b), waiter_id));
    hold = TAKE(other, .wait_ms = t_patience(SOON_MS));
    /* it has read the message, acquired, and is queued again */
    RUN_LOOP_UNTIL(client, queue_length(b) == 1);
    assert_int_equal(atomic_load(&o.calls), 0);
    check_held(b, hold);
    FREE(hold);
    FREE(run_loop_until_outcome(client, &o, HF_OK));
}

/* The grant of the loop was broken meanwhile. The message is still unread, well within the lease. A
   loop claims a grant before it enters. */
static void F52_a_loop_that_reads_its_grant_after_a_break_does_not_enter(void **state) {
    bed *b = *state;
    static async_outcome o;
    hf_client *client = open_loop(b, t_redis_url(b->redis), (hf_client_options){0});
    hf_client *other = bed_direct(b);
    hf_hold *hold = TAKE(other);
    enqueue_in_loop(b, client, &FOREVER, &o);
    FREE(hold);
    T_HF(HF_OK, hf_break(other, LOCK, 0));
    hold = TAKE(other);
    RUN_LOOP_UNTIL(client, queue_length(b) == 1);
    assert_int_equal(atomic_load(&o.calls), 0);
    check_held(b, hold);
    FREE(hold);
    FREE(run_loop_until_outcome(client, &o, HF_OK));
}

/* The loop may not renew for a while, so its grant cannot begin with the short lease. */
static void B15_a_loop_that_is_handed_a_lock_has_its_full_lease(void **state) {
    bed *b = *state;
    static async_outcome o;
    hf_client *client = open_loop(b, t_redis_url(b->redis), (hf_client_options){0});
    hf_client *other = bed_direct(b);
    hf_hold *hold = TAKE(other);
    enqueue_in_loop(b, client, &FOREVER, &o);
    FREE(hold);
    hold = run_loop_until_outcome(client, &o, HF_OK);
    assert_true(hf_remaining_ms(hold) > 15000);
    FREE(hold);
    hold = TAKE(other);
    attempt *a = enqueue(b, client, &FOREVER);
    FREE(hold);
    hold = await_grant(a);
    assert_true(hf_remaining_ms(hold) > 15000);
    FREE(hold);
}

/* ---- Called back once ------------------------------------------------------------------------ */

/* The wait and the allowed outage end at the same moment. */
static void B06_an_async_wait_that_ends_with_the_outage_gets_one_callback(void **state) {
    bed *b = *state;
    static async_outcome o[8];
    hf_client *client =
        bed_open(b, t_redis_url(b->redis), &(hf_client_options){.outage_ms = t_patience(200)});
    FREE(TAKE(client));
    t_redis_kill9(b->redis);
    hf_hold *none = NULL;
    UNTIL(hf_try_lock(client, "other", &none) == HF_UNREACHABLE); /* it has noticed */
    for (int i = 0; i < 8; i++)
        begin_acquire(client, &(hf_options){.wait_ms = t_patience(200)}, &o[i]);
    for (int i = 0; i < 8; i++) await_outcome(&o[i], HF_UNREACHABLE);
    assert_int_equal(stats_of(client).waiting, 0);
}

static void B06_a_loop_run_after_all_has_ended_calls_back_once_each(void **state) {
    bed *b = *state;
    static async_outcome wait, release;
    hf_client *client =
        open_loop(b, t_redis_url(b->redis),
                  (hf_client_options){.outage_ms = 100, .command_timeout_ms = t_patience(300)});
    hf_hold *hold = TAKE(client, .lease_ms = t_patience(200));
    t_redis_kill9(b->redis);
    begin_release(hold, &release);
    begin_acquire(client, &(hf_options){.wait_ms = 150, .owner = 7}, &wait);
    t_sleep_ms(t_patience(400)); /* the lease, the wait, the outage and the time to release */
    RUN_LOOP_UNTIL(client, atomic_load(&wait.calls) && atomic_load(&release.calls));
    await_outcome(&release, HF_UNKNOWN_OUTCOME);
    assert_int_equal(atomic_load(&wait.calls), 1);
    assert_true(wait.result == HF_UNREACHABLE || wait.result == HF_TIMEOUT);
}

/* ---- Cancelling ------------------------------------------------------------------------------ */

static hf_cancel *cancel_of(hf_options *options) {
    hf_cancel *cancel = hf_cancel_new();
    *options = (hf_options){.wait_ms = HF_FOREVER, .cancel = cancel};
    return cancel;
}

/* A thread of the same client waits too, and reads for both. */
static void B07_a_cancel_of_an_async_wait_is_seen_beside_a_waiting_thread(void **state) {
    bed *b = *state;
    static async_outcome o;
    hf_options options;
    hf_cancel *cancel = cancel_of(&options);
    hf_client *client = bed_subscriber(b);
    hf_hold *hold = TAKE(bed_direct(b));
    attempt *a = enqueue(b, client, &FOREVER);
    t_sleep_ms(20); /* so that its background thread sleeps, most likely */
    begin_acquire(client, &options, &o);
    hf_cancel_fire(cancel);
    await_outcome(&o, HF_CANCELLED);
    FREE(hold);
    FREE(await_grant(a));
    hf_cancel_free(cancel);
}

/* The lock was granted to the cancelled wait, but the message did not arrive. */
static void check_cancel_passes_on(bed *b, hf_client *client, bool loop) {
    static async_outcome o;
    hf_options options;
    hf_cancel *cancel = cancel_of(&options);
    hf_hold *hold = TAKE(bed_direct(b));
    if (loop) enqueue_in_loop(b, client, &options, &o);
    if (!loop) begin_acquire(client, &options, &o);
    UNTIL(queue_length(b) == 1);
    attempt *next = enqueue(b, bed_subscriber(b), &FOREVER);
    withhold_bytes(b, NOTIFICATION_CONNECTION, T_TO_CLIENT);
    FREE(hold);
    hf_cancel_fire(cancel);
    if (loop) run_loop_until_outcome(client, &o, HF_CANCELLED);
    await_outcome(&o, HF_CANCELLED);
    FREE(await_grant(next));
    hf_cancel_free(cancel);
}

static void B20_an_async_wait_cancelled_as_it_is_granted_passes_it_on(void **state) {
    check_cancel_passes_on(*state, bed_subscriber_through(*state, NULL), false);
}

static void B20_a_wait_of_a_loop_cancelled_as_it_is_granted_passes_it_on(void **state) {
    bed *b = *state;
    b->proxy = t_proxy_start(t_redis_port(b->redis));
    check_cancel_passes_on(b, open_loop(b, t_proxy_url(b->proxy), (hf_client_options){0}), true);
}

/* ---- Callbacks ------------------------------------------------------------------------------- */

typedef struct release_chain {
    hf_client *client;
    async_outcome last;
} release_chain;

static void release_and_lock_another(hf_result result, hf_hold *hold, void *arg) {
    release_chain *c = arg;
    hf_hold *other = NULL;
    T_CHECK(result == HF_OK);
    T_HF(HF_OK, hf_release(hold));
    T_HF(HF_OK, hf_acquire(c->client, "other", &FOREVER, &other));
    T_HF(HF_OK, hf_release(other));
    note_outcome(&c->last, HF_OK, NULL);
}

/* A release inside a callback carries the next acquire of the client. */
static void check_callback(bed *b, hf_client *client, bool loop) {
    static release_chain chains[3];
    hf_hold *hold = TAKE(bed_direct(b));
    for (int i = 0; i < 3; i++) {
        chains[i] = (release_chain){.client = client};
        T_HF(HF_OK, hf_acquire_async(client, LOCK, &FOREVER, release_and_lock_another, &chains[i]));
    }
    if (loop) RUN_LOOP_UNTIL(client, queue_length(b) == 1);
    UNTIL(queue_length(b) == 1);
    FREE(hold);
    for (int i = 0; i < 3; i++) {
        if (loop) run_loop_until_outcome(client, &chains[i].last, HF_OK);
        await_outcome(&chains[i].last, HF_OK);
    }
    UNTIL(!on_server(b));
}

static void B05_a_callback_may_release_and_lock_with_waits_behind_it(void **state) {
    check_callback(*state, bed_subscriber(*state), false);
}

static void B05_a_callback_of_a_loop_may_release_and_lock(void **state) {
    bed *b = *state;
    check_callback(b, open_loop(b, t_redis_url(b->redis), (hf_client_options){0}), true);
}

enum { BESIDE = 4, CALLBACKS = 200 };

typedef struct company {
    hf_client *client;
    atomic_long pairs[BESIDE]; /* done by each thread */
    atomic_int over;
    async_outcome last;
} company;

static void lock_and_release(int index, void *arg) {
    company *c = arg;
    char name[16];
    snprintf(name, sizeof name, "own-%d", index);
    while (!atomic_load(&c->over)) {
        hf_hold *hold = NULL;
        T_HF(HF_OK, hf_lock(c->client, name, &hold));
        T_HF(HF_OK, hf_release(hold));
        atomic_fetch_add(&c->pairs[index], 1);
    }
}

/* Waits until each thread has finished the round it was in when this began. */
static void wait_for_the_others(hf_result result, hf_hold *hold, void *arg) {
    company *c = arg;
    T_CHECK(result == HF_OK);
    for (int i = 0; i < BESIDE; i++) {
        long before = atomic_load(&c->pairs[i]);
        UNTIL(atomic_load(&c->pairs[i]) > before);
    }
    T_HF(HF_OK, hf_release(hold));
    note_outcome(&c->last, HF_OK, NULL);
}

/* The loop has read the answers of the other threads before it calls back. */
static void B05_a_callback_of_a_loop_may_wait_for_calls_of_other_threads(void **state) {
    bed *b = *state;
    static company c;
    c = (company){.client = open_loop(b, t_redis_url(b->redis), (hf_client_options){0})};
    t_threads *others = t_threads_start(BESIDE, lock_and_release, &c);
    for (int i = 0; i < CALLBACKS; i++) {
        atomic_store(&c.last.calls, 0);
        T_HF(HF_OK, hf_acquire_async(c.client, LOCK, &FOREVER, wait_for_the_others, &c));
        run_loop_until_outcome(c.client, &c.last, HF_OK);
    }
    atomic_store(&c.over, 1);
    t_threads_join(others, SOON_MS);
}

/* ---- Leaders --------------------------------------------------------------------------------- */

/* The check is sent immediately: nothing else would be sent for minutes. */
static void B32_a_loop_that_proclaims_without_the_lock_soon_notices(void **state) {
    bed *b = *state;
    enum { MINUTES_MS = 600000 };
    hf_client *client =
        open_loop(b, t_redis_url(b->redis), (hf_client_options){.command_timeout_ms = MINUTES_MS});
    hf_hold *hold = TAKE(client, .lease_ms = MINUTES_MS);
    assert_int_equal(t_redis_int(b->redis, "DEL " KEY), 1);
    T_HF(HF_LOST, hf_proclaim(hold, "me", 2));
    RUN_LOOP_UNTIL(client, !hf_held(hold));
    T_HF(HF_LOST, hf_release(hold));
}

/* ---- Closing --------------------------------------------------------------------------------- */

static void F47_close_of_a_loop_leaves_nothing_in_the_queue(void **state) {
    bed *b = *state;
    static async_outcome waits[3];
    hf_client *client = open_loop(b, t_redis_url(b->redis), (hf_client_options){0});
    hf_hold *hold = TAKE(bed_direct(b));
    enqueue_in_loop(b, client, &FOREVER, &waits[0]);
    for (int i = 1; i < 3; i++) begin_acquire(client, &FOREVER, &waits[i]);
    bed_close(b, client);
    for (int i = 0; i < 3; i++) await_outcome(&waits[i], HF_CLOSED);
    assert_int_equal(queue_length(b), 0);
    check_held(b, hold);
    FREE(hold);
}

static void F47_close_of_a_loop_passes_on_a_grant_that_it_missed(void **state) {
    bed *b = *state;
    static async_outcome o;
    hf_client *client = open_loop(b, t_redis_url(b->redis), (hf_client_options){0});
    hf_hold *hold = TAKE(bed_direct(b));
    enqueue_in_loop(b, client, &FOREVER, &o);
    attempt *next = enqueue(b, bed_subscriber(b), &FOREVER);
    FREE(hold); /* and the loop is not run */
    bed_close(b, client);
    await_outcome(&o, HF_CLOSED);
    FREE(await_grant(next));
}

typedef struct closing {
    hf_client *client;
    atomic_int entered, closes;
    async_outcome release;
} closing;

static void release_while_it_closes(hf_result result, hf_hold *hold, void *arg) {
    closing *c = arg;
    T_CHECK(result == HF_OK);
    atomic_store(&c->entered, 1);
    UNTIL(atomic_load(&c->closes));
    t_sleep_ms(50); /* so that hf_close waits for this callback, most likely */
    T_HF(HF_OK, hf_release_async(hold, on_released, &c->release));
}

static void close_it(int index, void *arg) {
    closing *c = arg;
    (void)index;
    atomic_store(&c->closes, 1);
    hf_close(c->client);
}

static void F47_a_callback_may_release_while_its_client_closes(void **state) {
    bed *b = *state;
    static closing c;
    c = (closing){.client = NULL};
    T_HF(HF_OK, hf_open(front_url(t_redis_url(b->redis)), NULL, &c.client));
    T_HF(HF_OK, hf_acquire_async(c.client, LOCK, NULL, release_while_it_closes, &c));
    UNTIL(atomic_load(&c.entered));
    t_threads_run(1, close_it, &c, SOON_MS);
    assert_int_equal(atomic_load(&c.release.calls), 1); /* close has waited for that too */
    await_outcome(&c.release, HF_CLOSED);
    assert_false(on_server(b));
}

/* ---- Connections ----------------------------------------------------------------------------- */

/* The connections of a loop break one by one, and both at once. It is served each time. */
static void F56_a_loop_survives_broken_connections(void **state) {
    bed *b = *state;
    static async_outcome o;
    b->proxy = t_proxy_start(t_redis_port(b->redis));
    hf_client *client = open_loop(b, t_proxy_url(b->proxy), (hf_client_options){0});
    hf_client *other = bed_direct(b);
    for (int i = 0; i < 3; i++) {
        hf_hold *hold = TAKE(other);
        begin_acquire(client, &FOREVER, &o);
        RUN_LOOP_UNTIL(client, queue_length(b) == 1 && subscriber_count(b) == 1);
        uint64_t last = t_proxy_connections(b->proxy);
        if (i != 1) cut_connection(b, i == 0 ? NOTIFICATION_CONNECTION : 0);
        if (i == 1) cut_connection(b, COMMAND_CONNECTION);
        FREE(hold);
        RUN_LOOP_UNTIL(client, t_proxy_connections(b->proxy) > last);
        FREE(run_loop_until_outcome(client, &o, HF_OK));
    }
}

static void F19_an_async_wait_whose_message_is_lost_is_served(void **state) {
    bed *b = *state;
    static async_outcome o;
    hf_client *client = bed_subscriber_through(b, NULL);
    hf_hold *hold = TAKE(bed_direct(b), .lease_ms = t_patience(1000));
    begin_acquire(client, &FOREVER, &o);
    UNTIL(queue_length(b) == 1);
    t_proxy_select(b->proxy, NOTIFICATION_CONNECTION);
    t_proxy_blackhole(b->proxy, true);
    t_proxy_select(b->proxy, 0);
    FREE(hold);
    FREE(await_outcome(&o, HF_OK));
}

static const struct CMUnitTest tests[] = {
    FAULT_TEST(F03_a_loop_not_run_for_longer_than_a_lease_reports_the_loss),
    FAULT_TEST(F52_a_loop_that_reads_its_grant_too_late_does_not_enter),
    FAULT_TEST(F52_a_loop_that_reads_its_grant_after_a_break_does_not_enter),
    FAULT_TEST(B15_a_loop_that_is_handed_a_lock_has_its_full_lease),
    FAULT_TEST(B06_an_async_wait_that_ends_with_the_outage_gets_one_callback),
    FAULT_TEST(B06_a_loop_run_after_all_has_ended_calls_back_once_each),
    FAULT_TEST(B07_a_cancel_of_an_async_wait_is_seen_beside_a_waiting_thread),
    FAULT_TEST(B20_an_async_wait_cancelled_as_it_is_granted_passes_it_on),
    FAULT_TEST(B20_a_wait_of_a_loop_cancelled_as_it_is_granted_passes_it_on),
    FAULT_TEST(B05_a_callback_may_release_and_lock_with_waits_behind_it),
    FAULT_TEST(B05_a_callback_of_a_loop_may_release_and_lock),
    FAULT_TEST(B05_a_callback_of_a_loop_may_wait_for_calls_of_other_threads),
    FAULT_TEST(B32_a_loop_that_proclaims_without_the_lock_soon_notices),
    FAULT_TEST(F47_close_of_a_loop_leaves_nothing_in_the_queue),
    FAULT_TEST(F47_close_of_a_loop_passes_on_a_grant_that_it_missed),
    FAULT_TEST(F47_a_callback_may_release_while_its_client_closes),
    FAULT_TEST(F56_a_loop_survives_broken_connections),
    FAULT_TEST(F19_an_async_wait_whose_message_is_lost_is_served),
};

FAULT_MAIN(tests)
