/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of a quorum: an uncontended acquire and release over 3 and over 5 nodes, compared with
 * one server. All servers run on this machine and share its cores. On several machines the nodes
 * work in parallel, and only the number of round trips counts, which is the same as with one
 * server.
 */
#include <holdfast.h>

#include "b_nodes.h"
#include "b_redis.h"
#include "b_rounds.h"

#define ROUNDS 40
#define PAIRS  300

static void run_pair(void *arg) {
    hf_hold *hold;
    if (hf_acquire(arg, "bench:quorum", NULL, &hold) != HF_OK || hf_release(hold) != HF_OK)
        b_fail("%s", hf_error_detail());
}

static double round_of_pairs(void *arg, b_series *each) {
    return b_repeat(run_pair, arg, PAIRS, each);
}

static hf_client *open_client(const char *url) {
    hf_client *client;
    if (hf_open(url, NULL, &client) != HF_OK) b_fail("%s", hf_error_detail());
    return client;
}

static double commands_per_pair(hf_client *client) {
    hf_stats stats;
    if (hf_stats_get(client, &stats) != HF_OK) b_fail("%s", hf_error_detail());
    return (double)stats.commands;
}

static void measure_nodes(const char *name, const char *commands_name, int nodes) {
    hf_client *one = open_client(b_redis_url(B_TCP)), *quorum = open_client(b_nodes_url(nodes));
    b_side sides[] = {{.round = round_of_pairs, .arg = quorum},
                      {.round = round_of_pairs, .arg = one}};
    double before = commands_per_pair(quorum);
    b_rounds_run(sides, 2, ROUNDS);
    b_ratio row = b_rounds_ratio(&sides[0], &sides[1]);
    row.name = name;
    b_report_ratio(&row);
    b_report_value(commands_name,
                   (commands_per_pair(quorum) - before) / (PAIRS * (ROUNDS + 2)) / nodes, "",
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
    measure_nodes("3 nodes", "3 nodes: commands per pair and node", 3);
    measure_nodes("5 nodes", "5 nodes: commands per pair and node", 5);
    return 0;
}
