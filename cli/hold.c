#include "hold.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "exits.h"
#include "say.h"
#include "signals.h"

/* True if the hold is over; *die_of is set if we are too. */
static bool on_signal(int sig, int *die_of) {
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

int hold_until_signalled(hf_hold *hold, const char *name, int *sig) {
    struct pollfd fds[] = {{.fd = signals_fd(), .events = POLLIN},
                           {.fd = hf_lost_fd(hold), .events = POLLIN}};
    if (fds[0].fd < 0 || fds[1].fd < 0)
        return fail(EXIT_SYSTEM, "cannot watch signals and the lock: %s", strerror(errno));
    if (isatty(STDERR_FILENO)) say("holding %s until Ctrl-C or a signal", name);
    while (hf_held(hold)) {
        (void)poll(fds, 2, -1);
        for (int next; (next = signals_next(fds[0].fd));)
            if (on_signal(next, sig)) return 0;
    }
    const char *why = hf_why_lost(hold);
    return fail(EXIT_LOST, "%s was lost: %s", name, why ? why : "its deadline has passed");
}
