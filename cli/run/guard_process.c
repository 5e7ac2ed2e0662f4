/* SPDX-License-Identifier: Apache-2.0 */
#include "run/guard_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* How long to wait for a killed group, and how often to check it. Processes that remain after that
   hang in the kernel or are zombies. They do not run any more. */
#define GONE_MS   1000
#define GONE_POLL (2 * HF__MS)

/* ---- In the guard: only functions that are safe between fork and exec ---- */

static void wait_until_gone(pid_t group) {
    const struct timespec pause = {.tv_nsec = GONE_POLL};
    hf__time until = hf__now() + GONE_MS * HF__MS;
    while (kill(-group, SIGKILL) == 0 && hf__now() < until) nanosleep(&pause, NULL);
}

static _Noreturn void kill_group(guard_page *page) {
    pid_t group = atomic_exchange(&page->group, GUARD_CLOSED);
    atomic_store(&page->killed, true);
    if (group > 0) wait_until_gone(group);
    _exit(0);
}

static void arm_timer(int timer, hf__time at) {
    if (at < 1) at = 1; /* zero would disarm it */
    struct itimerspec when = {.it_value = {.tv_sec = at / HF__SEC, .tv_nsec = at % HF__SEC}};
    timerfd_settime(timer, TFD_TIMER_ABSTIME, &when, NULL);
}

/* A byte on the lifeline means that the page has changed. End of file means that the wrapper is
   dead. */
static bool wrapper_died(int lifeline) {
    char bytes[64];
    ssize_t n = read(lifeline, bytes, sizeof bytes);
    return n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
}

static _Noreturn void watch_wrapper(guard_page *page, int lifeline, int timer) {
    struct pollfd fds[] = {{.fd = lifeline, .events = POLLIN}, {.fd = timer, .events = POLLIN}};
    for (;;) {
        hf__time kill_at = atomic_load(&page->kill_at);
        if (hf__now() >= kill_at) kill_group(page);
        arm_timer(timer, kill_at);
        (void)poll(fds, 2, -1);
        if (fds[0].revents && wrapper_died(lifeline)) kill_group(page);
    }
}

/* The guard has its own session, so that signals of the terminal and of the wrapper's group do not
   reach it. It closes the standard streams, so that their readers do not wait for it. */
static _Noreturn void guard_main(guard_page *page, int lifeline, int timer) {
    setsid();
    prctl(PR_SET_NAME, "holdfast-guard");
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) close(fd);
    watch_wrapper(page, lifeline, timer);
}

/* ---- In the wrapper ---- */

static bool fork_guard(guard_process *g, const int lifeline[2], int timer) {
    pid_t pid = _Fork();
    if (pid < 0) return false;
    if (pid == 0) {
        close(lifeline[1]);
        guard_main(g->page, lifeline[0], timer);
    }
    g->pid = pid;
    g->lifeline = lifeline[1];
    return true;
}

bool guard_restart(guard_process *g) {
    int lifeline[2];
    if (pipe2(lifeline, O_CLOEXEC | O_NONBLOCK) != 0) return false;
    int timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    bool forked = timer >= 0 && fork_guard(g, lifeline, timer);
    int saved = errno;
    if (timer >= 0) close(timer);
    close(lifeline[0]);
    if (!forked) close(lifeline[1]);
    errno = saved;
    return forked;
}

bool guard_start(guard_process *g, hf__time kill_at) {
    const int access = PROT_READ | PROT_WRITE;
    *g = (guard_process){.lifeline = -1};
    /* cppcheck-suppress invalidFunctionArg ; wrong about anonymous memory */
    void *page = mmap(NULL, sizeof *g->page, access, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) return false;
    g->page = page;
    atomic_init(&g->page->kill_at, kill_at);
    return guard_restart(g);
}

bool guard_register(const guard_process *g, pid_t group) {
    pid_t none = 0;
    /* While this end is open, the guard would not notice the death of the wrapper. */
    close(g->lifeline);
    return atomic_compare_exchange_strong(&g->page->group, &none, group);
}

void guard_set_deadline(guard_process *g, hf__time kill_at) {
    hf__time before = atomic_exchange(&g->page->kill_at, kill_at);
    /* The guard sleeps until the old time, so only an earlier one needs a wake-up. A full pipe
       already wakes it. */
    if (kill_at < before) (void)!write(g->lifeline, "", 1);
}

bool guard_has_killed(const guard_process *g) {
    return atomic_load(&g->page->killed);
}

bool guard_ended(guard_process *g) {
    if (!g->pid || waitpid(g->pid, NULL, WNOHANG) != g->pid) return false;
    g->pid = 0;
    close(g->lifeline);
    g->lifeline = -1;
    return true;
}

/* SIGKILL works even if the guard is stopped. */
void guard_stop(const guard_process *g) {
    if (g->pid) kill(g->pid, SIGKILL);
}

void guard_wait(guard_process *g) {
    while (g->pid && waitpid(g->pid, NULL, 0) < 0 && errno == EINTR) continue;
    g->pid = 0;
}
