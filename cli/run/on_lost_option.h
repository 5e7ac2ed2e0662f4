/* SPDX-License-Identifier: Apache-2.0 */
/* --on-lost: what to do with the command when the lock is lost, or a hook to run. */
#ifndef CLI_RUN_ON_LOST_OPTION_H
#define CLI_RUN_ON_LOST_OPTION_H

#include <stdbool.h>

typedef struct on_lost_option {
    int signal;       /* for the command; 0: not given */
    bool continues;   /* the command continues without the lock */
    const char *hook; /* NULL: none */
} on_lost_option;

/* Parses one value of --on-lost: "continue", a signal (TERM, SIGUSR1, 10) or a hook. False if it
   looks like a signal but is not one. */
bool on_lost_parse(on_lost_option *choice, const char *text);

#endif
