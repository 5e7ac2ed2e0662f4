/* SPDX-License-Identifier: Apache-2.0 */
#include "run/hold_loop.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "common/exit_codes.h"
#include "common/message.h"
#include "common/signals.h"

/* True if the signal ends the hold. Sets *die_of if the process must die of this signal. */
static bool ends_hold(int sig, int *die_of) {
    switch (sig) {
    case SIGTSTP:
    case SIGTTIN:
    case SIGTTOU: (void)signals_stop(sig, OURSELVES); return false;
    case SIGCHLD:
    case SIGCONT:
    case SIGURG:
    case SIGWINCH: return false;
    case SIGINT:
    case SIGTERM:
    case SIGHUP: return !signals_ignored(sig);
    default:
        if (signals_ignored(sig)) return false;
        *die_of = sig;
        return true;
    }
}

static const char *loss_reason(hf_hold *hold) {
    const char *why = hf_why_lost(hold);
    return why ? why : "its deadline has passed";
}

bool hold_until(hf_hold *hold, const char *name, hf__time until) {
    int ignored = 0, signals = signals_fd();
    struct pollfd fds[] = {{.fd = signals, .events = POLLIN},
                           {.fd = hf_lost_fd(hold), .events = POLLIN}};
    bool over = signals < 0;
    for (hf__time now; !over && hf_held(hold) && (now = hf__now()) < until;) {
        (void)poll(fds, 2, hf__poll_ms(now, until));
        for (int next; !over && (next = signals_next(signals));) over = ends_hold(next, &ignored);
    }
    if (signals >= 0) close(signals);
    if (hf_held(hold)) return true;
    print_message("%s was lost after the command had ended: %s", name, loss_reason(hold));
    return false;
}

int hold_until_signalled(hf_hold *hold, const char *name, int *sig) {
    struct pollfd fds[] = {{.fd = signals_fd(), .events = POLLIN},
                           {.fd = hf_lost_fd(hold), .events = POLLIN}};
    if (fds[0].fd < 0 || fds[1].fd < 0)
        return fail(EXIT_SYSTEM, "cannot watch for signals and for the loss of the lock: %s",
                    strerror(errno));
    print_message("holding %s until %s; there is no command to run", name,
                  isatty(STDERR_FILENO) ? "Ctrl-C or a signal" : "SIGINT, SIGTERM or SIGHUP");
    while (hf_held(hold)) {
        (void)poll(fds, 2, -1);
        for (int next; (next = signals_next(fds[0].fd));)
            if (ends_hold(next, sig)) return 0;
    }
    return fail(EXIT_LOST, "%s was lost: %s", name, loss_reason(hold));
}
