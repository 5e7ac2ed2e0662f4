/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulator.
 *
 *     sim [--seeds N] [--first S] [--jobs J]      run that many seeds, starting with the first
 *     sim --seed S [--trace]                      run one seed; print everything that happens
 *     sim --repeat N                              run seeds twice: both runs must be the same
 *
 * A failing seed is run again to print the end of its trace.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "model/lua.h"
#include "world/world.h"

typedef struct sim_options {
    uint64_t first, seeds, repeat, jobs;
    bool one, trace;
} sim_options;

static void exit_with_usage(void) {
    fputs("usage: sim [--seeds N] [--first S] [--jobs J] | --seed S [--trace] | --repeat N\n",
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

static sim_options parse_options(int argc, char **argv) {
    sim_options o = {.first = 1, .seeds = 1000, .jobs = 1};
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--seeds"))
            o.seeds = read_number(argc, argv, &i);
        else if (!strcmp(argv[i], "--first"))
            o.first = read_number(argc, argv, &i);
        else if (!strcmp(argv[i], "--jobs"))
            o.jobs = read_number(argc, argv, &i);
        else if (!strcmp(argv[i], "--repeat"))
            o.repeat = read_number(argc, argv, &i);
        else if (!strcmp(argv[i], "--trace"))
            o.trace = true;
        else if (!strcmp(argv[i], "--seed")) {
            o.first = read_number(argc, argv, &i);
            o.seeds = 1;
            o.one = true;
        } else {
            exit_with_usage();
        }
    }
    return o;
}

/* Ends the process at once, so a leak checker does not report the memory of a failed run. */
static _Noreturn void report_failure(uint64_t seed) {
    sim_result result;
    printf("seed %" PRIu64 " fails; the end of its trace:\n", seed);
    sim_run(seed, SIM_TRACE_END, &result);
    printf("seed %" PRIu64 ": %s\nThe whole trace: sim --seed %" PRIu64 " --trace\n", seed,
           result.why, seed);
    fflush(stdout);
    _exit(1);
}

static void add_counts(sim_counts *sum, const sim_counts *c) {
    sum->entered += c->entered;
    sum->reentered += c->reentered;
    sum->lost += c->lost;
    sum->refused += c->refused;
    sum->scripts += c->scripts;
    sum->late_scripts += c->late_scripts;
    sum->excused += c->excused;
}

static int run_range(uint64_t first, uint64_t count, uint64_t stride) {
    sim_counts sum = {0};
    for (uint64_t n = 0; n < count; n++) {
        sim_result result;
        sim_run(first + n * stride, SIM_SILENT, &result);
        if (!result.good) report_failure(first + n * stride);
        add_counts(&sum, &result.counts);
    }
    printf("%" PRIu64 " seeds: %ld entered, %ld re-entered, %ld refused, %ld lost; %ld scripts, "
           "%ld of them late; %ld overlaps excused\n",
           count, sum.entered, sum.reentered, sum.refused, sum.lost, sum.scripts, sum.late_scripts,
           sum.excused);
    return 0;
}

static int run_jobs(const sim_options *o) {
    int status = 0, failed = 0;
    for (uint64_t job = 0; job < o->jobs; job++) {
        pid_t pid = fork();
        if (pid < 0) return 1;
        if (pid) continue;
        uint64_t count = (o->seeds - job + o->jobs - 1) / o->jobs;
        int result = run_range(o->first + job, count, o->jobs);
        rm_lua_fini();
        fflush(stdout);
        _exit(result);
    }
    for (uint64_t job = 0; job < o->jobs; job++)
        if (wait(&status) < 0 || status != 0) failed = 1;
    return failed;
}

static int run_one(const sim_options *o) {
    sim_result result;
    sim_run(o->first, o->trace ? SIM_TRACE_ALL : SIM_TRACE_END, &result);
    printf("seed %" PRIu64 ": %s\n", o->first, result.good ? "good" : result.why);
    fflush(stdout);
    if (!result.good) _exit(1);
    return 0;
}

static int run_twice(const sim_options *o) {
    for (uint64_t seed = o->first; seed < o->first + o->repeat; seed++) {
        sim_result a, b;
        sim_run(seed, SIM_TRACE_HASH, &a);
        sim_run(seed, SIM_TRACE_HASH, &b);
        if (a.hash == b.hash && a.steps == b.steps && a.good) continue;
        printf("seed %" PRIu64 ": it failed, or differs when run again\n", seed);
        return 1;
    }
    printf("%" PRIu64 " seeds are the same when run again\n", o->repeat);
    return 0;
}

int main(int argc, char **argv) {
    sim_options o = parse_options(argc, argv);
    int status = o.repeat     ? run_twice(&o)
                 : o.one      ? run_one(&o)
                 : o.jobs > 1 ? run_jobs(&o)
                              : run_range(o.first, o.seeds, 1);
    rm_lua_fini();
    return status;
}
