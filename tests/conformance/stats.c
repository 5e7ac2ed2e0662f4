/* SPDX-License-Identifier: Apache-2.0 */
/* Client statistics: hf_stats, and its two histograms. */
#include "conformance.h"

static uint64_t sum_buckets(const hf_histogram *h) {
    uint64_t all = 0;
    for (size_t i = 0; i < HF_BUCKETS; i++) all += h->bucket[i];
    return all;
}

/* The bucket of the only duration in the histogram. */
static size_t bucket_of_one(const hf_histogram *h) {
    size_t i = 0;
    assert_int_equal(h->count, 1);
    assert_int_equal(sum_buckets(h), 1);
    while (!h->bucket[i]) i++;
    return i;
}

static void an_uncontended_pair_is_counted(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    hf_stats held = cf_stats(f->a);
    assert_int_equal(held.acquired, 1);
    assert_int_equal(held.waits.count, 1);
    assert_int_equal(held.holds.count, 0);
    CF_FREE(hold);
    hf_stats freed = cf_stats(f->a);
    assert_int_equal(freed.holds.count, 1);
    assert_int_equal(freed.handed_over, 0);
}

static void a_duration_is_in_the_bucket_of_its_bound(cf *f) {
    int64_t began = t_now_ms();
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    int64_t taken = t_now_ms();
    CF_UNTIL(t_now_ms() >= taken + 20);
    int64_t released = t_now_ms();
    CF_FREE(hold);
    int64_t most_us = (t_now_ms() - began + 1) * 1000, least_us = (released - taken - 1) * 1000;

    hf_stats stats = cf_stats(f->a);
    size_t i = bucket_of_one(&stats.holds);
    assert_true(stats.holds.sum_us <= (uint64_t)most_us);
    assert_true(stats.holds.sum_us >= (uint64_t)least_us);
    assert_true(stats.holds.sum_us <= UINT64_C(1) << i);
    assert_true(stats.holds.sum_us > UINT64_C(1) << (i - 1));
    assert_true(stats.waits.sum_us <= (uint64_t)most_us);
}

static void a_lock_after_a_wait_counts_as_handed_over(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    cf_attempt *other = cf_queue(f, f->b, f->name, &(hf_options){.wait_ms = HF_FOREVER});
    CF_UNTIL(cf_stats(f->b).commands > 1 || !cf_has(CF_QUEUE) || cf_queue_length(f->name) == 1);
    int64_t since = t_now_ms();
    CF_UNTIL(t_now_ms() >= since + 10);
    CF_FREE(hold);
    CF_FREE(cf_granted(other));
    hf_stats stats = cf_stats(f->b);
    assert_int_equal(stats.handed_over, 1);
    assert_true(stats.waits.sum_us >= 9000);
    assert_int_equal(cf_stats(f->a).handed_over, 0);
}

static void a_lock_from_thread_to_thread_counts_as_handed_over(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    cf_attempt *other = cf_queue(f, f->a, f->name, &(hf_options){.wait_ms = HF_FOREVER});
    CF_FREE(hold);
    CF_FREE(cf_granted(other));
    hf_stats stats = cf_stats(f->a);
    assert_int_equal(stats.handed_over, 1);
    assert_int_equal(stats.waits.count, 2);
    assert_int_equal(stats.holds.count, 2);
}

static void a_failed_wait_is_not_counted(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    CF_REFUSED(HF_BUSY, f->b, f->name, NULL);
    CF_REFUSED(HF_TIMEOUT, f->b, f->name, &(hf_options){.wait_ms = 300});
    hf_stats stats = cf_stats(f->b);
    assert_int_equal(stats.refused, 2);
    assert_int_equal(stats.waits.count, 0);
    assert_int_equal(stats.handed_over, 0);
    CF_FREE(hold);
}

static void a_reentry_is_neither_a_wait_nor_a_hold(cf *f) {
    hf_hold *outer = CF_TAKE(f->a, f->name, NULL), *inner = CF_TAKE(f->a, f->name, NULL);
    CF_FREE(inner);
    CF_FREE(outer);
    hf_stats stats = cf_stats(f->a);
    assert_int_equal(stats.reentered, 1);
    assert_int_equal(stats.waits.count, 1);
    assert_int_equal(stats.holds.count, 1);
}

static void a_lost_hold_is_counted_as_ended(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, &(hf_options){.max_hold_ms = 60});
    CF_UNTIL(cf_stats(f->a).lost == 1);
    hf_stats stats = cf_stats(f->a);
    assert_int_equal(stats.holds.count, 1);
    assert_int_equal(stats.released, 0);
    CF_IS(HF_LOST, hf_release(hold));
}

static void an_older_program_gets_the_fields_that_it_knows(cf *f) {
    struct {
        char known[80]; /* the struct of the first version */
        char beyond[8];
    } old;
    memset(&old, 0x5a, sizeof old);
    CF_IS(HF_OK, hf_stats_get_v(f->a, (hf_stats *)(void *)&old, sizeof old.known));
    for (size_t i = 0; i < sizeof old.beyond; i++) assert_int_equal(old.beyond[i], 0x5a);
}

static void metrics_need_space(cf *f) {
    char *text = cf_new(f, HF_METRICS_MAX);
    CF_IS(HF_OK, hf_metrics_text(f->a, text, HF_METRICS_MAX));
    size_t length = strlen(text);
    assert_true(length < HF_METRICS_MAX / 2); /* a later version has more of them */
    CF_IS(HF_OK, hf_metrics_text(f->a, text, length + 1));
    memset(text, 0x5a, length + 1);
    CF_IS(HF_INVALID, hf_metrics_text(f->a, text, length));
    assert_string_equal(text, "");
    assert_int_equal(text[length], 0x5a);
    CF_IS(HF_INVALID, hf_metrics_text(f->a, text, 0));
    CF_IS(HF_INVALID, hf_metrics_text(f->a, NULL, 100));
    CF_IS(HF_INVALID, hf_metrics_text(NULL, text, HF_METRICS_MAX));
}

const cf_case cf_counting[] = {
    CF_CASE(an_uncontended_pair_is_counted),
    CF_CASE(a_duration_is_in_the_bucket_of_its_bound),
    CF_CASE(a_lock_after_a_wait_counts_as_handed_over),
    CF_CASE(a_lock_from_thread_to_thread_counts_as_handed_over),
    CF_CASE(a_failed_wait_is_not_counted),
    CF_CASE(a_reentry_is_neither_a_wait_nor_a_hold),
    CF_CASE(a_lost_hold_is_counted_as_ended),
    CF_CASE(an_older_program_gets_the_fields_that_it_knows),
    CF_CASE(metrics_need_space),
    CF_CASES_END,
};
