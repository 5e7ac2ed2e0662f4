/* SPDX-License-Identifier: Apache-2.0 */
/* An owner that acquires a lock it holds: counted re-entry, or HF_DEADLOCK if it is not allowed. */
#include "conformance.h"

static const hf_options NOT_REENTRANT = {.flags = HF_NOT_REENTRANT};
static const hf_options NOT_REENTRANT_FOREVER = {.wait_ms = HF_FOREVER, .flags = HF_NOT_REENTRANT};
static const hf_options FOREVER = {.wait_ms = HF_FOREVER};

/* ---- B2 -------------------------------------------------------------------------------------- */

/* The second acquire fails at once, and does not change the first. */
static void check_deadlock(cf *f, const hf_options *first, const hf_options *second) {
    hf_hold *hold = CF_TAKE(f->a, f->name, first);
    int64_t started = t_now_ms();
    CF_REFUSED(HF_DEADLOCK, f->a, f->name, second);
    CF_AT_ONCE(started);
    assert_int_equal(hf_held(hold), 1);
    assert_int_equal(cf_count(f->b, f->name), 1);
    CF_FREE(hold);
    CF_FREE(CF_TAKE(f->b, f->name, NULL));
}

static void B02_a_second_acquire_after_a_non_reentrant_one_is_a_deadlock(cf *f) {
    check_deadlock(f, &NOT_REENTRANT, NULL);
    check_deadlock(f, &NOT_REENTRANT, &FOREVER);
}

static void B02_a_non_reentrant_second_acquire_is_a_deadlock(cf *f) {
    check_deadlock(f, NULL, &NOT_REENTRANT);
    check_deadlock(f, NULL, &NOT_REENTRANT_FOREVER);
    check_deadlock(f, &NOT_REENTRANT, &NOT_REENTRANT_FOREVER);
}

static void B02_a_non_reentrant_acquire_by_another_owner_is_no_deadlock(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, &NOT_REENTRANT);
    CF_REFUSED(HF_BUSY, f->b, f->name, &NOT_REENTRANT);
    CF_REFUSED(HF_BUSY, f->a, f->name, &(hf_options){.owner = 5, .flags = HF_NOT_REENTRANT});
    CF_IS(HF_BUSY, cf_acquire_in_thread(f, f->a, f->name, &NOT_REENTRANT, NULL));
    CF_FREE(hold);
}

/* ---- B23 ------------------------------------------------------------------------------------- */

enum { DEPTH = 3 };

/* Enter DEPTH times, and check what the handles of one ownership share. */
static void enter_repeatedly(cf *f, hf_hold *holds[DEPTH]) {
    for (int i = 0; i < DEPTH; i++) {
        holds[i] = CF_TAKE(f->a, f->name, NULL);
        assert_true(hf_fence(holds[i]) == hf_fence(holds[0]));
        for (int k = 0; k < i; k++) assert_ptr_not_equal(holds[i], holds[k]);
    }
}

static void B23_as_many_releases_as_acquires(cf *f) {
    hf_hold *holds[DEPTH];
    enter_repeatedly(f, holds);
    for (int i = 0; i < DEPTH; i++) {
        CF_REFUSED(HF_BUSY, f->b, f->name, NULL);
        for (int k = i; k < DEPTH; k++) assert_int_equal(hf_held(holds[k]), 1);
        CF_FREE(holds[i]);
    }
    CF_FREE(CF_TAKE(f->b, f->name, NULL));
}

static void B23_a_released_handle_is_not_held_while_its_ownership_is(cf *f) {
    hf_hold *holds[DEPTH];
    enter_repeatedly(f, holds);
    hf_hold *ref = hf_ref(holds[1]);
    CF_FREE(holds[1]);
    assert_int_equal(hf_held(ref), 0);
    CF_IS(HF_NOT_HELD, hf_release(ref));
    assert_true(hf_held(holds[0]) && hf_held(holds[2]));
    CF_UNTIL(cf_count(f->b, f->name) == 2);
    CF_FREE(holds[0]);
    CF_REFUSED(HF_BUSY, f->b, f->name, NULL);
    CF_FREE(holds[2]);
    CF_FREE(CF_TAKE(f->b, f->name, NULL));
}

static void B23_inspecting_shows_the_count(cf *f) {
    hf_hold *holds[DEPTH];
    enter_repeatedly(f, holds);
    for (uint32_t left = DEPTH; left > 0; left--) {
        CF_UNTIL(cf_count(f->b, f->name) == left);
        assert_true(cf_token(f->b, f->name) == hf_fence(holds[left - 1]));
        CF_FREE(holds[left - 1]);
    }
    assert_int_equal(cf_count(f->b, f->name), 0);
}

static void B23_an_owner_re_enters_past_waiters(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    cf_attempt *local = cf_queue(f, f->a, f->name, &FOREVER);
    cf_attempt *remote = cf_queue(f, f->b, f->name, &FOREVER);
    hf_hold *again = CF_TAKE(f->a, f->name, NULL);
    assert_true(hf_fence(again) == hf_fence(hold));
    CF_FREE(hold);
    assert_int_equal(cf_stats(f->a).waiting + cf_stats(f->b).waiting, 2);
    CF_FREE(again);
    CF_UNTIL(cf_stats(f->a).waiting + cf_stats(f->b).waiting == 1);
    int local_first = cf_stats(f->a).waiting == 0;
    CF_FREE(cf_granted(local_first ? local : remote));
    CF_FREE(cf_granted(local_first ? remote : local));
}

static void B23_a_re_entered_ownership_keeps_its_lease_and_bound(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, &(hf_options){.max_hold_ms = 20000});
    hf_hold *again =
        CF_TAKE(f->a, f->name, &(hf_options){.lease_ms = 600000, .max_hold_ms = 900000});
    assert_in_range(hf_remaining_ms(again), 1, 20000);
    CF_IS(HF_OK, hf_extend(again, 600000));
    assert_in_range(hf_remaining_ms(hold), 1, 20000);
    CF_FREE(again);
    CF_FREE(hold);
}

static void B23_a_new_ownership_after_the_last_release_has_a_new_token(cf *f) {
    hf_hold *holds[DEPTH];
    enter_repeatedly(f, holds);
    uint64_t token = hf_fence(holds[0]);
    for (int i = 0; i < DEPTH; i++) CF_FREE(holds[i]);
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    assert_true(hf_fence(hold) > token);
    assert_int_equal(cf_count(f->b, f->name), 1);
    CF_FREE(hold);
}

const cf_case cf_reentry[] = {
    CF_CASE(B02_a_second_acquire_after_a_non_reentrant_one_is_a_deadlock),
    CF_CASE(B02_a_non_reentrant_second_acquire_is_a_deadlock),
    CF_CASE(B02_a_non_reentrant_acquire_by_another_owner_is_no_deadlock),
    CF_CASE(B23_as_many_releases_as_acquires),
    CF_CASE(B23_a_released_handle_is_not_held_while_its_ownership_is),
    CF_CASE(B23_inspecting_shows_the_count),
    CF_CASE(B23_an_owner_re_enters_past_waiters),
    CF_CASE(B23_a_re_entered_ownership_keeps_its_lease_and_bound),
    CF_CASE(B23_a_new_ownership_after_the_last_release_has_a_new_token),
    CF_CASES_END,
};
