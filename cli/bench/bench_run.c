/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/bench_run.h"

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rand.h"
#include "base/time.h"
#include "base/url.h"
#include "common/exit_codes.h"
#include "common/message.h"
#include "common/server_admin.h"

#define WARM_UP     10
#define WAIT_MS     10000 /* for one acquire */
#define PROGRESS_MS 200
#define NAME_BYTES  96

const char *const bench_names[BENCH_PARTS] = {"uncontended", "parallel", "contended"};

static char uuid[HF__UUID_LENGTH + 1]; /* of this run, so that no other run uses its locks */
static volatile sig_atomic_t signalled;

/* ---- Signals ---- */

static void note_signal(int number) {
    signalled = number;
}

void bench_watch_signals(void) {
    struct sigaction act = {.sa_handler = note_signal};
    sigemptyset(&act.sa_mask);
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
    sigaction(SIGHUP, &act, NULL);
}

int bench_signalled(void) {
    return signalled;
}

/* ---- One thread ---- */

typedef struct bench_race {
    bench_part part;
    atomic_bool go, stop;
    atomic_uint ready;
    _Atomic(hf__time) released_at; /* contended: when the lock was last released */
    _Atomic uint64_t acquired;
} bench_race;

typedef struct bench_thread {
    bench_race *race;
    hf_client *client;
    char name[NAME_BYTES];
    pthread_t thread;
    bool started;
    histogram durations;
    hf_result result;
    char detail[512];
} bench_thread;

static bool note_failure(bench_thread *r, hf_result result) {
    if (!result) return false;
    r->result = result;
    snprintf(r->detail, sizeof r->detail, "%s", hf_error_detail());
    atomic_store(&r->race->stop, true);
    return true;
}

/* Acquires and releases once. False on failure. */
static bool run_round(bench_thread *r, bool counted) {
    bench_race *race = r->race;
    bool contended = race->part == BENCH_CONTENDED;
    hf_hold *hold;
    hf__time before = hf__now();
    if (note_failure(r, hf_acquire(r->client, r->name, &(hf_options){.wait_ms = WAIT_MS}, &hold)))
        return false;
    hf__time released_at = atomic_load(&race->released_at), now = hf__now();
    /* If the lock was free, this was no hand-over. */
    if (contended && counted && released_at > before)
        histogram_add(&r->durations, now - released_at);
    atomic_store(&race->released_at, contended ? hf__now() : 0);
    if (note_failure(r, hf_release(hold))) return false;
    if (!contended && counted) histogram_add(&r->durations, hf__now() - before);
    if (counted) atomic_fetch_add(&race->acquired, 1);
    return true;
}

static void *run_thread(void *arg) {
    bench_thread *r = arg;
    bool good = true;
    for (int i = 0; good && i < WARM_UP; i++) good = run_round(r, false);
    atomic_fetch_add(&r->race->ready, 1);
    while (good && !atomic_load(&r->race->go)) good = !atomic_load(&r->race->stop) && !usleep(1000);
    while (good && !atomic_load(&r->race->stop)) good = run_round(r, true);
    return NULL;
}

/* ---- Costs ---- */

static uint64_t count_commands(const bench_thread *runners, unsigned count) {
    uint64_t sum = 0;
    for (unsigned i = 0; i < count; i++) {
        hf_stats stats;
        if (i && runners[i].client == runners[0].client) continue;
        if (hf_stats_get(runners[i].client, &stats) == HF_OK) sum += stats.commands;
    }
    return sum;
}

/* The time that the server has spent in scripts, in microseconds; -1: unknown. */
static int64_t query_script_us(server_admin *admin) {
    static const char *const marks[] = {"cmdstat_evalsha:calls=", "cmdstat_eval:calls="};
    const char *const words[] = {"INFO", "commandstats", NULL};
    int64_t sum = 0;
    server_reply reply;
    if (!admin || server_admin_command(admin, &reply, words) || reply.type != '$') return -1;
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        const char *line = strstr(reply.text, marks[i]);
        const char *usec = line ? strstr(line, "usec=") : NULL;
        if (usec) sum += strtoll(usec + strlen("usec="), NULL, 10);
    }
    return sum;
}

static bool is_redis(const hf__url *url) {
    return url->scheme == HF__SCHEME_REDIS || url->scheme == HF__SCHEME_REDIS_TLS ||
           url->scheme == HF__SCHEME_REDIS_UNIX;
}

/* ---- One part ---- */

static void format_name(char name[NAME_BYTES], bench_part part, unsigned i) {
    if (!uuid[0]) hf__uuid_make(uuid);
    snprintf(name, NAME_BYTES, "holdfast-bench:%s:%u", uuid, part == BENCH_PARALLEL ? i : 0);
}

static void show_progress(const bench_plan *plan, const bench_race *race, double seconds) {
    if (!plan->progress) return;
    fprintf(stderr, "\r%s: %.0f of %.0f s, %.0f per second\033[K", bench_names[race->part], seconds,
            (double)plan->ms / 1e3, seconds > 0 ? (double)race->acquired / seconds : 0);
}

static void wait_for_end(const bench_plan *plan, bench_race *race, hf__time began) {
    hf__time until = hf__after_ms(began, plan->ms);
    for (;;) {
        hf__time now = hf__now();
        if (now >= until || signalled || atomic_load(&race->stop)) return;
        show_progress(plan, race, (double)(now - began) / 1e9);
        hf__time nap = hf__sooner(until - now, PROGRESS_MS * HF__MS);
        usleep((useconds_t)(nap / 1000 + 1));
    }
}

static void measure_part(const bench_plan *plan, bench_thread *runners, unsigned count,
                         server_admin *admin, bench_outcome *outcome) {
    bench_race *race = runners->race;
    while (atomic_load(&race->ready) < count && !signalled) usleep(1000);
    uint64_t commands = count_commands(runners, count);
    int64_t server_us = query_script_us(admin);
    hf__time began = hf__now();
    atomic_store(&race->go, true);
    wait_for_end(plan, race, began);
    outcome->acquired = atomic_load(&race->acquired);
    outcome->seconds = (double)(hf__now() - began) / 1e9;
    outcome->commands = count_commands(runners, count) - commands;
    int64_t after_us = server_us < 0 ? -1 : query_script_us(admin);
    outcome->server_us = after_us < 0 || !outcome->acquired
                             ? -1
                             : (double)(after_us - server_us) / (double)outcome->acquired;
}

static int open_clients(const bench_plan *plan, bench_thread *runners, unsigned count) {
    for (unsigned i = 0; i < count; i++) {
        bool shared = i && runners->race->part != BENCH_CONTENDED;
        int code = shared ? 0 : store_open(plan->store, &runners[i].client);
        if (code) return code;
        if (shared) runners[i].client = runners[0].client;
        format_name(runners[i].name, runners->race->part, i);
    }
    return 0;
}

static void close_clients(bench_thread *runners, unsigned count) {
    for (unsigned i = count; i-- > 0;)
        if (!i || runners[i].client != runners[0].client) hf_close(runners[i].client);
}

/* Starts the threads, measures, and joins all of them. */
static int run_threads(const bench_plan *plan, bench_thread *runners, unsigned count,
                       server_admin *admin, bench_outcome *outcome) {
    unsigned started = 0;
    while (started < count &&
           pthread_create(&runners[started].thread, NULL, run_thread, &runners[started]) == 0)
        started++;
    if (started == count) measure_part(plan, runners, count, admin, outcome);
    atomic_store(&runners->race->stop, true);
    for (unsigned i = 0; i < started; i++) pthread_join(runners[i].thread, NULL);
    if (plan->progress) fputs("\r\033[K", stderr);
    if (started < count) return fail(EXIT_SYSTEM, "cannot start %u threads", count);
    for (unsigned i = 0; i < count; i++) {
        if (runners[i].result)
            return fail(exit_code_of(runners[i].result), "%s: %s", bench_names[runners->race->part],
                        runners[i].detail);
        histogram_merge(&outcome->durations, &runners[i].durations);
    }
    return 0;
}

int bench_run(const bench_plan *plan, bench_part part, bench_outcome *outcome) {
    unsigned count = part == BENCH_ALONE ? 1 : plan->threads;
    bench_race race = {.part = part};
    server_admin *admin = NULL;
    hf__url url;
    *outcome = (bench_outcome){.server_us = -1};
    bench_thread *runners = calloc(count, sizeof *runners);
    if (!runners) return fail(EXIT_SYSTEM, "out of memory");
    for (unsigned i = 0; i < count; i++) runners[i].race = &race;
    if (hf__url_parse(&url, plan->store->url) == HF_OK && is_redis(&url))
        (void)server_admin_open(&url, &admin); /* without it, the time of the server is unknown */
    int code = open_clients(plan, runners, count);
    if (!code) code = run_threads(plan, runners, count, admin, outcome);
    close_clients(runners, count);
    server_admin_close(admin);
    hf__url_fini(&url);
    free(runners);
    return code;
}

/* ---- Cleaning up ---- */

/* Deletes the last token of a name that is never used again. Otherwise it would expire much
   later. */
static void delete_token_key(server_admin *admin, const char *prefix, const char *name) {
    char key[NAME_BYTES + HF__PREFIX_MAX + 8];
    server_reply reply;
    snprintf(key, sizeof key, "%s:{%s}:f", prefix, name);
    const char *const words[] = {"DEL", key, NULL};
    (void)server_admin_command(admin, &reply, words);
}

void bench_clean(const bench_plan *plan) {
    char name[NAME_BYTES];
    server_admin *admin = NULL;
    hf__url url;
    if (hf__url_parse(&url, plan->store->url) == HF_OK && is_redis(&url) &&
        server_admin_open(&url, &admin) == HF_OK)
        for (unsigned i = 0; i < plan->threads; i++) {
            format_name(name, BENCH_PARALLEL, i);
            delete_token_key(admin, url.prefix, name);
        }
    server_admin_close(admin);
    hf__url_fini(&url);
}
