/* SPDX-License-Identifier: Apache-2.0 */
/* The faults that a soak injects into servers and processes. */
#ifndef HF_SOAK_FAULT_INJECTOR_H
#define HF_SOAK_FAULT_INJECTOR_H

#include "soak.h"
#include "t.h"

typedef struct fault_injector {
    soak *s;
    t_redis *servers[2]; /* SOAK_KEPT, SOAK_WIPED */
    t_proc *workers[SOAK_PROCESSES];
    int64_t began_ms;
    FILE *log; /* time and kind of each fault */
    int done;
} fault_injector;

/* Inject one random fault; servers and processes run again when it returns. */
void fault_inject(fault_injector *d);

/* Start a process of the soak, for the first time or again. */
void fault_start_worker(fault_injector *d, int process);

#endif
