/*
 * sentinel_torture ACQUISITIONS [SEED [OPTIONS]]: that many acquisitions of one lock, while every few
 * seconds something is done to a node or a Sentinel. Prints what was done to whom.
 */
#include "crowd.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { INSIDE_MS = 20, CALM_MS = 1500, END_MS = 120000 };

static t_sentinel *set;
static int wanted;
static unsigned seed;
static const char *options = "lease=10s&outage=90s&replicas=1";
static int64_t began_ms;

T_PRINTF(1, 2) static void say(const char *format, ...) {
    va_list args;
    printf("%7.1f s  ", (double)(t_now_ms() - began_ms) / 1000);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
}

static int primary_now(void) {
    int primary;
    T_WAIT_UNTIL((primary = t_sentinel_primary(set)) >= 0, T_FAILOVER_MS);
    return primary;
}

/* ---- What is done ---------------------------------------------------------------------------- */

static void kill_primary(void) {
    int from = primary_now();
    t_redis_kill9(t_sentinel_node(set, from));
    say("killed node %d, the primary", from);
    say("node %d is the primary", t_sentinel_failed_over(set, from));
    t_redis_restart(t_sentinel_node(set, from));
    t_sentinel_rejoined(set, from);
    say("node %d is back, without data, as a replica", from);
}

static void stop_primary(void) {
    int from = primary_now();
    t_redis_stop(t_sentinel_node(set, from));
    say("stopped node %d, the primary", from);
    say("node %d is the primary", t_sentinel_failed_over(set, from));
    t_redis_cont(t_sentinel_node(set, from));
    say("node %d goes on, as if nothing had been", from);
    t_sentinel_rejoined(set, from);
    say("node %d is a replica", from);
}

static void stop_primary_for_a_moment(void) {
    int node = primary_now();
    t_redis_stop(t_sentinel_node(set, node));
    t_sleep_ms(200);
    t_redis_cont(t_sentinel_node(set, node));
    say("stopped node %d, the primary, for a moment", node);
}

static void kill_replica(void) {
    int node = (primary_now() + 1 + rand() % (T_NODES - 1)) % T_NODES;
    t_redis_kill9(t_sentinel_node(set, node));
    say("killed node %d, a replica", node);
    t_sleep_ms(500);
    t_redis_restart(t_sentinel_node(set, node));
    t_sentinel_rejoined(set, node);
    say("node %d is back", node);
}

static void kill_sentinel(void) {
    int i = rand() % T_SENTINELS;
    t_redis_kill9(t_sentinel_watcher(set, i));
    say("killed Sentinel %d", i);
    t_sleep_ms(500);
    t_redis_restart(t_sentinel_watcher(set, i));
    say("Sentinel %d is back", i);
}

static void (*const deeds[])(void) = {kill_primary, stop_primary,  stop_primary_for_a_moment,
                                      kill_replica, kill_sentinel, kill_primary,
                                      stop_primary};

static void no_overlap_while_nodes_fail(void **state) {
    static crowd c;
    char url[1024];
    (void)state;
    set = t_sentinel_start(NULL);
    snprintf(url, sizeof url, "%s?%s", t_sentinel_url(set), options);
    began_ms = t_now_ms();
    say("%d acquisitions, seed %u, %s", wanted, seed, url);
    crowd_start(&c, url, wanted, INSIDE_MS);
    while (atomic_load(&c.served) < wanted) {
        deeds[(unsigned)rand() % (sizeof deeds / sizeof *deeds)]();
        say("served %d", atomic_load(&c.served));
        t_sleep_ms(CALM_MS);
    }
    crowd_end(&c, END_MS);
    t_sentinel_free(set);
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    wanted = argc > 1 ? atoi(argv[1]) : 1000;
    seed = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : (unsigned)time(NULL);
    if (argc > 3) options = argv[3];
    srand(seed);
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_overlap_while_nodes_fail)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
