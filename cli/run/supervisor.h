/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Supervises the command while the lock is held: forwards signals, lends the terminal, and ends the
 * command before the hold ends, unless it is to continue without the lock.
 *
 *     running ──── no renewal, and `grace` before the deadline ──┐
 *        │                                                       v
 *        ├──────── the hold is lost ───────────> ending: SIGTERM, then SIGKILL at kill_at
 *        v                                                       v
 *      over: the child has ended                 over: the whole group has ended
 *
 * A command that is to continue stays in `running` when the hold is lost.
 */
#ifndef CLI_RUN_SUPERVISOR_H
#define CLI_RUN_SUPERVISOR_H

#include <stdbool.h>
#include <stdint.h>

#include "holdfast.h"
#include "run/child_process.h"
#include "run/guard_process.h"
#include "run/terminal.h"

typedef struct supervisor_options {
    int64_t grace_ms;
    int lost_signal;    /* sent to the command when the lock is lost */
    bool continues;     /* the command is not signalled and continues without the lock */
    hf__time max_until; /* when --max-hold ends the hold, approximately; HF__NEVER: never */
    void (*on_start)(void *arg, pid_t pid);
    void (*on_lost)(void *arg,
                    const char *why); /* called once: the lock was lost, or is about to be */
    void *arg;
} supervisor_options;

typedef struct supervisor {
    hf_hold *hold;
    const char *name;
    supervisor_options options;
    hf__time grace;
    guard_process guard;
    child_process child;
    terminal terminal;
    int signals, lost_fd;
    hf__time deadline; /* of the hold, at the last check */
    hf__time warn_at;  /* when the command is asked to end, unless a renewal comes first */
    hf__time kill_at;
    bool ending, lost;
    bool max_over;      /* it is ending because of --max-hold */
    bool ran;           /* the exec succeeded */
    const char *why;    /* the reason for ending, if it does not come from the hold */
    int interrupted_by; /* the signal of the terminal that killed the command */
} supervisor;

/* Runs the command to its end. Prints errors and returns the exit code. All signals must be
   blocked. The guard is stopped before this returns; supervisor_fini waits for it and is called
   after the release. */
int supervisor_run(supervisor *s, hf_hold *hold, const char *name, char **command,
                   const supervisor_options *options);
void supervisor_fini(supervisor *s);

#endif
