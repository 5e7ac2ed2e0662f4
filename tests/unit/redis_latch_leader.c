/* SPDX-License-Identifier: Apache-2.0 */
/* The protocol of latches and leaders, fed by hand: what is sent, and how answers are
   interpreted. */
#include "t.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/redis/protocol/script.h"
#include "store/redis/protocol/session.h"

#define CLIENT "11111111-2222-4333-8444-555555555555"
#define NOW    (100 * HF__SEC)
#define TIME   "*2\r\n$4\r\n1000\r\n$3\r\n500\r\n" /* 1000.000500 s */
#define US     ":1000000500\r\n"

typedef struct latch_fixture {
    hf__url url;
    hf__identity who;
    hf__log log;
    hf__session s;
    hf__op op;
    hf__lock_info sight;
    hf__latch latch;
    hf__leader_value word;
} latch_fixture;

static int set_up(void **state) {
    latch_fixture *f = calloc(1, sizeof *f);
    if (!f || hf__url_parse(&f->url, "redis://h")) return -1;
    f->who = (hf__identity){.client = CLIENT};
    hf__log_init(&f->log, NULL, NULL, 0);
    *state = f;
    return hf__session_init(&f->s, HF__COMMANDS, &f->url, &f->who, &f->log, "h:6379") ? 0 : -1;
}

static int tear_down(void **state) {
    latch_fixture *f = *state;
    hf__session_fini(&f->s);
    hf__url_fini(&f->url);
    free(f->op.detail);
    free(f);
    return 0;
}

static hf_result feed_answer(latch_fixture *f, const char *bytes) {
    char *detail = NULL;
    f->s.unsent = 0;
    hf_result r = hf__session_feed(&f->s, bytes, strlen(bytes), NOW, &detail);
    free(detail);
    return r;
}

/* Logs in again, and submits one operation. */
static hf__op *submit_op(latch_fixture *f, hf__verb verb, bool stand) {
    hf__session_break(&f->s);
    while (hf__session_completed(&f->s)) {
    }
    T_HF(HF_OK, hf__session_begin(&f->s, NULL, NOW));
    f->s.register_at = HF__NEVER;
    T_HF(HF_OK, feed_answer(f, TIME));
    if (f->s.registering) T_HF(HF_OK, feed_answer(f, US));
    hf__buffer_cut(&f->s.out, 0);
    free(f->op.detail);
    f->latch = (hf__latch){.count = 7};
    f->word = (hf__leader_value){.sequence = 3, .length = 2, .value = "va"};
    f->op = (hf__op){.verb = verb,
                     .name = "na",
                     .name_length = 2,
                     .acquire_id = 5,
                     .token = 9,
                     .enqueue = stand,
                     .not_after = NOW + 2 * HF__SEC,
                     .leader_value = &f->word};
    if (verb == HF__PROCLAIM || verb == HF__LEADER)
        f->op.lock_info = &f->sight;
    else
        f->op.latch = &f->latch;
    hf__session_submit(&f->s, &f->op, NOW);
    return &f->op;
}

static void check_sent(latch_fixture *f, const hf__script *script, const char *rest) {
    char expected[512];
    snprintf(expected, sizeof expected, "EVALSHA\r\n$40\r\n%s\r\n%s", script->sha1, rest);
    char *sent = calloc(1, f->s.out.length + 1);
    memcpy(sent, f->s.out.data, f->s.out.length);
    if (!strstr(sent, expected)) fail_msg("sent %s, not %s", sent, expected);
    free(sent);
}

#define LATCH_KEYS  "$1\r\n2\r\n$9\r\nhf:{na}:l\r\n$10\r\nhf:{na}:lw\r\n"
#define LEADER_KEYS "$1\r\n2\r\n$7\r\nhf:{na}\r\n$9\r\nhf:{na}:w\r\n"
#define BY_CLIENT   "$36\r\n" CLIENT "\r\n$1\r\n5\r\n"

static void test_bytes_of_requests(void **state) {
    latch_fixture *f = *state;
    submit_op(f, HF__LATCH_SET, false);
    check_sent(f, &hf__script_latch_set, LATCH_KEYS BY_CLIENT "$10\r\n1002000500\r\n$1\r\n7\r\n");
    submit_op(f, HF__LATCH_COUNT_DOWN, false);
    check_sent(f, &hf__script_latch_count_down,
               LATCH_KEYS BY_CLIENT "$10\r\n1002000500\r\n$1\r\n7\r\n");
    submit_op(f, HF__LATCH_GET, false);
    check_sent(f, &hf__script_latch_get, LATCH_KEYS);
    submit_op(f, HF__LATCH_GET, true);
    check_sent(f, &hf__script_latch_get, LATCH_KEYS BY_CLIENT);
    submit_op(f, HF__PROCLAIM, false);
    check_sent(f, &hf__script_proclaim,
               LEADER_KEYS "$38\r\n" CLIENT ":5\r\n$1\r\n9\r\n$1\r\n3\r\n$2\r\nva\r\n");
    submit_op(f, HF__LEADER, true);
    check_sent(f, &hf__script_leader, LEADER_KEYS BY_CLIENT);
}

static void test_meaning_of_answers(void **state) {
    latch_fixture *f = *state;
    hf__op *op = submit_op(f, HF__LATCH_COUNT_DOWN, false);
    T_HF(HF_OK, feed_answer(f, "*5\r\n:1\r\n" US ":4\r\n:1000\r\n:900\r\n"));
    assert_ptr_equal(hf__session_completed(&f->s), op);
    T_HF(HF_OK, op->result);
    assert_int_equal(f->latch.left, 4);
    assert_true(f->latch.round == 1000 && f->latch.last_done == 900);

    op = submit_op(f, HF__LATCH_GET, true);
    T_HF(HF_OK, feed_answer(f, "*2\r\n:0\r\n" US));
    assert_int_equal(op->result, HF_NOT_HELD);

    op = submit_op(f, HF__PROCLAIM, false);
    T_HF(HF_OK, feed_answer(f, "*2\r\n:0\r\n" US));
    assert_int_equal(op->result, HF_LOST);

    op = submit_op(f, HF__LEADER, true);
    T_HF(HF_OK,
         feed_answer(f, "*8\r\n:1\r\n" US ":1\r\n:40\r\n$5\r\nabc:7\r\n:11\r\n:3\r\n$2\r\nhi\r\n"));
    T_HF(HF_OK, op->result);
    assert_true(op->queued && f->sight.token == 11 && f->sight.remaining_ms == 40);
    assert_string_equal(f->sight.identity.client, "abc");
    assert_string_equal(f->word.value, "hi");
    assert_in_range(op->retry_ms, 1, 41); /* it retries when the lease ends */

    op = submit_op(f, HF__LEADER, true);
    T_HF(HF_OK, feed_answer(f, "*4\r\n:0\r\n" US ":0\r\n:-2\r\n"));
    assert_int_equal(op->result, HF_NOT_HELD);
    assert_in_range(op->retry_ms, 1, 100);
}

/* Too late by the server's clock: sent again, three times at most. */
static void test_too_late(void **state) {
    latch_fixture *f = *state;
    hf__op *op = submit_op(f, HF__LATCH_COUNT_DOWN, false);
    for (int i = 0; i < 4; i++) {
        assert_null(hf__session_completed(&f->s));
        T_HF(HF_OK, feed_answer(f, "*2\r\n:2\r\n" US));
    }
    assert_ptr_equal(hf__session_completed(&f->s), op);
    assert_int_equal(op->result, HF_TIMEOUT);
}

/* An invalid answer means nothing: the connection is closed. */
static void test_invalid_answers(void **state) {
    static const struct {
        hf__verb verb;
        const char *answer;
    } wrong[] = {
        {HF__LATCH_SET, "+OK\r\n"},
        {HF__LATCH_SET, ":1\r\n"},
        {HF__LATCH_SET, "*2\r\n:0\r\n" US},
        {HF__LATCH_SET, "*5\r\n:3\r\n" US ":4\r\n:1000\r\n:900\r\n"},
        {HF__LATCH_COUNT_DOWN, "*5\r\n:1\r\n:0\r\n:4\r\n:1000\r\n:900\r\n"},
        {HF__LATCH_COUNT_DOWN, "*4\r\n:1\r\n" US ":4\r\n:1000\r\n"},
        {HF__LATCH_COUNT_DOWN, "*5\r\n:1\r\n" US ":-1\r\n:1000\r\n:900\r\n"},
        {HF__LATCH_COUNT_DOWN, "*5\r\n:1\r\n" US ":1000000001\r\n:1000\r\n:900\r\n"},
        {HF__LATCH_COUNT_DOWN, "*5\r\n:1\r\n" US ":4\r\n:1000\r\n:1001\r\n"},
        {HF__LATCH_COUNT_DOWN, "*5\r\n:1\r\n" US "$1\r\nx\r\n:1000\r\n:900\r\n"},
        {HF__LATCH_GET, "*5\r\n:1\r\n" US ":4\r\n:1000\r\n:900\r\n"},
        {HF__LATCH_GET, "*2\r\n:2\r\n" US},
        {HF__PROCLAIM, "*1\r\n:1\r\n"},
        {HF__PROCLAIM, "*2\r\n:2\r\n" US},
        {HF__LEADER, "*2\r\n:0\r\n" US},
        {HF__LEADER, "*4\r\n:1\r\n" US ":0\r\n:5\r\n"},
        {HF__LEADER, "*8\r\n:1\r\n" US ":1\r\n:40\r\n$5\r\nabc:7\r\n:0\r\n:3\r\n$2\r\nhi\r\n"},
        {HF__LEADER, "*8\r\n:1\r\n" US ":1\r\n:40\r\n:7\r\n:11\r\n:3\r\n$2\r\nhi\r\n"},
        {HF__LEADER, "*8\r\n:1\r\n" US ":1\r\n:40\r\n$5\r\nabc:7\r\n:11\r\n:3\r\n:8\r\n"},
    };
    latch_fixture *f = *state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        hf__op *op = submit_op(f, wrong[i].verb, true);
        if (feed_answer(f, wrong[i].answer) != HF_PROTOCOL)
            fail_msg("accepted: %s", wrong[i].answer);
        assert_ptr_equal(hf__session_completed(&f->s), op);
        assert_int_equal(op->result, HF_PROTOCOL);
        assert_true(op->outcome_unknown);
    }
}

static void test_a_value_that_is_too_long(void **state) {
    latch_fixture *f = *state;
    char answer[HF_VALUE_MAX + 256];
    int n = snprintf(answer, sizeof answer,
                     "*8\r\n:1\r\n" US ":1\r\n:40\r\n$5\r\nabc:7\r\n:11\r\n:3\r\n$%d\r\n",
                     HF_VALUE_MAX + 1);
    memset(answer + n, 'x', HF_VALUE_MAX + 1);
    snprintf(answer + n + HF_VALUE_MAX + 1, 3, "\r\n");
    submit_op(f, HF__LEADER, true);
    assert_int_equal(feed_answer(f, answer), HF_PROTOCOL);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_bytes_of_requests), TEST(test_meaning_of_answers),       TEST(test_too_late),
        TEST(test_invalid_answers),   TEST(test_a_value_that_is_too_long),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
