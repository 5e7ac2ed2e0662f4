/* SPDX-License-Identifier: Apache-2.0 */
/* The command as a child process that leads its own process group. */
#ifndef CLI_RUN_CHILD_PROCESS_H
#define CLI_RUN_CHILD_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "run/guard_process.h"
#include "run/terminal.h"

typedef struct child_process {
    pid_t group; /* the process group, and the pid of the child */
    bool ended;
    int status; /* as from wait(2); valid once `ended` */
} child_process;

/* All signals must be blocked. Lends the terminal to the child if the terminal is not shared and
   this process group is in the foreground. False with errno if the fork fails. An exec that fails
   is reported in the page of the guard. */
bool child_start(child_process *c, char **argv, const guard_process *g, terminal *t);

/* Checks the child. Returns the signal that stopped it, or 0; sets `ended`. */
int child_check(child_process *c);

/* False if the group has no processes any more. */
bool child_signal(const child_process *c, int sig);

/* The signal that ended it, or 0. */
int child_killed_by(const child_process *c);

/* Its own exit code, or 128 plus the signal that ended it. */
int child_exit_code(const child_process *c);

#endif
