/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See leftovers.h. Every visit and every closed client adds the resources that it does not free. So
 * a few bytes for each are visible even in a run that is too short for a trend. Allowed leftovers:
 *
 * - heap: 16 KiB, for malloc's second arena, memory that the C library keeps for ended threads, and
 *   the list of our descriptors (src/store/file/clofork.c): some 4 KiB, once for each process.
 * - descriptors: none.
 */
#include "leftovers.h"

#include <dirent.h>
#include <malloc.h>
#include <stdio.h>

#include "t_time.h"

enum { HEAP_MAX = 16 * 1024, CLOSING_MS = 10000, LOOK_EVERY_MS = 50 };

static long long heap_before, fds_before;

/* Includes large blocks that have their own mappings. */
static long long heap_in_use(void) {
    struct mallinfo2 all = mallinfo2();
    return (long long)(all.uordblks + all.hblkhd);
}

static long long count_descriptors(void) {
    long long count = 0;
    DIR *directory = opendir("/proc/self/fd");
    while (directory && readdir(directory)) count++;
    if (directory) closedir(directory);
    return count;
}

void leftovers_begin(void) {
    fds_before = count_descriptors();
    heap_before = heap_in_use();
}

long long leftovers_heap(void) {
    return heap_in_use() - heap_before;
}

/* A detached thread may still be about to end. */
void leftovers_end(soak_process *p) {
    int64_t end_ms = t_now_ms() + CLOSING_MS;
    while (count_descriptors() > fds_before && t_now_ms() < end_ms) t_sleep_ms(LOOK_EVERY_MS);
    atomic_store(&p->heap_left, leftovers_heap());
    atomic_store(&p->fds_left, count_descriptors() - fds_before);
    atomic_store(&p->closed, true);
}

int leftovers_judge(soak *s) {
    long long heap = 0, fds = 0;
    int bad = 0, closed = 0;
    for (int i = 0; i < SOAK_PROCESSES; i++) {
        soak_process *p = &s->processes[i];
        long long of_heap = atomic_load(&p->heap_left), of_fds = atomic_load(&p->fds_left);
        if (!atomic_load(&p->closed)) continue; /* its bad end is reported elsewhere */
        closed++;
        if (of_heap > heap) heap = of_heap;
        if (of_fds > fds) fds = of_fds;
        bad += (of_heap > HEAP_MAX) + (of_fds > 0);
    }
    printf("left after closing, the worst of %d processes: %lld bytes (allowed %d), %lld "
           "descriptors (allowed 0): %s\n",
           closed, heap, HEAP_MAX, fds, bad ? "LEFT BEHIND" : "nothing");
    return bad;
}
