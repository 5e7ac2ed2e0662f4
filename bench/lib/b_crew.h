/*
 * A crew: processes, each with threads, that all do the same again and again while the program
 * watches. Whatever goes wrong in one of them ends the program.
 */
#ifndef B_CREW_H
#define B_CREW_H

#include <stddef.h>
#include <stdint.h>

/* What they do. `arg` is as it was before the fork: what all are to write lies in b_shared. */
typedef struct b_work {
    int processes, threads; /* threads of each process */
    void *arg;
    void *(*enter)(void *arg, int process);  /* in each process, before its threads */
    void (*turn)(void *inside, int thread);  /* with what enter returned */
    void (*leave)(void *inside, int number); /* after them; of how many threads */
} b_work;

typedef struct b_crew b_crew;

/* Returns when all have entered, and begin. */
b_crew *b_crew_start(const b_work *work);

/* Turns done so far, by all or by one process. */
uint64_t b_crew_turns(const b_crew *crew);
uint64_t b_crew_turns_of(const b_crew *crew, int process);

/* Let each end its turn, wait for all, and free. */
void b_crew_end(b_crew *crew);

/* Memory that this process shares with those it forks from now on, zeroed; kept to the end. */
void *b_shared(size_t size);

/* Asleep for so many seconds, from now; how many it really were. */
double b_sleep(double seconds);

#endif
