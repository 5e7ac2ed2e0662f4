/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How time and memory grow with the number of held locks or of waits, in one process, on the store
 * of a URL. Prints one line of JSON.
 *
 *     growth locks URL N SECONDS     N locks held and renewed: memory of each, and the time of a
 *                                    pair on another name
 *     growth waits URL N SECONDS     N waits of one client for one name: memory of each, and the
 *                                    time from grant to grant when each waits again after its turn
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

static void fail_with(const char *what) {
    fprintf(stderr, "growth: %s\n", what);
    exit(1);
}

static void check_result(hf_result result) {
    if (result != HF_OK) fail_with(hf_error_detail());
}

/* Memory of this process, in bytes. */
static long resident_bytes(void) {
    long pages = 0;
    FILE *statm = fopen("/proc/self/statm", "r");
    if (!statm || fscanf(statm, "%*d %ld", &pages) != 1) fail_with("cannot read /proc/self/statm");
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
    check_result(hf_lock(client, name, &hold));
    check_result(hf_release(hold));
}

static void hold_some(hf_client *client, long from, long to) {
    char name[NAME_ROOM];
    hf_hold *hold;
    for (long i = from; i < to; i++) {
        snprintf(name, sizeof name, "growth:%ld", i);
        check_result(hf_lock(client, name, &hold));
    }
}

static void measure_locks(hf_client *client, long n, double seconds) {
    static int64_t took[1 << 20];
    size_t count = 0;
    memset(took, 0, sizeof took); /* so that its pages are not counted */
    for (int i = 0; i < 100; i++) one_pair(client, "growth:pair");
    long before = resident_bytes();
    hold_some(client, 0, n);
    long after = resident_bytes();
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

typedef struct wait_load {
    hf_client *client;
    atomic_long turns;
    atomic_bool over;
} wait_load;

static void on_released(hf_result result, void *arg);

static void on_acquired(hf_result result, hf_hold *hold, void *arg) {
    wait_load *l = arg;
    if (result != HF_OK) {
        if (!atomic_load(&l->over)) fail_with(hf_error_detail());
        return;
    }
    atomic_fetch_add(&l->turns, 1);
    check_result(hf_release_async(hold, on_released, l));
}

static void start_wait(wait_load *l) {
    check_result(hf_acquire_async(l->client, "growth:line", &(hf_options){.wait_ms = HF_FOREVER},
                                  on_acquired, l));
}

static void on_released(hf_result result, void *arg) {
    wait_load *l = arg;
    if (atomic_load(&l->over)) return;
    check_result(result);
    start_wait(l);
}

static void measure_waits(hf_client *client, hf_client *other, long n, double seconds) {
    wait_load l = {.client = client};
    hf_hold *hold;
    one_pair(client, "growth:pair");
    check_result(hf_lock(other, "growth:line", &hold));
    start_wait(&l); /* allocates what only the first wait needs */
    long before = resident_bytes();
    for (long i = 1; i < n; i++) start_wait(&l);
    long after = resident_bytes();
    check_result(hf_release(hold));
    usleep(200000);
    long first = atomic_load(&l.turns);
    int64_t begun = b_now();
    usleep((useconds_t)(seconds * 1e6));
    long turns = atomic_load(&l.turns) - first;
    int64_t took = b_now() - begun;
    atomic_store(&l.over, true);
    if (!turns) fail_with("no acquire was granted");
    printf("{\"n\":%ld,\"p50\":%lld,\"bytes\":%ld}\n", n, (long long)(took / turns),
           n > 1 ? (after - before) / (n - 1) : 0);
}

/* On file: each held lock needs a descriptor. */
static void raise_limit(void) {
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files)) return;
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
}

int main(int argc, char **argv) {
    hf_client *client, *other;
    if (argc != 5) fail_with("usage: growth locks|waits URL N SECONDS");
    long n = strtol(argv[3], NULL, 10);
    double seconds = strtod(argv[4], NULL);
    if (n < 1) fail_with("N must be at least 1");
    raise_limit();
    check_result(hf_open(argv[2], NULL, &client));
    check_result(hf_open(argv[2], NULL, &other));
    if (!strcmp(argv[1], "locks"))
        measure_locks(client, n, seconds);
    else
        measure_waits(client, other, n, seconds);
    fflush(stdout);
    _exit(0); /* held locks end with their lease, or with the process */
}
