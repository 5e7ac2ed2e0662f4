/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows of the report: aligned columns for people, or with --json one object per line. A missed
 * target is not a failure: the exit status stays 0.
 */
#ifndef B_REPORT_H
#define B_REPORT_H

#include <stdbool.h>

/* `bench` names the program. Accepts --json and nothing else. */
void b_report_begin(const char *bench, int argc, char **argv);

/* A heading, and the titles of the two columns of figures; "" for an unused column. */
void b_section(const char *title, const char *ours, const char *theirs);

/* Two sides and their ratio. Times are given in ns and shown in µs. */
typedef struct b_ratio {
    const char *name;
    const char *unit;          /* NULL: µs, from ns */
    double ours, theirs;       /* medians of rounds */
    double low, high;          /* quartiles of the ratio, per round */
    double ours_p50, ours_p99; /* of one repetition; 0: not measured */
    double theirs_p50, theirs_p99;
    double target; /* upper limit of the ratio; 0: none */
    bool at_least; /* lower limit */
} b_ratio;

void b_report_ratio(const b_ratio *row);

/* One figure. `note` may be NULL. */
void b_report_value(const char *name, double value, const char *unit, const char *note);

/* One figure that should equal the expected one, to two decimals. */
void b_report_exact(const char *name, double value, double expected);

/* One figure with a target: an upper or a lower limit. */
typedef enum b_bound { B_AT_MOST, B_AT_LEAST } b_bound;
void b_report_bound(const char *name, double value, const char *unit, b_bound bound, double target);

/* Prints one line on stderr and exits with 1: nothing was measured. */
_Noreturn void b_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
