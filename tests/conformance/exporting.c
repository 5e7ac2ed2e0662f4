/* SPDX-License-Identifier: Apache-2.0 */
/* hf_export, hf_adopt, hf_extend_exported: holds that move to another process. */
#include "conformance.h"

#include <sys/wait.h>
#include <unistd.h>

static char *export_hold_as_text(cf *f, hf_hold *hold) {
    char *text = cf_new(f, HF_EXPORT_MAX);
    CF_IS(HF_OK, hf_export(hold, text, HF_EXPORT_MAX));
    return text;
}

static void B34_an_exported_hold_stays_held(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    uint64_t token = hf_fence(hold);
    cf_lost lost = {0};
    hf_ref(hold);
    char *text = export_hold_as_text(f, hold);
    assert_int_equal(hf_held(hold), 0);
    CF_IS(HF_NOT_HELD, hf_release(hold));
    assert_int_equal(cf_stats(f->a).held, 0);
    assert_int_equal(cf_stats(f->a).lost, 0);
    CF_REFUSED(HF_BUSY, f->a, f->name, NULL); /* the exporting client does not hold it either */
    CF_REFUSED(HF_BUSY, f->b, f->name, NULL);
    hf_info *info = cf_inspect(f->b, f->name);
    assert_int_equal(info->held, 1);
    assert_true(info->token == token);
    assert_int_equal(info->pid, getpid());
    hf_info_free(info);

    CF_IS(HF_OK, hf_adopt(f->b, text, &(hf_options){.on_lost = cf_on_lost, .arg = &lost}, &hold));
    assert_true(hf_fence(hold) == token);
    assert_int_equal(hf_held(hold), 1);
    CF_REFUSED(HF_BUSY, f->a, f->name, NULL);
    CF_FREE(hold);
    CF_FREE(CF_TAKE(f->a, f->name, NULL));
    assert_int_equal(lost.calls, 0);
}

static void B34_it_outlives_its_client_and_ends_with_its_lease(cf *f) {
    hf_client *gone = cf_open(f);
    export_hold_as_text(f, CF_TAKE(gone, f->name, &(hf_options){.lease_ms = 1000}));
    cf_close(f, gone);
    hf_info *info = cf_inspect(f->b, f->name);
    assert_int_equal(info->held, 1);
    assert_int_equal(info->pid, getpid());
    assert_in_range(info->remaining_ms, 1, 1000);
    hf_info_free(info);
    CF_FREE(cf_granted(cf_start(f, f->b, f->name, &(hf_options){.wait_ms = HF_FOREVER})));
}

static void B34_another_process_adopts_it(cf *f) {
    int status = -1;
    char *text = export_hold_as_text(f, CF_TAKE(f->a, f->name, NULL));
    pid_t child = fork();
    if (!child) {
        hf_client *client = NULL;
        hf_hold *hold = NULL;
        int bad = hf_open(cf_url(), NULL, &client) || hf_adopt(client, text, NULL, &hold) ||
                  hf_release(hold);
        _exit(bad);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    CF_FREE(CF_TAKE(f->b, f->name, NULL));
}

static void B34_it_is_adopted_once(cf *f) {
    char *text = export_hold_as_text(f, CF_TAKE(f->a, f->name, NULL));
    hf_hold *hold, *again;
    CF_IS(HF_OK, hf_adopt(f->b, text, NULL, &hold));
    CF_IS(HF_LOST, hf_adopt(f->a, text, NULL, &again));
    assert_null(again);
    CF_IS(HF_LOST, hf_extend_exported(f->a, text, 0));
    assert_int_equal(hf_held(hold), 1);
    CF_FREE(hold);
    CF_IS(HF_LOST, hf_adopt(f->a, text, NULL, &again));
    hold = CF_TAKE(f->a, f->name, NULL); /* a later ownership cannot be adopted with it */
    CF_IS(HF_LOST, hf_adopt(f->a, text, NULL, &again));
    CF_IS(HF_LOST, hf_adopt(f->b, text, NULL, &again));
    CF_FREE(hold);
}

static void B34_an_adopted_hold_is_renewed(cf *f) {
    char *text =
        export_hold_as_text(f, CF_TAKE(f->a, f->name, &(hf_options){.lease_ms = CF_KEPT_LEASE_MS}));
    hf_hold *hold;
    CF_IS(HF_OK, hf_adopt(f->b, text, NULL, &hold));
    uint64_t before = cf_stats(f->b).renewed;
    CF_UNTIL(cf_stats(f->b).renewed > before + 4);
    assert_int_equal(hf_held(hold), 1);
    text = export_hold_as_text(f, hold); /* and exported again */
    CF_IS(HF_OK, hf_adopt(f->a, text, &(hf_options){.flags = HF_NO_RENEW}, &hold));
    CF_UNTIL(!hf_held(hold));
    CF_IS(HF_LOST, hf_release(hold));
}

static void B34_it_can_be_extended_from_outside(cf *f) {
    char *text = export_hold_as_text(f, CF_TAKE(f->a, f->name, &(hf_options){.lease_ms = 5000}));
    CF_IS(HF_OK, hf_extend_exported(f->b, text, 60000));
    hf_info *info = cf_inspect(f->b, f->name);
    assert_in_range(info->remaining_ms, 50000, 60000);
    hf_info_free(info);
    CF_IS(HF_OK, hf_extend_exported(f->b, text, 0)); /* the lease never gets shorter */
    info = cf_inspect(f->b, f->name);
    assert_in_range(info->remaining_ms, 40000, 60000);
    hf_info_free(info);
    CF_IS(HF_INVALID, hf_extend_exported(f->b, text, 1));
    CF_IS(HF_OK, hf_break(f->b, f->name, 0));
    CF_IS(HF_LOST, hf_extend_exported(f->b, text, 0));
}

static void B34_a_waiter_gets_the_lock_after_the_release(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    cf_attempt *same = cf_queue(f, f->a, f->name, &(hf_options){.wait_ms = HF_FOREVER});
    char *text = export_hold_as_text(f, hold);
    cf_attempt *other = cf_arrive(f, f->b, f->name, &(hf_options){.wait_ms = HF_FOREVER});
    CF_UNTIL(cf_queued(f->b, f->name) == 2);
    CF_IS(HF_BUSY, hf_adopt(f->b, text, NULL, &hold)); /* the queue comes first */
    hf_client *third = cf_open(f);
    CF_IS(HF_OK, hf_adopt(third, text, NULL, &hold));
    CF_FREE(hold);
    CF_FREE(cf_granted(same));
    CF_FREE(cf_granted(other));
}

static void B34_a_hold_with_any_name_can_be_exported(cf *f) {
    char *name = cf_new(f, HF_NAME_MAX + 1);
    int n = snprintf(name, HF_NAME_MAX + 1, "%s-{:}%%\xff\n", f->name);
    memset(name + n, '%', (size_t)(HF_NAME_MAX - n));
    char *text = export_hold_as_text(f, CF_TAKE(f->a, name, NULL));
    for (const char *c = text; *c; c++) assert_in_range(*c, ' ', '~');
    hf_hold *hold;
    CF_IS(HF_OK, hf_adopt(f->b, text, NULL, &hold));
    CF_REFUSED(HF_BUSY, f->a, name, NULL);
    CF_FREE(hold);
}

static void B34_a_hold_that_cannot_be_exported_stays(cf *f) {
    char text[HF_EXPORT_MAX];
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL), *again = CF_TAKE(f->a, f->name, NULL);
    CF_IS(HF_INVALID, hf_export(hold, text, sizeof text));
    CF_IS(HF_INVALID, hf_export(NULL, text, sizeof text));
    CF_FREE(again);
    CF_IS(HF_INVALID, hf_export(hold, text, sizeof text - 1));
    CF_IS(HF_INVALID, hf_export(hold, NULL, sizeof text));
    assert_int_equal(hf_held(hold), 1);
    CF_FREE(hold);
    hold = CF_TAKE(f->a, f->name, CF_TRY(HF_READ, 1));
    CF_IS(HF_UNSUPPORTED, hf_export(hold, text, sizeof text));
    assert_int_equal(hf_held(hold), 1);
    CF_FREE(hold);
    hold = CF_TAKE(f->a, f->name, NULL);
    hf_ref(hold);
    CF_FREE(hold);
    CF_IS(HF_NOT_HELD, hf_export(hold, text, sizeof text));
    hf_unref(hold);
    hold = CF_TAKE(f->a, f->name, NULL);
    CF_IS(HF_OK, hf_break(f->b, f->name, 0));
    CF_IS(HF_LOST, hf_export(hold, text, sizeof text));
    CF_IS(HF_LOST, hf_release(hold));
}

static void B34_invalid_texts_are_refused(cf *f) {
    static const char *const bad[] = {
        "",
        "hf1:",
        "hf1:3f1c2d4e-0000-4000-8000-000000000000:1:30000:",
        "hf1:3f1c2d4e-0000-4000-8000-000000000000:1:30000:a%2",
        "hf1:3f1c2d4e-0000-4000-8000-000000000000:1:30000:a%00",
        "hf1:3f1c2d4e-0000-4000-8000-000000000000:1:30000:a b",
        "hf1:3f1c2d4e-0000-4000-8000-000000000000:0:30000:a",
        "hf1:3f1c2d4e-0000-4000-8000-000000000000:1:1:a",
        "hf1:3f1c2d4e-0000-4000-8000-00000000000:1:30000:a",
        "hf1:3f1c2d4e-0000-4000-8000-000000000000:99999999999999999999:30000:a",
        "hf2:3f1c2d4e-0000-4000-8000-000000000000:1:30000:a",
    };
    hf_hold *hold;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CF_IS(HF_INVALID, hf_adopt(f->a, bad[i], NULL, &hold));
        CF_IS(HF_INVALID, hf_extend_exported(f->a, bad[i], 0));
    }
    const char *good = "hf1:3f1c2d4e-0000-4000-8000-000000000000:1:30000:nobody";
    CF_IS(HF_INVALID, hf_adopt(f->a, NULL, NULL, &hold));
    CF_IS(HF_INVALID, hf_adopt(f->a, good, NULL, NULL));
    CF_IS(HF_INVALID, hf_adopt(f->a, good, &(hf_options){.wait_ms = 1}, &hold));
    CF_IS(HF_INVALID, hf_adopt(f->a, good, &(hf_options){.owner = 1}, &hold));
    CF_IS(HF_LOST, hf_adopt(f->a, good, NULL, &hold));
}

/* Stores whose locks end with the holder's process cannot export. */
static void B34_other_stores_refuse_to_export(cf *f) {
    char text[HF_EXPORT_MAX];
    const char *good = "hf1:3f1c2d4e-0000-4000-8000-000000000000:1:30000:nobody";
    if (cf_has(CF_EXPORTS)) return;
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL), *none;
    CF_IS(HF_UNSUPPORTED, hf_export(hold, text, sizeof text));
    assert_string_equal(text, "");
    assert_int_equal(hf_held(hold), 1);
    CF_FREE(hold);
    CF_IS(HF_UNSUPPORTED, hf_adopt(f->a, good, NULL, &none));
    CF_IS(HF_UNSUPPORTED, hf_extend_exported(f->a, good, 0));
}

const cf_case cf_exporting[] = {
    CF_CASE_NEEDS(B34_an_exported_hold_stays_held, CF_EXPORTS),
    CF_CASE_NEEDS(B34_it_outlives_its_client_and_ends_with_its_lease, CF_EXPORTS),
    CF_CASE_NEEDS(B34_another_process_adopts_it, CF_EXPORTS | CF_FORK_WITH_THREADS),
    CF_CASE_NEEDS(B34_it_is_adopted_once, CF_EXPORTS),
    CF_CASE_NEEDS(B34_an_adopted_hold_is_renewed, CF_EXPORTS),
    CF_CASE_NEEDS(B34_it_can_be_extended_from_outside, CF_EXPORTS),
    CF_CASE_NEEDS(B34_a_waiter_gets_the_lock_after_the_release, CF_EXPORTS),
    CF_CASE_NEEDS(B34_a_hold_with_any_name_can_be_exported, CF_EXPORTS),
    CF_CASE_NEEDS(B34_a_hold_that_cannot_be_exported_stays, CF_EXPORTS),
    CF_CASE_NEEDS(B34_invalid_texts_are_refused, CF_EXPORTS),
    CF_CASE(B34_other_stores_refuse_to_export),
    CF_CASES_END,
};
