/* --on-lost: what becomes of the command when its lock is lost, or a hook that is told of it. */
#ifndef CLI_RUN_ON_LOST_OPTION_H
#define CLI_RUN_ON_LOST_OPTION_H

#include <stdbool.h>

typedef struct on_lost_option {
    int signal;       /* by which the command is told to end; 0: none was chosen */
    bool continues;   /* it runs on without the lock */
    const char *hook; /* NULL: none */
} on_lost_option;

/* One value of --on-lost: "continue", a signal (TERM, SIGUSR1, 10) or the command of a hook.
   False if it looks like a signal and is none. */
bool on_lost_parse(on_lost_option *choice, const char *text);

#endif
