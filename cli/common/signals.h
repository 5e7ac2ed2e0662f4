/*
 * Signals, in the three times of a run. Until the lock is waited for they act as they did when we
 * were started. While it is waited for, those that would end us end the wait first. From then on
 * all are blocked, and read from a descriptor. What was ignored when we were started (nohup) ends
 * neither.
 */
#ifndef CLI_COMMON_SIGNALS_H
#define CLI_COMMON_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

#include "holdfast.h"

void signals_begin(void);

/* Fire `cancel` at the first signal that would end us. A second one does end us. */
void signals_cancel(hf_cancel *cancel);

/* Block them; the one that fired the cancel, or 0. */
int signals_block(void);

/* A descriptor that is readable when there is a signal, and the next signal; 0: no more now. */
int signals_fd(void);
int signals_next(int fd);

/* When we were started this signal was ignored. */
bool signals_ignored(int sig);

/* Whom a signal is meant for: us, or all of our process group, as one of the terminal's is. */
typedef enum signal_target { OURSELVES, OUR_GROUP } signal_target;

/* Stop as `sig` would have stopped us. True when we were continued, and SIGCONT is to be read;
   false if we cannot be stopped, for nobody is there to continue us. */
bool signals_stop(int sig, signal_target target);

/* Die of it, so that whoever waits for us sees what ended us. */
_Noreturn void signals_die(int sig, signal_target target);

/* Those that were blocked when we were started. */
const sigset_t *signals_inherited(void);

/* In the child: everything as it was when we were started. */
void signals_restore(void);

#endif
