/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Failovers: real primaries under real Sentinels are killed and stopped. One set of nodes serves
 * all tests; each test leaves it complete.
 */
#include "crowd.h"

#include <stdio.h>
#include <string.h>

#define LOCK "lock"
#define KEY  "hf:{lock}"

enum { SOON_MS = 10000, LEASE_MS = 180000 };

static t_sentinel *set;

static const char *url_with(const char *options) {
    static char url[1024];
    snprintf(url, sizeof url, "%s?%s", t_sentinel_url(set), options);
    return url;
}

static hf_client *open_client(void) {
    hf_client *client;
    T_HF(HF_OK, hf_open(t_sentinel_url(set), NULL, &client));
    return client;
}

static int primary_now(void) {
    int primary;
    T_WAIT_UNTIL((primary = t_sentinel_primary(set)) >= 0, SOON_MS);
    return primary;
}

/* Kills or stops the primary. Returns the node that replaced it. */
static int kill_primary(int from) {
    t_redis_kill9(t_sentinel_node(set, from));
    int to = t_sentinel_failed_over(set, from);
    printf("           killed the primary, node %d; node %d is the primary now\n", from, to);
    return to;
}

static int stop_primary(int from) {
    t_redis_stop(t_sentinel_node(set, from));
    int to = t_sentinel_failed_over(set, from);
    printf("           stopped the primary, node %d; node %d is the primary now\n", from, to);
    return to;
}

static void revive_node(int node) {
    t_redis_restart(t_sentinel_node(set, node));
    t_sentinel_rejoined(set, node);
    printf("           restarted node %d\n", node);
}

/* Whether a node has the lock: 1, 0, or -1 if it does not answer now. */
static int has_lock(int node) {
    redisReply *reply = t_redis_try(t_sentinel_node(set, node), "EXISTS " KEY);
    int has = reply && reply->type == REDIS_REPLY_INTEGER ? (int)reply->integer : -1;
    if (reply) freeReplyObject(reply);
    return has;
}

static bool on_all_nodes(int has) {
    for (int i = 0; i < T_NODES; i++)
        if (has_lock(i) != has) return false;
    return true;
}

/* ---- Discovery ------------------------------------------------------------------------------- */

static void any_living_sentinel_is_enough(void **state) {
    (void)state;
    t_redis *killed = t_sentinel_watcher(set, 0), *stopped = t_sentinel_watcher(set, 1);
    int primary = primary_now();
    hf_hold *hold;
    t_redis_kill9(killed);
    t_redis_stop(stopped);
    hf_client *client = open_client();
    T_HF(HF_OK, hf_try_lock(client, LOCK, &hold));
    assert_int_equal(has_lock(primary), 1);
    T_HF(HF_OK, hf_release(hold));
    hf_close(client);
    t_redis_cont(stopped);
    t_redis_restart(killed);
}

static void an_unknown_primary_is_reported(void **state) {
    (void)state;
    hf_client *client;
    char url[512];
    snprintf(url, sizeof url, "%.*sother", (int)(strlen(t_sentinel_url(set)) - strlen(T_PRIMARY)),
             t_sentinel_url(set));
    T_HF(HF_REFUSED, hf_open(url, NULL, &client));
    assert_non_null(strstr(hf_error_detail(), "knows no primary named 'other'"));
}

/* ---- Holds ----------------------------------------------------------------------------------- */

static void F31_a_hold_survives_a_failover_that_kept_it(void **state) {
    (void)state;
    hf_client *client = open_client();
    hf_hold *hold, *none = NULL;
    hf_stats stats;
    T_HF(HF_OK, hf_acquire(client, LOCK, &(hf_options){.lease_ms = LEASE_MS}, &hold));
    T_WAIT_UNTIL(on_all_nodes(1), SOON_MS);
    T_HF(HF_OK, hf_stats_get(client, &stats));
    uint64_t renewed = stats.renewed;
    int from = primary_now(), to = kill_primary(from);
    do T_HF(HF_OK, hf_stats_get(client, &stats)); /* after a reconnect it is renewed immediately */
    while (stats.renewed == renewed && (t_sleep_ms(2), hf_held(hold)));
    assert_int_equal(hf_held(hold), 1);
    hf_client *other = open_client();
    T_HF(HF_BUSY, hf_try_lock(other, LOCK, &none));
    T_HF(HF_OK, hf_release(hold));
    T_WAIT_UNTIL(has_lock(to) == 0, SOON_MS);
    hf_close(other);
    hf_close(client);
    revive_node(from);
}

/* Changes the replicas so that they differ from their primary, as if they were behind it. */
static void on_replicas(const char *format, const char *arg, size_t length) {
    int primary = primary_now();
    for (int i = 0; i < T_NODES; i++) {
        t_redis *node = t_sentinel_node(set, i);
        if (i == primary) continue;
        freeReplyObject(t_redis_cmd(node, "CONFIG SET replica-read-only no"));
        redisReply *reply =
            arg ? t_redis_cmd(node, format, arg, length) : t_redis_cmd(node, format);
        if (reply->type == REDIS_REPLY_ERROR) t_fail("%s: %s", format, reply->str);
        freeReplyObject(reply);
    }
}

static void F31_a_hold_that_a_failover_lost_is_reported_at_once(void **state) {
    (void)state;
    hf_client *client = open_client();
    hf_hold *hold;
    T_HF(HF_OK, hf_acquire(client, LOCK, &(hf_options){.lease_ms = LEASE_MS}, &hold));
    T_WAIT_UNTIL(on_all_nodes(1), SOON_MS);
    on_replicas("DEL " KEY, NULL, 0);
    int from = primary_now();
    kill_primary(from);
    T_WAIT_UNTIL(!hf_held(hold), LEASE_MS / 3); /* and not at its deadline */
    assert_non_null(strstr(hf_why_lost(hold), "no longer has it"));
    T_HF(HF_LOST, hf_release(hold));
    hf_close(client);
    revive_node(from);
}

/* The new primary does not know of the release. */
static void F38_a_release_that_a_failover_lost_is_repeated(void **state) {
    (void)state;
    hf_client *client = open_client();
    hf_hold *hold;
    T_HF(HF_OK, hf_acquire(client, LOCK, &(hf_options){.lease_ms = LEASE_MS}, &hold));
    T_WAIT_UNTIL(on_all_nodes(1), SOON_MS);
    int from = primary_now();
    redisReply *dump = t_redis_cmd(t_sentinel_node(set, from), "DUMP " KEY);
    T_HF(HF_OK, hf_release(hold));
    T_WAIT_UNTIL(on_all_nodes(0), SOON_MS);
    on_replicas("RESTORE " KEY " 300000 %b", dump->str, dump->len);
    freeReplyObject(dump);
    int to = kill_primary(from);
    T_WAIT_UNTIL(has_lock(to) == 0, SOON_MS);
    hf_close(client);
    revive_node(from);
}

/* ---- Contention ------------------------------------------------------------------------------ */

enum { ACQUISITIONS = 200, INSIDE_MS = 15 };

static void F32_two_failovers_during_contention(void **state) {
    static topology_crowd c;
    (void)state;
    crowd_start(&c, url_with("lease=10s&outage=90s&replicas=1"), ACQUISITIONS, INSIDE_MS);
    crowd_await(&c, ACQUISITIONS / 4, SOON_MS);
    int killed = primary_now(), stopped = kill_primary(killed);
    revive_node(killed);
    crowd_await(&c, ACQUISITIONS / 2, T_FAILOVER_MS);
    stop_primary(stopped);
    crowd_await(&c, ACQUISITIONS * 3 / 4, T_FAILOVER_MS);
    /* it acts as a primary until a Sentinel demotes it */
    t_redis_cont(t_sentinel_node(set, stopped));
    crowd_end(&c, T_FAILOVER_MS);
    t_sentinel_rejoined(set, stopped);
}

static int start_set(void **state) {
    (void)state;
    set = t_sentinel_start(NULL);
    return 0;
}

static int end_set(void **state) {
    (void)state;
    t_sentinel_free(set);
    return 0;
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_living_sentinel_is_enough),
        cmocka_unit_test(an_unknown_primary_is_reported),
        cmocka_unit_test(F31_a_hold_survives_a_failover_that_kept_it),
        cmocka_unit_test(F31_a_hold_that_a_failover_lost_is_reported_at_once),
        cmocka_unit_test(F38_a_release_that_a_failover_lost_is_repeated),
        cmocka_unit_test(F32_two_failovers_during_contention),
    };
    return cmocka_run_group_tests(tests, start_set, end_set);
}
