/*
 * The guard: a process that ends the command if the wrapper (`holdfast run` itself) cannot, because
 * the wrapper was killed or stopped.
 *
 * The guard is forked while the lock is held and before the command starts. It has two inputs:
 *
 * - The lifeline, a pipe whose other end only the wrapper holds. It hangs up when the wrapper dies.
 * - A page of memory, shared with the wrapper and, until its exec, with the command.
 *
 * At no moment does the command run without the guard knowing whom to kill. The child enters its
 * group into the page before its exec, and only if the group is still 0. The guard reads the group
 * and closes the page in one atomic step. So a child that comes too late finds the page closed and
 * exits, and one that came in time is killed.
 *
 * The fork skips the fork handlers of the library, so the guard keeps the descriptors of the file
 * store. A kernel lock is then free only when the guard is gone too, which is after the command.
 */
#ifndef CLI_RUN_GUARD_PROCESS_H
#define CLI_RUN_GUARD_PROCESS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/time.h"

typedef struct guard_page {
    _Atomic hf__time
        kill_at;           /* when the command must be gone; a renewal of the lease moves it on */
    _Atomic pid_t group;   /* the command's; 0: not started; GUARD_CLOSED: too late to start */
    atomic_bool killed;    /* the guard has killed the group */
    atomic_int exec_error; /* why the command could not become the user's program */
} guard_page;

#define GUARD_CLOSED ((pid_t)-1)

typedef struct guard_process {
    guard_page *page;
    pid_t pid;    /* 0: there is none */
    int lifeline; /* our end */
} guard_process;

/* Fork it, with the time at which it kills. All signals must be blocked. False with errno. */
bool guard_start(guard_process *g, hf__time kill_at);

/* In the child that becomes the command, once it leads its group: false if it must not run. */
bool guard_register(const guard_process *g, pid_t group);

/* Move the kill on, to a later time or a sooner one. */
void guard_set_deadline(guard_process *g, hf__time kill_at);

bool guard_has_killed(const guard_process *g);

/* True if it ended by itself, and has been reaped: it has killed, or somebody killed it. */
bool guard_ended(guard_process *g);

/* Fork another in the place of one that ended. False with errno. */
bool guard_restart(guard_process *g);

/* Send it away, and make sure it is gone; guard_wait waits until it is. */
void guard_stop(const guard_process *g);
void guard_wait(guard_process *g);

#endif
