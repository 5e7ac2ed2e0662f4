/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sides of a comparison take turns in many short rounds, so that other load on the machine
 * affects all of them alike. The figure of a side is the median of its rounds.
 */
#ifndef B_ROUNDS_H
#define B_ROUNDS_H

#include "b_report.h"
#include "b_series.h"

/* Runs one round and returns its figure. May add the time of each repetition to `each`. */
typedef double b_round_fn(void *arg, b_series *each);

typedef struct b_side {
    b_round_fn *round;
    void *arg;
    b_series rounds, each;
} b_side;

/* Runs two warm-up rounds of each side, then `rounds` of each. The sides take turns to begin. */
void b_rounds_run(b_side *sides, size_t count, size_t rounds);
void b_rounds_fini(b_side *sides, size_t count);

/* A row of the report: the first side relative to the second, with quartiles over the rounds. */
b_ratio b_rounds_ratio(const b_side *ours, const b_side *theirs);

/* Repeats one operation `count` times. Returns ns per repetition; `each` gets ns, and may be
   NULL. */
typedef void b_repeat_fn(void *arg);
double b_repeat(b_repeat_fn *fn, void *arg, size_t count, b_series *each);

#endif
