/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plants bugs one at a time, and checks that the simulator finds each.
 *
 *     sim_planted [--seeds N] [--jobs J] [PATTERN]     N seeds for each bug whose name matches;
 *                                                      --sound N: and N seeds without a bug
 *     sim_planted --bug NUMBER --seed S                run one seed with one bug, with its trace
 *
 * It prints a line for each bug: found, with the seed; or MISSED. First it runs seeds without a
 * bug, which must not fail. Each bug runs in its own process.
 */
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "planted/planted.h"
#include "world/world.h"

#define SEEDS         10000
#define SEEDS_WITHOUT 300

enum { FOUND = 0, MISSED = 3 };

typedef struct planted_options {
    const char *pattern;
    uint64_t seeds, sound, seed;
    int jobs, bug;
} planted_options;

static void exit_with_usage(void) {
    fputs(
        "usage: sim_planted [--seeds N] [--sound N] [--jobs J] [PATTERN] | --bug NUMBER --seed S\n",
        stderr);
    exit(2);
}

static uint64_t read_number(int argc, char **argv, int *i) {
    char *end;
    if (*i + 1 >= argc) exit_with_usage();
    uint64_t n = strtoull(argv[++*i], &end, 10);
    if (*end) exit_with_usage();
    return n;
}

static planted_options parse_options(int argc, char **argv) {
    planted_options o = {.pattern = "*", .seeds = SEEDS, .sound = SEEDS_WITHOUT, .jobs = 1};
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--seeds"))
            o.seeds = read_number(argc, argv, &i);
        else if (!strcmp(argv[i], "--sound"))
            o.sound = read_number(argc, argv, &i);
        else if (!strcmp(argv[i], "--jobs"))
            o.jobs = (int)read_number(argc, argv, &i);
        else if (!strcmp(argv[i], "--bug"))
            o.bug = (int)read_number(argc, argv, &i);
        else if (!strcmp(argv[i], "--seed"))
            o.seed = read_number(argc, argv, &i);
        else if (argv[i][0] == '-')
            exit_with_usage();
        else
            o.pattern = argv[i];
    }
    return o;
}

/* 0 plants nothing. */
static void plant_bug(int bug) {
    bool lua = bug && sim_bugs[bug - 1].lua.sha1;
    rm_lua_rewrite(lua ? &sim_bugs[bug - 1].lua : NULL);
    sim_planted = bug;
}

/* Returns the first seed that fails; 0 if none does. */
static uint64_t find_failing_seed(uint64_t first, uint64_t seeds, sim_result *result) {
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        sim_run(seed, SIM_SILENT, result);
        if (!result->good) return seed;
    }
    return 0;
}

static int look_for(int bug, uint64_t seeds) {
    sim_result result;
    plant_bug(bug);
    uint64_t seed = find_failing_seed(sim_bugs[bug - 1].first, seeds, &result);
    if (seed)
        printf("found   %2d %s: seed %" PRIu64 ", %s\n", bug, sim_bugs[bug - 1].name, seed,
               result.why);
    else
        printf("MISSED  %2d %s\n", bug, sim_bugs[bug - 1].name);
    fflush(stdout);
    return seed ? FOUND : MISSED;
}

static int run_without_bug(uint64_t seeds) {
    sim_result result;
    plant_bug(0);
    uint64_t seed = find_failing_seed(1, seeds, &result);
    if (seed) printf("without a planted bug seed %" PRIu64 " fails: %s\n", seed, result.why);
    fflush(stdout);
    return seed ? 1 : 0;
}

static int run_one(const planted_options *o) {
    sim_result result;
    plant_bug(o->bug);
    sim_run(o->seed, SIM_TRACE_END, &result);
    printf("seed %" PRIu64 ": %s\n", o->seed, result.good ? "good" : result.why);
    return 0;
}

/* -1 is the run without a bug. */
static void start_bug(int bug, const planted_options *o) {
    pid_t pid = fork();
    if (pid < 0) exit(2);
    if (pid) return;
    _exit(bug < 0 ? run_without_bug(o->sound) : look_for(bug, o->seeds));
}

static int await_one(void) {
    int status;
    return wait(&status) < 0 || status != 0;
}

int main(int argc, char **argv) {
    planted_options o = parse_options(argc, argv);
    if (o.bug) return run_one(&o);
    int running = 0, failed = 0, count = 0;
    for (int bug = -1; bug < 0 || sim_bugs[bug - 1].name; bug += bug < 0 ? 2 : 1) {
        if (bug > 0 && fnmatch(o.pattern, sim_bugs[bug - 1].name, 0) != 0) continue;
        if (running == o.jobs) {
            failed += await_one();
            running--;
        }
        start_bug(bug, &o);
        running++;
        count += bug > 0;
    }
    while (running--) failed += await_one();
    printf("%d bugs, %d failures\n", count, failed);
    return failed || !count;
}
