/* SPDX-License-Identifier: Apache-2.0 */
/* A series of figures and its quantiles. */
#ifndef B_SERIES_H
#define B_SERIES_H

#include <stddef.h>

typedef struct b_series {
    double *values;
    size_t count, size;
} b_series;

void b_series_add(b_series *s, double value);
void b_series_clear(b_series *s);
void b_series_fini(b_series *s);

/* The value below which this share of the series lies: 0.5 is the median. 0 if it is empty. */
double b_series_quantile(const b_series *s, double share);
double b_series_median(const b_series *s);

#endif
