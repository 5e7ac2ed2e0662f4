/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of waiters: which waiter is served next, and what a leaving waiter leaves behind.
 * Includes a server out of memory, a stopped waiter, and late bytes (B8, B20, F13, F27, F29, F42,
 * F44, F47, F51).
 */
#include "waiters.h"

#include <signal.h>

/* ---- Order ----------------------------------------------------------------------------------- */

/* As after the death of a holder, no release has handed the lock over. */
static void B08_a_free_lock_goes_to_the_first_waiter_and_not_to_a_newcomer(void **state) {
    bed *b = *state;
    hf_client *late = bed_direct(b);
    hold_by_hand(b, LOCK, t_patience(60000));
    attempt *first = enqueue(b, bed_subscriber(b), &FOREVER);
    attempt *second = enqueue(b, bed_subscriber(b), &FOREVER);
    drop_by_hand(b, LOCK);
    REFUSED(HF_BUSY, late, .wait_ms = 0);
    hf_hold *hold = await_grant(first);
    assert_true(is_waiting(second));
    FREE(hold);
    FREE(await_grant(second));
    FREE(TAKE(late));
}

/* A client that serves the queue and then enqueues is visible there to the next client. */
static void B08_a_client_that_serves_the_queue_and_joins_it_is_not_passed(void **state) {
    bed *b = *state;
    hf_client *late = bed_direct(b), *second = bed_subscriber(b);
    hold_by_hand(b, LOCK, t_patience(60000));
    attempt *first = enqueue(b, bed_subscriber(b), &FOREVER);
    drop_by_hand(b, LOCK);
    attempt *behind = attempt_start(b, second, &FOREVER);
    hf_hold *hold = await_grant(first);
    UNTIL(queue_length(b) == 1);
    drop_by_hand(b, LOCK); /* the first one dies */
    REFUSED(HF_BUSY, late, .wait_ms = 0);
    FREE(await_grant(behind));
    T_HF(HF_LOST, hf_release(hold));
}

/* A release carries the acquire of the client's next thread. That acquire gets the end of the
   queue, or the lock. */
static void B08_the_next_acquire_of_a_client_queues_behind_others(void **state) {
    bed *b = *state;
    hf_client *client = bed_subscriber(b);
    hf_hold *hold = TAKE(client);
    attempt *other = enqueue(b, bed_subscriber(b), &FOREVER);
    attempt *next = attempt_start(b, client, &FOREVER);
    UNTIL(stats_of(client).waiting == 1);
    calls_reset(b);
    FREE(hold);
    assert_int_equal(call_count(b, "evalsha"), 1);
    hold = await_grant(other);
    assert_true(is_waiting(next));
    assert_int_equal(queue_length(b), 1);
    FREE(hold);
    FREE(await_grant(next));
}

static void B08_without_other_waiters_a_release_passes_the_lock_on_in_one_command(void **state) {
    bed *b = *state;
    hf_client *client = bed_direct(b);
    hf_hold *hold = TAKE(client);
    uint64_t token = hf_fence(hold);
    attempt *next = attempt_start(b, client, &FOREVER);
    UNTIL(stats_of(client).waiting == 1);
    calls_reset(b);
    FREE(hold);
    hold = await_grant(next);
    assert_int_equal(call_count(b, "evalsha"), 1);
    assert_true(hf_fence(hold) > token);
    check_held(b, hold);
    FREE(hold);
    assert_int_equal(t_redis_int(b->redis, "EXISTS " KEY " " QUEUE), 0);
}

static void B08_the_next_thread_takes_over_the_position_of_one_that_leaves(void **state) {
    bed *b = *state;
    hf_client *client = bed_subscriber(b);
    hf_hold *hold = TAKE(bed_direct(b));
    hf_cancel *cancel = hf_cancel_new();
    attempt *leaves = enqueue(b, client, &(hf_options){.wait_ms = HF_FOREVER, .cancel = cancel});
    attempt *other = enqueue(b, bed_subscriber(b), &FOREVER);
    attempt *next = attempt_start(b, client, &FOREVER);
    UNTIL(stats_of(client).waiting == 2);
    queued_id before = queued_at(b, 0);
    hf_cancel_fire(cancel);
    attempt_end(leaves, HF_CANCELLED);
    UNTIL(queued_at(b, 0).acquire_id > before.acquire_id);
    assert_string_equal(queued_at(b, 0).client, before.client);
    FREE(hold);
    hold = await_grant(next);
    assert_true(is_waiting(other));
    FREE(hold);
    FREE(await_grant(other));
    hf_cancel_free(cancel);
}

/* If a lock is held for more than a day, its fence may have expired. The next token must still be
   higher. */
static void B28_tokens_grow_after_the_fence_has_expired(void **state) {
    bed *b = *state;
    const uint64_t ahead = UINT64_C(8000000000000000); /* as after its clock was stepped back */
    freeReplyObject(t_redis_cmd(b->redis, "SET " FENCE " %llu", (unsigned long long)ahead));
    hf_hold *hold = TAKE(bed_direct(b));
    uint64_t token = hf_fence(hold);
    assert_true(token > ahead);
    run_command(b, "DEL " FENCE);
    attempt *a = enqueue(b, bed_subscriber(b), &FOREVER);
    FREE(hold);
    hold = await_grant(a);
    assert_true(hf_fence(hold) > token);
    FREE(hold);
}

/* ---- Many clients whose connections break ---------------------------------------------------- */

enum { CUT_CLIENTS = 4, CUT_THREADS = 12, CUTS = 40 };

typedef struct cut_lock {
    hf_client *clients[CUT_CLIENTS];
    atomic_int stop, inside, collisions, rounds, failures;
    _Atomic uint64_t token;
    atomic_int backward; /* tokens that were not higher than the one before */
} cut_lock;

/* Waits have different lengths, so many give up. A client that enters must be alone while its hold
   is valid. */
static void visit_once(cut_lock *r, hf_client *client, int round) {
    hf_hold *hold = NULL;
    hf_options options = {.wait_ms = round % 3 ? t_patience(SOON_MS) : round % 20};
    hf_result result = hf_acquire(client, LOCK, &options, &hold);
    if (result != HF_OK) {
        if (options.wait_ms == t_patience(SOON_MS)) atomic_fetch_add(&r->failures, 1);
        return;
    }
    int others = atomic_fetch_add(&r->inside, 1);
    uint64_t before = atomic_exchange(&r->token, hf_fence(hold));
    if (others && hf_held(hold)) atomic_fetch_add(&r->collisions, 1);
    if (before >= hf_fence(hold)) atomic_fetch_add(&r->backward, 1);
    atomic_fetch_sub(&r->inside, 1);
    result = hf_release(hold);
    if (result != HF_OK && result != HF_UNKNOWN_OUTCOME) atomic_fetch_add(&r->failures, 1);
    atomic_fetch_add(&r->rounds, 1);
}

static void visit_until_stopped(int index, void *arg) {
    cut_lock *r = arg;
    for (int i = index; !atomic_load(&r->stop); i++)
        visit_once(r, r->clients[index % CUT_CLIENTS], i);
}

/* False if the threads make no progress. The test must stop its threads before it may fail. */
static bool all_made_rounds(cut_lock *r) {
    int enough = atomic_load(&r->rounds) + CUT_THREADS;
    int64_t until = t_now_ms() + t_patience(SOON_MS);
    while (atomic_load(&r->rounds) < enough && t_now_ms() < until) t_sleep_ms(1);
    return atomic_load(&r->rounds) >= enough;
}

static void B08_clients_whose_connections_break_exclude_each_other(void **state) {
    static cut_lock r;
    bed *b = *state;
    r = (cut_lock){.stop = 0};
    for (int i = 0; i < CUT_CLIENTS; i++) r.clients[i] = bed_through(b, NULL);
    t_threads *threads = t_threads_start(CUT_THREADS, visit_until_stopped, &r);
    bool going = true;
    for (int i = 0; i < CUTS && going; i++) {
        going = all_made_rounds(&r);
        uint64_t last = t_proxy_connections(b->proxy);
        if (i % 5 == 0) t_proxy_cut(b->proxy);
        /* one of the latest, for commands or notifications */
        if (i % 5) cut_connection(b, last - (uint64_t)i % 8);
    }
    going = going && all_made_rounds(&r);
    atomic_store(&r.stop, 1);
    t_threads_join(threads, 4 * SOON_MS);
    assert_true(going);
    assert_int_equal(atomic_load(&r.collisions), 0);
    assert_int_equal(atomic_load(&r.backward), 0);
    assert_int_equal(atomic_load(&r.failures), 0);
    UNTIL(queue_length(b) == 0 && !on_server(b));
}

/* Every lost script is sent again in full, and then does its work. */
static void F29_clients_of_a_server_that_loses_scripts_exclude_each_other(void **state) {
    static cut_lock r;
    bed *b = *state;
    r = (cut_lock){.stop = 0};
    for (int i = 0; i < CUT_CLIENTS; i++) r.clients[i] = bed_direct(b);
    t_threads *threads = t_threads_start(CUT_THREADS, visit_until_stopped, &r);
    for (int i = 0; i < 200; i++) {
        run_command(b, "SCRIPT FLUSH");
        t_sleep_ms(1);
    }
    bool going = all_made_rounds(&r);
    atomic_store(&r.stop, 1);
    t_threads_join(threads, 4 * SOON_MS);
    assert_true(going);
    assert_int_equal(atomic_load(&r.collisions), 0);
    assert_int_equal(atomic_load(&r.failures), 0);
    UNTIL(queue_length(b) == 0 && !on_server(b));
}

/* ---- Leaving --------------------------------------------------------------------------------- */

/* A queued client that is granted the lock but not notified, and the next client behind it. */
typedef struct unaware_holder {
    hf_client *client;
    attempt *a, *next;
} unaware_holder;

static unaware_holder grant_unnoticed(bed *b, const hf_options *options) {
    unaware_holder d = {.client = bed_subscriber_through(b, NULL)};
    hf_client *next = bed_subscriber(b);
    hf_hold *hold = TAKE(bed_direct(b));
    d.a = enqueue(b, d.client, options);
    d.next = enqueue(b, next, &FOREVER);
    queued_id first = queued_at(b, 0);
    withhold_bytes(b, NOTIFICATION_CONNECTION, T_TO_CLIENT);
    FREE(hold);
    assert_true(same_id(id_of_holder(b), first));
    return d;
}

static void B20_a_grant_that_a_cancelled_wait_missed_is_passed_on(void **state) {
    hf_cancel *cancel = hf_cancel_new();
    unaware_holder d =
        grant_unnoticed(*state, &(hf_options){.wait_ms = HF_FOREVER, .cancel = cancel});
    hf_cancel_fire(cancel);
    attempt_end(d.a, HF_CANCELLED);
    FREE(await_grant(d.next));
    hf_cancel_free(cancel);
}

static void B20_a_grant_that_a_timed_out_wait_missed_is_passed_on(void **state) {
    unaware_holder d = grant_unnoticed(*state, &(hf_options){.wait_ms = t_patience(300)});
    attempt_end(d.a, HF_TIMEOUT);
    FREE(await_grant(d.next));
}

static void F47_a_grant_that_a_closed_client_missed_is_passed_on(void **state) {
    unaware_holder d = grant_unnoticed(*state, &FOREVER);
    bed_close(*state, d.client);
    attempt_end(d.a, HF_CLOSED);
    FREE(await_grant(d.next));
}

static void on_closed(hf_result result, hf_hold *hold, void *arg) {
    atomic_int *closed = arg;
    if (result == HF_CLOSED && !hold) atomic_fetch_add(closed, 1);
}

static void F47_close_leaves_nothing_in_the_queue(void **state) {
    bed *b = *state;
    atomic_int closed = 0;
    hf_client *client = bed_subscriber(b);
    hold_by_hand(b, LOCK, t_patience(60000));
    hold_by_hand(b, "other", t_patience(60000));
    attempt *waiting[2] = {enqueue(b, client, &FOREVER), attempt_start(b, client, &FOREVER)};
    T_HF(HF_OK, hf_acquire_async(client, LOCK, &FOREVER, on_closed, &closed));
    T_HF(HF_OK, hf_acquire_async(client, "other", &FOREVER, on_closed, &closed));
    UNTIL(t_redis_int(b->redis, "LLEN hf:{other}:q") == 1 && stats_of(client).waiting == 4);
    bed_close(b, client);
    for (int i = 0; i < 2; i++) attempt_end(waiting[i], HF_CLOSED);
    assert_int_equal(atomic_load(&closed), 2);
    assert_int_equal(t_redis_int(b->redis, "EXISTS " QUEUE " hf:{other}:q"), 0);
}

/* When a client closes, its locks do not go to its own next waiter. */
static void F47_close_with_holds_and_waits_leaves_nothing(void **state) {
    bed *b = *state;
    hf_client *holder = bed_subscriber(b), *client = bed_subscriber(b);
    hf_hold *hold = TAKE(holder);
    attempt *local = attempt_start(b, holder, &FOREVER);
    UNTIL(stats_of(holder).waiting == 1);
    attempt *other = enqueue(b, client, &FOREVER);
    bed_close(b, holder);
    attempt_end(local, HF_CLOSED);
    hf_hold *next = await_grant(other);
    assert_int_equal(t_redis_int(b->redis, "EXISTS " QUEUE), 0);
    FREE(next);
    T_HF(HF_CLOSED, hf_release(hold));
}

static void try_in_a_new_thread(int index, void *arg) {
    hf_hold *hold = NULL;
    (void)index;
    T_HF(HF_BUSY, hf_try_lock(arg, LOCK, &hold));
}

static void F44_the_hold_of_an_ended_thread_is_handed_over_when_another_releases_it(void **state) {
    bed *b = *state;
    hf_client *client = bed_direct(b);
    hf_hold *hold = attempt_end(attempt_start(b, client, NULL), HF_OK); /* its thread has ended */
    attempt *other = enqueue(b, bed_subscriber(b), &FOREVER);
    t_threads_run(20, try_in_a_new_thread, client, SOON_MS); /* no later thread has its owner id */
    check_held(b, hold);
    FREE(hold);
    FREE(await_grant(other));
}

static int close_in_child(void *arg) {
    hf_client *client = arg;
    hf_hold *hold = NULL;
    T_HF(HF_FORKED, hf_lock(client, LOCK, &hold));
    hf_close(client);
    return 0;
}

/* The child shares the parent's connections. It must neither close nor use them. */
static void F42_a_forked_child_does_not_affect_the_position_of_its_parent(void **state) {
    bed *b = *state;
    hf_client *client = bed_subscriber(b);
    hf_hold *hold = TAKE(bed_direct(b));
    attempt *a = enqueue(b, client, &FOREVER);
    queued_id waiter_id = queued_at(b, 0);
    assert_int_equal(t_proc_wait(t_proc_start(close_in_child, client), SOON_MS), 0);
    assert_true(same_id(queued_at(b, 0), waiter_id));
    FREE(hold);
    FREE(await_grant(a));
    assert_int_equal(stats_of(client).reconnects, 0);
}

/* ---- F13: executed after the client gave up -------------------------------------------------- */

static void F13_a_position_taken_after_a_cancel_is_given_up(void **state) {
    bed *b = *state;
    hf_client *client = bed_subscriber_through(b, NULL);
    hf_cancel *cancel = hf_cancel_new();
    hold_by_hand(b, LOCK, t_patience(60000));
    withhold_bytes(b, COMMAND_CONNECTION, T_TO_SERVER);
    attempt *a = attempt_sent(b, client, &(hf_options){.wait_ms = HF_FOREVER, .cancel = cancel});
    hf_cancel_fire(cancel);
    attempt_end(a, HF_CANCELLED);
    calls_reset(b);
    stop_withholding(b, COMMAND_CONNECTION, T_TO_SERVER);
    UNTIL(call_count(b, "rpush") == 1); /* queued, but its caller has given up */
    UNTIL(queue_length(b) == 0);
    hf_cancel_free(cancel);
}

static void F13_no_position_is_taken_after_the_wait(void **state) {
    bed *b = *state;
    hf_client *client = bed_subscriber_through(b, NULL);
    hold_by_hand(b, LOCK, t_patience(60000));
    withhold_bytes(b, COMMAND_CONNECTION, T_TO_SERVER);
    attempt_end(attempt_sent(b, client, &(hf_options){.wait_ms = 200}), HF_UNKNOWN_OUTCOME);
    calls_reset(b);
    stop_withholding(b, COMMAND_CONNECTION, T_TO_SERVER);
    UNTIL(call_count(b, "evalsha") >= 2); /* the acquire, and the leave sent after it */
    assert_int_equal(call_count(b, "rpush"), 0);
}

/* Its connection broke with the answer. It left the queue on the next connection, before the lock
   is handed over. */
static void F13_a_position_whose_answer_was_lost_is_given_up(void **state) {
    bed *b = *state;
    hf_client *client = bed_subscriber_through(b, NULL);
    hf_hold *hold = TAKE(bed_direct(b));
    t_proxy_drop_answers(b->proxy, 1);
    t_proxy_refuse(b->proxy, true);
    attempt *a = attempt_start(b, client, &(hf_options){.wait_ms = t_patience(200)});
    UNTIL(queue_length(b) == 1);
    attempt *next = enqueue(b, bed_subscriber(b), &FOREVER);
    attempt_end(a, HF_UNKNOWN_OUTCOME);
    t_proxy_refuse(b->proxy, false);
    UNTIL(queue_length(b) == 1);
    FREE(hold);
    FREE(await_grant(next));
}

/* ---- F51: late bytes ------------------------------------------------------------------------- */

static hf_client *client_of_late_bytes(bed *b) {
    return bed_subscriber_through(b, &(hf_client_options){.command_timeout_ms = t_patience(300)});
}

/* Makes the bytes that the proxy withholds from the command connection late bytes of a closed
   connection. */
static void detach_late(bed *b) {
    t_proxy_select(b->proxy, COMMAND_CONNECTION);
    assert_true(t_proxy_detach(b->proxy) > 0);
    t_proxy_select(b->proxy, 0);
}

/* Delivers the late bytes. The server understood them and gave this answer. */
static void deliver_late(bed *b, const char *answer) {
    assert_true(t_proxy_deliver(b->proxy) > 0);
    if (!strstr(t_proxy_late_answers(b->proxy), answer))
        t_fail("the server answered the late bytes with: %s", t_proxy_late_answers(b->proxy));
}

static void F51_a_late_leave_removes_no_later_position(void **state) {
    bed *b = *state;
    hf_client *client = client_of_late_bytes(b);
    hf_cancel *cancel = hf_cancel_new();
    hold_by_hand(b, LOCK, t_patience(60000));
    attempt *a = enqueue(b, client, &(hf_options){.wait_ms = HF_FOREVER, .cancel = cancel});
    uint64_t sent = t_proxy_bytes(b->proxy, T_TO_SERVER);
    withhold_bytes(b, COMMAND_CONNECTION, T_TO_SERVER);
    hf_cancel_fire(cancel);
    attempt_end(a, HF_CANCELLED);
    t_proxy_wait_bytes(b->proxy, T_TO_SERVER, sent + 1, SOON_MS);
    detach_late(b);
    UNTIL(queue_length(b) == 0); /* it has left, on its next connection */
    a = enqueue(b, client, &FOREVER);
    queued_id waiter_id = queued_at(b, 0);
    deliver_late(b, ":0\r\n");
    assert_true(same_id(queued_at(b, 0), waiter_id));
    bed_close(b, client);
    attempt_end(a, HF_CLOSED);
    hf_cancel_free(cancel);
}

/* The release, which carries the next acquire, is sent on a connection that breaks. Both are sent
   again on another one. */
static attempt *release_with_next_late(bed *b, hf_client *client, hf_hold *hold) {
    attempt *next = attempt_start(b, client, &FOREVER);
    UNTIL(stats_of(client).waiting == 1);
    withhold_bytes(b, COMMAND_CONNECTION, T_TO_SERVER);
    T_HF(HF_UNKNOWN_OUTCOME, hf_release(hold));
    detach_late(b);
    return next;
}

static void F51_a_late_release_with_the_next_acquire_changes_nothing(void **state) {
    bed *b = *state;
    hf_client *client = client_of_late_bytes(b);
    hf_hold *hold = TAKE(client);
    hold = attempt_end(release_with_next_late(b, client, hold), HF_OK);
    deliver_late(b, ":0\r\n");
    check_held(b, hold);
    assert_int_equal(queue_length(b), 0);
    FREE(hold);
    assert_false(on_server(b));
}

static void F51_a_late_release_with_the_next_acquire_does_not_change_the_queue(void **state) {
    bed *b = *state;
    hf_client *client = client_of_late_bytes(b);
    hf_hold *hold = TAKE(client);
    attempt *other = enqueue(b, bed_subscriber(b), &FOREVER);
    attempt *next = release_with_next_late(b, client, hold);
    hold = await_grant(other);
    UNTIL(queue_length(b) == 1);
    deliver_late(b, ":0\r\n");
    check_held(b, hold);
    assert_int_equal(queue_length(b), 1);
    assert_true(is_waiting(next));
    FREE(hold);
    FREE(attempt_end(next, HF_OK));
    UNTIL(!on_server(b));
}

/* The acquire is sent on one connection and again on the next. The first copy arrives when all is
   over. */
static attempt *enqueue_on_second_connection(bed *b, hf_client *client, const hf_options *options) {
    withhold_bytes(b, COMMAND_CONNECTION, T_TO_SERVER);
    attempt *a = attempt_sent(b, client, options);
    detach_late(b);
    UNTIL(queue_length(b) == 1);
    return a;
}

static void F51_a_late_acquire_takes_no_position_after_its_hold(void **state) {
    bed *b = *state;
    hf_client *client = bed_subscriber_through(b, NULL);
    hf_hold *hold = TAKE(bed_direct(b)), *other;
    attempt *a = enqueue_on_second_connection(b, client, &FOREVER);
    FREE(hold);
    FREE(await_grant(a));
    other = TAKE(bed_direct(b));
    deliver_late(b, "*2\r\n:2\r\n");
    assert_int_equal(queue_length(b), 0);
    FREE(other);
    assert_false(on_server(b));
}

static void F51_a_late_acquire_takes_no_position_after_its_leave(void **state) {
    bed *b = *state;
    hf_client *client = bed_subscriber_through(b, NULL);
    hf_cancel *cancel = hf_cancel_new();
    hf_hold *hold = TAKE(bed_direct(b));
    attempt *a = enqueue_on_second_connection(
        b, client, &(hf_options){.wait_ms = HF_FOREVER, .cancel = cancel});
    hf_cancel_fire(cancel);
    attempt_end(a, HF_CANCELLED);
    UNTIL(queue_length(b) == 0);
    deliver_late(b, "*2\r\n:2\r\n");
    assert_int_equal(queue_length(b), 0);
    FREE(hold);
    assert_false(on_server(b));
    hf_cancel_free(cancel);
}

/* The position belongs to a later acquire id by then. The lock is free, as after the death of its
   holder. */
static void F51_a_late_acquire_takes_nothing_if_a_later_id_is_queued(void **state) {
    bed *b = *state;
    hf_client *client = bed_subscriber_through(b, NULL);
    hf_cancel *cancel = hf_cancel_new();
    hold_by_hand(b, LOCK, t_patience(60000));
    withhold_bytes(b, COMMAND_CONNECTION, T_TO_SERVER);
    attempt *gone = attempt_sent(b, client, &(hf_options){.wait_ms = HF_FOREVER, .cancel = cancel});
    attempt *next = attempt_start(b, client, &FOREVER);
    UNTIL(stats_of(client).waiting == 2);
    /* so that the next acquire does not follow the first, equally late */
    t_proxy_refuse(b->proxy, true);
    detach_late(b);
    hf_cancel_fire(cancel);
    attempt_end(gone, HF_CANCELLED);
    t_proxy_refuse(b->proxy, false);
    UNTIL(queue_length(b) == 1);
    /* nor precede it: the client acquires again when it has subscribed */
    t_proxy_withhold(b->proxy, T_TO_SERVER, true);
    queued_id waiter_id = queued_at(b, 0);
    drop_by_hand(b, LOCK);
    deliver_late(b, "*2\r\n:2\r\n");
    assert_true(!on_server(b) || same_id(id_of_holder(b), waiter_id));
    t_proxy_withhold(b->proxy, T_TO_SERVER, false);
    REFUSED(HF_BUSY, bed_direct(b), .wait_ms = 0); /* and the queue is served */
    FREE(await_grant(next));
    hf_cancel_free(cancel);
}

static void lock_again_and_again(int index, void *arg) {
    (void)index;
    for (int i = 0; i < 25; i++) {
        hf_hold *hold = NULL;
        T_HF(HF_OK, hf_lock(arg, LOCK, &hold));
        T_HF(HF_OK, hf_release(hold));
    }
}

/* While the first acquire may still arrive, each release writes a tombstone. The last tombstone
   covers all. */
static void F51_tombstones_of_a_client_do_not_accumulate(void **state) {
    bed *b = *state;
    hf_client *client = bed_subscriber_through(b, NULL);
    withhold_bytes(b, COMMAND_CONNECTION, T_TO_SERVER);
    attempt *a = attempt_sent(b, client, &FOREVER);
    t_threads *others = t_threads_start(4, lock_again_and_again, client);
    UNTIL(stats_of(client).waiting == 5);
    detach_late(b);
    FREE(attempt_end(a, HF_OK));
    t_threads_join(others, SOON_MS);
    assert_in_range(t_redis_int(b->redis, "STRLEN " FENCE), 1, 200);
    deliver_late(b, "*2\r\n:2\r\n");
    assert_false(on_server(b));
}

/* Puts `count` entries of dead waiters before all others. */
static void enqueue_dead_waiters(bed *b, int count) {
    for (int i = 0; i < count; i++) {
        char entry[64];
        snprintf(entry, sizeof entry, "gone-%d:1 gone-%d:t1 30000 0", i, i);
        t_redis_int(b->redis, "LPUSH %s %s", QUEUE, entry);
    }
}

/* A host with many waiters has died: more of them than one batch reads. */
static void F54_behind_many_dead_waiters_the_next_is_served(void **state) {
    bed *b = *state;
    hf_hold *hold = TAKE(bed_direct(b));
    attempt *a = enqueue(b, bed_subscriber(b), &FOREVER);
    enqueue_dead_waiters(b, 250);
    assert_int_equal(queue_length(b), 251);
    FREE(hold);
    FREE(await_grant(a));
}

/* Two waiters are queued, with `count` wrong entries before and behind them. Both are served. */
static void serve_two_among(bed *b, hf_client *const *clients, const char *const *wrong,
                            size_t count) {
    hf_hold *hold = TAKE(clients[0]);
    attempt *first = enqueue(b, clients[1], &FOREVER), *second = enqueue(b, clients[2], &FOREVER);
    for (size_t i = 0; i < count; i++) {
        t_redis_int(b->redis, "LPUSH " QUEUE " %s", wrong[i]);
        t_redis_int(b->redis, "RPUSH " QUEUE " %s", wrong[i]);
    }
    FREE(hold);
    FREE(await_grant(first));
    FREE(await_grant(second));
    attempts_over(b);
    FREE(TAKE(clients[0]));
    assert_int_equal(queue_length(b), 0);
}

/* Something other than Holdfast has changed the queue. */
static void F28_behind_invalid_entries_the_next_waiter_is_served(void **state) {
    static const char *const wrong[] = {"x",
                                        "a:1",
                                        "a:1 a:t1",
                                        "a:1 a:t1 x 0",
                                        "a#1 b r",
                                        ":1 :1 1x ",
                                        "a:1z a:t1 1000 0",
                                        "\ta:1 b 1000 0",
                                        "a\nb:1 b 1000 0"};
    enum { WRONG = sizeof wrong / sizeof *wrong };
    bed *b = *state;
    hf_client *clients[] = {bed_direct(b), bed_subscriber(b), bed_subscriber(b)};
    for (size_t i = 0; i < WRONG; i++) serve_two_among(b, clients, wrong + i, 1);
    serve_two_among(b, clients, wrong, WRONG);
}

/* While one client holds for a long time, only newcomers check the queue. */
static void F54_dead_waiters_are_removed_by_newcomers(void **state) {
    bed *b = *state;
    hf_hold *hold = TAKE(bed_direct(b));
    attempt *first = enqueue(b, bed_subscriber(b), &FOREVER);
    enqueue_dead_waiters(b, 14);
    attempt *second = attempt_start(b, bed_subscriber(b), &FOREVER); /* the sixteenth */
    UNTIL(queue_length(b) == 2);
    FREE(hold);
    FREE(await_grant(first));
    FREE(await_grant(second));
}

/* A stopped process is still subscribed. But it does not send acquires, as every waiter does every
   ten seconds. */
static void B14_a_waiter_without_a_recent_acquire_is_passed_over(void **state) {
    bed *b = *state;
    hf_hold *hold = TAKE(bed_direct(b));
    attempt *first = enqueue(b, bed_subscriber(b), &FOREVER),
            *second = enqueue(b, bed_subscriber(b), &FOREVER);
    queued_id waiter_id = queued_at(b, 0);
    char note[64];
    int64_t long_ago_us = t_redis_int(b->redis, "HGET " KEY " t") - INT64_C(40000000);
    snprintf(note, sizeof note, "%lld %lld", (long long)long_ago_us, (long long)long_ago_us);
    t_redis_int(b->redis, "HSET hf:{lock}:i %s %s", waiter_id.client, note);
    FREE(hold);
    hold = await_grant(second);
    assert_true(same_id(queued_at(b, 0), waiter_id)); /* it keeps its position for a minute */
    assert_true(is_waiting(first));
    FREE(hold); /* finds nobody to hand over to; the first waiter soon acquires by itself */
    FREE(attempt_end(first, HF_OK));
}

/* ---- A server out of memory, a stopped waiter ------------------------------------------------ */

static void F27_a_release_hands_over_when_memory_is_out(void **state) {
    bed *b = *state;
    hf_client *client = bed_subscriber(b);
    hf_hold *hold = TAKE(client);
    attempt *other = enqueue(b, bed_subscriber(b), &FOREVER);
    attempt *next = attempt_start(b, client, &FOREVER);
    UNTIL(stats_of(client).waiting == 1);
    set_config(b, "maxmemory", "1");
    FREE(hold);
    hold = await_grant(other);
    check_held(b, hold);
    T_HF(HF_OK, hf_break(client, LOCK, hf_fence(hold))); /* and so does a break */
    FREE(await_grant(next));
    T_HF(HF_LOST, hf_release(hold));
    assert_int_equal(t_redis_int(b->redis, "EXISTS " KEY " " QUEUE), 0);
}

static void B26_a_break_serves_the_first_waiter(void **state) {
    bed *b = *state;
    hf_client *by_force = bed_direct(b);
    hf_hold *hold =
        TAKE(bed_direct(b), .lease_ms = t_patience(900), .on_lost = count_loss, .arg = &b->loss);
    attempt *first = enqueue(b, bed_subscriber(b), &FOREVER);
    attempt *second = enqueue(b, bed_subscriber(b), &FOREVER);
    T_HF(HF_OK, hf_break(by_force, LOCK, hf_fence(hold)));
    REFUSED(HF_BUSY, by_force, .wait_ms = 0);
    hf_hold *next = await_grant(first);
    assert_true(is_waiting(second));
    check_lost(b, hold, "the store no longer has it");
    FREE(next);
    FREE(await_grant(second));
}

/* A handed-over grant is short until its first renewal. With HF_NO_RENEW it has the full lease. */
static void B15_a_handed_over_hold_without_renewal_has_its_full_lease(void **state) {
    bed *b = *state;
    hf_hold *hold = TAKE(bed_direct(b));
    attempt *a =
        enqueue(b, bed_subscriber(b), &(hf_options){.wait_ms = HF_FOREVER, .flags = HF_NO_RENEW});
    FREE(hold);
    hold = await_grant(a);
    assert_true(hf_remaining_ms(hold) > 15000);
    assert_true(server_ttl_ms(b) > 15000);
    FREE(hold);
}

enum { STOPPED_LEASE_MS = 6000, STOPPED_FIRST_MS = STOPPED_LEASE_MS / 3 };

typedef struct stopped_stage {
    char url[256];
    atomic_int go, over;
} stopped_stage;

static int wait_in_child(void *arg) {
    stopped_stage *s = arg;
    hf_client *client = NULL;
    UNTIL(atomic_load(&s->go));
    T_HF(HF_OK, hf_open(s->url, NULL, &client));
    FREE(TAKE(client, .wait_ms = HF_FOREVER, .lease_ms = STOPPED_LEASE_MS));
    if (!atomic_load(&s->over)) t_fail("entered while another client held the lock");
    hf_close(client);
    return 0;
}

/* To the server, a stopped process still looks subscribed. */
static void B14_a_waiter_stopped_as_it_is_granted_costs_a_third_of_its_lease(void **state) {
    bed *b = *state;
    stopped_stage *s = t_shared_new(sizeof *s);
    t_proc *child = t_proc_start(wait_in_child, s);
    snprintf(s->url, sizeof s->url, "%s", front_url(t_redis_url(b->redis)));
    hf_hold *hold = TAKE(bed_direct(b), .lease_ms = t_patience(1000));
    hf_client *client = bed_subscriber(b);
    atomic_store(&s->go, 1);
    UNTIL(queue_length(b) == 1 && subscriber_count(b) == 2);
    attempt *next = enqueue(b, client, &FOREVER);
    queued_id stopped = queued_at(b, 0);
    t_proc_kill(child, SIGSTOP);
    FREE(hold);
    freeReplyObject(t_redis_cmd(b->redis, "SET lease running PX %d", STOPPED_LEASE_MS));
    assert_true(same_id(id_of_holder(b), stopped));
    assert_in_range(server_ttl_ms(b), 1, STOPPED_FIRST_MS);
    hold = attempt_end(next, HF_OK);
    assert_int_equal(t_redis_int(b->redis, "EXISTS lease"), 1);
    t_proc_kill(child, SIGCONT); /* it learns of its grant, and that the grant is over */
    UNTIL(queue_length(b) == 1);
    check_held(b, hold);
    atomic_store(&s->over, 1);
    FREE(hold);
    assert_int_equal(t_proc_wait(child, SOON_MS), 0);
    t_shared_free(s, sizeof *s);
}

static const struct CMUnitTest tests[] = {
    FAULT_TEST(B08_a_free_lock_goes_to_the_first_waiter_and_not_to_a_newcomer),
    FAULT_TEST(B08_a_client_that_serves_the_queue_and_joins_it_is_not_passed),
    FAULT_TEST(B08_the_next_acquire_of_a_client_queues_behind_others),
    FAULT_TEST(B08_without_other_waiters_a_release_passes_the_lock_on_in_one_command),
    FAULT_TEST(B08_the_next_thread_takes_over_the_position_of_one_that_leaves),
    FAULT_TEST(B28_tokens_grow_after_the_fence_has_expired),
    FAULT_TEST(B08_clients_whose_connections_break_exclude_each_other),
    FAULT_TEST(F29_clients_of_a_server_that_loses_scripts_exclude_each_other),
    FAULT_TEST(B20_a_grant_that_a_cancelled_wait_missed_is_passed_on),
    FAULT_TEST(B20_a_grant_that_a_timed_out_wait_missed_is_passed_on),
    FAULT_TEST(F47_a_grant_that_a_closed_client_missed_is_passed_on),
    FAULT_TEST(F47_close_leaves_nothing_in_the_queue),
    FAULT_TEST(F47_close_with_holds_and_waits_leaves_nothing),
    FAULT_TEST(F44_the_hold_of_an_ended_thread_is_handed_over_when_another_releases_it),
    FAULT_TEST(F42_a_forked_child_does_not_affect_the_position_of_its_parent),
    FAULT_TEST(F13_a_position_taken_after_a_cancel_is_given_up),
    FAULT_TEST(F13_no_position_is_taken_after_the_wait),
    FAULT_TEST(F13_a_position_whose_answer_was_lost_is_given_up),
    FAULT_TEST(F51_a_late_leave_removes_no_later_position),
    FAULT_TEST(F51_a_late_release_with_the_next_acquire_changes_nothing),
    FAULT_TEST(F51_a_late_release_with_the_next_acquire_does_not_change_the_queue),
    FAULT_TEST(F51_a_late_acquire_takes_no_position_after_its_hold),
    FAULT_TEST(F51_a_late_acquire_takes_no_position_after_its_leave),
    FAULT_TEST(F51_a_late_acquire_takes_nothing_if_a_later_id_is_queued),
    FAULT_TEST(F51_tombstones_of_a_client_do_not_accumulate),
    FAULT_TEST(F54_behind_many_dead_waiters_the_next_is_served),
    FAULT_TEST(F28_behind_invalid_entries_the_next_waiter_is_served),
    FAULT_TEST(F54_dead_waiters_are_removed_by_newcomers),
    FAULT_TEST(B14_a_waiter_without_a_recent_acquire_is_passed_over),
    FAULT_TEST(F27_a_release_hands_over_when_memory_is_out),
    FAULT_TEST(B26_a_break_serves_the_first_waiter),
    FAULT_TEST(B15_a_handed_over_hold_without_renewal_has_its_full_lease),
    FAULT_TEST(B14_a_waiter_stopped_as_it_is_granted_costs_a_third_of_its_lease),
};

FAULT_MAIN(tests)
