/* SPDX-License-Identifier: Apache-2.0 */
/* Commands byte by byte, and the keys of names: distinct names have distinct keys, and each name
   has one slot. */
#include "t.h"

#include <stdlib.h>
#include <string.h>

#include "base/rand.h"
#include "store/redis/protocol/command.h"

static void assert_bytes(const hf__buffer *b, const char *bytes, size_t length) {
    assert_false(b->failed);
    assert_int_equal(b->length, length);
    assert_memory_equal(b->data, bytes, length);
}

#define ASSERT_BYTES(b, literal) assert_bytes((b), (literal), sizeof(literal) - 1)

static int make_buffer(void **state) {
    hf__buffer *b = malloc(sizeof *b);
    if (!b) return -1;
    hf__buffer_init(b, 1 << 20);
    *state = b;
    return 0;
}

static int free_buffer(void **state) {
    hf__buffer_fini(*state);
    free(*state);
    return 0;
}

static void test_parts(void **state) {
    hf__buffer *b = *state;
    hf__command_begin(b, 6);
    hf__command_string(b, "EVAL");
    hf__command_string(b, "");
    hf__command_bytes(b, "a\0\r\n", 4);
    hf__command_number(b, 0);
    hf__command_number(b, INT64_MIN);
    hf__command_text(b, "%s:%d", "x", -7);
    ASSERT_BYTES(b, "*6\r\n$4\r\nEVAL\r\n$0\r\n\r\n$4\r\na\0\r\n\r\n$1\r\n0\r\n"
                    "$20\r\n-9223372036854775808\r\n$4\r\nx:-7\r\n");
}

static void test_long_parts(void **state) {
    hf__buffer *b = *state;
    char text[1000];
    memset(text, 'x', sizeof text);
    hf__command_bytes(b, text, sizeof text);
    assert_memory_equal(b->data, "$1000\r\nxxx", 10);
    assert_int_equal(b->length, 7 + sizeof text + 2);
    hf__buffer_cut(b, 0);
    hf__command_text(b, "%.*s", 255, text);
    assert_false(b->failed);
    hf__command_text(b, "%.*s", 256, text); /* longer than a text may be: the whole command fails */
    assert_true(b->failed);
}

static void test_a_full_buffer_fails(void **state) {
    (void)state;
    hf__buffer b;
    hf__buffer_init(&b, 10);
    hf__command_begin(&b, 1);
    hf__command_string(&b, "PING");
    assert_true(b.failed);
    hf__buffer_fini(&b);
}

static void test_keys(void **state) {
    hf__buffer *b = *state;
    hf__command_key(b, "hf", "orders:42", 9, "");
    ASSERT_BYTES(b, "$14\r\nhf:{orders:42}\r\n");
    hf__buffer_cut(b, 0);
    hf__command_key(b, "p", "a{b}%c", 6, ":f");
    ASSERT_BYTES(b, "$18\r\np:{a%7Bb%7D%25c}:f\r\n");
    hf__buffer_cut(b, 0);
    hf__command_key(b, "hf", "}{", 2, "");
    ASSERT_BYTES(b, "$11\r\nhf:{%7D%7B}\r\n");
    hf__buffer_cut(b, 0);
    hf__command_key(b, "hf", "a\nb\0c\xff", 6, "");
    ASSERT_BYTES(b, "$11\r\nhf:{a\nb\0c\xff}\r\n");
}

/* ---- Distinct names, distinct keys ---- */

enum { NAMES = 3000, LONGEST = 6 };

struct keyed {
    char name[LONGEST];
    size_t length, key_length;
    char key[4 * LONGEST + 32];
};

/* Few letters, so that names often differ only in encoded characters. */
static void draw_name(struct keyed *k, hf__rand *rand) {
    static const char letters[] = {'{', '}', '%', '2', '5', '7', 'B', 'D', 'b', ':', 'f'};
    k->length = 1 + (size_t)(hf__rand_next(rand) % LONGEST);
    for (size_t i = 0; i < k->length; i++)
        k->name[i] = letters[hf__rand_next(rand) % sizeof letters];
}

static void make_key(struct keyed *k, hf__buffer *b, const char *suffix) {
    hf__buffer_cut(b, 0);
    hf__command_key(b, "hf", k->name, k->length, suffix);
    const char *body = (const char *)memchr(b->data, '\n', b->length) + 1;
    k->key_length = b->length - (size_t)(body - b->data) - 2;
    assert_true(k->key_length < sizeof k->key);
    memcpy(k->key, body, k->key_length);
    unsigned said = 0;
    for (const char *at = b->data + 1; *at != '\r'; at++) said = 10 * said + (unsigned)(*at - '0');
    assert_int_equal(said, k->key_length);
}

/* Redis Cluster hashes the part between the first '{' and the first '}' after it, if not empty. */
static void assert_one_tag(const struct keyed *k) {
    const char *open = memchr(k->key, '{', k->key_length);
    assert_non_null(open);
    size_t rest = k->key_length - (size_t)(open - k->key);
    const char *close = memchr(open, '}', rest);
    assert_non_null(close);
    assert_true(close > open + 1);
    assert_null(memchr(open + 1, '{', rest - 1));
    assert_null(memchr(close + 1, '}', rest - (size_t)(close - open) - 1));
}

static int by_key(const void *a, const void *b) {
    const struct keyed *x = a, *y = b;
    size_t shorter = x->key_length < y->key_length ? x->key_length : y->key_length;
    int order = memcmp(x->key, y->key, shorter);
    return order ? order : (x->key_length > y->key_length) - (x->key_length < y->key_length);
}

static void test_distinct_names_have_distinct_keys(void **state) {
    hf__buffer *b = *state;
    static struct keyed keys[2 * NAMES];
    hf__rand rand = {1};
    for (size_t i = 0; i < NAMES; i++) {
        draw_name(&keys[i], &rand);
        make_key(&keys[i], b, "");
        assert_one_tag(&keys[i]);
        keys[NAMES + i] = keys[i];
        make_key(&keys[NAMES + i], b, ":f"); /* and no fence's key is the lock of another name */
        assert_one_tag(&keys[NAMES + i]);
    }
    qsort(keys, 2 * NAMES, sizeof *keys, by_key);
    for (size_t i = 1; i < 2 * NAMES; i++) {
        if (by_key(&keys[i - 1], &keys[i])) continue;
        assert_int_equal(keys[i].length, keys[i - 1].length);
        assert_memory_equal(keys[i].name, keys[i - 1].name, keys[i].length);
    }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, make_buffer, free_buffer)
    const struct CMUnitTest tests[] = {
        TEST(test_parts),
        TEST(test_long_parts),
        TEST(test_a_full_buffer_fails),
        TEST(test_keys),
        TEST(test_distinct_names_have_distinct_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
