/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of each topology: an uncontended acquire and release on one thread, relative to one
 * server over plain TCP. All take turns in one run. All servers run on this machine and share its
 * cores. On several machines only the number of round trips counts: the same as with one server,
 * and with `replicas` one more for the acquire.
 */
#include <holdfast.h>

#include "b_nodes.h"
#include "b_redis.h"
#include "b_rounds.h"
#include "b_set.h"

#define ROUNDS 30
#define PAIRS  200

enum { SINGLE, TLS, SENTINEL, REPLICAS, QUORUM_3, QUORUM_5, SIDES };

static const char *const names[SIDES] = {"one server", "TLS",         "Sentinel",
                                         "replicas=1", "quorum of 3", "quorum of 5"};

static void run_pair(void *arg) {
    hf_hold *hold;
    if (hf_acquire(arg, "bench:topologies", NULL, &hold) != HF_OK || hf_release(hold) != HF_OK)
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

int main(int argc, char **argv) {
    b_report_begin("topologies", argc, argv);
    b_redis_start();
    b_set_start(CERTIFICATES);
    b_nodes_start(5);
    hf_client *clients[SIDES];
    clients[SINGLE] = open_client(b_redis_url(B_TCP));
    clients[TLS] = open_client(b_set_tls_url());
    clients[SENTINEL] = open_client(b_set_sentinel_url());
    clients[REPLICAS] = open_client(b_set_replica_url());
    clients[QUORUM_3] = open_client(b_nodes_url(3));
    clients[QUORUM_5] = open_client(b_nodes_url(5));

    b_side sides[SIDES] = {0};
    for (int i = 0; i < SIDES; i++) sides[i] = (b_side){.round = round_of_pairs, .arg = clients[i]};
    b_rounds_run(sides, SIDES, ROUNDS);
    b_section("Uncontended pair, one thread, TCP loopback", "this", "one server");
    for (int i = 1; i < SIDES; i++) {
        b_ratio row = b_rounds_ratio(&sides[i], &sides[SINGLE]);
        row.name = names[i];
        b_report_ratio(&row);
    }
    b_rounds_fini(sides, SIDES);
    for (int i = 0; i < SIDES; i++) hf_close(clients[i]);
    b_set_end();
    return 0;
}
