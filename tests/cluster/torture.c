/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cluster_torture ACQUISITIONS [SEED [OPTIONS]]: runs that many acquires of three locks, one on
 * each primary. Every few seconds a node or a slot gets a fault. Nodes fail over by themselves.
 * Prints each fault and its node.
 */
#include "crowd.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { INSIDE_MS = 60, CALM_MS = 1500, END_MS = 180000, NODE_TIMEOUT_MS = 2000 };

static cluster_crowd crowd;
static int wanted;
static unsigned seed;
static const char *options = "lease=10s&outage=90s&replicas=1";
static int64_t began_ms;

T_PRINTF(1, 2) static void print_fault(const char *format, ...) {
    va_list args;
    printf("%7.1f s  ", (double)(t_now_ms() - began_ms) / 1000);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
}

static int owner_of(const char *name) {
    int owner;
    T_WAIT_UNTIL((owner = t_cluster_owner(cluster, t_cluster_slot(name))) >= 0, T_CLUSTER_MS);
    return owner;
}

/* A contended lock, and the node that has it. */
static const char *pick_lock(int *owner) {
    const char *name = crowd.locks[rand() % CROWD_LOCKS].name;
    *owner = owner_of(name);
    return name;
}

static void await_other(const char *name, int from) {
    int to;
    T_WAIT_UNTIL((to = t_cluster_owner(cluster, t_cluster_slot(name))) >= 0 && to != from,
                 T_CLUSTER_MS);
    print_fault("node %d is the primary of %s", to, name);
}

/* ---- Faults ---------------------------------------------------------------------------------- */

static void kill_primary(void) {
    int from;
    const char *name = pick_lock(&from);
    (void)t_cluster_replica(cluster, from);
    t_redis_kill9(t_cluster_node(cluster, from));
    print_fault("killed node %d, the primary of %s", from, name);
    await_other(name, from);
    t_redis_restart(t_cluster_node(cluster, from));
    t_cluster_settled(cluster);
    print_fault("node %d is back, without data, as a replica", from);
}

static void stop_primary(void) {
    int from;
    const char *name = pick_lock(&from);
    (void)t_cluster_replica(cluster, from);
    t_redis_stop(t_cluster_node(cluster, from));
    print_fault("stopped node %d, the primary of %s", from, name);
    t_sleep_ms(NODE_TIMEOUT_MS * 2);
    t_redis_cont(t_cluster_node(cluster, from));
    print_fault("node %d continues as if nothing had happened", from);
    t_cluster_settled(cluster);
    print_fault("node %d is the primary of %s", owner_of(name), name);
}

static void stop_primary_for_a_moment(void) {
    int node;
    const char *name = pick_lock(&node);
    t_redis_stop(t_cluster_node(cluster, node));
    t_sleep_ms(200);
    t_redis_cont(t_cluster_node(cluster, node));
    print_fault("stopped node %d, the primary of %s, for a moment", node, name);
}

static void kill_replica(void) {
    int primary;
    pick_lock(&primary);
    int node = t_cluster_replica(cluster, primary);
    t_redis_kill9(t_cluster_node(cluster, node));
    print_fault("killed node %d, a replica of node %d", node, primary);
    t_sleep_ms(500);
    t_redis_restart(t_cluster_node(cluster, node));
    t_cluster_settled(cluster);
    print_fault("node %d is back", node);
}

static void fail_over_orderly(void) {
    int from;
    const char *name = pick_lock(&from);
    int to = t_cluster_replica(cluster, from);
    freeReplyObject(t_redis_cmd(t_cluster_node(cluster, to), "CLUSTER FAILOVER"));
    await_other(name, from);
    t_cluster_settled(cluster);
}

/* Moves so slowly that clients meet a migrating slot. */
static void move_slot(void) {
    int from, to = -1;
    const char *name = pick_lock(&from);
    for (int i = 0; to < 0 || to == from; i++) to = owner_of(crowd.locks[i % CROWD_LOCKS].name);
    int slot = t_cluster_slot(name);
    t_cluster_begin_move(cluster, slot, from, to);
    int moved = 0, now;
    do {
        now = t_cluster_move_keys(cluster, slot, from, to, 1);
        moved += now;
        t_sleep_ms(50);
    } while (now);
    t_cluster_end_move(cluster, slot, from, to);
    print_fault("moved the slot of %s, with %d keys, from node %d to node %d", name, moved, from,
                to);
    /* and back, so that another one is always free to move to */
    t_sleep_ms(CALM_MS);
    t_cluster_move(cluster, slot, from);
    print_fault("and back");
}

static void (*const faults[])(void) = {kill_primary, stop_primary, stop_primary_for_a_moment,
                                       kill_replica, move_slot,    fail_over_orderly,
                                       kill_primary, move_slot};

static void no_overlap_while_nodes_fail_and_slots_move(void **state) {
    (void)state;
    cluster = t_cluster_start(&(t_cluster_options){.node_timeout_ms = NODE_TIMEOUT_MS});
    began_ms = t_now_ms();
    print_fault("%d acquisitions, seed %u, %s?%s", wanted, seed, t_cluster_url(cluster), options);
    crowd_start(&crowd, options, NULL, wanted, INSIDE_MS);
    while (atomic_load(&crowd.served) < wanted) {
        faults[(unsigned)rand() % (sizeof faults / sizeof *faults)]();
        print_fault("served %d", atomic_load(&crowd.served));
        t_sleep_ms(CALM_MS);
    }
    crowd_end(&crowd, END_MS);
    t_cluster_free(cluster);
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    wanted = argc > 1 ? atoi(argv[1]) : 1000;
    seed = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : (unsigned)time(NULL);
    if (argc > 3) options = argv[3];
    srand(seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_overlap_while_nodes_fail_and_slots_move)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
