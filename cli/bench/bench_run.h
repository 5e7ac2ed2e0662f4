/* SPDX-License-Identifier: Apache-2.0 */
/* The measurements of `holdfast bench`: threads that acquire and release locks. */
#ifndef CLI_BENCH_BENCH_RUN_H
#define CLI_BENCH_BENCH_RUN_H

#include <stdbool.h>

#include "bench/histogram.h"
#include "common/store.h"

#define BENCH_THREADS_MAX 256

typedef enum bench_part {
    BENCH_ALONE,     /* one thread, one lock: times an acquire and its release */
    BENCH_PARALLEL,  /* threads of one client, each with its own lock */
    BENCH_CONTENDED, /* clients that compete for one lock: times release to next grant */
    BENCH_PARTS
} bench_part;

typedef struct bench_plan {
    const store *store;
    int64_t ms; /* length of each part */
    unsigned threads;
    bool progress; /* on stderr */
} bench_plan;

typedef struct bench_outcome {
    double seconds;
    uint64_t acquired, commands;
    histogram durations; /* in nanoseconds, of pairs or of hand-overs */
    double server_us;    /* time in scripts per acquisition; negative: unknown */
} bench_outcome;

extern const char *const bench_names[BENCH_PARTS];

/* Returns 0, or the exit code after printing the error. */
int bench_run(const bench_plan *plan, bench_part part, bench_outcome *outcome);

/* Deletes what the locks have left in the store. */
void bench_clean(const bench_plan *plan);

/* After bench_watch_signals, SIGINT, SIGTERM and SIGHUP end a part early. bench_signalled
   returns the signal that came, or 0. */
void bench_watch_signals(void);
int bench_signalled(void);

#endif
