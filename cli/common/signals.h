/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Signals in the three phases of a run. Before the wait for the lock they act as inherited. During
 * the wait, a signal that would end this process ends the wait first. After that all signals are
 * blocked and read from a descriptor. Signals that were ignored at the start (nohup) end nothing.
 */
#ifndef CLI_COMMON_SIGNALS_H
#define CLI_COMMON_SIGNALS_H

#include <signal.h>
#include <stdbool.h>

#include "holdfast.h"

void signals_begin(void);

/* Fires `cancel` on the first signal that would end this process. A second signal ends it. */
void signals_cancel(hf_cancel *cancel);

/* Blocks all signals. Returns the signal that fired the cancel, or 0. */
int signals_block(void);

/* A descriptor that is readable when a signal is pending, and the next signal from it; 0 if there
   is none. */
int signals_fd(void);
int signals_next(int fd);

/* True if this signal was ignored when the process started. */
bool signals_ignored(int sig);

/* The target of a signal: this process, or its whole process group, like a signal from the
   terminal. */
typedef enum signal_target { OURSELVES, OUR_GROUP } signal_target;

/* Stops as `sig` would have stopped this process. True once it was continued; SIGCONT is then
   pending. False if it cannot be stopped, because nobody could continue it. */
bool signals_stop(int sig, signal_target target);

/* Dies of the signal, so that the parent sees what ended this process. */
_Noreturn void signals_die(int sig, signal_target target);

/* The signals that were blocked when the process started. */
const sigset_t *signals_inherited(void);

/* In the child: restores what was inherited at the start. */
void signals_restore(void);

#endif
