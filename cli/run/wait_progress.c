/* SPDX-License-Identifier: Apache-2.0 */
#include "run/wait_progress.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/text.h"
#include "common/duration.h"
#include "common/message.h"
#include "common/show.h"

#define EVERY_MS 1000 /* also before the first line, so shorter waits show nothing */
#define COUNTED  (120 * HF__SEC)
#define LINE     512

/* ---- Inspecting ---- */

static bool is_this_process(int64_t pid, const char *host) {
    char own[256];
    if (pid != getpid()) return false;
    return !*host || gethostname(own, sizeof own) != 0 || strcmp(own, host) == 0;
}

static int64_t count_ahead(const hf_info *info) {
    for (uint32_t i = 0; i < info->waiting && i < 64; i++)
        if (is_this_process(info->waiters[i].pid, info->waiters[i].host)) return i;
    return -1;
}

hf_info *wait_progress_inspect(const wait_progress *w, const char **name, int64_t *ahead) {
    hf_info *info;
    for (int i = 0; i < w->name_count; i++) {
        if (hf_inspect(w->client, w->names[i], &info) != HF_OK) return NULL;
        *name = w->names[i];
        *ahead = count_ahead(info);
        if (*ahead >= 0 || (info->held && !is_this_process(info->pid, info->host))) return info;
        hf_info_free(info);
    }
    return NULL;
}

/* ---- The line ---- */

/* "pid 311 on host-7 (nightly)", as far as it is known. */
static void format_holder(char *text, size_t size, const hf_info *info) {
    char pid[32] = "another";
    if (info->pid) snprintf(pid, sizeof pid, "pid %" PRId64, info->pid);
    snprintf(text, size, "%s%s%s%s%s%s", pid, *info->host ? " on " : "", info->host,
             *info->label ? " (" : "", info->label, *info->label ? ")" : "");
}

/* Seconds up to COUNTED, then larger units. */
static const char *format_waited(hf__time duration, char text[DURATION_TEXT]) {
    if (duration >= COUNTED) return duration_text(duration / HF__MS, text);
    snprintf(text, DURATION_TEXT, "%" PRId64 " s", duration / HF__SEC);
    return text;
}

/* "waiting for 12 s; held by pid 311 on host-7 (nightly); 3 ahead in the queue". */
static void compose_line(const wait_progress *w, char text[LINE], hf__time now) {
    char who[LINE / 2], duration[DURATION_TEXT], position[48] = "";
    const char *name = w->names[0];
    int64_t ahead = -1;
    hf_info *info = wait_progress_inspect(w, &name, &ahead);
    if (info && info->held)
        format_holder(who, sizeof who, info);
    else
        snprintf(who, sizeof who, "%.200s", name);
    if (ahead > 0) snprintf(position, sizeof position, "; %" PRId64 " ahead in the queue", ahead);
    if (ahead == 0) snprintf(position, sizeof position, "; first in the queue");
    snprintf(text, LINE, "waiting for %s; %s %s%s", format_waited(now - w->began, duration),
             info && info->held ? "held by" : "lock", who, position);
    hf_info_free(info);
}

static size_t line_width(void) {
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1 : 79;
}

static void write_terminal(const char *text) {
    while (write(STDERR_FILENO, text, strlen(text)) < 0 && errno == EINTR) continue;
}

/* A background process must not write to the terminal. */
static void draw_line(wait_progress *w) {
    char text[LINE], tame[LINE], cut[LINE], out[LINE + 8];
    compose_line(w, text, hf__now());
    pid_t front = tcgetpgrp(STDERR_FILENO);
    if (front >= 0 && front != getpgrp()) return;
    hf__text_sanitize(tame, sizeof tame, text, strlen(text));
    show_cut(cut, sizeof cut, tame, line_width());
    snprintf(out, sizeof out, "\r%s\033[K", cut);
    write_terminal(out);
    w->drawn = true;
}

static void *run_drawing(void *arg) {
    wait_progress *w = arg;
    struct pollfd stop = {.fd = w->stop, .events = POLLIN};
    while (poll(&stop, 1, EVERY_MS) == 0) draw_line(w);
    return NULL;
}

/* ---- Start and stop ---- */

/* True on a terminal that can clear the rest of a line. */
static bool can_draw(void) {
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

void wait_progress_start(wait_progress *w) {
    sigset_t all, before;
    w->stop = -1;
    if (get_verbosity() == QUIET || !can_draw()) return;
    w->stop = eventfd(0, EFD_CLOEXEC);
    if (w->stop < 0) return;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&w->thread, NULL, run_drawing, w) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started) return;
    close(w->stop);
    w->stop = -1;
}

void wait_progress_stop(wait_progress *w) {
    if (w->stop < 0) return;
    (void)eventfd_write(w->stop, 1);
    pthread_join(w->thread, NULL);
    close(w->stop);
    w->stop = -1;
    if (w->drawn) write_terminal("\r\033[K");
}
