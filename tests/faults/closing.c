/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How non-blocking calls end: closing during and after an outage, children forked meanwhile, and
 * slow callbacks (B5, F42, F47).
 */
#include "outcome.h"

#include <arpa/inet.h>
#include <sys/socket.h>

static hf_client *open_one(bed *b, bool loop, hf_client_options options) {
    if (loop) return open_loop(b, t_redis_url(b->redis), options);
    return bed_open(b, t_redis_url(b->redis), &options);
}

/* ---- Closing --------------------------------------------------------------------------------- */

/* When this returns, the client knows that the server is gone. */
static void lose_server(bed *b, hf_client *client) {
    hf_hold *hold = NULL;
    t_redis_kill9(b->redis);
    hf_result r = hf_acquire(client, "other", &FOREVER, &hold);
    /* HF_UNKNOWN_OUTCOME if it had just been sent */
    T_CHECK(r == HF_UNREACHABLE || r == HF_UNKNOWN_OUTCOME);
}

static void check_close_reports(bed *b, bool loop) {
    static async_outcome o;
    hf_client *client = open_one(b, loop, (hf_client_options){.outage_ms = 100});
    hf_hold *hold = TAKE(client, .lease_ms = t_patience(60000));
    lose_server(b, client);
    begin_release(hold, &o);
    bed_close(b, client);
    assert_int_equal(atomic_load(&o.calls), 1); /* close waited for the callback, or ran it */
    await_outcome(&o, HF_UNKNOWN_OUTCOME);
}

static void F47_close_with_the_store_away_reports_a_release(void **state) {
    check_close_reports(*state, false);
}

static void F47_close_of_a_loop_with_the_store_away_reports_a_release(void **state) {
    check_close_reports(*state, true);
}

static void check_closed(bed *b, bool loop) {
    static async_outcome o;
    hf_client *client = open_one(b, loop, (hf_client_options){0});
    hf_hold *hold = TAKE(client);
    o = (async_outcome){.hold = NULL};
    hf_ref(hold);
    bed_close(b, client);
    assert_false(on_server(b));
    T_HF(HF_CLOSED, hf_release_async(hold, on_released, &o));
    T_HF(HF_NOT_HELD, hf_release_async(hold, on_released, &o)); /* the last reference */
    assert_int_equal(atomic_load(&o.calls), 0);
}

static void F47_a_release_after_close_calls_nobody(void **state) {
    check_closed(*state, false);
}

static void F47_a_release_after_close_of_a_loop_calls_nobody(void **state) {
    check_closed(*state, true);
}

/* ---- Forked children ------------------------------------------------------------------------- */

typedef struct inherited {
    hf_client *client;
    uint16_t port; /* of the server */
} inherited;

/* Number of sockets of this process that are connected to that port. */
static int connected_to(uint16_t port) {
    int count = 0;
    for (int fd = 0; fd < 1024; fd++) {
        struct sockaddr_in at = {0};
        socklen_t size = sizeof at;
        if (getpeername(fd, (struct sockaddr *)&at, &size) == 0 && at.sin_family == AF_INET &&
            ntohs(at.sin_port) == port)
            count++;
    }
    return count;
}

static int close_in_child(void *arg) {
    const inherited *i = arg;
    assert_int_equal(connected_to(i->port), 2); /* one for commands, one for notifications */
    hf_close(i->client);
    return connected_to(i->port);
}

/* If a thread of the client was working at the fork, the child cannot free what that thread was
   using. The next child can. */
static void check_child_closes(bed *b, hf_client *client) {
    inherited i = {.client = client, .port = t_redis_port(b->redis)};
    UNTIL(t_proc_wait(t_proc_start(close_in_child, &i), SOON_MS) == 0);
    assert_int_equal(queue_length(b), 1); /* it did nothing on behalf of its parent */
    assert_int_equal(subscriber_count(b), 1);
}

static void F42_a_child_closes_a_client_with_async_waits(void **state) {
    bed *b = *state;
    static async_outcome o[3];
    hf_client *client = bed_subscriber(b);
    hold_by_hand(b, LOCK, t_patience(60000));
    for (int i = 0; i < 3; i++) begin_acquire(client, &FOREVER, &o[i]);
    UNTIL(queue_length(b) == 1);
    check_child_closes(b, client);
    bed_close(b, client);
    for (int i = 0; i < 3; i++) await_outcome(&o[i], HF_CLOSED);
}

/* This includes a call that has completed, whose callback waits for the loop. */
static void F42_a_child_closes_a_loop_with_async_calls(void **state) {
    bed *b = *state;
    static async_outcome wait, acquire, release;
    hf_client *client = open_loop(b, t_redis_url(b->redis), (hf_client_options){0});
    hold_by_hand(b, LOCK, t_patience(60000));
    enqueue_in_loop(b, client, &FOREVER, &wait);
    begin_release(acquire_or_fail(client, "first", NULL, __FILE__, __LINE__), &release);
    acquire = (async_outcome){.hold = NULL};
    T_HF(HF_OK, hf_acquire_async(client, "second", NULL, on_acquired, &acquire));
    uint64_t had = stats_of(client).acquired;
    FREE(
        acquire_or_fail(client, "third", NULL, __FILE__, __LINE__)); /* answered after the others */
    assert_true(stats_of(client).acquired == had + 2);
    check_child_closes(b, client);
    T_HF(HF_OK, hf_release(run_loop_until_outcome(client, &acquire, HF_OK)));
    await_outcome(&release, HF_OK);
    bed_close(b, client);
    await_outcome(&wait, HF_CLOSED);
}

static int live_on(void *arg) {
    (void)arg;
    t_sleep_ms(t_patience(60000));
    return 1; /* it should have been killed by now */
}

/* Does everything that is due. Returns true if nothing else is due immediately. */
static bool is_idle(hf_client *client) {
    if (is_readable(hf_fd(client))) T_HF(HF_OK, hf_dispatch(client));
    return !is_readable(hf_fd(client));
}

/* The child still has duplicates of descriptors that its parent closed. They must not wake up the
   parent's loop. */
static void F42_a_loop_that_reconnects_beside_a_child_becomes_idle(void **state) {
    bed *b = *state;
    static async_outcome o;
    hf_client *client = open_loop(b, t_redis_url(b->redis), (hf_client_options){0});
    hf_client *other = bed_direct(b);
    hf_hold *hold = TAKE(other);
    enqueue_in_loop(b, client, &FOREVER, &o);
    t_proc *child = t_proc_start(live_on, NULL);
    uint64_t before = stats_of(client).reconnects;
    run_command(b, "CLIENT KILL TYPE normal SKIPME yes");
    run_command(b, "CLIENT KILL TYPE pubsub");
    RUN_LOOP_UNTIL(client, stats_of(client).reconnects > before && subscriber_count(b) == 1);
    UNTIL(is_idle(client));
    UNTIL(stats_of(other).reconnects > 0);
    FREE(hold);
    FREE(run_loop_until_outcome(client, &o, HF_OK)); /* it still wakes up for real events */
    UNTIL(is_idle(client));
    t_proc_kill(child, SIGKILL);
    assert_int_equal(t_proc_wait(child, SOON_MS), 128 + SIGKILL);
}

/* ---- Slow callbacks -------------------------------------------------------------------------- */

/* The callback releases the hold it is given, then waits until the next waiter gets the lock. */
typedef struct passing {
    async_outcome release, next;
    atomic_int over;
} passing;

static void release_and_await_next(hf_result result, hf_hold *hold, void *arg) {
    passing *p = arg;
    T_CHECK(result == HF_OK);
    T_HF(HF_OK, hf_release_async(hold, on_released, &p->release));
    UNTIL(atomic_load(&p->next.calls));
    atomic_store(&p->over, 1);
}

/* Queues the client for LOCK with a callback that passes the lock on, and another waiter behind
   it. */
static void enqueue_with_another_behind(bed *b, hf_client *client, passing *p) {
    *p = (passing){.over = 0};
    T_HF(HF_OK,
         hf_acquire_async(client, LOCK,
                          &(hf_options){.wait_ms = HF_FOREVER, .lease_ms = t_patience(120000)},
                          release_and_await_next, p));
    UNTIL(queue_length(b) == 1);
    begin_acquire(bed_subscriber(b), &FOREVER, &p->next);
    UNTIL(queue_length(b) == 2);
}

static void check_handed_over(passing *p) {
    UNTIL(atomic_load(&p->over));
    await_outcome(&p->release, HF_OK);
    FREE(await_outcome(&p->next, HF_OK));
}

/* A call of the same client, in a thread of its own. */
static void lock_another(int index, void *arg) {
    hf_hold *hold = NULL;
    (void)index;
    T_HF(HF_OK, hf_acquire(arg, "another", &FOREVER, &hold));
    T_HF(HF_OK, hf_release(hold));
}

/* Timeouts so long that no deadline fires before the test gives up. */
static hf_client_options long_timeouts(void) {
    return (hf_client_options){.command_timeout_ms = t_patience(INT64_C(4) * SOON_MS)};
}

static void B05_a_request_of_a_callback_is_sent_while_it_runs(void **state) {
    bed *b = *state;
    static passing p;
    hf_hold *hold = TAKE(bed_direct(b));
    enqueue_with_another_behind(b, bed_subscriber(b), &p);
    FREE(hold);
    check_handed_over(&p);
}

static void check_with_a_waiting_thread(bed *b, bool loop) {
    static passing p;
    hf_client *client = open_one(b, loop, long_timeouts());
    hf_client *other = bed_direct(b);
    hf_hold *hold = TAKE(other),
            *another = acquire_or_fail(other, "another", NULL, __FILE__, __LINE__);
    t_threads *thread = t_threads_start(1, lock_another, client);
    UNTIL(t_redis_int(b->redis, "LLEN hf:{another}:q") == 1 && subscriber_count(b) == 1);
    enqueue_with_another_behind(b, client, &p);
    FREE(hold);
    if (loop) run_loop_until_outcome(client, &p.release, HF_OK);
    check_handed_over(&p);
    FREE(another);
    t_threads_join(thread, SOON_MS);
}

static void B05_a_request_of_a_callback_is_sent_beside_a_queued_thread(void **state) {
    check_with_a_waiting_thread(*state, false);
}

static void B05_a_request_of_a_loop_callback_is_sent_beside_a_queued_thread(void **state) {
    check_with_a_waiting_thread(*state, true);
}

/* The thread waits for an answer and does nothing else meanwhile. */
static void B05_a_request_of_a_callback_is_sent_beside_a_reading_thread(void **state) {
    bed *b = *state;
    static passing p;
    hf_client_options options = long_timeouts();
    hf_client *client = bed_subscriber_through(b, &options);
    hf_hold *hold = TAKE(bed_direct(b));
    enqueue_with_another_behind(b, client, &p);
    withhold_bytes(b, COMMAND_CONNECTION, T_TO_CLIENT);
    t_threads *thread = t_threads_start(1, lock_another, client);
    UNTIL(t_redis_int(b->redis, "EXISTS hf:{another}") == 1);
    FREE(hold);
    UNTIL(atomic_load(&p.over));
    stop_withholding(b, COMMAND_CONNECTION, T_TO_CLIENT);
    check_handed_over(&p);
    t_threads_join(thread, SOON_MS);
}

static const struct CMUnitTest tests[] = {
    FAULT_TEST(F47_close_with_the_store_away_reports_a_release),
    FAULT_TEST(F47_close_of_a_loop_with_the_store_away_reports_a_release),
    FAULT_TEST(F47_a_release_after_close_calls_nobody),
    FAULT_TEST(F47_a_release_after_close_of_a_loop_calls_nobody),
    FAULT_TEST(F42_a_child_closes_a_client_with_async_waits),
    FAULT_TEST(F42_a_child_closes_a_loop_with_async_calls),
    FAULT_TEST(F42_a_loop_that_reconnects_beside_a_child_becomes_idle),
    FAULT_TEST(B05_a_request_of_a_callback_is_sent_while_it_runs),
    FAULT_TEST(B05_a_request_of_a_callback_is_sent_beside_a_queued_thread),
    FAULT_TEST(B05_a_request_of_a_loop_callback_is_sent_beside_a_queued_thread),
    FAULT_TEST(B05_a_request_of_a_callback_is_sent_beside_a_reading_thread),
};

FAULT_MAIN(tests)
