/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The controlling terminal. The terminal serves one process group at a time, and the command has
 * its own group. It needs the terminal to read from it and to be interrupted or stopped by it.
 *
 * If the terminal is not shared, it is lent to the command while that runs. In a pipeline other
 * processes of the wrapper's group may use it (`holdfast run x cmd | less`). There it is lent only
 * when the command has stopped because it needs it; until then the wrapper forwards interrupts.
 */
#ifndef CLI_RUN_TERMINAL_H
#define CLI_RUN_TERMINAL_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct terminal {
    int fd;      /* -1: there is none */
    pid_t group; /* of the wrapper */
    bool shared; /* with other processes of a pipeline */
    bool lent;
    pid_t borrower; /* the group it is lent to */
} terminal;

void terminal_open(terminal *t);

/* True if the wrapper's group is in the foreground. */
bool terminal_is_ours(const terminal *t);

/* SIGTTOU must be blocked for both. */
void terminal_lend(terminal *t, pid_t group);
void terminal_take_back(terminal *t);

#endif
