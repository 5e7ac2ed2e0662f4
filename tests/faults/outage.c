/* SPDX-License-Identifier: Apache-2.0 */
/* Silence and absence: half-open connections (F17), servers that are away, and how long that is
   tolerated. */
#include "fault.h"

/* ---- F17: every operation has a deadline ----------------------------------------------------- */

/* What a client does on a connection that has silently gone dead. */
typedef struct silent_call {
    const char *name;
    void (*run)(hf_client *client, hf_hold *hold);
    bool releases; /* `run` has released the hold */
} silent_call;

static void acquire_unanswered(hf_client *client, int64_t wait_ms) {
    hf_hold *other = NULL;
    T_HF(HF_UNKNOWN_OUTCOME,
         hf_acquire(client, "other", &(hf_options){.wait_ms = wait_ms}, &other));
    assert_null(other);
}

static void try_once(hf_client *client, hf_hold *hold) {
    (void)hold;
    acquire_unanswered(client, 0);
}

static void wait_a_while(hf_client *client, hf_hold *hold) {
    (void)hold;
    acquire_unanswered(client, t_patience(200));
}

static void wait_for_ever(hf_client *client, hf_hold *hold) {
    (void)hold;
    acquire_unanswered(client, HF_FOREVER);
}

static void release_hold(hf_client *client, hf_hold *hold) {
    (void)client;
    T_HF(HF_UNKNOWN_OUTCOME, hf_release(hold));
}

static void extend_hold(hf_client *client, hf_hold *hold) {
    (void)client;
    T_HF(HF_UNKNOWN_OUTCOME, hf_extend(hold, t_patience(60000)));
}

static void inspect_lock(hf_client *client, hf_hold *hold) {
    hf_info *info = NULL;
    (void)hold;
    T_HF(HF_UNREACHABLE, hf_inspect(client, LOCK, &info));
    assert_null(info);
}

static void break_it(hf_client *client, hf_hold *hold) {
    (void)hold;
    T_HF(HF_UNKNOWN_OUTCOME, hf_break(client, LOCK, 0));
}

static void do_nothing(hf_client *client, hf_hold *hold) {
    (void)client, (void)hold;
}

static void check_call(bed *b, const silent_call *d) {
    hf_client *client = bed_through(b, &(hf_client_options){.command_timeout_ms = t_patience(300),
                                                            .connect_timeout_ms = t_patience(300),
                                                            .outage_ms = t_patience(300)});
    hf_hold *hold = TAKE(client, .wait_ms = t_patience(SOON_MS), .lease_ms = t_patience(60000));
    t_proxy_blackhole(b->proxy, true);
    int64_t began = t_now_ms();
    d->run(client, hold);
    bed_close(b, client);
    if (t_now_ms() - began > t_patience(SOON_MS)) t_fail("%s took too long", d->name);
    if (!d->releases) T_HF(HF_CLOSED, hf_release(hold));
    t_proxy_blackhole(b->proxy, false);
    t_proxy_cut(b->proxy);
    freeReplyObject(t_redis_cmd(b->redis, "DEL " KEY));
}

static void F17_on_a_half_open_connection_everything_has_a_deadline(void **state) {
    static const silent_call silent_calls[] = {
        {"a try", try_once, false},        {"a wait", wait_a_while, false},
        {"hf_lock", wait_for_ever, false}, {"hf_release", release_hold, true},
        {"hf_extend", extend_hold, false}, {"hf_inspect", inspect_lock, false},
        {"hf_break", break_it, false},     {"hf_close", do_nothing, false},
    };
    for (size_t i = 0; i < sizeof silent_calls / sizeof *silent_calls; i++)
        check_call(*state, &silent_calls[i]);
}

/* A hold on such a connection ends at its deadline, and the client reconnects by itself. */
static void F17_a_half_open_connection_is_closed_and_reopened(void **state) {
    bed *b = *state;
    hf_client *client = bed_through(b, &(hf_client_options){.command_timeout_ms = t_patience(200)});
    hf_hold *hold = TAKE(client, .lease_ms = t_patience(3000));
    t_proxy_blackhole(b->proxy, true);
    /* the renewal was not answered: another connection */
    t_proxy_wait_connections(b->proxy, 2, SOON_MS);
    t_proxy_blackhole(b->proxy, false);
    t_proxy_cut(b->proxy);
    UNTIL(stats_of(client).reconnects >= 1);
    check_held(b, hold);
    FREE(hold);
}

/* ---- Outage rules ---------------------------------------------------------------------------- */

static void outage_the_first_connect_fails_fast(void **state) {
    char url[64];
    hf_client *client = NULL;
    (void)state;
    snprintf(url, sizeof url, "redis://" T_HOST ":%u", t_net_free_port());
    int64_t began = t_now_ms();
    T_HF(HF_UNREACHABLE, hf_open(with_option(url, "connect_timeout=1h"), NULL, &client));
    assert_null(client);
    check_detail("refused");
    assert_true(t_now_ms() - began < t_patience(SOON_MS));
}

static void outage_a_wait_survives_a_restart(void **state) {
    bed *b = *state;
    hf_client *client = bed_direct(b);
    FREE(TAKE(client));
    t_redis_kill9(b->redis);
    attempt *a = attempt_start(b, client, &(hf_options){.wait_ms = t_patience(20000)});
    UNTIL(stats_of(client).waiting == 1);
    t_redis_restart(b->redis);
    hf_hold *hold = attempt_end(a, HF_OK);
    check_held(b, hold);
    FREE(hold);
}

/* The server is away, and the client has noticed. */
static hf_client *client_without_server(bed *b, int64_t outage_ms) {
    hf_client *client = bed_open(
        b, t_redis_url(b->redis),
        &(hf_client_options){.outage_ms = outage_ms, .command_timeout_ms = t_patience(200)});
    hf_info *info = NULL;
    FREE(TAKE(client));
    t_redis_kill9(b->redis);
    UNTIL(hf_inspect(client, LOCK, &info) == HF_UNREACHABLE);
    return client;
}

static void outage_a_try_fails_at_once(void **state) {
    hf_client *client = client_without_server(*state, 3600000);
    int64_t began = t_now_ms();
    REFUSED(HF_UNREACHABLE, client, .wait_ms = 0);
    assert_true(t_now_ms() - began < t_patience(SOON_MS));
}

static void outage_limit_bounds_an_endless_wait(void **state) {
    hf_client *client = client_without_server(*state, 300);
    int64_t began = t_now_ms();
    REFUSED(HF_UNREACHABLE, client, .wait_ms = HF_FOREVER);
    assert_true(t_now_ms() - began >= 300);
    assert_string_not_equal(hf_error_detail(), "");
}

static void outage_never_makes_a_wait_longer(void **state) {
    hf_client *client = client_without_server(*state, 3600000);
    int64_t began = t_now_ms();
    REFUSED(HF_UNREACHABLE, client, .wait_ms = 200);
    assert_true(t_now_ms() - began >= 200);
}

/* Each wait counts the outage from its own beginning. A later wait does not fail with an earlier
   one. */
static void outage_counts_for_each_wait_from_its_beginning(void **state) {
    bed *b = *state;
    hf_client *client = client_without_server(b, 500);
    attempt *first = attempt_start(b, client, &(hf_options){.wait_ms = HF_FOREVER});
    UNTIL(stats_of(client).waiting == 1);
    t_sleep_ms(250);
    attempt *second = attempt_start(b, client, &(hf_options){.wait_ms = HF_FOREVER});
    attempt_end(first, HF_UNREACHABLE);
    attempt_end(second, HF_UNREACHABLE);
    assert_true(first->took_ms >= 500);
    assert_true(second->took_ms >= 500);
}

/* ---- Reconnection ---------------------------------------------------------------------------- */

static void reconnect_by_itself_after_a_second(void **state) {
    bed *b = *state;
    hf_client *client = bed_through(b, NULL);
    hf_hold *hold = TAKE(client, .lease_ms = t_patience(30000));
    uint64_t renewed = stats_of(client).renewed;
    t_proxy_refuse(b->proxy, true);
    t_proxy_cut(b->proxy);
    t_sleep_ms(1000);
    t_proxy_refuse(b->proxy, false);
    UNTIL(stats_of(client).renewed > renewed); /* nobody called: the background thread did it */
    check_held(b, hold);
    FREE(hold);
}

static void reconnect_at_growing_intervals(void **state) {
    bed *b = *state;
    hf_client *client = bed_through(b, NULL);
    uint64_t before = t_proxy_connections(b->proxy);
    t_redis_kill9(b->redis); /* the proxy accepts, and then cannot connect */
    t_sleep_ms(1000);
    uint64_t tries = t_proxy_connections(b->proxy) - before;
    assert_in_range(tries, 2, 20);
    t_redis_restart(b->redis);
    FREE(TAKE(client, .wait_ms = t_patience(20000)));
}

/* A client that never acquires has no background thread. It must still reconnect. */
static void reconnect_of_a_client_that_only_inspects(void **state) {
    bed *b = *state;
    hf_client *client = bed_direct(b);
    hf_info *info = NULL;
    t_redis_restart(b->redis);
    UNTIL(hf_inspect(client, LOCK, &info) == HF_OK);
    hf_info_free(info);
}

/* The server answered in time, but nobody read the answer while the process slept. On a busy
   machine an answer may really be late, so one good client is enough. */
static void a_client_that_slept_since_it_was_opened_works(void **state) {
    bed *b = *state;
    hf_client_options options = {.command_timeout_ms = t_patience(1000)};
    uint64_t reconnects = 1;
    for (int i = 0; reconnects && i < 4; i++) {
        hf_client *client = bed_open(b, t_redis_url(b->redis), &options);
        t_sleep_ms(t_patience(1100));
        FREE(TAKE(client));
        reconnects = stats_of(client).reconnects;
    }
    assert_int_equal(reconnects, 0);
}

static const struct CMUnitTest tests[] = {
    FAULT_TEST(a_client_that_slept_since_it_was_opened_works),
    FAULT_TEST(F17_on_a_half_open_connection_everything_has_a_deadline),
    FAULT_TEST(F17_a_half_open_connection_is_closed_and_reopened),
    FAULT_TEST_ON(outage_the_first_connect_fails_fast, &BED_BARE),
    FAULT_TEST(outage_a_wait_survives_a_restart),
    FAULT_TEST(outage_a_try_fails_at_once),
    FAULT_TEST(outage_limit_bounds_an_endless_wait),
    FAULT_TEST(outage_never_makes_a_wait_longer),
    FAULT_TEST(outage_counts_for_each_wait_from_its_beginning),
    FAULT_TEST(reconnect_by_itself_after_a_second),
    FAULT_TEST(reconnect_at_growing_intervals),
    FAULT_TEST(reconnect_of_a_client_that_only_inspects),
};

FAULT_MAIN(tests)
