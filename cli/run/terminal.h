/*
 * The controlling terminal, which the command needs in order to read it, be interrupted and be
 * stopped by it: the terminal talks to one process group at a time, and the command has its own.
 *
 * Where the terminal is ours alone, it is lent to the command for as long as that runs. In a pipeline
 * others of our group may use it (`holdfast run x cmd | less`), so it is lent only when the command
 * has stopped for want of it; until then we are interrupted, and pass it on.
 */
#ifndef CLI_RUN_TERMINAL_H
#define CLI_RUN_TERMINAL_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct terminal {
    int fd;      /* -1: there is none */
    pid_t group; /* ours */
    bool shared; /* with others of a pipeline */
    bool lent;
    pid_t borrower; /* whom to */
} terminal;

void terminal_open(terminal *t);

/* It is our group's: we were started or put in the foreground. */
bool terminal_is_ours(const terminal *t);

/* SIGTTOU must be blocked for both. */
void terminal_lend(terminal *t, pid_t group);
void terminal_take_back(terminal *t);

#endif
