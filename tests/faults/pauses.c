/* SPDX-License-Identifier: Apache-2.0 */
/* Time that passes unnoticed in the network, in the server or in the client (F1, F4, F5, F30). */
#include "fault.h"

#include <unistd.h>

static int64_t short_lease_ms(void) {
    return t_patience(300);
}

/* ---- F1: the answer comes when the lease is over --------------------------------------------- */

typedef void stall_fn(bed *b, bool on);

static void stall_requests(bed *b, bool on) {
    t_proxy_withhold(b->proxy, T_TO_SERVER, on);
}

static void stall_server(bed *b, bool on) {
    if (on)
        t_redis_stop(b->redis);
    else
        t_redis_cont(b->redis);
}

/* The server executes the request two leases after it was sent, and grants a full lease from
   then. */
static attempt *granted_late(bed *b, hf_client *client, stall_fn *stall, int64_t wait_ms) {
    calls_reset(b);
    stall(b, true);
    attempt *late =
        attempt_sent(b, client, &(hf_options){.wait_ms = wait_ms, .lease_ms = short_lease_ms()});
    t_sleep_ms(2 * short_lease_ms());
    stall(b, false);
    return late;
}

/* An expired key is not deleted with DEL. One DEL means it was released. */
static void check_released_not_expired(bed *b) {
    UNTIL(call_count(b, "del") == 1);
    assert_false(on_server(b));
}

static void check_not_acquired(bed *b, stall_fn *stall) {
    hf_client *client = bed_through(b, NULL);
    attempt_end(granted_late(b, client, stall, 0), HF_UNKNOWN_OUTCOME);
    check_released_not_expired(b);
    assert_int_equal(stats_of(client).held, 0);
    assert_int_equal(stats_of(client).acquired, 1); /* from the warm-up */
}

static void F01_a_grant_answered_after_its_lease_is_no_lock_and_is_released(void **state) {
    check_not_acquired(*state, stall_requests);
}

static void F01_a_server_stopped_for_a_lease_grants_no_lock(void **state) {
    check_not_acquired(*state, stall_server);
}

static void F01_a_wait_continues_after_a_grant_that_came_too_late(void **state) {
    bed *b = *state;
    hf_client *client = bed_through(b, NULL);
    hf_hold *hold = attempt_end(granted_late(b, client, stall_requests, SOON_MS), HF_OK);
    check_held(b, hold);
    assert_int_equal(call_count(b, "set"), 2); /* two grants; the second replaced the first */
    FREE(hold);
    assert_false(on_server(b));
}

static void F01_an_answer_after_the_lease_does_not_affect_the_next_holder(void **state) {
    bed *b = *state;
    hf_client *paused = bed_through(b, NULL), *next = bed_direct(b);
    t_proxy_withhold(b->proxy, T_TO_CLIENT, true);
    attempt *late = attempt_start(b, paused, &(hf_options){.lease_ms = short_lease_ms()});
    UNTIL(on_server(b));
    hf_hold *hold = TAKE(next, .wait_ms = SOON_MS);
    t_proxy_withhold(b->proxy, T_TO_CLIENT, false);
    attempt_end(late, HF_UNKNOWN_OUTCOME);
    hf_info *info = NULL;
    T_HF(HF_OK, hf_inspect(paused, LOCK, &info)); /* after everything the late answer triggered */
    assert_true(info->token == hf_fence(hold));
    hf_info_free(info);
    check_held(b, hold);
    FREE(hold);
}

/* ---- Where deadlines count from -------------------------------------------------------------- */

/* However slow the answer is, the server's lease began no earlier than the request was sent. */
static void F01_deadlines_count_from_before_the_request_was_sent(void **state) {
    bed *b = *state;
    hf_client *client = bed_through(b, NULL);
    int64_t delay_ms = 600, lease_ms = 20000; /* the margin is less, even doubled */
    t_proxy_delay(b->proxy, T_TO_CLIENT, delay_ms);
    hf_hold *hold = TAKE(client, .lease_ms = lease_ms);
    assert_in_range(hf_remaining_ms(hold), 1, lease_ms - delay_ms);
    T_HF(HF_OK, hf_extend(hold, 2 * lease_ms));
    assert_in_range(hf_remaining_ms(hold), lease_ms, 2 * lease_ms - delay_ms);
    FREE(hold);
}

static void F10_a_margin_is_kept_for_clocks_that_drift(void **state) {
    bed *b = *state;
    hf_hold *hold = TAKE(bed_direct(b), .lease_ms = 100000);
    assert_in_range(hf_remaining_ms(hold), 50000, 99000);
    assert_true(server_ttl_ms(b) > hf_remaining_ms(hold));
    FREE(hold);
}

/* ---- F4: no thread runs ---------------------------------------------------------------------- */

typedef struct gate {
    atomic_int blocked, open;
} gate;

/* A log callback that does not return. It blocks the background thread, which calls it. */
static void block_background_thread(int32_t level, const char *line, void *arg) {
    gate *g = arg;
    (void)level, (void)line;
    if (gettid() == getpid()) return;
    atomic_store(&g->blocked, 1);
    while (!atomic_load(&g->open)) t_sleep_ms(1);
}

static void F04_held_is_right_while_the_background_thread_is_starved(void **state) {
    static gate g;
    bed *b = *state;
    g = (gate){0};
    hf_client *client =
        bed_through(b, &(hf_client_options){.log = block_background_thread, .log_arg = &g});
    int64_t lease_ms = t_patience(600), began = t_now_ms();
    hf_hold *hold = TAKE(client, .lease_ms = lease_ms);
    t_proxy_refuse(b->proxy, true);
    t_proxy_cut(b->proxy);
    UNTIL(atomic_load(&g.blocked));
    assert_int_equal(hf_held(hold), 1);
    UNTIL(!hf_held(hold));
    assert_true(t_now_ms() - began >= lease_ms * 9 / 10);
    assert_null(hf_why_lost(hold)); /* nothing else has noticed yet */
    assert_int_equal(hf_remaining_ms(hold), 0);
    T_HF(HF_LOST, hf_release(hold));
    atomic_store(&g.open, 1);
}

static void F04_a_hold_without_confirmed_renewals_ends_at_the_deadline(void **state) {
    bed *b = *state;
    hf_client *client = bed_through(b, NULL);
    int64_t lease_ms = t_patience(500), began = t_now_ms();
    hf_hold *hold = TAKE(client, .lease_ms = lease_ms, .on_lost = count_loss, .arg = &b->loss);
    int64_t left = hf_remaining_ms(hold), ttl = server_ttl_ms(b);
    t_proxy_withhold(b->proxy, T_TO_CLIENT, true);
    UNTIL(ttl_grew(b, &ttl));
    while (hf_held(hold)) {
        assert_true(hf_remaining_ms(hold) <= left);
        left = hf_remaining_ms(hold);
    }
    assert_true(t_now_ms() - began >= lease_ms * 9 / 10);
    assert_true(on_server(b)); /* the server executed the renewal, so its lease runs longer */
    check_lost(b, hold, "did not confirm a renewal");
    t_proxy_withhold(b->proxy, T_TO_CLIENT, false);
    UNTIL(!on_server(b));
}

/* ---- F5: work that outlives its bound -------------------------------------------------------- */

static void F05_max_hold_stops_the_renewals_and_is_reported(void **state) {
    bed *b = *state;
    hf_client *client = bed_direct(b);
    int64_t bound_ms = t_patience(2000), began = t_now_ms();
    int64_t delay_ms = t_patience(400); /* of a renewal: its lease begins when it arrives */
    hf_hold *hold = TAKE(client, .lease_ms = t_patience(900), .max_hold_ms = bound_ms,
                         .on_lost = count_loss, .arg = &b->loss);
    int64_t taken = t_now_ms();
    while (hf_held(hold)) {
        /* read before the call, because this process may be delayed after it */
        int64_t read_at = t_now_ms();
        int64_t ttl = server_ttl_ms(b);
        assert_true(read_at + ttl <= taken + bound_ms + delay_ms || ttl < 0);
    }
    assert_true(t_now_ms() - began >= bound_ms * 9 / 10);
    assert_true(stats_of(client).renewed >= 2);
    check_lost(b, hold, "max_hold");
    UNTIL(!on_server(b));
}

/* ---- F30: the server is busy with other work ------------------------------------------------- */

static void F30_a_slow_script_lets_nobody_in_beside_a_holder(void **state) {
    bed *b = *state;
    hf_client *holder = bed_direct(b), *waiter = bed_direct(b);
    hf_hold *hold =
        TAKE(holder, .lease_ms = t_patience(400), .on_lost = count_loss, .arg = &b->loss);
    attempt *next = attempt_against(b, waiter, &(hf_options){.wait_ms = t_patience(20000)}, hold);
    t_threads *script = slow_script_start(b, t_patience(2000));
    UNTIL(!hf_held(hold));
    slow_script_kill(b, script);
    hf_hold *taken = attempt_end(next, HF_OK);
    assert_int_equal(next->rival_held, 0);
    check_held(b, taken);
    FREE(taken);
    check_lost(b, hold, "");
}

static const struct CMUnitTest tests[] = {
    FAULT_TEST(F01_a_grant_answered_after_its_lease_is_no_lock_and_is_released),
    FAULT_TEST(F01_a_server_stopped_for_a_lease_grants_no_lock),
    FAULT_TEST(F01_a_wait_continues_after_a_grant_that_came_too_late),
    FAULT_TEST(F01_an_answer_after_the_lease_does_not_affect_the_next_holder),
    FAULT_TEST(F01_deadlines_count_from_before_the_request_was_sent),
    FAULT_TEST(F10_a_margin_is_kept_for_clocks_that_drift),
    FAULT_TEST(F04_held_is_right_while_the_background_thread_is_starved),
    FAULT_TEST(F04_a_hold_without_confirmed_renewals_ends_at_the_deadline),
    FAULT_TEST(F05_max_hold_stops_the_renewals_and_is_reported),
    FAULT_TEST(F30_a_slow_script_lets_nobody_in_beside_a_holder),
};

FAULT_MAIN(tests)
