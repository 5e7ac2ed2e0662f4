/* SPDX-License-Identifier: Apache-2.0 */
/* Losing a hold: it is reported in every way exactly once, and never without a loss. */
#include "conformance.h"

static const hf_options WAIT = {.wait_ms = CF_WATCHDOG_MS};

/* A hold that will be lost, and the record of its on_lost calls. */
typedef struct lost_victim {
    cf *f;
    hf_hold *hold;
    uint64_t token;
    int fd;
    cf_lost lost;
    int64_t taken_at;
} lost_victim;

static lost_victim *take_victim(cf *f, int64_t max_hold_ms, uint32_t flags) {
    lost_victim *v = cf_new(f, sizeof *v);
    *v = (lost_victim){.f = f, .taken_at = t_now_ms()};
    int64_t lease_ms = flags ? CF_SHORT_LEASE_MS : CF_KEPT_LEASE_MS;
    v->hold = CF_TAKE(f->a, f->name,
                      &(hf_options){.lease_ms = lease_ms,
                                    .max_hold_ms = max_hold_ms,
                                    .flags = flags,
                                    .on_lost = cf_on_lost,
                                    .arg = &v->lost});
    v->token = hf_fence(v->hold);
    v->fd = hf_lost_fd(v->hold);
    assert_true(v->fd >= 0);
    assert_int_equal(cf_readable(v->fd), 0);
    assert_null(hf_why_lost(v->hold));
    return v;
}

/* Checks every report of the loss; ends with the victim released. */
static void check_loss_reported(lost_victim *v) {
    CF_UNTIL(!hf_held(v->hold));
    CF_UNTIL(cf_readable(v->fd));
    CF_UNTIL(atomic_load(&v->lost.calls) > 0);
    assert_true(atomic_load(&v->lost.token) == v->token);
    assert_non_null(hf_why_lost(v->hold));
    assert_string_not_equal(hf_why_lost(v->hold), "");
    assert_int_equal(hf_remaining_ms(v->hold), 0);
    assert_true(hf_fence(v->hold) == v->token);
    assert_int_equal(hf_lost_fd(v->hold), v->fd);
    assert_int_equal(cf_stats(v->f->a).lost, 1);
    assert_int_equal(cf_stats(v->f->a).held, 0);
    CF_IS(HF_LOST, hf_extend(v->hold, 30000));
    assert_string_not_equal(hf_error_detail(), "");

    hf_hold *next = CF_TAKE(v->f->b, v->f->name, &WAIT);
    assert_true(hf_fence(next) > v->token);
    CF_IS(HF_LOST, hf_release(v->hold));
    assert_true(cf_token(v->f->a, v->f->name) == hf_fence(next));
    CF_FREE(next);
    assert_int_equal(atomic_load(&v->lost.calls), 1);
}

static void B11_a_broken_hold_is_reported(cf *f) {
    lost_victim *v = take_victim(f, 0, 0);
    CF_IS(HF_OK, hf_break(f->b, f->name, 0));
    check_loss_reported(v);
}

static void B11_a_hold_broken_by_its_own_client_is_reported(cf *f) {
    lost_victim *v = take_victim(f, 0, 0);
    CF_IS(HF_OK, hf_break(f->a, f->name, v->token));
    check_loss_reported(v);
}

static void B11_a_lease_that_expires_is_reported(cf *f) {
    lost_victim *v = take_victim(f, 0, HF_NO_RENEW);
    CF_UNTIL(!hf_held(v->hold));
    assert_true(t_now_ms() - v->taken_at >= CF_SHORT_LEASE_MS * 9 / 10);
    check_loss_reported(v);
}

static void F05_max_hold_ends_a_hold_and_is_reported(cf *f) {
    enum { MAX_HOLD_MS = 2 * CF_KEPT_LEASE_MS };
    lost_victim *v = take_victim(f, MAX_HOLD_MS, 0);
    CF_UNTIL(!hf_held(v->hold));
    /* Renewal carried it past its lease, up to the bound. */
    assert_true(t_now_ms() - v->taken_at >= MAX_HOLD_MS * 9 / 10);
    check_loss_reported(v);
}

static void B12_a_late_query_says_lost(cf *f) {
    hf_hold *hold =
        CF_TAKE(f->a, f->name, &(hf_options){.lease_ms = CF_SHORT_LEASE_MS, .flags = HF_NO_RENEW});
    hf_hold *next = CF_TAKE(f->b, f->name, &WAIT);
    /* The descriptor is created after the loss, so it is readable at once. */
    CF_UNTIL(hf_why_lost(hold) != NULL);
    assert_int_equal(hf_held(hold), 0);
    assert_int_equal(cf_readable(hf_lost_fd(hold)), 1);
    CF_IS(HF_LOST, hf_release(hold));
    CF_FREE(next);
}

static void B12_every_handle_of_a_lost_ownership_says_lost(cf *f) {
    lost_victim *v = take_victim(f, 0, 0);
    hf_hold *again = CF_TAKE(f->a, f->name, NULL);
    int fd = hf_lost_fd(again);
    assert_int_equal(cf_readable(fd), 0);
    CF_IS(HF_OK, hf_break(f->b, f->name, v->token));
    CF_UNTIL(!hf_held(again));
    CF_UNTIL(cf_readable(fd));
    assert_non_null(hf_why_lost(again));
    CF_IS(HF_LOST, hf_extend(again, 30000));
    CF_IS(HF_LOST, hf_release(again));
    CF_UNTIL(cf_readable(v->fd));
    CF_UNTIL(atomic_load(&v->lost.calls) > 0);
    CF_IS(HF_LOST, hf_release(v->hold));
}

static void B12_after_a_loss_the_same_owner_may_acquire_again(cf *f) {
    lost_victim *v = take_victim(f, 0, 0);
    CF_IS(HF_OK, hf_break(f->b, f->name, 0));
    CF_UNTIL(!hf_held(v->hold));
    hf_hold *again = CF_TAKE(f->a, f->name, &WAIT);
    assert_true(hf_fence(again) > v->token);
    CF_IS(HF_LOST, hf_release(v->hold));
    assert_int_equal(hf_held(again), 1);
    assert_true(cf_token(f->b, f->name) == hf_fence(again));
    CF_FREE(again);
}

/* ---- No loss --------------------------------------------------------------------------------- */

static void B10_a_normal_release_is_no_loss(cf *f) {
    lost_victim *v = take_victim(f, 0, 0);
    hf_hold *ref = hf_ref(v->hold);
    CF_FREE(v->hold);
    t_sleep_ms(CF_PAST_LEASE_MS); /* everything its lease could still cause has happened */
    assert_int_equal(hf_held(ref), 0);
    assert_int_equal(cf_readable(v->fd), 0);
    assert_null(hf_why_lost(ref));
    assert_int_equal(atomic_load(&v->lost.calls), 0);
    assert_int_equal(cf_stats(f->a).lost, 0);
    hf_unref(ref);
}

/* Release while the lease runs out. After a release in time on_lost is not called. After the
   release has returned, on_lost is never called. A release that comes too late reports the loss
   itself. */
static void B10_no_loss_is_reported_after_a_release_that_races_the_deadline(cf *f) {
    enum { ROUNDS = 8 };
    int64_t lease_ms = t_patience(200);
    cf_lost *lost = cf_new(f, ROUNDS * sizeof *lost);
    int expected[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        hf_hold *hold = CF_TAKE(f->a, f->name,
                                &(hf_options){.wait_ms = CF_WATCHDOG_MS,
                                              .lease_ms = lease_ms,
                                              .flags = HF_NO_RENEW,
                                              .on_lost = cf_on_lost,
                                              .arg = &lost[i]});
        int64_t early_ms = i % 4; /* from a little before the deadline to just after it */
        while (hf_remaining_ms(hold) > early_ms) {
        }
        int32_t held = hf_held(hold);
        hf_result result = hf_release(hold);
        CF_IS(held && result == HF_OK ? HF_OK : HF_LOST, result);
        expected[i] = atomic_load(&lost[i].calls);
        assert_in_range(expected[i], 0, result == HF_LOST);
    }
    t_sleep_ms(2 * lease_ms);
    for (int i = 0; i < ROUNDS; i++) assert_int_equal(atomic_load(&lost[i].calls), expected[i]);
}

/* ---- Inside on_lost -------------------------------------------------------------------------- */

/* What on_lost did with the library, and the results. */
typedef struct inside {
    hf_client *client;
    const char *other;
    int32_t held;
    hf_result taken, released, inspected, broken, counted, ended;
    atomic_int done;
} inside;

static void use_the_library(hf_hold *hold, void *arg) {
    inside *in = arg;
    hf_hold *other = NULL;
    hf_info *info = NULL;
    hf_stats stats;
    in->held = hf_held(hold);
    in->taken = hf_try_lock(in->client, in->other, &other);
    in->released = hf_release(other);
    in->inspected = hf_inspect(in->client, in->other, &info);
    if (in->inspected == HF_OK) hf_info_free(info);
    in->broken = hf_break(in->client, in->other, 0);
    in->counted = hf_stats_get(in->client, &stats);
    in->ended = hf_release(hold);
    atomic_store(&in->done, 1);
}

static void B11_on_lost_may_use_the_library_and_release_the_hold(cf *f) {
    inside *in = cf_new(f, sizeof *in);
    *in = (inside){.client = f->a, .other = cf_name(f, "-other"), .held = -1};
    (void)CF_TAKE(f->a, f->name,
                  &(hf_options){.lease_ms = CF_SHORT_LEASE_MS,
                                .max_hold_ms = CF_SHORT_LEASE_MS / 2,
                                .on_lost = use_the_library,
                                .arg = in});
    CF_UNTIL(atomic_load(&in->done));
    assert_int_equal(in->held, 0);
    CF_IS(HF_OK, in->taken);
    CF_IS(HF_OK, in->released);
    CF_IS(HF_OK, in->inspected);
    CF_IS(HF_NOT_HELD, in->broken);
    CF_IS(HF_OK, in->counted);
    CF_IS(HF_LOST, in->ended);
}

const cf_case cf_loss[] = {
    CF_CASE(B11_a_broken_hold_is_reported),
    CF_CASE(B11_a_hold_broken_by_its_own_client_is_reported),
    CF_CASE(B11_a_lease_that_expires_is_reported),
    CF_CASE(F05_max_hold_ends_a_hold_and_is_reported),
    CF_CASE(B12_a_late_query_says_lost),
    CF_CASE(B12_every_handle_of_a_lost_ownership_says_lost),
    CF_CASE(B12_after_a_loss_the_same_owner_may_acquire_again),
    CF_CASE(B10_a_normal_release_is_no_loss),
    CF_CASE(B10_no_loss_is_reported_after_a_release_that_races_the_deadline),
    CF_CASE(B11_on_lost_may_use_the_library_and_release_the_hold),
    CF_CASES_END,
};
