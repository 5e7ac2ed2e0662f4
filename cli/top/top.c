/* SPDX-License-Identifier: Apache-2.0 */
#include "top/top.h"

#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/time.h"
#include "common/duration.h"
#include "common/exit_codes.h"
#include "common/message.h"
#include "common/options.h"
#include "common/store.h"
#include "help.h"
#include "top/top_screen.h"

#define INTERVAL_MIN_MS 100
#define INTERVAL_MAX_MS 3600000

enum { INTERVAL = COMMON_OWN, SORT };

typedef struct top_args {
    char *store;
    const char *pattern; /* NULL: all */
    int64_t interval_ms;
    top_order order;
} top_args;

/* ---- The command line ---- */

static int parse_interval(top_args *a, const char *text) {
    if (duration_parse(text, &a->interval_ms) && a->interval_ms >= INTERVAL_MIN_MS &&
        a->interval_ms <= INTERVAL_MAX_MS)
        return ARGS_CONTINUE;
    return usage_error("top", "--interval %s is not a time from 100ms to 1h", WORD(text));
}

static int parse_order(top_args *a, const char *text) {
    for (int i = 0; i < TOP_ORDERS; i++) {
        if (strcmp(text, top_orders[i]) != 0) continue;
        a->order = (top_order)i;
        return ARGS_CONTINUE;
    }
    return usage_error("top", "--sort %s is not one of waiting, held, handovers, name", WORD(text));
}

static int parse_top_args(top_args *a, int argc, char **argv) {
    static const struct option options[] = {{"store", required_argument, NULL, 'S'},
                                            {"interval", required_argument, NULL, INTERVAL},
                                            {"sort", required_argument, NULL, SORT},
                                            {"quiet", no_argument, NULL, 'q'},
                                            {"verbose", no_argument, NULL, COMMON_VERBOSE},
                                            {"help", no_argument, NULL, COMMON_HELP},
                                            {0}};
    *a = (top_args){.interval_ms = 1000};
    int c, code = ARGS_CONTINUE;
    while (code == ARGS_CONTINUE && (c = getopt_long(argc, argv, ":S:qh", options, NULL)) != -1) {
        switch (c) {
        case INTERVAL: code = parse_interval(a, optarg); break;
        case SORT: code = parse_order(a, optarg); break;
        default: code = common_option("top", c, argv, &a->store);
        }
    }
    if (code != ARGS_CONTINUE) return code;
    a->pattern = argv[optind];
    if (a->pattern && argv[optind + 1])
        return usage_error("top",
                           "only one PATTERN is allowed (quote it); unexpected argument \"%s\"",
                           WORD(argv[optind + 1]));
    return ARGS_CONTINUE;
}

/* ---- Sorting ---- */

static top_order order_now; /* qsort has no context argument */
static bool reverse_now;

static int compare_column(const top_row *a, const top_row *b) {
    switch (order_now) {
    case BY_WAITING: return (a->waiting < b->waiting) - (a->waiting > b->waiting);
    case BY_HELD: return (a->held_ms < b->held_ms) - (a->held_ms > b->held_ms);
    case BY_RATE: return (a->rate < b->rate) - (a->rate > b->rate);
    default: return 0;
    }
}

static int compare_visible_rows(const void *a, const void *b) {
    const top_row *x = *(const top_row *const *)a, *y = *(const top_row *const *)b;
    int order = compare_column(x, y);
    if (!order) order = strcmp(x->name, y->name);
    return reverse_now ? -order : order;
}

/* Filters and sorts the rows. The selected lock stays selected when it moves. */
static void sort_visible_rows(top_screen *s, const char *chosen) {
    s->count = 0;
    for (size_t i = 0; i < s->view->count; i++)
        if (!s->filter[0] || strcasestr(s->view->rows[i].name, s->filter))
            s->rows[s->count++] = &s->view->rows[i];
    order_now = s->order;
    reverse_now = s->reverse;
    if (s->count) qsort(s->rows, s->count, sizeof *s->rows, compare_visible_rows);
    for (size_t i = 0; chosen && i < s->count; i++)
        if (strcmp(s->rows[i]->name, chosen) == 0) s->selected = i;
}

/* ---- Keys and drawing ---- */

typedef struct top_state {
    top_data *data;
    top_screen screen;
    top_view *view;
    char *chosen; /* selected by the user; NULL: the first row, whichever it is */
    char *inside;
    bool over;
} top_state;

static void remember_selected(top_state *t) {
    const top_screen *s = &t->screen;
    free(t->chosen);
    t->chosen = s->count ? strdup(s->rows[s->selected]->name) : NULL;
}

static void fetch_view(top_state *t) {
    top_view *v = top_data_view(t->data);
    if (!v) return;
    const top_row **rows = malloc((v->count + 1) * sizeof *rows);
    if (!rows) {
        top_view_free(v);
        return;
    }
    top_view_free(t->view);
    free(t->screen.rows);
    t->view = v;
    t->screen.view = v;
    t->screen.rows = rows;
}

static void draw_top(top_state *t) {
    if (!t->view) return;
    t->screen.inside = t->inside;
    sort_visible_rows(&t->screen, t->chosen);
    top_screen_draw(&t->screen);
}

static void open_selected(top_state *t) {
    const top_screen *s = &t->screen;
    if (!s->count || t->inside) return;
    remember_selected(t);
    t->inside = t->chosen ? strdup(t->chosen) : NULL;
    t->screen.queue_first = 0;
    top_data_want(t->data, t->inside);
}

/* Goes back one level; from the table, quits. */
static void go_back(top_state *t) {
    if (t->screen.help) {
        t->screen.help = false;
    } else if (t->inside) {
        free(t->inside);
        t->inside = NULL;
        top_data_want(t->data, NULL);
    } else if (t->screen.filter[0]) {
        t->screen.filter[0] = '\0';
    } else {
        t->over = true;
    }
}

static size_t moved_index(size_t from, int key, size_t count, size_t page) {
    size_t last = count ? count - 1 : 0;
    switch (key) {
    case TOP_UP: return from ? from - 1 : 0;
    case TOP_DOWN: return from < last ? from + 1 : last;
    case TOP_PAGE_UP: return from > page ? from - page : 0;
    case TOP_PAGE_DOWN: return from + page < last ? from + page : last;
    case TOP_HOME: return 0;
    default: return last;
    }
}

static void move_selection(top_state *t, int key) {
    top_screen *s = &t->screen;
    size_t page = top_screen_page();
    if (t->inside) {
        s->queue_first = moved_index(s->queue_first, key, s->view->detail.queue_count, page);
        return;
    }
    s->selected = moved_index(s->selected, key, s->count, page);
    remember_selected(t);
    if (key == TOP_HOME) { /* stay on the first row, whichever it will be */
        free(t->chosen);
        t->chosen = NULL;
    }
}

static void type_filter(top_screen *s, int key) {
    size_t length = strlen(s->filter);
    if (key == TOP_ENTER) {
        s->typing = false;
    } else if (key == TOP_ESCAPE) {
        s->typing = false;
        s->filter[0] = '\0';
    } else if (key == TOP_BACK && length) {
        do s->filter[--length] = '\0';
        while (length && (s->filter[length - 1] & 0xc0) == 0x80);
    } else if (key >= ' ' && key < 256 && length + 1 < sizeof s->filter) {
        s->filter[length] = (char)key;
        s->filter[length + 1] = '\0';
    }
}

static void handle_key(top_state *t, int key) {
    top_screen *s = &t->screen;
    if (s->typing) {
        type_filter(s, key);
        return;
    }
    switch (key) {
    case 'q': t->over = true; break;
    case TOP_ESCAPE:
    case TOP_BACK: go_back(t); break;
    case '?':
    case 'h': s->help = !s->help; break;
    case 's': s->order = (s->order + 1) % TOP_ORDERS; break;
    case 'r': s->reverse = !s->reverse; break;
    case ' ': s->paused = !s->paused; break;
    case '/':
        s->typing = !t->inside;
        if (s->typing) s->filter[0] = '\0';
        break;
    case TOP_ENTER: open_selected(t); break;
    case TOP_UP:
    case TOP_DOWN:
    case TOP_PAGE_UP:
    case TOP_PAGE_DOWN:
    case TOP_HOME:
    case TOP_END: move_selection(t, key); break;
    default: break; /* the window was resized: redraw */
    }
}

/* Handles keys at once. New data is shown once per interval, or at once for a lock that was just
   opened. */
static void run_top(top_state *t, int woken, int64_t interval_ms) {
    hf__time next = 0;
    uint64_t shown = 0;
    while (!t->over && !top_screen_signalled()) {
        hf__time now = hf__now();
        bool loading =
            t->inside && (!t->view->detail_name || strcmp(t->view->detail_name, t->inside) != 0);
        if ((now >= next || loading || !shown) && !t->screen.paused) {
            fetch_view(t);
            if (t->view) shown = t->view->samples;
            if (now >= next) next = hf__after_ms(now, interval_ms);
        }
        draw_top(t);
        struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
                               {.fd = loading || !shown ? woken : -1, .events = POLLIN}};
        int n = top_screen_poll(fds, 2, hf__poll_ms(now, next));
        eventfd_t count;
        if (n > 0 && fds[1].revents) eventfd_read(woken, &count);
        if (n > 0 && fds[0].revents & (POLLHUP | POLLERR | POLLNVAL)) t->over = true;
        for (int key; !t->over && (key = top_screen_key()) != TOP_NO_KEY;) handle_key(t, key);
    }
}

static int show_top(const top_args *a, const store *s) {
    hf_client *client;
    int woken, code = store_open(s, &client);
    if (code) return code;
    top_state t = {.screen = {.store = s->shown, .pattern = a->pattern, .order = a->order}};
    t.data = top_data_new(client, s, a->pattern, &woken);
    if (t.data) fetch_view(&t);
    if (!t.view) {
        hf_close(client);
        return fail(EXIT_SYSTEM, "out of memory or threads");
    }
    if (!top_screen_begin())
        code = fail(
            EXIT_SYSTEM,
            "this terminal (TERM=%.40s) cannot be used; use holdfast list for a single listing",
            getenv("TERM") ? getenv("TERM") : "");
    else
        run_top(&t, woken, a->interval_ms);
    top_screen_end();
    /* If the thread still waits for the store, closing would wait too. */
    if (top_data_end(t.data)) hf_close(client);
    top_view_free(t.view);
    free(t.screen.rows);
    free(t.chosen);
    free(t.inside);
    return code;
}

int top_main(int argc, char **argv) {
    top_args a;
    store s;
    int code = parse_top_args(&a, argc, argv);
    if (code != ARGS_CONTINUE) return code;
    if (!isatty(STDOUT_FILENO) || !isatty(STDIN_FILENO))
        return fail(EXIT_USAGE, "top needs a terminal; use holdfast list for a single listing");
    code = store_choose(&s, a.store);
    if (!code) code = show_top(&a, &s);
    store_fini(&s);
    int number = top_screen_signalled();
    if (number) { /* die as if the signal had not been caught */
        signal(number, SIG_DFL);
        raise(number);
    }
    return code;
}
