/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The overhead of the library for an uncontended acquire and release: hf_acquire and hf_release on
 * one thread, compared with plain hiredis that sends the same two commands, prepared in advance.
 */
#include <holdfast.h>

#include "b_plain.h"
#include "b_rounds.h"

#define ROUNDS 40
#define PAIRS  600
#define TARGET 1.10

static void our_pair(void *arg) {
    hf_hold *hold;
    if (hf_acquire(arg, "bench:pair", NULL, &hold) != HF_OK || hf_release(hold) != HF_OK)
        b_fail("%s", hf_error_detail());
}

static double our_round(void *arg, b_series *each) {
    return b_repeat(our_pair, arg, PAIRS, each);
}

static double plain_round(void *arg, b_series *each) {
    return b_repeat(b_plain_pair, arg, PAIRS, each);
}

static void measure_transport(const char *name, b_transport transport) {
    b_plain plain;
    b_plain_init(&plain, transport, "bench:plain");
    hf_client *client;
    if (hf_open(b_redis_url(transport), NULL, &client) != HF_OK) b_fail("%s", hf_error_detail());

    b_side sides[] = {{.round = our_round, .arg = client}, {.round = plain_round, .arg = &plain}};
    b_rounds_run(sides, 2, ROUNDS);
    b_ratio row = b_rounds_ratio(&sides[0], &sides[1]);
    row.name = name;
    row.target = TARGET;
    b_report_ratio(&row);

    b_rounds_fini(sides, 2);
    hf_close(client);
    b_plain_fini(&plain);
}

int main(int argc, char **argv) {
    b_report_begin("pair", argc, argv);
    b_redis_start();
    b_section("Uncontended pair, one thread", "holdfast", "hiredis");
    measure_transport("TCP loopback", B_TCP);
    measure_transport("unix socket", B_UNIX);
    b_redis_share_core();
    measure_transport("TCP loopback, on one core", B_TCP);
    measure_transport("unix socket, on one core", B_UNIX);
    return 0;
}
