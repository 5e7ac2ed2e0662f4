/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The guard: a process that ends the command if the wrapper (`holdfast run` itself) cannot, because
 * the wrapper was killed or stopped.
 *
 * The guard is forked while the lock is held and before the command starts. It has two inputs:
 *
 * - The lifeline, a pipe whose other end only the wrapper holds. It hangs up when the wrapper dies.
 * - A page of memory that is shared with the wrapper. The command shares it until its exec.
 *
 * Whenever the command runs, the guard knows which group to kill. The child writes its group into
 * the page before its exec, but only if the group is still 0. The guard reads the group and closes
 * the page in one atomic step. So a child that comes too late finds the page closed and exits, and
 * a child that came in time is killed.
 *
 * The fork skips the fork handlers of the library, so the guard keeps the descriptors of the file
 * store. So a kernel lock becomes free only when the guard has ended too, and the guard ends after
 * the command.
 */
#ifndef CLI_RUN_GUARD_PROCESS_H
#define CLI_RUN_GUARD_PROCESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/time.h"

typedef struct guard_page {
    _Atomic hf__time kill_at; /* when the command is killed; every renewal moves it */
    _Atomic pid_t group;      /* of the command; 0: not started; GUARD_CLOSED: too late to start */
    atomic_bool killed;       /* the guard has killed the group */
    atomic_int exec_error;    /* errno of a failed exec */
} guard_page;

#define GUARD_CLOSED ((pid_t)-1)

typedef struct guard_process {
    guard_page *page;
    pid_t pid;    /* 0: there is none */
    int lifeline; /* the end of the wrapper */
} guard_process;

/* Forks the guard; it kills the command at `kill_at`. All signals must be blocked. False with
   errno. */
bool guard_start(guard_process *g, hf__time kill_at);

/* Called in the child once it leads its group. False if it must not run the command. */
bool guard_register(const guard_process *g, pid_t group);

/* Sets a new time for the kill, later or earlier. */
void guard_set_deadline(guard_process *g, hf__time kill_at);

bool guard_has_killed(const guard_process *g);

/* True if the guard has ended and was reaped: it has killed the command, or was killed itself. */
bool guard_ended(guard_process *g);

/* Forks a new guard after the old one ended. False with errno. */
bool guard_restart(guard_process *g);

/* guard_stop kills the guard, guard_wait waits until it is gone. */
void guard_stop(const guard_process *g);
void guard_wait(guard_process *g);

#endif
