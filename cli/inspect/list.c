/* SPDX-License-Identifier: Apache-2.0 */
/* holdfast list: the locks in use. */
#include "inspect/list.h"

#include <getopt.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "common/duration.h"
#include "common/exit_codes.h"
#include "common/message.h"
#include "common/options.h"
#include "common/show.h"
#include "common/store.h"
#include "holdfast.h"

#define ROWS_MAX   1000000 /* a message says if there are more */
#define WIDTH_MIN  8       /* of a name or holder */
#define COLUMN_GAP 2

enum { JSON = COMMON_OWN };
enum { NAME, STATE, HOLDER, HELD, WAITING, COLUMNS };

static const char *const heads[COLUMNS] = {"NAME", "STATE", "HOLDER", "HELD FOR", "WAITING"};

typedef struct list_args {
    char *store;
    const char *pattern; /* NULL: all */
    bool json;
} list_args;

typedef struct list_row {
    char *name; /* unchanged, for comparing: different names may look the same in their cells */
    char *cell[COLUMNS];
} list_row;

typedef struct list_table {
    const store *store;
    const char *pattern; /* NULL: all */
    bool json, terminal;
    list_row *rows;
    size_t count, room;
    bool failed, full;
} list_table;

/* ---- Rows ---- */

/* On a terminal a duration, otherwise whole seconds. */
static void format_held(char *text, const list_table *t, const hf_info *info) {
    if (!info->held)
        text[0] = '\0';
    else if (t->terminal)
        duration_text(show_held_ms(info), text);
    else
        snprintf(text, DURATION_TEXT, "%" PRId64, show_held_ms(info) / 1000);
}

static char *make_cell(const char *text) {
    size_t size = strlen(text) + 1;
    char *copy = malloc(size);
    if (copy) hf__text_sanitize(copy, size, text, size - 1);
    return copy;
}

static bool fill_row(list_row *r, const list_table *t, const char *name, const hf_info *info) {
    char state[64], holder[SHOW_TEXT] = "", held[DURATION_TEXT], waiting[16];
    show_state_word(state, sizeof state, info);
    if (info->held) show_holder(holder, sizeof holder, info);
    format_held(held, t, info);
    snprintf(waiting, sizeof waiting, "%" PRIu32, info->waiting);
    const char *const texts[COLUMNS] = {name, state, holder, held, waiting};
    bool whole = (r->name = strdup(name));
    for (int i = 0; i < COLUMNS; i++) whole = (r->cell[i] = make_cell(texts[i])) && whole;
    return whole;
}

static bool grow_table(list_table *t) {
    if (t->count < t->room) return true;
    size_t room = t->room ? 2 * t->room : 64;
    list_row *rows = realloc(t->rows, room * sizeof *rows);
    if (!rows) return false;
    t->rows = rows;
    t->room = room;
    return true;
}

static int32_t add_row(const char *name, const hf_info *info, void *arg) {
    list_table *t = arg;
    if (t->json && get_verbosity() != QUIET) show_json_lock(name, info, t->store);
    if (t->json || get_verbosity() == QUIET) {
        t->count++;
        return get_verbosity() == QUIET;
    }
    t->full = t->count == ROWS_MAX;
    t->failed = !t->full && !grow_table(t);
    if (t->full || t->failed) return 1;
    t->failed = !fill_row(&t->rows[t->count++], t, name, info);
    return t->failed;
}

/* ---- The table ---- */

static int compare_rows(const void *a, const void *b) {
    return strcmp(((const list_row *)a)->name, ((const list_row *)b)->name);
}

static size_t table_width(const size_t wide[COLUMNS]) {
    size_t all = 0;
    for (int i = 0; i < COLUMNS; i++) all += wide[i] ? wide[i] + COLUMN_GAP : 0;
    return all - COLUMN_GAP;
}

/* Makes names and holders narrower until the table fits, the wider of them first. */
static bool shrink_columns(size_t wide[COLUMNS], size_t width) {
    while (table_width(wide) > width) {
        int widest = wide[HOLDER] >= wide[NAME] ? HOLDER : NAME;
        if (wide[widest] <= WIDTH_MIN) return false;
        wide[widest]--;
    }
    return true;
}

/* If narrower columns are not enough, columns are left out (width 0): first the holders, which
   status shows too. */
static void fit_columns(size_t wide[COLUMNS], size_t width) {
    static const int spare[] = {HOLDER, STATE};
    size_t natural[COLUMNS];
    memcpy(natural, wide, sizeof natural);
    for (size_t i = 0; !shrink_columns(wide, width) && i < sizeof spare / sizeof *spare; i++) {
        natural[spare[i]] = 0;
        memcpy(wide, natural, sizeof natural);
    }
}

static void show_table_row(const char *const cells[COLUMNS], const size_t wide[COLUMNS]) {
    char text[SHOW_TEXT];
    for (int i = 0; i < COLUMNS; i++) {
        if (!wide[i]) continue;
        show_cut(text, sizeof text, cells[i], wide[i]);
        size_t pad = i < COLUMNS - 1 ? wide[i] - show_columns(text) + COLUMN_GAP : 0;
        printf("%s%*s", text, (int)pad, "");
    }
    printf("\n");
}

static void show_table(const list_table *t, size_t width) {
    size_t wide[COLUMNS];
    for (int i = 0; i < COLUMNS; i++) {
        wide[i] = strlen(heads[i]);
        for (size_t k = 0; k < t->count; k++) {
            size_t columns = show_columns(t->rows[k].cell[i]);
            if (columns > wide[i]) wide[i] = columns;
        }
    }
    fit_columns(wide, width);
    show_table_row(heads, wide);
    for (size_t k = 0; k < t->count; k++)
        show_table_row((const char *const *)t->rows[k].cell, wide);
}

static void show_tabs(const list_table *t) {
    for (size_t k = 0; k < t->count; k++)
        for (int i = 0; i < COLUMNS; i++)
            printf("%s%c", t->rows[k].cell[i], i < COLUMNS - 1 ? '\t' : '\n');
}

static void row_fini(list_row *r) {
    free(r->name);
    for (int i = 0; i < COLUMNS; i++) free(r->cell[i]);
}

/* A store may list a name twice. */
static void sort_rows(list_table *t) {
    size_t kept = 0;
    if (t->count) qsort(t->rows, t->count, sizeof *t->rows, compare_rows);
    for (size_t k = 0; k < t->count; k++) {
        if (kept && !compare_rows(&t->rows[kept - 1], &t->rows[k]))
            row_fini(&t->rows[k]);
        else
            t->rows[kept++] = t->rows[k];
    }
    t->count = kept;
}

static void table_fini(list_table *t) {
    for (size_t k = 0; t->rows && k < t->count; k++) row_fini(&t->rows[k]);
    free(t->rows);
}

/* A pattern must match the whole name, as in a shell. For a plain word, the message says how to
   find names that contain it. */
static void print_none_found(const list_table *t) {
    const char *pattern = t->pattern, *where = t->store->shown;
    if (!pattern)
        print_message("no lock is in use in %s", where);
    else if (strpbrk(pattern, "*?["))
        print_message("no lock in use matches %s in %s", pattern, where);
    else
        print_message("no lock named %s is in use in %s; '*%s*' finds names that contain it",
                      pattern, where, pattern);
}

static int show_result(list_table *t) {
    size_t width = show_width();
    if (t->failed) return fail(EXIT_SYSTEM, "out of memory");
    if (t->full)
        print_message("only the first %d locks are shown; give a PATTERN to see others", ROWS_MAX);
    if (t->rows) sort_rows(t);
    if (t->rows && width)
        show_table(t, width);
    else if (t->rows)
        show_tabs(t);
    else if (!t->count && width && !t->json)
        print_none_found(t);
    return show_end(t->count ? 0 : 1);
}

/* ---- Listing ---- */

static int list_locks(const list_args *a, const store *s) {
    hf_client *client;
    list_table t = {
        .store = s, .pattern = a->pattern, .json = a->json, .terminal = show_width() > 0};
    int code = store_open(s, &client);
    if (code) return code;
    hf_result r = hf_list(client, a->pattern, add_row, &t);
    code =
        r ? fail(exit_code_of(r), "cannot list the locks: %s", hf_error_detail()) : show_result(&t);
    table_fini(&t);
    hf_close(client);
    return code;
}

static int parse_list_args(list_args *a, int argc, char **argv) {
    static const struct option options[] = {
        {"store", required_argument, NULL, 'S'},  {"json", no_argument, NULL, JSON},
        {"quiet", no_argument, NULL, 'q'},        {"verbose", no_argument, NULL, COMMON_VERBOSE},
        {"help", no_argument, NULL, COMMON_HELP}, {0}};
    int c, code = ARGS_CONTINUE;
    while (code == ARGS_CONTINUE && (c = getopt_long(argc, argv, ":S:qh", options, NULL)) != -1) {
        if (c == JSON)
            a->json = true;
        else
            code = common_option("list", c, argv, &a->store);
    }
    if (code != ARGS_CONTINUE) return code;
    a->pattern = argv[optind];
    if (optind + 1 < argc)
        return usage_error("list",
                           "only one PATTERN is allowed (quote it); unexpected argument \"%s\"",
                           WORD(argv[optind + 1]));
    return ARGS_CONTINUE;
}

int list_main(int argc, char **argv) {
    list_args a = {0};
    store s;
    int code = parse_list_args(&a, argc, argv);
    if (code != ARGS_CONTINUE) return code;
    code = store_choose(&s, a.store);
    if (!code) code = list_locks(&a, &s);
    store_fini(&s);
    return code;
}
