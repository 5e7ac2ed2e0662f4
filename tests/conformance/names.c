/* SPDX-License-Identifier: Apache-2.0 */
/* F50: every name is a separate lock, or is refused with a reason. */
#include "conformance.h"

static void F50_an_invalid_name_is_refused(cf *f) {
    char too_long[HF_NAME_MAX + 2];
    memset(too_long, 'x', sizeof too_long - 1);
    too_long[sizeof too_long - 1] = '\0';
    const char *const bad[] = {NULL, "", too_long};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        hf_info *info = NULL;
        CF_REFUSED(HF_INVALID, f->a, bad[i], NULL);
        assert_non_null(strstr(hf_error_detail(), "name"));
        CF_IS(HF_INVALID, hf_inspect(f->a, bad[i], &info));
        assert_null(info);
        CF_IS(HF_INVALID, hf_break(f->a, bad[i], 0));
    }
    assert_non_null(strstr(hf_error_detail(), "1024"));
}

/* Acquire all names at once as one owner that may not re-enter: two equal names would deadlock. */
static void check_distinct(cf *f, const char *const *names, size_t count) {
    hf_hold **holds = cf_new(f, count * sizeof *holds);
    for (size_t i = 0; i < count; i++) {
        holds[i] = CF_TAKE(f->a, names[i], &(hf_options){.flags = HF_NOT_REENTRANT});
    }
    for (size_t i = 0; i < count; i++) {
        CF_REFUSED(HF_BUSY, f->b, names[i], NULL);
        assert_true(cf_token(f->b, names[i]) == hf_fence(holds[i]));
    }
    for (size_t i = 0; i < count; i++) CF_FREE(holds[i]);
    for (size_t i = 0; i < count; i++) assert_true(cf_token(f->b, names[i]) == 0);
}

static void F50_names_with_braces_and_separators_are_distinct(cf *f) {
    static const char *const names[] = {
        "{",        "}",      "{}",        "}{",       "{a}", "a{b}c", "a{b",  "a}b",    "}a",
        "{a",       "{{a}}",  "%7B",       "%7b",      "%7D", "%257B", "%25",  "%",      "%%",
        "%7Ba}",    "a",      "A",         "a:f",      "a:q", "a:",    ":a",   "hf:{a}", "hf:{a}:f",
        "c:a",      "client", "*",         "?",        "[a]", "\\",    "'",    "\"",     " ",
        " a",       "a ",     "a\n",       "\na",      "\n",  "\r\n",  "a\tb", "a\001b", "a/b",
        "/",        "..",     "-",         "--",       "0",   "00",    "1e3",  "1000",   "nil",
        "\xc3\xa9", "\xe9",   "e\xcc\x81", "\xff\xfe",
    };
    check_distinct(f, names, sizeof names / sizeof *names);
}

static void F50_every_byte_makes_a_different_name(cf *f) {
    enum { BYTES = 255 };
    const char **names = cf_new(f, (BYTES + 1) * sizeof *names);
    char *all = cf_new(f, BYTES + 1);
    for (int i = 0; i < BYTES; i++) {
        char *name = cf_new(f, 2);
        name[0] = all[i] = (char)(unsigned char)(i + 1);
        names[i] = name;
    }
    names[BYTES] = all;
    check_distinct(f, names, BYTES + 1);
}

static void F50_long_names_are_distinct_to_the_last_byte(cf *f) {
    static const size_t lengths[] = {999, 1000, 1000, HF_NAME_MAX - 1, HF_NAME_MAX, HF_NAME_MAX};
    enum { COUNT = sizeof lengths / sizeof *lengths };
    const char *names[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        char *name = cf_new(f, lengths[i] + 1);
        memset(name, i < 3 ? 'x' : '{', lengths[i]); /* a brace may take more bytes in the store */
        if (i == 2 || i == 5) name[lengths[i] - 1] = 'y';
        names[i] = name;
    }
    check_distinct(f, names, COUNT);
}

static void F50_names_and_options_are_copied(cf *f) {
    char name[] = "F50 a name that changes";
    hf_options options = {.lease_ms = 20000};
    hf_hold *hold = CF_TAKE(f->a, name, &options);
    name[0] = '?';
    memset(&options, 0x5a, sizeof options);
    CF_REFUSED(HF_BUSY, f->b, "F50 a name that changes", NULL);
    CF_FREE(hold);
    CF_FREE(CF_TAKE(f->b, "F50 a name that changes", NULL));
}

const cf_case cf_names[] = {
    CF_CASE(F50_an_invalid_name_is_refused),
    CF_CASE(F50_names_with_braces_and_separators_are_distinct),
    CF_CASE(F50_every_byte_makes_a_different_name),
    CF_CASE(F50_long_names_are_distinct_to_the_last_byte),
    CF_CASE(F50_names_and_options_are_copied),
    CF_CASES_END,
};
