/* SPDX-License-Identifier: Apache-2.0 */
#include "run/terminal.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/signals.h"

static bool is_pipe(int fd) {
    struct stat st;
    return fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode);
}

void terminal_open(terminal *t) {
    *t = (terminal){.fd = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY)};
    if (t->fd < 0) return;
    t->group = getpgrp();
    t->shared = is_pipe(STDIN_FILENO) || is_pipe(STDOUT_FILENO);
    /* In an interactive $(…) SIGTTIN is ignored and the shell waits, so the terminal is not
       shared. */
    if (signals_ignored(SIGTTIN)) t->shared = false;
}

bool terminal_is_ours(const terminal *t) {
    return t->fd >= 0 && tcgetpgrp(t->fd) == t->group;
}

void terminal_lend(terminal *t, pid_t group) {
    t->borrower = group;
    t->lent = tcsetpgrp(t->fd, group) == 0;
}

void terminal_take_back(terminal *t) {
    if (!t->lent) return;
    t->lent = false;
    pid_t has = tcgetpgrp(t->fd); /* a shell may have taken it back in the meantime */
    if (has == t->borrower || kill(-has, 0) != 0) tcsetpgrp(t->fd, t->group);
}
