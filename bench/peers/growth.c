/*
 * What grows with the number of locks held, and of waits in line: time and memory, in one process, on
 * the store that a URL names. One line of JSON.
 *
 *     growth locks URL N SECONDS     N held and renewed: memory of each, and the pair of another name
 *     growth waits URL N SECONDS     N waits of one client for one name: memory of each, and the time
 *                                    from one to the next when they are served and ask again
 */
#include <holdfast.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "b_time.h"

#define NAME_ROOM 64

static void fail(const char *what) {
    fprintf(stderr, "growth: %s\n", what);
    exit(1);
}

static void must(hf_result result) {
    if (result != HF_OK) fail(hf_error_detail());
}

/* Of this process, in bytes. */
static long resident(void) {
    long pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (!statm || fscanf(statm, "%*d %ld", &pages) != 1) fail("cannot read /proc/self/statm");
    fclose(statm);
    return pages * sysconf(_SC_PAGESIZE);
}

static int by_size(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* ---- Locks ---- */

static void one_pair(hf_client *client, const char *name) {
    hf_hold *hold;
    must(hf_lock(client, name, &hold));
    must(hf_release(hold));
}

static void hold_some(hf_client *client, long from, long to) {
    char name[NAME_ROOM];
    hf_hold *hold;
    for (long i = from; i < to; i++) {
        snprintf(name, sizeof name, "growth:%ld", i);
        must(hf_lock(client, name, &hold));
    }
}

static void locks(hf_client *client, long n, double seconds) {
    static int64_t took[1 << 20];
    size_t count = 0;
    memset(took, 0, sizeof took); /* its pages are not to count */
    for (int i = 0; i < 100; i++) one_pair(client, "growth:pair");
    long before = resident();
    hold_some(client, 0, n);
    long after = resident();
    for (int64_t until = b_now() + (int64_t)(seconds * 1e9); b_now() < until && count < 1 << 20;) {
        int64_t begun = b_now();
        one_pair(client, "growth:pair");
        took[count++] = b_now() - begun;
    }
    qsort(took, count, sizeof *took, by_size);
    printf("{\"n\":%ld,\"p50\":%lld,\"p99\":%lld,\"bytes\":%ld}\n", n, (long long)took[count / 2],
           (long long)took[count * 99 / 100], (after - before) / n);
}

/* ---- Waits ---- */

typedef struct line {
    hf_client *client;
    atomic_long turns;
    atomic_bool over;
} line;

static void released(hf_result result, void *arg);

static void acquired(hf_result result, hf_hold *hold, void *arg) {
    line *l = arg;
    if (result != HF_OK) {
        if (!atomic_load(&l->over)) fail(hf_error_detail());
        return;
    }
    atomic_fetch_add(&l->turns, 1);
    must(hf_release_async(hold, released, l));
}

static void ask(line *l) {
    must(hf_acquire_async(l->client, "growth:line", &(hf_options){.wait_ms = HF_FOREVER}, acquired,
                          l));
}

static void released(hf_result result, void *arg) {
    line *l = arg;
    if (atomic_load(&l->over)) return;
    must(result);
    ask(l);
}

static void waits(hf_client *client, hf_client *other, long n, double seconds) {
    line l = {.client = client};
    hf_hold *hold;
    one_pair(client, "growth:pair");
    must(hf_lock(other, "growth:line", &hold));
    ask(&l); /* so that what the first needs is there */
    long before = resident();
    for (long i = 1; i < n; i++) ask(&l);
    long after = resident();
    must(hf_release(hold));
    usleep(200000);
    long first = atomic_load(&l.turns);
    int64_t begun = b_now();
    usleep((useconds_t)(seconds * 1e6));
    long turns = atomic_load(&l.turns) - first;
    int64_t took = b_now() - begun;
    atomic_store(&l.over, true);
    if (!turns) fail("the lock stood still");
    printf("{\"n\":%ld,\"p50\":%lld,\"bytes\":%ld}\n", n, (long long)(took / turns),
           n > 1 ? (after - before) / (n - 1) : 0);
}

/* A lock held on file: is a descriptor. */
static void raise_limit(void) {
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files)) return;
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
}

int main(int argc, char **argv) {
    hf_client *client, *other;
    if (argc != 5) fail("usage: growth locks|waits URL N SECONDS");
    long n = strtol(argv[3], NULL, 10);
    double seconds = strtod(argv[4], NULL);
    if (n < 1) fail("N is at least 1");
    raise_limit();
    must(hf_open(argv[2], NULL, &client));
    must(hf_open(argv[2], NULL, &other));
    if (!strcmp(argv[1], "locks"))
        locks(client, n, seconds);
    else
        waits(client, other, n, seconds);
    fflush(stdout);
    _exit(0); /* what is held ends with its lease, or with the process */
}
