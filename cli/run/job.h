/* The command that is run: a child that leads a process group of its own. */
#ifndef CLI_RUN_JOB_H
#define CLI_RUN_JOB_H

#include <stdbool.h>
#include <sys/types.h>

#include "run/guard.h"
#include "run/terminal.h"

typedef struct job {
    pid_t group; /* and the child's pid */
    bool ended;
    int status; /* of wait(2), once it has ended */
} job;

/* All signals must be blocked. The terminal is lent if it is ours alone and in the foreground. False
   with errno if there is no child; one that cannot run the command says so in the guard's page. */
bool job_start(job *j, char **argv, const guard *g, terminal *t);

/* What has happened to the child: the signal that stopped it, or 0 (see `ended`). */
int job_news(job *j);

/* False if nobody is left to take it. */
bool job_signal(const job *j, int sig);

/* The signal that ended it, or 0. */
int job_killed_by(const job *j);

/* Its own exit code, or 128 and the signal that ended it. */
int job_exit_code(const job *j);

#endif
