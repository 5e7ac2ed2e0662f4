/*
 * Sides that are compared take turns, in many short rounds: what else the machine does then falls on
 * all of them alike. The figure of a side is the median of its rounds.
 */
#ifndef B_ROUNDS_H
#define B_ROUNDS_H

#include "b_report.h"
#include "b_series.h"

/* One round, and its figure. May add to `each` what one repetition took. */
typedef double b_round_fn(void *arg, b_series *each);

typedef struct b_side {
    b_round_fn *round;
    void *arg;
    b_series rounds, each;
} b_side;

/* Two rounds of each side that do not count, then as many as asked for; they begin in turns. */
void b_rounds_run(b_side *sides, size_t count, size_t rounds);
void b_rounds_fini(b_side *sides, size_t count);

/* The first side in proportion to the second: a row of the report, with quartiles of the rounds. */
b_ratio b_rounds_ratio(const b_side *ours, const b_side *theirs);

/* One thing `count` times: ns per repetition; `each` gets ns, and may be NULL. */
typedef void b_repeat_fn(void *arg);
double b_repeat(b_repeat_fn *fn, void *arg, size_t count, b_series *each);

#endif
