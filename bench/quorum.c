/*
 * What a quorum costs: an uncontended acquire and release over 3 and over 5 nodes, against one server. All
 * of them run on this machine, so that its cores are shared by as many servers; between machines the nodes
 * work at the same time, and what counts is how many round trips there are: as many as with one.
 */
#include <holdfast.h>

#include "b_nodes.h"
#include "b_redis.h"
#include "b_rounds.h"

#define ROUNDS 40
#define PAIRS  300

static void pair(void *arg) {
    hf_hold *hold;
    if (hf_acquire(arg, "bench:quorum", NULL, &hold) != HF_OK || hf_release(hold) != HF_OK)
        b_fail("%s", hf_error_detail());
}

static double round_of_pairs(void *arg, b_series *each) {
    return b_repeat(pair, arg, PAIRS, each);
}

static hf_client *open_client(const char *url) {
    hf_client *client;
    if (hf_open(url, NULL, &client) != HF_OK) b_fail("%s", hf_error_detail());
    return client;
}

static double commands(hf_client *client) {
    hf_stats stats;
    if (hf_stats_get(client, &stats) != HF_OK) b_fail("%s", hf_error_detail());
    return (double)stats.commands;
}

static void measure(const char *name, const char *commands_name, int nodes) {
    hf_client *one = open_client(b_redis_url(B_TCP)), *quorum = open_client(b_nodes_url(nodes));
    b_side sides[] = {{.round = round_of_pairs, .arg = quorum},
                      {.round = round_of_pairs, .arg = one}};
    double before = commands(quorum);
    b_rounds_run(sides, 2, ROUNDS);
    b_ratio row = b_rounds_ratio(&sides[0], &sides[1]);
    row.name = name;
    b_report_ratio(&row);
    b_report_value(commands_name, (commands(quorum) - before) / (PAIRS * (ROUNDS + 2)) / nodes, "",
                   "2: one round trip each to acquire and release");
    b_rounds_fini(sides, 2);
    hf_close(quorum);
    hf_close(one);
}

int main(int argc, char **argv) {
    b_report_begin("quorum", argc, argv);
    b_redis_start();
    b_nodes_start(5);
    b_section("Uncontended pair, one thread, TCP loopback", "quorum", "one Redis");
    measure("3 nodes", "3 nodes: commands per pair and node", 3);
    measure("5 nodes", "5 nodes: commands per pair and node", 5);
    return 0;
}
