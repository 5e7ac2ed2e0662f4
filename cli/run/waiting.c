#include "run/waiting.h"

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
#include "common/say.h"
#include "common/show.h"
#include "common/span.h"

#define EVERY_MS 1000 /* also the first time: a wait that is over sooner is not worth a line */
#define COUNTED  (120 * HF__SEC)
#define LINE     512

/* ---- Looking ---- */

static bool is_ours(int64_t pid, const char *host) {
    char own[256];
    if (pid != getpid()) return false;
    return !*host || gethostname(own, sizeof own) != 0 || strcmp(own, host) == 0;
}

static int64_t ahead_of_us(const hf_info *info) {
    for (uint32_t i = 0; i < info->waiting && i < 64; i++)
        if (is_ours(info->waiters[i].pid, info->waiters[i].host)) return i;
    return -1;
}

hf_info *waiting_look(const waiting *w, const char **name, int64_t *ahead) {
    hf_info *info;
    for (int i = 0; i < w->name_count; i++) {
        if (hf_inspect(w->client, w->names[i], &info) != HF_OK) return NULL;
        *name = w->names[i];
        *ahead = ahead_of_us(info);
        if (*ahead >= 0 || (info->held && !is_ours(info->pid, info->host))) return info;
        hf_info_free(info);
    }
    return NULL;
}

/* ---- The line ---- */

/* "host-7 (pid 311, nightly)", as far as it is known. */
static void holder(char *text, size_t size, const hf_info *info) {
    char pid[32] = "";
    if (info->pid) snprintf(pid, sizeof pid, "pid %" PRId64, info->pid);
    const char *comma = *pid && *info->label ? ", " : "";
    bool more = *pid || *info->label;
    snprintf(text, size, "%s%s%s%s%s%s", *info->host ? info->host : "another", more ? " (" : "",
             pid, comma, info->label, more ? ")" : "");
}

/* In seconds as long as they can be read as such. */
static const char *so_far(hf__time span, char text[SPAN_TEXT]) {
    if (span >= COUNTED) return span_text(span / HF__MS, text);
    snprintf(text, SPAN_TEXT, "%" PRId64 " s", span / HF__SEC);
    return text;
}

/* "waiting 12 s for host-7 (pid 311, nightly), 3 ahead". */
static void compose(const waiting *w, char text[LINE], hf__time now) {
    char who[LINE / 2], span[SPAN_TEXT], place[48] = "";
    const char *name = w->names[0];
    int64_t ahead = -1;
    hf_info *info = waiting_look(w, &name, &ahead);
    if (info && info->held)
        holder(who, sizeof who, info);
    else
        snprintf(who, sizeof who, "%.200s", name);
    if (ahead > 0) snprintf(place, sizeof place, ", %" PRId64 " ahead", ahead);
    if (ahead == 0) snprintf(place, sizeof place, ", next in line");
    hf_info_free(info);
    snprintf(text, LINE, "waiting %s for %s%s", so_far(now - w->began, span), who, place);
}

static size_t width(void) {
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1 : 79;
}

static void put(const char *text) {
    while (write(STDERR_FILENO, text, strlen(text)) < 0 && errno == EINTR) continue;
}

/* In the background the terminal belongs to another. */
static void draw(waiting *w) {
    char text[LINE], tame[LINE], cut[LINE], out[LINE + 8];
    compose(w, text, hf__now());
    pid_t front = tcgetpgrp(STDERR_FILENO);
    if (front >= 0 && front != getpgrp()) return;
    hf__text_tame(tame, sizeof tame, text, strlen(text));
    show_cut(cut, sizeof cut, tame, width());
    snprintf(out, sizeof out, "\r%s\033[K", cut);
    put(out);
    w->drawn = true;
}

static void *keep_drawing(void *arg) {
    waiting *w = arg;
    struct pollfd stop = {.fd = w->stop, .events = POLLIN};
    while (poll(&stop, 1, EVERY_MS) == 0) draw(w);
    return NULL;
}

/* ---- From begin to end ---- */

/* A terminal that can clear the rest of a line. */
static bool is_for_people(void) {
    const char *term = getenv("TERM");
    return isatty(STDERR_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

void waiting_draw(waiting *w) {
    sigset_t all, before;
    w->stop = -1;
    if (say_get() == QUIET || !is_for_people()) return;
    w->stop = eventfd(0, EFD_CLOEXEC);
    if (w->stop < 0) return;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(&w->thread, NULL, keep_drawing, w) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (started) return;
    close(w->stop);
    w->stop = -1;
}

void waiting_end(waiting *w) {
    if (w->stop < 0) return;
    (void)eventfd_write(w->stop, 1);
    pthread_join(w->thread, NULL);
    close(w->stop);
    w->stop = -1;
    if (w->drawn) put("\r\033[K");
}
