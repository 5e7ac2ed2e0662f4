/* SPDX-License-Identifier: Apache-2.0 */
/* Names and files (F50, B9, B21): different names are different locks, whatever bytes they
   contain. */
#include "kit.h"

#include <unistd.h>

#include "store/file/filename.h"

enum { NAMES_MAX = 256 };

static hf_client *open_client(const test_dir *p, const char *prefix) {
    hf_client *client = NULL;
    char option[256];
    snprintf(option, sizeof option, "prefix=%s", prefix);
    T_HF(HF_OK, hf_open(url_with(p, option), NULL, &client));
    return client;
}

/* ---- All at the same time -------------------------------------------------------------------- */

/* One client holds all names, each in a file of its own. Another client finds each of them
   taken. */
static void check_distinct(const test_dir *p, const char *const *names, int count) {
    hf_hold *holds[NAMES_MAX], *none = NULL;
    assert_in_range(count, 1, NAMES_MAX);
    hf_client *one = open_client(p, "hf"), *two = open_client(p, "hf");
    for (int i = 0; i < count; i++) {
        T_HF(HF_OK, hf_acquire(one, names[i], &(hf_options){.flags = HF_NOT_REENTRANT}, &holds[i]));
        assert_int_equal(files_like(p, "lock."), i + 1);
    }
    for (int i = 0; i < count; i++) {
        T_HF(HF_BUSY, hf_try_lock(two, names[i], &none));
        T_HF(HF_OK, hf_release(holds[i]));
        T_HF(HF_OK, hf_try_lock(two, names[i], &holds[i]));
    }
    for (int i = 0; i < count; i++) T_HF(HF_OK, hf_release(holds[i]));
    hf_close(one);
    hf_close(two);
}

static void F50_names_that_look_alike_are_distinct_locks(void **state) {
    static const char *const names[] = {
        "a",      "A",       "a ",     " a",           "a.b",  "a/b",      "a%2Fb",
        "a%2fb",  "a%252Fb", ".",      "..",           "../a", "/",        "//",
        "a\nb",   "a\tb",    "a\\b",   "a:b",          "a%",   "%",        "%%",
        "%41",    "\x01",    "\x7f",   "\x80",         "\xff", "\xc3\xa4", "a\xff",
        "lock.a", "life.a",  "wake.a", "swept",        "{a}",  "}a",       "{",
        "a{b}c",  "a.tmp",   "-a",     "~a",           "a*",   "a?b",      "a'b",
        "a\"b",   "$HOME",   "a;b",    "a&b=c",        "a|b",  "a,b",      "a@b",
        "a+b",    "a=b",     "#a",     "\xe2\x82\xac",
    };
    check_distinct(*state, names, sizeof names / sizeof *names);
}

static void F50_every_byte_makes_a_name(void **state) {
    static char names[255][2];
    const char *list[255];
    for (int i = 0; i < 255; i++) {
        names[i][0] = (char)(i + 1);
        list[i] = names[i];
    }
    check_distinct(*state, list, 255);
}

/* Too long for a file name. They differ at the end, at the beginning, or in length. */
static void F50_long_names_are_distinct_locks(void **state) {
    static char names[12][HF_NAME_MAX + 1];
    static const size_t lengths[] = {1000, 1000, 1000, 1024, 1023, 1024,
                                     250,  249,  248,  247,  246,  85};
    const char *list[12];
    for (int i = 0; i < 12; i++) {
        memset(names[i], i < 6 ? 'x' : i == 11 ? '\xff' : 'y', lengths[i]);
        list[i] = names[i];
    }
    names[1][999] = 'y';
    names[2][0] = 'y';
    names[5][512] = '/';
    check_distinct(*state, list, 12);
}

static void F50_a_name_that_is_too_long_or_empty_is_refused(void **state) {
    static char longer[HF_NAME_MAX + 2];
    test_dir *p = *state;
    hf_client *client = open_client(p, "hf");
    hf_hold *none = NULL;
    memset(longer, 'x', HF_NAME_MAX + 1);
    T_HF(HF_INVALID, hf_try_lock(client, longer, &none));
    T_HF(HF_INVALID, hf_try_lock(client, "", &none));
    assert_int_equal(files_like(p, "lock."), 0);
    hf_close(client);
}

/* ---- Prefixes -------------------------------------------------------------------------------- */

/* Prefix and name are never mixed up, wherever the boundary is. */
static void B21_prefix_and_name_are_distinguished(void **state) {
    static const char *const pairs[][2] = {
        {"a.b", "c"},    {"a", "b.c"},    {"a.b.c", "d"},  {"a", "b.c.d"}, {"a.", "b"},
        {"a", ".b"},     {"a%2525", "b"}, {"a%252E", "b"}, {"A", "b.c"},   {"a%2Fb", "c"},
        {"a", "%2Fb.c"}, {"a%2Eb", "d"},  {"a%20b", "c"},
    };
    enum { COUNT = sizeof pairs / sizeof *pairs };
    test_dir *p = *state;
    hf_client *clients[COUNT];
    hf_hold *holds[COUNT], *none = NULL;
    for (int i = 0; i < COUNT; i++) {
        clients[i] = open_client(p, pairs[i][0]);
        T_HF(HF_OK, hf_try_lock(clients[i], pairs[i][1], &holds[i]));
        assert_int_equal(files_like(p, "lock."), i + 1);
    }
    for (int i = 0; i < COUNT; i++) {
        hf_client *same = open_client(p, pairs[i][0]);
        T_HF(HF_BUSY, hf_try_lock(same, pairs[i][1], &none));
        hf_close(same);
        T_HF(HF_OK, hf_release(holds[i]));
        hf_close(clients[i]);
    }
}

/* ---- File names ------------------------------------------------------------------------------ */

static uint32_t next_random(uint32_t *seed) {
    return *seed = *seed * 1664525 + 1013904223, *seed >> 8;
}

static int compare_keys(const void *a, const void *b) {
    return strcmp(a, b);
}

/* Short random keys of a few bytes that are special in the encoding. Duplicates count once: the
   keys are compared too. */
static void F50_no_two_keys_have_one_file(void **state) {
    enum { KEYS = 20000, LENGTH = 7 };
    static const char bytes[] = {'a', '.', '%', '2', 'E', '/', '5', 'F'};
    static struct { char file[HF__FILENAME_MAX + 1], key[2 * LENGTH + 4]; } made[KEYS];
    uint32_t seed = 5;
    (void)state;
    for (int i = 0; i < KEYS; i++) {
        char *key = made[i].key;
        size_t prefix = 1 + next_random(&seed) % LENGTH, name = 1 + next_random(&seed) % LENGTH;
        for (size_t k = 0; k < prefix + 1 + name; k++)
            key[k] = k == prefix ? '\0' : bytes[next_random(&seed) % sizeof bytes];
        hf__filename(made[i].file, key, prefix + 1 + name);
        assert_null(strchr(made[i].file, '/'));
        key[prefix] = '\n'; /* separates them for the comparison */
    }
    qsort(made, KEYS, sizeof *made, compare_keys);
    for (int i = 1; i < KEYS; i++)
        if (!strcmp(made[i].file, made[i - 1].file))
            assert_string_equal(made[i].key, made[i - 1].key);
}

static void F50_a_files_name_is_never_too_long(void **state) {
    static char key[HF__KEY_MAX];
    (void)state;
    for (int c = 0; c < 2; c++) {
        memset(key, c ? 'x' : '/', sizeof key);
        for (size_t length = 4; length <= sizeof key; length++) {
            char file[HF__FILENAME_MAX + 1];
            key[2] = '\0';
            memset(file, 'z', sizeof file);
            hf__filename(file, key, length);
            assert_in_range(strnlen(file, sizeof file), 8, 255);
            assert_null(strchr(file, '/'));
            assert_memory_equal(file, "lock.", 5);
        }
    }
}

static const struct CMUnitTest tests[] = {
    FILE_TEST(F50_names_that_look_alike_are_distinct_locks),
    FILE_TEST(F50_every_byte_makes_a_name),
    FILE_TEST(F50_long_names_are_distinct_locks),
    FILE_TEST(F50_a_name_that_is_too_long_or_empty_is_refused),
    FILE_TEST(B21_prefix_and_name_are_distinguished),
    FILE_TEST(F50_no_two_keys_have_one_file),
    FILE_TEST(F50_a_files_name_is_never_too_long),
};

FILE_MAIN(tests)
