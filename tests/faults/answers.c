/* SPDX-License-Identifier: Apache-2.0 */
/* Answers that never arrive, and requests that the server executes after the client gave up (F12,
   F13, F14, F48). */
#include "fault.h"
#include "outcome.h"
#include "waiters.h"

/* The client loses its next answer together with its connection. If `away`, it cannot reconnect
   either. */
static void lose_next_answer(bed *b, bool away) {
    calls_reset(b);
    t_proxy_drop_answers(b->proxy, 1);
    if (away) t_proxy_refuse(b->proxy, true);
}

/* ---- F12: the acquire's answer is lost ------------------------------------------------------- */

static void check_counts_once(bed *b, int64_t wait_ms) {
    hf_client *client = bed_through(b, NULL);
    uint64_t acquired = stats_of(client).acquired;
    lose_next_answer(b, false);
    hf_hold *hold = TAKE(client, .wait_ms = wait_ms);
    assert_int_equal(stats_of(client).reconnects, 1);
    assert_int_equal(stats_of(client).acquired, acquired + 1);
    check_held(b, hold);
    /* every grant writes the fence: one write means one grant */
    assert_int_equal(call_count(b, "set"), 1);
    hf_info *info = NULL;
    T_HF(HF_OK, hf_inspect(client, LOCK, &info));
    assert_int_equal(info->count, 1);
    hf_info_free(info);
    FREE(hold);
    assert_false(on_server(b));
}

static void F12_an_acquire_whose_answer_was_lost_counts_once(void **state) {
    check_counts_once(*state, SOON_MS);
}

static void F12_a_try_whose_answer_was_lost_counts_once(void **state) {
    check_counts_once(*state, 0);
}

/* The server granted the lock and stays away. The outcome is unknown, and the grant is undone when
   the server is back. */
static void check_unknown(bed *b, const hf_options *options, const hf_client_options *limits) {
    hf_client *client = bed_through(b, limits);
    lose_next_answer(b, true);
    attempt_end(attempt_start(b, client, options), HF_UNKNOWN_OUTCOME);
    assert_true(on_server(b));
    t_proxy_refuse(b->proxy, false);
    UNTIL(!on_server(b)); /* long before its lease of 30 s */
    FREE(TAKE(client));
}

static void F12_an_unknown_outcome_is_reported_and_undone(void **state) {
    check_unknown(*state, &(hf_options){.wait_ms = 300}, NULL);
}

static void F12_a_try_with_an_unknown_outcome_is_undone(void **state) {
    check_unknown(*state, NULL, &(hf_client_options){.outage_ms = 300});
}

static void F12_the_command_timeout_bounds_a_try_that_is_not_answered(void **state) {
    check_unknown(*state, NULL, &(hf_client_options){.command_timeout_ms = t_patience(300)});
}

/* A wait that survived an earlier outage must still report a lost answer as an unknown outcome, not
   as a refusal. */
static void F12_an_outcome_is_unknown_after_an_earlier_outage(void **state) {
    bed *b = *state;
    hf_client *client = bed_through(b, NULL);
    calls_reset(b);
    set_config(b, "min-replicas-to-write", "1");
    attempt *a = attempt_sent(b, client, &(hf_options){.wait_ms = t_patience(1000)});
    UNTIL(call_count(b, "evalsha") >= 3); /* it was refused, and tries again */
    t_proxy_withhold(b->proxy, T_TO_SERVER, true);
    t_proxy_wait_bytes(b->proxy, T_TO_SERVER, t_proxy_bytes(b->proxy, T_TO_SERVER) + 1, SOON_MS);
    t_proxy_withhold(b->proxy, T_TO_CLIENT, true);
    set_config(b, "min-replicas-to-write", "0");
    t_proxy_withhold(b->proxy, T_TO_SERVER, false);
    UNTIL(on_server(b));
    attempt_end(a, HF_UNKNOWN_OUTCOME);
    t_proxy_withhold(b->proxy, T_TO_CLIENT, false);
    UNTIL(!on_server(b));
}

/* ---- F13: executed after the client gave up -------------------------------------------------- */

static void F13_an_acquire_executed_after_its_wait_does_not_act(void **state) {
    bed *b = *state;
    hf_client *client = bed_through(b, NULL);
    t_proxy_withhold(b->proxy, T_TO_SERVER, true);
    attempt_end(attempt_sent(b, client, &(hf_options){.wait_ms = 200}), HF_UNKNOWN_OUTCOME);
    calls_reset(b);
    t_proxy_withhold(b->proxy, T_TO_SERVER, false);
    UNTIL(call_count(b, "evalsha") >= 2); /* the acquire, and the release sent after it */
    assert_int_equal(t_redis_int(b->redis, "EXISTS " KEY " " FENCE), 0);
    FREE(TAKE(client));
}

/* Cancelling ends the wait long before the time until which the request may act. */
static attempt *cancelled_while_sent(bed *b, hf_client *client, hf_cancel *cancel) {
    t_proxy_withhold(b->proxy, T_TO_SERVER, true);
    attempt *a = attempt_sent(b, client, &(hf_options){.wait_ms = HF_FOREVER, .cancel = cancel});
    hf_cancel_fire(cancel);
    attempt_end(a, HF_CANCELLED);
    return a;
}

static void F13_an_acquire_executed_after_a_cancel_is_released(void **state) {
    bed *b = *state;
    hf_client *client = bed_through(b, NULL);
    hf_cancel *cancel = hf_cancel_new();
    cancelled_while_sent(b, client, cancel);
    calls_reset(b);
    t_proxy_withhold(b->proxy, T_TO_SERVER, false);
    UNTIL(call_count(b, "set") == 1); /* granted, but the caller has given up */
    UNTIL(!on_server(b));
    assert_int_equal(call_count(b, "del"), 1);
    hf_cancel_free(cancel);
}

/* If the client is gone for good, nothing can release the grant. It ends with its lease. */
static void F13_an_orphan_ends_with_its_lease(void **state) {
    bed *b = *state;
    hf_client *client = bed_through(b, NULL), *next = bed_direct(b);
    int64_t lease_ms = 400;
    t_proxy_withhold(b->proxy, T_TO_CLIENT, true);
    attempt *a = attempt_start(b, client, &(hf_options){.wait_ms = 100, .lease_ms = lease_ms});
    UNTIL(on_server(b));
    assert_in_range(server_ttl_ms(b), 0, lease_ms);
    t_proxy_refuse(b->proxy, true);
    t_proxy_cut(b->proxy);
    attempt_end(a, HF_UNKNOWN_OUTCOME);
    bed_close(b, client);
    FREE(TAKE(next, .wait_ms = t_patience(SOON_MS)));
}

/* ---- F14: the renewal's answer is lost ------------------------------------------------------- */

static void F14_a_renewal_whose_answer_was_lost_leaves_the_old_deadline(void **state) {
    bed *b = *state;
    hf_client *client = bed_through(b, NULL);
    hf_hold *hold = TAKE(client, .lease_ms = t_patience(1500));
    uint64_t renewed = stats_of(client).renewed;
    int64_t ttl = server_ttl_ms(b), left = hf_remaining_ms(hold);
    lose_next_answer(b, true);
    UNTIL(ttl_grew(b, &ttl)); /* the server has renewed it */
    for (int i = 0; i < 20; i++, t_sleep_ms(5)) {
        assert_true(hf_remaining_ms(hold) <= left);
        left = hf_remaining_ms(hold);
    }
    assert_true(stats_of(client).renewed == renewed);
    t_proxy_refuse(b->proxy, false);
    UNTIL(hf_remaining_ms(hold) > left); /* a later renewal was answered */
    check_held(b, hold);
    FREE(hold);
}

static void F14_an_extension_whose_answer_was_lost_is_unknown(void **state) {
    bed *b = *state;
    hf_client *client = bed_through(b, NULL);
    hf_hold *hold = TAKE(client, .lease_ms = t_patience(5000));
    lose_next_answer(b, true);
    T_HF(HF_UNKNOWN_OUTCOME, hf_extend(hold, t_patience(60000)));
    assert_true(hf_remaining_ms(hold) <= t_patience(5000));
    assert_true(server_ttl_ms(b) > t_patience(5000));
    T_HF(HF_UNREACHABLE, hf_extend(hold, t_patience(60000))); /* nothing was sent */
    t_proxy_refuse(b->proxy, false);
    UNTIL(hf_extend(hold, t_patience(60000)) == HF_OK);
    assert_true(hf_remaining_ms(hold) > t_patience(5000));
    FREE(hold);
}

/* The request carries the new count itself, not an increment, so repeating it changes nothing. */
static void F14_a_count_whose_answer_was_lost_is_right(void **state) {
    bed *b = *state;
    hf_client *client = bed_through(b, NULL);
    hf_hold *hold = TAKE(client);
    uint64_t renewed = stats_of(client).renewed;
    lose_next_answer(b, false);
    hf_hold *again = TAKE(client);
    UNTIL(stats_of(client).renewed > renewed);
    hf_info *info = NULL;
    T_HF(HF_OK, hf_inspect(client, LOCK, &info));
    assert_int_equal(info->count, 2);
    hf_info_free(info);
    FREE(again);
    FREE(hold);
    assert_false(on_server(b));
}

/* The server extended the hold to an hour, but the answer was lost. The side that loses or releases
   the hold must handle that. */
static hf_hold *extended_unanswered(bed *b) {
    hf_client *client = bed_through(b, &(hf_client_options){.command_timeout_ms = t_patience(300)});
    hf_hold *hold = TAKE(client, .lease_ms = t_patience(500));
    lose_next_answer(b, true);
    T_HF(HF_UNKNOWN_OUTCOME, hf_extend(hold, 3600000));
    assert_true(server_ttl_ms(b) > 3000000);
    return hold;
}

static void F14_a_hold_lost_after_an_unanswered_extension_is_released(void **state) {
    bed *b = *state;
    hf_hold *hold = extended_unanswered(b);
    UNTIL(!hf_held(hold));
    t_sleep_ms(t_patience(100)); /* past the lease that the holder knows of */
    t_proxy_refuse(b->proxy, false);
    UNTIL(!on_server(b));
    T_HF(HF_LOST, hf_release(hold));
}

static void F14_a_hold_released_after_an_unanswered_extension_is_released(void **state) {
    bed *b = *state;
    hf_hold *hold = extended_unanswered(b);
    hf_result r = hf_release(hold); /* it may be before or after the deadline */
    assert_true(r == HF_UNKNOWN_OUTCOME || r == HF_LOST);
    t_proxy_refuse(b->proxy, false);
    UNTIL(!on_server(b));
}

/* ---- F48: the release's answer is lost ------------------------------------------------------- */

/* Another client takes LOCK after its holder has lost it, and releases it again. */
static void visit_as_another(hf_client *other) {
    FREE(TAKE(other));
}

/* The hold was broken, and another client has held the lock since. The first release reports the
   loss, but its answer does not arrive. The second release finds nothing, which must not be taken
   as the result of the first. */
static void check_lost_unanswered(bed *b, const hf_options *options) {
    hf_client *client = bed_through(b, NULL), *other = bed_direct(b);
    hf_hold *hold = acquire_or_fail(client, LOCK, options, __FILE__, __LINE__);
    T_HF(HF_OK, hf_break(other, LOCK, hf_fence(hold)));
    visit_as_another(other);
    lose_next_answer(b, false);
    T_HF(HF_UNKNOWN_OUTCOME, hf_release(hold));
    check_detail("granted to another");
    assert_int_equal(stats_of(client).reconnects, 1);
}

static void F48_a_lost_mutex_whose_release_was_not_answered_is_not_ok(void **state) {
    check_lost_unanswered(*state, &(hf_options){.kind = HF_MUTEX});
}

static void F48_a_lost_writer_whose_release_was_not_answered_is_not_ok(void **state) {
    check_lost_unanswered(*state, &(hf_options){.kind = HF_WRITE});
}

static void F48_a_lost_reader_whose_release_was_not_answered_is_not_ok(void **state) {
    check_lost_unanswered(*state, &(hf_options){.kind = HF_READ});
}

static void F48_lost_permits_whose_release_was_not_answered_are_not_ok(void **state) {
    check_lost_unanswered(*state, &(hf_options){.kind = HF_PERMITS, .capacity = 2});
}

static void F48_a_flushed_hold_whose_release_was_not_answered_is_not_ok(void **state) {
    bed *b = *state;
    hf_client *client = bed_through(b, NULL);
    hf_hold *hold = TAKE(client);
    t_redis_str(b->redis, "FLUSHALL");
    lose_next_answer(b, false);
    T_HF(HF_UNKNOWN_OUTCOME, hf_release(hold));
}

static void F48_a_lost_hold_released_without_waiting_is_not_ok(void **state) {
    bed *b = *state;
    hf_client *client = bed_through(b, NULL), *other = bed_direct(b);
    hf_hold *hold = TAKE(client);
    T_HF(HF_OK, hf_break(other, LOCK, 0));
    visit_as_another(other);
    lose_next_answer(b, false);
    async_outcome o;
    begin_release(hold, &o);
    await_outcome(&o, HF_UNKNOWN_OUTCOME);
}

static void F48_a_lost_name_of_many_whose_release_was_not_answered_is_not_ok(void **state) {
    bed *b = *state;
    hf_client *client = bed_through(b, NULL), *other = bed_direct(b);
    const hf_request names[] = {{.name = LOCK}, {.name = "second"}};
    hf_hold *hold = NULL;
    T_HF(HF_OK, hf_acquire_all(client, names, 2, NULL, &hold));
    T_HF(HF_OK, hf_break(other, LOCK, 0));
    visit_as_another(other);
    lose_next_answer(b, false);
    T_HF(HF_UNKNOWN_OUTCOME, hf_release(hold));
}

static void F48_a_lost_adopted_hold_whose_release_was_not_answered_is_not_ok(void **state) {
    bed *b = *state;
    hf_client *client = bed_through(b, NULL), *other = bed_direct(b);
    char text[HF_EXPORT_MAX];
    hf_hold *hold = TAKE(other);
    T_HF(HF_OK, hf_export(hold, text, sizeof text));
    T_HF(HF_OK, hf_adopt(client, text, NULL, &hold));
    T_HF(HF_OK, hf_break(other, LOCK, 0));
    visit_as_another(other);
    lose_next_answer(b, false);
    T_HF(HF_UNKNOWN_OUTCOME, hf_release(hold));
}

/* Nobody else was granted the lock in between. Either the first release worked, or whatever ended
   the hold did no harm. */
static void check_released_unanswered(bed *b, const hf_options *options) {
    hf_client *client = bed_through(b, NULL);
    hf_hold *hold = acquire_or_fail(client, LOCK, options, __FILE__, __LINE__);
    lose_next_answer(b, false);
    FREE(hold);
    assert_int_equal(stats_of(client).reconnects, 1);
    assert_false(on_server(b));
    bed_close(b, client);
}

static void F48_a_release_that_was_not_answered_is_ok_if_nobody_else_acquired(void **state) {
    for (uint32_t kind = HF_MUTEX; kind <= HF_UPGRADABLE; kind++) {
        check_released_unanswered(*state, &(hf_options){.kind = kind});
    }
    check_released_unanswered(*state, &(hf_options){.kind = HF_PERMITS, .capacity = 2});
}

/* True for subscribers of a plain channel and of a shard channel in a cluster. */
static bool has_subscriber(bed *b) {
    return strstr(t_redis_str(b->redis, "CLIENT LIST TYPE pubsub"), "id=");
}

/* The release handed the lock to the next waiter. The new hold records which release handed it
   over. */
static void check_handed_over_unanswered(bed *b, const hf_options *options) {
    hf_client *client = bed_through(b, NULL), *other = bed_direct(b);
    hf_hold *hold = acquire_or_fail(client, LOCK, options, __FILE__, __LINE__);
    attempt *waits = attempt_start(b, other, &(hf_options){.wait_ms = SOON_MS});
    UNTIL(queue_length(b) == 1 && has_subscriber(b));
    lose_next_answer(b, false);
    FREE(hold);
    assert_int_equal(stats_of(client).reconnects, 1);
    FREE(attempt_end(waits, HF_OK));
}

static void F48_a_release_that_was_not_answered_is_ok_if_it_handed_over(void **state) {
    check_handed_over_unanswered(*state, &(hf_options){.kind = HF_MUTEX});
}

static void F48_a_reader_release_that_was_not_answered_is_ok_if_it_handed_over(void **state) {
    check_handed_over_unanswered(*state, &(hf_options){.kind = HF_READ});
}

/* The release handed the lock to the next thread of the same client, in the same step. */
static void F48_a_release_that_was_not_answered_is_ok_if_its_client_goes_next(void **state) {
    bed *b = *state;
    hf_client *client = bed_through(b, NULL);
    hf_hold *hold = TAKE(client);
    attempt *waits = attempt_start(b, client, &(hf_options){.wait_ms = SOON_MS});
    UNTIL(stats_of(client).waiting == 1);
    lose_next_answer(b, false);
    FREE(hold);
    FREE(attempt_end(waits, HF_OK));
}

/* Other readers still hold the lock. The lock itself records which reader left last. */
static void F48_a_reader_release_that_was_not_answered_is_ok_while_others_read(void **state) {
    bed *b = *state;
    hf_client *client = bed_through(b, NULL), *other = bed_direct(b);
    hf_hold *hold = TAKE(client, .kind = HF_READ), *reads = TAKE(other, .kind = HF_READ);
    lose_next_answer(b, false);
    FREE(hold);
    assert_int_equal(stats_of(client).reconnects, 1);
    FREE(reads);
}

static const struct CMUnitTest tests[] = {
    FAULT_TEST(F12_an_acquire_whose_answer_was_lost_counts_once),
    FAULT_TEST(F12_a_try_whose_answer_was_lost_counts_once),
    FAULT_TEST(F12_an_unknown_outcome_is_reported_and_undone),
    FAULT_TEST(F12_a_try_with_an_unknown_outcome_is_undone),
    FAULT_TEST(F12_the_command_timeout_bounds_a_try_that_is_not_answered),
    FAULT_TEST(F12_an_outcome_is_unknown_after_an_earlier_outage),
    FAULT_TEST(F13_an_acquire_executed_after_its_wait_does_not_act),
    FAULT_TEST(F13_an_acquire_executed_after_a_cancel_is_released),
    FAULT_TEST(F13_an_orphan_ends_with_its_lease),
    FAULT_TEST(F14_a_renewal_whose_answer_was_lost_leaves_the_old_deadline),
    FAULT_TEST(F14_an_extension_whose_answer_was_lost_is_unknown),
    FAULT_TEST(F14_a_count_whose_answer_was_lost_is_right),
    FAULT_TEST(F14_a_hold_lost_after_an_unanswered_extension_is_released),
    FAULT_TEST(F14_a_hold_released_after_an_unanswered_extension_is_released),
    FAULT_TEST(F48_a_lost_mutex_whose_release_was_not_answered_is_not_ok),
    FAULT_TEST(F48_a_lost_writer_whose_release_was_not_answered_is_not_ok),
    FAULT_TEST(F48_a_lost_reader_whose_release_was_not_answered_is_not_ok),
    FAULT_TEST(F48_lost_permits_whose_release_was_not_answered_are_not_ok),
    FAULT_TEST(F48_a_flushed_hold_whose_release_was_not_answered_is_not_ok),
    FAULT_TEST(F48_a_lost_hold_released_without_waiting_is_not_ok),
    FAULT_TEST(F48_a_lost_name_of_many_whose_release_was_not_answered_is_not_ok),
    FAULT_TEST(F48_a_lost_adopted_hold_whose_release_was_not_answered_is_not_ok),
    FAULT_TEST(F48_a_release_that_was_not_answered_is_ok_if_nobody_else_acquired),
    FAULT_TEST(F48_a_release_that_was_not_answered_is_ok_if_it_handed_over),
    FAULT_TEST(F48_a_reader_release_that_was_not_answered_is_ok_if_it_handed_over),
    FAULT_TEST(F48_a_release_that_was_not_answered_is_ok_if_its_client_goes_next),
    FAULT_TEST(F48_a_reader_release_that_was_not_answered_is_ok_while_others_read),
};

FAULT_MAIN(tests)
