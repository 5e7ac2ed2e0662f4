/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Latches and leaders on a bad network and on servers that lose data. Requests sent twice or late
 * count once, no wait relies on a notification, and no leader reads as another (F12, F17, F19, F22,
 * F23, F25, F27, F28, F51).
 */
#include "waiters.h"

#define LATCH "hf:{lock}:l"

static uint32_t left_of(hf_client *client) {
    uint32_t left = 77;
    T_HF(HF_OK, hf_latch_left(client, LOCK, &left));
    return left;
}

static uint32_t count_down(hf_client *client) {
    uint32_t left = 77;
    T_HF(HF_OK, hf_latch_count_down(client, LOCK, 1, &left));
    return left;
}

static int64_t left_on_server(bed *b) {
    return t_redis_int(b->redis, "HGET " LATCH " c");
}

/* When this returns, the server knows the scripts and the latch is set to `count`. */
static hf_client *latch_through(bed *b, const hf_client_options *options, uint32_t count) {
    hf_client *client = bed_through(b, options);
    T_HF(HF_OK, hf_latch_set(client, LOCK, 1));
    assert_int_equal(count_down(client), 0);
    assert_int_equal(left_of(client), 0);
    T_HF(HF_OK, hf_latch_set(client, LOCK, count));
    return client;
}

/* Sets a field of a hash to any bytes. */
static void put_field(bed *b, const char *key, const char *field, const char *value) {
    freeReplyObject(t_redis_cmd(b->redis, "HSET %s %s %s", key, field, value));
}

/* ---- In threads ------------------------------------------------------------------------------ */

typedef struct latch_call {
    hf_client *client;
    uint32_t set; /* 0: count down by one (ignored by a wait) */
    bool wait;
    hf_options options;
    hf_hold *hold; /* for `value` */
    const char *value;
    t_threads *thread;
    hf_result result[4];
    char detail[256];
} latch_call;

static latch_call latch_calls[4];

static hf_result make_call(const latch_call *d) {
    if (d->hold) return hf_proclaim(d->hold, d->value, strlen(d->value));
    if (d->wait) return hf_latch_wait(d->client, LOCK, &d->options);
    if (d->set) return hf_latch_set(d->client, LOCK, d->set);
    return hf_latch_count_down(d->client, LOCK, 1, NULL);
}

static void run_call(int index, void *arg) {
    latch_call *d = arg;
    d->result[index] = make_call(d);
    if (index == 0) snprintf(d->detail, sizeof d->detail, "%s", hf_error_detail());
}

static latch_call *begin_call(int slot, latch_call what, int threads) {
    latch_call *d = &latch_calls[slot];
    *d = what;
    d->thread = t_threads_start(threads, run_call, d);
    return d;
}

static bool is_running(const latch_call *d) {
    return t_threads_ended(d->thread) == 0;
}

/* `or` is a second accepted result; it may equal `expected`. */
static void check_ended_or(latch_call *d, hf_result expected, hf_result or) {
    t_threads_join(d->thread, 3 * SOON_MS);
    if (d->result[0] != expected && d->result[0] != or)
        t_fail("the call returned %s, not %s: %s", hf_result_name(d->result[0]),
               hf_result_name(expected), d->detail);
}

static void check_ended(latch_call *d, hf_result expected) {
    check_ended_or(d, expected, expected);
}

/* Begins a wait. It has read the latch once when this returns, so the client's next answer is a
   later one. */
static latch_call *begin_wait(int slot, hf_client *client, const hf_options *options) {
    uint64_t waiting = stats_of(client).waiting;
    latch_call *d =
        begin_call(slot, (latch_call){.client = client, .wait = true, .options = *options}, 1);
    UNTIL(stats_of(client).waiting > waiting);
    (void)left_of(client);
    return d;
}

/* Begins requests that the proxy has received and holds back. */
static latch_call *begin_withheld(bed *b, latch_call what, int threads) {
    t_proxy_withhold(b->proxy, T_TO_SERVER, true);
    uint64_t before = t_proxy_bytes(b->proxy, T_TO_SERVER);
    latch_call *d = begin_call(0, what, threads);
    t_proxy_wait_bytes(b->proxy, T_TO_SERVER, before + 1, SOON_MS);
    return d;
}

static void deliver_late(bed *b, const char *answer) {
    assert_true(t_proxy_deliver(b->proxy) > 0);
    if (!strstr(t_proxy_late_answers(b->proxy), answer))
        t_fail("the server answered the late bytes with: %s", t_proxy_late_answers(b->proxy));
}

/* ---- F12: lost answers ----------------------------------------------------------------------- */

static void F12_a_count_down_whose_answer_was_lost_counts_once(void **state) {
    bed *b = *state;
    hf_client *client = latch_through(b, NULL, 9);
    for (uint32_t i = 1; i < 4; i++) {
        t_proxy_drop_answers(b->proxy, 1);
        assert_int_equal(count_down(client), 9 - i);
    }
    assert_int_equal(left_on_server(b), 6);
}

/* Others have counted down before it is sent again. */
static void F12_a_round_whose_answer_was_lost_begins_once(void **state) {
    bed *b = *state;
    hf_client *client = latch_through(b, NULL, 9), *other = bed_direct(b);
    withhold_bytes(b, COMMAND_CONNECTION, T_TO_CLIENT);
    latch_call *d = begin_call(0, (latch_call){.client = client, .set = 5}, 1);
    UNTIL(left_on_server(b) == 5);
    assert_int_equal(count_down(other), 4);
    cut_connection(b, COMMAND_CONNECTION);
    check_ended(d, HF_OK);
    assert_int_equal(left_of(other), 4);
}

/* A client has one count-down per latch in flight at a time. So a lower request number is never
   sent after a higher one. */
static void F12_counts_of_many_threads_are_each_counted_once(void **state) {
    enum { THREADS = 4, ROUNDS = 5 };
    bed *b = *state;
    hf_client *client = latch_through(b, NULL, 1000);
    for (int i = 0; i < ROUNDS; i++) {
        latch_call *d = begin_withheld(b, (latch_call){.client = client}, THREADS);
        t_sleep_ms(20); /* enough for all to begin, most likely */
        assert_true(t_proxy_detach(b->proxy) > 0);
        check_ended(d, HF_OK);
        for (int j = 0; j < THREADS; j++) assert_int_equal(d->result[j], HF_OK);
        assert_int_equal(left_on_server(b), 1000 - (i + 1) * THREADS);
        t_proxy_deliver(b->proxy);
        assert_int_equal(left_on_server(b), 1000 - (i + 1) * THREADS);
    }
}

enum { BAD_CLIENTS = 3, BAD_THREADS = 9, EACH = 40 };

typedef struct bad_network {
    hf_client *clients[BAD_CLIENTS];
    atomic_int sure, unsure, over;
} bad_network;

static void count_through(int index, void *arg) {
    bad_network *n = arg;
    for (int i = 0; i < EACH; i++) {
        hf_result r = hf_latch_count_down(n->clients[index % BAD_CLIENTS], LOCK, 1, NULL);
        if (r == HF_OK) atomic_fetch_add(&n->sure, 1);
        if (r == HF_UNKNOWN_OUTCOME) atomic_fetch_add(&n->unsure, 1);
    }
    atomic_fetch_add(&n->over, 1);
}

/* Requests and answers of many threads of several clients are lost at random. */
static void F12_counts_through_a_bad_network_are_each_counted_once(void **state) {
    static bad_network n;
    bed *b = *state;
    n = (bad_network){.sure = 0};
    for (int i = 0; i < BAD_CLIENTS; i++) n.clients[i] = bed_through(b, NULL);
    T_HF(HF_OK, hf_latch_set(n.clients[0], LOCK, HF_LATCH_MAX));
    t_threads *threads = t_threads_start(BAD_THREADS, count_through, &n);
    for (unsigned i = 0; atomic_load(&n.over) < BAD_THREADS; i++) {
        int before = atomic_load(&n.sure);
        T_WAIT_UNTIL(atomic_load(&n.sure) > before + (int)(i % 5) ||
                         atomic_load(&n.over) == BAD_THREADS,
                     2 * SOON_MS);
        if (i % 3)
            t_proxy_drop_answers(b->proxy, 1 + i % 2);
        else
            t_proxy_cut(b->proxy);
    }
    t_threads_join(threads, SOON_MS);
    int64_t counted = HF_LATCH_MAX - left_on_server(b);
    int sure = atomic_load(&n.sure);
    assert_in_range(counted, sure, sure + atomic_load(&n.unsure));
    assert_true(sure > 0);
}

static void F12_a_call_that_is_not_answered_is_unknown(void **state) {
    bed *b = *state;
    hf_client *client = latch_through(b,
                                      &(hf_client_options){.command_timeout_ms = t_patience(300),
                                                           .connect_timeout_ms = t_patience(300),
                                                           .outage_ms = t_patience(300)},
                                      9);
    t_proxy_blackhole(b->proxy, true);
    T_HF(HF_UNKNOWN_OUTCOME, hf_latch_count_down(client, LOCK, 1, NULL));
    check_detail("hf_latch_left");
    T_HF(HF_UNREACHABLE, hf_latch_count_down(client, LOCK, 1, NULL)); /* it was not sent */
    assert_int_equal(left_on_server(b), 9);
}

/* ---- F51: late bytes ------------------------------------------------------------------------- */

static void F51_a_late_count_down_counts_once(void **state) {
    bed *b = *state;
    hf_client *client = latch_through(b, NULL, 5);
    latch_call *d = begin_withheld(b, (latch_call){.client = client}, 1);
    assert_true(t_proxy_detach(b->proxy) > 0);
    check_ended(d, HF_OK);
    assert_int_equal(count_down(client), 3);
    deliver_late(b, "*5\r\n:1\r\n");
    assert_int_equal(left_on_server(b), 3);
    assert_int_equal(count_down(client), 2);
}

/* Request numbers are remembered across rounds. */
static void F51_a_late_count_down_does_not_change_the_next_round(void **state) {
    bed *b = *state;
    hf_client *client = latch_through(b, NULL, 1);
    latch_call *d = begin_withheld(b, (latch_call){.client = client}, 1);
    assert_true(t_proxy_detach(b->proxy) > 0);
    check_ended(d, HF_OK);
    T_HF(HF_OK, hf_latch_set(bed_direct(b), LOCK, 7));
    deliver_late(b, "*5\r\n:1\r\n");
    assert_int_equal(left_on_server(b), 7);
}

static void F51_a_late_round_takes_nothing_back(void **state) {
    bed *b = *state;
    hf_client *client = latch_through(b, NULL, 2);
    latch_call *d = begin_withheld(b, (latch_call){.client = client, .set = 5}, 1);
    assert_true(t_proxy_detach(b->proxy) > 0);
    check_ended(d, HF_OK);
    assert_int_equal(count_down(bed_direct(b)), 4);
    deliver_late(b, "*5\r\n:1\r\n");
    assert_int_equal(left_on_server(b), 4);
}

static hf_hold *lead_with(hf_client *client, const char *value, const hf_options *options) {
    hf_hold *hold = NULL;
    T_HF(HF_OK, hf_campaign(client, LOCK, value, strlen(value), options, &hold));
    return hold;
}

static void check_leader_value(hf_client *client, const hf_hold *hold, const char *value) {
    hf_leader_info *info = NULL;
    T_HF(HF_OK, hf_leader(client, LOCK, &info));
    assert_string_equal(info->value, value);
    assert_true(info->token == hf_fence(hold));
    hf_leader_free(info);
}

static void check_nobody(hf_client *client) {
    hf_leader_info *info = NULL;
    T_HF(HF_NOT_HELD, hf_leader(client, LOCK, &info));
}

/* Publishes `value` in a request whose bytes arrive late. */
static hf_hold *lead_and_publish_late(bed *b, hf_client *client, const char *value) {
    hf_hold *hold = lead_with(client, "first", NULL);
    latch_call *d = begin_withheld(b, (latch_call){.hold = hold, .value = value}, 1);
    assert_true(t_proxy_detach(b->proxy) > 0);
    check_ended(d, HF_OK);
    return hold;
}

static void F51_a_late_value_does_not_replace_a_newer_one(void **state) {
    bed *b = *state;
    hf_client *client = bed_through(b, NULL);
    hf_hold *hold = lead_and_publish_late(b, client, "old");
    T_HF(HF_OK, hf_proclaim(hold, "new", 3));
    deliver_late(b, "*2\r\n:1\r\n");
    check_leader_value(client, hold, "new");
    FREE(hold);
}

static void F51_a_late_value_is_not_that_of_the_next_leader(void **state) {
    bed *b = *state;
    hf_client *client = bed_through(b, NULL), *other = bed_direct(b);
    FREE(lead_and_publish_late(b, client, "old"));
    hf_hold *next = lead_with(other, "next", NULL);
    deliver_late(b, "*2\r\n:0\r\n");
    check_leader_value(client, next, "next");
    FREE(next);
    next = TAKE(client); /* of the same client, without a value */
    check_nobody(other);
    FREE(next);
}

/* ---- F19: notifications ---------------------------------------------------------------------- */

/* With a working notification the wait ends before its next own check. */
static void F19_a_waiter_for_a_latch_is_notified(void **state) {
    bed *b = *state;
    hf_client *client = bed_subscriber(b), *other = bed_direct(b);
    for (int i = 0; i < 5; i++) {
        T_HF(HF_OK, hf_latch_set(other, LOCK, 1));
        latch_call *d = begin_wait(0, client, &FOREVER);
        assert_int_equal(t_redis_int(b->redis, "EXISTS " LATCH "w"), 1);
        assert_int_equal(count_down(other), 0);
        T_WAIT_UNTIL(!is_running(d), 2000);
        check_ended(d, HF_OK);
        assert_int_equal(t_redis_int(b->redis, "EXISTS " LATCH "w"), 0);
    }
}

static void F19_a_lost_message_does_not_block_a_wait(void **state) {
    bed *b = *state;
    hf_client *client = bed_subscriber_through(b, NULL);
    T_HF(HF_OK, hf_latch_set(client, LOCK, 1));
    latch_call *d = begin_wait(0, client, &FOREVER);
    t_proxy_select(b->proxy, NOTIFICATION_CONNECTION);
    t_proxy_blackhole(b->proxy, true);
    t_proxy_select(b->proxy, 0);
    assert_int_equal(count_down(bed_direct(b)), 0);
    T_WAIT_UNTIL(!is_running(d), 2 * SOON_MS);
    check_ended(d, HF_OK);
}

static void F19_a_waiter_that_cannot_subscribe_is_released(void **state) {
    bed *b = *state;
    hf_client *client = bed_subscriber_through(b, NULL);
    T_HF(HF_OK, hf_latch_set(client, LOCK, 1));
    latch_call *d = begin_wait(0, client, &FOREVER);
    t_proxy_refuse(b->proxy, true);
    cut_connection(b, NOTIFICATION_CONNECTION);
    UNTIL(subscriber_count(b) == 0);
    assert_int_equal(count_down(bed_direct(b)), 0);
    UNTIL(!is_running(d));
    check_ended(d, HF_OK);
}

typedef struct seen_leader {
    atomic_int count;
    _Atomic uint64_t token;
} seen_leader;

static void note_leader(const hf_leader_info *leader, void *arg) {
    seen_leader *s = arg;
    atomic_store(&s->token, leader ? leader->token : 0);
    atomic_fetch_add(&s->count, 1);
}

static void F19_an_observer_needs_no_message(void **state) {
    static seen_leader s;
    bed *b = *state;
    hf_client *client = bed_subscriber_through(b, NULL), *other = bed_direct(b);
    hf_observer *observer = NULL;
    s = (seen_leader){.count = 0};
    T_HF(HF_OK, hf_observe(client, LOCK, note_leader, &s, &observer));
    UNTIL(atomic_load(&s.count) == 1);
    t_proxy_select(b->proxy, NOTIFICATION_CONNECTION);
    t_proxy_blackhole(b->proxy, true);
    t_proxy_select(b->proxy, 0);
    hf_hold *hold = lead_with(other, "x", NULL);
    UNTIL(atomic_load(&s.token) == hf_fence(hold));
    FREE(hold);
    UNTIL(atomic_load(&s.token) == 0);
    hold = lead_with(other, "x", &(hf_options){.lease_ms = t_patience(1500), .flags = HF_NO_RENEW});
    UNTIL(atomic_load(&s.token) == hf_fence(hold));
    UNTIL(atomic_load(&s.token) == 0); /* its lease has ended */
    (void)hf_release(hold);
    hf_unobserve(observer);
}

/* ---- F17: outages ---------------------------------------------------------------------------- */

static void F17_a_wait_and_a_count_down_survive_an_outage(void **state) {
    bed *b = *state;
    hf_client *client = latch_through(b, NULL, 2);
    latch_call *d = begin_wait(0, client, &FOREVER);
    t_proxy_refuse(b->proxy, true);
    t_proxy_cut(b->proxy);
    latch_call *counts = begin_call(1, (latch_call){.client = client}, 1);
    t_sleep_ms(300); /* time in which both could fail, and must not */
    assert_true(is_running(d) && is_running(counts));
    t_proxy_refuse(b->proxy, false);
    check_ended(counts, HF_OK);
    assert_int_equal(left_on_server(b), 1);
    assert_int_equal(count_down(bed_direct(b)), 0);
    check_ended(d, HF_OK);
}

static void F17_an_outage_is_tolerated_for_its_limit(void **state) {
    bed *b = *state;
    hf_client *client = latch_through(b,
                                      &(hf_client_options){.command_timeout_ms = t_patience(300),
                                                           .connect_timeout_ms = t_patience(300),
                                                           .outage_ms = t_patience(300)},
                                      2);
    latch_call *d = begin_wait(0, client, &FOREVER);
    t_proxy_refuse(b->proxy, true);
    t_proxy_cut(b->proxy);
    check_ended(d, HF_UNREACHABLE);
    T_HF(HF_UNREACHABLE, hf_latch_wait(client, LOCK, &(hf_options){.wait_ms = 50}));
    T_HF(HF_UNREACHABLE, hf_latch_wait(client, LOCK, NULL));
    T_HF(HF_UNREACHABLE, hf_latch_count_down(client, LOCK, 1, NULL));
    t_proxy_refuse(b->proxy, false);
    UNTIL(hf_latch_wait(client, LOCK, NULL) == HF_BUSY);
    assert_int_equal(left_on_server(b), 2);
}

/* An unanswered request must not delay the end of a wait or a cancel. */
static void F17_a_silent_server_does_not_delay_the_end_of_a_wait(void **state) {
    bed *b = *state;
    hf_cancel *cancel = hf_cancel_new();
    hf_client *client = latch_through(b, NULL, 2);
    t_proxy_blackhole(b->proxy, true);
    int64_t began = t_now_ms();
    T_HF(HF_UNREACHABLE, hf_latch_wait(client, LOCK, &(hf_options){.wait_ms = 100}));
    uint64_t waiting = stats_of(client).waiting;
    latch_call *d = begin_call(0,
                               (latch_call){.client = client,
                                            .wait = true,
                                            .options = {.wait_ms = HF_FOREVER, .cancel = cancel}},
                               1);
    UNTIL(stats_of(client).waiting > waiting);
    hf_cancel_fire(cancel);
    check_ended(d, HF_CANCELLED);
    assert_in_range(t_now_ms() - began, 100, t_patience(4000)); /* the command timeout is 5 s */
    bed_close(b, client); /* abandoned requests are freed with it */
    hf_cancel_free(cancel);
}

/* Close does not wait for a server that is away, whatever the calls were doing. */
static void F47_a_close_ends_calls_that_wait_for_a_lost_server(void **state) {
    bed *b = *state;
    hf_client *client = latch_through(b, NULL, 2);
    latch_call *d = begin_wait(0, client, &FOREVER);
    t_proxy_refuse(b->proxy, true);
    t_proxy_cut(b->proxy);
    latch_call *counts = begin_call(1, (latch_call){.client = client}, 2), *sets;
    sets = begin_call(2, (latch_call){.client = client, .set = 5}, 1);
    t_sleep_ms(50); /* enough for all to begin, most likely */
    int64_t began = t_now_ms();
    bed_close(b, client);
    assert_in_range(t_now_ms() - began, 0, t_patience(3000));
    check_ended(d, HF_CLOSED);
    /* if it was sent before the break was noticed */
    check_ended_or(counts, HF_CLOSED, HF_UNKNOWN_OUTCOME);
    check_ended_or(sets, HF_CLOSED, HF_UNKNOWN_OUTCOME);
    assert_int_equal(left_on_server(b), 2);
}

static void F17_an_observer_continues_after_an_outage(void **state) {
    static seen_leader s;
    bed *b = *state;
    hf_client *client = bed_through(b, NULL), *other = bed_direct(b);
    hf_observer *observer = NULL;
    s = (seen_leader){.count = 0};
    hf_hold *hold = lead_with(other, "before", NULL);
    T_HF(HF_OK, hf_observe(client, LOCK, note_leader, &s, &observer));
    UNTIL(atomic_load(&s.token) == hf_fence(hold));
    t_proxy_refuse(b->proxy, true);
    t_proxy_cut(b->proxy);
    FREE(hold);
    hold = lead_with(other, "after", NULL);
    t_sleep_ms(300); /* nothing can be read meanwhile, and nothing is reported */
    assert_int_equal(atomic_load(&s.count), 1);
    t_proxy_refuse(b->proxy, false);
    UNTIL(atomic_load(&s.token) == hf_fence(hold));
    FREE(hold);
    hf_unobserve(observer);
}

/* ---- F22, F23, F25: servers that lose data --------------------------------------------------- */

static void F22_a_latch_lost_in_a_restart_is_reported(void **state) {
    bed *b = *state;
    hf_client *client = bed_direct(b);
    T_HF(HF_OK, hf_latch_set(client, LOCK, 2));
    latch_call *d = begin_wait(0, client, &FOREVER);
    t_redis_restart(b->redis);
    check_ended(d, HF_NOT_HELD);
    if (!strstr(d->detail, "when the wait began")) t_fail("%s", d->detail);
    UNTIL(hf_latch_count_down(client, LOCK, 1, NULL) == HF_NOT_HELD);
}

static const t_redis_options DURABLE = {.appendonly = true};

static void F23_a_latch_outlives_a_restart_with_its_data(void **state) {
    bed *b = *state;
    hf_client *client = bed_direct(b);
    T_HF(HF_OK, hf_latch_set(client, LOCK, 2));
    assert_int_equal(count_down(client), 1);
    latch_call *d = begin_wait(0, client, &FOREVER);
    t_redis_restart(b->redis);
    assert_int_equal(count_down(client), 0);
    check_ended(d, HF_OK);
}

static void F25_a_flush_ends_a_wait_with_not_held(void **state) {
    bed *b = *state;
    hf_client *client = bed_direct(b);
    T_HF(HF_OK, hf_latch_set(client, LOCK, 2));
    latch_call *d = begin_wait(0, client, &FOREVER);
    run_command(b, "FLUSHALL");
    T_HF(HF_NOT_HELD, hf_latch_count_down(client, LOCK, 1, NULL));
    check_ended(d, HF_NOT_HELD);
}

/* The latch was set again before any client read it. Its round ids are higher than the lost
   ones. */
static void F25_a_latch_set_again_after_a_flush_is_waited_for(void **state) {
    bed *b = *state;
    hf_client *client = bed_subscriber(b), *other = bed_direct(b);
    T_HF(HF_OK, hf_latch_set(other, LOCK, 1));
    assert_int_equal(count_down(other), 0);
    T_HF(HF_OK, hf_latch_set(other, LOCK, 2));
    latch_call *d = begin_wait(0, client, &FOREVER);
    freeReplyObject(t_redis_eval(b->redis,
                                 "redis.call('FLUSHALL') redis.call('HSET', KEYS[1], 'r', ARGV[1], "
                                 "'c', '1', 'd', '0')",
                                 1, LATCH, "9007199254740000", NULL));
    t_sleep_ms(200); /* time in which it could end, and must not */
    assert_true(is_running(d));
    assert_int_equal(count_down(other), 0);
    check_ended(d, HF_OK);
}

static void F25_after_a_flush_nobody_leads_and_no_value_comes_back(void **state) {
    static seen_leader s;
    bed *b = *state;
    hf_client *client = bed_direct(b), *other = bed_direct(b);
    hf_observer *observer = NULL;
    s = (seen_leader){.count = 0};
    hf_hold *hold = lead_with(
        client, "x",
        &(hf_options){.lease_ms = t_patience(900), .on_lost = count_loss, .arg = &b->loss});
    T_HF(HF_OK, hf_observe(other, LOCK, note_leader, &s, &observer));
    UNTIL(atomic_load(&s.token) == hf_fence(hold));
    run_command(b, "FLUSHALL");
    T_HF(HF_LOST, hf_proclaim(hold, "y", 1));
    check_nobody(other);
    UNTIL(atomic_load(&s.token) == 0);
    assert_false(on_server(b));
    check_lost(b, hold, "no longer has it");
    hold = lead_with(client, "z", NULL);
    UNTIL(atomic_load(&s.token) == hf_fence(hold));
    FREE(hold);
    hf_unobserve(observer);
}

/* ---- F27, F28, B30: the server --------------------------------------------------------------- */

static void F27_a_latch_is_counted_when_memory_is_out(void **state) {
    bed *b = *state;
    hf_client *client = bed_direct(b), *other = bed_subscriber(b);
    T_HF(HF_OK, hf_latch_set(client, LOCK, 3));
    latch_call *d = begin_wait(0, other, &FOREVER);
    set_config(b, "maxmemory", "1");
    assert_int_equal(count_down(client), 2);
    assert_int_equal(count_down(other), 1);
    T_HF(HF_BUSY, hf_latch_wait(client, LOCK, NULL));
    T_HF(HF_TIMEOUT, hf_latch_wait(client, LOCK, &(hf_options){.wait_ms = 50}));
    T_HF(HF_REFUSED, hf_latch_set(client, "other", 3));
    assert_int_equal(count_down(client), 0);
    check_ended(d, HF_OK);
    T_HF(HF_OK, hf_latch_set(client, LOCK, 1)); /* it exists */
    assert_int_equal(count_down(client), 0);
    set_config(b, "maxmemory", "0");
}

static void F28_a_key_of_another_type_is_reported(void **state) {
    bed *b = *state;
    hf_client *client = bed_direct(b);
    uint32_t left;
    run_command(b, "SET " LATCH " precious");
    T_HF(HF_PROTOCOL, hf_latch_set(client, LOCK, 1));
    T_HF(HF_PROTOCOL, hf_latch_count_down(client, LOCK, 1, NULL));
    T_HF(HF_PROTOCOL, hf_latch_wait(client, LOCK, &FOREVER));
    T_HF(HF_PROTOCOL, hf_latch_left(client, LOCK, &left));
    assert_string_equal(t_redis_str(b->redis, "GET " LATCH), "precious");
}

/* A value is valid only under the token with which it was written, whatever else the hold
   contains. */
static void F28_a_value_under_another_token_is_ignored(void **state) {
    bed *b = *state;
    hf_client *client = bed_direct(b);
    hf_hold *hold = lead_with(client, "mine", NULL);
    check_leader_value(client, hold, "mine");
    put_field(b, KEY, "v", "1794777709466423 1 forged");
    check_nobody(client);
    put_field(b, KEY, "v", "nonsense");
    check_nobody(client);
    T_HF(HF_OK, hf_proclaim(hold, "mine", 4));
    check_leader_value(client, hold, "mine");
    FREE(hold);
}

/* Everything expires by itself, and the memory kept per client does not grow. */
static void B30_latches_and_watchers_expire(void **state) {
    bed *b = *state;
    hf_client *client = bed_direct(b);
    T_HF(HF_OK, hf_latch_set(client, LOCK, 2));
    T_HF(HF_TIMEOUT, hf_latch_wait(client, LOCK, &(hf_options){.wait_ms = 200}));
    assert_in_range(t_redis_int(b->redis, "PTTL " LATCH), 86400000, 90000000);
    assert_in_range(t_redis_int(b->redis, "PTTL " LATCH "w"), 1, 60000);
    run_command(b, "PEXPIRE " LATCH " 1000000");
    T_HF(HF_BUSY, hf_latch_wait(client, LOCK, NULL)); /* a read counts as use */
    assert_in_range(t_redis_int(b->redis, "PTTL " LATCH), 86400000, 90000000);
    put_field(b, LATCH, "p", "0");
    put_field(b, LATCH, "long-gone", "7 1494777709466423");
    put_field(b, LATCH, "late", "7 9007199254740991");
    put_field(b, LATCH "w", "p", "0");
    put_field(b, LATCH "w", "long-gone", "7 1494777709466423");
    assert_int_equal(count_down(bed_direct(b)), 1);
    T_HF(HF_TIMEOUT, hf_latch_wait(client, LOCK, &(hf_options){.wait_ms = 200}));
    assert_int_equal(t_redis_int(b->redis, "HEXISTS " LATCH " late"), 1);
    assert_int_equal(t_redis_int(b->redis, "HEXISTS " LATCH " long-gone"), 0);
    assert_int_equal(t_redis_int(b->redis, "HEXISTS " LATCH "w long-gone"), 0);
}

static void F29_scripts_are_sent_again_when_they_are_forgotten(void **state) {
    bed *b = *state;
    hf_client *client = bed_direct(b);
    T_HF(HF_OK, hf_latch_set(client, LOCK, 2));
    run_command(b, "SCRIPT FLUSH");
    assert_int_equal(count_down(client), 1);
    run_command(b, "SCRIPT FLUSH");
    assert_int_equal(left_of(client), 1);
    hf_hold *hold = TAKE(client);
    run_command(b, "SCRIPT FLUSH");
    T_HF(HF_OK, hf_proclaim(hold, "x", 1));
    run_command(b, "SCRIPT FLUSH");
    check_leader_value(client, hold, "x");
    FREE(hold);
}

static const struct CMUnitTest tests[] = {
    FAULT_TEST(F12_a_count_down_whose_answer_was_lost_counts_once),
    FAULT_TEST(F12_a_round_whose_answer_was_lost_begins_once),
    FAULT_TEST(F12_counts_of_many_threads_are_each_counted_once),
    FAULT_TEST(F12_counts_through_a_bad_network_are_each_counted_once),
    FAULT_TEST(F12_a_call_that_is_not_answered_is_unknown),
    FAULT_TEST(F51_a_late_count_down_counts_once),
    FAULT_TEST(F51_a_late_count_down_does_not_change_the_next_round),
    FAULT_TEST(F51_a_late_round_takes_nothing_back),
    FAULT_TEST(F51_a_late_value_does_not_replace_a_newer_one),
    FAULT_TEST(F51_a_late_value_is_not_that_of_the_next_leader),
    FAULT_TEST(F19_a_waiter_for_a_latch_is_notified),
    FAULT_TEST(F19_a_lost_message_does_not_block_a_wait),
    FAULT_TEST(F19_a_waiter_that_cannot_subscribe_is_released),
    FAULT_TEST(F19_an_observer_needs_no_message),
    FAULT_TEST(F17_a_wait_and_a_count_down_survive_an_outage),
    FAULT_TEST(F17_an_outage_is_tolerated_for_its_limit),
    FAULT_TEST(F17_a_silent_server_does_not_delay_the_end_of_a_wait),
    FAULT_TEST(F47_a_close_ends_calls_that_wait_for_a_lost_server),
    FAULT_TEST(F17_an_observer_continues_after_an_outage),
    FAULT_TEST(F22_a_latch_lost_in_a_restart_is_reported),
    FAULT_TEST_ON(F23_a_latch_outlives_a_restart_with_its_data, &DURABLE),
    FAULT_TEST(F25_a_flush_ends_a_wait_with_not_held),
    FAULT_TEST(F25_a_latch_set_again_after_a_flush_is_waited_for),
    FAULT_TEST(F25_after_a_flush_nobody_leads_and_no_value_comes_back),
    FAULT_TEST(F27_a_latch_is_counted_when_memory_is_out),
    FAULT_TEST(F28_a_key_of_another_type_is_reported),
    FAULT_TEST(F28_a_value_under_another_token_is_ignored),
    FAULT_TEST(B30_latches_and_watchers_expire),
    FAULT_TEST(F29_scripts_are_sent_again_when_they_are_forgotten),
};

FAULT_MAIN(tests)
