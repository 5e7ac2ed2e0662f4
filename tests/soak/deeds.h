/* The faults that a soak injects into servers and processes. */
#ifndef HF_SOAK_DEEDS_H
#define HF_SOAK_DEEDS_H

#include "soak.h"
#include "t.h"

typedef struct deeds {
    soak *s;
    t_redis *servers[2]; /* SOAK_KEPT, SOAK_WIPED */
    t_proc *workers[SOAK_PROCESSES];
    int64_t began_ms;
    FILE *log; /* time and kind of each fault */
    int done;
} deeds;

/* Inject one random fault; servers and processes run again when it returns. */
void deeds_do(deeds *d);

/* Start a process of the soak, for the first time or again. */
void deeds_start_worker(deeds *d, int process);

#endif
