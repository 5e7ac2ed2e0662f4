/* SPDX-License-Identifier: Apache-2.0 */
#include "b_series.h"

#include <stdlib.h>
#include <string.h>

#include "b_report.h"

void b_series_add(b_series *s, double value) {
    if (s->count == s->size) {
        s->size = s->size ? s->size * 2 : 1024;
        s->values = realloc(s->values, s->size * sizeof *s->values);
        if (!s->values) b_fail("out of memory");
    }
    s->values[s->count++] = value;
}

void b_series_clear(b_series *s) {
    s->count = 0;
}

void b_series_fini(b_series *s) {
    free(s->values);
    *s = (b_series){0};
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double b_series_quantile(const b_series *s, double share) {
    if (!s->count) return 0;
    double *sorted = malloc(s->count * sizeof *sorted);
    if (!sorted) b_fail("out of memory");
    memcpy(sorted, s->values, s->count * sizeof *sorted);
    qsort(sorted, s->count, sizeof *sorted, compare_doubles);
    double at = share * (double)(s->count - 1);
    size_t below = (size_t)at, above = below + 1 < s->count ? below + 1 : below;
    double value = sorted[below] + (at - (double)below) * (sorted[above] - sorted[below]);
    free(sorted);
    return value;
}

double b_series_median(const b_series *s) {
    return b_series_quantile(s, 0.5);
}
