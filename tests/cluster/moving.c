/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slots that move from node to node while locks are held and waited for: MOVED, ASK, TRYAGAIN. Each
 * test moves slots of its own, and leaves none migrating.
 */
#include "kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int slot_of(const char *name) {
    return t_cluster_slot(name);
}

static void each_name_is_on_the_node_of_its_slot(void **state) {
    (void)state;
    hf_client *client = kit_open("");
    for (int node = 0; node < T_PRIMARIES; node++) {
        const char *name = kit_name(node);
        hf_hold *hold = kit_take(client, name, NULL);
        assert_true(kit_has(node, name));
        T_HF(HF_OK, hf_release(hold));
        assert_false(kit_has(node, name));
        assert_int_equal(kit_errors(node, "MOVED"), 0);
    }
    hf_close(client);
}

/* Braces in a name do not count as braces of its key. */
static void a_name_with_braces_has_one_slot(void **state) {
    (void)state;
    static const char *const names[] = {"{a}b", "a{b}", "}{", "{}", "50%{x}"};
    hf_client *client = kit_open(""), *other = kit_open("");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        hf_hold *hold = kit_take(client, names[i], NULL), *none = NULL;
        T_HF(HF_BUSY, hf_try_lock(other, names[i], &none));
        T_HF(HF_OK, hf_release(hold));
    }
    hf_close(other);
    hf_close(client);
}

static void F34_a_slot_that_moved_is_followed(void **state) {
    (void)state;
    const char *name = kit_name(0);
    hf_client *client = kit_open("");
    T_HF(HF_OK, hf_release(kit_take(client, name, NULL)));
    int64_t before = kit_errors(0, "MOVED");
    t_cluster_move(cluster, slot_of(name), 1);
    for (int i = 0; i < 3; i++) {
        hf_hold *hold = kit_take(client, name, NULL);
        assert_true(kit_has(1, name));
        T_HF(HF_OK, hf_release(hold));
    }
    assert_in_range(kit_errors(0, "MOVED") - before, 1, 2); /* after that the slot is known */
    hf_close(client);
}

static void F35_a_hold_moves_with_its_slot(void **state) {
    (void)state;
    const char *name = kit_name(0);
    hf_client *client = kit_open(""), *other = kit_open("");
    hf_hold *hold = kit_take(client, name, NULL), *none = NULL;
    uint64_t token = hf_fence(hold);
    t_cluster_move(cluster, slot_of(name), 2);
    T_HF(HF_OK, hf_extend(hold, LEASE_MS));
    assert_int_equal(hf_held(hold), 1);
    assert_int_equal(hf_fence(hold), token);
    T_HF(HF_BUSY, hf_try_lock(other, name, &none));
    T_HF(HF_OK, hf_release(hold));
    assert_false(kit_has(2, name));
    hold = kit_take(other, name, NULL);
    assert_true(hf_fence(hold) > token);
    T_HF(HF_OK, hf_release(hold));
    hf_close(other);
    hf_close(client);
}

/* ---- While a slot is migrating --------------------------------------------------------------- */

/* A mutex, a writer and a reader are each kept while their slot is migrating. All, some or none of
   the keys are still at the source. Calls that need other keys than the lock's wait until the slot
   has arrived. */
static void F37_holds_are_kept_while_their_slot_is_migrating(void **state) {
    (void)state;
    static const uint32_t kinds[] = {HF_MUTEX, HF_WRITE, HF_READ, HF_UPGRADABLE, HF_PERMITS};
    hf_client *client = kit_open("");
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const char *name = kit_name(1);
        hf_options o = {.kind = kinds[i]};
        if (o.kind == HF_PERMITS) o.permits = o.capacity = 1;
        hf_hold *hold = kit_take(client, name, &o);
        int slot = slot_of(name);
        t_cluster_begin_move(cluster, slot, 1, 2);
        T_HF(HF_OK, hf_extend(hold, LEASE_MS));
        t_cluster_move_keys(cluster, slot, 1, 2, 1);
        T_HF(HF_OK, hf_extend(hold, LEASE_MS + 1000));
        t_cluster_move_keys(cluster, slot, 1, 2, 100);
        T_HF(HF_OK, hf_extend(hold, LEASE_MS + 2000));
        assert_true(hf_remaining_ms(hold) > LEASE_MS);
        assert_int_equal(hf_held(hold), 1);
        t_cluster_end_move(cluster, slot, 1, 2);
        T_HF(HF_OK, hf_release(hold));
    }
    assert_true(kit_errors(1, "ASK") > 0);
    hf_close(client);
}

static void release_hold(int index, void *arg) {
    (void)index;
    T_HF(HF_OK, hf_release(arg));
}

static void F37_a_release_during_a_migration_is_done_after_the_slot_has_arrived(void **state) {
    (void)state;
    const char *name = kit_name(0);
    hf_client *client = kit_open("command_timeout=30s");
    hf_hold *hold = kit_take(client, name, NULL);
    int slot = slot_of(name);
    int64_t before = kit_errors(0, "TRYAGAIN") + kit_errors(1, "TRYAGAIN");
    t_cluster_begin_move(cluster, slot, 0, 1);
    t_cluster_move_keys(cluster, slot, 0, 1, 1);
    t_threads *thread = t_threads_start(1, release_hold, hold);
    T_WAIT_UNTIL(kit_errors(0, "TRYAGAIN") + kit_errors(1, "TRYAGAIN") > before + 2, SOON_MS);
    t_cluster_move_keys(cluster, slot, 0, 1, 100);
    t_cluster_end_move(cluster, slot, 0, 1);
    t_threads_join(thread, SOON_MS);
    assert_false(kit_has(1, name));
    hf_close(client);
}

static void F37_an_acquire_during_a_migration_is_served_after_the_slot_has_arrived(void **state) {
    (void)state;
    const char *name = kit_name(2);
    hf_client *client = kit_open("");
    int slot = slot_of(name);
    int64_t before = kit_errors(0, "TRYAGAIN");
    cluster_wait w;
    t_cluster_begin_move(cluster, slot, 2, 0);
    kit_begin(&w, client, name, NULL);
    T_WAIT_UNTIL(kit_errors(0, "TRYAGAIN") > before + 2, SOON_MS);
    t_cluster_end_move(cluster, slot, 2, 0);
    T_HF(HF_OK, kit_end_wait(&w));
    assert_true(kit_has(0, name));
    T_HF(HF_OK, hf_release(w.hold));
    hf_close(client);
}

/* The slot does not arrive in time. The call says so before its timeout. */
static void F34_a_try_during_a_migration_ends_within_the_command_timeout(void **state) {
    (void)state;
    const char *name = kit_name(2);
    hf_client *client = kit_open("command_timeout=300ms");
    hf_hold *none = NULL;
    int slot = slot_of(name);
    t_cluster_begin_move(cluster, slot, 2, 0);
    hf_result result; /* unknown if a command was in flight when the time was up */
    for (int i = 0; (result = hf_try_lock(client, name, &none)) == HF_UNKNOWN_OUTCOME;)
        T_CHECK(++i < 20);
    T_HF(HF_UNREACHABLE, result);
    assert_non_null(strstr(hf_error_detail(), "being moved to another node"));
    t_cluster_end_move(cluster, slot, 2, 0);
    T_HF(HF_OK, hf_release(kit_take(client, name, NULL)));
    hf_close(client);
}

/* ---- Waiting --------------------------------------------------------------------------------- */

static void a_waiter_subscribes_in_the_slot_of_the_name(void **state) {
    (void)state;
    const char *name = kit_name(1);
    hf_client *client = kit_open(""), *other = kit_open("");
    hf_hold *hold = kit_take(client, name, NULL);
    cluster_wait w;
    kit_begin(&w, other, name, NULL);
    T_WAIT_UNTIL(kit_subscribers(1, name) == 1, SOON_MS);
    T_HF(HF_OK, hf_release(hold));
    T_HF(HF_OK, kit_end_wait(&w));
    T_HF(HF_OK, hf_release(w.hold));
    hf_close(other);
    hf_close(client);
}

/* Waiters are served in order of arrival, and each learns where the slot is now. No client
   polls. */
static void F35_waiters_follow_the_slot_and_keep_their_positions(void **state) {
    enum { WAITERS = 3 };
    (void)state;
    const char *name = kit_name(0);
    hf_client *client = kit_open(""), *others[WAITERS];
    hf_hold *hold = kit_take(client, name, &(hf_options){.lease_ms = LEASE_MS});
    cluster_wait w[WAITERS];
    for (int i = 0; i < WAITERS; i++) {
        others[i] = kit_open("");
        kit_begin(&w[i], others[i], name, &(hf_options){.lease_ms = LEASE_MS});
        kit_await_queued(0, name, i + 1);
    }
    T_WAIT_UNTIL(kit_subscribers(0, name) == WAITERS, SOON_MS);
    t_cluster_move(cluster, slot_of(name), 1);
    T_WAIT_UNTIL(kit_subscribers(1, name) == WAITERS, SOON_MS);
    kit_await_queued(1, name, WAITERS);
    uint64_t token = hf_fence(hold);
    T_HF(HF_OK, hf_release(hold));
    for (int i = 0; i < WAITERS; i++) {
        T_HF(HF_OK, kit_end_wait(&w[i]));
        assert_true(hf_fence(w[i].hold) > token);
        token = hf_fence(w[i].hold);
        T_HF(HF_OK, hf_release(w[i].hold));
        hf_close(others[i]);
    }
    hf_close(client);
}

/* The message may come from a node that is no longer the primary. So the client claims the lock at
   the slot's owner. */
static void F32_a_grant_by_notification_is_claimed_before_entering(void **state) {
    (void)state;
    const char *name = kit_name(1);
    t_redis *node = t_cluster_node(cluster, 1);
    hf_client *client = kit_open(""), *other = kit_open("");
    hf_hold *hold = kit_take(client, name, &(hf_options){.lease_ms = LEASE_MS});
    cluster_wait w;
    kit_begin(&w, other, name, NULL);
    T_WAIT_UNTIL(kit_subscribers(1, name) == 1, SOON_MS);
    char waiter[64];
    snprintf(waiter, sizeof waiter, "%.63s", t_redis_str(node, "LINDEX hf:{%s}:q 0", name));
    waiter[strcspn(waiter, " ")] = '\0';
    char *number = strchr(waiter, ':');
    *number++ = '\0';
    const char *publish = t_redis_knows(node, "spublish") ? "SPUBLISH" : "PUBLISH";
    for (int i = 0; i < 3; i++) { /* each is claimed first */
        hf_stats before, after;
        T_HF(HF_OK, hf_stats_get(other, &before));
        redisReply *time = t_redis_cmd(node, "TIME");
        char grant[128];
        snprintf(grant, sizeof grant, "%s %s%06ld %s%06ld 10000", number, time->element[0]->str,
                 strtol(time->element[1]->str, NULL, 10), time->element[0]->str,
                 strtol(time->element[1]->str, NULL, 10));
        freeReplyObject(time);
        assert_int_equal(t_redis_int(node, "%s hf:{%s}:c:%s %s", publish, name, waiter, grant), 1);
        do T_HF(HF_OK, hf_stats_get(other, &after));
        while (after.commands == before.commands && !after.held);
        assert_int_equal(after.held, 0);
    }
    T_HF(HF_OK, hf_release(hold));
    T_HF(HF_OK, kit_end_wait(&w));
    T_HF(HF_OK, hf_release(w.hold));
    hf_close(other);
    hf_close(client);
}

/* If the user may not use shard channels, or the server has none, a plain channel is used. */
static void without_shard_channels_a_plain_one_is_used(void **state) {
    (void)state;
    char options[128], url[512];
    hf_client *client, *other;
    for (int i = 0; i < T_MEMBERS; i++) {
        t_redis *node = t_cluster_node(cluster, i);
        freeReplyObject(t_redis_cmd(node, "ACL SETUSER plain on >secret ~* &* +@all"));
        if (t_redis_knows(node, "spublish"))
            freeReplyObject(
                t_redis_cmd(node, "ACL SETUSER plain -ssubscribe -spublish -pubsub|shardnumsub"));
    }
    snprintf(options, sizeof options, "plain:secret@");
    snprintf(url, sizeof url, "redis+cluster://%s%s", options,
             t_cluster_url(cluster) + strlen("redis+cluster://"));
    T_HF(HF_OK, hf_open(url, NULL, &client));
    T_HF(HF_OK, hf_open(url, NULL, &other));
    const char *name = kit_name(1);
    hf_hold *hold = kit_take(client, name, &(hf_options){.lease_ms = LEASE_MS});
    cluster_wait w;
    kit_begin(&w, other, name, NULL);
    T_WAIT_UNTIL(t_redis_info(t_cluster_node(cluster, 1), "pubsub_channels") == 1, SOON_MS);
    T_HF(HF_OK, hf_release(hold));
    T_HF(HF_OK, kit_end_wait(&w));
    T_HF(HF_OK, hf_release(w.hold));
    hf_close(other);
    hf_close(client);
}

/* ---- Many names ------------------------------------------------------------------------------ */

static void many_names_of_several_nodes_are_acquired_one_by_one(void **state) {
    (void)state;
    hf_client *client = kit_open(""), *other = kit_open("");
    hf_request requests[T_PRIMARIES] = {0};
    hf_hold *hold = NULL, *none = NULL;
    for (int i = 0; i < T_PRIMARIES; i++) requests[i].name = kit_name(i);
    T_HF(HF_OK, hf_acquire_all(client, requests, T_PRIMARIES,
                               &(hf_options){.wait_ms = t_patience(SOON_MS)}, &hold));
    for (int i = 0; i < T_PRIMARIES; i++) {
        assert_true(kit_has(i, requests[i].name));
        T_HF(HF_BUSY, hf_try_lock(other, requests[i].name, &none));
    }
    T_HF(HF_BUSY, hf_acquire_all(other, requests, T_PRIMARIES, NULL, &none));
    T_HF(HF_OK, hf_release(hold));
    for (int i = 0; i < T_PRIMARIES; i++) assert_false(kit_has(i, requests[i].name));
    hf_close(other);
    hf_close(client);
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_name_is_on_the_node_of_its_slot),
        cmocka_unit_test(a_name_with_braces_has_one_slot),
        cmocka_unit_test(F34_a_slot_that_moved_is_followed),
        cmocka_unit_test(F35_a_hold_moves_with_its_slot),
        cmocka_unit_test(F37_holds_are_kept_while_their_slot_is_migrating),
        cmocka_unit_test(F37_a_release_during_a_migration_is_done_after_the_slot_has_arrived),
        cmocka_unit_test(F37_an_acquire_during_a_migration_is_served_after_the_slot_has_arrived),
        cmocka_unit_test(F34_a_try_during_a_migration_ends_within_the_command_timeout),
        cmocka_unit_test(a_waiter_subscribes_in_the_slot_of_the_name),
        cmocka_unit_test(F35_waiters_follow_the_slot_and_keep_their_positions),
        cmocka_unit_test(F32_a_grant_by_notification_is_claimed_before_entering),
        cmocka_unit_test(without_shard_channels_a_plain_one_is_used),
        cmocka_unit_test(many_names_of_several_nodes_are_acquired_one_by_one),
    };
    return cmocka_run_group_tests(tests, kit_start, kit_end);
}
