/* SPDX-License-Identifier: Apache-2.0 */
/* The owner of a hold: the thread that acquired it, or the logical owner it was acquired for. */
#include "conformance.h"

static void B24_any_thread_may_release_and_the_owner_stays(cf *f) {
    hf_hold *first = CF_TAKE(f->a, f->name, NULL);
    hf_hold *second = CF_TAKE(f->a, f->name, NULL);
    uint64_t token = hf_fence(first);

    CF_IS(HF_OK, cf_release_in_thread(f, first));
    assert_int_equal(hf_held(second), 1);
    CF_IS(HF_BUSY, cf_acquire_in_thread(f, f->a, f->name, NULL, NULL));
    hf_hold *third = CF_TAKE(f->a, f->name, NULL);
    assert_true(hf_fence(third) == token);

    CF_IS(HF_OK, cf_release_in_thread(f, second));
    CF_IS(HF_OK, cf_release_in_thread(f, third));
    hf_hold *hold;
    CF_IS(HF_OK, cf_acquire_in_thread(f, f->a, f->name, NULL, &hold));
    assert_true(hf_fence(hold) > token);
    CF_REFUSED(HF_BUSY, f->a, f->name, NULL);
    CF_FREE(hold);
}

static void B25_two_owners_in_one_thread_exclude_each_other(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, &(hf_options){.owner = 7});
    CF_REFUSED(HF_BUSY, f->a, f->name, &(hf_options){.owner = 8});
    CF_REFUSED(HF_BUSY, f->a, f->name, NULL);
    CF_REFUSED(HF_TIMEOUT, f->a, f->name, &(hf_options){.owner = 8, .wait_ms = 300});
    hf_hold *again = CF_TAKE(f->a, f->name, &(hf_options){.owner = 7});
    assert_true(hf_fence(again) == hf_fence(hold));
    CF_FREE(again);
    CF_FREE(hold);
    CF_FREE(CF_TAKE(f->a, f->name, &(hf_options){.owner = 8}));
}

static void B25_one_owner_in_two_threads_re_enters(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, &(hf_options){.owner = 7});
    hf_hold *again;
    CF_IS(HF_OK, cf_acquire_in_thread(f, f->a, f->name, &(hf_options){.owner = 7}, &again));
    assert_true(hf_fence(again) == hf_fence(hold));
    CF_FREE(hold);
    assert_int_equal(hf_held(again), 1);
    CF_REFUSED(HF_BUSY, f->b, f->name, NULL);
    CF_FREE(again);
    CF_FREE(CF_TAKE(f->b, f->name, NULL));
}

static void B25_an_owner_that_waits_in_two_threads_enters_with_both(cf *f) {
    const hf_options as_seven = {.owner = 7, .wait_ms = HF_FOREVER};
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    cf_attempt *first = cf_queue(f, f->a, f->name, &as_seven);
    cf_attempt *second = cf_queue(f, f->a, f->name, &as_seven);
    CF_FREE(hold);
    hf_hold *one = cf_granted(first), *other = cf_granted(second);
    assert_true(hf_fence(one) == hf_fence(other));
    CF_FREE(one);
    CF_REFUSED(HF_BUSY, f->b, f->name, NULL);
    CF_FREE(other);
    CF_FREE(CF_TAKE(f->b, f->name, NULL));
}

static void B25_a_logical_owner_is_not_the_thread_with_that_id(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    hf_info *info = cf_inspect(f->a, f->name);
    assert_int_equal(info->owner[0], 't');
    uint64_t number = strtoull(info->owner + 1, NULL, 10);
    hf_info_free(info);
    assert_true(number > 0);
    CF_REFUSED(HF_BUSY, f->a, f->name, &(hf_options){.owner = number});
    CF_FREE(hold);

    hold = CF_TAKE(f->a, f->name, &(hf_options){.owner = number});
    CF_REFUSED(HF_BUSY, f->a, f->name, NULL);
    CF_FREE(hold);
}

static void B25_fresh_owners_in_one_thread_exclude_each_other(cf *f) {
    const hf_options fresh = {.flags = HF_FRESH_OWNER};
    const hf_options fresh_waits = {.flags = HF_FRESH_OWNER, .wait_ms = 300};
    const hf_options named = {.flags = HF_FRESH_OWNER, .owner = 7};
    const hf_request names[] = {{.name = f->name}};
    hf_hold *none = NULL;
    hf_hold *hold = CF_TAKE(f->a, f->name, &fresh);
    CF_REFUSED(HF_BUSY, f->a, f->name, &fresh);
    CF_REFUSED(HF_BUSY, f->a, f->name, NULL);
    CF_REFUSED(HF_BUSY, f->a, f->name, &(hf_options){.owner = 7});
    CF_REFUSED(HF_TIMEOUT, f->a, f->name, &fresh_waits);
    CF_IS(HF_BUSY, hf_acquire_all(f->a, names, 1, &fresh, &none));
    CF_FREE(hold);
    hold = CF_TAKE(f->a, f->name, NULL); /* this thread's hold */
    CF_REFUSED(HF_BUSY, f->a, f->name, &fresh);
    CF_FREE(hold);
    CF_IS(HF_OK, hf_acquire_all(f->a, names, 1, &fresh, &hold));
    CF_REFUSED(HF_BUSY, f->a, f->name, &fresh);
    CF_FREE(hold);
    CF_REFUSED(HF_INVALID, f->a, f->name, &named);
}

/* A task that a scheduler runs on a shared thread: a goroutine, a coroutine, a fiber. */
struct task {
    hf_options options;
    hf_hold *hold;
    int turns;
};

static void run_a_step(cf *f, struct task *t, int *inside) {
    if (t->hold) {
        CF_FREE(t->hold);
        t->hold = NULL;
        t->turns++;
        --*inside;
        return;
    }
    hf_result r = hf_acquire(f->a, f->name, &t->options, &t->hold);
    assert_true(r == HF_OK || r == HF_BUSY);
    if (r == HF_OK) assert_int_equal(++*inside, 1);
}

/* One thread runs a step of each task in turn. The tasks also release on it, in another order. */
static void take_turns(cf *f, struct task *tasks, int count) {
    enum { STEPS = 60 };
    int inside = 0;
    for (int i = 0; i < STEPS; i++) run_a_step(f, &tasks[i % count], &inside);
    for (int i = 0; i < count; i++) {
        if (tasks[i].hold) CF_FREE(tasks[i].hold);
        assert_true(tasks[i].turns > 0);
    }
}

static void B25_tasks_that_share_a_thread_exclude_each_other(cf *f) {
    struct task fresh[] = {{.options.flags = HF_FRESH_OWNER}, {.options.flags = HF_FRESH_OWNER}};
    struct task named[] = {{.options.owner = 1}, {.options.owner = 2}};
    take_turns(f, fresh, 2);
    take_turns(f, named, 2);
}

static void B25_an_owner_belongs_to_its_client(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, &(hf_options){.owner = UINT64_MAX});
    CF_REFUSED(HF_BUSY, f->b, f->name, &(hf_options){.owner = UINT64_MAX});
    CF_FREE(CF_TAKE(f->a, f->name, &(hf_options){.owner = UINT64_MAX}));
    CF_FREE(hold);
}

static void F44_a_hold_outlives_its_thread_and_passes_to_no_other(cf *f) {
    hf_hold *hold;
    CF_IS(HF_OK, cf_acquire_in_thread(f, f->a, f->name, &(hf_options){.lease_ms = CF_KEPT_LEASE_MS},
                                      &hold));
    /* The ids of ended threads are reused at once. None of the later threads may be taken for the
       first one. */
    for (int i = 0; i < 20; i++) CF_IS(HF_BUSY, cf_acquire_in_thread(f, f->a, f->name, NULL, NULL));
    CF_REFUSED(HF_BUSY, f->a, f->name, NULL);

    uint64_t renewed = cf_stats(f->a).renewed;
    CF_UNTIL(cf_stats(f->a).renewed >= renewed + 4);
    assert_int_equal(hf_held(hold), 1);
    CF_REFUSED(HF_BUSY, f->b, f->name, NULL);
    CF_FREE(hold);
    CF_FREE(CF_TAKE(f->b, f->name, NULL));
}

const cf_case cf_owners[] = {
    CF_CASE(B24_any_thread_may_release_and_the_owner_stays),
    CF_CASE(B25_two_owners_in_one_thread_exclude_each_other),
    CF_CASE(B25_one_owner_in_two_threads_re_enters),
    CF_CASE(B25_an_owner_that_waits_in_two_threads_enters_with_both),
    CF_CASE(B25_a_logical_owner_is_not_the_thread_with_that_id),
    CF_CASE(B25_fresh_owners_in_one_thread_exclude_each_other),
    CF_CASE(B25_tasks_that_share_a_thread_exclude_each_other),
    CF_CASE(B25_an_owner_belongs_to_its_client),
    CF_CASE(F44_a_hold_outlives_its_thread_and_passes_to_no_other),
    CF_CASES_END,
};
