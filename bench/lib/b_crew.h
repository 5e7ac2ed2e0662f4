/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A crew: processes with threads that all repeat the same work while the program measures. An error
 * in any of them ends the program.
 */
#ifndef B_CREW_H
#define B_CREW_H

#include <stddef.h>
#include <stdint.h>

/* The work. `arg` has the contents it had before the fork; shared results belong in b_shared. */
typedef struct b_work {
    int processes, threads; /* threads of each process */
    void *arg;
    void *(*enter)(void *arg, int process);  /* in each process, before its threads start */
    void (*turn)(void *inside, int thread);  /* with the value that enter returned */
    void (*leave)(void *inside, int number); /* after the threads; gets their number */
} b_work;

typedef struct b_crew b_crew;

/* Returns when all threads have entered; they begin then. */
b_crew *b_crew_start(const b_work *work);

/* Turns so far, of all processes or of one. */
uint64_t b_crew_turns(const b_crew *crew);
uint64_t b_crew_turns_of(const b_crew *crew, int process);

/* Let each thread finish its turn, wait for all, and free the crew. */
void b_crew_end(b_crew *crew);

/* Zeroed memory that this process shares with its later forks; it lives until the end. */
void *b_shared(size_t size);

/* Sleep this many seconds; returns how many really passed. */
double b_sleep(double seconds);

#endif
