/* SPDX-License-Identifier: Apache-2.0 */
/*
 * soak HOURS [SEED [FOLDER [PLANT]]]: hundreds of clients in twenty processes use locks of all
 * kinds on three stores. Every few seconds a fault hits a server or a process. Prints a line a
 * minute, and the results. FOLDER receives samples.csv (memory, descriptors, keys) and faults.log
 * (the injected faults). PLANT is `leak`, `descriptor`, `gather` or `double`: a run that must fail.
 *
 * The run fails if
 * - two are inside at once by their own deadlines,
 * - a token does not grow,
 * - a wait takes more than a minute,
 * - a loss is not reported,
 * - a process ends,
 * - a figure grows (sample.c),
 * - a process has resources left when its clients are closed (leftovers.c), or
 * - a key stays (B30).
 *
 * The checks are in stay.c and visits.c, and run for every single stay.
 */
#include <errno.h>
#include <ftw.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fault_injector.h"
#include "leftovers.h"
#include "sample.h"

enum {
    SAMPLE_EVERY_MS = 5000,
    CALM_MS = 6000, /* between two faults, at most */
    STARTING_MS = 60000,
    END_MS = 150000,
    KEYS_GONE_MS = 180000,
    BEAT_MAX_MS = 60000
};

static double hours;
static unsigned seed;
static int plant;
static const char *folder = "build/soak";

/* ---- Beginning ------------------------------------------------------------------------------- */

static FILE *open_in_folder(const char *name) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "we");
    if (!file) t_fail("cannot write %s: %s", path, strerror(errno));
    return file;
}

static const char *make_directory(void) {
    static char path[256];
    const char *base = getenv("TMPDIR");
    snprintf(path, sizeof path, "%s/hf-soak-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(path)) t_fail("cannot make %s: %s", path, strerror(errno));
    return path;
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk) {
    (void)status, (void)type, (void)walk;
    return remove(path);
}

static void make_urls(soak *s, fault_injector *d, const char *directory) {
    const char *options = "lease=5s&outage=30s&command_timeout=3s";
    for (int i = SOAK_KEPT; i <= SOAK_WIPED; i++)
        snprintf(s->urls[i], SOAK_URL_ROOM, "%s?%s", t_redis_url(d->servers[i]), options);
    snprintf(s->urls[SOAK_FILE], SOAK_URL_ROOM, "file://%s?lease=5s&keep=8m", directory);
}

static bool all_beat(const soak *s) {
    for (int i = 0; i < SOAK_PROCESSES; i++)
        if (!atomic_load(&s->processes[i].heap)) return false;
    return true;
}

static void start_servers(soak *s, fault_injector *d, const char *directory) {
    /* Keeps the append-only file short; otherwise each restart would take longer. */
    const char *config[] = {"auto-aof-rewrite-min-size 4mb", NULL};
    d->servers[SOAK_KEPT] = t_redis_start(&(t_redis_options){.appendonly = true, .config = config});
    d->servers[SOAK_WIPED] = t_redis_start(NULL);
    make_urls(s, d, directory);
    for (int i = 0; i < SOAK_PROCESSES; i++) fault_start_worker(d, i);
    T_WAIT_UNTIL(all_beat(s), STARTING_MS);
}

/* ---- While it runs --------------------------------------------------------------------------- */

/* Reports waits that have not ended, and processes that have stopped reporting. */
static void check_waits(soak *s) {
    int64_t now_ms = t_now_ms();
    for (int i = 0; i < SOAK_PROCESSES * SOAK_THREADS; i++) {
        int64_t since_ms = atomic_load(&s->waiting_since_ms[i]);
        if (!since_ms || now_ms - since_ms < SOAK_WAIT_MAX_MS) continue;
        soak_violated(s, "slot %d has waited for %s for %lld ms", i, s->waiting_for[i],
                      (long long)(now_ms - since_ms));
        /* report it once a minute, not with every check */
        atomic_store(&s->waiting_since_ms[i], now_ms);
    }
    for (int i = 0; i < SOAK_PROCESSES; i++) {
        if (now_ms - atomic_load(&s->processes[i].beat_ms) < BEAT_MAX_MS) continue;
        soak_violated(s, "process %d has stopped reporting", i);
        atomic_store(&s->processes[i].beat_ms, now_ms);
    }
}

/* Printed as they come, because a long run is watched meanwhile. */
static void print_notes(soak *s, const fault_injector *d) {
    static int printed;
    int violations = atomic_load(&s->violations);
    for (; printed < violations && printed < SOAK_NOTES && *s->notes[printed]; printed++)
        printf("VIOLATION after %.1f s: %s\n", (double)(t_now_ms() - d->began_ms) / 1000,
               s->notes[printed]);
}

static void print_header(void) {
    printf(
        "minute   visits   /s  inside     lost on_lost    away  longest     heap      pss   fds  "
        "keys faults violations\n");
}

static void print_minute(soak *s, fault_injector *d, const samples *m, int64_t now_ms) {
    soak_counts *c = &s->counts;
    double seconds = (double)(now_ms - d->began_ms) / 1000;
    size_t last = m->keys[0].count - 1;
    printf("%6.0f %8lld %4.0f %7lld %8lld %7lld %7lld %6.1f s %7.0fK %7.0fK %5.0f %5.0f %6d %10d\n",
           seconds / 60, atomic_load(&c->visits), (double)atomic_load(&c->visits) / seconds,
           atomic_load(&c->entered), atomic_load(&c->lost), atomic_load(&c->lost_calls),
           atomic_load(&c->away), (double)atomic_load(&c->longest_ms) / 1000, m->now[SAMPLE_HEAP],
           m->now[SAMPLE_PSS], m->now[SAMPLE_FDS], m->keys[0].values[last], d->done,
           atomic_load(&s->violations));
}

static void run_soak(soak *s, fault_injector *d, samples *m) {
    int64_t end_ms = d->began_ms + (int64_t)(hours * 3600000), minute = 1;
    int64_t sample_ms = d->began_ms, deed_ms = d->began_ms + CALM_MS;
    print_header();
    while (t_now_ms() < end_ms && atomic_load(&s->violations) < SOAK_NOTES) {
        int64_t now_ms = t_now_ms();
        check_waits(s);
        print_notes(s, d);
        if (now_ms >= sample_ms) {
            samples_take(m, d);
            sample_ms = now_ms + SAMPLE_EVERY_MS;
        }
        if (now_ms >= d->began_ms + minute * 60000) {
            print_minute(s, d, m, now_ms);
            minute = (now_ms - d->began_ms) / 60000 + 1;
        }
        if (now_ms >= deed_ms) {
            fault_inject(d);
            deed_ms = t_now_ms() + rand() % CALM_MS;
        }
        t_sleep_ms(100);
    }
}

/* ---- The end --------------------------------------------------------------------------------- */

static void end_workers(soak *s, fault_injector *d) {
    atomic_store(&s->stopping, true);
    for (int i = 0; i < SOAK_PROCESSES; i++) {
        int status = t_proc_wait(d->workers[i], END_MS);
        if (status) soak_violated(s, "process %d ended with status %d", i, status);
    }
}

/* Keys that may stay for a limited time: fences and latches. */
static bool may_stay(t_redis *server, const redisReply *key) {
    bool kept = key->len > 3 && (!strcmp(key->str + key->len - 3, "}:f") ||
                                 !strcmp(key->str + key->len - 3, "}:l"));
    int64_t ttl_ms = t_redis_int(server, "PTTL %b", key->str, key->len);
    return ttl_ms == -2 || (kept && ttl_ms > 0);
}

static bool is_clean(t_redis *server, char *left, size_t size) {
    redisReply *keys = t_redis_cmd(server, "KEYS *");
    bool clean = true;
    for (size_t i = 0; clean && i < keys->elements; i++) {
        clean = may_stay(server, keys->element[i]);
        if (!clean) snprintf(left, size, "%s", keys->element[i]->str);
    }
    freeReplyObject(keys);
    return clean;
}

/* B30: keys that killed processes have left expire. */
static void check_keys(soak *s, fault_injector *d) {
    char left[256] = "";
    for (int i = 0; i < 2; i++) {
        int64_t end_ms = t_now_ms() + KEYS_GONE_MS;
        while (!is_clean(d->servers[i], left, sizeof left) && t_now_ms() < end_ms) t_sleep_ms(500);
        if (t_now_ms() >= end_ms) soak_violated(s, "left in the store: %s", left);
        printf("keys left on the server: %lld; only fences and latches that expire: %s\n",
               (long long)t_redis_int(d->servers[i], "DBSIZE"), t_now_ms() < end_ms ? "yes" : "NO");
    }
}

/* The bucket in which the given part of all waits has ended, in milliseconds. */
static long long wait_below(soak_counts *c, double part) {
    long long all = 0, sum = 0;
    for (int i = 0; i < SOAK_BUCKETS; i++) all += atomic_load(&c->waits[i]);
    for (int i = 0; i < SOAK_BUCKETS; i++) {
        sum += atomic_load(&c->waits[i]);
        if ((double)sum >= part * (double)all) return 1LL << i;
    }
    return 0;
}

static double cpu_seconds(void) {
    struct rusage u;
    (void)getrusage(RUSAGE_CHILDREN, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void print_counts(soak *s, fault_injector *d, double seconds) {
    soak_counts *c = &s->counts;
    printf("\n%d processes, %d clients, %d threads; %.0f s, seed %u; %d faults\n", SOAK_PROCESSES,
           SOAK_PROCESSES * SOAK_CLIENTS, SOAK_PROCESSES * SOAK_THREADS, seconds, seed, d->done);
    printf("visits %lld: inside %lld, re-entered %lld, upgraded %lld, led %lld, latches %lld, "
           "busy or timed out %lld\n",
           atomic_load(&c->visits), atomic_load(&c->entered), atomic_load(&c->reentered),
           atomic_load(&c->upgraded), atomic_load(&c->led), atomic_load(&c->latched),
           atomic_load(&c->busy));
    printf("store away %lld, holds lost %lld, callbacks of on_lost %lld; clients "
           "reopened %lld; leaders observed %lld\n",
           atomic_load(&c->away), atomic_load(&c->lost), atomic_load(&c->lost_calls),
           atomic_load(&c->reopened), atomic_load(&c->changes));
    printf("waits: half within %lld ms, 99 %% within %lld ms, the longest %.1f s (%s)\n",
           wait_below(c, 0.5), wait_below(c, 0.99), (double)atomic_load(&c->longest_ms) / 1000,
           s->longest_for);
}

/* Growth fails the run only if it was long enough for stable figures: see sample.c. */
static bool print_verdict(int violations, int left, int grown) {
    bool long_enough = hours >= SAMPLE_HOURS_MIN;
    bool failed = violations || left || (grown && long_enough);
    printf("%d violations, %d processes with leftovers, %d growing figures%s: %s\n", violations,
           left, grown, long_enough ? "" : " (ignored in a run below half an hour)",
           failed ? "FAILED" : "passed");
    return failed;
}

static void nothing_goes_wrong_or_grows(void **state) {
    static fault_injector d;
    static samples m;
    soak *s = t_shared_new(sizeof *s);
    const char *directory = make_directory();
    (void)state;
    s->plant = plant;
    s->seed = seed;
    d = (fault_injector){.s = s, .began_ms = t_now_ms(), .log = open_in_folder("faults.log")};
    samples_begin(&m, open_in_folder("samples.csv"), directory);
    start_servers(s, &d, directory);
    d.began_ms = t_now_ms();
    run_soak(s, &d, &m);
    double seconds = (double)(t_now_ms() - d.began_ms) / 1000;
    end_workers(s, &d);
    print_counts(s, &d, seconds);
    check_keys(s, &d);
    int left = leftovers_judge(s), grown = samples_judge(&m);
    for (int i = 0; i < 2; i++) t_redis_free(d.servers[i]);
    printf("%.0f s of CPU, %.0f %% of one core, with the servers\n", cpu_seconds(),
           100 * cpu_seconds() / seconds);
    int violations = atomic_load(&s->violations);
    print_notes(s, &d);
    bool failed = print_verdict(violations, left, grown);
    (void)nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    fclose(d.log);
    fclose(m.csv);
    samples_end(&m);
    t_shared_free(s, sizeof *s);
    assert_false(failed);
}

/* ---- The command line ------------------------------------------------------------------------ */

static void print_usage(void) {
    fprintf(stderr, "usage: soak HOURS [SEED [FOLDER [leak|descriptor|gather|double]]]\n");
    exit(64);
}

static int plant_of(const char *text) {
    static const char *const names[] = {"nothing", "leak", "descriptor", "gather", "double"};
    for (int i = 0; i < 5; i++)
        if (!strcmp(text, names[i])) return i;
    print_usage();
    return 0;
}

/* Runs the program again without malloc's per-thread caches, and with two arenas. Cached blocks
   count as in use, and forty threads of a process fill their caches over hours without any leak.
   These settings must be in place before the program begins. */
static void measure_exactly(char **argv) {
    (void)mallopt(M_ARENA_MAX, 2);
    if (getenv("GLIBC_TUNABLES")) return;
    (void)setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0", 1);
    (void)execv("/proc/self/exe", argv);
    perror("soak: cannot restart itself");
    exit(71);
}

int main(int argc, char **argv) {
    measure_exactly(argv);
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 2 || argc > 5) print_usage();
    hours = strtod(argv[1], NULL);
    if (!(hours > 0 && hours < 10000)) print_usage();
    seed = argc > 2 && *argv[2] ? (unsigned)strtoul(argv[2], NULL, 10) : (unsigned)time(NULL);
    if (argc > 3) folder = argv[3];
    if (argc > 4) plant = plant_of(argv[4]);
    srand(seed);
    const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_goes_wrong_or_grows)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
