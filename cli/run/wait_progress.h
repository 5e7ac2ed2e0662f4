/*
 * Who is waited for: said once to those who asked to be told, and shown on a terminal as a line
 * that is brought up to date every second and goes when the wait ends. The line is drawn by a
 * thread of its own, which looks at the lock through the client that waits for it.
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

/* One of the names that another holds, as far as can be seen, and how many stand in line before
   us there, -1: not known. NULL: none was seen. Freed with hf_info_free. */
hf_info *wait_progress_look(const wait_progress *w, const char **name, int64_t *ahead);

/* Draw from now on, if the standard error is a terminal and we may speak. */
void wait_progress_start(wait_progress *w);

/* The wait is over: the line goes. */
void wait_progress_stop(wait_progress *w);

#endif
