/* SPDX-License-Identifier: Apache-2.0 */
/* See judge.h. */
#include "judge.h"

#include <stdlib.h>
#include <string.h>

enum { SAMPLES_MIN = 8, ROOM_FIRST = 256 };

bool judge_add(judge_series *s, double value) {
    if (s->count == s->capacity) {
        size_t capacity = s->capacity ? s->capacity * 2 : ROOM_FIRST;
        double *values = realloc(s->values, capacity * sizeof *values);
        if (!values) return false;
        s->values = values;
        s->capacity = capacity;
    }
    s->values[s->count++] = value;
    return true;
}

void judge_fini(judge_series *s) {
    free(s->values);
    *s = (judge_series){0};
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(const double *values, size_t count) {
    double *sorted = malloc(count * sizeof *sorted);
    if (!sorted) abort();
    memcpy(sorted, values, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, compare_doubles);
    double middle = sorted[count / 2];
    free(sorted);
    return middle;
}

judge_verdict judge_flat(const judge_series *s, double factor, double slack) {
    judge_verdict v = {0};
    size_t quarter = s->count / 4;
    if (s->count < SAMPLES_MIN) return v;
    v.before = median_of(s->values + quarter, quarter);
    v.after = median_of(s->values + s->count - quarter, quarter);
    v.allowed = v.before * factor + slack;
    v.flat = v.after <= v.allowed;
    return v;
}
