/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/findings.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/text.h"
#include "common/json.h"

#define LEVEL_COLUMN 9 /* columns */
#define CHECK_COLUMN 13
#define NARROW       60 /* columns; on a narrower terminal the text goes below its heading */
#define WIDEST       110
#define BAR_COLUMNS  30

static const char *const names[] = {"ok", "note", "warning", "error"};
static const char *const colours[] = {"\033[32m", "\033[36m", "\033[33m", "\033[1;31m"};

/* ---- Collecting ---- */

void findings_add(findings *all, severity level, const char *check, const char *means,
                  const char *change, const char *found, ...) {
    if (all->count == FINDINGS_MAX) return;
    finding *f = &all->list[all->count++];
    char text[FINDING_BYTES];
    va_list args;
    va_start(args, found);
    vsnprintf(text, sizeof text, found, args);
    va_end(args);
    hf__text_sanitize(f->found, sizeof f->found, text, strlen(text));
    f->level = level;
    f->check = check;
    f->means = means;
    f->change = change;
}

severity findings_worst(const findings *all) {
    severity worst = LEVEL_OK;
    for (size_t i = 0; i < all->count; i++)
        if (all->list[i].level > worst) worst = all->list[i].level;
    return worst;
}

/* ---- For people ---- */

typedef struct text_layout {
    size_t width, indent; /* width 0: lines are not wrapped */
    bool colour;
} text_layout;

static text_layout measure_stdout(void) {
    struct winsize size;
    const char *no_colour = getenv("NO_COLOR");
    bool terminal = isatty(STDOUT_FILENO);
    text_layout p = {.colour = terminal && !(no_colour && *no_colour)};
    if (terminal && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col)
        p.width = size.ws_col < WIDEST ? size.ws_col : WIDEST;
    p.indent = p.width && p.width < NARROW ? 2 : LEVEL_COLUMN + CHECK_COLUMN;
    return p;
}

static size_t count_characters(const char *text, size_t length) {
    size_t count = 0;
    for (size_t i = 0; i < length; i++) count += (text[i] & 0xc0) != 0x80;
    return count;
}

/* Writes words and wraps them at the width; further lines are indented. `column` is the current
   column. */
static void write_text(const text_layout *p, const char *text, size_t column) {
    bool first = true;
    while (*text) {
        size_t length = strcspn(text, " "), wide = count_characters(text, length);
        bool wrap = !first && p->width && column + 1 + wide > p->width;
        if (wrap) {
            printf("\n%*s", (int)p->indent, "");
            column = p->indent;
        } else if (!first) {
            putchar(' ');
            column++;
        }
        fwrite(text, 1, length, stdout);
        column += wide;
        first = false;
        text += length + strspn(text + length, " ");
    }
    putchar('\n');
}

static void write_below(const text_layout *p, const char *text) {
    if (!text) return;
    printf("%*s", (int)p->indent, "");
    write_text(p, text, p->indent);
}

static void write_finding(const text_layout *p, const finding *f) {
    bool narrow = p->indent < LEVEL_COLUMN;
    printf("%s%-*s%s", p->colour ? colours[f->level] : "", LEVEL_COLUMN - 1, names[f->level],
           p->colour ? "\033[0m" : "");
    if (narrow) {
        printf(" %s\n", f->check);
        write_below(p, f->found);
    } else {
        printf(" %-*s", CHECK_COLUMN, f->check);
        write_text(p, f->found, p->indent);
    }
    write_below(p, f->means);
    write_below(p, f->change);
}

static const char *format_us(uint64_t us, char text[24]) {
    if (us < 1000)
        snprintf(text, 24, "%" PRIu64 " us", us);
    else if (us < 1000000)
        snprintf(text, 24, "%.3g ms", (double)us / 1e3);
    else
        snprintf(text, 24, "%.3g s", (double)us / 1e6);
    return text;
}

static void write_latency(const text_layout *p, const latency_stats *l) {
    uint32_t most = 0, first = LATENCY_BUCKETS, last = 0;
    char text[24];
    for (uint32_t i = 0; i < LATENCY_BUCKETS; i++) {
        if (l->bucket[i] > most) most = l->bucket[i];
        if (l->bucket[i] && first == LATENCY_BUCKETS) first = i;
        if (l->bucket[i]) last = i;
    }
    size_t room = p->width ? p->width - p->indent : 80;
    uint32_t columns = room > 40 ? BAR_COLUMNS : 8;
    for (uint32_t i = first; i <= last && most; i++) {
        int bar = (int)((l->bucket[i] * columns + most - 1) / most);
        printf("%*sup to %7s  %5" PRIu32 "%s", (int)p->indent, "",
               format_us(UINT64_C(1) << i, text), l->bucket[i], bar ? "  " : "");
        while (bar-- > 0) putchar('#');
        putchar('\n');
    }
}

static void write_summary(const findings *all) {
    size_t counts[LEVEL_ERROR + 1] = {0};
    for (size_t i = 0; i < all->count; i++) counts[all->list[i].level]++;
    printf("\n%zu ok, %zu note%s, %zu warning%s, %zu error%s\n", counts[LEVEL_OK],
           counts[LEVEL_NOTE], counts[LEVEL_NOTE] == 1 ? "" : "s", counts[LEVEL_WARNING],
           counts[LEVEL_WARNING] == 1 ? "" : "s", counts[LEVEL_ERROR],
           counts[LEVEL_ERROR] == 1 ? "" : "s");
}

bool findings_show(const findings *all, const char *store) {
    text_layout p = measure_stdout();
    printf("The store is ");
    write_text(&(text_layout){.width = p.width, .indent = 2}, store, sizeof "The store is " - 1);
    putchar('\n');
    for (size_t i = 0; i < all->count; i++) {
        write_finding(&p, &all->list[i]);
        if (strcmp(all->list[i].check, "latency") == 0) write_latency(&p, &all->latency);
    }
    write_summary(all);
    return fflush(stdout) == 0 && !ferror(stdout);
}

/* ---- For programs ---- */

static void print_member(const char *before, const char *name, const char *value) {
    if (!value) return;
    printf("%s\"%s\":", before, name);
    json_write_string(stdout, value);
}

static void print_latency_member(const latency_stats *l) {
    if (!l->count) return;
    printf(",\"latency_us\":{\"count\":%" PRIu32 ",\"min\":%" PRId64 ",\"p50\":%" PRId64
           ",\"p90\":%" PRId64 ",\"p99\":%" PRId64 ",\"max\":%" PRId64 "}",
           l->count, l->least_us, l->median_us, l->p90_us, l->p99_us, l->most_us);
}

bool findings_show_json(const findings *all, const char *store) {
    print_member("{", "store", store);
    print_member(",", "level", names[findings_worst(all)]);
    printf(",\"findings\":[");
    for (size_t i = 0; i < all->count; i++) {
        const finding *f = &all->list[i];
        print_member(i ? ",\n{" : "\n{", "level", names[f->level]);
        print_member(",", "check", f->check);
        print_member(",", "found", f->found);
        print_member(",", "means", f->means);
        print_member(",", "change", f->change);
        putchar('}');
    }
    printf("]");
    print_latency_member(&all->latency);
    printf("}\n");
    return fflush(stdout) == 0 && !ferror(stdout);
}
