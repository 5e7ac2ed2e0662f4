/* SPDX-License-Identifier: Apache-2.0 */
/* Acquire and release, names, spaces and tokens when nothing goes wrong. */
#include "conformance.h"

static void B01_a_fresh_lock_can_be_taken(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    assert_int_equal(hf_held(hold), 1);
    assert_true(hf_fence(hold) > 0);
    assert_in_range(hf_remaining_ms(hold), 1, 30000);
    CF_FREE(hold);
}

static void B01_names_are_independent(cf *f) {
    hf_hold *first = CF_TAKE(f->a, cf_name(f, "-1"), NULL);
    hf_hold *second = CF_TAKE(f->b, cf_name(f, "-2"), NULL);
    assert_int_equal(hf_held(first), 1);
    assert_int_equal(hf_held(second), 1);
    CF_FREE(first);
    assert_int_equal(hf_held(second), 1);
    CF_REFUSED(HF_BUSY, f->a, cf_name(f, "-2"), NULL);
    CF_FREE(second);
}

static void B03_a_released_lock_can_be_taken_again(cf *f) {
    for (int i = 0; i < 20; i++) {
        CF_FREE(CF_TAKE(f->a, f->name, NULL));
        CF_FREE(CF_TAKE(f->b, f->name, NULL));
    }
    hf_hold *hold;
    CF_IS(HF_OK, cf_acquire_in_thread(f, f->a, f->name, NULL, &hold));
    CF_FREE(hold);
}

static void B03_a_released_hold_is_not_held(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    hf_hold *ref = hf_ref(hold);
    uint64_t token = hf_fence(hold);
    CF_FREE(hold);
    assert_int_equal(hf_held(ref), 0);
    assert_int_equal(hf_remaining_ms(ref), 0);
    assert_true(hf_fence(ref) == token);
    hf_unref(ref);
}

static void B04_a_try_on_a_held_lock_is_busy_at_once(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    int64_t started = t_now_ms();
    hf_hold *none = hold;
    CF_IS(HF_BUSY, hf_try_lock(f->b, f->name, &none));
    assert_null(none);
    CF_REFUSED(HF_BUSY, f->b, f->name, NULL);
    CF_REFUSED(HF_BUSY, f->b, f->name, &(hf_options){0});
    CF_REFUSED(HF_BUSY, f->a, f->name, &(hf_options){.owner = 1});
    CF_IS(HF_BUSY, cf_acquire_in_thread(f, f->a, f->name, NULL, NULL));
    CF_AT_ONCE(started);
    assert_int_equal(hf_held(hold), 1);
    CF_FREE(hold);
}

static void B09_names_are_case_sensitive(cf *f) {
    hf_hold *lower = CF_TAKE(f->a, cf_name(f, "-abc"), NULL);
    hf_hold *upper = CF_TAKE(f->b, cf_name(f, "-ABC"), NULL);
    hf_hold *mixed = CF_TAKE(f->b, cf_name(f, "-Abc"), NULL);
    assert_true(hf_held(lower) && hf_held(upper) && hf_held(mixed));
    CF_FREE(lower);
    CF_FREE(upper);
    CF_FREE(mixed);
}

static void B21_spaces_of_one_store_are_separate(cf *f) {
    hf_client *other = cf_open_url(f, cf_other_url(), NULL);
    hf_hold *here = CF_TAKE(f->a, f->name, NULL);
    hf_hold *there = CF_TAKE(other, f->name, NULL);

    CF_IS(HF_OK, hf_break(other, f->name, 0));
    assert_true(cf_token(f->b, f->name) == hf_fence(here));
    CF_REFUSED(HF_BUSY, f->b, f->name, NULL);

    hf_client *same = cf_open_url(f, cf_other_url(), NULL);
    hf_hold *again = CF_TAKE(same, f->name, NULL);
    CF_FREE(here);
    assert_true(cf_token(other, f->name) == hf_fence(again));
    CF_FREE(again);
    hf_unref(there);
}

/* Checks that each ownership has a greater token than the one before. */
static void note_token(uint64_t *last, const hf_hold *hold) {
    assert_true(hf_fence(hold) > *last);
    *last = hf_fence(hold);
}

static void B28_tokens_grow_from_ownership_to_ownership(cf *f) {
    uint64_t last = 0;
    for (int i = 0; i < 40; i++) {
        hf_hold *hold = CF_TAKE(i % 2 ? f->a : f->b, f->name, NULL);
        note_token(&last, hold);
        CF_FREE(hold);
    }
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    note_token(&last, hold);
    cf_attempt *next = cf_queue(f, f->b, f->name, &(hf_options){.wait_ms = HF_FOREVER});
    CF_FREE(hold);
    hold = cf_granted(next);
    note_token(&last, hold);
    CF_FREE(hold);
}

static void B28_tokens_grow_over_breaks_losses_and_clients(cf *f) {
    uint64_t last = 0;
    hf_hold *broken = CF_TAKE(f->a, f->name, NULL);
    note_token(&last, broken);
    CF_IS(HF_OK, hf_break(f->b, f->name, 0));

    hf_hold *expired =
        CF_TAKE(f->b, f->name, &(hf_options){.lease_ms = CF_SHORT_LEASE_MS, .flags = HF_NO_RENEW});
    note_token(&last, expired);

    hf_client *late = cf_open(f);
    hf_hold *hold = CF_TAKE(late, f->name, &(hf_options){.wait_ms = CF_WATCHDOG_MS});
    note_token(&last, hold);
    CF_IS(HF_OK, hf_extend(hold, 60000));
    assert_true(hf_fence(hold) == last);
    cf_close(f, late);
    hf_unref(hold);

    hold = CF_TAKE(cf_open(f), f->name, NULL);
    note_token(&last, hold);
    CF_FREE(hold);
    hf_unref(broken);
    hf_unref(expired);
}

static void HF_SCOPED_releases_at_the_end_of_its_scope(cf *f) {
    {
        HF_SCOPED hf_hold *hold = NULL;
        CF_IS(HF_OK, hf_try_lock(f->a, f->name, &hold));
        CF_REFUSED(HF_BUSY, f->b, f->name, NULL);
    }
    CF_FREE(CF_TAKE(f->b, f->name, NULL));
    {
        HF_SCOPED hf_hold *never_taken = NULL;
        assert_null(never_taken);
    }
}

const cf_case cf_basics[] = {
    CF_CASE(B01_a_fresh_lock_can_be_taken),
    CF_CASE(B01_names_are_independent),
    CF_CASE(B03_a_released_lock_can_be_taken_again),
    CF_CASE(B03_a_released_hold_is_not_held),
    CF_CASE(B04_a_try_on_a_held_lock_is_busy_at_once),
    CF_CASE(B09_names_are_case_sensitive),
    CF_CASE(B21_spaces_of_one_store_are_separate),
    CF_CASE(B28_tokens_grow_from_ownership_to_ownership),
    CF_CASE(B28_tokens_grow_over_breaks_losses_and_clients),
    CF_CASE(HF_SCOPED_releases_at_the_end_of_its_scope),
    CF_CASES_END,
};
