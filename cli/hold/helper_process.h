/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The helper: a background process that acquires a lock, renews it, and releases it when another
 * process ends, when its time is over, or on SIGTERM. It is forked before the store is opened, so
 * that the lock belongs to it in any store. The parent waits for its report.
 */
#ifndef CLI_HOLD_HELPER_PROCESS_H
#define CLI_HOLD_HELPER_PROCESS_H

#include <stdint.h>

#include "common/store.h"
#include "holdfast.h"

typedef struct helper_process {
    const store *store;
    const char *name, *handle; /* of the lock; path of the handle */
    hf_options options;        /* of the acquire */
    int process;               /* pidfd of the process that the lock is held for; -1: none */
    int64_t max_hold_ms;       /* 0: none */
} helper_process;

/* Starts the helper. Returns 0 and the token once it holds the lock, or the exit code after
   printing the error. */
int helper_start(const helper_process *h, uint64_t *token);

#endif
