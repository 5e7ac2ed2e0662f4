/* SPDX-License-Identifier: Apache-2.0 */
/* The small pieces of src/base: time, randomness, text, the last failure and the log. */
#include "t.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "base/rand.h"
#include "base/text.h"
#include "base/time.h"

/* ---- Time ---- */

static void test_now_is_boottime_and_advances(void **state) {
    (void)state;
    int64_t before = t_now_us();
    hf__time now = hf__now();
    assert_in_range(now / 1000, before, t_now_us());
    assert_true(hf__now() >= now);
}

static void test_after(void **state) {
    (void)state;
    assert_int_equal(hf__after_ms(5, 0), 5);
    assert_int_equal(hf__after_ms(5, 2), 5 + 2 * HF__MS);
    assert_int_equal(hf__after_ms(5, HF_FOREVER), HF__NEVER);
    assert_int_equal(hf__after_ms(5, INT64_MIN), HF__NEVER);
    assert_int_equal(hf__after_ms(5, INT64_MAX), HF__NEVER);
    assert_int_equal(hf__after_ms(5, HF__SPAN_MAX_MS + 1), HF__NEVER);
    assert_int_equal(hf__after_ms(5, HF__SPAN_MAX_MS), 5 + HF__SPAN_MAX_MS * HF__MS);
    assert_int_equal(hf__sooner(1, 2), 1);
    assert_int_equal(hf__sooner(HF__NEVER, 2), 2);
    assert_int_equal(hf__later(1, 2), 2);
}

/* A fraction of a millisecond counts as a whole one, so that no sleeper wakes too early. */
static void test_poll_rounds_up(void **state) {
    (void)state;
    assert_int_equal(hf__poll_ms(100, HF__NEVER), -1);
    assert_int_equal(hf__poll_ms(100, 100), 0);
    assert_int_equal(hf__poll_ms(100, 0), 0);
    assert_int_equal(hf__poll_ms(100, 101), 1);
    assert_int_equal(hf__poll_ms(0, HF__MS), 1);
    assert_int_equal(hf__poll_ms(0, HF__MS + 1), 2);
    assert_int_equal(hf__poll_ms(0, HF__NEVER - HF__MS), INT_MAX);
}

/* ---- Randomness ---- */

static void test_rand_repeats_from_its_seed(void **state) {
    (void)state;
    hf__rand a = {7}, b = {7}, c = {8};
    for (int i = 0; i < 100; i++) {
        uint64_t drawn = hf__rand_next(&a);
        assert_true(drawn == hf__rand_next(&b));
        assert_true(drawn != hf__rand_next(&c));
    }
    assert_true(hf__rand_seed() != hf__rand_seed());
}

static void test_jitter_stays_between_three_quarters_and_all(void **state) {
    (void)state;
    static const int64_t spans[] = {
        0, 1, 3, 4, 5, 1000, 7 * HF__MS, HF__SEC, HF_LEASE_MAX_MS * HF__MS};
    hf__rand rand = {9};
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++) {
        int64_t least = INT64_MAX, most = 0, span = spans[i];
        for (int n = 0; n < 1000; n++) {
            int64_t j = hf__jitter(&rand, span);
            assert_true(j <= span && j >= span - span / 4);
            if (j < least) least = j;
            if (j > most) most = j;
        }
        if (span >= 1000) assert_true(most - least > span / 5); /* the values are spread */
    }
}

static void test_uuids(void **state) {
    (void)state;
    char seen[100][HF__UUID_LENGTH + 1];
    for (size_t i = 0; i < 100; i++) {
        hf__uuid_make(seen[i]);
        assert_int_equal(strlen(seen[i]), HF__UUID_LENGTH);
        assert_int_equal(strspn(seen[i], "0123456789abcdef-"), HF__UUID_LENGTH);
        assert_int_equal(seen[i][14], '4');
        assert_non_null(strchr("89ab", seen[i][19]));
        for (size_t at = 0; at < HF__UUID_LENGTH; at++)
            assert_int_equal(seen[i][at] == '-', at == 8 || at == 13 || at == 18 || at == 23);
        for (size_t j = 0; j < i; j++) assert_string_not_equal(seen[i], seen[j]);
    }
}

/* ---- Text ---- */

static void test_text_copy(void **state) {
    (void)state;
    char to[5] = "????";
    hf__text_copy(to, sizeof to, "abcdef");
    assert_string_equal(to, "abcd");
    hf__text_copy(to, sizeof to, "abcd");
    assert_string_equal(to, "abcd");
    hf__text_copy(to, sizeof to, "x");
    assert_string_equal(to, "x");
    hf__text_copy(to, sizeof to, NULL);
    assert_string_equal(to, "");
}

static void test_text_tame(void **state) {
    (void)state;
    char to[8];
    hf__text_sanitize(to, sizeof to, "a\x1b[\n\x7f\xc3\xa4", 7);
    assert_string_equal(to, "a [  \xc3\xa4");
    hf__text_sanitize(to, sizeof to, "\xc2\x9b\x9b\xc2\xa0", 5);
    assert_string_equal(to, " ?\xc2\xa0");
    hf__text_sanitize(to, sizeof to, "\xe2\x80\xae\xe2\x81\xa9\xe2\x80\xa8x", 10);
    assert_string_equal(to, "   x");
    /* Invalid, a surrogate, overlong. */
    hf__text_sanitize(to, sizeof to, "\xff\xed\xa0\x80\xc0\x80", 6);
    assert_string_equal(to, "??????");
    hf__text_sanitize(to, sizeof to, "a\xe2\x82", 3); /* cut inside a character */
    assert_string_equal(to, "a??");
    hf__text_sanitize(to, 4, "ab\xc3\xa4", 4); /* no space for all of it */
    assert_string_equal(to, "ab");
    hf__text_sanitize(to, sizeof to, "0123456789", 10);
    assert_string_equal(to, "0123456");
    hf__text_sanitize(to, sizeof to, "a\0b", 3);
    assert_string_equal(to, "a b");
    hf__text_sanitize(to, sizeof to, "abc", 0);
    assert_string_equal(to, "");
}

/* ---- Results and the last failure ---- */

static void test_results_have_names_and_texts(void **state) {
    (void)state;
#define ROW(name, number, text)                         \
    assert_int_equal(name, number);                     \
    assert_string_equal(hf_result_name(number), #name); \
    assert_string_equal(hf_result_text(number), text);
    HF_RESULTS(ROW)
#undef ROW
    assert_string_equal(hf_result_name(9999), "HF_?");
    assert_string_equal(hf_result_name(-1), "HF_?");
    assert_non_null(hf_result_text(9999));
}

static void look_from_thread(int index, void *arg) {
    (void)index, (void)arg;
    T_CHECK(!*hf_error_detail());
    T_CHECK(hf__fail(HF_BUSY, "theirs") == HF_BUSY);
}

static void test_fail_sets_this_threads_detail(void **state) {
    (void)state;
    assert_int_equal(hf__fail(HF_LOST, "a %s\x1b[2J\nb", "lock"), HF_LOST);
    assert_string_equal(hf_error_detail(), "a lock [2J b");
    t_threads_run(2, look_from_thread, NULL, 5000);
    assert_string_equal(hf_error_detail(), "a lock [2J b");
    assert_int_equal(hf__fail_line(HF_BUSY, NULL), HF_BUSY);
    assert_string_equal(hf_error_detail(), hf_result_text(HF_BUSY));
    assert_int_equal(hf__fail_line(HF_BUSY, "100%s"), HF_BUSY);
    assert_string_equal(hf_error_detail(), "100%s");
}

static void test_lines_are_cut(void **state) {
    (void)state;
    char *line = hf__line("%0*d", 2 * HF__DETAIL_MAX, 1);
    assert_non_null(line);
    assert_int_equal(strlen(line), HF__DETAIL_MAX - 1);
    free(line);
}

/* ---- The log ---- */

struct received_lines {
    int count;
    int32_t level;
    char last[HF__DETAIL_MAX];
};

static void record_log(int32_t level, const char *line, void *arg) {
    struct received_lines *received_lines = arg;
    received_lines->count++;
    received_lines->level = level;
    snprintf(received_lines->last, sizeof received_lines->last, "%s", line);
}

static void flush_log(hf__log *log) {
    hf__log_run(hf__log_take(log), log->fn, log->arg);
}

static void test_log_delivers_lines_of_its_level(void **state) {
    (void)state;
    struct received_lines received_lines = {0};
    hf__log log;
    hf__log_init(&log, record_log, &received_lines, 0); /* warnings */
    hf__log_add(&log, HF_LOG_ERROR, "%s", "error");
    hf__log_add(&log, HF_LOG_WARNING, "warning\n\x1b%d", 1);
    hf__log_add(&log, HF_LOG_INFO, "info");
    assert_int_equal(received_lines.count, 0); /* recorded, and delivered later */
    flush_log(&log);
    assert_int_equal(received_lines.count, 2);
    assert_int_equal(received_lines.level, HF_LOG_WARNING);
    assert_string_equal(received_lines.last, "warning  1");
    flush_log(&log);
    assert_int_equal(received_lines.count, 2);
    hf__log_init(&log, record_log, &received_lines, HF_LOG_DEBUG);
    hf__log_add(&log, HF_LOG_DEBUG, "debug");
    flush_log(&log);
    assert_string_equal(received_lines.last, "debug");
}

static void test_log_drops_lines_that_nobody_takes(void **state) {
    (void)state;
    struct received_lines received_lines = {0};
    hf__log log;
    hf__log_init(&log, record_log, &received_lines, HF_LOG_ERROR);
    for (int i = 1; i <= HF__LOG_PENDING_MAX + 10; i++) hf__log_add(&log, HF_LOG_ERROR, "%d", i);
    flush_log(&log);
    assert_int_equal(received_lines.count, HF__LOG_PENDING_MAX);
    hf__log_add(&log, HF_LOG_ERROR, "again");
    flush_log(&log);
    assert_string_equal(received_lines.last, "again");
    hf__log_add(&log, HF_LOG_ERROR, "only freed");
    hf__log_run(hf__log_take(&log), NULL, NULL);
    hf__log_init(&log, NULL, NULL, HF_LOG_DEBUG);
    hf__log_add(&log, HF_LOG_ERROR, "nobody listens");
    assert_null(hf__log_take(&log));
    assert_int_equal(received_lines.count, HF__LOG_PENDING_MAX + 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_now_is_boottime_and_advances),
        cmocka_unit_test(test_after),
        cmocka_unit_test(test_poll_rounds_up),
        cmocka_unit_test(test_rand_repeats_from_its_seed),
        cmocka_unit_test(test_jitter_stays_between_three_quarters_and_all),
        cmocka_unit_test(test_uuids),
        cmocka_unit_test(test_text_copy),
        cmocka_unit_test(test_text_tame),
        cmocka_unit_test(test_results_have_names_and_texts),
        cmocka_unit_test(test_fail_sets_this_threads_detail),
        cmocka_unit_test(test_lines_are_cut),
        cmocka_unit_test(test_log_delivers_lines_of_its_level),
        cmocka_unit_test(test_log_drops_lines_that_nobody_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
