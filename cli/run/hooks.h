/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands of the user that run on events, with $SHELL -c. They run at the same time as the
 * command. At the end of the run they have a few seconds to finish. Their output goes to stderr.
 */
#ifndef CLI_RUN_HOOKS_H
#define CLI_RUN_HOOKS_H

#include <sys/types.h>

#define HOOKS_MAX 4

typedef struct hooks {
    struct {
        pid_t pid;
        const char *option;
    } running[HOOKS_MAX];
    int count;
} hooks;

/* Starts a hook with HOLDFAST_EVENT set to `event`, and HOLDFAST_WHY to `why` unless it is NULL. */
void hooks_start(hooks *h, const char *option, const char *command, const char *event,
                 const char *why);

/* Waits a few seconds for all hooks, then kills them. */
void hooks_end(hooks *h);

/* Ends the hooks at once, because the process is dying. */
void hooks_abandon(const hooks *h);

#endif
