/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides whether a sampled figure stayed flat over a run: the median of its last quarter is
 * compared with the median of its second quarter. The first quarter is left out, because caches,
 * arenas and new names fill up in it. Medians ignore single samples taken while a process was
 * stopped or a server was away. `factor` and `slack` say how much growth is allowed.
 */
#ifndef HF_SOAK_JUDGE_H
#define HF_SOAK_JUDGE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct judge_series {
    double *values;
    size_t count, capacity;
} judge_series;

typedef struct judge_verdict {
    double before, after; /* the medians */
    double allowed;       /* the limit for `after` */
    bool flat;
} judge_verdict;

/* False: out of memory. */
bool judge_add(judge_series *s, double value);
void judge_fini(judge_series *s);

/* Fewer than eight samples are too few, and are not flat. */
judge_verdict judge_flat(const judge_series *s, double factor, double slack);

#endif
