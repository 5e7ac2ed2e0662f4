/* SPDX-License-Identifier: Apache-2.0 */
#include "run/child_process.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/exit_codes.h"
#include "common/signals.h"

/* Before the exec, the child leads its group, is registered with the guard and has the terminal. If
   the wrapper dies, the guard kills the group. The kernel kills the child itself too, in case the
   guard has died. */
static _Noreturn void child_main(char **argv, const guard_process *g, terminal *t, bool lend,
                                 pid_t parent) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(EXIT_LOST);
    if (!guard_register(g, getpid())) _exit(EXIT_LOST);
    if (lend) terminal_lend(t, getpid());
    signals_restore();
    execvp(argv[0], argv);
    atomic_store(&g->page->exec_error, errno);
    _exit(EXIT_CANNOT_EXEC);
}

/* Not vfork: a child that is stopped before its exec would stop the wrapper too. _Fork skips the
   fork handlers of the library. They are not needed, because exec follows soon. */
bool child_start(child_process *c, char **argv, const guard_process *g, terminal *t) {
    bool lend = !t->shared && terminal_is_ours(t);
    pid_t self = getpid(), pid = _Fork();
    if (pid < 0) return false;
    if (pid == 0) child_main(argv, g, t, lend, self);
    setpgid(pid, pid); /* both processes do it; either may run first */
    t->lent = lend;
    t->borrower = pid;
    *c = (child_process){.group = pid};
    return true;
}

int child_check(child_process *c) {
    int status;
    if (c->ended || waitpid(c->group, &status, WNOHANG | WUNTRACED) != c->group) return 0;
    if (WIFSTOPPED(status)) return WSTOPSIG(status);
    c->ended = true;
    c->status = status;
    return 0;
}

bool child_signal(const child_process *c, int sig) {
    if (sig == SIGKILL && !c->ended) kill(c->group, sig); /* even if it has left its group */
    return kill(-c->group, sig) == 0 || errno != ESRCH;
}

int child_killed_by(const child_process *c) {
    return c->ended && WIFSIGNALED(c->status) ? WTERMSIG(c->status) : 0;
}

int child_exit_code(const child_process *c) {
    int sig = child_killed_by(c);
    return sig ? EXIT_SIGNAL + sig : WEXITSTATUS(c->status);
}
