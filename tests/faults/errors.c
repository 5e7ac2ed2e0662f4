/* SPDX-License-Identifier: Apache-2.0 */
/* Different errors of a server (F27), and keys that hold something else (F28). */
#include "fault.h"

#include <sys/stat.h>

static void run_command(bed *b, const char *command) {
    redisReply *reply = t_redis_cmd(b->redis, command);
    if (reply->type == REDIS_REPLY_ERROR) t_fail("`%s`: %s", command, reply->str);
    freeReplyObject(reply);
}

static bool info_has(bed *b, const char *line) {
    return strstr(t_redis_str(b->redis, "INFO everything"), line) != NULL;
}

/* ---- F27: states a server can be brought into ------------------------------------------------ */

static void enter_oom(bed *b) {
    set_config(b, "maxmemory", "1");
}

static void leave_oom(bed *b) {
    set_config(b, "maxmemory", "0");
}

/* A directory at the path of its dump file prevents it from saving. */
static void enter_misconf(bed *b) {
    char path[512];
    snprintf(path, sizeof path, "%s/dump.rdb", t_redis_dir(b->redis));
    assert_int_equal(mkdir(path, 0700), 0);
    set_config(b, "save", "3600 1");
    set_config(b, "stop-writes-on-bgsave-error", "yes");
    run_command(b, "BGSAVE");
    UNTIL(info_has(b, "rdb_last_bgsave_status:err"));
}

static void leave_misconf(bed *b) {
    set_config(b, "stop-writes-on-bgsave-error", "no");
}

static void enter_noreplicas(bed *b) {
    set_config(b, "min-replicas-to-write", "1");
}

static void leave_noreplicas(bed *b) {
    set_config(b, "min-replicas-to-write", "0");
}

static void enter_readonly(bed *b) {
    run_command(b, "REPLICAOF " T_HOST " 1");
}

static void leave_replica(bed *b) {
    run_command(b, "REPLICAOF NO ONE");
}

static void enter_masterdown(bed *b) {
    set_config(b, "replica-serve-stale-data", "no");
    enter_readonly(b);
}

typedef struct trouble {
    const char *word; /* in the server's error and in our detail */
    const char *advice;
    hf_result result;
    void (*enter)(bed *b), (*leave)(bed *b);
} trouble;

static const trouble troubles[] = {
    {"OOM", "maxmemory", HF_REFUSED, enter_oom, leave_oom},
    {"MISCONF", "disk", HF_REFUSED, enter_misconf, leave_misconf},
    {"NOREPLICAS", "min-replicas-to-write", HF_UNREACHABLE, enter_noreplicas, leave_noreplicas},
    {"READONLY", "primary", HF_REFUSED, enter_readonly, leave_replica},
    {"MASTERDOWN", "primary", HF_UNREACHABLE, enter_masterdown, leave_replica},
};
enum { TROUBLES = sizeof troubles / sizeof *troubles };

static void F27_the_errors_of_a_server_are_distinguished(void **state) {
    bed *b = *state;
    hf_client *client = bed_direct(b);
    for (int i = 0; i < TROUBLES; i++) {
        const trouble *t = &troubles[i];
        t->enter(b);
        REFUSED(t->result, client, .wait_ms = 0);
        check_detail(t->word);
        check_detail(t->advice);
        t->leave(b);
        FREE(TAKE(client));
    }
}

/* The wait retries temporary errors. A permanent error ends it. */
static void F27_a_wait_survives_temporary_errors_and_ends_with_permanent_ones(void **state) {
    bed *b = *state;
    hf_client *client = bed_direct(b);
    for (int i = 0; i < TROUBLES; i++) {
        const trouble *t = &troubles[i];
        if (t->enter == enter_misconf) continue; /* the same as OOM, and slow to produce */
        t->enter(b);
        attempt *a = attempt_start(b, client, &(hf_options){.wait_ms = t_patience(20000)});
        if (t->result == HF_REFUSED) {
            attempt_end(a, HF_REFUSED);
            t->leave(b);
        } else {
            UNTIL(stats_of(client).waiting == 1);
            t->leave(b);
            FREE(attempt_end(a, HF_OK));
        }
    }
}

static bool answers_busy(bed *b) {
    redisReply *reply = t_redis_cmd(b->redis, "EXISTS " KEY);
    bool busy = reply->type == REDIS_REPLY_ERROR && !strncmp(reply->str, "BUSY", 4);
    freeReplyObject(reply);
    return busy;
}

static void F27_a_busy_server_is_unreachable_until_its_script_ends(void **state) {
    bed *b = *state;
    hf_client *client = bed_direct(b);
    FREE(TAKE(client));
    t_threads *script = slow_script_start(b, 1);
    UNTIL(answers_busy(b));
    REFUSED(HF_UNREACHABLE, client, .wait_ms = 0);
    check_detail("BUSY");
    attempt *a = attempt_start(b, client, &(hf_options){.wait_ms = t_patience(20000)});
    UNTIL(stats_of(client).waiting == 1);
    slow_script_kill(b, script);
    FREE(attempt_end(a, HF_OK));
}

/* A loading server answers TIME, so the client can connect. */
static void F27_a_loading_server_is_unreachable(void **state) {
    bed *b = *state;
    b->fake = t_fake_start("HANDSHAKE\n"
                           "EXPECT EVALSHA\n"
                           "SEND :\\T\\r\\n\n"
                           "EXPECT EVALSHA\n"
                           "SEND -LOADING Redis is loading the dataset in memory\\r\\n\n"
                           "EXPECT_CLOSE\n");
    hf_client *client = bed_open(b, t_fake_url(b->fake), NULL);
    REFUSED(HF_UNREACHABLE, client, .wait_ms = 0);
    check_detail("LOADING");
    bed_close(b, client);
    t_fake_join(b->fake, SOON_MS);
}

/* ---- F27: existing holds meanwhile ----------------------------------------------------------- */

static void F27_a_hold_is_renewed_and_released_when_memory_is_out(void **state) {
    bed *b = *state;
    hf_client *client = bed_direct(b);
    hf_hold *hold = TAKE(client, .lease_ms = t_patience(900)), *again = TAKE(client);
    enter_oom(b);
    uint64_t renewed = stats_of(client).renewed;
    UNTIL(stats_of(client).renewed >= renewed + 2);
    check_held(b, hold);
    FREE(again);
    FREE(hold);
    assert_false(on_server(b));
}

/* The release also writes a tombstone, for an acquire that may arrive late. */
static void F27_a_release_with_a_tombstone_works_when_memory_is_out(void **state) {
    bed *b = *state;
    hf_client *client = bed_through(b, NULL);
    t_proxy_withhold(b->proxy, T_TO_SERVER, true);
    attempt *a = attempt_sent(b, client, &(hf_options){.wait_ms = t_patience(SOON_MS)});
    assert_true(t_proxy_detach(b->proxy) > 0);
    hf_hold *hold = attempt_end(a, HF_OK);
    enter_oom(b);
    FREE(hold);
    leave_oom(b);
    assert_true(t_proxy_deliver(b->proxy) > 0);
    assert_false(on_server(b));
}

static void F27_a_release_that_is_refused_is_tried_again(void **state) {
    bed *b = *state;
    hf_hold *hold = TAKE(bed_direct(b));
    enter_readonly(b);
    T_HF(HF_REFUSED, hf_release(hold));
    check_detail("READONLY");
    leave_replica(b);
    UNTIL(!on_server(b)); /* long before its lease of 30 s */
}

static void F27_renewals_that_are_refused_are_retried_until_the_error_is_over(void **state) {
    bed *b = *state;
    hf_client *client = bed_direct(b);
    hf_hold *hold =
        TAKE(client, .lease_ms = t_patience(1500), .on_lost = count_loss, .arg = &b->loss);
    enter_readonly(b);
    calls_reset(b);
    UNTIL(call_count(b, "evalsha") >= 2); /* refused, and retried */
    leave_replica(b);
    uint64_t renewed = stats_of(client).renewed;
    UNTIL(stats_of(client).renewed > renewed);
    check_held(b, hold);
    FREE(hold);
}

static void F27_renewals_that_are_refused_for_a_lease_are_a_loss(void **state) {
    bed *b = *state;
    int64_t lease_ms = t_patience(600), began = t_now_ms();
    hf_hold *hold =
        TAKE(bed_direct(b), .lease_ms = lease_ms, .on_lost = count_loss, .arg = &b->loss);
    enter_readonly(b);
    UNTIL(!hf_held(hold));
    assert_true(t_now_ms() - began >= lease_ms * 9 / 10);
    check_lost(b, hold, "did not confirm a renewal");
}

/* ---- F27: missing rights --------------------------------------------------------------------- */

static const char *const USERS[] = {
    "alice on >secret ~* +@all -evalsha -eval",
    "bob on >secret ~elsewhere:* +@all",
    "carol on >secret ~* +@all -hset",
    "dave on >secret ~* +@all",
    NULL,
};
static const t_redis_options WITH_USERS = {.acl = USERS};

static void F27_missing_rights_are_reported(void **state) {
    static const char *const missing[][2] = {
        {"alice", "command evalsha"}, {"bob", "key hf:{lock}"}, {"carol", "command hset"}};
    bed *b = *state;
    for (size_t i = 0; i < sizeof missing / sizeof *missing; i++) {
        hf_client *client = bed_open(b, t_redis_url_as(b->redis, missing[i][0], "secret"), NULL);
        REFUSED(HF_REFUSED, client, .wait_ms = 0);
        check_detail("ACL");
        check_detail(missing[i][1]);
        assert_false(on_server(b));
    }
    FREE(TAKE(bed_open(b, t_redis_url_as(b->redis, "dave", "secret"), NULL)));
}

/* ---- F28: keys that hold something else ------------------------------------------------------ */

static void check_wrong_key(bed *b, hf_client *client, const char *make, const char *word) {
    run_command(b, make);
    REFUSED(HF_PROTOCOL, client, .wait_ms = SOON_MS);
    check_detail(word);
    assert_true(t_redis_int(b->redis, "PTTL " FENCE) < 0); /* missing, or still without an expiry */
    run_command(b, "DEL " FENCE);
}

static void F28_a_key_of_a_wrong_type_is_reported_and_left_unchanged(void **state) {
    bed *b = *state;
    hf_client *client = bed_direct(b);
    hf_info *info = NULL;
    check_wrong_key(b, client, "SET " KEY " precious", "WRONGTYPE");
    T_HF(HF_PROTOCOL, hf_inspect(client, LOCK, &info));
    assert_null(info);
    T_HF(HF_PROTOCOL, hf_break(client, LOCK, 0));
    check_detail("WRONGTYPE");
    assert_string_equal(t_redis_str(b->redis, "GET " KEY), "precious");
    assert_int_equal(server_ttl_ms(b), -1);
    run_command(b, "DEL " KEY);
    FREE(TAKE(client));
}

static void F28_a_fence_that_holds_something_else_is_reported_and_left_unchanged(void **state) {
    bed *b = *state;
    hf_client *client = bed_direct(b);
    check_wrong_key(b, client, "RPUSH " FENCE " precious", "WRONGTYPE");
    check_wrong_key(b, client, "SET " FENCE " precious", "fence");
    check_wrong_key(b, client, "SET " FENCE " 12monkeys", "fence");
    assert_false(on_server(b));
    FREE(TAKE(client));
}

static void F28_a_held_key_overwritten_by_hand_is_a_loss(void **state) {
    bed *b = *state;
    hf_client *client = bed_open(b, t_redis_url(b->redis),
                                 &(hf_client_options){.command_timeout_ms = t_patience(300)});
    hf_hold *hold =
        TAKE(client, .lease_ms = t_patience(600), .on_lost = count_loss, .arg = &b->loss);
    run_command(b, "SET " KEY " precious");
    check_lost(b, hold, "");
    assert_string_equal(t_redis_str(b->redis, "GET " KEY), "precious");
}

static const struct CMUnitTest tests[] = {
    FAULT_TEST(F27_the_errors_of_a_server_are_distinguished),
    FAULT_TEST(F27_a_wait_survives_temporary_errors_and_ends_with_permanent_ones),
    FAULT_TEST(F27_a_busy_server_is_unreachable_until_its_script_ends),
    FAULT_TEST_ON(F27_a_loading_server_is_unreachable, &BED_BARE),
    FAULT_TEST(F27_a_hold_is_renewed_and_released_when_memory_is_out),
    FAULT_TEST(F27_a_release_with_a_tombstone_works_when_memory_is_out),
    FAULT_TEST(F27_a_release_that_is_refused_is_tried_again),
    FAULT_TEST(F27_renewals_that_are_refused_are_retried_until_the_error_is_over),
    FAULT_TEST(F27_renewals_that_are_refused_for_a_lease_are_a_loss),
    FAULT_TEST_ON(F27_missing_rights_are_reported, &WITH_USERS),
    FAULT_TEST(F28_a_key_of_a_wrong_type_is_reported_and_left_unchanged),
    FAULT_TEST(F28_a_fence_that_holds_something_else_is_reported_and_left_unchanged),
    FAULT_TEST(F28_a_held_key_overwritten_by_hand_is_a_loss),
};

FAULT_MAIN(tests)
