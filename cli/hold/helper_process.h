/*
 * The helper: a process in the background that takes a lock, holds and renews it, and gives it back
 * when another process has ended, when its time is up, or when it is told to. It is forked before
 * anything is opened, so that the lock is its own, in any store; whoever forked it waits for its
 * report.
 */
#ifndef CLI_HOLD_HELPER_PROCESS_H
#define CLI_HOLD_HELPER_PROCESS_H

#include <stdint.h>

#include "common/store.h"
#include "holdfast.h"

typedef struct helper_process {
    const store *store;
    const char *name, *handle; /* the lock; the file */
    hf_options options;        /* how to take it */
    int process;               /* pidfd of the process to hold it for; -1: none */
    int64_t max_hold_ms;       /* 0: none */
} helper_process;

/* Start it: 0 and the token, or the exit code with the failure said. It holds on when this
   returns. */
int helper_start(const helper_process *h, uint64_t *token);

#endif
