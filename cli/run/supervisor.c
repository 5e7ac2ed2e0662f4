/* SPDX-License-Identifier: Apache-2.0 */
#include "run/supervisor.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

#include "common/duration.h"
#include "common/exit_codes.h"
#include "common/message.h"
#include "common/signals.h"

/* The shortest interval between two checks. */
#define CHECK_MIN (5 * HF__MS)

/* The time reserved for the kill itself, including scheduling: a hundredth of the lease, within
   these limits. */
#define KILL_MARGIN_MIN (5 * HF__MS)
#define KILL_MARGIN_MAX (100 * HF__MS)

/* How long to wait for a killed group. Zombies may remain, but do nothing any more. */
#define GONE HF__SEC

/* The tolerance for the end of --max-hold. The library counts from the request, `max_until` counts
   from the grant. */
#define MAX_SLACK HF__SEC

/* The remaining time is in whole milliseconds. */
#define ROUNDING (2 * HF__MS)

/* ---- Ending the command ---- */

static const char MAX_HOLD_ENDED[] = "--max-hold has ended";

/* Continues the command too, so that it can handle the signal. */
static void signal_command(supervisor *s, hf__time now) {
    bool signalled = s->ending;
    s->ending = true;
    guard_set_deadline(&s->guard, s->kill_at);
    if (signalled || now >= s->kill_at) return;
    child_signal(&s->child, s->options.lost_signal);
    child_signal(&s->child, SIGCONT);
}

/* True if a hold that ends about now ends because of --max-hold. */
static bool is_max_over(const supervisor *s, hf__time now) {
    return s->options.max_until <= hf__later(now, s->deadline) + MAX_SLACK;
}

static void warn_command(supervisor *s, hf__time now) {
    char end[DURATION_TEXT], left[DURATION_TEXT];
    bool max = s->max_over = is_max_over(s, now);
    s->why = max ? MAX_HOLD_ENDED : "the store confirmed no renewal in time";
    signal_command(s, now);
    duration_text(hf__later(s->options.max_until - now, 0) / HF__MS, end);
    print_message("%s %s%s; the command is asked to end now and killed in %s", s->name,
                  max ? "reaches its --max-hold in "
                      : "is about to be lost, because the store confirms no renewal",
                  max ? end : "", duration_text(hf__later(s->kill_at - now, 0) / HF__MS, left));
    s->options.on_lost(s->options.arg, s->why);
}

static void on_loss(supervisor *s, hf__time now) {
    bool reported = s->ending;
    const char *why = hf_why_lost(s->hold);
    if (!why) why = "its deadline has passed";
    if (is_max_over(s, now)) why = MAX_HOLD_ENDED;
    s->lost = true;
    if (!s->options.continues) {
        s->kill_at = hf__sooner(s->kill_at, now + s->grace);
        signal_command(s, now);
    }
    print_message("%s was lost while the command ran: %s%s", s->name, why,
                  s->options.continues ? "; the command continues without the lock" : "");
    if (!reported) s->options.on_lost(s->options.arg, why);
}

/* The guard kills the command at the same time, in case the wrapper cannot. */
static void kill_command(supervisor *s) {
    child_signal(&s->child, SIGKILL);
}

/* ---- The hold ---- */

static hf__time kill_margin(hf__time duration) {
    return hf__later(KILL_MARGIN_MIN, hf__sooner(duration / 100, KILL_MARGIN_MAX));
}

/* The first lease may be shorter than later ones, so the warning takes at most half of it. */
static void on_renewal(supervisor *s, hf__time now, hf__time deadline) {
    hf__time duration = deadline - now;
    s->deadline = deadline;
    s->kill_at = deadline - kill_margin(duration);
    s->warn_at = hf__sooner(s->kill_at, deadline - hf__sooner(s->grace, duration / 2));
    if (s->options.continues)
        s->warn_at = s->kill_at = HF__NEVER;
    else if (s->guard.pid)
        guard_set_deadline(&s->guard, s->kill_at);
}

static void check_lease(supervisor *s, hf__time now) {
    hf__time deadline = now + hf_remaining_ms(s->hold) * HF__MS;
    if (deadline == now)
        on_loss(s, now);
    else if (deadline > s->deadline + ROUNDING)
        on_renewal(s, now, deadline);
}

static void check_hold(supervisor *s) {
    hf__time now = hf__now();
    if (!s->lost) check_lease(s, now);
    if (!s->ending && now >= s->warn_at) warn_command(s, now);
    if (s->ending && now >= s->kill_at) kill_command(s);
}

/* ---- The child ---- */

/* Checks the hold first: after a long stop the lock may be lost. */
static void resume_command(supervisor *s) {
    check_hold(s);
    if (s->lost) return;
    if (!s->terminal.shared && terminal_is_ours(&s->terminal))
        terminal_lend(&s->terminal, s->child.group);
    child_signal(&s->child, SIGCONT);
}

/* No shell can continue the job: the terminal was closed, or holdfast is its only program. The
   kernel resumes an orphaned group. But it does not resume the group of the command, because the
   parent of the command still runs. */
static void resume_orphan(supervisor *s, int sig) {
    if (sig == SIGSTOP) return; /* somebody stopped the command alone and will continue it */
    if (sig != SIGTSTP) child_signal(&s->child, SIGHUP);
    resume_command(s);
}

static void on_stop(supervisor *s, int sig) {
    bool wants_terminal = sig == SIGTTIN || sig == SIGTTOU;
    if (wants_terminal && terminal_is_ours(&s->terminal)) {
        terminal_lend(&s->terminal, s->child.group);
        child_signal(&s->child, SIGCONT);
        return;
    }
    if (s->ending) {
        child_signal(&s->child, SIGCONT);
        return;
    }
    bool was_lent = s->terminal.lent;
    terminal_take_back(&s->terminal);
    signal_target target = was_lent || wants_terminal ? OUR_GROUP : OURSELVES;
    bool stopped = sig == SIGSTOP ? signals_stop(SIGTSTP, OURSELVES) : signals_stop(sig, target);
    /* If this process was stopped and continued, the SIGCONT is read next. A SIGTERM that came with
       it is read before it, so a command that stops again at once can be ended. */
    if (!stopped) resume_orphan(s, sig);
}

/* The guard killed the command because the wrapper was stopped or got no CPU time. */
static void on_guard_kill(supervisor *s) {
    check_hold(s);
    if (s->ending) return;
    s->ending = true;
    s->why = "this process was stopped for too long, so the guard process killed the command";
}

static void restart_guard(supervisor *s) {
    if (guard_has_killed(&s->guard) || s->child.ended || guard_restart(&s->guard)) return;
    print_message("the guard process was killed and cannot be restarted (%s); if this process is "
                  "killed too, the command continues without the lock",
                  strerror(errno));
}

/* While the terminal was lent, only the command got the interrupt. A script in the wrapper's group
   may need it too. */
static void on_child_end(supervisor *s) {
    int sig = child_killed_by(&s->child);
    if (s->terminal.lent && (sig == SIGINT || sig == SIGQUIT)) s->interrupted_by = sig;
    terminal_take_back(&s->terminal);
}

static void check_child(supervisor *s) {
    int stopped_by = child_check(&s->child);
    if (s->child.ended) on_child_end(s);
    if (guard_ended(&s->guard)) restart_guard(s);
    if (stopped_by) on_stop(s, stopped_by);
}

static void handle_signal(supervisor *s, int sig) {
    switch (sig) {
    case SIGCHLD: check_child(s); return;
    case SIGCONT: resume_command(s); return;
    case SIGTTIN:
    case SIGTTOU: return;
    default: child_signal(&s->child, sig);
    }
}

/* ---- The loop ---- */

/* A command that ends by itself may leave background processes. After a loss the whole group must
   be gone. */
static bool is_over(supervisor *s) {
    if (!s->child.ended) return false;
    if (!s->ending) return true;
    return !child_signal(&s->child, 0) || hf__now() > s->kill_at + GONE;
}

/* The next check comes after half the time to the next action, because a renewal may postpone the
   action. */
static hf__time next_check(const supervisor *s, hf__time now) {
    if (s->child.ended) return now + CHECK_MIN;
    if (s->options.continues) return s->lost ? HF__NEVER : hf__later(s->deadline, now + CHECK_MIN);
    hf__time due = s->ending ? s->kill_at : s->warn_at;
    return now + hf__later((due - now) / 2, CHECK_MIN);
}

static void run_once(supervisor *s) {
    struct pollfd fds[] = {{.fd = s->signals, .events = POLLIN},
                           {.fd = s->lost ? -1 : s->lost_fd, .events = POLLIN}};
    hf__time now = hf__now();
    (void)poll(fds, 2, hf__poll_ms(now, next_check(s, now)));
    for (int sig; !is_over(s) && (sig = signals_next(s->signals));) handle_signal(s, sig);
    if (guard_has_killed(&s->guard) && !s->ending) on_guard_kill(s);
    if (!is_over(s)) check_hold(s);
}

/* ---- Starting ---- */

static int fail_system(const char *what) {
    return fail(EXIT_SYSTEM, "cannot %s: %s", what, strerror(errno));
}

static int fail_exec(const char *program, int error) {
    const char *hint = "";
    if (*program == '-')
        hint = "; put options before NAME";
    else if (error == ENOENT && strpbrk(program, " \t;|&<>"))
        hint = "; it looks like a shell command: use -c";
    else if (error == ENOENT && *program && !strchr(program, '/'))
        hint = " (it is not in $PATH)";
    return fail(EXIT_CANNOT_EXEC, "cannot run %s: %s%s", LONG_WORD(program), strerror(error), hint);
}

static int run_child(supervisor *s, char **command) {
    if (!child_start(&s->child, command, &s->guard, &s->terminal))
        return fail_system("start a process for the command");
    s->options.on_start(s->options.arg, s->child.group);
    while (!is_over(s)) run_once(s);
    int error = atomic_load(&s->guard.page->exec_error);
    if (error) return fail_exec(command[0], error);
    s->ran = true;
    if (!s->ending) return child_exit_code(&s->child);
    if (!s->lost) print_message("%s is treated as lost: %s", s->name, s->why);
    return EXIT_LOST;
}

int supervisor_run(supervisor *s, hf_hold *hold, const char *name, char **command,
                   const supervisor_options *options) {
    *s = (supervisor){
        .hold = hold, .name = name, .options = *options, .grace = options->grace_ms * HF__MS};
    s->signals = signals_fd();
    s->lost_fd = hf_lost_fd(hold);
    if (s->signals < 0 || s->lost_fd < 0)
        return fail_system("watch for signals and for the loss of the lock");
    hf__time now = hf__now();
    on_renewal(s, now, now + hf_remaining_ms(hold) * HF__MS);
    if (!guard_start(&s->guard, s->kill_at)) return fail_system("start the guard process");
    terminal_open(&s->terminal);
    int code = run_child(s, command);
    terminal_take_back(&s->terminal);
    guard_stop(&s->guard);
    return code;
}

void supervisor_fini(supervisor *s) {
    guard_wait(&s->guard);
}
