/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes of a cluster are killed and promoted, while locks are held and waited for. Each test leaves
 * the cluster complete, though with other primaries.
 */
#include "crowd.h"

#include <stdio.h>
#include <string.h>

static int owner_of(const char *name) {
    int owner;
    T_WAIT_UNTIL((owner = t_cluster_owner(cluster, t_cluster_slot(name))) >= 0, SOON_MS);
    return owner;
}

static int some_primary(void) {
    return owner_of("some");
}

static t_redis *node_at(int i) {
    return t_cluster_node(cluster, i);
}

static void revive_node(int node) {
    t_redis_restart(node_at(node));
    t_cluster_settled(cluster);
}

/* Kills a primary and promotes its replica. Returns the replica. */
static int kill_primary(int primary) {
    int replica = t_cluster_replica(cluster, primary);
    t_redis_kill9(node_at(primary));
    t_cluster_take_over(cluster, replica);
    return replica;
}

/* The replica now stays behind its primary: it sends a password that the primary does not have, and
   is rejected. */
static void fall_behind(int primary, int replica) {
    freeReplyObject(t_redis_cmd(node_at(replica), "CONFIG SET masterauth none"));
    freeReplyObject(t_redis_cmd(node_at(primary), "CLIENT KILL TYPE replica"));
    T_WAIT_UNTIL(t_redis_info(node_at(primary), "connected_slaves") == 0, SOON_MS);
}

/* Kills the primary and promotes the replica as it is. */
static void kill_and_take_over(int primary, int replica) {
    t_redis_kill9(node_at(primary));
    t_cluster_take_over(cluster, replica);
    freeReplyObject(t_redis_cmd(node_at(replica), "CONFIG SET masterauth %s", ""));
}

static uint64_t renewal_count(hf_client *client) {
    hf_stats stats;
    T_HF(HF_OK, hf_stats_get(client, &stats));
    return stats.renewed;
}

/* ---- Holds ----------------------------------------------------------------------------------- */

static void F31_a_hold_survives_a_failover_that_kept_it(void **state) {
    (void)state;
    int from = some_primary();
    const char *name = kit_name(from);
    hf_client *client = kit_open(""), *other = kit_open("");
    hf_hold *hold = kit_take(client, name, &(hf_options){.lease_ms = LEASE_MS}), *none = NULL;
    T_WAIT_UNTIL(kit_has(t_cluster_replica(cluster, from), name), SOON_MS);
    uint64_t before = renewal_count(client), token = hf_fence(hold);
    int to = kill_primary(from);
    T_WAIT_UNTIL(renewal_count(client) > before, SOON_MS); /* immediately, not when it is due */
    assert_int_equal(hf_held(hold), 1);
    T_HF(HF_BUSY, hf_acquire(other, name, NULL, &none));
    T_HF(HF_OK, hf_release(hold));
    assert_false(kit_has(to, name));
    hold = kit_take(other, name, NULL);
    assert_true(hf_fence(hold) > token);
    T_HF(HF_OK, hf_release(hold));
    hf_close(other);
    hf_close(client);
    revive_node(from);
}

static void F31_a_hold_that_a_failover_lost_is_reported_at_once(void **state) {
    (void)state;
    int from = some_primary(), replica = t_cluster_replica(cluster, from);
    const char *name = kit_name(from);
    hf_client *client = kit_open("");
    fall_behind(from, replica);
    hf_hold *hold = kit_take(client, name, &(hf_options){.lease_ms = LEASE_MS});
    kill_and_take_over(from, replica);
    T_WAIT_UNTIL(!hf_held(hold), LEASE_MS / 3); /* and not at its deadline */
    assert_non_null(strstr(hf_why_lost(hold), "no longer has it"));
    T_HF(HF_LOST, hf_release(hold));
    hf_close(client);
    revive_node(from);
}

/* The new primary does not know of the release. */
static void F38_a_release_that_a_failover_lost_is_repeated(void **state) {
    (void)state;
    int from = some_primary(), replica = t_cluster_replica(cluster, from);
    const char *name = kit_name(from);
    hf_client *client = kit_open("");
    hf_hold *hold = kit_take(client, name, &(hf_options){.lease_ms = LEASE_MS});
    T_WAIT_UNTIL(kit_has(replica, name), SOON_MS);
    fall_behind(from, replica);
    T_HF(HF_OK, hf_release(hold));
    assert_true(kit_has(replica, name));
    kill_and_take_over(from, replica);
    T_WAIT_UNTIL(!kit_has(replica, name), SOON_MS);
    hf_close(client);
    revive_node(from);
}

/* The primary was back before any client noticed. */
static void F22_a_primary_back_without_data_is_noticed(void **state) {
    (void)state;
    int node = some_primary();
    const char *name = kit_name(node);
    hf_client *client = kit_open("");
    hf_hold *hold = kit_take(client, name, &(hf_options){.lease_ms = LEASE_MS});
    t_redis_restart(node_at(node));
    T_WAIT_UNTIL(!hf_held(hold), LEASE_MS / 3);
    T_HF(HF_LOST, hf_release(hold));
    t_cluster_settled(cluster);
    T_HF(HF_OK, hf_release(kit_take(client, name, NULL)));
    hf_close(client);
}

/* ---- Waits ----------------------------------------------------------------------------------- */

static void F31_a_waiter_is_served_by_the_new_primary(void **state) {
    (void)state;
    int from = some_primary(), replica = t_cluster_replica(cluster, from);
    const char *name = kit_name(from);
    hf_client *client = kit_open(""), *other = kit_open("");
    hf_hold *hold = kit_take(client, name, &(hf_options){.lease_ms = LEASE_MS});
    cluster_wait w;
    kit_begin(&w, other, name, NULL);
    T_WAIT_UNTIL(kit_subscribers(from, name) == 1 && kit_has(replica, name), SOON_MS);
    kill_primary(from);
    T_WAIT_UNTIL(kit_subscribers(replica, name) == 1, SOON_MS);
    T_HF(HF_OK, hf_release(hold));
    T_HF(HF_OK, kit_end_wait(&w));
    T_HF(HF_OK, hf_release(w.hold));
    hf_close(other);
    hf_close(client);
    revive_node(from);
}

/* The primary is stopped and has a successor. The client finds it before the command timeout. */
static void F31_a_primary_that_does_not_answer_is_left_for_the_new_one(void **state) {
    (void)state;
    int from = some_primary(), replica = t_cluster_replica(cluster, from);
    const char *name = kit_name(from);
    hf_client *client = kit_open("command_timeout=10m&outage=10m&lease=3m");
    T_HF(HF_OK, hf_release(kit_take(client, name, NULL)));
    t_redis_stop(node_at(from));
    cluster_wait w;
    kit_begin(&w, client, name, NULL);
    t_cluster_take_over(cluster, replica);
    T_HF(HF_OK, kit_end_wait(&w));
    assert_true(kit_has(replica, name));
    T_HF(HF_OK, hf_release(w.hold));
    hf_close(client);
    t_redis_cont(node_at(from));
    t_cluster_settled(cluster);
}

/* One slot has no owner, so its node reports that the cluster is down. Other slots are not
   affected. */
static void F34_a_cluster_that_is_down_is_reported_in_time(void **state) {
    (void)state;
    int node = some_primary(), another = node;
    for (int i = 0; i < T_SLOTS && another == node; i += 100) another = t_cluster_owner(cluster, i);
    const char *name = kit_name(node), *elsewhere = kit_name(another);
    hf_client *client = kit_open("");
    hf_hold *none = NULL;
    T_HF(HF_OK, hf_release(kit_take(client, name, NULL)));
    int slot = t_cluster_slot(kit_name(node));
    freeReplyObject(t_redis_cmd(node_at(node), "CLUSTER DELSLOTS %d", slot));
    T_WAIT_UNTIL(hf_try_lock(client, name, &none) == HF_UNREACHABLE || (hf_release(none), 0),
                 SOON_MS);
    assert_non_null(strstr(hf_error_detail(), "CLUSTERDOWN"));
    T_HF(HF_UNREACHABLE, hf_acquire(client, name, &(hf_options){.wait_ms = 50}, &none));
    T_HF(HF_OK, hf_release(kit_take(client, elsewhere, NULL)));
    hf_close(client);
    client = kit_open("outage=60s");
    cluster_wait w;
    int64_t before = kit_errors(node, "CLUSTERDOWN");
    kit_begin(&w, client, name, NULL);
    T_WAIT_UNTIL(kit_errors(node, "CLUSTERDOWN") > before + 1, SOON_MS);
    freeReplyObject(t_redis_cmd(node_at(node), "CLUSTER ADDSLOTS %d", slot));
    T_HF(HF_OK, kit_end_wait(&w));
    T_HF(HF_OK, hf_release(w.hold));
    hf_close(client);
    t_cluster_settled(cluster);
}

/* ---- Contention ------------------------------------------------------------------------------ */

enum { ACQUISITIONS = 90, INSIDE_MS = 5 };

static void F32_primaries_fail_during_contention(void **state) {
    static cluster_crowd c;
    (void)state;
    crowd_start(&c, "outage=90s&replicas=1", NULL, ACQUISITIONS, INSIDE_MS);
    crowd_await(&c, ACQUISITIONS / 3, SOON_MS);
    int killed = owner_of(c.locks[0].name);
    kill_primary(killed);
    t_redis_restart(node_at(killed)); /* its successor needs a replica that confirms */
    crowd_await(&c, ACQUISITIONS / 2, T_CLUSTER_MS);
    int promoted = t_cluster_replica(cluster, owner_of(c.locks[1].name));
    freeReplyObject(t_redis_cmd(node_at(promoted), "CLUSTER FAILOVER")); /* an orderly failover */
    crowd_end(&c, T_CLUSTER_MS);
    t_cluster_settled(cluster);
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(F31_a_hold_survives_a_failover_that_kept_it),
        cmocka_unit_test(F31_a_hold_that_a_failover_lost_is_reported_at_once),
        cmocka_unit_test(F38_a_release_that_a_failover_lost_is_repeated),
        cmocka_unit_test(F22_a_primary_back_without_data_is_noticed),
        cmocka_unit_test(F31_a_waiter_is_served_by_the_new_primary),
        cmocka_unit_test(F31_a_primary_that_does_not_answer_is_left_for_the_new_one),
        cmocka_unit_test(F34_a_cluster_that_is_down_is_reported_in_time),
        cmocka_unit_test(F32_primaries_fail_during_contention),
    };
    return cmocka_run_group_tests(tests, kit_start, kit_end);
}
