#include "run/supervisor.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>

#include "common/exits.h"
#include "common/say.h"
#include "common/signals.h"
#include "common/span.h"

/* How often a group whose leader is gone is looked for, and how close together looks may come. */
#define LOOK_MIN (5 * HF__MS)

/* What the kill itself may take, scheduling included: a hundredth of the lease within these. */
#define KILL_MARGIN_MIN (5 * HF__MS)
#define KILL_MARGIN_MAX (100 * HF__MS)

/* How long a killed group is waited for: what nobody reaps stays, but does nothing any more. */
#define GONE HF__SEC

/* When --max-hold ends the hold is known to us from before it was asked for. */
#define MAX_SLACK HF__SEC

/* The remaining time is told in whole milliseconds. */
#define ROUNDING (2 * HF__MS)

/* ---- Ending the command ---- */

/* It is continued, so that it can act on the signal. */
static void tell_command(supervisor *s, hf__time now) {
    bool told = s->ending;
    s->ending = true;
    guard_move(&s->guard, s->kill_at);
    if (told || now >= s->kill_at) return;
    job_signal(&s->job, s->options.lost_signal);
    job_signal(&s->job, SIGCONT);
}

/* Whether a hold that ends about now ends because --max-hold does. */
static bool is_max_over(const supervisor *s, hf__time now) {
    return s->options.max_until <= hf__later(now, s->deadline) + MAX_SLACK;
}

static void on_warning(supervisor *s, hf__time now) {
    char left[SPAN_TEXT];
    bool max = s->max_over = is_max_over(s, now);
    s->why = max ? "--max-hold was over" : "the store confirmed no renewal in time";
    tell_command(s, now);
    say("%s %s: the command is told to end, and killed in %s", s->name,
        max ? "may be held no longer, by --max-hold"
            : "is about to be lost, for the store confirms no renewal",
        span_text(hf__later(s->kill_at - now, 0) / HF__MS, left));
    s->options.on_lost(s->options.arg, s->why);
}

static void on_loss(supervisor *s, hf__time now) {
    bool told = s->ending;
    const char *why = hf_why_lost(s->hold);
    if (!why) why = "its deadline has passed";
    if (is_max_over(s, now)) why = "--max-hold was over";
    s->lost = true;
    if (!s->options.goes_on) {
        s->kill_at = hf__sooner(s->kill_at, now + s->grace);
        tell_command(s, now);
    }
    say("%s was lost while the command ran%s: %s", s->name,
        s->options.goes_on ? ", which goes on without it" : "", why);
    if (!told) s->options.on_lost(s->options.arg, why);
}

/* The guard does the same, at the same time, in case we cannot. */
static void kill_command(supervisor *s) {
    job_signal(&s->job, SIGKILL);
}

/* ---- The hold ---- */

static hf__time kill_margin(hf__time span) {
    return hf__later(KILL_MARGIN_MIN, hf__sooner(span / 100, KILL_MARGIN_MAX));
}

/* A first lease may be shorter than those that follow: the warning takes at most half of it. */
static void on_renewal(supervisor *s, hf__time now, hf__time deadline) {
    hf__time span = deadline - now;
    s->deadline = deadline;
    s->kill_at = deadline - kill_margin(span);
    s->warn_at = hf__sooner(s->kill_at, deadline - hf__sooner(s->grace, span / 2));
    if (s->options.goes_on)
        s->warn_at = s->kill_at = HF__NEVER;
    else if (s->guard.pid)
        guard_move(&s->guard, s->kill_at);
}

static void look_at_lease(supervisor *s, hf__time now) {
    hf__time deadline = now + hf_remaining_ms(s->hold) * HF__MS;
    if (deadline == now)
        on_loss(s, now);
    else if (deadline > s->deadline + ROUNDING)
        on_renewal(s, now, deadline);
}

static void look_at_hold(supervisor *s) {
    hf__time now = hf__now();
    if (!s->lost) look_at_lease(s, now);
    if (!s->ending && now >= s->warn_at) on_warning(s, now);
    if (s->ending && now >= s->kill_at) kill_command(s);
}

/* ---- The child ---- */

/* The hold comes first: who was stopped for long may hold nothing any more. */
static void resume_command(supervisor *s) {
    look_at_hold(s);
    if (s->lost) return;
    if (!s->terminal.shared && terminal_is_ours(&s->terminal))
        terminal_lend(&s->terminal, s->job.group);
    job_signal(&s->job, SIGCONT);
}

/* Nobody can continue our job, as when a terminal was closed or we are the terminal's only program. What
   the kernel does then for a group, it cannot do for the command's, whose parent we are. */
static void resume_orphan(supervisor *s, int sig) {
    if (sig == SIGSTOP) return; /* somebody meant the command alone, and will continue it */
    if (sig != SIGTSTP) job_signal(&s->job, SIGHUP);
    resume_command(s);
}

static void on_stop(supervisor *s, int sig) {
    bool wants_terminal = sig == SIGTTIN || sig == SIGTTOU;
    if (wants_terminal && terminal_is_ours(&s->terminal)) {
        terminal_lend(&s->terminal, s->job.group);
        job_signal(&s->job, SIGCONT);
        return;
    }
    if (s->ending) {
        job_signal(&s->job, SIGCONT);
        return;
    }
    bool was_lent = s->terminal.lent;
    terminal_take_back(&s->terminal);
    reach whom = was_lent || wants_terminal ? OUR_GROUP : OURSELVES;
    bool stopped = sig == SIGSTOP ? signals_stop(SIGTSTP, OURSELVES) : signals_stop(sig, whom);
    /* If we were, SIGCONT is read next, but after a SIGTERM that came with it: else a command that stops
       again at once would never be ended. */
    if (!stopped) resume_orphan(s, sig);
}

/* It acted because we did not: we were stopped, or starved. */
static void on_guard_kill(supervisor *s) {
    look_at_hold(s);
    if (s->ending) return;
    s->ending = true;
    s->why = "this process was stopped for too long, and the guard killed the command";
}

static void revive_guard(supervisor *s) {
    if (guard_has_killed(&s->guard) || s->job.ended || guard_again(&s->guard)) return;
    say("the guard was killed, and there can be no other (%s): if this process is killed too, the "
        "command runs on without the lock",
        strerror(errno));
}

/* Had we not lent the terminal, its interrupt would have come to our group too, where a script may
   wait for us. */
static void on_end(supervisor *s) {
    int sig = job_killed_by(&s->job);
    if (s->terminal.lent && (sig == SIGINT || sig == SIGQUIT)) s->interrupted_by = sig;
    terminal_take_back(&s->terminal);
}

static void on_child(supervisor *s) {
    int stopped_by = job_news(&s->job);
    if (s->job.ended) on_end(s);
    if (guard_ended(&s->guard)) revive_guard(s);
    if (stopped_by) on_stop(s, stopped_by);
}

static void on_signal(supervisor *s, int sig) {
    switch (sig) {
    case SIGCHLD: on_child(s); return;
    case SIGCONT: resume_command(s); return;
    case SIGTTIN:
    case SIGTTOU: return;
    default: job_signal(&s->job, sig);
    }
}

/* ---- The loop ---- */

/* A command that ends by itself leaves behind whom it likes; one that lost its lock leaves nobody. */
static bool over(supervisor *s) {
    if (!s->job.ended) return false;
    if (!s->ending) return true;
    return !job_signal(&s->job, 0) || hf__now() > s->kill_at + GONE;
}

/* Half the way to the next deed, for a renewal moves it on. */
static hf__time next_look(const supervisor *s, hf__time now) {
    if (s->job.ended) return now + LOOK_MIN;
    if (s->options.goes_on) return s->lost ? HF__NEVER : hf__later(s->deadline, now + LOOK_MIN);
    hf__time deed = s->ending ? s->kill_at : s->warn_at;
    return now + hf__later((deed - now) / 2, LOOK_MIN);
}

static void turn(supervisor *s) {
    struct pollfd fds[] = {{.fd = s->signals, .events = POLLIN},
                           {.fd = s->lost ? -1 : s->lost_fd, .events = POLLIN}};
    hf__time now = hf__now();
    (void)poll(fds, 2, hf__poll_ms(now, next_look(s, now)));
    for (int sig; !over(s) && (sig = signals_next(s->signals));) on_signal(s, sig);
    if (guard_has_killed(&s->guard) && !s->ending) on_guard_kill(s);
    if (!over(s)) look_at_hold(s);
}

/* ---- Starting ---- */

static int cannot(const char *what) {
    return fail(EXIT_SYSTEM, "cannot %s: %s", what, strerror(errno));
}

static int cannot_exec(const char *program, int error) {
    const char *hint = "";
    if (*program == '-')
        hint = "; options go before NAME";
    else if (error == ENOENT && strpbrk(program, " \t;|&<>"))
        hint = "; it looks like a shell command: give it to -c";
    else if (error == ENOENT && *program && !strchr(program, '/'))
        hint = ", in all of $PATH";
    return fail(EXIT_CANNOT_EXEC, "cannot run %s: %s%s", LONG_WORD(program), strerror(error), hint);
}

static int run_command(supervisor *s, char **command) {
    if (!job_start(&s->job, command, &s->guard, &s->terminal))
        return cannot("start a process for the command");
    s->options.on_start(s->options.arg, s->job.group);
    while (!over(s)) turn(s);
    int error = atomic_load(&s->guard.page->exec_error);
    if (error) return cannot_exec(command[0], error);
    s->ran = true;
    if (!s->ending) return job_exit_code(&s->job);
    if (!s->lost) say("%s counts as lost while the command ran: %s", s->name, s->why);
    return EXIT_LOST;
}

int supervisor_run(supervisor *s, hf_hold *hold, const char *name, char **command,
                   const supervisor_options *options) {
    *s = (supervisor){
        .hold = hold, .name = name, .options = *options, .grace = options->grace_ms * HF__MS};
    s->signals = signals_fd();
    s->lost_fd = hf_lost_fd(hold);
    if (s->signals < 0 || s->lost_fd < 0) return cannot("watch signals and the lock");
    hf__time now = hf__now();
    on_renewal(s, now, now + hf_remaining_ms(hold) * HF__MS);
    if (!guard_start(&s->guard, s->kill_at)) return cannot("start the guard");
    terminal_open(&s->terminal);
    int code = run_command(s, command);
    terminal_take_back(&s->terminal);
    guard_dismiss(&s->guard);
    return code;
}

void supervisor_fini(supervisor *s) {
    guard_reap(&s->guard);
}
