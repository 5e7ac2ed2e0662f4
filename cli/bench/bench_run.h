/* What `holdfast bench` measures, and how: threads that take locks for a while. */
#ifndef CLI_BENCH_BENCH_RUN_H
#define CLI_BENCH_BENCH_RUN_H

#include <stdbool.h>

#include "bench/histogram.h"
#include "common/store.h"

#define BENCH_THREADS_MAX 256

typedef enum bench_part {
    BENCH_ALONE,     /* one thread, one lock: a pair is an acquire and its release */
    BENCH_PARALLEL,  /* threads of one client, each with a lock of its own */
    BENCH_CONTENDED, /* clients that want the same lock: a hand-over is from release to next grant */
    BENCH_PARTS
} bench_part;

typedef struct bench_plan {
    const store *store;
    int64_t ms; /* of each part */
    unsigned threads;
    bool progress; /* on stderr */
} bench_plan;

typedef struct bench_outcome {
    double seconds;
    uint64_t acquired, commands;
    histogram durations; /* nanoseconds: of pairs, or of hand-overs */
    double server_us;    /* in scripts, for one acquisition; negative: not known */
} bench_outcome;

extern const char *const bench_names[BENCH_PARTS];

/* 0, or the exit code with the failure said. */
int bench_run(const bench_plan *plan, bench_part part, bench_outcome *outcome);

/* Delete what the locks have left in the store. */
void bench_clean(const bench_plan *plan);

/* From now on SIGINT, SIGTERM and SIGHUP end a part early; the number of the one that came, or
   0. */
void bench_watch_signals(void);
int bench_signalled(void);

#endif
