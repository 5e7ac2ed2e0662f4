/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The controlling terminal. It serves one process group at a time, and the command has its own
 * group. The command needs the terminal for its input, and to get Ctrl-C and Ctrl-Z.
 *
 * If the terminal is not shared, it is lent to the command while the command runs. In a pipeline,
 * other processes of the wrapper's group may use the terminal (`holdfast run x cmd | less`). So it
 * is lent only after the command has stopped because it needs the terminal. Until then the wrapper
 * forwards interrupts.
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
