/* SPDX-License-Identifier: Apache-2.0 */
/* Error reports: names and texts of results, details, and no password in any of them. */
#include "conformance.h"

#include "cf_redis.h"

static void every_result_has_its_name_and_text(cf *f) {
    static const struct {
        hf_result result;
        const char *name, *text;
    } all[] = {
#define ROW(name, number, text) {name, #name, text},
        HF_RESULTS(ROW)
#undef ROW
    };
    (void)f;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        assert_string_equal(hf_result_name(all[i].result), all[i].name);
        assert_string_equal(hf_result_text(all[i].result), all[i].text);
    }
    const hf_result unknown[] = {-1, sizeof all / sizeof *all, INT32_MAX, INT32_MIN};
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        assert_string_equal(hf_result_name(unknown[i]), "HF_?");
        assert_non_null(hf_result_text(unknown[i]));
    }
}

static void the_version_is_that_of_the_header(cf *f) {
    char version[32];
    (void)f;
    snprintf(version, sizeof version, "%d.%d.%d", HF_VERSION_MAJOR, HF_VERSION_MINOR,
             HF_VERSION_PATCH);
    assert_string_equal(hf_version(), version);
}

/* ---- Details --------------------------------------------------------------------------------- */

enum { DETAILS = 6 };

/* Keep this thread's error detail. */
static void note_detail(char (*details)[512], int index) {
    snprintf(details[index], sizeof details[index], "%s", hf_error_detail());
    assert_string_not_equal(details[index], "");
}

static void a_detail_distinguishes_failures(cf *f) {
    char details[DETAILS][512];
    hf_hold *hold = CF_TAKE(f->a, f->name, &(hf_options){.flags = HF_NOT_REENTRANT});
    CF_REFUSED(HF_BUSY, f->b, f->name, NULL);
    note_detail(details, 0);
    CF_REFUSED(HF_TIMEOUT, f->b, f->name, &(hf_options){.wait_ms = 5});
    note_detail(details, 1);
    CF_REFUSED(HF_DEADLOCK, f->a, f->name, NULL);
    note_detail(details, 2);
    CF_IS(HF_NOT_HELD, hf_break(f->b, f->name, 1));
    note_detail(details, 3);
    CF_REFUSED(HF_INVALID, f->b, f->name, &(hf_options){.lease_ms = -1});
    note_detail(details, 4);
    CF_REFUSED(HF_INVALID, f->b, f->name, &(hf_options){.wait_ms = -2});
    note_detail(details, 5);
    for (int i = 0; i < DETAILS; i++) {
        for (int k = 0; k < i; k++) assert_string_not_equal(details[i], details[k]);
    }
    CF_FREE(hold);
}

static void a_detail_is_one_line_whatever_the_name(cf *f) {
    static const char name[] = "a\nname\r\x1b[31m of\tsome lines";
    hf_hold *hold = CF_TAKE(f->a, name, NULL);
    CF_REFUSED(HF_BUSY, f->b, name, NULL);
    assert_null(strpbrk(hf_error_detail(), "\r\n\x1b"));
    CF_FREE(hold);
}

static void a_detail_stays_until_the_next_failure(cf *f) {
    CF_REFUSED(HF_INVALID, f->a, "", NULL);
    char before[512];
    snprintf(before, sizeof before, "%s", hf_error_detail());
    CF_FREE(CF_TAKE(f->a, f->name, NULL));
    assert_string_equal(hf_error_detail(), before);
}

/* Reads the error detail in a thread without failures. */
static void read_detail(void *arg) {
    snprintf(arg, 64, "[%s]", hf_error_detail());
}

static void each_thread_has_its_own_detail(cf *f) {
    char *seen = cf_new(f, 64);
    CF_REFUSED(HF_INVALID, f->a, "", NULL);
    cf_join(cf_spawn(f, read_detail, seen));
    assert_string_equal(seen, "[]");
}

/* ---- Secrets --------------------------------------------------------------------------------- */

static void check_no_secret(int32_t level, const char *line, void *arg) {
    (void)level;
    if (strstr(line, "sekret")) atomic_fetch_add((atomic_int *)arg, 1);
}

static void check_shows_no_secret(cf *f, const char *url, hf_result expected) {
    atomic_int *leaks = cf_new(f, sizeof *leaks);
    hf_client *client = NULL;
    hf_result result = hf_open(url,
                               &(hf_client_options){.connect_timeout_ms = 500,
                                                    .log = check_no_secret,
                                                    .log_arg = leaks,
                                                    .log_level = HF_LOG_DEBUG},
                               &client);
    if (expected != HF_OK) CF_IS(expected, result);
    assert_null(client);
    if (strstr(hf_error_detail(), "sekret")) {
        fail_msg("%s: the detail reveals a secret: %s", url, hf_error_detail());
    }
    assert_int_equal(atomic_load(leaks), 0);
}

static void no_detail_contains_a_password(cf *f) {
    /* Nothing listens on port 1. The later ones are common typing mistakes; HF_OK means that any
       failure is accepted. */
    static const struct {
        const char *url;
        hf_result result;
    } failing[] = {
        {"redis://u:sekret@127.0.0.1:1", HF_UNREACHABLE},
        {"redis://:sekret@127.0.0.1:1/3", HF_UNREACHABLE},
        {"redis://u:sekret@127.0.0.1:port", HF_INVALID},
        {"redis://u:sekret@127.0.0.1:1/?nonsense=1", HF_INVALID},
        {"redis://u:sekret@127.0.0.1:1/notadb", HF_INVALID},
        {"redis://u:%zzsekret@127.0.0.1:1", HF_INVALID},
        {"carrier-pigeon://u:sekret@loft", HF_UNSUPPORTED},
        {"redis://u:sekret/x@127.0.0.1:1", HF_INVALID},
        {"redis://u:sekret?x@127.0.0.1:1", HF_INVALID},
        {"redis://127.0.0.1:1/?password=sekret", HF_INVALID},
        {"redis:/u:sekret@127.0.0.1:1", HF_OK},
        {"u:sekret@127.0.0.1:1", HF_OK},
    };
    for (size_t i = 0; i < sizeof failing / sizeof *failing; i++) {
        check_shows_no_secret(f, failing[i].url, failing[i].result);
    }
}

static void a_refused_login_does_not_show_the_password(cf *f) {
    check_shows_no_secret(f, t_redis_url_as(cf_redis(), "nobody", "sekret"), HF_REFUSED);
}

const cf_case cf_errors[] = {
    CF_CASE(every_result_has_its_name_and_text),
    CF_CASE(the_version_is_that_of_the_header),
    CF_CASE(a_detail_distinguishes_failures),
    CF_CASE(a_detail_is_one_line_whatever_the_name),
    CF_CASE(a_detail_stays_until_the_next_failure),
    CF_CASE(each_thread_has_its_own_detail),
    CF_CASE(no_detail_contains_a_password),
    CF_CASE_NEEDS(a_refused_login_does_not_show_the_password, CF_REDIS),
    CF_CASES_END,
};
