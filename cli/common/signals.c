/* SPDX-License-Identifier: Apache-2.0 */
#include "common/signals.h"

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "common/exit_codes.h"

/* Signals that people and programs send to end a process. */
static const int ending[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM,   SIGUSR1,
                             SIGUSR2, SIGALRM, SIGPROF, SIGVTALRM, SIGPWR};

static struct {
    sigset_t mask;
    struct sigaction pipe, chld;
} inherited;

#define ENDING (sizeof ending / sizeof *ending)
static bool caught_here[ENDING];
static hf_cancel *cancel_to_fire;
static volatile sig_atomic_t caught;

static void set_handler(int sig, void (*handler)(int), int flags, struct sigaction *before) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigemptyset(&action.sa_mask);
    sigaction(sig, &action, before);
}

/* A closed stderr must not kill this process. SIGCHLD must not be ignored, because the kernel would
   reap the child before waitpid. */
void signals_begin(void) {
    sigprocmask(SIG_SETMASK, NULL, &inherited.mask);
    set_handler(SIGPIPE, SIG_IGN, 0, &inherited.pipe);
    set_handler(SIGCHLD, SIG_DFL, 0, &inherited.chld);
}

void signals_restore(void) {
    sigaction(SIGPIPE, &inherited.pipe, NULL);
    sigaction(SIGCHLD, &inherited.chld, NULL);
    sigprocmask(SIG_SETMASK, &inherited.mask, NULL);
}

const sigset_t *signals_inherited(void) {
    return &inherited.mask;
}

/* ---- During the wait for the lock ---- */

bool signals_ignored(int sig) {
    struct sigaction action;
    return sigaction(sig, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

static void on_ending_signal(int sig) {
    caught = sig;
    hf_cancel_fire(cancel_to_fire);
}

void signals_cancel(hf_cancel *cancel) {
    cancel_to_fire = cancel;
    for (size_t i = 0; i < ENDING; i++) {
        caught_here[i] = !signals_ignored(ending[i]);
        if (caught_here[i]) set_handler(ending[i], on_ending_signal, (int)SA_RESETHAND, NULL);
    }
}

int signals_block(void) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    for (size_t i = 0; i < ENDING; i++)
        if (caught_here[i]) set_handler(ending[i], SIG_DFL, 0, NULL);
    return caught;
}

/* ---- While the lock is held ---- */

int signals_fd(void) {
    sigset_t all;
    sigfillset(&all);
    return signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* An ignored signal becomes pending while it is blocked. SIGPIPE from our own write does not
   concern the command. */
static bool is_our_pipe(const struct signalfd_siginfo *info) {
    return info->ssi_signo == SIGPIPE && (pid_t)info->ssi_pid == getpid();
}

int signals_next(int fd) {
    struct signalfd_siginfo info;
    while (read(fd, &info, sizeof info) == sizeof info)
        if (!is_our_pipe(&info)) return (int)info.ssi_signo;
    return 0;
}

static sigset_t signal_set_of(int sig) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, sig);
    return set;
}

static void send_signal(int sig, signal_target target) {
    kill(target == OUR_GROUP ? 0 : getpid(), sig);
}

/* After a stop and a continue, SIGCONT is pending. If the stop did not happen, it is not. */
bool signals_stop(int sig, signal_target target) {
    sigset_t stop = signal_set_of(sig), pending;
    send_signal(sig, target);
    sigprocmask(SIG_UNBLOCK, &stop, NULL);
    sigprocmask(SIG_BLOCK, &stop, NULL);
    return sigpending(&pending) == 0 && sigismember(&pending, SIGCONT) == 1;
}

_Noreturn void signals_die(int sig, signal_target target) {
    sigset_t set = signal_set_of(sig);
    set_handler(sig, SIG_DFL, 0, NULL);
    send_signal(sig, target);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    _exit(EXIT_SIGNAL + sig);
}
