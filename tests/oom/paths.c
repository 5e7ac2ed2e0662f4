/* SPDX-License-Identifier: Apache-2.0 */
#include "paths.h"

#include <execinfo.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "calls.h"
#include "t_proc.h"

enum {
    /* the innermost; three of them are not the library's but here and in calls.c */
    FUNCTIONS = 10,
    PATHS_MAX = 65536, /* call paths */
    CALLS = 65536      /* of a kind in a case: later calls are not picked */
};

typedef struct call_path {
    _Atomic uint64_t hash; /* 0: not in use */
    atomic_long times;
} call_path;

/* The data that programs share. */
typedef struct shared_paths {
    atomic_long begun;
    call_path entries[PATHS_MAX];
} shared_paths;

struct paths {
    shared_paths *shared_paths;
    atomic_bool picked[CALLS_COUNT][CALLS];
};

/* ---- Opening and closing ---- */

static void *map_file(const char *path, size_t size) {
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)size) != 0) abort();
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) abort();
    close(fd);
    return at;
}

paths *paths_new(const char *file) {
    paths *p = t_shared_new(sizeof *p);
    p->shared_paths =
        file ? map_file(file, sizeof *p->shared_paths) : t_shared_new(sizeof *p->shared_paths);
    return p;
}

void paths_free(paths *p) {
    munmap(p->shared_paths, sizeof *p->shared_paths);
    t_shared_free(p, sizeof *p);
}

/* ---- Call paths ---- */

static uint64_t mix_hash(uint64_t hash, uint64_t with) {
    hash = (hash ^ with) * UINT64_C(0x9E3779B97F4A7C15);
    return hash ^ hash >> 29;
}

/* The same in all programs, wherever they are loaded: addresses outside the program are left
   out. */
static uint64_t hash_here(int kind) {
    extern const char __executable_start[], etext[];
    void *frames[FUNCTIONS];
    int depth = backtrace(frames, FUNCTIONS);
    uint64_t hash = mix_hash(1, (uint64_t)kind);
    for (int i = 0; i < depth; i++) {
        const char *at = frames[i];
        if (at >= __executable_start && at < etext)
            hash = mix_hash(hash, (uint64_t)(at - __executable_start));
    }
    return hash ? hash : 1;
}

/* How many times the path has been taken, with this one; 1 if the table is full. */
static long count_path(paths *p, uint64_t hash) {
    for (size_t i = 0; i < PATHS_MAX; i++) {
        call_path *at = &p->shared_paths->entries[(hash + i) % PATHS_MAX];
        uint64_t found = 0;
        if (atomic_compare_exchange_strong(&at->hash, &found, hash) || found == hash)
            return atomic_fetch_add(&at->times, 1) + 1;
    }
    return 1;
}

/* ---- Picking ---- */

long paths_begin(paths *p) {
    memset(p->picked, 0, sizeof p->picked);
    return atomic_fetch_add(&p->shared_paths->begun, 1);
}

void paths_note(paths *p, int kind, long nth) {
    long n = count_path(p, hash_here(kind));
    bool power_of_two = (n & (n - 1)) == 0;
    if (nth <= CALLS && power_of_two) atomic_store(&p->picked[kind][nth - 1], true);
}

bool paths_picked(const paths *p, int kind, long nth) {
    return nth <= CALLS && atomic_load(&p->picked[kind][nth - 1]);
}
