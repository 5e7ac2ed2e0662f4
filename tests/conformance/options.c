/* SPDX-License-Identifier: Apache-2.0 */
/* F49: options out of range, options of another version of the header, and options in the URL. */
#include "conformance.h"

/* ---- For an acquire -------------------------------------------------------------------------- */

static void F49_options_out_of_range_are_refused(cf *f) {
    static const hf_options bad[] = {
        {.lease_ms = -1},
        {.lease_ms = 1},
        {.lease_ms = HF_LEASE_MIN_MS - 1},
        {.lease_ms = HF_LEASE_MAX_MS + 1},
        {.lease_ms = INT64_MAX},
        {.lease_ms = INT64_MIN},
        {.wait_ms = -2},
        {.wait_ms = INT64_MIN},
        {.max_hold_ms = -1},
        {.max_hold_ms = INT64_MIN},
        {.permits = 1},
        {.capacity = 1},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CF_REFUSED(HF_INVALID, f->a, f->name, &bad[i]);
    }
    CF_FREE(CF_TAKE(f->b, f->name, NULL));
}

static void F49_options_of_the_future_are_unsupported(cf *f) {
    static const hf_options unknown[] = {
        {.flags = 8}, {.flags = UINT32_C(1) << 31}, {.flags = HF_NO_RENEW | 64}, {.kind = 5},
        {.kind = 99}, {.kind = UINT32_MAX},
    };
    for (size_t i = 0; i < sizeof unknown / sizeof *unknown; i++) {
        CF_REFUSED(HF_UNSUPPORTED, f->a, f->name, &unknown[i]);
    }
    CF_FREE(CF_TAKE(f->b, f->name, NULL));
}

static void F49_the_limits_themselves_are_allowed(cf *f) {
    static const hf_options good[] = {
        {.lease_ms = HF_LEASE_MIN_MS},
        {.lease_ms = HF_LEASE_MAX_MS},
        {.wait_ms = HF_FOREVER},
        {.max_hold_ms = INT64_MAX},
        {.flags = HF_NO_RENEW | HF_NOT_REENTRANT},
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        hf_hold *hold = CF_TAKE(f->a, f->name, &good[i]);
        if (hf_release(hold) == HF_OK) continue;
        assert_int_equal(good[i].lease_ms, HF_LEASE_MIN_MS); /* so short that it may be lost */
    }
    hf_hold *hold = CF_TAKE(f->a, f->name, &(hf_options){.lease_ms = HF_LEASE_MAX_MS});
    assert_true(hf_remaining_ms(hold) > HF_LEASE_MAX_MS / 2);
    CF_FREE(hold);
}

/* ---- Of another version ---------------------------------------------------------------------- */

typedef struct newer_options {
    hf_options known;
    uint64_t added[3];
} newer_options;

static hf_result acquire_sized(cf *f, const void *options, size_t size, hf_hold **hold) {
    return hf_acquire_v(f->a, f->name, (const hf_options *)options, size, hold);
}

static void a_newer_caller_is_understood_unless_it_sets_an_unknown_option(cf *f) {
    newer_options newer = {.known = {.lease_ms = 5000}};
    hf_hold *hold = NULL;
    CF_IS(HF_OK, acquire_sized(f, &newer, sizeof newer, &hold));
    assert_in_range(hf_remaining_ms(hold), 1, 5000);
    CF_FREE(hold);
    for (size_t i = 0; i < 3; i++) {
        memset(newer.added, 0, sizeof newer.added);
        ((unsigned char *)&newer.added[i])[7] = 1;
        CF_IS(HF_UNSUPPORTED, acquire_sized(f, &newer, sizeof newer, &hold));
        assert_null(hold);
        assert_string_not_equal(hf_error_detail(), "");
    }
}

static void an_older_caller_is_understood(cf *f) {
    hf_options garbage;
    hf_hold *hold = NULL;
    /* Bytes beyond the given size do not belong to the caller's struct. */
    memset(&garbage, 0x5a, sizeof garbage);
    garbage.wait_ms = 0;
    CF_IS(HF_OK, acquire_sized(f, &garbage, sizeof garbage.wait_ms, &hold));
    CF_FREE(hold);

    garbage.lease_ms = 5000;
    garbage.max_hold_ms = 0;
    garbage.owner = 7;
    CF_IS(HF_OK, acquire_sized(f, &garbage, offsetof(hf_options, cancel), &hold));
    assert_in_range(hf_remaining_ms(hold), 1, 5000);
    garbage.owner = 8;
    garbage.wait_ms = 300;
    hf_hold *none = hold;
    CF_IS(HF_TIMEOUT, acquire_sized(f, &garbage, offsetof(hf_options, cancel), &none));
    assert_null(none);
    CF_FREE(hold);
}

/* ---- For a client ---------------------------------------------------------------------------- */

/* hf_open fails with this result, without a client and with a detail. */
static void check_not_opened(hf_result expected, const char *url, const void *options,
                             size_t size) {
    hf_client *client = (hf_client *)(uintptr_t)0x5a5a;
    CF_IS(expected, hf_open_v(url, (const hf_client_options *)options, size, &client));
    assert_null(client);
    assert_string_not_equal(hf_error_detail(), "");
}

static void F49_client_options_out_of_range_are_refused(cf *f) {
    static const hf_client_options bad[] = {
        {.lease_ms = -1},
        {.lease_ms = HF_LEASE_MIN_MS - 1},
        {.lease_ms = HF_LEASE_MAX_MS + 1},
        {.connect_timeout_ms = -1},
        {.command_timeout_ms = -1},
        {.outage_ms = -1},
    };
    (void)f;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        check_not_opened(HF_INVALID, cf_url(), &bad[i], sizeof bad[i]);
    }
    check_not_opened(HF_UNSUPPORTED, cf_url(), &(hf_client_options){.flags = 2},
                     sizeof(hf_client_options));
}

typedef struct newer_client_options {
    hf_client_options known;
    uint64_t added;
} newer_client_options;

static void client_options_of_another_version(cf *f) {
    newer_client_options newer = {.known = {.lease_ms = 5000}};
    hf_client *client = NULL;
    CF_IS(HF_OK, hf_open_v(cf_url(), &newer.known, sizeof newer, &client));
    hf_close(client);
    newer.added = 1;
    check_not_opened(HF_UNSUPPORTED, cf_url(), &newer, sizeof newer);

    hf_client_options garbage;
    memset(&garbage, 0x5a, sizeof garbage);
    garbage.lease_ms = 5000;
    CF_IS(HF_OK, hf_open_v(cf_url(), &garbage, sizeof garbage.lease_ms, &client));
    hf_hold *hold = CF_TAKE(client, f->name, NULL);
    assert_in_range(hf_remaining_ms(hold), 1, 5000);
    CF_FREE(hold);
    hf_close(client);
}

static void F49_url_options_are_checked(cf *f) {
    static const char *const bad[] = {
        "lease=0s", "lease=-1s", "lease=1ms",          "lease=9999h", "lease=soon",
        "lease=",   "lease",     "command_timeout=0s", "nonsense=1"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        check_not_opened(HF_INVALID, cf_url_with(f, bad[i]), NULL, sizeof(hf_client_options));
    }
    /* An unknown option is an error that lists the known ones. */
    assert_non_null(strstr(hf_error_detail(), "nonsense"));
    assert_non_null(strstr(hf_error_detail(), "lease"));
}

static void urls_that_name_no_store(cf *f) {
    (void)f;
    check_not_opened(HF_INVALID, "", NULL, sizeof(hf_client_options));
    check_not_opened(HF_INVALID, "no url", NULL, sizeof(hf_client_options));
    check_not_opened(HF_UNSUPPORTED, "carrier-pigeon://loft", NULL, sizeof(hf_client_options));
}

const cf_case cf_options[] = {
    CF_CASE(F49_options_out_of_range_are_refused),
    CF_CASE(F49_options_of_the_future_are_unsupported),
    CF_CASE(F49_the_limits_themselves_are_allowed),
    CF_CASE(a_newer_caller_is_understood_unless_it_sets_an_unknown_option),
    CF_CASE(an_older_caller_is_understood),
    CF_CASE(F49_client_options_out_of_range_are_refused),
    CF_CASE(client_options_of_another_version),
    CF_CASE(F49_url_options_are_checked),
    CF_CASE(urls_that_name_no_store),
    CF_CASES_END,
};
