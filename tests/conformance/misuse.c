/* SPDX-License-Identifier: Apache-2.0 */
/* Handles released twice, late or not at all, and NULL where the header allows it. */
#include <sched.h>
#include <stdatomic.h>

#include "conformance.h"

/* ---- F48 ------------------------------------------------------------------------------------- */

static void F48_a_second_release_returns_not_held(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    hf_hold *second = hf_ref(hold), *third = hf_ref(hold);
    assert_ptr_equal(second, hold);
    CF_FREE(hold);
    CF_IS(HF_NOT_HELD, hf_release(second));
    assert_string_not_equal(hf_error_detail(), "");
    CF_IS(HF_NOT_HELD, hf_release(third));
}

/* Release through a stale reference while `client` holds the lock: it stays held. */
static void check_stale_release(cf *f, hf_client *client) {
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    hf_hold *stale = hf_ref(hold);
    CF_FREE(hold);
    hf_hold *next = CF_TAKE(client, f->name, NULL);
    assert_true(hf_fence(next) > hf_fence(stale));
    CF_IS(HF_NOT_HELD, hf_release(stale));
    assert_int_equal(hf_held(next), 1);
    assert_true(cf_token(f->b, f->name) == hf_fence(next));
    assert_int_equal(cf_count(f->b, f->name), 1);
    CF_FREE(next);
}

static void F48_a_second_release_never_frees_the_lock_of_a_later_holder(cf *f) {
    check_stale_release(f, f->b);
    check_stale_release(f, f->a); /* the same owner, in a later ownership */
}

static void F48_the_release_of_a_lost_hold_returns_lost_and_frees_nothing(cf *f) {
    hf_hold *lost =
        CF_TAKE(f->a, f->name, &(hf_options){.lease_ms = CF_SHORT_LEASE_MS, .flags = HF_NO_RENEW});
    hf_hold *ref = hf_ref(lost);
    hf_hold *next = CF_TAKE(f->b, f->name, &(hf_options){.wait_ms = CF_WATCHDOG_MS});
    CF_IS(HF_LOST, hf_release(lost));
    assert_string_not_equal(hf_error_detail(), "");
    hf_unref(ref);
    assert_int_equal(hf_held(next), 1);
    assert_true(cf_token(f->a, f->name) == hf_fence(next));
    CF_FREE(next);
}

static void F48_dropping_the_last_reference_releases(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    assert_ptr_equal(hf_ref(hold), hold);
    hf_unref(hold);
    assert_int_equal(hf_held(hold), 1);
    CF_REFUSED(HF_BUSY, f->b, f->name, NULL);
    hf_unref(hold);
    CF_FREE(CF_TAKE(f->b, f->name, &(hf_options){.wait_ms = CF_WATCHDOG_MS}));
    CF_UNTIL(cf_stats(f->a).released == 1);
    assert_int_equal(cf_stats(f->a).held + cf_stats(f->a).lost, 0);
}

typedef struct drop {
    atomic_int ready;
    hf_hold *hold;
} drop;

static void drop_when_both_are_ready(void *arg) {
    drop *d = arg;
    atomic_fetch_add(&d->ready, 1);
    while (atomic_load(&d->ready) < 2 && !cf_over()) sched_yield();
    hf_unref(d->hold);
}

/* Each thread sees the other's reference, and the last one still releases. */
static void F48_dropping_the_last_two_references_at_once_releases(cf *f) {
    for (int i = 0; i < 200; i++) {
        drop *d = cf_new(f, sizeof *d);
        d->hold = hf_ref(CF_TAKE(f->a, f->name, NULL));
        cf_thread *threads[2];
        for (int k = 0; k < 2; k++) threads[k] = cf_spawn(f, drop_when_both_are_ready, d);
        for (int k = 0; k < 2; k++) cf_join(threads[k]);
        assert_int_equal(cf_stats(f->a).held, 0);
    }
    CF_FREE(CF_TAKE(f->b, f->name, &(hf_options){.wait_ms = CF_WATCHDOG_MS}));
}

static void F48_dropping_one_handle_of_an_ownership_leaves_the_other(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    hf_hold *again = CF_TAKE(f->a, f->name, NULL);
    hf_unref(hold);
    assert_int_equal(hf_held(again), 1);
    CF_UNTIL(cf_count(f->b, f->name) == 1);
    CF_REFUSED(HF_BUSY, f->b, f->name, NULL);
    CF_FREE(again);
    CF_FREE(CF_TAKE(f->b, f->name, NULL));
}

/* ---- NULL ------------------------------------------------------------------------------------ */

static void null_is_allowed_where_the_header_says_so(cf *f) {
    (void)f;
    CF_IS(HF_INVALID, hf_release(NULL));
    hf_unref(NULL);
    hf_close(NULL);
    hf_cancel_fire(NULL);
    hf_cancel_free(NULL);
}

static void null_stats_are_refused(cf *f) {
    CF_IS(HF_INVALID, hf_stats_get(f->a, NULL));
}

static void without_a_url_the_environment_decides(cf *f) {
    hf_client *client = f->a;
    unsetenv("HOLDFAST_URL");
    CF_IS(HF_INVALID, hf_open(NULL, NULL, &client));
    assert_null(client);
    assert_non_null(strstr(hf_error_detail(), "HOLDFAST_URL"));

    setenv("HOLDFAST_URL", cf_url(), 1);
    hf_hold *hold = CF_TAKE(cf_open_url(f, NULL, NULL), f->name, NULL);
    unsetenv("HOLDFAST_URL");
    CF_REFUSED(HF_BUSY, f->a, f->name, NULL);
    CF_FREE(hold);
}

const cf_case cf_misuse[] = {
    CF_CASE(F48_a_second_release_returns_not_held),
    CF_CASE(F48_a_second_release_never_frees_the_lock_of_a_later_holder),
    CF_CASE(F48_the_release_of_a_lost_hold_returns_lost_and_frees_nothing),
    CF_CASE(F48_dropping_the_last_reference_releases),
    CF_CASE(F48_dropping_the_last_two_references_at_once_releases),
    CF_CASE(F48_dropping_one_handle_of_an_ownership_leaves_the_other),
    CF_CASE(null_is_allowed_where_the_header_says_so),
    CF_CASE(null_stats_are_refused),
    CF_CASE(without_a_url_the_environment_decides),
    CF_CASES_END,
};
