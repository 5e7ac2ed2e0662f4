/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See sample.h. How much each figure may grow, and why:
 *
 * - heap in use, as malloc counts it: a leak shows here first. It changes with current operations
 *   and connections, not with time. One process: 5 % and 128 KiB. All together, where the changes
 *   even out: 2 % and 4 KiB each. In an hour that is 6 bytes lost with every visit.
 * - Pss: memory that the system gave, with holes in the heap that are not returned. One process:
 *   15 % and 1 MiB; all together: 10 % and 1 MiB.
 * - descriptors: a client that has waited keeps a second connection and a few descriptors for
 *   wake-ups. A client on files keeps some lock files open. All stay until the client is closed, so
 *   the descriptors of one process vary by fifty. One process: 60. All together: 8 each (112). In
 *   three recorded hours the last quarter had 5 less, 44 more and 95 less than the second, with
 *   nothing lost. leftovers.c checks exactly that nothing stays when a client is closed.
 * - memory and keys of a server: 10 % and 1 MiB, 10 % and 100 keys. Clients come and go, and the
 *   keys of a killed client stay for some minutes.
 * - files: 10 % and 30. The files of killed clients stay until the next sweep.
 */
#include "sample.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

typedef struct allowance {
    const char *name, *unit;
    double factor, slack, factor_all, slack_all;
} allowance;

static const allowance allowed[SAMPLE_FIGURES] = {
    [SAMPLE_PSS] = {"Pss", "KiB", 1.15, 1024, 1.10, 1024},
    [SAMPLE_HEAP] = {"heap in use", "KiB", 1.05, 128, 1.02, 4.0 * SAMPLE_LASTING},
    [SAMPLE_FDS] = {"descriptors", "", 1, 60, 1, 8.0 * SAMPLE_LASTING},
};

void samples_begin(samples *m, FILE *csv, const char *directory) {
    *m = (samples){.csv = csv, .directory = directory};
    fprintf(csv, "seconds,of,pss_kib,rss_kib,heap_kib,descriptors,server_bytes,keys,files\n");
}

/* A field of a file with lines "Name:   123 kB"; -1: not found, the process is gone. */
static double field_of(const char *path, const char *field) {
    char line[256];
    double value = -1;
    FILE *file = fopen(path, "re");
    while (file && value < 0 && fgets(line, sizeof line, file))
        if (!strncmp(line, field, strlen(field))) value = strtod(line + strlen(field), NULL);
    if (file) fclose(file);
    return value;
}

static int entries_of(const char *path) {
    int count = 0;
    DIR *directory = opendir(path);
    while (directory && readdir(directory)) count++;
    if (directory) closedir(directory);
    return count;
}

static void add_sample(judge_series *s, double value) {
    if (!judge_add(s, value)) t_fail("out of memory");
}

/* ---- Processes ------------------------------------------------------------------------------- */

static void take_process(samples *m, fault_injector *d, int process, double seconds) {
    char path[64];
    int pid = (int)t_proc_pid(d->workers[process]);
    double figures[SAMPLE_FIGURES];
    snprintf(path, sizeof path, "/proc/%d/smaps_rollup", pid);
    figures[SAMPLE_PSS] = field_of(path, "Pss:");
    double rss = field_of(path, "Rss:");
    snprintf(path, sizeof path, "/proc/%d/fd", pid);
    figures[SAMPLE_FDS] = entries_of(path);
    figures[SAMPLE_HEAP] = (double)atomic_load(&d->s->processes[process].heap) / 1024;
    fprintf(m->csv, "%.0f,process %d,%.0f,%.0f,%.0f,%.0f,,,\n", seconds, process,
            figures[SAMPLE_PSS], rss, figures[SAMPLE_HEAP], figures[SAMPLE_FDS]);
    if (process >= SAMPLE_LASTING) return;
    for (int i = 0; i < SAMPLE_FIGURES; i++) {
        add_sample(&m->of[process][i], figures[i]);
        m->now[i] += figures[i];
    }
}

/* ---- Stores ---------------------------------------------------------------------------------- */

static void take_server(samples *m, fault_injector *d, int store, double seconds) {
    int64_t bytes = t_redis_info(d->servers[store], "used_memory");
    int64_t keys = t_redis_int(d->servers[store], "DBSIZE");
    fprintf(m->csv, "%.0f,%s,,,,,%lld,%lld,\n", seconds, store == SOAK_KEPT ? "kept" : "wiped",
            (long long)bytes, (long long)keys);
    add_sample(&m->memory[store], (double)bytes / 1024);
    add_sample(&m->keys[store], (double)keys);
}

void samples_take(samples *m, fault_injector *d) {
    double seconds = (double)(t_now_ms() - d->began_ms) / 1000;
    memset(m->now, 0, sizeof m->now);
    for (int i = 0; i < SOAK_PROCESSES; i++) take_process(m, d, i, seconds);
    for (int i = 0; i < SAMPLE_FIGURES; i++) add_sample(&m->all[i], m->now[i]);
    for (int i = 0; i < 2; i++) take_server(m, d, i, seconds);
    add_sample(&m->files, entries_of(m->directory));
    fprintf(m->csv, "%.0f,file,,,,,,,%d\n", seconds, entries_of(m->directory));
    fflush(m->csv);
}

/* ---- Judging --------------------------------------------------------------------------------- */

static int print_verdict(const char *what, const char *unit, judge_verdict v) {
    printf("  %-28s %10.0f %10.0f %10.0f  %-4s%s\n", what, v.before, v.after, v.allowed, unit,
           v.flat ? "flat" : "GROWS");
    return v.flat ? 0 : 1;
}

/* Reports the process that is nearest to the limit. */
static int judge_worst(const samples *m, int figure) {
    const allowance *a = &allowed[figure];
    char what[64];
    judge_verdict worst = {0};
    int of = 0, grown = 0;
    for (int i = 0; i < SAMPLE_LASTING; i++) {
        judge_verdict v = judge_flat(&m->of[i][figure], a->factor, a->slack);
        if (!v.flat) grown++;
        if (i && v.after - v.allowed <= worst.after - worst.allowed) continue;
        worst = v;
        of = i;
    }
    snprintf(what, sizeof what, "%s, process %d", a->name, of);
    (void)print_verdict(what, a->unit, worst);
    return grown;
}

int samples_judge(const samples *m) {
    static const char *const names[2] = {"server that keeps", "server that is wiped"};
    char what[64];
    int grown = 0;
    printf("  %-28s %10s %10s %10s\n", "median of a quarter", "second", "last", "allowed");
    for (int i = 0; i < SAMPLE_FIGURES; i++) {
        const allowance *a = &allowed[i];
        snprintf(what, sizeof what, "%s, %d processes", a->name, SAMPLE_LASTING);
        grown += print_verdict(what, a->unit, judge_flat(&m->all[i], a->factor_all, a->slack_all));
        grown += judge_worst(m, i);
    }
    for (int i = 0; i < 2; i++) {
        grown += print_verdict(names[i], "KiB", judge_flat(&m->memory[i], 1.1, 1024));
        snprintf(what, sizeof what, "%s: keys", i == SOAK_KEPT ? "kept" : "wiped");
        grown += print_verdict(what, "", judge_flat(&m->keys[i], 1.1, 100));
    }
    return grown + print_verdict("files", "", judge_flat(&m->files, 1.1, 30));
}

void samples_end(samples *m) {
    for (int i = 0; i < SAMPLE_FIGURES; i++) {
        for (int k = 0; k < SAMPLE_LASTING; k++) judge_fini(&m->of[k][i]);
        judge_fini(&m->all[i]);
    }
    for (int i = 0; i < 2; i++) {
        judge_fini(&m->memory[i]);
        judge_fini(&m->keys[i]);
    }
    judge_fini(&m->files);
}
