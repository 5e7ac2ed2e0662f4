/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many names at once (B19) on a real server: the cost, and the result when answers are lost, bytes
 * arrive late, or the server loses data, is away or refuses.
 */
#include "fault.h"

enum { NAMES = 3 };

static const hf_request all[NAMES] = {{.name = "many-2"}, {.name = "many-3"}, {.name = "many-1"}};
static const hf_request shared[2] = {{.name = "many-1", .kind = HF_READ},
                                     {.name = "many-2", .kind = HF_PERMITS, .capacity = 3}};

static hf_hold *take_all(hf_client *client, const hf_options *options) {
    hf_hold *hold = NULL;
    T_HF(HF_OK, hf_acquire_all(client, all, NAMES, options, &hold));
    return hold;
}

static uint64_t token_of(bed *b, const char *name) {
    const char *token = t_redis_str(b->redis, "HGET hf:{%s} t", name);
    return token ? strtoull(token, NULL, 10) : 0;
}

static bool any_held(bed *b) {
    return token_of(b, "many-1") || token_of(b, "many-2") || token_of(b, "many-3");
}

static void check_all(bed *b, const hf_hold *hold) {
    assert_int_equal(hf_held(hold), 1);
    for (size_t i = 0; i < NAMES; i++) {
        assert_true(hf_fence_of(hold, i) != 0);
        assert_true(hf_fence_of(hold, i) == token_of(b, all[i].name));
    }
}

/* An acquire of many names, in a thread of its own. */
typedef struct many_call {
    hf_client *client;
    const hf_request *requests;
    size_t count;
    hf_options options;
    t_threads *thread;
    hf_result result;
    hf_hold *hold;
    int64_t took_ms;
    char detail[256];
} many_call;

static void call_main(int index, void *arg) {
    many_call *c = arg;
    int64_t began = t_now_ms();
    (void)index;
    c->result = hf_acquire_all(c->client, c->requests, c->count, &c->options, &c->hold);
    c->took_ms = t_now_ms() - began;
    snprintf(c->detail, sizeof c->detail, "%s", c->result ? hf_error_detail() : "");
}

static void call_start(many_call *c, hf_client *client, const hf_options *options) {
    *c = (many_call){.client = client, .requests = all, .count = NAMES, .options = *options};
    c->thread = t_threads_start(1, call_main, c);
}

static hf_hold *call_end(many_call *c, hf_result expected) {
    t_threads_join(c->thread, 4 * SOON_MS);
    if (c->result != expected)
        t_fail("the call returned %s (%s), not %s", hf_result_name(c->result), c->detail,
               hf_result_name(expected));
    return c->hold;
}

static hf_client *warm_client(bed *b) {
    hf_client *client = bed_through(b, NULL);
    FREE(take_all(client, NULL));
    return client;
}

/* ---- Cost ------------------------------------------------------------------------------------ */

static void B19_free_names_cost_one_command(void **state) {
    bed *b = *state;
    hf_client *client = warm_client(b);
    calls_reset(b);
    uint64_t commands = stats_of(client).commands;
    hf_hold *hold = take_all(client, &(hf_options){.wait_ms = HF_FOREVER});
    assert_int_equal(stats_of(client).commands, commands + 1);
    assert_int_equal(call_count(b, "evalsha"), 1);
    check_all(b, hold);
    FREE(hold);
    assert_int_equal(stats_of(client).commands, commands + 1 + NAMES);
}

/* Including a name that others share, and a name whose only holder is a reader. */
static void B19_names_that_can_be_shared_cost_one_command(void **state) {
    bed *b = *state;
    hf_client *client = warm_client(b), *other = bed_direct(b);
    hf_hold *first = NULL, *second = NULL;
    T_HF(HF_OK, hf_acquire_all(other, shared, 2, NULL, &first));
    uint64_t commands = stats_of(client).commands;
    T_HF(HF_OK, hf_acquire_all(client, shared, 2, NULL, &second));
    assert_int_equal(stats_of(client).commands, commands + 1);
    assert_int_equal(t_redis_int(b->redis, "HGET hf:{many-1} u"), 2);
    assert_int_equal(t_redis_int(b->redis, "HGET hf:{many-2} u"), 2);
    FREE(first);
    assert_int_equal(hf_held(second), 1);
    FREE(second);
    assert_false(any_held(b));
}

static void B19_if_one_is_busy_names_are_waited_for_one_by_one(void **state) {
    bed *b = *state;
    many_call c;
    hf_client *client = warm_client(b), *other = bed_direct(b);
    hf_hold *held = acquire_or_fail(other, "many-2", NULL, __FILE__, __LINE__);
    call_start(&c, client, &(hf_options){.wait_ms = t_patience(SOON_MS)});
    UNTIL(t_redis_int(b->redis, "LLEN hf:{many-2}:q") == 1);
    assert_true(token_of(b, "many-1") != 0);
    assert_true(token_of(b, "many-3") == 0);
    FREE(held);
    hf_hold *hold = call_end(&c, HF_OK);
    check_all(b, hold);
    FREE(hold);
    assert_false(any_held(b));
}

/* ---- Answers that are lost ------------------------------------------------------------------- */

/* The server granted all names, but the answer is lost. Each name is acquired again by itself and
   found granted. */
static void check_lost_answer(bed *b, int64_t wait_ms) {
    hf_client *client = warm_client(b);
    t_proxy_drop_answers(b->proxy, 1);
    hf_hold *hold = take_all(client, &(hf_options){.wait_ms = wait_ms});
    check_all(b, hold);
    FREE(hold);
    assert_false(any_held(b));
}

static void B19_after_a_lost_answer_each_name_is_acquired_again(void **state) {
    check_lost_answer(*state, t_patience(SOON_MS));
    check_lost_answer(*state, 0);
}

/* Another client has one of the names by then. The granted names are given back, or kept while it
   waits. */
static void B19_a_lost_answer_leaves_nothing_held(void **state) {
    bed *b = *state;
    many_call c;
    hf_client *client = warm_client(b), *other = bed_direct(b);
    t_proxy_withhold(b->proxy, T_TO_CLIENT, true);
    call_start(&c, client, &(hf_options){.wait_ms = 0});
    UNTIL(token_of(b, "many-3") != 0);
    T_HF(HF_OK, hf_break(other, "many-2", 0));
    hf_hold *held = acquire_or_fail(other, "many-2", NULL, __FILE__, __LINE__);
    t_proxy_withhold(b->proxy, T_TO_CLIENT, false);
    t_proxy_cut(b->proxy);
    t_threads_join(c.thread, 4 * SOON_MS);
    if (c.result == HF_OK) { /* the answer arrived: it was granted, and then lost */
        UNTIL(!hf_held(c.hold));
        T_HF(HF_LOST, hf_release(c.hold));
    } else if (c.result != HF_BUSY && c.result != HF_UNKNOWN_OUTCOME) {
        t_fail("the call returned %s (%s)", hf_result_name(c.result), c.detail);
    }
    UNTIL(!token_of(b, "many-1") && !token_of(b, "many-3"));
    assert_int_equal(hf_held(held), 1);
    FREE(held);
}

/* ---- Bytes that come late -------------------------------------------------------------------- */

/* The acquire is sent on a connection that breaks, and granted on the next one. */
static hf_hold *take_on_second_connection(bed *b, hf_client *client) {
    many_call c;
    uint64_t before = t_proxy_bytes(b->proxy, T_TO_SERVER);
    t_proxy_withhold(b->proxy, T_TO_SERVER, true);
    call_start(&c, client, &(hf_options){.wait_ms = t_patience(SOON_MS)});
    t_proxy_wait_bytes(b->proxy, T_TO_SERVER, before + 1, SOON_MS);
    assert_true(t_proxy_detach(b->proxy) > 0);
    return call_end(&c, HF_OK);
}

static void deliver_late(bed *b, const char *answer) {
    assert_true(t_proxy_deliver(b->proxy) > 0);
    if (!strstr(t_proxy_late_answers(b->proxy), answer))
        t_fail("the server answered the late bytes with: %s", t_proxy_late_answers(b->proxy));
}

static void F51_late_bytes_of_many_do_not_affect_a_hold(void **state) {
    bed *b = *state;
    hf_client *client = warm_client(b);
    hf_hold *hold = take_on_second_connection(b, client);
    deliver_late(b, "*2\r\n:0\r\n");
    check_all(b, hold);
    FREE(hold);
    assert_false(any_held(b));
}

static void F51_late_bytes_of_many_restore_nothing(void **state) {
    bed *b = *state;
    hf_client *client = warm_client(b);
    FREE(take_on_second_connection(b, client));
    deliver_late(b, "*2\r\n:2\r\n");
    assert_false(any_held(b));
    FREE(take_all(client, NULL)); /* only the old acquire ids are refused */
}

static void F51_late_bytes_of_many_do_not_disturb_later_holds(void **state) {
    bed *b = *state;
    hf_client *client = warm_client(b);
    FREE(take_on_second_connection(b, client));
    hf_hold *one = acquire_or_fail(client, "many-3", NULL, __FILE__, __LINE__);
    hf_hold *others = acquire_or_fail(bed_direct(b), "many-1", NULL, __FILE__, __LINE__);
    uint64_t tokens[] = {token_of(b, "many-3"), token_of(b, "many-1")};
    assert_true(t_proxy_deliver(b->proxy) > 0);
    assert_true(token_of(b, "many-3") == tokens[0] && token_of(b, "many-1") == tokens[1]);
    assert_true(token_of(b, "many-2") == 0);
    FREE(one);
    FREE(others);
    assert_false(any_held(b));
}

/* Shared, so the late copy would be compatible with the hold. */
static void F51_late_bytes_of_shared_names_count_once(void **state) {
    bed *b = *state;
    many_call c = {.client = warm_client(b), .requests = shared, .count = 2};
    uint64_t before = t_proxy_bytes(b->proxy, T_TO_SERVER);
    t_proxy_withhold(b->proxy, T_TO_SERVER, true);
    c.options.wait_ms = t_patience(SOON_MS);
    c.thread = t_threads_start(1, call_main, &c);
    t_proxy_wait_bytes(b->proxy, T_TO_SERVER, before + 1, SOON_MS);
    assert_true(t_proxy_detach(b->proxy) > 0);
    hf_hold *hold = call_end(&c, HF_OK);
    deliver_late(b, "*2\r\n:0\r\n");
    assert_int_equal(t_redis_int(b->redis, "HGET hf:{many-1} u"), 1);
    assert_int_equal(t_redis_int(b->redis, "HGET hf:{many-2} u"), 1);
    FREE(hold);
    assert_false(any_held(b));
}

static void F51_late_bytes_of_a_call_that_was_cancelled_take_nothing(void **state) {
    bed *b = *state;
    many_call c;
    hf_client *client = warm_client(b);
    hf_cancel *cancel = hf_cancel_new();
    uint64_t before = t_proxy_bytes(b->proxy, T_TO_SERVER);
    t_proxy_withhold(b->proxy, T_TO_SERVER, true);
    call_start(&c, client, &(hf_options){.wait_ms = HF_FOREVER, .cancel = cancel});
    t_proxy_wait_bytes(b->proxy, T_TO_SERVER, before + 1, SOON_MS);
    hf_cancel_fire(cancel);
    assert_null(call_end(&c, HF_CANCELLED));
    calls_reset(b);
    assert_true(t_proxy_detach(b->proxy) > 0);
    UNTIL(call_count(b, "set") >= NAMES); /* the releases after it have written their tombstones */
    deliver_late(b, "*2\r\n:2\r\n");
    assert_false(any_held(b));
    hf_cancel_free(cancel);
}

/* ---- A server that loses data, is away, or refuses ------------------------------------------- */

static void B19_a_script_that_the_server_lost_is_sent_again(void **state) {
    bed *b = *state;
    hf_client *client = warm_client(b);
    freeReplyObject(t_redis_cmd(b->redis, "SCRIPT FLUSH"));
    hf_hold *hold = take_all(client, NULL);
    check_all(b, hold);
    FREE(hold);
}

static bool server_has_all(bed *b, const hf_hold *hold) {
    for (size_t i = 0; i < NAMES; i++)
        if (hf_fence_of(hold, i) != token_of(b, all[i].name)) return false;
    return true;
}

/* After a loss of data there are two correct ends. Either the client noticed and acquired all names
   again. Or it was granted the remaining names before the next renewal was answered, and then it is
   notified of the loss as usual. */
static void check_all_or_lost(bed *b, hf_hold *hold) {
    UNTIL(!hf_held(hold) || server_has_all(b, hold));
    hf_result expected = hf_held(hold) ? HF_OK : HF_LOST;
    T_HF(expected, hf_release(hold));
    UNTIL(!any_held(b));
}

static void B19_a_flush_during_the_wait_is_noticed(void **state) {
    bed *b = *state;
    many_call c;
    hf_client *client = warm_client(b), *other = bed_direct(b);
    hf_hold *held = acquire_or_fail(other, "many-2", &(hf_options){.lease_ms = t_patience(1000)},
                                    __FILE__, __LINE__);
    call_start(&c, client,
               &(hf_options){.wait_ms = t_patience(4 * SOON_MS), .lease_ms = t_patience(1000)});
    UNTIL(t_redis_int(b->redis, "LLEN hf:{many-2}:q") == 1);
    freeReplyObject(t_redis_cmd(b->redis, "FLUSHALL"));
    hf_hold *hold = call_end(&c, HF_OK);
    check_all_or_lost(b, hold);
    UNTIL(!hf_held(held));
    T_HF(HF_LOST, hf_release(held));
}

static void B19_the_wait_survives_an_outage(void **state) {
    bed *b = *state;
    many_call c;
    hf_client *client = bed_direct(b), *other = bed_direct(b);
    hf_hold *held = acquire_or_fail(other, "many-2", NULL, __FILE__, __LINE__);
    call_start(&c, client, &(hf_options){.wait_ms = t_patience(4 * SOON_MS)});
    UNTIL(t_redis_int(b->redis, "LLEN hf:{many-2}:q") == 1);
    t_redis_restart(b->redis); /* without data */
    check_all_or_lost(b, call_end(&c, HF_OK));
    (void)!hf_release(held);
}

static void B19_the_call_survives_an_outage_before_its_request(void **state) {
    bed *b = *state;
    many_call c;
    hf_client *client = bed_direct(b);
    FREE(take_all(client, NULL));
    t_redis_kill9(b->redis);
    call_start(&c, client, &(hf_options){.wait_ms = t_patience(4 * SOON_MS)});
    UNTIL(stats_of(client).waiting > 0);
    t_redis_restart(b->redis);
    hf_hold *hold = call_end(&c, HF_OK);
    check_all(b, hold);
    FREE(hold);
}

/* If the time were allowed once for all names in one step and once more one by one, the wait would
   be twice as long. */
static void B19_an_outage_is_tolerated_once(void **state) {
    bed *b = *state;
    many_call c;
    int64_t outage = t_patience(1500);
    hf_client *client = bed_through(b, &(hf_client_options){.command_timeout_ms = t_patience(200),
                                                            .connect_timeout_ms = t_patience(200),
                                                            .outage_ms = outage});
    FREE(take_all(client, NULL));
    t_proxy_blackhole(b->proxy, true);
    call_start(&c, client, &(hf_options){.wait_ms = HF_FOREVER});
    assert_null(call_end(&c, HF_UNKNOWN_OUTCOME));
    assert_in_range(c.took_ms, outage, 2 * outage - 1);
    t_proxy_blackhole(b->proxy, false);
    t_proxy_cut(b->proxy);
    UNTIL(!any_held(b));
}

/* The first name already has an expiry, set by another reader. The user may not set one for the
   second name. */
static void B19_a_name_that_cannot_be_granted_leaves_the_others_free(void **state) {
    static const hf_request two[] = {{.name = "many-1", .kind = HF_READ},
                                     {.name = "many-2", .kind = HF_WRITE}};
    bed *b = *state;
    hf_hold *hold = NULL, *other = NULL;
    hf_options reads = {.kind = HF_READ, .lease_ms = t_patience(60000)};
    T_HF(HF_OK, hf_acquire(bed_direct(b), "many-1", &reads, &other));
    redisReply *reply = t_redis_cmd(b->redis, "ACL SETUSER anna on >secret ~* &* +@all -pexpire");
    assert_int_equal(reply->type, REDIS_REPLY_STATUS);
    freeReplyObject(reply);
    hf_client *client = bed_open(b, t_redis_url_as(b->redis, "anna", "secret"), NULL);
    for (int i = 0; i < 2; i++) {
        hf_options options = {.wait_ms = i ? HF_FOREVER : 0};
        T_HF(HF_REFUSED, hf_acquire_all(client, two, 2, &options, &hold));
        check_detail("pexpire");
        assert_null(hold);
        assert_false(token_of(b, "many-2"));
        /* only the other reader's */
        assert_int_equal(t_redis_int(b->redis, "HGET hf:{many-1} u"), 1);
    }
    FREE(other);
}

static const struct CMUnitTest tests[] = {
    FAULT_TEST(B19_free_names_cost_one_command),
    FAULT_TEST(B19_names_that_can_be_shared_cost_one_command),
    FAULT_TEST(B19_if_one_is_busy_names_are_waited_for_one_by_one),
    FAULT_TEST(B19_after_a_lost_answer_each_name_is_acquired_again),
    FAULT_TEST(B19_a_lost_answer_leaves_nothing_held),
    FAULT_TEST(F51_late_bytes_of_many_do_not_affect_a_hold),
    FAULT_TEST(F51_late_bytes_of_many_restore_nothing),
    FAULT_TEST(F51_late_bytes_of_many_do_not_disturb_later_holds),
    FAULT_TEST(F51_late_bytes_of_shared_names_count_once),
    FAULT_TEST(F51_late_bytes_of_a_call_that_was_cancelled_take_nothing),
    FAULT_TEST(B19_a_script_that_the_server_lost_is_sent_again),
    FAULT_TEST(B19_a_flush_during_the_wait_is_noticed),
    FAULT_TEST(B19_the_wait_survives_an_outage),
    FAULT_TEST(B19_the_call_survives_an_outage_before_its_request),
    FAULT_TEST(B19_an_outage_is_tolerated_once),
    FAULT_TEST(B19_a_name_that_cannot_be_granted_leaves_the_others_free),
};

FAULT_MAIN(tests)
