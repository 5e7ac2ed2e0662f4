/* SPDX-License-Identifier: Apache-2.0 */
/* A process of a soak: its clients, its threads, and its leader observer. */
#ifndef HF_SOAK_WORKER_H
#define HF_SOAK_WORKER_H

#include "soak.h"

typedef struct worker_options {
    soak *s;
    int process;
} worker_options;

/* For t_proc_start: runs until s->stopping. */
int worker_run(void *options);

#endif
