/* SPDX-License-Identifier: Apache-2.0 */
/* Shows that a soak can fail: the verdicts of its judge and its ledger on runs that went wrong. */
#include <stdlib.h>

#include "judge.h"
#include "ledger.h"
#include "t.h"

/* ---- The judge ------------------------------------------------------------------------------- */

enum { SAMPLES = 400 };

/* A figure that warms up during the first quarter, swings, and grows by `step` with every
   sample. */
static judge_verdict judge_growth(double step, double factor, double slack) {
    judge_series s = {0};
    for (int i = 0; i < SAMPLES; i++) {
        double warm = i < SAMPLES / 4 ? 500.0 * i / (SAMPLES / 4) : 500;
        T_CHECK(judge_add(&s, 1000 + warm + step * i + (i * 37) % 20));
    }
    judge_verdict v = judge_flat(&s, factor, slack);
    judge_fini(&s);
    return v;
}

static void test_a_figure_that_warms_up_and_swings_is_flat(void **state) {
    (void)state;
    assert_true(judge_growth(0, 1, 5).flat);
}

static void test_a_figure_that_grows_slowly_is_not_flat(void **state) {
    (void)state;
    assert_false(judge_growth(0.2, 1.01, 5).flat);
    assert_true(judge_growth(-0.2, 1, 0).flat);
}

/* For example samples taken while a process is stopped, or its server is away. */
static void test_a_few_wild_samples_do_not_matter(void **state) {
    judge_series s = {0};
    (void)state;
    for (int i = 0; i < SAMPLES; i++) T_CHECK(judge_add(&s, i % 5 == 0 && i > 300 ? 1e9 : 100));
    assert_true(judge_flat(&s, 1, 0).flat);
    judge_fini(&s);
}

static void test_a_run_that_is_too_short_is_not_flat(void **state) {
    judge_series s = {0};
    (void)state;
    for (int i = 0; i < 7; i++) T_CHECK(judge_add(&s, 1));
    assert_false(judge_flat(&s, 2, 100).flat);
    judge_fini(&s);
}

/* ---- The ledger ------------------------------------------------------------------------------ */

static soak_ledger *book;

static int open_book(void **state) {
    (void)state;
    book = calloc(1, sizeof *book);
    return book ? 0 : -1;
}

static int close_book(void **state) {
    (void)state;
    free(book);
    return 0;
}

static ledger_stay stay_of(uint32_t kind, int64_t ms) {
    return (ledger_stay){.name = 3, .kind = kind, .until_us = t_now_us() + ms * 1000};
}

/* Whether an overlap is found when the second enters while the first stays inside for `ms`. */
static bool find_overlap(uint32_t first, int64_t ms, uint32_t second) {
    int other = -1;
    ledger_stay a = stay_of(first, ms), b = stay_of(second, 60000);
    ledger_enter(book, 1, 0, &a);
    ledger_enter(book, 2, 0, &b);
    bool met = ledger_overlaps(book, 2, &b, 0, &other);
    if (met) assert_int_equal(other, 1);
    ledger_leave(book, 1, 0);
    ledger_leave(book, 2, 0);
    return met;
}

static void test_which_kinds_exclude_each_other(void **state) {
    (void)state;
    assert_true(find_overlap(HF_MUTEX, 60000, HF_MUTEX));
    assert_true(find_overlap(HF_READ, 60000, HF_WRITE));
    assert_true(find_overlap(HF_WRITE, 60000, HF_READ));
    assert_true(find_overlap(HF_UPGRADABLE, 60000, HF_UPGRADABLE));
    assert_true(find_overlap(HF_PERMITS, 60000, HF_READ));
    assert_false(find_overlap(HF_READ, 60000, HF_READ));
    assert_false(find_overlap(HF_READ, 60000, HF_UPGRADABLE));
}

static void test_a_stay_past_its_deadline_is_not_inside(void **state) {
    (void)state;
    assert_false(find_overlap(HF_MUTEX, -1, HF_MUTEX));
}

static void test_a_stay_that_left_or_died_is_not_inside(void **state) {
    int other;
    ledger_stay a = stay_of(HF_MUTEX, 60000), b = a, elsewhere = a;
    (void)state;
    elsewhere.name++;
    ledger_enter(book, 1, 1, &a);
    ledger_enter(book, 2, 0, &b);
    ledger_enter(book, 3, 0, &elsewhere);
    assert_true(ledger_overlaps(book, 2, &b, 0, &other));
    ledger_set_dead(book, 1, true);
    assert_false(ledger_overlaps(book, 2, &b, 0, &other));
    ledger_set_dead(book, 1, false);
    assert_false(ledger_overlaps(book, 2, &b, 0, &other));
    ledger_enter(book, 1, 1, &a);
    ledger_leave(book, 1, 1);
    assert_false(ledger_overlaps(book, 2, &b, 0, &other));
}

/* The store has lost the first one's lock, and its holder cannot know it yet. */
static void test_a_wipe_excuses_earlier_stays(void **state) {
    int other;
    ledger_stay a = stay_of(HF_MUTEX, 60000), b = a;
    (void)state;
    b.wipes = 2;
    ledger_enter(book, 1, 0, &a);
    ledger_enter(book, 2, 0, &b);
    assert_false(ledger_overlaps(book, 2, &b, 2, &other));
    ledger_enter(book, 3, 0, &b);
    assert_true(ledger_overlaps(book, 2, &b, 2, &other));
    assert_false(ledger_overlaps(book, 2, &b, 3, &other));
}

static void test_permits_add_up(void **state) {
    int other;
    ledger_stay stays[3];
    (void)state;
    for (int i = 0; i < 3; i++) {
        stays[i] = stay_of(HF_PERMITS, 60000);
        stays[i].capacity = 5;
        stays[i].permits = i < 2 ? 2 : 1;
        ledger_enter(book, i, 0, &stays[i]);
        assert_false(ledger_overlaps(book, i, &stays[i], 0, &other));
    }
    ledger_enter(book, 3, 0, &stays[2]);
    assert_true(ledger_overlaps(book, 3, &stays[2], 0, &other));
}

static void test_tokens(void **state) {
    (void)state;
    assert_true(ledger_token_grows(book, 7, 10));
    assert_true(ledger_token_grows(book, 7, 11));
    assert_false(ledger_token_grows(book, 7, 11));
    assert_false(ledger_token_grows(book, 7, 10));
    assert_true(ledger_token_grows(book, 8, 1));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_figure_that_warms_up_and_swings_is_flat),
        cmocka_unit_test(test_a_figure_that_grows_slowly_is_not_flat),
        cmocka_unit_test(test_a_few_wild_samples_do_not_matter),
        cmocka_unit_test(test_a_run_that_is_too_short_is_not_flat),
        cmocka_unit_test_setup_teardown(test_which_kinds_exclude_each_other, open_book, close_book),
        cmocka_unit_test_setup_teardown(test_a_stay_past_its_deadline_is_not_inside, open_book,
                                        close_book),
        cmocka_unit_test_setup_teardown(test_a_stay_that_left_or_died_is_not_inside, open_book,
                                        close_book),
        cmocka_unit_test_setup_teardown(test_a_wipe_excuses_earlier_stays, open_book, close_book),
        cmocka_unit_test_setup_teardown(test_permits_add_up, open_book, close_book),
        cmocka_unit_test_setup_teardown(test_tokens, open_book, close_book),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
