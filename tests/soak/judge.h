/*
 * Whether a figure that was sampled over a run stayed flat: the median of its last quarter is compared
 * with that of its second. The first quarter is left out, in which caches, arenas and names that are new
 * fill up; medians do not mind a sample taken while a process was stopped or a server was away. What is
 * left to grow is `factor` and `slack`.
 */
#ifndef HF_SOAK_JUDGE_H
#define HF_SOAK_JUDGE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct judge_series {
    double *values;
    size_t count, room;
} judge_series;

typedef struct judge_verdict {
    double before, after; /* the medians */
    double allowed;       /* the most that `after` may be */
    bool flat;
} judge_verdict;

/* False: out of memory. */
bool judge_add(judge_series *s, double value);
void judge_fini(judge_series *s);

/* Fewer than eight samples are too few, and are not flat. */
judge_verdict judge_flat(const judge_series *s, double factor, double slack);

#endif
