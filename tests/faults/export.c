/* SPDX-License-Identifier: Apache-2.0 */
/* Exports of holds while the store does not answer. */
#include "fault.h"

/* A client through the proxy. The server already knows the script, so the next answer belongs to
   the test's request. */
static hf_client *open_through_proxy(bed *b, int64_t command_timeout_ms) {
    const char *none = "hf1:3f1c2d4e-0000-4000-8000-000000000000:1:30000:none";
    hf_client *client =
        bed_through(b, &(hf_client_options){.command_timeout_ms = command_timeout_ms});
    T_HF(HF_LOST, hf_extend_exported(client, none, 0));
    return client;
}

static void adopt_and_free(bed *b, const char *text) {
    hf_hold *hold = NULL;
    T_HF(HF_OK, hf_adopt(bed_direct(b), text, NULL, &hold));
    check_held(b, hold);
    FREE(hold);
    assert_false(on_server(b));
}

/* The export was done, but the answer is lost. It is sent again and acts once. */
static void F12_the_answer_to_an_export_is_lost(void **state) {
    bed *b = *state;
    char text[HF_EXPORT_MAX];
    hf_client *client = open_through_proxy(b, 0);
    hf_hold *hold = TAKE(client, .on_lost = count_loss, .arg = &b->loss);
    t_proxy_drop_answers(b->proxy, 1);
    T_HF(HF_OK, hf_export(hold, text, sizeof text));
    assert_int_equal(stats_of(client).reconnects, 1);
    assert_int_equal(b->loss.calls, 0);
    adopt_and_free(b, text);
}

/* The store does not come back in time either. The hold was exported, but its text never arrived.
   It is lost here and ends with its lease. */
static void F12_an_export_is_never_answered(void **state) {
    bed *b = *state;
    char text[HF_EXPORT_MAX];
    hf_client *client = open_through_proxy(b, 300);
    hf_hold *hold =
        TAKE(client, .lease_ms = t_patience(3000), .on_lost = count_loss, .arg = &b->loss);
    t_proxy_drop_answers(b->proxy, 1);
    t_proxy_refuse(b->proxy, true);
    T_HF(HF_UNKNOWN_OUTCOME, hf_export(hold, text, sizeof text));
    assert_string_equal(text, "");
    t_proxy_refuse(b->proxy, false);
    UNTIL(b->loss.calls == 1);
    assert_int_equal(hf_held(hold), 0);
    T_HF(HF_LOST, hf_release(hold));
    assert_true(on_server(b)); /* our release does not touch the exported hold */
    UNTIL(!on_server(b));
}

/* The request never reached the store, so the hold is unchanged. */
static void F13_an_export_that_is_not_sent_changes_nothing(void **state) {
    bed *b = *state;
    char text[HF_EXPORT_MAX];
    hf_client *client = open_through_proxy(b, 300);
    hf_hold *hold = TAKE(client, .on_lost = count_loss, .arg = &b->loss);
    t_proxy_blackhole(b->proxy, true);
    T_HF(HF_UNKNOWN_OUTCOME, hf_export(hold, text, sizeof text));
    t_proxy_cut(b->proxy);
    t_proxy_blackhole(b->proxy, false);
    uint64_t renewed = stats_of(client).renewed;
    UNTIL(stats_of(client).renewed > renewed);
    check_held(b, hold);
    assert_int_equal(b->loss.calls, 0);
    T_HF(HF_OK, hf_export(hold, text, sizeof text));
    adopt_and_free(b, text);
}

static void F12_the_answer_to_an_adoption_is_lost(void **state) {
    bed *b = *state;
    char text[HF_EXPORT_MAX];
    hf_client *other = bed_direct(b), *client = open_through_proxy(b, 0);
    T_HF(HF_OK, hf_export(TAKE(other), text, sizeof text));
    hf_hold *hold = NULL;
    t_proxy_drop_answers(b->proxy, 1);
    hf_result r = hf_adopt(client, text, NULL, &hold);
    if (r == HF_OK) {
        check_held(b, hold);
        FREE(hold);
    } else {
        T_HF(HF_UNKNOWN_OUTCOME, r);
        assert_null(hold);
    }
    UNTIL(!on_server(b)); /* it is released later */
}

static void F12_the_answer_to_an_extension_is_lost(void **state) {
    bed *b = *state;
    char text[HF_EXPORT_MAX];
    hf_client *client = open_through_proxy(b, 0);
    T_HF(HF_OK, hf_export(TAKE(client), text, sizeof text));
    t_proxy_drop_answers(b->proxy, 1);
    T_HF(HF_OK, hf_extend_exported(client, text, 3600000));
    assert_true(server_ttl_ms(b) > 3000000);
    adopt_and_free(b, text);
}

/* The store loses all data during the export, or after it. */
static void F16_a_flushed_store_has_nothing_to_adopt(void **state) {
    bed *b = *state;
    char text[HF_EXPORT_MAX];
    hf_client *client = bed_direct(b);
    hf_hold *hold = TAKE(client);
    freeReplyObject(t_redis_cmd(b->redis, "FLUSHALL"));
    T_HF(HF_LOST, hf_export(hold, text, sizeof text));
    T_HF(HF_LOST, hf_release(hold));
    T_HF(HF_OK, hf_export(TAKE(client), text, sizeof text));
    freeReplyObject(t_redis_cmd(b->redis, "FLUSHALL"));
    T_HF(HF_LOST, hf_adopt(client, text, NULL, &hold));
    T_HF(HF_LOST, hf_extend_exported(client, text, 0));
}

static const struct CMUnitTest tests[] = {
    FAULT_TEST(F12_the_answer_to_an_export_is_lost),
    FAULT_TEST(F12_an_export_is_never_answered),
    FAULT_TEST(F13_an_export_that_is_not_sent_changes_nothing),
    FAULT_TEST(F12_the_answer_to_an_adoption_is_lost),
    FAULT_TEST(F12_the_answer_to_an_extension_is_lost),
    FAULT_TEST(F16_a_flushed_store_has_nothing_to_adopt),
};

FAULT_MAIN(tests)
