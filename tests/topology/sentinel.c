/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Three Sentinels over a primary and two replicas, one of which must confirm. Primaries, replicas
 * and Sentinels are killed, stopped and restarted (F31, F32, F33, F36, F38).
 */
#include "topology.h"

static t_sentinel *set;

static int primary_now(void) {
    int primary;
    T_WAIT_UNTIL((primary = t_sentinel_primary(set)) >= 0, T_FAILOVER_MS);
    return primary;
}

static void kill_primary(void) {
    t_sentinel_settled(set);
    int from = primary_now();
    t_redis_kill9(t_sentinel_node(set, from));
    print_fault("killed node %d, the primary", from);
    print_fault("node %d is the primary", t_sentinel_failed_over(set, from));
    t_redis_restart(t_sentinel_node(set, from));
    t_sentinel_rejoined(set, from);
    print_fault("node %d is back, without data, as a replica", from);
}

static void stop_primary(void) {
    t_sentinel_settled(set);
    int from = primary_now();
    t_redis_stop(t_sentinel_node(set, from));
    print_fault("stopped node %d, the primary", from);
    print_fault("node %d is the primary", t_sentinel_failed_over(set, from));
    t_redis_cont(t_sentinel_node(set, from));
    print_fault("node %d continues as a primary", from);
    t_sentinel_rejoined(set, from);
    print_fault("node %d is a replica", from);
}

static void stop_primary_for_a_moment(void) {
    int node = primary_now();
    t_redis_stop(t_sentinel_node(set, node));
    t_sleep_ms(200);
    t_redis_cont(t_sentinel_node(set, node));
    print_fault("stopped node %d, the primary, for a moment", node);
}

static void kill_replica(void) {
    int node = (primary_now() + 1 + random_below(T_NODES - 1)) % T_NODES;
    t_redis_kill9(t_sentinel_node(set, node));
    print_fault("killed node %d, a replica", node);
    t_sleep_ms(500);
    t_redis_restart(t_sentinel_node(set, node));
    t_sentinel_rejoined(set, node);
    print_fault("node %d is back", node);
}

static void kill_sentinel(void) {
    int i = random_below(T_SENTINELS);
    t_redis_kill9(t_sentinel_watcher(set, i));
    print_fault("killed Sentinel %d", i);
    t_sleep_ms(500);
    t_redis_restart(t_sentinel_watcher(set, i));
    print_fault("Sentinel %d is back", i);
}

static void end_messages(void) {
    int node = primary_now();
    int64_t ended = t_redis_int(t_sentinel_node(set, node), "CLIENT KILL TYPE pubsub SKIPME yes");
    print_fault("closed %d notification connections of node %d, the primary", (int)ended, node);
}

static const char *start_set(void) {
    set = t_sentinel_start(NULL);
    return t_sentinel_url(set);
}

static void end_set(void) {
    t_sentinel_free(set);
}

static topology_fault *const faults[] = {kill_primary, stop_primary, stop_primary_for_a_moment,
                                         kill_replica, end_messages, kill_sentinel,
                                         kill_primary, stop_primary, NULL};

const topology topology_sentinel = {"sentinel", "lease=10s&outage=90s&replicas=1", start_set,
                                    faults, end_set};
