/* SPDX-License-Identifier: Apache-2.0 */
#include "top/top_data.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/text.h"
#include "base/time.h"
#include "common/duration.h"
#include "common/show.h"

#define SAMPLE_MS  100 /* minimum interval between two samples */
#define SHARE      9   /* pause after a sample, as a multiple of its duration */
#define WINDOW_S   5.0
#define MOSTLY     0.8 /* share of samples with a changed token that makes the rate a minimum */
#define END_MS     300
#define INSPECT_MS 500 /* between two inspections of the selected lock, which are expensive */

struct top_data {
    hf_client *client;
    const store *store;
    const char *pattern;
    int woken;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    atomic_bool stop; /* also read during a sample */
    bool sample_now;
    char *wanted;
    top_view *newest;
    hf__time inspect_at; /* the next inspection of the selected lock */
};

/* ---- Views ---- */

void top_view_free(top_view *v) {
    if (!v) return;
    for (size_t i = 0; i < v->count; i++) free(v->rows[i].name);
    free(v->rows);
    free(v->detail_name);
    free(v);
}

static top_view *copy_view(const top_view *from) {
    top_view *v = malloc(sizeof *v);
    if (!v) return NULL;
    *v = *from;
    v->detail_name = from->detail_name ? strdup(from->detail_name) : NULL;
    v->count = 0;
    v->rows = malloc((from->count + 1) * sizeof *v->rows);
    for (size_t i = 0; v->rows && i < from->count; i++) {
        v->rows[i] = from->rows[i];
        v->rows[i].name = strdup(from->rows[i].name);
        if (!v->rows[i].name) break;
        v->count++;
    }
    if (v->rows && v->count == from->count) return v;
    top_view_free(v);
    return NULL;
}

/* ---- Listing all locks ---- */

typedef struct list_walk {
    top_data *data;
    top_view *view;
    size_t room;
    bool failed;
} list_walk;

static int32_t add_top_row(const char *name, const hf_info *info, void *arg) {
    list_walk *l = arg;
    top_view *v = l->view;
    v->more = v->count == TOP_ROWS_MAX;
    if (v->more || l->data->stop) return 1;
    if (v->count == l->room) {
        size_t room = l->room ? 2 * l->room : 64;
        top_row *rows = realloc(v->rows, room * sizeof *rows);
        l->failed = !rows;
        if (!rows) return 1;
        v->rows = rows;
        l->room = room;
    }
    top_row *r = &v->rows[v->count];
    *r = (top_row){.name = strdup(name),
                   .held = info->held,
                   .waiting = info->waiting,
                   .held_ms = info->held ? show_held_ms(info) : 0,
                   .token = info->token};
    l->failed = !r->name;
    if (l->failed) return 1;
    v->count++;
    show_state_word(r->state, sizeof r->state, info);
    char holder[SHOW_TEXT] = "";
    if (info->held) show_holder(holder, sizeof holder, info);
    hf__text_sanitize(r->holder, sizeof r->holder, holder, strlen(holder));
    return 0;
}

static int compare_names(const void *a, const void *b) {
    return strcmp(((const top_row *)a)->name, ((const top_row *)b)->name);
}

/* A store may list a name twice. */
static void sort_top_rows(top_view *v) {
    size_t kept = 0;
    if (v->count) qsort(v->rows, v->count, sizeof *v->rows, compare_names);
    for (size_t i = 0; i < v->count; i++) {
        if (kept && !compare_names(&v->rows[kept - 1], &v->rows[i]))
            free(v->rows[i].name);
        else
            v->rows[kept++] = v->rows[i];
    }
    v->count = kept;
}

/* Updates the rates from the previous view. Older samples have less weight. */
static void count_changes(top_view *v, const top_view *before, double seconds) {
    double weight = seconds < WINDOW_S ? 1 - seconds / WINDOW_S : 0;
    for (size_t i = 0; i < v->count; i++) {
        top_row *r = &v->rows[i];
        const top_row *old = before->count ? bsearch(r, before->rows, before->count,
                                                     sizeof *before->rows, compare_names)
                                           : NULL;
        if (!old) continue;
        bool changed = r->held && old->held && r->token != old->token;
        r->changes = old->changes * weight + changed;
        r->samples = old->samples * weight + 1;
        r->seconds = old->seconds * weight + seconds;
        r->rate = r->changes / r->seconds;
        r->least = r->changes > MOSTLY * r->samples;
    }
}

/* ---- Inspecting one lock ---- */

__attribute__((format(printf, 3, 4))) static void add_detail_line(top_detail *d, const char *word,
                                                                  const char *format, ...) {
    char text[SHOW_TEXT];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    snprintf(d->lines[d->line_count][0], TOP_TEXT, "%s", word);
    hf__text_sanitize(d->lines[d->line_count++][1], TOP_TEXT, text, strlen(text));
}

static void describe_lock(top_detail *d, const hf_info *info, const store *s) {
    char text[SHOW_TEXT], duration[DURATION_TEXT];
    d->there = info->held || info->waiting;
    show_state(text, sizeof text, info);
    add_detail_line(d, "state", "%s", text);
    if (info->held) {
        show_holder(text, sizeof text, info);
        add_detail_line(d, "kind", "%s", show_kind(info->kind));
        add_detail_line(d, "holder", "%s", text);
        add_detail_line(d, "held for", "%s", duration_text(show_held_ms(info), duration));
        show_remaining(text, sizeof text, info, s);
        add_detail_line(d, "remaining", "%s", text);
        add_detail_line(d, "token", "%" PRIu64, info->token);
        if (info->count > 1) add_detail_line(d, "entered", "%" PRIu32 " times", info->count);
    }
    d->waiting = info->waiting;
    for (; d->queue_count < info->waiting && d->queue_count < 64; d->queue_count++) {
        const hf_waiter *w = &info->waiters[d->queue_count];
        show_who(text, sizeof text, w->program, w->pid, w->host, w->label);
        hf__text_sanitize(d->queue[d->queue_count], TOP_TEXT, text, strlen(text));
    }
}

static void inspect_wanted(top_data *d, top_view *v, const char *name) {
    hf_info *info;
    if (hf_inspect(d->client, name, &info) != HF_OK) {
        snprintf(v->trouble, sizeof v->trouble, "%s", hf_error_detail());
        return;
    }
    describe_lock(&v->detail, info, d->store);
    v->detail_name = strdup(name);
    hf_info_free(info);
}

/* Reuses the last details for a while. */
static void copy_detail(top_view *v, const top_view *before) {
    v->detail = before->detail;
    v->detail_name = before->detail_name ? strdup(before->detail_name) : NULL;
}

/* ---- The thread ---- */

/* If the sample fails, the rows of the last one are kept. */
static top_view *list_all(top_data *d, double seconds) {
    top_view *v = calloc(1, sizeof *v);
    if (!v) return NULL;
    list_walk l = {.data = d, .view = v};
    hf_result r = hf_list(d->client, d->pattern, add_top_row, &l);
    sort_top_rows(v);
    if (r == HF_OK && !l.failed) {
        count_changes(v, d->newest, seconds);
        return v;
    }
    top_view_free(v);
    v = copy_view(d->newest);
    if (v) snprintf(v->trouble, sizeof v->trouble, "%s", r ? hf_error_detail() : "out of memory");
    return v;
}

static void publish_view(top_data *d, top_view *v) {
    pthread_mutex_lock(&d->mutex);
    v->samples = d->newest->samples + 1;
    top_view_free(d->newest);
    d->newest = v;
    pthread_mutex_unlock(&d->mutex);
    eventfd_write(d->woken, 1);
}

static void sleep_until_sample(top_data *d, hf__time duration) {
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    hf__time ns = until.tv_nsec + duration;
    until.tv_sec += (time_t)(ns / HF__SEC);
    until.tv_nsec = (long)(ns % HF__SEC);
    pthread_mutex_lock(&d->mutex);
    while (!d->stop && !d->sample_now &&
           pthread_cond_timedwait(&d->changed, &d->mutex, &until) == 0)
        continue;
    d->sample_now = false;
    pthread_mutex_unlock(&d->mutex);
}

static char *copy_wanted(top_data *d) {
    pthread_mutex_lock(&d->mutex);
    char *name = d->wanted ? strdup(d->wanted) : NULL;
    pthread_mutex_unlock(&d->mutex);
    return name;
}

/* Only this thread changes d->newest, so it may read d->newest without the mutex. */
static void take_sample(top_data *d, hf__time *last) {
    hf__time began = hf__now();
    top_view *v = list_all(d, (double)(began - *last) / 1e9);
    *last = began;
    if (!v) return;
    char *name = copy_wanted(d);
    const char *known = d->newest->detail_name;
    bool same = name && known && strcmp(name, known) == 0;
    if (v->trouble[0]) {
        /* a copy of the last view, with its details */
    } else if (same && began < d->inspect_at) {
        copy_detail(v, d->newest);
    } else if (name) {
        inspect_wanted(d, v, name);
        d->inspect_at = hf__after_ms(hf__now(), INSPECT_MS);
    }
    free(name);
    publish_view(d, v);
}

static void *run_sampling(void *arg) {
    top_data *d = arg;
    hf__time last = hf__now();
    for (;;) {
        hf__time began = hf__now();
        take_sample(d, &last);
        pthread_mutex_lock(&d->mutex);
        bool stop = d->stop;
        pthread_mutex_unlock(&d->mutex);
        if (stop) return NULL;
        sleep_until_sample(d, hf__later(SAMPLE_MS * HF__MS, SHARE * (hf__now() - began)));
    }
}

/* ---- The interface ---- */

/* Signals are handled by the screen's thread. */
static int start_thread(top_data *d) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&d->thread, NULL, run_sampling, d);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

top_data *top_data_new(hf_client *client, const store *s, const char *pattern, int *woken) {
    pthread_condattr_t clock;
    top_data *d = calloc(1, sizeof *d);
    if (!d) return NULL;
    *d = (top_data){.client = client,
                    .store = s,
                    .pattern = pattern,
                    .woken = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK),
                    .newest = calloc(1, sizeof(top_view))};
    pthread_mutex_init(&d->mutex, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&d->changed, &clock);
    *woken = d->woken;
    if (d->woken >= 0 && d->newest && start_thread(d) == 0) return d;
    if (d->woken >= 0) close(d->woken);
    free(d->newest);
    free(d);
    return NULL;
}

top_view *top_data_view(top_data *d) {
    pthread_mutex_lock(&d->mutex);
    top_view *v = copy_view(d->newest);
    pthread_mutex_unlock(&d->mutex);
    return v;
}

void top_data_want(top_data *d, const char *name) {
    pthread_mutex_lock(&d->mutex);
    free(d->wanted);
    d->wanted = name ? strdup(name) : NULL;
    d->sample_now = true;
    pthread_cond_signal(&d->changed);
    pthread_mutex_unlock(&d->mutex);
}

bool top_data_end(top_data *d) {
    struct timespec until;
    pthread_mutex_lock(&d->mutex);
    d->stop = true;
    pthread_cond_signal(&d->changed);
    pthread_mutex_unlock(&d->mutex);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += END_MS * (long)HF__MS;
    until.tv_sec += until.tv_nsec / (long)HF__SEC;
    until.tv_nsec %= (long)HF__SEC;
    if (pthread_timedjoin_np(d->thread, NULL, &until) != 0) return false;
    close(d->woken);
    free(d->wanted);
    top_view_free(d->newest);
    free(d);
    return true;
}
