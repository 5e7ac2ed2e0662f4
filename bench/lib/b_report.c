/* SPDX-License-Identifier: Apache-2.0 */
#include "b_report.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_WIDTH  34
#define VALUE_WIDTH 15

static const char *program = "bench";
static bool json;

void b_fail(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fprintf(stderr, "%s: ", program);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

void b_report_begin(const char *bench, int argc, char **argv) {
    program = bench;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--json") != 0) b_fail("usage: %s [--json]", bench);
        json = true;
    }
}

/* ---- Columns ---- */

/* Columns as a reader counts them: continuation bytes of UTF-8 (10xxxxxx) do not count. */
static int count_columns(const char *text) {
    int n = 0;
    for (; *text; text++) n += (*text & 0xc0) != 0x80;
    return n;
}

static void print_left(const char *text, int width) {
    printf("%s%*s", text, width > count_columns(text) ? width - count_columns(text) : 0, "");
}

static void print_right(const char *text, int width) {
    printf("%*s%s", width > count_columns(text) ? width - count_columns(text) : 0, "", text);
}

/* Three significant digits, and at most two decimals. */
static void format_figure(char out[64], double value, const char *unit) {
    int decimals = fabs(value) >= 1000 ? 0 : fabs(value) >= 100 ? 1 : 2;
    snprintf(out, 64, "%.*f%s%s", decimals, value, *unit ? " " : "", unit);
}

static void figure_column(double value, const char *unit) {
    char text[64];
    format_figure(text, value, unit);
    print_right(text, VALUE_WIDTH);
}

void b_section(const char *title, const char *ours, const char *theirs) {
    if (json) return;
    putchar('\n');
    print_left(title, NAME_WIDTH);
    print_right(ours, VALUE_WIDTH);
    print_right(theirs, VALUE_WIDTH);
    puts(*theirs ? "   ratio (quartiles)    target" : "");
}

/* ---- Rows ---- */

static bool is_met(double value, b_bound bound, double target) {
    return bound == B_AT_LEAST ? value >= target : value <= target;
}

static b_bound bound_of(const b_ratio *r) {
    return r->at_least ? B_AT_LEAST : B_AT_MOST;
}

static void text_target(double value, b_bound bound, double target) {
    printf("  %s %.2f  %s", bound == B_AT_LEAST ? "≥" : "≤", target,
           is_met(value, bound, target) ? "met" : "missed");
}

static void text_percentile(const char *name, double ours, double theirs, const char *unit) {
    printf("    ");
    print_left(name, NAME_WIDTH - 4);
    figure_column(ours, unit);
    figure_column(theirs, unit);
    printf("%8.2f\n", ours / theirs);
}

static void text_ratio(const b_ratio *r, double scale, const char *unit) {
    double ratio = r->ours / r->theirs;
    printf("  ");
    print_left(r->name, NAME_WIDTH - 2);
    figure_column(r->ours * scale, unit);
    figure_column(r->theirs * scale, unit);
    printf("%8.2f (%.2f-%.2f)", ratio, r->low, r->high);
    if (r->target > 0) text_target(ratio, bound_of(r), r->target);
    putchar('\n');
    if (r->ours_p50 <= 0) return;
    text_percentile("p50", r->ours_p50 * scale, r->theirs_p50 * scale, unit);
    text_percentile("p99", r->ours_p99 * scale, r->theirs_p99 * scale, unit);
}

static void json_ratio(const b_ratio *r, double scale, const char *unit) {
    double ratio = r->ours / r->theirs;
    printf("{\"bench\":\"%s\",\"name\":\"%s\",\"unit\":\"%s\",\"ours\":%.4f,\"theirs\":%.4f,"
           "\"ratio\":%.4f,\"ratio_quartiles\":[%.4f,%.4f]",
           program, r->name, unit, r->ours * scale, r->theirs * scale, ratio, r->low, r->high);
    if (r->ours_p50 > 0)
        printf(",\"ours_p50\":%.4f,\"ours_p99\":%.4f,\"theirs_p50\":%.4f,\"theirs_p99\":%.4f",
               r->ours_p50 * scale, r->ours_p99 * scale, r->theirs_p50 * scale,
               r->theirs_p99 * scale);
    if (r->target > 0)
        printf(",\"target\":%.2f,\"met\":%s", r->target,
               is_met(ratio, bound_of(r), r->target) ? "true" : "false");
    puts("}");
}

void b_report_ratio(const b_ratio *row) {
    double scale = row->unit ? 1 : 1e-3;
    const char *unit = row->unit ? row->unit : "µs";
    if (json)
        json_ratio(row, scale, unit);
    else
        text_ratio(row, scale, unit);
}

void b_report_value(const char *name, double value, const char *unit, const char *note) {
    if (json) {
        printf("{\"bench\":\"%s\",\"name\":\"%s\",\"unit\":\"%s\",\"value\":%.4f}\n", program, name,
               unit, value);
        return;
    }
    printf("  ");
    print_left(name, NAME_WIDTH - 2);
    figure_column(value, unit);
    printf("%s%s\n", note ? "   " : "", note ? note : "");
}

void b_report_exact(const char *name, double value, double expected) {
    bool same = fabs(value - expected) < 0.005;
    if (json) {
        printf("{\"bench\":\"%s\",\"name\":\"%s\",\"value\":%.4f,\"target\":%.2f,\"met\":%s}\n",
               program, name, value, expected, same ? "true" : "false");
        return;
    }
    printf("  ");
    print_left(name, NAME_WIDTH - 2);
    figure_column(value, "");
    printf("   = %.2f  %s\n", expected, same ? "met" : "missed");
}

void b_report_bound(const char *name, double value, const char *unit, b_bound bound,
                    double target) {
    if (json) {
        printf("{\"bench\":\"%s\",\"name\":\"%s\",\"unit\":\"%s\",\"value\":%.4f,"
               "\"target\":%.2f,\"met\":%s}\n",
               program, name, unit, value, target, is_met(value, bound, target) ? "true" : "false");
        return;
    }
    printf("  ");
    print_left(name, NAME_WIDTH - 2);
    figure_column(value, unit);
    text_target(value, bound, target);
    putchar('\n');
}
