/* SPDX-License-Identifier: Apache-2.0 */
/* The primary as Sentinels report it: which Sentinel to believe, and what is not an answer. */
#include "t.h"

#include <string.h>

#include "store/redis/protocol/sentinel.h"

static hf__url url = {.hosts = {{"a", 1}, {"b", 2}, {"c", 3}}, .primary = "mymaster"};

typedef struct sentinel_fixture {
    hf__sentinel s;
    hf__parser parser;
} sentinel_fixture;

static int set_up(void **state) {
    static sentinel_fixture f;
    hf__sentinel_init(&f.s, &url);
    if (!hf__parser_init(&f.parser)) return -1;
    *state = &f;
    return 0;
}

static int tear_down(void **state) {
    hf__parser_fini(&((sentinel_fixture *)*state)->parser);
    return 0;
}

static const hf__reply *parse_answer(sentinel_fixture *f, const char *bytes) {
    T_HF(HF_OK, hf__parser_feed(&f->parser, bytes, strlen(bytes)));
    assert_int_equal(hf__parser_next(&f->parser), HF__PARSED);
    return &f->parser.reply;
}

static hf_result feed_answer(sentinel_fixture *f, unsigned part, const char *bytes) {
    char *detail = NULL;
    hf_result r = hf__sentinel_answer(&f->s, part, parse_answer(f, bytes), "w:1", &detail);
    assert_true((r == HF_OK) == (detail == NULL));
    free(detail);
    return r;
}

/* The Sentinel with that index reports this. */
static void sentinel_says(sentinel_fixture *f, unsigned at, int epoch, int port) {
    char bytes[128];
    hf__buffer out;
    hf__buffer_init(&out, 4096);
    f->s.at = at;
    hf__sentinel_request(&f->s, &out);
    hf__buffer_fini(&out);
    snprintf(bytes, sizeof bytes,
             "*4\r\n$4\r\nname\r\n$8\r\nmymaster\r\n$12\r\nconfig-epoch\r\n$1\r\n%d\r\n", epoch);
    T_HF(HF_OK, feed_answer(f, 0, bytes));
    snprintf(bytes, sizeof bytes, "*2\r\n$4\r\nhost\r\n$1\r\n%d\r\n", port);
    T_HF(HF_OK, feed_answer(f, 1, bytes));
    T_HF(HF_OK, feed_answer(f, 2, "*3\r\n$9\r\nsubscribe\r\n$14\r\n+switch-master\r\n:1\r\n"));
}

static void test_it_asks_for_epoch_and_address(void **state) {
    sentinel_fixture *f = *state;
    hf__buffer out;
    hf__buffer_init(&out, 4096);
    hf__sentinel_request(&f->s, &out);
    static const char expected[] =
        "*3\r\n$8\r\nSENTINEL\r\n$6\r\nMASTER\r\n$8\r\nmymaster\r\n"
        "*3\r\n$8\r\nSENTINEL\r\n$23\r\nGET-MASTER-ADDR-BY-NAME\r\n$8\r\nmymaster\r\n"
        "*2\r\n$9\r\nSUBSCRIBE\r\n$14\r\n+switch-master\r\n";
    assert_int_equal(out.length, strlen(expected));
    assert_memory_equal(out.data, expected, out.length);
    hf__buffer_fini(&out);
}

static void test_the_newest_is_trusted(void **state) {
    sentinel_fixture *f = *state;
    assert_int_equal(f->s.primary.port, 0);
    sentinel_says(f, 0, 1, 4);
    assert_int_equal(f->s.primary.port, 4);
    assert_string_equal(f->s.primary.host, "host");
    sentinel_says(f, 1, 3, 5);
    assert_int_equal(f->s.primary.port, 5);
    sentinel_says(f, 0, 2, 6); /* outdated */
    assert_int_equal(f->s.primary.port, 5);
    sentinel_says(f, 0, 2, 6); /* however often it repeats that */
    sentinel_says(f, 0, 2, 6);
    assert_int_equal(f->s.primary.port, 5);
    sentinel_says(f, 1, 3, 7); /* equally new */
    assert_int_equal(f->s.primary.port, 7);
}

static void test_a_majority_can_start_again(void **state) {
    sentinel_fixture *f = *state;
    sentinel_says(f, 0, 9, 4);
    sentinel_says(f, 1, 0, 5);
    assert_int_equal(f->s.primary.port, 4);
    sentinel_says(f, 2, 0, 5);
    assert_int_equal(f->s.primary.port, 5);
    assert_int_equal(f->s.epoch, 0);
    sentinel_says(f, 0, 9, 4);
    sentinel_says(f, 1, 0, 5);
    sentinel_says(f, 0, 9, 4); /* a better-informed report in between */
    sentinel_says(f, 2, 0, 5);
    assert_int_equal(f->s.primary.port, 4);
}

static void test_invalid_answers(void **state) {
    sentinel_fixture *f = *state;
    assert_int_equal(feed_answer(f, 0, "-ERR No such master with that name\r\n"), HF_REFUSED);
    assert_int_equal(feed_answer(f, 0, "-NOAUTH Authentication required.\r\n"), HF_REFUSED);
    assert_int_equal(feed_answer(f, 0, "-ERR unknown command 'SENTINEL'\r\n"), HF_PROTOCOL);
    assert_int_equal(feed_answer(f, 0, "+OK\r\n"), HF_PROTOCOL);
    assert_int_equal(feed_answer(f, 0, "*2\r\n$4\r\nname\r\n$1\r\nx\r\n"), HF_PROTOCOL);
    assert_int_equal(feed_answer(f, 0, "*2\r\n$12\r\nconfig-epoch\r\n$1\r\nx\r\n"), HF_PROTOCOL);
    assert_int_equal(feed_answer(f, 1, "*-1\r\n"), HF_REFUSED);
    assert_int_equal(feed_answer(f, 1, "*2\r\n$1\r\nh\r\n$1\r\n0\r\n"), HF_PROTOCOL);
    assert_int_equal(feed_answer(f, 1, "*2\r\n$1\r\nh\r\n$5\r\n65536\r\n"), HF_PROTOCOL);
    assert_int_equal(feed_answer(f, 1, "*2\r\n$0\r\n\r\n$1\r\n1\r\n"), HF_PROTOCOL);
    assert_int_equal(feed_answer(f, 2, "+OK\r\n"), HF_PROTOCOL);
    assert_int_equal(f->s.primary.port, 0);
}

static bool receive_event(sentinel_fixture *f, const char *bytes) {
    char *detail = NULL;
    f->s.switched = false;
    T_HF(HF_OK, hf__sentinel_push(&f->s, parse_answer(f, bytes), "w:1", &detail));
    return f->s.switched;
}

static void test_a_failover_message_is_noticed(void **state) {
    sentinel_fixture *f = *state;
    char *detail = NULL;
#define MESSAGE "*3\r\n$7\r\nmessage\r\n$14\r\n+switch-master\r\n"
    assert_true(receive_event(f, MESSAGE "$20\r\nmymaster h 1 other 2\r\n"));
    assert_false(receive_event(f, MESSAGE "$21\r\nmymaster2 h 1 other 2\r\n"));
    assert_false(receive_event(f, MESSAGE "$0\r\n\r\n"));
#undef MESSAGE
    assert_int_equal(hf__sentinel_push(&f->s, parse_answer(f, ":1\r\n"), "w:1", &detail),
                     HF_PROTOCOL);
    free(detail);
}

static hf_result feed_role(sentinel_fixture *f, const char *bytes) {
    char *detail = NULL;
    f->parser.reply.nested = true;
    hf_result r = hf__role_answer(parse_answer(f, bytes), "w:1", &detail);
    f->parser.reply.nested = false;
    free(detail);
    return r;
}

static void test_roles(void **state) {
    sentinel_fixture *f = *state;
    T_HF(HF_OK, feed_role(f, "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"));
    T_HF(HF_OK,
         feed_role(f, "*3\r\n$6\r\nmaster\r\n:7\r\n*2\r\n*3\r\n$1\r\nh\r\n$1\r\n1\r\n$1\r\n7\r\n"
                      "*3\r\n$1\r\nh\r\n$1\r\n2\r\n$1\r\n7\r\n"));
    assert_int_equal(feed_role(f, "*2\r\n$5\r\nslave\r\n$1\r\nh\r\n"), HF_UNREACHABLE);
    assert_int_equal(feed_role(f, "*2\r\n$8\r\nsentinel\r\n*0\r\n"), HF_UNREACHABLE);
    assert_int_equal(feed_role(f, "+OK\r\n"), HF_UNREACHABLE);
    assert_true(hf__role_lost("READONLY You can't write against a read only replica."));
    assert_true(hf__role_lost("ERR Error running script (call to f_1): @user_script:9: "
                              "@user_script: 9: -READONLY You can't write"));
    assert_true(hf__role_lost("MASTERDOWN Link with MASTER is down"));
    assert_false(hf__role_lost("ERR the word READONLY alone"));
    assert_false(hf__role_lost("LOADING Redis is loading"));
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_it_asks_for_epoch_and_address), TEST(test_the_newest_is_trusted),
        TEST(test_a_majority_can_start_again),    TEST(test_invalid_answers),
        TEST(test_a_failover_message_is_noticed), TEST(test_roles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
