/*
 * Rows of the report, for people aligned in columns, or with --json one object to a line. A target
 * that is missed is a finding, not a failure: the exit status stays 0.
 */
#ifndef B_REPORT_H
#define B_REPORT_H

#include <stdbool.h>

/* `bench` names the program. Understands --json, refuses all else. */
void b_report_begin(const char *bench, int argc, char **argv);

/* A heading, and what the two columns of figures hold; "" for a column that is not used. */
void b_section(const char *title, const char *ours, const char *theirs);

/* Two sides and their ratio. Times are given in ns and shown in µs. */
typedef struct b_ratio {
    const char *name;
    const char *unit;          /* NULL: µs, from ns */
    double ours, theirs;       /* medians of rounds */
    double low, high;          /* quartiles of the ratio, round by round */
    double ours_p50, ours_p99; /* of one repetition; 0: not measured */
    double theirs_p50, theirs_p99;
    double target; /* the ratio must not be above; 0: none */
    bool at_least; /* must not be below */
} b_ratio;

void b_report_ratio(const b_ratio *row);

/* One figure. `note` may be NULL. */
void b_report_value(const char *name, double value, const char *unit, const char *note);

/* One figure that should be what is expected, to two decimals. */
void b_report_exact(const char *name, double value, double expected);

/* One figure that must not be above a target, or not below it. */
typedef enum b_bound { B_AT_MOST, B_AT_LEAST } b_bound;
void b_report_bound(const char *name, double value, const char *unit, b_bound bound, double target);

/* One line to stderr, then exit 1: nothing was measured. */
_Noreturn void b_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
