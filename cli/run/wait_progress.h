/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shows the holder during a wait: a line on the terminal that is updated every second and removed
 * when the wait ends. A separate thread draws it and inspects the lock with the waiting client.
 */
#ifndef CLI_RUN_WAIT_PROGRESS_H
#define CLI_RUN_WAIT_PROGRESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "holdfast.h"

typedef struct wait_progress {
    hf_client *client;
    const char *const *names;
    int name_count;
    hf__time began;
    int stop; /* an eventfd; -1: nothing is drawn */
    bool drawn;
    pthread_t thread;
} wait_progress;

/* Finds one of the names that another holds, and the number of waiters ahead (-1: unknown). NULL if
   there is none. The caller frees the result with hf_info_free. */
hf_info *wait_progress_inspect(const wait_progress *w, const char **name, int64_t *ahead);

/* Starts the line, if stderr is a terminal and --quiet was not given. */
void wait_progress_start(wait_progress *w);

/* Removes the line when the wait is over. */
void wait_progress_stop(wait_progress *w);

#endif
