/* SPDX-License-Identifier: Apache-2.0 */
/* The reply parser: what it accepts, in any slices, and what a hostile server cannot make it do
   (F39). */
#include "t.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "base/rand.h"
#include "store/redis/protocol/reply.h"

static int make_parser(void **state) {
    hf__parser *p = calloc(1, sizeof *p);
    *state = p;
    return p && hf__parser_init(p) ? 0 : -1;
}

static int free_parser(void **state) {
    hf__parser_fini(*state);
    free(*state);
    return 0;
}

static void renew_parser(hf__parser *p) {
    hf__parser_fini(p);
    assert_true(hf__parser_init(p));
}

static hf__parsed feed_bytes(hf__parser *p, const char *bytes, size_t length) {
    return hf__parser_feed(p, bytes, length) == HF_OK ? hf__parser_next(p) : HF__PARSE_BAD;
}

static hf__parsed feed_text(hf__parser *p, const char *text) {
    return feed_bytes(p, text, strlen(text));
}

/* ---- Accepted replies ---- */

static void test_values(void **state) {
    hf__parser *p = *state;
    const hf__reply *r = &p->reply;
    int64_t n;
    assert_int_equal(feed_text(p, "+OK\r\n"), HF__PARSED);
    assert_int_equal(r->type, REDIS_REPLY_STATUS);
    assert_string_equal(r->item[0].text, "OK");
    assert_null(hf__reply_text(r, 0)); /* a status is not a text */
    assert_false(hf__reply_number(r, 0, &n));
    assert_int_equal(feed_text(p, "-ERR no\r\n"), HF__PARSED);
    assert_int_equal(r->type, REDIS_REPLY_ERROR);
    assert_string_equal(r->item[0].text, "ERR no");
    assert_int_equal(feed_text(p, ":-42\r\n"), HF__PARSED);
    assert_int_equal(r->type, REDIS_REPLY_INTEGER);
    assert_true(hf__reply_number(r, 0, &n));
    assert_int_equal(n, -42);
    assert_int_equal(feed_bytes(p, "$3\r\na\0b\r\n", 9), HF__PARSED);
    assert_int_equal(r->item[0].length, 3);
    assert_memory_equal(hf__reply_text(r, 0), "a\0b", 4);
    assert_int_equal(feed_text(p, "$-1\r\n"), HF__PARSED);
    assert_int_equal(r->type, REDIS_REPLY_NIL);
    assert_int_equal(feed_text(p, "*-1\r\n"), HF__PARSED);
    assert_int_equal(r->type, REDIS_REPLY_NIL);
    assert_int_equal(feed_text(p, "*0\r\n"), HF__PARSED);
    assert_int_equal(r->type, REDIS_REPLY_ARRAY);
    assert_int_equal(r->count, 0);
    assert_false(hf__reply_number(r, 0, &n));
}

static void test_lists(void **state) {
    hf__parser *p = *state;
    const hf__reply *r = &p->reply;
    int64_t n;
    assert_int_equal(feed_text(p, "*5\r\n:1\r\n$2\r\nab\r\n$-1\r\n+x\r\n$1\r\n7\r\n"), HF__PARSED);
    assert_int_equal(r->type, REDIS_REPLY_ARRAY);
    assert_int_equal(r->count, 5);
    assert_true(hf__reply_number(r, 0, &n) && n == 1);
    assert_null(hf__reply_text(r, 0));
    assert_string_equal(hf__reply_text(r, 1), "ab");
    assert_int_equal(r->item[2].type, REDIS_REPLY_NIL);
    assert_int_equal(r->item[3].type, REDIS_REPLY_STATUS);
    assert_true(hf__reply_number(r, 4, &n) && n == 7);
    assert_null(hf__reply_text(r, 5));
    assert_false(hf__reply_number(r, 5, &n));
}

static const struct {
    const char *text;
    bool is;
    int64_t number;
} numbers[] = {
    {"0", true, 0},
    {"-5", true, -5},
    {"9223372036854775807", true, INT64_MAX},
    {"9223372036854775808", false, 0},
    {"", false, 0},
    {"1x", false, 0},
    {"x", false, 0},
    {"1.5", false, 0},
    {"1e3", false, 0},
};

static void test_numbers_out_of_text(void **state) {
    hf__parser *p = *state;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char text[64];
        int64_t n;
        snprintf(text, sizeof text, "$%zu\r\n%s\r\n", strlen(numbers[i].text), numbers[i].text);
        assert_int_equal(feed_text(p, text), HF__PARSED);
        assert_int_equal(hf__reply_number(&p->reply, 0, &n), numbers[i].is);
        if (numbers[i].is) assert_int_equal(n, numbers[i].number);
    }
    int64_t n;
    assert_int_equal(feed_bytes(p, "$3\r\n1\0002\r\n", 9), HF__PARSED);
    assert_false(hf__reply_number(&p->reply, 0, &n)); /* not cut at its NUL */
}

static void test_several_at_once(void **state) {
    hf__parser *p = *state;
    assert_int_equal(feed_text(p, "+a\r\n+b\r\n+c"), HF__PARSED);
    assert_string_equal(p->reply.item[0].text, "a");
    assert_int_equal(hf__parser_next(p), HF__PARSED);
    assert_string_equal(p->reply.item[0].text, "b");
    assert_int_equal(hf__parser_next(p), HF__PARSE_MORE);
    assert_int_equal(feed_text(p, "\r\n"), HF__PARSED);
    assert_string_equal(p->reply.item[0].text, "c");
    assert_int_equal(hf__parser_next(p), HF__PARSE_MORE);
}

static void test_every_split_in_two(void **state) {
    hf__parser *p = *state;
    static const char answer[] = "*4\r\n:1\r\n$16\r\n1700000000000000\r\n$0\r\n\r\n$3\r\na\r\n\r\n";
    size_t length = sizeof answer - 1;
    for (size_t cut = 0; cut <= length; cut++) {
        hf__parsed first = feed_bytes(p, answer, cut);
        assert_int_equal(first, cut == length ? HF__PARSED : HF__PARSE_MORE);
        if (cut < length) assert_int_equal(feed_bytes(p, answer + cut, length - cut), HF__PARSED);
        assert_int_equal(p->reply.count, 4);
        assert_int_equal(p->reply.item[0].integer, 1);
        assert_string_equal(p->reply.item[1].text, "1700000000000000");
        assert_string_equal(p->reply.item[2].text, "");
        assert_memory_equal(p->reply.item[3].text, "a\r\n", 4);
    }
}

/* ---- F39: replies that are refused before anything is allocated ---- */

static const char *const refused[] = {
    "*81\r\n", /* more than any answer to us has */
    "*2147483647\r\n",
    "*4294967296\r\n",
    "*4294967297\r\n",
    "*9223372036854775807\r\n",
    "*9223372036854775808\r\n",
    "*99999999999999999999999999\r\n",
    "*-2\r\n",
    "*-9223372036854775808\r\n",
    "*x\r\n",
    "*\r\n",
    "$-2\r\n",
    "$-9223372036854775808\r\n",
    "$9223372036854775808\r\n",
    "$18446744073709551615\r\n",
    "$18446744073709551618\r\nab\r\n",
    "$x\r\n",
    ":9223372036854775808\r\n",
    ":1x\r\n",
    ":\r\n",
    "*1\r\n*0\r\n", /* a list in a list */
    "*2\r\n:1\r\n*1\r\n:1\r\n",
    "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n",
    "!x\r\n",
    "HTTP/1.1 400 Bad Request\r\n\r\n",
    "\r\n",
    "\x16\x03\x01", /* TLS */
    "%1\r\n",       /* RESP3 was not requested */
    ">2\r\n",
    "_\r\n",
    "#t\r\n",
};

static void test_refused(void **state) {
    hf__parser *p = *state;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        renew_parser(p);
        if (feed_text(p, refused[i]) != HF__PARSE_BAD) fail_msg("accepted: %s", refused[i]);
        assert_int_equal(feed_text(p, "+OK\r\n"), HF__PARSE_BAD); /* it stays refused */
    }
}

static void test_items_are_capped(void **state) {
    hf__parser *p = *state;
    char text[16 + HF__REPLY_ITEMS * 4 + 1];
    int n = snprintf(text, sizeof text, "*%d\r\n", HF__REPLY_ITEMS);
    for (int i = 0; i < HF__REPLY_ITEMS; i++)
        n += snprintf(text + n, sizeof text - (size_t)n, ":%d\r\n", i % 10);
    assert_int_equal(feed_text(p, text), HF__PARSED);
    assert_int_equal(p->reply.count, HF__REPLY_ITEMS);
}

/* An answer of one text or of a list of two texts, with that many bytes in all. */
static hf__parsed feed_sized(hf__parser *p, size_t first, size_t second) {
    static char text[3 * HF__REPLY_TEXT];
    int n = second ? snprintf(text, sizeof text, "*2\r\n") : 0;
    size_t sizes[] = {first, second}, at = (size_t)n;
    for (size_t i = 0; i < (second ? 2 : 1); i++) {
        at += (size_t)snprintf(text + at, sizeof text - at, "$%zu\r\n", sizes[i]);
        memset(text + at, 'x', sizes[i]);
        memcpy(text + at + sizes[i], "\r\n", 2);
        at += sizes[i] + 2;
    }
    return feed_bytes(p, text, at);
}

static void test_text_is_capped(void **state) {
    hf__parser *p = *state;
    assert_int_equal(feed_sized(p, HF__REPLY_TEXT - 1, 0), HF__PARSED);
    assert_int_equal(p->reply.item[0].length, HF__REPLY_TEXT - 1);
    assert_int_equal(feed_sized(p, 100, HF__REPLY_TEXT - 102), HF__PARSED);
    assert_int_equal(feed_sized(p, 100, HF__REPLY_TEXT - 101), HF__PARSE_BAD);
    renew_parser(p);
    assert_int_equal(feed_sized(p, HF__REPLY_TEXT, 0), HF__PARSE_BAD);
}

/* Bytes that never become an answer are limited, both in a long line and in a bulk. */
static void assert_ends(hf__parser *p, const char *begin, const char *more) {
    renew_parser(p);
    hf__parsed parsed = feed_text(p, begin);
    size_t fed = 0;
    while (parsed == HF__PARSE_MORE && fed < 4 * HF__REPLY_UNREAD) {
        parsed = feed_text(p, more);
        fed += strlen(more);
    }
    assert_int_equal(parsed, HF__PARSE_BAD);
    assert_true(fed <= HF__REPLY_UNREAD + 2 * strlen(more));
}

static void test_unread_bytes_are_capped(void **state) {
    hf__parser *p = *state;
    static char many[4001];
    memset(many, 'x', sizeof many - 1);
    assert_ends(p, "$536870912\r\n", many);
    assert_ends(p, "$2147483648\r\n", many);
    assert_ends(p, "$9223372036854775807\r\n", many);
    assert_ends(p, "+", many);
    assert_ends(p, "-ERR ", many);
    assert_ends(p, "*2\r\n:1\r\n$100000\r\n", many);
}

/* ---- Any bytes ---- */

enum { RANDOM_FEEDS = 100000, LONGEST_FEED = 24 };

/* Mostly bytes that have a meaning in the protocol, so that parsing makes progress. */
static char draw_byte(hf__rand *rand) {
    static const char alphabet[] = "*$:+-\r\n\r\n\r\n0123456789-x\xff";
    uint64_t drawn = hf__rand_next(rand);
    if (drawn % 16 == 0) return (char)(drawn >> 8);
    return alphabet[(drawn >> 8) % sizeof alphabet];
}

static void check_reply(const hf__reply *r) {
    assert_true(r->count <= HF__REPLY_ITEMS);
    for (size_t i = 0; i < r->count; i++) {
        int64_t n;
        const char *text = hf__reply_text(r, i);
        (void)hf__reply_number(r, i, &n);
        if (text) assert_int_equal(text[r->item[i].length], '\0');
    }
}

static void feed_random(hf__parser *p, hf__rand *rand) {
    char bytes[LONGEST_FEED];
    size_t length = (size_t)(hf__rand_next(rand) % LONGEST_FEED);
    for (size_t i = 0; i < length; i++) bytes[i] = draw_byte(rand);
    hf__parsed parsed = feed_bytes(p, bytes, length);
    for (; parsed == HF__PARSED; parsed = hf__parser_next(p)) check_reply(&p->reply);
    if (parsed == HF__PARSE_BAD) renew_parser(p);
}

static void test_random_bytes(void **state) {
    hf__rand rand = {1};
    for (int i = 0; i < RANDOM_FEEDS; i++) feed_random(*state, &rand);
}

/* A valid answer with one byte changed, cut or doubled is accepted or refused; it never crashes. */
static void test_damaged_answers(void **state) {
    hf__parser *p = *state;
    static const char answer[] = "*3\r\n:1\r\n:1700000000000000\r\n$3\r\nabc\r\n";
    hf__rand rand = {2};
    for (int i = 0; i < 20000; i++) {
        char bytes[sizeof answer];
        memcpy(bytes, answer, sizeof answer);
        bytes[hf__rand_next(&rand) % (sizeof answer - 1)] = draw_byte(&rand);
        renew_parser(p);
        if (feed_bytes(p, bytes, sizeof answer - 1) == HF__PARSED) check_reply(&p->reply);
    }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_parser, free_parser)
    const struct CMUnitTest tests[] = {
        TEST(test_values),
        TEST(test_lists),
        TEST(test_numbers_out_of_text),
        TEST(test_several_at_once),
        TEST(test_every_split_in_two),
        TEST(test_refused),
        TEST(test_items_are_capped),
        TEST(test_text_is_capped),
        TEST(test_unread_bytes_are_capped),
        TEST(test_random_bytes),
        TEST(test_damaged_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
