/* The command that is run: a child that leads a process group of its own. */
#ifndef CLI_RUN_CHILD_PROCESS_H
#define CLI_RUN_CHILD_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "run/guard_process.h"
#include "run/terminal.h"

typedef struct child_process {
    pid_t group; /* and the child's pid */
    bool ended;
    int status; /* of wait(2), once it has ended */
} child_process;

/* All signals must be blocked. The terminal is lent if it is ours alone and in the foreground.
   False with errno if there is no child; one that cannot run the command says so in the guard's
   page. */
bool child_start(child_process *c, char **argv, const guard_process *g, terminal *t);

/* What has happened to the child: the signal that stopped it, or 0 (see `ended`). */
int child_check(child_process *c);

/* False if nobody is left to take it. */
bool child_signal(const child_process *c, int sig);

/* The signal that ended it, or 0. */
int child_killed_by(const child_process *c);

/* Its own exit code, or 128 and the signal that ended it. */
int child_exit_code(const child_process *c);

#endif
