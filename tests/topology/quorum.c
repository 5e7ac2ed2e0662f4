/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Five independent servers. One or two at a time are killed and come back empty (F24), are stopped,
 * or lose their connections. Before the next fault all nodes may vote again.
 */
#include <stdio.h>

#include "topology.h"

enum {
    NODES = 5,
    YOUNG_S = 5 /* the delay, one second that is not counted, and one for rounding */
};

static t_nodes *nodes;

static const char *name_of(int i) {
    static char name[2][32];
    static int next;
    char *text = name[next++ % 2];
    snprintf(text, sizeof name[0], "node %d, port %u", i, t_redis_port(t_nodes_at(nodes, i)));
    return text;
}

static int another_than(int i) {
    return (i + 1 + random_below(NODES - 1)) % NODES;
}

static void kill_node(int i) {
    t_redis_kill9(t_nodes_at(nodes, i));
    print_fault("killed %s", name_of(i));
}

static void revive_node(int i) {
    t_redis_restart(t_nodes_at(nodes, i));
    print_fault("%s is back, without data", name_of(i));
}

static void stop_node(int i) {
    t_redis_stop(t_nodes_at(nodes, i));
    print_fault("stopped %s", name_of(i));
}

static void resume_node(int i) {
    t_redis_cont(t_nodes_at(nodes, i));
    print_fault("%s continues", name_of(i));
}

static void all_vote(void) {
    t_nodes_grow_old(nodes, YOUNG_S);
    print_fault("all nodes vote again");
}

static void kill_one(void) {
    int i = random_below(NODES);
    kill_node(i);
    t_sleep_ms(random_below(2000));
    revive_node(i);
    all_vote();
}

static void kill_two(void) {
    int i = random_below(NODES), j = another_than(i);
    kill_node(i);
    kill_node(j);
    t_sleep_ms(random_below(2000));
    revive_node(i);
    revive_node(j);
    all_vote();
}

static void stop_two(void) {
    int i = random_below(NODES), j = another_than(i);
    stop_node(i);
    stop_node(j);
    t_sleep_ms(500 + random_below(3000));
    resume_node(i);
    resume_node(j);
}

static void kill_one_stop_one(void) {
    int i = random_below(NODES), j = another_than(i);
    kill_node(i);
    stop_node(j);
    t_sleep_ms(random_below(2000));
    revive_node(i);
    resume_node(j);
    all_vote();
}

static void end_connections(void) {
    int i = random_below(NODES);
    int64_t ended = t_redis_int(t_nodes_at(nodes, i), "CLIENT KILL TYPE normal SKIPME yes");
    print_fault("closed %d connections of %s", (int)ended, name_of(i));
}

static const char *start_nodes(void) {
    nodes = t_nodes_start(NODES, NULL);
    t_nodes_grow_old(nodes, YOUNG_S);
    return t_nodes_url(nodes, NODES);
}

static void end_nodes(void) {
    t_nodes_free(nodes);
}

static topology_fault *const faults[] = {kill_one, kill_two,        stop_two, kill_one_stop_one,
                                         kill_one, end_connections, NULL};

const topology topology_quorum = {
    "quorum", "rejoin_delay=3s&lease=3s&outage=90s&command_timeout=500ms&connect_timeout=500ms",
    start_nodes, faults, end_nodes};
