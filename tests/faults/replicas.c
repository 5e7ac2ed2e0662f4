/* SPDX-License-Identifier: Apache-2.0 */
/*
 * replicas=N (F31): a grant or renewal counts only when that many replicas have it, and is undone
 * otherwise. A server that itself requires replicas is reported as such (F27).
 */
#include "waiters.h"

static const char *const NO_DELAY[] = {"repl-diskless-sync-delay 0", "repl-ping-replica-period 1",
                                       NULL};
static const t_redis_options PRIMARY = {.config = NO_DELAY};

static const char *url_of(const bed *b, const char *options) {
    return with_option(t_redis_url(b->redis), "replicas=1%s%s", *options ? "&" : "", options);
}

static t_redis *start_replica(bed *b) {
    char of[64];
    const char *config[] = {NO_DELAY[0], of, NULL};
    snprintf(of, sizeof of, "replicaof " T_HOST " %u", t_redis_port(b->redis));
    t_redis *replica = t_redis_start(&(t_redis_options){.config = config});
    /* Writes from before the replica connected do not count, and its first acknowledgement is
       slow. */
    UNTIL((run_command(b, "SET in sync"), t_redis_int(b->redis, "WAIT 1 100") == 1) &&
          (run_command(b, "SET in sync"), t_redis_int(b->redis, "WAIT 1 100") == 1));
    return replica;
}

static void F31_a_grant_counts_when_a_replica_has_it(void **state) {
    bed *b = *state;
    t_redis *replica = start_replica(b);
    hf_client *client = bed_open(b, url_of(b, ""), NULL);
    for (int i = 0; i < 20; i++) {
        hf_hold *hold = TAKE(client);
        assert_int_equal(t_redis_int(replica, "EXISTS " KEY), 1);
        T_HF(HF_OK, hf_extend(hold, 60000));
        assert_true(t_redis_int(replica, "PTTL " KEY) > 30000);
        FREE(hold);
    }
    t_redis_free(replica);
}

static void F31_a_grant_on_too_few_replicas_is_given_back(void **state) {
    bed *b = *state;
    hf_client *client = bed_open(b, url_of(b, "command_timeout=2s"), NULL);
    REFUSED(HF_UNREACHABLE, client, .wait_ms = 0);
    check_detail("0 of 1 replicas confirmed");
    check_detail("it was given back");
    assert_false(on_server(b));
    REFUSED(HF_UNREACHABLE, client, .wait_ms = 0, .kind = HF_WRITE);
    check_detail("0 of 1 replicas confirmed");
    assert_false(on_server(b));
}

/* Two replicas are required, and only one is there. */
static void F31_one_of_two_is_too_few(void **state) {
    bed *b = *state;
    t_redis *replica = start_replica(b);
    hf_client *client =
        bed_open(b, with_option(t_redis_url(b->redis), "replicas=2&command_timeout=2s"), NULL);
    REFUSED(HF_UNREACHABLE, client, .wait_ms = 0);
    check_detail("1 of 2 replicas confirmed");
    assert_false(on_server(b));
    t_redis_free(replica);
}

static void F27_a_server_that_requires_replicas_is_distinguished(void **state) {
    bed *b = *state;
    hf_client *client = bed_open(b, url_of(b, "command_timeout=2s"), NULL);
    set_config(b, "min-replicas-to-write", "1");
    REFUSED(HF_UNREACHABLE, client, .wait_ms = 0);
    check_detail("min-replicas-to-write");
}

static void F31_a_wait_lasts_until_a_replica_is_there(void **state) {
    bed *b = *state;
    t_redis *replica = start_replica(b);
    hf_client *client = bed_open(b, url_of(b, "command_timeout=2s&outage=30s"), NULL);
    t_redis_stop(replica);
    attempt *a = attempt_start(b, client, &(hf_options){.wait_ms = HF_FOREVER});
    UNTIL(call_count(b, "wait") >= 2); /* it was undone, and acquired again */
    t_redis_cont(replica);
    FREE(attempt_end(a, HF_OK));
    t_redis_free(replica);
}

/* Since Redis 7.2, WAIT counts from the last write of its own connection. A read does not count. */
static void F31_a_write_that_no_replica_has_is_not_confirmed(void **state) {
    bed *b = *state;
    t_redis *replica = start_replica(b);
    hf_client *client = bed_open(b, url_of(b, "command_timeout=2s"), NULL);
    FREE(TAKE(client));
    t_redis_stop(replica);
    REFUSED(HF_UNREACHABLE, client, .wait_ms = 0);
    check_detail("0 of 1 replicas confirmed");
    assert_false(on_server(b));
    t_redis_cont(replica);
    t_redis_free(replica);
}

/* Works on every server: the acquire writes the expiry, and it is written once more before WAIT. */
static void F31_the_connection_that_waits_writes_first(void **state) {
    bed *b = *state;
    t_redis *replica = start_replica(b);
    hf_client *client = bed_open(b, url_of(b, ""), NULL);
    FREE(TAKE(client));
    static const uint32_t kinds[] = {HF_MUTEX, HF_WRITE, HF_READ};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        calls_reset(b);
        FREE(TAKE(client, .kind = kinds[i]));
        assert_int_equal(call_count(b, "wait"), 1);
        assert_int_equal(call_count(b, "pexpire"), 2);
    }
    t_redis_free(replica);
}

/* A replica confirms a write, but the hold was gone before that write. */
static void F31_a_hold_that_is_gone_when_replicas_confirm_is_not_granted(void **state) {
    bed *b = *state;
    t_redis *replica = start_replica(b);
    b->proxy = t_proxy_start(t_redis_port(b->redis));
    hf_client *client = bed_open(b, with_option(t_proxy_url(b->proxy), "replicas=1"), NULL);
    FREE(TAKE(client));
    uint64_t before = t_proxy_bytes(b->proxy, T_TO_SERVER);
    withhold_bytes(b, 2, T_TO_SERVER);
    attempt *a = attempt_start(b, client, &(hf_options){.wait_ms = 0});
    UNTIL(on_server(b));
    t_proxy_wait_bytes(b->proxy, T_TO_SERVER, before + 1, SOON_MS);
    run_command(b, "DEL " KEY);
    stop_withholding(b, 2, T_TO_SERVER);
    assert_null(attempt_end(a, HF_UNREACHABLE));
    t_redis_free(replica);
}

/* The text of an exported hold includes its deadline. So does the result of its extension. */
static void F31_an_exported_hold_lasts_when_a_replica_has_it(void **state) {
    bed *b = *state;
    t_redis *replica = start_replica(b);
    char text[HF_EXPORT_MAX];
    hf_client *client = bed_open(b, url_of(b, "command_timeout=2s"), NULL);
    T_HF(HF_OK, hf_export(TAKE(client), text, sizeof text));
    T_HF(HF_OK, hf_extend_exported(client, text, 60000));
    assert_true(t_redis_int(replica, "PTTL " KEY) > 30000);
    t_redis_stop(replica);
    T_HF(HF_UNKNOWN_OUTCOME, hf_extend_exported(client, text, 90000));
    check_detail("did not confirm");
    t_redis_cont(replica);
    T_HF(HF_OK, hf_extend_exported(client, text, 90000));
    hf_hold *hold = NULL;
    T_HF(HF_OK, hf_adopt(client, text, NULL, &hold));
    FREE(hold);
    t_redis_free(replica);
}

/* The server renewed the hold, but its replica did not get it. The hold ends when the replica's
   copy would expire. */
static void F31_a_renewal_that_no_replica_has_does_not_count(void **state) {
    bed *b = *state;
    t_redis *replica = start_replica(b);
    hf_client *client = bed_open(b, url_of(b, ""), NULL);
    hf_hold *hold = TAKE(client, .lease_ms = 1500, .on_lost = count_loss, .arg = &b->loss);
    calls_reset(b);
    t_redis_stop(replica);
    UNTIL(atomic_load(&b->loss.calls) == 1);
    assert_true(call_count(b, "wait") > 0);
    assert_true(call_count(b, "pexpire") > 0); /* it was renewed there, but that does not count */
    check_lost(b, hold, "did not confirm a renewal");
    t_redis_cont(replica);
    t_redis_free(replica);
}

static void F31_a_renewal_that_a_replica_has_counts(void **state) {
    bed *b = *state;
    t_redis *replica = start_replica(b);
    hf_client *client = bed_open(b, url_of(b, ""), NULL);
    hf_hold *hold = TAKE(client, .lease_ms = t_patience(900));
    UNTIL(stats_of(client).renewed >= 4);
    check_held(b, hold);
    FREE(hold);
    t_redis_free(replica);
}

typedef struct turns {
    hf_client *clients[2];
    atomic_int inside, collisions;
} turns;

static void take_turns(int index, void *arg) {
    turns *t = arg;
    for (int i = 0; i < 25; i++) {
        hf_hold *hold = NULL;
        T_HF(HF_OK, hf_lock(t->clients[index % 2], LOCK, &hold));
        if (atomic_fetch_add(&t->inside, 1)) atomic_fetch_add(&t->collisions, 1);
        atomic_fetch_sub(&t->inside, 1);
        T_HF(HF_OK, hf_release(hold));
    }
}

/* A waiter that is handed the lock claims it, and so do threads of one client. WAIT runs in
   between. */
static void F31_a_handed_over_grant_is_confirmed_too(void **state) {
    static turns t;
    bed *b = *state;
    t_redis *replica = start_replica(b);
    for (int i = 0; i < 2; i++) t.clients[i] = bed_open(b, url_of(b, ""), NULL);
    calls_reset(b);
    t_threads_run(4, take_turns, &t, 4 * SOON_MS);
    assert_int_equal(atomic_load(&t.collisions), 0);
    int64_t acquired = (int64_t)(stats_of(t.clients[0]).acquired + stats_of(t.clients[1]).acquired);
    assert_true(acquired == 100 && call_count(b, "wait") >= acquired);
    t.clients[1] = t.clients[0]; /* only this client: from thread to thread */
    calls_reset(b);
    t_threads_run(4, take_turns, &t, 4 * SOON_MS);
    assert_int_equal(atomic_load(&t.collisions), 0);
    assert_true(call_count(b, "wait") >= 100);
    t_redis_free(replica);
}

/* The connection that runs WAIT breaks alone and is reopened. */
static void F31_the_waiting_connection_may_break(void **state) {
    bed *b = *state;
    t_redis *replica = start_replica(b);
    b->proxy = t_proxy_start(t_redis_port(b->redis));
    hf_client *client = bed_open(b, with_option(t_proxy_url(b->proxy), "replicas=1"), NULL);
    FREE(TAKE(client));
    t_proxy_select(b->proxy, 2); /* the second one that was made */
    t_proxy_cut(b->proxy);
    t_proxy_select(b->proxy, 0);
    for (int i = 0; i < 5; i++) FREE(TAKE(client, .wait_ms = t_patience(SOON_MS)));
    t_redis_free(replica);
}

/* The connection that runs WAIT now leads to a promoted replica, which has a replica of its own.
   The old primary still answers on the other connection. */
typedef struct promoted {
    t_redis *first, *server, *replica;
    hf_client *client;
} promoted;

static t_redis *start_after(const t_redis *primary, uint16_t port) {
    char of[64];
    const char *config[] = {NO_DELAY[0], NO_DELAY[1], of, NULL};
    snprintf(of, sizeof of, "replicaof " T_HOST " %u", t_redis_port(primary));
    return t_redis_start(&(t_redis_options){.config = config, .port = port});
}

static promoted prepare_other_server(bed *b) {
    promoted there = {.first = start_replica(b)};
    b->proxy = t_proxy_start(t_redis_port(b->redis));
    there.client =
        bed_open(b, with_option(t_proxy_url(b->proxy), "replicas=1&command_timeout=2s"), NULL);
    return there;
}

static void lead_elsewhere(bed *b, promoted *there) {
    t_proxy_refuse(b->proxy, true);
    there->server = start_after(b->redis, t_proxy_port(b->proxy));
    UNTIL(t_redis_int(there->server, "EXISTS " KEY) == 1);
    freeReplyObject(t_redis_cmd(there->server, "REPLICAOF NO ONE"));
    there->replica = start_after(there->server, 0);
    UNTIL(
        (t_redis_str(there->server, "SET in sync"), t_redis_int(there->server, "WAIT 1 100") == 1));
    int64_t clients = t_redis_info(there->server, "connected_clients");
    cut_connection(b, 2);
    UNTIL(t_redis_info(there->server, "connected_clients") > clients);
}

static void end_elsewhere(bed *b, promoted *there) {
    bed_close(b, there->client);
    t_redis_free(there->replica);
    t_redis_free(there->server);
    t_redis_free(there->first);
}

static void F56_an_old_copy_on_another_server_is_not_extended(void **state) {
    bed *b = *state;
    promoted there = prepare_other_server(b);
    hf_hold *hold = TAKE(there.client);
    lead_elsewhere(b, &there);
    hf_result r = hf_extend(hold, 600000);
    assert_true(r == HF_UNKNOWN_OUTCOME || r == HF_UNREACHABLE);
    assert_true(hf_remaining_ms(hold) <= 30000);
    end_elsewhere(b, &there);
    hf_unref(hold);
}

static void F56_a_renewal_that_another_server_does_not_have_does_not_count(void **state) {
    bed *b = *state;
    promoted there = prepare_other_server(b);
    hf_hold *hold = TAKE(there.client, .lease_ms = 6000, .on_lost = count_loss, .arg = &b->loss);
    lead_elsewhere(b, &there);
    int64_t deadline = t_now_ms() + hf_remaining_ms(hold) + 1;
    UNTIL(t_now_ms() > deadline); /* the old primary renews it meanwhile, but that does not count */
    assert_int_equal(hf_held(hold), 0);
    UNTIL(atomic_load(&b->loss.calls) == 1);
    end_elsewhere(b, &there);
    hf_unref(hold);
}

static void F56_an_upgrade_that_another_server_does_not_have_does_not_count(void **state) {
    bed *b = *state;
    promoted there = prepare_other_server(b);
    hf_hold *hold = TAKE(there.client, .kind = HF_UPGRADABLE);
    T_HF(HF_OK, hf_extend(hold, 600000)); /* there it lasts longer than the upgrade requests */
    lead_elsewhere(b, &there);
    assert_int_not_equal(hf_upgrade(hold, 0), HF_OK);
    end_elsewhere(b, &there);
    hf_unref(hold);
}

static const char *const USERS[] = {"anna on >secret ~* &* +@all -wait", NULL};
static const t_redis_options WITH_ANNA = {.acl = USERS};

static void F27_the_right_to_wait_is_named(void **state) {
    bed *b = *state;
    hf_client *anna =
        bed_open(b, with_option(t_redis_url_as(b->redis, "anna", "secret"), "replicas=1"), NULL);
    REFUSED(HF_REFUSED, anna, .wait_ms = 0);
    check_detail("may not run the command wait");
    assert_false(on_server(b));
}

static const struct CMUnitTest tests[] = {
    FAULT_TEST_ON(F31_a_grant_counts_when_a_replica_has_it, &PRIMARY),
    FAULT_TEST(F31_a_grant_on_too_few_replicas_is_given_back),
    FAULT_TEST_ON(F31_one_of_two_is_too_few, &PRIMARY),
    FAULT_TEST(F27_a_server_that_requires_replicas_is_distinguished),
    FAULT_TEST_ON(F31_a_wait_lasts_until_a_replica_is_there, &PRIMARY),
    FAULT_TEST_ON(F31_a_write_that_no_replica_has_is_not_confirmed, &PRIMARY),
    FAULT_TEST_ON(F31_the_connection_that_waits_writes_first, &PRIMARY),
    FAULT_TEST_ON(F31_a_hold_that_is_gone_when_replicas_confirm_is_not_granted, &PRIMARY),
    FAULT_TEST_ON(F31_an_exported_hold_lasts_when_a_replica_has_it, &PRIMARY),
    FAULT_TEST_ON(F31_a_renewal_that_no_replica_has_does_not_count, &PRIMARY),
    FAULT_TEST_ON(F31_a_renewal_that_a_replica_has_counts, &PRIMARY),
    FAULT_TEST_ON(F31_a_handed_over_grant_is_confirmed_too, &PRIMARY),
    FAULT_TEST_ON(F31_the_waiting_connection_may_break, &PRIMARY),
    FAULT_TEST_ON(F56_an_old_copy_on_another_server_is_not_extended, &PRIMARY),
    FAULT_TEST_ON(F56_a_renewal_that_another_server_does_not_have_does_not_count, &PRIMARY),
    FAULT_TEST_ON(F56_an_upgrade_that_another_server_does_not_have_does_not_count, &PRIMARY),
    FAULT_TEST_ON(F27_the_right_to_wait_is_named, &WITH_ANNA),
};

FAULT_MAIN(tests)
