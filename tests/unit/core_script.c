/* SPDX-License-Identifier: Apache-2.0 */
/* The core step by step in virtual time, so that all times are exact. */
#include "t.h"

#include <string.h>

#include "core/lease.h"
#include "core_kit.h"

#define MS HF__MS

static hf__time deadline_of(const hf__handle *hold) {
    return atomic_load(&hold->ownership->deadline);
}

static bool is_held(const core_stage *s, const hf__handle *hold) {
    return hf__ownership_valid(hold->ownership, s->now);
}

/* ---- Waiting ---- */

static void say_busy(core_stage *s) {
    while (s->count) stage_answer_busy(s, 50);
}

static void test_B6_a_wait_ends_exactly_in_time(void **state) {
    core_stage *s = *state;
    kit_wait w;
    hf__time began = s->now;
    stage_acquire(s, &w, 1, 200, 1000);
    stage_run(s, began + HF__SEC, say_busy);
    ASSERT_FINISHED(w.outcome, HF_TIMEOUT);
    assert_int_equal(w.outcome.at, began + 200 * MS);
    kit_wait_fini(&w);
}

static void test_B6_a_wait_without_an_answer_ends_in_time(void **state) {
    core_stage *s = *state;
    kit_wait w;
    hf__time began = s->now;
    stage_acquire(s, &w, 1, 200, 1000);
    hf__op *op = stage_pending_op(s, HF__ACQUIRE);
    assert_int_equal(op->not_after, began + 200 * MS);
    stage_run(s, began + HF__SEC, NULL);
    ASSERT_FINISHED(w.outcome, HF_UNKNOWN_OUTCOME);
    assert_int_equal(w.outcome.at, began + 200 * MS);
    kit_wait_fini(&w);
}

static void test_busy_is_retried_at_the_time_in_the_answer(void **state) {
    core_stage *s = *state;
    kit_wait w;
    stage_acquire(s, &w, 1, HF_FOREVER, 1000);
    uint64_t acquire_id = stage_pending_op(s, HF__ACQUIRE)->acquire_id;
    for (uint32_t i = 0; i < 20; i++) {
        assert_int_equal(s->pending[0]->attempt, i);
        hf__time answered_at = s->now;
        stage_answer_busy(s, 40);
        stage_nothing_pending(s);
        hf__op *op = stage_run_to_op(s, HF__ACQUIRE, answered_at + HF__SEC);
        assert_in_range(s->now, answered_at + 30 * MS, answered_at + 40 * MS);
        assert_int_equal(op->acquire_id, acquire_id); /* one wait keeps one acquire id */
    }
    stage_give_up(s, &w, HF_CANCELLED);
    ASSERT_FINISHED(w.outcome, HF_CANCELLED);
    kit_wait_fini(&w);
}

static void test_a_try_is_answered_at_once(void **state) {
    core_stage *s = *state;
    kit_wait a, b, c;
    stage_acquire(s, &a, 1, 0, 1000);
    stage_acquire(s, &b, 2, 0, 1000); /* a client has one acquire in flight for all its callers */
    ASSERT_FINISHED(b.outcome, HF_BUSY);
    stage_answer_busy(s, 40);
    ASSERT_FINISHED(a.outcome, HF_BUSY);
    assert_int_equal(s->core.entries.count, 0);
    stage_acquire(s, &c, 1, 0, 1000);
    stage_pending_op(s, HF__ACQUIRE);
    stage_run(s, s->now + 100 * HF__SEC, NULL); /* no answer: as long as a command may take */
    ASSERT_FINISHED(c.outcome, HF_UNKNOWN_OUTCOME);
    assert_int_equal(c.outcome.at, c.wait.started_at + STAGE_COMMAND_MS * MS);
    kit_wait_fini(&a);
    kit_wait_fini(&b);
    kit_wait_fini(&c);
}

static void test_waiters_are_served_in_order_one_at_a_time(void **state) {
    core_stage *s = *state;
    enum { WAITERS = 5 };
    kit_wait w[WAITERS];
    uint64_t last = 0;
    for (size_t i = 0; i < WAITERS; i++) stage_acquire(s, &w[i], i + 1, HF_FOREVER, 1000);
    for (size_t i = 0; i < WAITERS; i++) {
        assert_true(stage_pending_op(s, HF__ACQUIRE)->acquire_id > last);
        last = s->pending[0]->acquire_id;
        stage_answer(s, HF__ACQUIRE, HF_OK);
        ASSERT_FINISHED(w[i].outcome, HF_OK);
        if (i + 1 < WAITERS) ASSERT_WAITS(w[i + 1].outcome);
        kit_call call;
        stage_release(s, w[i].hold, &call);
        ASSERT_WAITS(call.outcome);
        assert_int_equal(stage_pending_op(s, HF__RELEASE)->acquire_id, last);
        stage_answer(s, HF__RELEASE, HF_OK);
        ASSERT_FINISHED(call.outcome, HF_OK);
        kit_hold_free(w[i].hold);
    }
    assert_int_equal(s->core.entries.count, 0);
}

static void test_a_final_answer_ends_the_wait(void **state) {
    core_stage *s = *state;
    kit_wait w;
    stage_acquire(s, &w, 1, HF_FOREVER, 1000);
    stage_answer(s, HF__ACQUIRE, HF_REFUSED);
    ASSERT_FINISHED(w.outcome, HF_REFUSED);
    assert_non_null(strstr(w.outcome.detail, "the stage said"));
    assert_int_equal(s->core.entries.count, 0);
    kit_wait_fini(&w);
}

/* ---- Deadlines ---- */

static void test_deadline_counts_from_before_the_send(void **state) {
    core_stage *s = *state;
    kit_wait w;
    hf__time asked = s->now;
    stage_acquire(s, &w, 1, 0, 1000);
    s->now += 300 * MS;
    stage_answer(s, HF__ACQUIRE, HF_OK);
    assert_int_equal(deadline_of(w.hold), hf__lease_deadline(asked, 1000));
    assert_true(is_held(s, w.hold));
    s->now = hf__lease_deadline(asked, 1000);
    assert_false(is_held(s, w.hold)); /* by the clock alone */
    stage_run(s, s->now, NULL);
    assert_int_equal(s->lost, 1);
    kit_hold_free(w.hold);
}

static void test_F1_a_late_grant_is_not_entered_but_released(void **state) {
    core_stage *s = *state;
    kit_wait w;
    stage_acquire(s, &w, 1, 0, 1000);
    uint64_t acquire_id = stage_pending_op(s, HF__ACQUIRE)->acquire_id;
    s->now = hf__lease_deadline(s->now, 1000);
    stage_answer(s, HF__ACQUIRE, HF_OK);
    ASSERT_FINISHED(w.outcome, HF_UNKNOWN_OUTCOME);
    assert_int_equal(stage_run_to_op(s, HF__RELEASE, s->now + HF__SEC)->acquire_id, acquire_id);
    stage_answer(s, HF__RELEASE, HF_OK);
    assert_int_equal(s->core.entries.count, 0);
    kit_wait_fini(&w);
}

static void test_F1_a_waiter_retries_under_a_new_id(void **state) {
    core_stage *s = *state;
    kit_wait w;
    stage_acquire(s, &w, 1, HF_FOREVER, 1000);
    uint64_t acquire_id = stage_pending_op(s, HF__ACQUIRE)->acquire_id, token;
    s->now = hf__lease_deadline(s->now, 1000) + 1;
    stage_answer(s, HF__ACQUIRE, HF_OK);
    ASSERT_WAITS(w.outcome);
    hf__op *op = stage_run_to_op(s, HF__ACQUIRE, s->now + HF__SEC);
    assert_true(op->acquire_id > acquire_id);
    token = op->token;
    assert_true(token > 0); /* the late grant's token was seen: the next must be above it */
    stage_answer(s, HF__ACQUIRE, HF_OK);
    ASSERT_FINISHED(w.outcome, HF_OK);
    assert_true(w.hold->ownership->token > token);
    kit_hold_free(w.hold);
}

/* The store rolled back a grant that it could not confirm. It may report that again, or late. */
static void test_F51_after_a_rollback_the_acquire_has_a_new_id(void **state) {
    core_stage *s = *state;
    kit_wait w;
    stage_acquire(s, &w, 1, HF_FOREVER, 1000);
    uint64_t acquire_id = stage_pending_op(s, HF__ACQUIRE)->acquire_id;
    s->pending[0]->rolled_back = true;
    stage_answer(s, HF__ACQUIRE, HF_UNREACHABLE);
    hf__op *op = stage_run_to_op(s, HF__ACQUIRE, s->now + HF__SEC);
    assert_true(op->acquire_id > acquire_id);
    acquire_id = op->acquire_id;
    op->rolled_back = true;
    stage_answer_maybe(s, HF__ACQUIRE,
                       HF_UNREACHABLE); /* it may still be held: the next acquire replaces it */
    assert_true(stage_run_to_op(s, HF__ACQUIRE, s->now + HF__SEC)->acquire_id > acquire_id);
    stage_answer(s, HF__ACQUIRE, HF_OK);
    ASSERT_FINISHED(w.outcome, HF_OK);
    kit_hold_free(w.hold);
}

static void test_F51_a_try_that_may_still_be_rolled_back_is_unknown(void **state) {
    core_stage *s = *state;
    kit_wait w;
    stage_acquire(s, &w, 1, 0, 1000);
    uint64_t acquire_id = stage_pending_op(s, HF__ACQUIRE)->acquire_id;
    s->pending[0]->rolled_back = true;
    stage_answer_maybe(s, HF__ACQUIRE, HF_UNREACHABLE);
    ASSERT_FINISHED(w.outcome, HF_UNKNOWN_OUTCOME);
    kit_wait_fini(&w);
    assert_int_equal(stage_run_to_op(s, HF__RELEASE, s->now + HF__SEC)->acquire_id, acquire_id);
}

static void test_a_cancelled_acquire_in_flight_is_released(void **state) {
    core_stage *s = *state;
    kit_wait w;
    stage_acquire(s, &w, 1, HF_FOREVER, 1000);
    uint64_t acquire_id = stage_pending_op(s, HF__ACQUIRE)->acquire_id;
    stage_give_up(s, &w, HF_CANCELLED);
    ASSERT_FINISHED(w.outcome, HF_CANCELLED);
    stage_answer(s, HF__ACQUIRE, HF_OK);
    assert_true(stage_pending_op(s, HF__RELEASE)->acquire_id == acquire_id);
    stage_answer(s, HF__RELEASE, HF_OK);
    assert_int_equal(s->core.entries.count, 0);
    kit_wait_fini(&w);
}

/* An invalid answer leaves the outcome open. The acquire must not stay held without an owner. */
static void test_F40_an_acquire_of_unknown_outcome_is_released(void **state) {
    core_stage *s = *state;
    kit_wait w;
    stage_acquire(s, &w, 1, HF_FOREVER, 1000);
    uint64_t acquire_id = stage_pending_op(s, HF__ACQUIRE)->acquire_id;
    stage_answer_maybe(s, HF__ACQUIRE, HF_PROTOCOL);
    ASSERT_FINISHED(w.outcome, HF_PROTOCOL);
    kit_wait_fini(&w);
    hf__op *op = stage_run_to_op(s, HF__RELEASE, s->now + HF__SEC);
    assert_int_equal(op->acquire_id, acquire_id);
}

/* ---- Renewal ---- */

static void test_renewed_at_a_third(void **state) {
    core_stage *s = *state;
    kit_wait w;
    hf__handle *hold = stage_take(s, &w, "name", 3000);
    hf__time asked = s->now;
    for (int i = 0; i < 50; i++) {
        hf__op *op = stage_run_to_op(s, HF__RENEW, asked + HF__SEC);
        assert_in_range(s->now, asked + 750 * MS, asked + HF__SEC);
        assert_int_equal(op->lease_ms, 3000);
        asked = s->now;
        s->now += 5 * MS;
        stage_answer(s, HF__RENEW, HF_OK);
        assert_int_equal(deadline_of(hold), hf__lease_deadline(asked, 3000));
    }
    assert_int_equal(s->lost, 0);
    assert_int_equal(s->core.stats.renewed, 50);
    kit_hold_free(hold);
}

/* F14, B11: each failure leaves the old deadline, and only that ends the hold. */
static void test_renewal_is_retried_until_the_deadline(void **state) {
    core_stage *s = *state;
    kit_wait w;
    hf__time until = hf__lease_deadline(s->now, 3000);
    hf__handle *hold = stage_take(s, &w, "name", 3000);
    stage_run_to_op(s, HF__RENEW, until);
    hf__time last = s->now, gap = 0, longest = 0;
    int tries = 1;
    for (; s->lost == 0; tries++) {
        stage_answer_maybe(s, HF__RENEW, HF_UNREACHABLE);
        assert_int_equal(deadline_of(hold), until);
        while (!s->count && !s->lost) stage_run(s, hf__core_due(&s->core), NULL);
        if (s->lost) break;
        gap = s->now - last;
        last = s->now;
        assert_true(gap <= 300 * MS); /* a tenth of the lease at most */
        longest = hf__later(longest, gap);
    }
    assert_true(tries >= 8);
    assert_true(longest >= 200 * MS); /* it backed off */
    assert_int_equal(s->lost_at, until);
    assert_int_equal(atomic_load(&hold->ownership->state), HF__LOST);
    stage_run_to_op(s, HF__RELEASE, s->now + HF__SEC); /* the store may still have it */
    kit_call call;
    stage_release(s, hold, &call);
    ASSERT_FINISHED(call.outcome, HF_LOST);
    kit_hold_free(hold);
}

static void test_an_unanswered_renewal_ends_at_the_deadline(void **state) {
    core_stage *s = *state;
    kit_wait w;
    hf__time until = hf__lease_deadline(s->now, 3000);
    hf__handle *hold = stage_take(s, &w, "name", 3000);
    stage_run(s, s->now + 10 * HF__SEC, NULL);
    assert_int_equal(s->lost, 1);
    assert_int_equal(s->lost_at, until);
    stage_answer(s, HF__RENEW, HF_OK); /* too late: it stays lost */
    assert_int_equal(atomic_load(&hold->ownership->state), HF__LOST);
    assert_int_equal(deadline_of(hold), until);
    kit_hold_free(hold);
}

static void test_a_hold_unknown_to_the_store_is_lost(void **state) {
    core_stage *s = *state;
    kit_wait w;
    hf__handle *hold = stage_take(s, &w, "name", 3000);
    stage_run_to_op(s, HF__RENEW, s->now + HF__SEC);
    stage_answer(s, HF__RENEW, HF_LOST);
    assert_int_equal(s->lost, 1);
    assert_non_null(strstr(atomic_load(&hold->ownership->lost_reason), "no longer has it"));
    stage_nothing_pending(s);
    assert_int_equal(s->core.entries.count, 0);
    kit_hold_free(hold);
}

static void test_every_hold_is_renewed_on_reconnect(void **state) {
    core_stage *s = *state;
    enum { HOLDS = 50 };
    static kit_wait w[HOLDS];
    char name[16];
    for (int i = 0; i < HOLDS; i++) {
        snprintf(name, sizeof name, "n%d", i);
        stage_take(s, &w[i], name, STAGE_LEASE_MS);
    }
    stage_link_down(s);
    s->now += 10 * MS;
    stage_link_up(s);
    assert_int_equal(s->count, HOLDS); /* all in one batch, with no time in between */
    for (int i = 0; i < HOLDS; i++) stage_answer(s, HF__RENEW, i % 2 ? HF_OK : HF_LOST);
    assert_int_equal(s->lost, HOLDS / 2);
    stage_nothing_pending(s);
    for (int i = 0; i < HOLDS; i++) kit_hold_free(w[i].hold);
}

static void test_no_renew_ends_with_its_lease(void **state) {
    core_stage *s = *state;
    kit_wait w;
    hf__time until = hf__lease_deadline(s->now, 1000);
    kit_wait_init(&w, 1, 0, 1000, s->now);
    w.wait.flags = HF_NO_RENEW;
    stage_begin(s, &w, "name");
    stage_answer(s, HF__ACQUIRE, HF_OK);
    while (!s->lost) {
        stage_nothing_pending(s);
        stage_run(s, hf__core_due(&s->core), NULL);
    }
    assert_int_equal(s->lost_at, until);
    assert_non_null(strstr(atomic_load(&w.hold->ownership->lost_reason), "HF_NO_RENEW"));
    kit_hold_free(w.hold);
}

/* ---- max_hold ---- */

static void confirm_all(core_stage *s) {
    while (s->count) stage_answer(s, s->pending[0]->verb, HF_OK);
}

/* No lease goes beyond max_hold, except for the margin: waiters must not wait for a hold that is
   over. */
static void assert_within(const core_stage *s, hf__time end) {
    hf__time left = end - s->now;
    assert_true(s->pending[0]->lease_ms * MS <= left + left / 40 + 7 * MS);
}

static hf__handle *take_bounded(core_stage *s, kit_wait *w, int64_t lease_ms, int64_t max_hold_ms) {
    kit_wait_init(w, 1, 0, lease_ms, s->now);
    w->wait.max_hold_ms = max_hold_ms;
    stage_begin(s, w, "name");
    assert_true(stage_pending_op(s, HF__ACQUIRE)->lease_ms <= lease_ms);
    assert_within(s, s->now + max_hold_ms * MS);
    stage_answer(s, HF__ACQUIRE, HF_OK);
    return w->hold;
}

static void assert_ends_with_max_hold(core_stage *s, int64_t lease_ms, int64_t max_hold_ms) {
    kit_wait w;
    hf__time began = s->now, end = began + max_hold_ms * MS;
    hf__handle *hold = take_bounded(s, &w, lease_ms, max_hold_ms);
    while (!s->lost) {
        if (s->count && s->pending[0]->verb == HF__RENEW) assert_within(s, end);
        confirm_all(s);
        assert_true(deadline_of(hold) <= end);
        stage_run(s, hf__core_due(&s->core), NULL);
    }
    assert_true(s->lost_at <= end);
    assert_true(s->lost_at >= end - hf__lease_margin(lease_ms));
    assert_non_null(strstr(atomic_load(&hold->ownership->lost_reason), "max_hold"));
    kit_hold_free(hold);
}

static void test_F5_max_hold_above_the_lease(void **state) {
    assert_ends_with_max_hold(*state, 1000, 3500);
}

static void test_F5_max_hold_below_the_lease(void **state) {
    assert_ends_with_max_hold(*state, 1000, 400);
}

static void test_F5_max_hold_without_end(void **state) {
    core_stage *s = *state;
    kit_wait w;
    kit_wait_init(&w, 1, 0, 1000, s->now);
    w.wait.max_hold_ms = INT64_MAX;
    stage_begin(s, &w, "name");
    assert_int_equal(stage_pending_op(s, HF__ACQUIRE)->lease_ms, 1000);
    stage_answer(s, HF__ACQUIRE, HF_OK);
    assert_int_equal(stage_run_to_op(s, HF__RENEW, s->now + HF__SEC)->lease_ms, 1000);
    kit_hold_free(w.hold);
}

/* ---- Extending ---- */

static void test_extend_lengthens_and_never_shortens(void **state) {
    core_stage *s = *state;
    kit_wait w;
    kit_call call;
    hf__handle *hold = stage_take(s, &w, "name", 3000);
    s->now += 100 * MS;
    stage_extend(s, hold, 20000, &call);
    ASSERT_WAITS(call.outcome);
    assert_int_equal(stage_pending_op(s, HF__RENEW)->lease_ms, 20000);
    hf__time asked = s->now;
    s->now += 50 * MS;
    stage_answer(s, HF__RENEW, HF_OK);
    ASSERT_FINISHED(call.outcome, HF_OK);
    assert_int_equal(deadline_of(hold), hf__lease_deadline(asked, 20000));
    stage_extend(s, hold, 100, &call);
    assert_int_equal(stage_pending_op(s, HF__RENEW)->lease_ms,
                     3000); /* no less than the lease itself */
    stage_answer(s, HF__RENEW, HF_OK);
    ASSERT_FINISHED(call.outcome, HF_OK);
    assert_int_equal(deadline_of(hold), hf__lease_deadline(asked, 20000));
    asked = s->now;
    /* The renewal interval is still that of the acquire. */
    stage_run_to_op(s, HF__RENEW, asked + HF__SEC);
    assert_in_range(s->now, asked + 750 * MS, asked + HF__SEC);
    kit_hold_free(hold);
}

static void test_extends_are_merged(void **state) {
    core_stage *s = *state;
    kit_wait w;
    kit_call call[4];
    hf__handle *hold = stage_take(s, &w, "name", 3000);
    stage_extend(s, hold, 4000, &call[0]);
    for (size_t i = 1; i < 4; i++) stage_extend(s, hold, 5000 + 1000 * (int64_t)(i % 2), &call[i]);
    assert_int_equal(stage_pending_op(s, HF__RENEW)->lease_ms, 4000);
    stage_answer(s, HF__RENEW, HF_OK);
    ASSERT_FINISHED(call[0].outcome, HF_OK);
    /* Three extensions in one renewal. */
    assert_int_equal(stage_pending_op(s, HF__RENEW)->lease_ms, 6000);
    ASSERT_WAITS(call[1].outcome);
    stage_answer(s, HF__RENEW, HF_OK);
    for (size_t i = 1; i < 4; i++) ASSERT_FINISHED(call[i].outcome, HF_OK);
    stage_nothing_pending(s);
    kit_hold_free(hold);
}

static void test_extend_reports_why_it_failed(void **state) {
    static const struct {
        hf_result answer;
        bool maybe;
        hf_result result;
    } rows[] = {{HF_UNREACHABLE, true, HF_UNKNOWN_OUTCOME},
                {HF_UNREACHABLE, false, HF_UNREACHABLE},
                {HF_REFUSED, false, HF_REFUSED},
                {HF_PROTOCOL, true, HF_UNKNOWN_OUTCOME},
                {HF_NOMEM, false, HF_NOMEM},
                {HF_LOST, false, HF_LOST}};
    core_stage *s = *state;
    kit_wait w;
    hf__handle *hold = stage_take(s, &w, "name", 30000);
    hf__time before = deadline_of(hold);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        kit_call call;
        stage_extend(s, hold, 40000, &call);
        if (rows[i].maybe)
            stage_answer_maybe(s, HF__RENEW, rows[i].answer);
        else
            stage_answer(s, HF__RENEW, rows[i].answer);
        ASSERT_FINISHED(call.outcome, rows[i].result);
        assert_int_equal(deadline_of(hold), before);
        stage_run(s, s->now + 5 * HF__SEC, confirm_all);
        before = deadline_of(hold);
    }
    kit_call call;
    stage_extend(s, hold, 40000, &call);
    ASSERT_FINISHED(call.outcome, HF_LOST);
    kit_hold_free(hold);
}

static void test_extend_does_not_wait_for_a_store_that_is_away(void **state) {
    core_stage *s = *state;
    kit_wait w;
    kit_call carried, waiting, later;
    hf__handle *hold = stage_take(s, &w, "name", 30000);
    stage_extend(s, hold, 40000, &carried);
    stage_extend(s, hold, 50000, &waiting); /* behind the first, which is in flight */
    stage_link_down(s);
    ASSERT_FINISHED(carried.outcome, HF_UNKNOWN_OUTCOME);
    ASSERT_FINISHED(waiting.outcome, HF_UNREACHABLE);
    stage_extend(s, hold, 40000, &later);
    ASSERT_FINISHED(later.outcome, HF_UNREACHABLE);
    kit_hold_free(hold);
}

static void test_extend_of_a_hold_that_ends_meanwhile(void **state) {
    core_stage *s = *state;
    kit_wait w;
    kit_call extend, queued, release;
    hf__handle *hold = stage_take(s, &w, "name", 3000);
    stage_extend(s, hold, 4000, &extend);
    stage_extend(s, hold, 5000, &queued);
    stage_release(s, hold, &release);
    ASSERT_FINISHED(extend.outcome, HF_NOT_HELD);
    ASSERT_FINISHED(queued.outcome, HF_NOT_HELD);
    ASSERT_WAITS(release.outcome);
    stage_answer(s, HF__RENEW, HF_OK); /* one at a time: the release comes after it */
    stage_answer(s, HF__RELEASE, HF_OK);
    ASSERT_FINISHED(release.outcome, HF_OK);
    kit_hold_free(hold);
}

/* ---- Re-entry ---- */

static void test_reentry_is_local_and_posted(void **state) {
    core_stage *s = *state;
    kit_wait a, b, other;
    kit_call call;
    hf__handle *first = stage_take(s, &a, "name", 3000);
    stage_acquire(s, &b, 1, 0, 3000);
    ASSERT_FINISHED(b.outcome, HF_OK);
    assert_ptr_equal(b.hold->ownership, first->ownership);
    assert_int_equal(stage_pending_op(s, HF__RENEW)->count, 2);
    stage_answer(s, HF__RENEW, HF_OK);
    stage_acquire(s, &other, 2, 0, 3000);
    ASSERT_FINISHED(other.outcome, HF_BUSY);
    stage_release(s, first, &call);
    ASSERT_FINISHED(call.outcome, HF_OK); /* a release that only lowers the count returns at once */
    assert_int_equal(stage_pending_op(s, HF__RENEW)->count, 1);
    stage_answer(s, HF__RENEW, HF_OK);
    stage_release(s, b.hold, &call);
    ASSERT_WAITS(call.outcome);
    stage_answer(s, HF__RELEASE, HF_OK);
    ASSERT_FINISHED(call.outcome, HF_OK);
    kit_wait_fini(&other);
    kit_hold_free(first);
    kit_hold_free(b.hold);
}

static void test_not_reentrant_is_a_deadlock(void **state) {
    core_stage *s = *state;
    kit_wait a, b;
    stage_take(s, &a, "name", 3000);
    kit_wait_init(&b, 1, HF_FOREVER, 3000, s->now);
    b.wait.flags = HF_NOT_REENTRANT;
    stage_begin(s, &b, "name");
    ASSERT_FINISHED(b.outcome, HF_DEADLOCK);
    kit_wait_fini(&b);
    kit_hold_free(a.hold);
}

/* B25: when one caller is granted, the other waits of the same owner are granted with it. */
static void test_waits_of_one_owner_are_granted_together(void **state) {
    core_stage *s = *state;
    kit_wait a, b, other;
    kit_wait_init(&a, 1, HF_FOREVER, 3000, s->now);
    kit_wait_init(&b, 1, HF_FOREVER, 3000, s->now);
    /* A logical owner may wait in several threads. */
    a.wait.owner.logical = b.wait.owner.logical = true;
    stage_begin(s, &a, "name");
    stage_acquire(s, &other, 2, HF_FOREVER, 3000);
    stage_begin(s, &b, "name");
    stage_answer(s, HF__ACQUIRE, HF_OK);
    ASSERT_FINISHED(a.outcome, HF_OK);
    ASSERT_FINISHED(b.outcome, HF_OK);
    ASSERT_WAITS(other.outcome);
    assert_int_equal(stage_pending_op(s, HF__RENEW)->count, 2);
    stage_give_up(s, &other, HF_CANCELLED);
    kit_wait_fini(&other);
    kit_hold_free(a.hold);
    kit_hold_free(b.hold);
}

/* ---- Releasing ---- */

/* The store learns that it is a retry, and of which hold: it may know the outcome of the first
   try. */
static void release_twice(core_stage *s, hf_result answer, hf_result expected) {
    kit_wait w;
    kit_call call;
    hf__handle *hold = stage_take(s, &w, "name", 30000);
    stage_release(s, hold, &call);
    assert_false(stage_pending_op(s, HF__RELEASE)->retried);
    stage_link_down(s);
    ASSERT_WAITS(call.outcome);
    s->now += 10 * MS;
    stage_link_up(s);
    const hf__op *again = stage_pending_op(s, HF__RELEASE);
    assert_true(again->retried);
    assert_int_equal(again->token, hold->ownership->token);
    stage_answer(s, HF__RELEASE, answer);
    ASSERT_FINISHED(call.outcome, expected);
    assert_int_equal(s->core.stats.lost, 0);
    assert_int_equal(s->core.entries.count, 0);
    kit_hold_free(hold);
}

static void test_a_retried_release_is_one_release(void **state) {
    release_twice(*state, HF_OK, HF_OK);
}

static void test_a_release_sent_twice_that_finds_nothing_is_unknown(void **state) {
    release_twice(*state, HF_LOST, HF_UNKNOWN_OUTCOME);
}

/* A cancelled acquire left a release without an answer. That release says nothing about a later
   hold. */
static void test_a_release_is_not_a_retry_of_another_id(void **state) {
    core_stage *s = *state;
    kit_wait given_up, w;
    kit_call call;
    stage_acquire(s, &given_up, 1, HF_FOREVER, 30000);
    stage_link_down(s);
    stage_give_up(s, &given_up, HF_CANCELLED);
    s->now += 10 * MS;
    stage_link_up(s);
    stage_answer_maybe(s, HF__RELEASE, HF_UNREACHABLE);
    stage_acquire(s, &w, 1, HF_FOREVER, 30000);
    stage_run_to_op(s, HF__ACQUIRE, s->now + HF__SEC);
    stage_answer(s, HF__ACQUIRE, HF_OK);
    stage_release(s, w.hold, &call);
    assert_false(stage_pending_op(s, HF__RELEASE)->retried);
    stage_answer(s, HF__RELEASE, HF_LOST);
    ASSERT_FINISHED(call.outcome, HF_LOST);
    kit_hold_free(w.hold);
    kit_wait_fini(&given_up);
}

static void test_a_release_that_finds_nothing_returns_lost(void **state) {
    core_stage *s = *state;
    kit_wait w;
    kit_call call;
    hf__handle *hold = stage_take(s, &w, "name", 30000);
    stage_release(s, hold, &call);
    stage_answer(s, HF__RELEASE, HF_LOST);
    ASSERT_FINISHED(call.outcome, HF_LOST);
    assert_int_equal(s->core.stats.lost, 1);
    assert_int_equal(s->core.stats.released, 0);
    kit_hold_free(hold);
}

static void test_a_release_is_retried_until_the_lease_ends(void **state) {
    core_stage *s = *state;
    kit_wait w;
    kit_call call;
    hf__handle *hold = stage_take(s, &w, "name", 3000);
    hf__time lapses = s->now + 3000 * MS;
    stage_release(s, hold, &call);
    stage_link_down(s);
    stage_run(s, s->now + 100 * HF__SEC, NULL);
    ASSERT_FINISHED(call.outcome, HF_UNKNOWN_OUTCOME);
    assert_true(call.outcome.at >= lapses);
    assert_int_equal(s->core.entries.count, 0);
    kit_hold_free(hold);
}

/* An acquire of a broken connection may still arrive. The release says until when, and the
   store's tombstone keeps it out. Or it may have arrived while another client held the lock.
   Then nobody waits in its queue position, and the release removes it. */
static void test_a_release_leaves_a_tombstone_for_a_late_acquire(void **state) {
    core_stage *s = *state;
    kit_wait w;
    kit_call call;
    stage_acquire(s, &w, 1, HF_FOREVER, 30000);
    hf__time not_after = stage_pending_op(s, HF__ACQUIRE)->not_after;
    stage_link_down(s);
    s->now += 10 * MS;
    stage_link_up(s);
    stage_answer(s, HF__ACQUIRE, HF_OK);
    ASSERT_FINISHED(w.outcome, HF_OK);
    stage_release(s, w.hold, &call);
    assert_true(stage_pending_op(s, HF__RELEASE)->tombstone_until > not_after);
    assert_true(stage_pending_op(s, HF__RELEASE)->leave_queue);
    stage_answer(s, HF__RELEASE, HF_OK);
    kit_hold_free(w.hold);
    hf__handle *hold = stage_take(s, &w, "other", 30000); /* no broken connection: no tombstone */
    stage_release(s, hold, &call);
    assert_int_equal(stage_pending_op(s, HF__RELEASE)->tombstone_until, 0);
    assert_false(stage_pending_op(s, HF__RELEASE)->leave_queue);
    stage_answer(s, HF__RELEASE, HF_OK);
    kit_hold_free(hold);
}

/* Invariant 5: an acquire id that the store may still hold is remembered until it surely has
   expired. The store counts from when it executed the acquire, at the latest when its answer was
   sent. */
static void test_a_slow_grant_lapses_late(void **state) {
    core_stage *s = *state;
    kit_wait w;
    stage_acquire(s, &w, 1, 0, 3000);
    s->now += 2000 * MS;
    stage_answer(s, HF__ACQUIRE, HF_OK);
    ASSERT_FINISHED(w.outcome, HF_OK);
    hf__time forgotten = s->now + 3000 * MS;
    kit_call call;
    stage_link_down(s);
    stage_release(s, w.hold, &call);
    kit_hold_free(w.hold);
    stage_run(s, forgotten - 1, NULL);
    assert_non_null(kit_entry(&s->core, "name"));
    stage_link_up(s);
    stage_answer(s, HF__RELEASE, HF_OK);
    ASSERT_FINISHED(call.outcome, HF_OK);
}

/* The same for a renewal that may have been executed without an answer. */
static void test_an_unanswered_renewal_lapses_late(void **state) {
    core_stage *s = *state;
    kit_wait w;
    kit_call call;
    hf__handle *hold = stage_take(s, &w, "name", 3000);
    stage_run_to_op(s, HF__RENEW, s->now + 1000 * MS);
    s->now += 500 * MS;
    hf__time forgotten = s->now + 3000 * MS;
    stage_link_down(s);
    stage_release(s, hold, &call);
    kit_hold_free(hold);
    stage_run(s, forgotten - 1, NULL);
    assert_non_null(kit_entry(&s->core, "name"));
    stage_link_up(s);
    stage_answer(s, HF__RELEASE, HF_OK);
    ASSERT_FINISHED(call.outcome, HF_OK);
}

/* ---- Outages ---- */

static void test_an_outage_ends_waits_exactly(void **state) {
    core_stage *s = *state;
    kit_wait patient, later, once, timed;
    hf__time began = s->now;
    stage_link_down(s);
    stage_acquire(s, &once, 1, 0, 1000);
    ASSERT_FINISHED(once.outcome, HF_UNREACHABLE);
    stage_acquire(s, &patient, 1, HF_FOREVER, 1000);
    stage_acquire(s, &timed, 2, 700, 1000);
    stage_run(s, began + HF__SEC, NULL);
    stage_acquire(s, &later, 3, HF_FOREVER, 1000);
    stage_run(s, began + 100 * HF__SEC, NULL);
    ASSERT_FINISHED(timed.outcome, HF_UNREACHABLE);
    assert_int_equal(timed.outcome.at, began + 700 * MS);
    ASSERT_FINISHED(patient.outcome, HF_UNREACHABLE);
    assert_int_equal(patient.outcome.at, began + STAGE_OUTAGE_MS * MS);
    ASSERT_FINISHED(later.outcome, HF_UNREACHABLE);
    assert_int_equal(later.outcome.at, began + HF__SEC + STAGE_OUTAGE_MS * MS);
    kit_wait *all[] = {&patient, &later, &once, &timed};
    for (size_t i = 0; i < 4; i++) kit_wait_fini(all[i]);
}

static void test_a_wait_survives_an_outage(void **state) {
    core_stage *s = *state;
    kit_wait w;
    stage_acquire(s, &w, 1, HF_FOREVER, 1000);
    uint64_t acquire_id = stage_pending_op(s, HF__ACQUIRE)->acquire_id;
    stage_link_down(s);
    stage_run(s, s->now + 9 * HF__SEC, NULL);
    ASSERT_WAITS(w.outcome);
    stage_link_up(s);
    assert_int_equal(stage_pending_op(s, HF__ACQUIRE)->acquire_id,
                     acquire_id); /* in case the first was granted */
    stage_answer(s, HF__ACQUIRE, HF_OK);
    ASSERT_FINISHED(w.outcome, HF_OK);
    kit_hold_free(w.hold);
}

static void test_an_acquire_lost_in_an_outage_is_unknown(void **state) {
    core_stage *s = *state;
    kit_wait w;
    hf__time began = s->now;
    stage_acquire(s, &w, 1, HF_FOREVER, 60000);
    uint64_t acquire_id = stage_pending_op(s, HF__ACQUIRE)->acquire_id;
    stage_link_down(s);
    stage_run(s, began + 20 * HF__SEC, NULL);
    ASSERT_FINISHED(w.outcome, HF_UNKNOWN_OUTCOME);
    assert_int_equal(w.outcome.at, began + STAGE_OUTAGE_MS * MS);
    stage_link_up(s); /* F13: if it has taken the lock, that is undone */
    assert_int_equal(stage_pending_op(s, HF__RELEASE)->acquire_id, acquire_id);
    kit_wait_fini(&w);
}

/* ---- Closing ---- */

static void test_F47_close_ends_waits_and_releases(void **state) {
    core_stage *s = *state;
    kit_wait holder, waiter, asking, after;
    kit_call close;
    hf__handle *hold = stage_take(s, &holder, "name", 30000);
    stage_acquire(s, &waiter, 2, HF_FOREVER, 30000);
    stage_acquire_named(s, &asking, "other", 2, HF_FOREVER, 30000);
    hf__core_close(&s->core, &kit_call_init(&close)->call, s->now);
    stage_process(s);
    ASSERT_FINISHED(waiter.outcome, HF_CLOSED);
    ASSERT_FINISHED(asking.outcome, HF_CLOSED);
    assert_int_equal(atomic_load(&hold->ownership->state), HF__ENDED);
    assert_int_equal(s->lost, 0);
    ASSERT_WAITS(close.outcome);
    while (s->count) stage_answer(s, s->pending[0]->verb, HF_OK);
    ASSERT_FINISHED(close.outcome, HF_OK);
    assert_int_equal(s->core.entries.count, 0);
    stage_acquire(s, &after, 1, 0, 1000);
    ASSERT_FINISHED(after.outcome, HF_CLOSED);
    kit_wait_fini(&waiter);
    kit_wait_fini(&asking);
    kit_wait_fini(&after);
    kit_hold_free(hold);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, stage_set_up, stage_tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_B6_a_wait_ends_exactly_in_time),
        TEST(test_B6_a_wait_without_an_answer_ends_in_time),
        TEST(test_busy_is_retried_at_the_time_in_the_answer),
        TEST(test_a_try_is_answered_at_once),
        TEST(test_waiters_are_served_in_order_one_at_a_time),
        TEST(test_a_final_answer_ends_the_wait),
        TEST(test_deadline_counts_from_before_the_send),
        TEST(test_F1_a_late_grant_is_not_entered_but_released),
        TEST(test_F1_a_waiter_retries_under_a_new_id),
        TEST(test_F51_after_a_rollback_the_acquire_has_a_new_id),
        TEST(test_F51_a_try_that_may_still_be_rolled_back_is_unknown),
        TEST(test_a_cancelled_acquire_in_flight_is_released),
        TEST(test_F40_an_acquire_of_unknown_outcome_is_released),
        TEST(test_renewed_at_a_third),
        TEST(test_renewal_is_retried_until_the_deadline),
        TEST(test_an_unanswered_renewal_ends_at_the_deadline),
        TEST(test_a_hold_unknown_to_the_store_is_lost),
        TEST(test_every_hold_is_renewed_on_reconnect),
        TEST(test_no_renew_ends_with_its_lease),
        TEST(test_F5_max_hold_above_the_lease),
        TEST(test_F5_max_hold_below_the_lease),
        TEST(test_F5_max_hold_without_end),
        TEST(test_extend_lengthens_and_never_shortens),
        TEST(test_extends_are_merged),
        TEST(test_extend_reports_why_it_failed),
        TEST(test_extend_does_not_wait_for_a_store_that_is_away),
        TEST(test_extend_of_a_hold_that_ends_meanwhile),
        TEST(test_reentry_is_local_and_posted),
        TEST(test_not_reentrant_is_a_deadlock),
        TEST(test_waits_of_one_owner_are_granted_together),
        TEST(test_a_retried_release_is_one_release),
        TEST(test_a_release_sent_twice_that_finds_nothing_is_unknown),
        TEST(test_a_release_is_not_a_retry_of_another_id),
        TEST(test_a_release_that_finds_nothing_returns_lost),
        TEST(test_a_release_is_retried_until_the_lease_ends),
        TEST(test_a_release_leaves_a_tombstone_for_a_late_acquire),
        TEST(test_a_slow_grant_lapses_late),
        TEST(test_an_unanswered_renewal_lapses_late),
        TEST(test_an_outage_ends_waits_exactly),
        TEST(test_a_wait_survives_an_outage),
        TEST(test_an_acquire_lost_in_an_outage_is_unknown),
        TEST(test_F47_close_ends_waits_and_releases),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
