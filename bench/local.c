/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Figures without a comparison or without a target: operations inside the process, throughput of
 * several threads over one connection, and the number of commands.
 */
#include <holdfast.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "b_plain.h"
#include "b_rounds.h"
#include "b_time.h"

#define THREADS_MOST 64
#define CROWD_PAIRS  1600 /* of all threads together */
#define CROWD_ROUNDS 20
#define CROWD_TARGET 1.0 /* for 64 threads; there is none for 8 */
#define LOCAL_ROUNDS 21

static hf_client *open_at(const char *url) {
    hf_client *client;
    if (hf_open(url, NULL, &client) != HF_OK) b_fail("%s", hf_error_detail());
    return client;
}

static hf_hold *acquire_lock(hf_client *client, const char *name) {
    hf_hold *hold;
    if (hf_acquire(client, name, NULL, &hold) != HF_OK) b_fail("%s", hf_error_detail());
    return hold;
}

static void release_lock(hf_hold *hold) {
    if (hf_release(hold) != HF_OK) b_fail("%s", hf_error_detail());
}

static void run_pair(void *client) {
    release_lock(acquire_lock(client, "bench:local"));
}

/* ---- In the process ---- */

static void check_held(void *hold) {
    if (!hf_held(hold)) b_fail("the hold was lost");
}

/* The median of rounds, in ns. */
static double median_of(b_repeat_fn *fn, void *arg, size_t repetitions) {
    b_series rounds = {0};
    for (int i = 0; i < LOCAL_ROUNDS; i++)
        b_series_add(&rounds, b_repeat(fn, arg, repetitions, NULL));
    double median = b_series_median(&rounds);
    b_series_fini(&rounds);
    return median;
}

static uint64_t commands_of(hf_client *client) {
    hf_stats stats;
    if (hf_stats_get(client, &stats) != HF_OK) b_fail("%s", hf_error_detail());
    return stats.commands;
}

static void in_the_process(void) {
    b_section("In the process", "holdfast", "");
    hf_client *memory = open_at("memory:"), *client = open_at(b_redis_url(B_UNIX));
    b_report_value("pair on memory:", median_of(run_pair, memory, 10000), "ns", NULL);

    hf_hold *hold = acquire_lock(client, "bench:local");
    b_report_value("hf_held", median_of(check_held, hold, 100000), "ns", NULL);
    uint64_t before = commands_of(client);
    b_report_value("re-entry pair on Redis", median_of(run_pair, client, 1000), "ns",
                   "sends the count without waiting");
    b_report_value("  commands that it sends",
                   (double)(commands_of(client) - before) / (LOCAL_ROUNDS * 1000), "", NULL);
    release_lock(hold);
    hf_close(client);
    hf_close(memory);
}

/* ---- Commands ---- */

static void commands_per_pair(void) {
    enum { PAIRS = 5000 };
    hf_client *client = open_at(b_redis_url(B_UNIX));
    redisContext *c = b_redis_connect(B_UNIX);
    run_pair(client); /* loads the scripts, starts the background thread */
    uint64_t before = commands_of(client);
    b_usage_reset(c);
    for (int i = 0; i < PAIRS; i++) run_pair(client);
    double sent = (double)(commands_of(client) - before) / PAIRS;
    b_usage evalsha = b_usage_of(c, "evalsha");

    b_section("Commands of a pair", "sent", "");
    b_report_exact("as the client counts", sent, 2);
    b_report_exact("EVALSHA as the server counts", (double)evalsha.calls / PAIRS, 2);
    redisFree(c);
    hf_close(client);
}

/* ---- Threads ---- */

typedef struct thread_load {
    hf_client *client; /* NULL: plain hiredis with one connection per thread */
    b_plain *plain;
    int threads, pairs; /* of each thread */
    pthread_barrier_t start;
} thread_load;

typedef struct load_thread {
    thread_load *of;
    int index;
    pthread_t thread;
} load_thread;

static void name_for(char out[32], const char *kind, int index) {
    snprintf(out, 32, "bench:%s:%d", kind, index);
}

static void *member_main(void *arg) {
    const load_thread *m = arg;
    thread_load *c = m->of;
    char name[32];
    name_for(name, "crowd", m->index);
    pthread_barrier_wait(&c->start);
    for (int i = 0; i < c->pairs; i++) {
        if (c->client)
            release_lock(acquire_lock(c->client, name));
        else
            b_plain_pair(&c->plain[m->index]);
    }
    return NULL;
}

/* Pairs per second, of all threads together. */
static double crowd_round(void *arg, b_series *each) {
    thread_load *c = arg;
    load_thread members[THREADS_MOST];
    (void)each;
    pthread_barrier_init(&c->start, NULL, (unsigned)c->threads + 1);
    for (int i = 0; i < c->threads; i++) {
        members[i] = (load_thread){.of = c, .index = i};
        if (pthread_create(&members[i].thread, NULL, member_main, &members[i]) != 0)
            b_fail("cannot start a thread");
    }
    pthread_barrier_wait(&c->start);
    int64_t began = b_now();
    for (int i = 0; i < c->threads; i++) pthread_join(members[i].thread, NULL);
    int64_t took = b_now() - began;
    pthread_barrier_destroy(&c->start);
    return (double)c->threads * c->pairs * 1e9 / (double)took;
}

static void report_crowd(const char *name, const b_side *ours, const b_side *theirs,
                         double target) {
    b_ratio row = b_rounds_ratio(ours, theirs);
    row.name = name;
    row.unit = "/s";
    row.target = target;
    row.at_least = true;
    b_report_ratio(&row);
}

static void crowds_of(int threads, const char *title, const char *alone, const char *others_name,
                      double target) {
    hf_client *client = open_at(b_redis_url(B_TCP));
    b_plain plain[THREADS_MOST];
    for (int i = 0; i < threads; i++) {
        char name[32];
        name_for(name, "plain", i);
        b_plain_init(&plain[i], B_TCP, name);
    }
    thread_load one = {.client = client, .threads = 1, .pairs = CROWD_PAIRS};
    thread_load many = {.client = client, .threads = threads, .pairs = CROWD_PAIRS / threads};
    thread_load others = {.plain = plain, .threads = threads, .pairs = CROWD_PAIRS / threads};

    b_side sides[] = {{.round = crowd_round, .arg = &one},
                      {.round = crowd_round, .arg = &many},
                      {.round = crowd_round, .arg = &others}};
    b_rounds_run(sides, 3, CROWD_ROUNDS);
    b_section(title, "one client", "other");
    report_crowd(alone, &sides[1], &sides[0], 0);
    report_crowd(others_name, &sides[1], &sides[2], target);

    b_rounds_fini(sides, 3);
    for (int i = 0; i < threads; i++) b_plain_fini(&plain[i]);
    hf_close(client);
}

static void report_threads(void) {
    crowds_of(8, "8 threads, 8 names, TCP", "pairs, against 1 thread", "pairs, against 8 hiredis",
              0);
    crowds_of(64, "64 threads, 64 names, TCP", "pairs of 64, against 1 thread",
              "pairs of 64, against 64 hiredis", CROWD_TARGET);
}

int main(int argc, char **argv) {
    b_report_begin("local", argc, argv);
    b_redis_start();
    commands_per_pair();
    in_the_process();
    report_threads();
    return 0;
}
