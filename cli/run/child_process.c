#include "run/child_process.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/exit_codes.h"
#include "common/signals.h"

/* It leads its group, is known to the guard and has the terminal before it is the user's
   program. If we die, the guard kills its group. The kernel kills the child itself at the same
   time, in case the guard died too. */
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

/* Not vfork: a child that is stopped before its exec would stop us too, with its terminal in
   hand. And past the fork handlers, which do for the library what exec does soon enough. */
bool child_start(child_process *c, char **argv, const guard_process *g, terminal *t) {
    bool lend = !t->shared && terminal_is_ours(t);
    pid_t self = getpid(), pid = _Fork();
    if (pid < 0) return false;
    if (pid == 0) child_main(argv, g, t, lend, self);
    setpgid(pid, pid); /* whoever of us comes first */
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
    if (sig == SIGKILL && !c->ended) kill(c->group, sig); /* also if it has left its group */
    return kill(-c->group, sig) == 0 || errno != ESRCH;
}

int child_killed_by(const child_process *c) {
    return c->ended && WIFSIGNALED(c->status) ? WTERMSIG(c->status) : 0;
}

int child_exit_code(const child_process *c) {
    int sig = child_killed_by(c);
    return sig ? EXIT_SIGNAL + sig : WEXITSTATUS(c->status);
}
