/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of each kind of lock, compared with a mutex in the same run: time, server time and
 * commands of an uncontended acquire and release. Then typical loads of the kinds: many readers of
 * one name, few permits for many threads, several names at once.
 */
#include <holdfast.h>
#include <stdio.h>
#include <unistd.h>

#include "b_crew.h"
#include "b_redis.h"
#include "b_rounds.h"

#define ROUNDS    11
#define PAIRS     500
#define THREADS   64
#define PERMITS   8
#define NAMES     4
#define WARM_UP_S 0.1
#define WATCH_S   0.4

/* ---- A pair without contention ---- */

typedef struct kind {
    const char *name;
    hf_options options;
} kind;

static const kind MUTEX = {"mutex", {.wait_ms = HF_FOREVER}};
static const kind KINDS[] = {
    {"read", {.wait_ms = HF_FOREVER, .kind = HF_READ}},
    {"write", {.wait_ms = HF_FOREVER, .kind = HF_WRITE}},
    {"upgradable", {.wait_ms = HF_FOREVER, .kind = HF_UPGRADABLE}},
    {"permits, 1 of 8", {.wait_ms = HF_FOREVER, .kind = HF_PERMITS, .capacity = PERMITS}},
};

/* One side of a row: the client, the kind of lock, and the figure to measure. */
typedef struct kind_side {
    hf_client *client;
    redisContext *c;
    const kind *kind;
    enum { TIME, SERVER_TIME, COMMANDS } figure;
    bool all, one_by_one; /* several names, at once or one by one */
} kind_side;

static void check_result(hf_result r) {
    if (r != HF_OK) b_fail("%s: %s", hf_result_name(r), hf_error_detail());
}

static void take_one(const kind_side *s) {
    hf_hold *hold;
    check_result(hf_acquire(s->client, "bench:kind", &s->kind->options, &hold));
    check_result(hf_release(hold));
}

static const char *const names[NAMES] = {"bench:a", "bench:b", "bench:c", "bench:d"};

static void take_all(const kind_side *s) {
    hf_request requests[NAMES];
    hf_hold *hold;
    for (int i = 0; i < NAMES; i++) requests[i] = (hf_request){.name = names[i]};
    check_result(hf_acquire_all(s->client, requests, NAMES, &MUTEX.options, &hold));
    check_result(hf_release(hold));
}

static void take_each(const kind_side *s) {
    hf_hold *holds[NAMES];
    for (int i = 0; i < NAMES; i++) check_result(hf_lock(s->client, names[i], &holds[i]));
    for (int i = NAMES; i-- > 0;) check_result(hf_release(holds[i]));
}

static void repeat_pair(void *arg) {
    const kind_side *s = arg;
    if (s->all)
        take_all(s);
    else if (s->one_by_one)
        take_each(s);
    else
        take_one(s);
}

static double round_of(void *arg, b_series *each) {
    const kind_side *s = arg;
    b_usage_reset(s->c);
    double ns = b_repeat(repeat_pair, arg, PAIRS, each);
    b_usage usage = b_usage_of(s->c, "evalsha");
    if (s->figure == SERVER_TIME) return (double)usage.usec * 1000 / PAIRS;
    return s->figure == COMMANDS ? (double)usage.calls / PAIRS : ns;
}

static void compare_sides(const char *name, kind_side ours, kind_side theirs, int figure) {
    ours.figure = theirs.figure = (unsigned)figure;
    b_side sides[] = {{.round = round_of, .arg = &ours}, {.round = round_of, .arg = &theirs}};
    b_rounds_run(sides, 2, ROUNDS);
    b_ratio row = b_rounds_ratio(&sides[0], &sides[1]);
    row.name = name;
    if (figure == COMMANDS) row.unit = "commands";
    if (figure != TIME) row.ours_p50 = row.ours_p99 = row.theirs_p50 = row.theirs_p99 = 0;
    b_report_ratio(&row);
    b_rounds_fini(sides, 2);
}

static void measure_pairs(hf_client *client, redisContext *c) {
    static const char *const titles[] = {"A pair of each kind", "Server time of a pair",
                                         "Commands of a pair"};
    for (int figure = TIME; figure <= COMMANDS; figure++) {
        b_section(titles[figure], "the kind", "mutex");
        for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++)
            compare_sides(KINDS[i].name, (kind_side){.client = client, .c = c, .kind = &KINDS[i]},
                          (kind_side){.client = client, .c = c, .kind = &MUTEX}, figure);
    }
}

static void measure_names(hf_client *client, redisContext *c) {
    static const char *const rows[] = {"time", "server time", "commands"};
    b_section("Four names", "at once", "one by one");
    for (int figure = TIME; figure <= COMMANDS; figure++)
        compare_sides(rows[figure], (kind_side){.client = client, .c = c, .all = true},
                      (kind_side){.client = client, .c = c, .one_by_one = true}, figure);
}

/* ---- Many threads ---- */

static void *open_client(void *arg, int process) {
    hf_client *client;
    (void)arg;
    (void)process;
    check_result(hf_open(b_redis_url(B_TCP), NULL, &client));
    return client;
}

static void close_client(void *client, int threads) {
    (void)threads;
    hf_close(client);
}

static void turn_of(hf_client *client, const hf_options *options) {
    hf_hold *hold;
    check_result(hf_acquire(client, "bench:crowd", options, &hold));
    check_result(hf_release(hold));
}

static void lock_mutex(void *client, int thread) {
    (void)thread;
    turn_of(client, &MUTEX.options);
}

static void write_shortly(void *client, int thread) {
    (void)thread;
    turn_of(client, &KINDS[1].options);
}

static void read_shortly(void *client, int thread) {
    (void)thread;
    turn_of(client, &KINDS[0].options);
}

static void take_permit(void *client, int thread) {
    (void)thread;
    turn_of(client, &KINDS[3].options);
}

/* One thread writes, the others read. */
static void read_or_write(void *client, int thread) {
    turn_of(client, thread == 0 ? &KINDS[1].options : &KINDS[0].options);
}

static void measure_load(redisContext *c, const char *name, int processes,
                         void (*turn)(void *, int)) {
    char text[80];
    b_work work = {.processes = processes,
                   .threads = THREADS / processes,
                   .enter = open_client,
                   .turn = turn,
                   .leave = close_client};
    b_crew *crew = b_crew_start(&work);
    b_sleep(WARM_UP_S);
    uint64_t before = b_crew_turns(crew);
    b_usage_reset(c);
    double seconds = b_sleep(WATCH_S);
    b_usage usage = b_usage_of(c, "evalsha");
    double turns = (double)(b_crew_turns(crew) - before);
    b_crew_end(crew);
    snprintf(text, sizeof text, "%s, %d x %d", name, processes, work.threads);
    b_report_value(text, turns / seconds, "a second", NULL);
    snprintf(text, sizeof text, "  commands of one");
    b_report_value(text, (double)usage.calls / turns, "", NULL);
    snprintf(text, sizeof text, "  server time of one");
    b_report_value(text, (double)usage.usec / turns, "us", NULL);
}

static void measure_crowds(redisContext *c) {
    b_section("64 threads on one name", "", "");
    for (int processes = 1; processes <= 4; processes *= 4) {
        measure_load(c, "mutex", processes, lock_mutex);
        measure_load(c, "writers", processes, write_shortly);
        measure_load(c, "readers", processes, read_shortly);
        measure_load(c, "readers and a writer", processes, read_or_write);
        measure_load(c, "permits, 8", processes, take_permit);
    }
}

int main(int argc, char **argv) {
    b_report_begin("kinds", argc, argv);
    b_redis_start();
    redisContext *c = b_redis_connect(B_UNIX);
    measure_crowds(c);
    hf_client *client = open_client(NULL, 0);
    measure_names(client, c);
    measure_pairs(client, c);
    hf_close(client);
    redisFree(c);
    return 0;
}
