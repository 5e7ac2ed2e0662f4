/* SPDX-License-Identifier: Apache-2.0 */
/*
 * topology_torture NAME [ACQUISITIONS [SEED [OPTIONS]]]: runs that many acquires of one lock on a
 * deployment, with a fault of one of its servers every few seconds. Prints each fault. It fails if
 * two clients are inside at once by their own deadlines, a token does not grow, or a client is not
 * served.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "crowd.h"
#include "topology.h"

enum { INSIDE_MS = 20, CALM_MS = 1500, END_MS = 120000, URL_ROOM = 2048 };

static const topology *const all[] = {&topology_single, &topology_tls, &topology_sentinel,
                                      &topology_quorum};

static const topology *chosen;
static int wanted = 1000;
static unsigned seed;
static const char *options;
static int64_t began_ms;

void print_fault(const char *format, ...) {
    va_list args;
    printf("%7.1f s  ", (double)(t_now_ms() - began_ms) / 1000);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
}

int random_below(int below) {
    return rand() % below;
}

static int count_faults(void) {
    int count = 0;
    while (chosen->faults[count]) count++;
    return count;
}

static void no_overlap_while_servers_fail(void **state) {
    static topology_crowd c;
    char url[URL_ROOM];
    int faults = count_faults(), done = 0;
    (void)state;
    began_ms = t_now_ms();
    snprintf(url, sizeof url, "%s?%s", chosen->start(), options);
    began_ms = t_now_ms();
    print_fault("%s: %d acquires, seed %u, %s", chosen->name, wanted, seed, url);
    crowd_start(&c, url, wanted, INSIDE_MS);
    while (atomic_load(&c.served) < wanted) {
        chosen->faults[random_below(faults)]();
        print_fault("served %d", atomic_load(&c.served));
        done++;
        t_sleep_ms(CALM_MS);
    }
    crowd_end(&c, END_MS);
    print_fault("%s: %d acquires during %d faults", chosen->name, wanted, done);
    chosen->end();
}

static void print_usage(void) {
    fprintf(stderr, "usage: topology_torture NAME [ACQUISITIONS [SEED [OPTIONS]]]\nNAME:");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) fprintf(stderr, " %s", all[i]->name);
    fprintf(stderr, "\n");
    exit(64);
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (size_t i = 0; argc > 1 && i < sizeof all / sizeof *all; i++)
        if (!strcmp(argv[1], all[i]->name)) chosen = all[i];
    if (!chosen) print_usage();
    if (argc > 2) wanted = atoi(argv[2]);
    seed = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : (unsigned)time(NULL);
    options = argc > 4 ? argv[4] : chosen->options;
    srand(seed);
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_overlap_while_servers_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
