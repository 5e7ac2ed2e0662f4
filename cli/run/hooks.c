/* SPDX-License-Identifier: Apache-2.0 */
#include "run/hooks.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"
#include "common/message.h"
#include "common/signals.h"

#define LONGEST_MS 5000 /* the end of the run waits this long for hooks */
#define POLL       (5 * HF__MS)

/* ---- Starting ---- */

/* A hook gets its own group, so that signals of the terminal do not reach it, and the inherited
   signal mask. */
static int prepare_spawn(posix_spawnattr_t *attributes, posix_spawn_file_actions_t *files) {
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    int error = posix_spawnattr_setflags(
        attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    if (!error) error = posix_spawnattr_setpgroup(attributes, 0);
    if (!error) error = posix_spawnattr_setsigmask(attributes, signals_inherited());
    if (!error) error = posix_spawnattr_setsigdefault(attributes, &pipe);
    if (!error)
        error = posix_spawn_file_actions_addopen(files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    if (!error) error = posix_spawn_file_actions_adddup2(files, STDERR_FILENO, STDOUT_FILENO);
    return error;
}

static int spawn_hook(pid_t *pid, const char *command) {
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_t files;
    const char *named = getenv("SHELL"), *shell = named && *named ? named : "/bin/sh";
    char *argv[] = {(char *)shell, (char *)"-c", (char *)command, NULL};
    int error = posix_spawnattr_init(&attributes);
    if (error) return error;
    error = posix_spawn_file_actions_init(&files);
    if (!error) {
        error = prepare_spawn(&attributes, &files);
        if (!error) error = posix_spawnp(pid, shell, &files, &attributes, argv, environ);
        posix_spawn_file_actions_destroy(&files);
    }
    posix_spawnattr_destroy(&attributes);
    return error;
}

void hooks_start(hooks *h, const char *option, const char *command, const char *event,
                 const char *why) {
    if (!command || h->count == HOOKS_MAX) return;
    bool set = setenv("HOLDFAST_EVENT", event, 1) == 0 && (!why || !setenv("HOLDFAST_WHY", why, 1));
    pid_t pid = 0;
    int error = set ? spawn_hook(&pid, command) : ENOMEM;
    unsetenv("HOLDFAST_EVENT"); /* the command must not see it */
    unsetenv("HOLDFAST_WHY");
    if (error) {
        print_message("cannot run the command of %s: %s", option, strerror(error));
        return;
    }
    h->running[h->count].pid = pid;
    h->running[h->count++].option = option;
}

/* ---- Ending ---- */

static void report_hook(const char *option, int status) {
    if (WIFSIGNALED(status))
        print_message("the command of %s was killed by signal %d", option, WTERMSIG(status));
    else if (WEXITSTATUS(status))
        print_message("the command of %s ended with exit code %d", option, WEXITSTATUS(status));
}

static void await_hook(pid_t pid, const char *option, hf__time until) {
    const struct timespec pause = {.tv_nsec = POLL};
    int status = 0;
    pid_t found;
    while ((found = waitpid(pid, &status, WNOHANG)) == 0 && hf__now() < until)
        nanosleep(&pause, NULL);
    if (found == pid) {
        report_hook(option, status);
    } else if (found == 0) {
        kill(-pid, SIGKILL);
        (void)waitpid(pid, &status, 0);
        print_message("the command of %s took too long and was killed", option);
    }
}

void hooks_end(hooks *h) {
    hf__time until = hf__after_ms(hf__now(), LONGEST_MS);
    for (int i = 0; i < h->count; i++) await_hook(h->running[i].pid, h->running[i].option, until);
    h->count = 0;
}

void hooks_abandon(const hooks *h) {
    for (int i = 0; i < h->count; i++)
        if (waitpid(h->running[i].pid, NULL, WNOHANG) == 0) kill(-h->running[i].pid, SIGTERM);
}
