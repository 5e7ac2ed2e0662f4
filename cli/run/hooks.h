/*
 * Commands that are told of what happens in a run. They run beside it, by $SHELL -c, and nothing
 * waits for them before the end; then they have a few seconds. What they print goes to the standard
 * error.
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

/* Start one. It finds `event` in HOLDFAST_EVENT, and in HOLDFAST_WHY the reason, where there is
   one. */
void hooks_start(hooks *h, const char *option, const char *command, const char *event,
                 const char *why);

/* See them ended: wait for them, for a few seconds at most. */
void hooks_end(hooks *h);

/* The same, but at once: we are dying. */
void hooks_abandon(const hooks *h);

#endif
