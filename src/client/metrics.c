/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The statistics as OpenMetrics text: one family after the other, from two lists and two
 * histograms.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "client/client.h"

/* The output buffer. Text that does not fit is dropped, and sets `full`. */
typedef struct page {
    char *at;
    size_t left;
    bool full;
} page;

__attribute__((format(printf, 2, 3))) static void add_text(page *p, const char *format, ...) {
    va_list args;
    if (p->full) return;
    va_start(args, format);
    int length = vsnprintf(p->at, p->left, format, args);
    va_end(args);
    p->full = length < 0 || (size_t)length >= p->left;
    if (p->full) return;
    p->at += length;
    p->left -= (size_t)length;
}

/* ---- Numbers ---- */

typedef struct family {
    const char *name, *help;
    size_t offset;
} family;

#define FIELD(name, help) \
    { #name, help, offsetof(hf_stats, name) }

static const family counters[] = {
    FIELD(acquired, "Ownerships granted."),
    FIELD(reentered, "Acquires that joined an ownership."),
    FIELD(released, "Ownerships ended by their holder."),
    FIELD(refused, "Acquires that ended without the lock."),
    FIELD(lost, "Ownerships lost."),
    FIELD(renewed, "Renewals confirmed by the store."),
    FIELD(handed_over, "Acquires that waited while another had the lock and then got it."),
    FIELD(commands, "Commands sent to the store."),
    FIELD(reconnects, "Connections to the store made after the first."),
};

static const family gauges[] = {
    FIELD(held, "Ownerships now."),
    FIELD(waiting, "Calls that wait now."),
};

static uint64_t value_of(const hf_stats *stats, const family *f) {
    uint64_t value;
    memcpy(&value, (const char *)stats + f->offset, sizeof value);
    return value;
}

static void add_number(page *p, const family *f, const char *type, const char *suffix,
                       uint64_t value) {
    add_text(p, "# TYPE holdfast_%s %s\n# HELP holdfast_%s %s\nholdfast_%s%s %" PRIu64 "\n",
             f->name, type, f->name, f->help, f->name, suffix, value);
}

static void add_numbers(page *p, const hf_stats *stats) {
    for (size_t i = 0; i < sizeof counters / sizeof *counters; i++)
        add_number(p, &counters[i], "counter", "_total", value_of(stats, &counters[i]));
    for (size_t i = 0; i < sizeof gauges / sizeof *gauges; i++)
        add_number(p, &gauges[i], "gauge", "", value_of(stats, &gauges[i]));
}

/* ---- Histograms ---- */

/* Seconds with microseconds; not with %f, which depends on the locale. */
#define SECONDS    "%" PRIu64 ".%06" PRIu64
#define AS(number) (number) / 1000000, (number) % 1000000

static void add_histogram(page *p, const char *name, const char *help, const hf_histogram *h) {
    uint64_t below = 0;
    add_text(p, "# TYPE holdfast_%s_seconds histogram\n# UNIT holdfast_%s_seconds seconds\n", name,
             name);
    add_text(p, "# HELP holdfast_%s_seconds %s\n", name, help);
    for (unsigned i = 0; i + 1 < HF_BUCKETS; i++) {
        uint64_t bound = UINT64_C(1) << i;
        below += h->bucket[i];
        add_text(p, "holdfast_%s_seconds_bucket{le=\"" SECONDS "\"} %" PRIu64 "\n", name, AS(bound),
                 below);
    }
    add_text(p, "holdfast_%s_seconds_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, h->count);
    add_text(p, "holdfast_%s_seconds_count %" PRIu64 "\n", name, h->count);
    add_text(p, "holdfast_%s_seconds_sum " SECONDS "\n", name, AS(h->sum_us));
}

/* ---- The whole text ---- */

hf_result hf_metrics_text(hf_client *c, char *buffer, size_t size) {
    hf_stats stats;
    if (!buffer || !size)
        return hf__fail(HF_INVALID, "hf_metrics_text needs a buffer for the text");
    *buffer = '\0';
    hf_result r = hf_stats_get_v(c, &stats, sizeof stats);
    if (r) return r;
    page p = {.at = buffer, .left = size};
    add_text(
        &p, "# TYPE holdfast info\n# HELP holdfast The library.\nholdfast_info{version=\"%s\"} 1\n",
        hf_version());
    add_numbers(&p, &stats);
    add_histogram(&p, "wait", "From the call of a granted acquire to its grant.", &stats.waits);
    add_histogram(&p, "hold", "From a grant to its release or loss.", &stats.holds);
    add_text(&p, "# EOF\n");
    if (!p.full) return HF_OK;
    *buffer = '\0';
    return hf__fail(HF_INVALID, "a buffer of %zu bytes is too small for the text: use %d", size,
                    HF_METRICS_MAX);
}
