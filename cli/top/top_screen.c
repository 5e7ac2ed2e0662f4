/* SPDX-License-Identifier: Apache-2.0 */
#include "top/top_screen.h"

#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <ncurses.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "common/duration.h"
#include "common/show.h"
#include "top/top_terminfo.h"

#define TOP_LINES    3 /* lines above the rows */
#define BOTTOM_LINES 1
#define ESCAPE_MS    25

const char *const top_orders[TOP_ORDERS] = {"waiting", "held", "handovers", "name"};

enum { PLAIN, TROUBLE, HEAD, BUSY };

static struct {
    struct termios before;
    char reset_text[256]; /* the escape sequences that reset the terminal after a crash */
    size_t reset_length;
    bool open, colours;
} screen;

static volatile sig_atomic_t signalled, stopping;
static sigset_t mask_before;

/* ---- The terminal ---- */

static void note_end_signal(int number) {
    signalled = number;
}

static void note_stop(int number) {
    stopping = number;
}

int top_screen_signalled(void) {
    return signalled;
}

/* After a crash ncurses cannot be trusted, so the terminal is reset by hand. */
static void restore_terminal(int number) {
    ssize_t n = write(STDOUT_FILENO, screen.reset_text, screen.reset_length);
    (void)n;
    tcsetattr(STDIN_FILENO, TCSANOW, &screen.before);
    signal(number, SIG_DFL);
    raise(number);
}

static void catch_signal(int number, void (*handler)(int)) {
    struct sigaction act = {.sa_handler = handler};
    sigemptyset(&act.sa_mask);
    sigaction(number, &act, NULL);
}

static void add_reset_text(const char *capability) {
    const char *text = tigetstr(capability);
    if (!text || (intptr_t)text == -1) return; /* the terminal does not have it */
    size_t length = strlen(text);
    if (screen.reset_length + length > sizeof screen.reset_text) return;
    memcpy(screen.reset_text + screen.reset_length, text, length);
    screen.reset_length += length;
}

static void catch_signals(void) {
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
    add_reset_text("sgr0");
    add_reset_text("cnorm");
    add_reset_text("rmkx");
    add_reset_text("rmcup");
    sigset_t here;
    sigemptyset(&here);
    sigaddset(&here, SIGTSTP);
    sigaddset(&here, SIGWINCH); /* ncurses has a handler for it */
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        catch_signal(ends[i], note_end_signal);
        sigaddset(&here, ends[i]);
    }
    catch_signal(SIGTSTP, note_stop);
    sigprocmask(SIG_BLOCK, &here, &mask_before);
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
        catch_signal(crashes[i], restore_terminal);
}

static void choose_colours(void) {
    const char *none = getenv("NO_COLOR");
    screen.colours = has_colors() && !(none && *none);
    if (!screen.colours) return;
    start_color();
    use_default_colors();
    init_pair(TROUBLE, COLOR_RED, -1);
    init_pair(HEAD, COLOR_CYAN, -1);
    init_pair(BUSY, COLOR_YELLOW, -1);
}

bool top_screen_begin(void) {
    setlocale(LC_ALL, "");
    if (tcgetattr(STDIN_FILENO, &screen.before) != 0) return false;
    if (!top_terminfo_good() || !newterm(NULL, stdout, stdin)) return false;
    screen.open = true;
    atexit(top_screen_end);
    cbreak();
    noecho();
    nonl();
    keypad(stdscr, TRUE);
    nodelay(stdscr, TRUE);
    set_escdelay(ESCAPE_MS);
    curs_set(0);
    choose_colours();
    catch_signals();
    return true;
}

void top_screen_end(void) {
    if (!screen.open) return;
    screen.open = false;
    endwin();
    sigprocmask(SIG_SETMASK, &mask_before, NULL);
}

/* Restores the terminal for the shell, stops, and redraws when continued. */
static void stop_process(void) {
    sigset_t tstp, before;
    stopping = 0;
    endwin();
    catch_signal(SIGTSTP, SIG_DFL);
    sigemptyset(&tstp);
    sigaddset(&tstp, SIGTSTP);
    raise(SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &tstp, &before); /* the process stops here until it is continued */
    sigprocmask(SIG_SETMASK, &before, NULL);
    catch_signal(SIGTSTP, note_stop);
    clearok(stdscr, TRUE);
    refresh();
}

int top_screen_poll(struct pollfd *fds, nfds_t count, int timeout_ms) {
    struct timespec timeout = {.tv_sec = timeout_ms / 1000,
                               .tv_nsec = (long)(timeout_ms % 1000) * 1000000};
    int n = ppoll(fds, count, timeout_ms < 0 ? NULL : &timeout, &mask_before);
    if (stopping) stop_process();
    return n;
}

size_t top_screen_page(void) {
    int rows = LINES - TOP_LINES - BOTTOM_LINES;
    return rows > 0 ? (size_t)rows : 1;
}

int top_screen_key(void) {
    int c = getch();
    switch (c) {
    case ERR: return TOP_NO_KEY;
    case KEY_UP: return TOP_UP;
    case KEY_DOWN: return TOP_DOWN;
    case KEY_PPAGE: return TOP_PAGE_UP;
    case KEY_NPAGE: return TOP_PAGE_DOWN;
    case KEY_HOME: return TOP_HOME;
    case KEY_END: return TOP_END;
    case KEY_ENTER:
    case '\r':
    case '\n': return TOP_ENTER;
    case KEY_BACKSPACE:
    case 127:
    case '\b': return TOP_BACK;
    case 27: return TOP_ESCAPE;
    default: return c < 256 ? c : TOP_OTHER; /* KEY_RESIZE too: redraw */
    }
}

/* ---- Text ---- */

static int attribute_of(int pair) {
    if (screen.colours && pair != PLAIN)
        return (int)((attr_t)COLOR_PAIR(pair) | (pair == HEAD ? A_BOLD : 0));
    return pair == PLAIN ? (int)A_NORMAL : (int)A_BOLD;
}

/* Puts a text into a field of `columns` columns, padded with blanks. Control characters are
   replaced. */
static void put_text(int y, int x, size_t columns, const char *text) {
    char tame[SHOW_TEXT], cut[SHOW_TEXT];
    if (y < 0 || y >= LINES || x >= COLS || !columns) return;
    if (columns > (size_t)(COLS - x)) columns = (size_t)(COLS - x);
    hf__text_sanitize(tame, sizeof tame, text, strlen(text));
    show_cut(cut, sizeof cut, tame, columns);
    mvaddstr(y, x, cut);
    for (size_t i = show_columns(cut); i < columns; i++) addch(' ');
}

__attribute__((format(printf, 3, 4))) static void put_line(int y, int pair, const char *format,
                                                           ...) {
    char text[SHOW_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    attrset(attribute_of(pair));
    put_text(y, 0, (size_t)COLS, text);
    attrset(A_NORMAL);
}

/* ---- The table ---- */

enum { NAME, STATE, HOLDER, HELD, WAITING, RATE, COLUMNS };

static const struct {
    const char *head;
    size_t wide;
    bool right;
} columns[COLUMNS] = {{"NAME", 0, false}, {"STATE", 14, false}, {"HOLDER", 0, false},
                      {"HELD", 8, true},  {"WAITING", 7, true}, {"HANDED/S", 8, true}};

/* Name and holder share the space that the other columns leave. On a narrow screen holder and
   state are left out. */
static void share_columns(size_t wide[COLUMNS]) {
    size_t taken = 0, all = (size_t)COLS;
    bool holder = all >= 76, state = all >= 52;
    for (int i = 0; i < COLUMNS; i++) {
        wide[i] = columns[i].wide;
        if (i == STATE && !state) wide[i] = 0;
        if (wide[i]) taken += wide[i] + 1;
    }
    size_t left = all > taken + 8 ? all - taken : 8;
    wide[HOLDER] = holder ? left / 2 - 1 : 0;
    wide[NAME] = holder ? left - left / 2 : left;
}

static void put_cells(int y, const char *const cells[COLUMNS]) {
    size_t wide[COLUMNS];
    char text[SHOW_TEXT];
    int x = 0;
    share_columns(wide);
    put_text(y, 0, (size_t)COLS, "");
    for (int i = 0; i < COLUMNS; i++) {
        if (!wide[i]) continue;
        size_t length = strlen(cells[i]);
        if (columns[i].right && length < wide[i])
            snprintf(text, sizeof text, "%*s%s", (int)(wide[i] - length), "", cells[i]);
        else
            snprintf(text, sizeof text, "%s", cells[i]);
        put_text(y, x, wide[i], text);
        x += (int)wide[i] + 1;
    }
}

static void put_row(const top_screen *s, size_t index, int y) {
    const top_row *r = s->rows[index];
    char held[DURATION_TEXT] = "", waiting[16], rate[24] = "";
    if (r->held) duration_text(r->held_ms, held);
    snprintf(waiting, sizeof waiting, "%" PRIu32, r->waiting);
    if (r->changes > 0.05) snprintf(rate, sizeof rate, "%.1f%s", r->rate, r->least ? "+" : "");
    const char *const cells[COLUMNS] = {r->name, r->state, r->holder, held, waiting, rate};
    attrset(index == s->selected ? (int)A_REVERSE
            : r->waiting         ? attribute_of(BUSY)
                                 : (int)A_NORMAL);
    put_cells(y, cells);
    attrset(A_NORMAL);
}

/* Puts a long text on as many lines as it needs. */
static void put_whole(int y, const char *text) {
    char tame[SHOW_TEXT], piece[SHOW_TEXT];
    hf__text_sanitize(tame, sizeof tame, text, strlen(text));
    for (const char *at = tame; *at && y < LINES - BOTTOM_LINES; y++) {
        size_t length = strlen(at), most = COLS > 1 ? (size_t)COLS : 1;
        if (length > most) {
            length = most;
            while (length > most / 2 && at[length] != ' ') length--;
        }
        snprintf(piece, sizeof piece, "%.*s", (int)length, at);
        put_line(y, PLAIN, "%s", piece);
        at += length;
        at += strspn(at, " ");
    }
}

static void put_table(top_screen *s) {
    static const char *const heads[COLUMNS] = {"NAME", "STATE",   "HOLDER",
                                               "HELD", "WAITING", "HANDED/S"};
    size_t page = top_screen_page();
    attrset(attribute_of(HEAD));
    put_cells(TOP_LINES - 1, heads);
    attrset(A_NORMAL);
    if (s->selected >= s->count) s->selected = s->count ? s->count - 1 : 0;
    if (s->first > s->selected) s->first = s->selected;
    if (s->selected >= s->first + page) s->first = s->selected - page + 1;
    for (size_t i = 0; i < page && s->first + i < s->count; i++)
        put_row(s, s->first + i, TOP_LINES + (int)i);
    if (!s->count && s->view->trouble[0])
        put_whole(TOP_LINES, s->view->trouble);
    else if (!s->count && s->view->samples)
        put_line(TOP_LINES, PLAIN, "%s",
                 s->filter[0] ? "No lock in use has this text in its name."
                 : s->pattern ? "No lock in use matches the pattern."
                              : "No lock is in use.");
}

/* ---- One lock ---- */

static void put_detail(top_screen *s) {
    const top_detail *d = &s->view->detail;
    bool known = s->view->detail_name && strcmp(s->view->detail_name, s->inside) == 0;
    int y = TOP_LINES;
    put_line(TOP_LINES - 1, HEAD, "%s", s->inside);
    if (!known) {
        put_line(y, PLAIN, "Loading ...");
        return;
    }
    for (size_t i = 0; i < d->line_count; i++)
        put_line(y++, PLAIN, "%-11s%s", d->lines[i][0], d->lines[i][1]);
    put_line(y++, HEAD, "%" PRIu32 " waiting%s", d->waiting, d->waiting ? ", in this order:" : "");
    int room = LINES - BOTTOM_LINES - y;
    size_t page = room > 0 ? (size_t)room : 0;
    if (s->queue_first + page > d->queue_count)
        s->queue_first = d->queue_count > page ? d->queue_count - page : 0;
    for (size_t i = 0; i < page && s->queue_first + i < d->queue_count; i++)
        put_line(y++, PLAIN, "%4zu  %s", s->queue_first + i + 1, d->queue[s->queue_first + i]);
}

/* ---- The whole screen ---- */

static void put_help(void) {
    static const char *const lines[] = {
        "Up, Down, PgUp, PgDn   select a lock",
        "Enter                  show its holder, and the waiters in order",
        "Esc                    go back; from the table, quit",
        "s                      sort by waiting, time held, hand-overs, name",
        "r                      reverse the order",
        "/                      show only names that contain a text; Esc shows all again",
        "Space                  pause or continue",
        "q                      quit",
        "",
        "HANDED/S is the number of hand-overs per second. They are counted by polling",
        "the store, at most ten times a second. A + means that there may be more.",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        put_line(TOP_LINES + (int)i, PLAIN, "%s", lines[i]);
}

static void put_top(const top_screen *s) {
    uint64_t waiting = 0;
    for (size_t i = 0; i < s->view->count; i++) waiting += s->view->rows[i].waiting;
    put_line(0, HEAD, "holdfast top  %s", s->store);
    if (s->view->trouble[0])
        put_line(1, TROUBLE, "%s", s->view->trouble);
    else if (!s->view->samples)
        put_line(1, PLAIN, "Loading ...");
    else
        put_line(1, PLAIN, "%zu%s lock%s, %" PRIu64 " waiting, sorted by %s%s%s%s%s",
                 s->view->count, s->view->more ? "+" : "", s->view->count == 1 ? "" : "s", waiting,
                 top_orders[s->order], s->reverse ? ", reversed" : "",
                 s->filter[0] ? ", with " : "", s->filter, s->paused ? ", paused" : "");
}

static void put_bottom(const top_screen *s) {
    if (s->typing)
        put_line(LINES - 1, HEAD, "/%s_", s->filter);
    else if (s->inside)
        put_line(LINES - 1, PLAIN, "Esc back  q quit");
    else
        put_line(LINES - 1, PLAIN, "q quit  s sort  r reverse  / filter  Enter details  ? help");
}

void top_screen_draw(top_screen *s) {
    erase();
    put_top(s);
    if (s->help)
        put_help();
    else if (s->inside)
        put_detail(s);
    else
        put_table(s);
    put_bottom(s);
    refresh();
}
