/* SPDX-License-Identifier: Apache-2.0 */
/* Matching of names against patterns. */
#include "t.h"

#include <string.h>

#include "base/glob.h"

static const struct {
    const char *pattern, *text;
    bool matches;
} cases[] = {
    {"", "", true},
    {"", "a", false},
    {"*", "", true},
    {"*", "abc", true},
    {"a", "a", true},
    {"a", "ab", false},
    {"ab", "a", false},
    {"a*", "abc", true},
    {"*c", "abc", true},
    {"*b*", "abc", true},
    {"*b", "abc", false},
    {"a*c*e", "abcde", true},
    {"a*c*e", "abcd", false},
    {"**a", "ba", true},
    {"?", "", false},
    {"?", "a", true},
    {"?", "\xff", true},
    {"??", "a", false},
    {"*?", "a", true},
    {"[abc]", "b", true},
    {"[abc]", "d", false},
    {"[a-c]x", "bx", true},
    {"[a-c]", "d", false},
    {"[!a-c]", "d", true},
    {"[^a-c]", "b", false},
    {"[]]", "]", true},
    {"[!]]", "]", false},
    {"[!]]", "a", true},
    {"[a-]", "-", true},
    {"[-a]", "-", true},
    {"[a", "[a", true},
    {"[a", "a", false},
    {"[", "[", true},
    {"[!", "[!", true},
    {"[\\]]", "]", true},
    {"[\\", "[\\", true},
    {"[\x80-\xff]", "\xe4", true},
    {"\\*", "*", true},
    {"\\*", "a", false},
    {"a\\", "a\\", true},
    {"\\a", "a", true},
    {"*[0-9]", "job7", true},
    {"*[0-9]", "job", false},
    {"*ab", "aab", true},
    {"*a*b", "aaab", true},
};

static void test_patterns(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (hf__glob(cases[i].pattern, cases[i].text) != cases[i].matches)
            fail_msg("pattern '%s' and text '%s': the wrong result", cases[i].pattern,
                     cases[i].text);
}

static void test_start(void **state) {
    (void)state;
    assert_int_equal(hf__glob_prefix_length("abc"), 3);
    assert_int_equal(hf__glob_prefix_length("ab*c"), 2);
    assert_int_equal(hf__glob_prefix_length("[a]"), 0);
    assert_int_equal(hf__glob_prefix_length("a\\*"), 1);
}

/* This must not take exponential time, as it would if every star tried every position for each
   star after it. */
static void test_many_stars_end(void **state) {
    (void)state;
    char pattern[201], text[1025];
    for (int i = 0; i < 100; i++) memcpy(pattern + 2 * i, "*a", 2);
    pattern[200] = '\0';
    memset(text, 'a', 1024);
    text[1023] = 'b';
    text[1024] = '\0';
    assert_false(hf__glob(pattern, text));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_patterns),
        cmocka_unit_test(test_start),
        cmocka_unit_test(test_many_stars_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
