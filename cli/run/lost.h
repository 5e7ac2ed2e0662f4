/* --on-lost: what becomes of the command when its lock is lost, or a hook that is told of it. */
#ifndef CLI_RUN_LOST_H
#define CLI_RUN_LOST_H

#include <stdbool.h>

typedef struct lost_choice {
    int signal;       /* by which the command is told to end; 0: none was chosen */
    bool goes_on;     /* it runs on without the lock */
    const char *hook; /* NULL: none */
} lost_choice;

/* One value of --on-lost: "continue", a signal (TERM, SIGUSR1, 10) or the command of a hook. False if
   it looks like a signal and is none. */
bool lost_parse(lost_choice *choice, const char *text);

#endif
