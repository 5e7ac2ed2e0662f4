/* SPDX-License-Identifier: Apache-2.0 */
#include "hold/helper_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"
#include "common/exit_codes.h"
#include "common/message.h"
#include "common/signals.h"
#include "hold/acquire_wait.h"
#include "hold/handle.h"

typedef struct helper_report {
    int code;
    uint64_t token;
} helper_report;

/* ---- Holding ---- */

static bool read_end_signal(int signals) {
    for (int sig; (sig = signals_next(signals));)
        if (sig == SIGTERM || sig == SIGINT || sig == SIGHUP) return true;
    return false;
}

/* Holds until the end. True if a signal asked for the release. */
static bool hold_until_ended(const helper_process *h, hf_hold *hold, hf__time until) {
    struct pollfd fds[] = {{.fd = signals_fd(), .events = POLLIN},
                           {.fd = hf_lost_fd(hold), .events = POLLIN},
                           {.fd = h->process, .events = POLLIN}};
    for (;;) {
        hf__time now = hf__now();
        if (now >= until || !hf_held(hold)) return false;
        int n = poll(fds, 3, hf__poll_ms(now, until));
        if (n < 0 && errno != EINTR) return false;
        if (n > 0 && (fds[1].revents || fds[2].revents)) return false;
        if (n > 0 && fds[0].revents && read_end_signal(fds[0].fd)) return true;
    }
}

/* Records the result for `holdfast release`, which may run later or at this moment. */
static void release_hold(hf_hold *hold, bool on_request, const handle_file *f) {
    if (!on_request) handle_append_result(f, "over");
    hf_result r = hf_release(hold);
    if (on_request && r) handle_append_result(f, r == HF_LOST ? "over" : "unknown");
}

/* Releases the standard streams and the working directory. */
static void detach_streams(void) {
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = STDIN_FILENO; null >= 0 && fd <= STDERR_FILENO; fd++) (void)dup2(null, fd);
    if (chdir("/") != 0) return;
}

static void send_report(int to, int code, uint64_t token) {
    helper_report r = {code, token};
    while (write(to, &r, sizeof r) < 0 && errno == EINTR) continue;
    close(to);
}

/* ---- Acquiring ---- */

static int write_helper_handle(const helper_process *h, const handle_file *f, const hf_hold *hold) {
    handle made = {.name = (char *)h->name,
                   .store = h->store->shown,
                   .token = hf_fence(hold),
                   .helper = getpid(),
                   .helper_started = handle_process_start(getpid())};
    return handle_write(h->handle, f, &made);
}

static void hold_in_background(const helper_process *h, handle_file *f, hf_hold *hold,
                               hf__time until, int to) {
    safe_file_close(&f->location);
    prctl(PR_SET_PDEATHSIG, 0);
    detach_streams();
    send_report(to, 0, hf_fence(hold));
    release_hold(hold, hold_until_ended(h, hold, until), f);
}

/* Returns the exit code when the hold has ended. */
static int acquire_and_hold(const helper_process *h, hf_client *client, handle_file *f, int to) {
    hf_hold *hold;
    int code = acquire_wait(client, h->store, h->name, &h->options, EXIT_CONFLICT, &hold);
    hf__time until = hf__after_ms(hf__now(), h->max_hold_ms ? h->max_hold_ms : HF_FOREVER);
    if (code) return code;
    code = write_helper_handle(h, f, hold);
    if (code)
        (void)hf_release(hold);
    else
        hold_in_background(h, f, hold, until, to);
    return code;
}

static int run_helper(const helper_process *h, int to) {
    hf_client *client;
    handle_file f;
    int code = handle_create(h->handle, &f);
    if (!code) code = store_open(h->store, &client);
    if (!code) {
        code = acquire_and_hold(h, client, &f, to);
        hf_close(client);
    }
    if (code)
        handle_remove(&f);
    else
        handle_close(&f);
    return code;
}

/* ---- Starting ---- */

/* If the parent dies during the wait, the lock is not needed any more, so the helper dies too. */
static _Noreturn void helper_main(const helper_process *h, pid_t parent, int to) {
    setsid();
    signal(SIGTERM, SIG_DFL); /* SIGTERM asks the helper to release, so it must not stay ignored */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(EXIT_SYSTEM);
    int code = run_helper(h, to);
    if (code) send_report(to, code, 0);
    _exit(code);
}

int helper_start(const helper_process *h, uint64_t *token) {
    int ends[2];
    helper_report r = {EXIT_SYSTEM, 0};
    pid_t self = getpid();
    if (pipe2(ends, O_CLOEXEC) != 0) return fail(EXIT_SYSTEM, "out of descriptors");
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        helper_main(h, self, ends[1]);
    }
    close(ends[1]);
    if (child < 0) {
        close(ends[0]);
        return fail(EXIT_SYSTEM, "cannot start the helper process: %s", strerror(errno));
    }
    ssize_t n;
    do n = read(ends[0], &r, sizeof r);
    while (n < 0 && errno == EINTR);
    close(ends[0]);
    if (n != (ssize_t)sizeof r)
        return fail(EXIT_SYSTEM, "the helper process died before it held the lock");
    *token = r.token;
    if (r.code) (void)waitpid(child, NULL, 0);
    return r.code;
}
