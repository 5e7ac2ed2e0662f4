/* holdfast list: which locks are in use. */
#include "inspect/list.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "common/args.h"
#include "common/common.h"
#include "common/exits.h"
#include "common/say.h"
#include "common/show.h"
#include "common/span.h"
#include "common/store.h"
#include "holdfast.h"

#define ROWS_MAX 1000000 /* more are not shown, and that is said */
#define LEAST    8       /* columns that a name or a holder keeps */
#define APART    2

enum { JSON = COMMON_OWN };
enum { NAME, STATE, HOLDER, HELD, WAITING, COLUMNS };

static const char *const heads[COLUMNS] = {"NAME", "STATE", "HOLDER", "HELD FOR", "WAITING"};

typedef struct arguments {
    char *store;
    const char *pattern; /* NULL: all */
    bool json;
} arguments;

typedef struct row {
    char *name; /* unchanged, for comparing: names that differ may look alike in their cells */
    char *cell[COLUMNS];
} row;

typedef struct table {
    const store *store;
    const char *pattern; /* NULL: all */
    bool json, terminal;
    row *rows;
    size_t count, room;
    bool failed, full;
} table;

/* ---- Rows ---- */

/* "held", "read 3", "write", "permits 2/5", "free". */
static void state_of(char *text, size_t size, const hf_info *info) {
    if (!info->held)
        snprintf(text, size, "free");
    else if (info->kind == HF_PERMITS)
        snprintf(text, size, "permits %" PRIu32 "/%" PRIu32, info->used, info->capacity);
    else if (info->kind == HF_READ || info->kind == HF_UPGRADABLE)
        snprintf(text, size, "%s %" PRIu32, show_kind(info->kind), info->holders);
    else
        snprintf(text, size, "%s", info->kind == HF_WRITE ? "write" : "held");
}

/* For a program in whole seconds. */
static void held_of(char *text, const table *t, const hf_info *info) {
    if (!info->held)
        text[0] = '\0';
    else if (t->terminal)
        span_text(show_held_ms(info), text);
    else
        snprintf(text, SPAN_TEXT, "%" PRId64, show_held_ms(info) / 1000);
}

static char *cell(const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = malloc(size);
    if (copy) hf__text_tame(copy, size, text, size - 1);
    return copy;
}

static bool fill(row *r, const table *t, const char *name, const hf_info *info) {
    char state[64], holder[SHOW_TEXT] = "", held[SPAN_TEXT], waiting[16];
    state_of(state, sizeof state, info);
    if (info->held) show_holder(holder, sizeof holder, info);
    held_of(held, t, info);
    snprintf(waiting, sizeof waiting, "%" PRIu32, info->waiting);
    const char *const texts[COLUMNS] = {name, state, holder, held, waiting};
    bool whole = (r->name = strdup(name));
    for (int i = 0; i < COLUMNS; i++) whole = (r->cell[i] = cell(texts[i])) && whole;
    return whole;
}

static bool grow(table *t) {
    if (t->count < t->room) return true;
    size_t room = t->room ? 2 * t->room : 64;
    row *rows = realloc(t->rows, room * sizeof *rows);
    if (!rows) return false;
    t->rows = rows;
    t->room = room;
    return true;
}

static int32_t add(const char *name, const hf_info *info, void *arg) {
    table *t = arg;
    if (t->json && say_get() != QUIET) show_json_lock(name, info, t->store);
    if (t->json || say_get() == QUIET) {
        t->count++;
        return say_get() == QUIET;
    }
    t->full = t->count == ROWS_MAX;
    t->failed = !t->full && !grow(t);
    if (t->full || t->failed) return 1;
    t->failed = !fill(&t->rows[t->count++], t, name, info);
    return t->failed;
}

/* ---- The table ---- */

static int by_name(const void *a, const void *b) {
    return strcmp(((const row *)a)->name, ((const row *)b)->name);
}

static size_t width_of(const size_t wide[COLUMNS]) {
    size_t all = 0;
    for (int i = 0; i < COLUMNS; i++) all += wide[i] ? wide[i] + APART : 0;
    return all - APART;
}

/* Names and holders give way until it fits, the wider first. */
static bool shrink(size_t wide[COLUMNS], size_t width) {
    while (width_of(wide) > width) {
        int widest = wide[HOLDER] >= wide[NAME] ? HOLDER : NAME;
        if (wide[widest] <= LEAST) return false;
        wide[widest]--;
    }
    return true;
}

/* Where that is not enough, columns are left out (0): holders first, whom status tells of. */
static void fit(size_t wide[COLUMNS], size_t width) {
    static const int spare[] = {HOLDER, STATE};
    size_t natural[COLUMNS];
    memcpy(natural, wide, sizeof natural);
    for (size_t i = 0; !shrink(wide, width) && i < sizeof spare / sizeof *spare; i++) {
        natural[spare[i]] = 0;
        memcpy(wide, natural, sizeof natural);
    }
}

static void show_row(const char *const cells[COLUMNS], const size_t wide[COLUMNS]) {
    char text[SHOW_TEXT];
    for (int i = 0; i < COLUMNS; i++) {
        if (!wide[i]) continue;
        show_cut(text, sizeof text, cells[i], wide[i]);
        size_t pad = i < COLUMNS - 1 ? wide[i] - show_columns(text) + APART : 0;
        printf("%s%*s", text, (int)pad, "");
    }
    printf("\n");
}

static void show_table(const table *t, size_t width) {
    size_t wide[COLUMNS];
    for (int i = 0; i < COLUMNS; i++) {
        wide[i] = strlen(heads[i]);
        for (size_t k = 0; k < t->count; k++) {
            size_t columns = show_columns(t->rows[k].cell[i]);
            if (columns > wide[i]) wide[i] = columns;
        }
    }
    fit(wide, width);
    show_row(heads, wide);
    for (size_t k = 0; k < t->count; k++) show_row((const char *const *)t->rows[k].cell, wide);
}

static void show_tabs(const table *t) {
    for (size_t k = 0; k < t->count; k++)
        for (int i = 0; i < COLUMNS; i++)
            printf("%s%c", t->rows[k].cell[i], i < COLUMNS - 1 ? '\t' : '\n');
}

static void row_fini(row *r) {
    free(r->name);
    for (int i = 0; i < COLUMNS; i++) free(r->cell[i]);
}

/* A store may tell of a name twice. */
static void sort(table *t) {
    size_t kept = 0;
    if (t->count) qsort(t->rows, t->count, sizeof *t->rows, by_name);
    for (size_t k = 0; k < t->count; k++) {
        if (kept && !by_name(&t->rows[kept - 1], &t->rows[k]))
            row_fini(&t->rows[k]);
        else
            t->rows[kept++] = t->rows[k];
    }
    t->count = kept;
}

static void table_fini(table *t) {
    for (size_t k = 0; t->rows && k < t->count; k++) row_fini(&t->rows[k]);
    free(t->rows);
}

/* A pattern is for the whole name, as in a shell; who wrote a part of one is told how. */
static void say_none(const table *t) {
    const char *pattern = t->pattern, *where = t->store->shown;
    if (!pattern)
        say("no lock is in use, in %s", where);
    else if (strpbrk(pattern, "*?["))
        say("no lock whose name matches %s is in use, in %s", pattern, where);
    else
        say("no lock named %s is in use, in %s; '*%s*' finds it in a name", pattern, where,
            pattern);
}

static int show(table *t) {
    size_t width = show_width();
    if (t->failed) return fail(EXIT_SYSTEM, "out of memory");
    if (t->full) say("more than %d locks are in use: name a PATTERN", ROWS_MAX);
    if (t->rows) sort(t);
    if (t->rows && width)
        show_table(t, width);
    else if (t->rows)
        show_tabs(t);
    else if (!t->count && width && !t->json)
        say_none(t);
    return show_end(t->count ? 0 : 1);
}

/* ---- Listing ---- */

static int list(const arguments *a, const store *s) {
    hf_client *client;
    table t = {.store = s, .pattern = a->pattern, .json = a->json, .terminal = show_width() > 0};
    int code = store_open(s, &client);
    if (code) return code;
    hf_result r = hf_list(client, a->pattern, add, &t);
    code = r ? fail(exit_of(r), "cannot list the locks: %s", hf_error_detail()) : show(&t);
    table_fini(&t);
    hf_close(client);
    return code;
}

static int parse(arguments *a, int argc, char **argv) {
    static const struct option options[] = {
        {"store", required_argument, NULL, 'S'},  {"json", no_argument, NULL, JSON},
        {"quiet", no_argument, NULL, 'q'},        {"verbose", no_argument, NULL, COMMON_VERBOSE},
        {"help", no_argument, NULL, COMMON_HELP}, {0}};
    int c, code = ARGS_GO_ON;
    while (code == ARGS_GO_ON && (c = getopt_long(argc, argv, ":S:qh", options, NULL)) != -1) {
        if (c == JSON)
            a->json = true;
        else
            code = common_option("list", c, argv, &a->store);
    }
    if (code != ARGS_GO_ON) return code;
    a->pattern = argv[optind];
    if (optind + 1 < argc)
        return usage_error("list", "one PATTERN at a time, quoted; \"%s\" is too much",
                           WORD(argv[optind + 1]));
    return ARGS_GO_ON;
}

int list_main(int argc, char **argv) {
    arguments a = {0};
    store s;
    int code = parse(&a, argc, argv);
    if (code != ARGS_GO_ON) return code;
    code = store_choose(&s, a.store);
    if (!code) code = list(&a, &s);
    store_fini(&s);
    return code;
}
