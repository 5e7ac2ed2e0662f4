/* SPDX-License-Identifier: Apache-2.0 */
#include "b_crew.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "b_report.h"
#include "b_time.h"

#define ENTER_NS INT64_C(30000000000)
#define LOOK_US  500

/* The counter of one thread, in a cache line of its own. */
typedef struct hand {
    _Alignas(64) _Atomic uint64_t turns;
} hand;

/* Shared by all processes. */
typedef struct board {
    atomic_int entered; /* threads */
    atomic_bool stop;
    hand hands[];
} board;

struct b_crew {
    b_work work;
    board *board;
    size_t size;
    pid_t *pids;
    int go[2]; /* a pipe: processes begin when its write end is closed */
};

/* One thread of a process. */
typedef struct crew_thread {
    const b_crew *crew;
    void *inside;
    int process, thread;
    pthread_t id;
} crew_thread;

static void *map_shared(size_t size) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) b_fail("cannot map shared memory: %s", strerror(errno));
    return memory;
}

void *b_shared(size_t size) {
    return map_shared(size);
}

double b_sleep(double seconds) {
    int64_t began = b_now();
    usleep((useconds_t)(seconds * 1e6));
    return (double)(b_now() - began) / 1e9;
}

/* ---- In a process of the crew ---- */

static void *member_main(void *arg) {
    const crew_thread *m = arg;
    const b_work *work = &m->crew->work;
    board *b = m->crew->board;
    _Atomic uint64_t *turns = &b->hands[m->process * work->threads + m->thread].turns;
    char byte;
    atomic_fetch_add(&b->entered, 1);
    if (read(m->crew->go[0], &byte, 1) != 0) b_fail("the signal to begin did not arrive");
    while (!atomic_load_explicit(&b->stop, memory_order_relaxed)) {
        work->turn(m->inside, m->thread);
        atomic_fetch_add_explicit(turns, 1, memory_order_relaxed);
    }
    return NULL;
}

static _Noreturn void process_main(const b_crew *crew, int process) {
    const b_work *work = &crew->work;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    close(crew->go[1]);
    void *inside = work->enter(work->arg, process);
    crew_thread *members = calloc((size_t)work->threads, sizeof *members);
    if (!members) b_fail("out of memory");
    for (int i = 0; i < work->threads; i++) {
        members[i] = (crew_thread){.crew = crew, .inside = inside, .process = process, .thread = i};
        if (pthread_create(&members[i].id, NULL, member_main, &members[i]) != 0)
            b_fail("cannot start a thread");
    }
    for (int i = 0; i < work->threads; i++) pthread_join(members[i].id, NULL);
    work->leave(inside, work->threads);
    _exit(0);
}

/* ---- Watching ---- */

static void await_all(const b_crew *crew) {
    const b_work *work = &crew->work;
    int64_t until = b_now() + ENTER_NS;
    while (atomic_load(&crew->board->entered) < work->processes * work->threads) {
        for (int i = 0; i < work->processes; i++)
            if (waitpid(crew->pids[i], NULL, WNOHANG) == crew->pids[i])
                b_fail("process %d of %d ended before it began", i, work->processes);
        if (b_now() > until) b_fail("not all of %d processes have begun", work->processes);
        usleep(LOOK_US);
    }
}

b_crew *b_crew_start(const b_work *work) {
    size_t hands = (size_t)work->processes * (size_t)work->threads;
    b_crew *crew = calloc(1, sizeof *crew);
    if (!crew) b_fail("out of memory");
    crew->work = *work;
    crew->size = sizeof(board) + hands * sizeof(hand);
    crew->board = map_shared(crew->size);
    crew->pids = calloc((size_t)work->processes, sizeof *crew->pids);
    if (!crew->pids) b_fail("out of memory");
    if (pipe(crew->go) != 0) b_fail("cannot make a pipe: %s", strerror(errno));
    for (int i = 0; i < work->processes; i++) {
        crew->pids[i] = fork();
        if (crew->pids[i] < 0) b_fail("cannot start a process: %s", strerror(errno));
        if (crew->pids[i] == 0) process_main(crew, i);
    }
    await_all(crew);
    close(crew->go[1]);
    return crew;
}

uint64_t b_crew_turns_of(const b_crew *crew, int process) {
    uint64_t turns = 0;
    for (int i = 0; i < crew->work.threads; i++)
        turns += atomic_load(&crew->board->hands[process * crew->work.threads + i].turns);
    return turns;
}

uint64_t b_crew_turns(const b_crew *crew) {
    uint64_t turns = 0;
    for (int i = 0; i < crew->work.processes; i++) turns += b_crew_turns_of(crew, i);
    return turns;
}

void b_crew_end(b_crew *crew) {
    atomic_store(&crew->board->stop, true);
    bool failed = false;
    for (int i = 0; i < crew->work.processes; i++) {
        int status;
        if (waitpid(crew->pids[i], &status, 0) < 0 || status != 0) failed = true;
    }
    if (failed) b_fail("a process of the crew failed");
    close(crew->go[0]);
    munmap(crew->board, crew->size);
    free(crew->pids);
    free(crew);
}
