/* SPDX-License-Identifier: Apache-2.0 */
/* Leases: renewal keeps a hold, hf_extend lengthens it, and nothing shortens it. */
#include "conformance.h"

static void B15_renewal_keeps_a_lock_for_many_leases(cf *f) {
    enum { LEASES = 4 };
    cf_lost *lost = cf_new(f, sizeof *lost);
    hf_hold *hold =
        CF_TAKE(f->a, f->name,
                &(hf_options){.lease_ms = CF_KEPT_LEASE_MS, .on_lost = cf_on_lost, .arg = lost});
    uint64_t token = hf_fence(hold);
    for (int64_t end = t_now_ms() + LEASES * CF_KEPT_LEASE_MS; t_now_ms() < end;) {
        CF_REFUSED(HF_BUSY, f->b, f->name, NULL);
        assert_int_equal(hf_held(hold), 1);
        assert_in_range(hf_remaining_ms(hold), 1, CF_KEPT_LEASE_MS);
        t_sleep_ms(10);
    }
    assert_true(hf_fence(hold) == token);
    assert_true(cf_token(f->b, f->name) == token);
    assert_true(cf_stats(f->a).renewed >= LEASES);
    CF_FREE(hold);
    assert_int_equal(atomic_load(&lost->calls), 0);
}

static void B15_renewal_keeps_many_locks_at_once(cf *f) {
    enum { LOCKS = 50, LEASES = 4 };
    hf_hold *holds[LOCKS];
    for (int i = 0; i < LOCKS; i++) {
        char suffix[16];
        snprintf(suffix, sizeof suffix, "-%d", i);
        holds[i] = CF_TAKE(f->a, cf_name(f, suffix), &(hf_options){.lease_ms = CF_KEPT_LEASE_MS});
    }
    CF_UNTIL(cf_stats(f->a).renewed >= LOCKS * LEASES);
    for (int i = 0; i < LOCKS; i++) {
        assert_int_equal(hf_held(holds[i]), 1);
        CF_FREE(holds[i]);
    }
}

static void B15_the_client_s_lease_is_the_default(cf *f) {
    hf_client *client = cf_open_url(f, cf_url(), &(hf_client_options){.lease_ms = 5000});
    hf_hold *hold = CF_TAKE(client, f->name, NULL);
    assert_in_range(hf_remaining_ms(hold), 1, 5000);
    CF_FREE(hold);

    hf_client *by_url =
        cf_open_url(f, cf_url_with(f, "lease=7s"), &(hf_client_options){.lease_ms = 5000});
    hold = CF_TAKE(by_url, f->name, NULL);
    assert_in_range(hf_remaining_ms(hold), 5001, 7000);
    CF_FREE(hold);
}

/* ---- hf_extend ------------------------------------------------------------------------------- */

static const hf_options ONE_SHORT_LEASE = {.lease_ms = CF_SHORT_LEASE_MS, .flags = HF_NO_RENEW};

static void B22_extend_makes_a_hold_outlive_its_lease(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, &ONE_SHORT_LEASE);
    CF_IS(HF_OK, hf_extend(hold, 20000));
    assert_in_range(hf_remaining_ms(hold), 15000, 20000);
    hf_info *info = cf_inspect(f->b, f->name);
    assert_in_range(info->remaining_ms, 15000, 20000);
    hf_info_free(info);

    t_sleep_ms(CF_PAST_LEASE_MS);
    assert_int_equal(hf_held(hold), 1);
    CF_REFUSED(HF_BUSY, f->b, f->name, NULL);
    CF_FREE(hold);
}

static void B22_extend_never_shortens(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    CF_IS(HF_OK, hf_extend(hold, HF_LEASE_MIN_MS));
    assert_in_range(hf_remaining_ms(hold), 20000, 30000);
    hf_info *info = cf_inspect(f->b, f->name);
    assert_in_range(info->remaining_ms, 20000, 30000);
    hf_info_free(info);
    CF_FREE(hold);
}

static void B22_a_renewal_never_shortens_an_extension(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, &(hf_options){.lease_ms = CF_KEPT_LEASE_MS});
    CF_IS(HF_OK, hf_extend(hold, 60000));
    /* Renewal may pause until the extension nears its end; posting a re-entry count also renews. */
    hf_hold *again = CF_TAKE(f->a, f->name, NULL);
    CF_UNTIL(cf_count(f->b, f->name) == 2);
    t_sleep_ms(CF_PAST_LEASE_MS);
    assert_in_range(hf_remaining_ms(hold), 40000, 60000);
    hf_info *info = cf_inspect(f->b, f->name);
    assert_in_range(info->remaining_ms, 40000, 60000);
    hf_info_free(info);
    CF_FREE(again);
    CF_FREE(hold);
}

static void B22_extend_refuses_invalid_leases(cf *f) {
    static const int64_t bad[] = {-1,        1,        HF_LEASE_MIN_MS - 1, HF_LEASE_MAX_MS + 1,
                                  INT64_MAX, INT64_MIN};
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CF_IS(HF_INVALID, hf_extend(hold, bad[i]));
        assert_string_not_equal(hf_error_detail(), "");
    }
    assert_int_equal(hf_held(hold), 1);
    CF_IS(HF_OK, hf_extend(hold, HF_LEASE_MAX_MS));
    assert_true(hf_remaining_ms(hold) > HF_LEASE_MAX_MS / 2);
    CF_FREE(hold);
}

static void B22_extend_does_not_restore_an_ended_hold(cf *f) {
    hf_hold *released = CF_TAKE(f->a, f->name, NULL);
    hf_hold *ref = hf_ref(released);
    CF_FREE(released);
    CF_IS(HF_NOT_HELD, hf_extend(ref, 30000));
    hf_unref(ref);

    hf_hold *lost = CF_TAKE(f->a, f->name, &ONE_SHORT_LEASE);
    CF_UNTIL(!hf_held(lost));
    CF_IS(HF_LOST, hf_extend(lost, 30000));
    assert_int_equal(hf_held(lost), 0);
    hf_hold *hold = CF_TAKE(f->b, f->name, &(hf_options){.wait_ms = CF_WATCHDOG_MS});
    CF_IS(HF_LOST, hf_extend(lost, 30000));
    CF_IS(HF_LOST, hf_release(lost));
    CF_UNTIL(cf_token(f->a, f->name) == hf_fence(hold)); /* the nodes of a quorum converge on it */
    CF_FREE(hold);
}

/* ---- max_hold -------------------------------------------------------------------------------- */

static void F05_max_hold_bounds_extend_and_the_remaining_time(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, &(hf_options){.max_hold_ms = 10000});
    assert_in_range(hf_remaining_ms(hold), 1, 10000);
    CF_IS(HF_OK, hf_extend(hold, 60000));
    assert_in_range(hf_remaining_ms(hold), 1, 10000);
    CF_FREE(hold);

    hold = CF_TAKE(f->a, f->name, &(hf_options){.max_hold_ms = INT64_MAX});
    assert_in_range(hf_remaining_ms(hold), 20000, 30000);
    CF_FREE(hold);
}

const cf_case cf_leases[] = {
    CF_CASE(B15_renewal_keeps_a_lock_for_many_leases),
    CF_CASE(B15_renewal_keeps_many_locks_at_once),
    CF_CASE(B15_the_client_s_lease_is_the_default),
    CF_CASE(B22_extend_makes_a_hold_outlive_its_lease),
    CF_CASE(B22_extend_never_shortens),
    CF_CASE(B22_a_renewal_never_shortens_an_extension),
    CF_CASE(B22_extend_refuses_invalid_leases),
    CF_CASE(B22_extend_does_not_restore_an_ended_hold),
    CF_CASE(F05_max_hold_bounds_extend_and_the_remaining_time),
    CF_CASES_END,
};
