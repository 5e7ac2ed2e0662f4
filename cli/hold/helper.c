#include "hold/helper.h"

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
#include "common/exits.h"
#include "common/say.h"
#include "common/signals.h"
#include "hold/handle.h"
#include "hold/taking.h"

typedef struct report {
    int code;
    uint64_t token;
} report;

/* ---- Holding ---- */

static bool told_to_end(int signals) {
    for (int sig; (sig = signals_next(signals));)
        if (sig == SIGTERM || sig == SIGINT || sig == SIGHUP) return true;
    return false;
}

/* True: it was told to release it. */
static bool hold_on(const helper *h, hf_hold *hold, hf__time until) {
    struct pollfd fds[] = {{.fd = signals_fd(), .events = POLLIN},
                           {.fd = hf_lost_fd(hold), .events = POLLIN},
                           {.fd = h->process, .events = POLLIN}};
    for (;;) {
        hf__time now = hf__now();
        if (now >= until || !hf_held(hold)) return false;
        int n = poll(fds, 3, hf__poll_ms(now, until));
        if (n < 0 && errno != EINTR) return false;
        if (n > 0 && (fds[1].revents || fds[2].revents)) return false;
        if (n > 0 && fds[0].revents && told_to_end(fds[0].fd)) return true;
    }
}

/* Who releases it later, or at this moment, is to know that it was over. */
static void end(hf_hold *hold, bool told, const handle_file *f) {
    if (!told) handle_mark(f, "over");
    hf_result r = hf_release(hold);
    if (told && r) handle_mark(f, r == HF_LOST ? "over" : "unknown");
}

/* From here on nobody hears us, and no directory is kept busy. */
static void go_into_background(void) {
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = STDIN_FILENO; null >= 0 && fd <= STDERR_FILENO; fd++) (void)dup2(null, fd);
    if (chdir("/") != 0) return;
}

static void send_report(int to, int code, uint64_t token) {
    report r = {code, token};
    while (write(to, &r, sizeof r) < 0 && errno == EINTR) continue;
    close(to);
}

/* ---- Taking ---- */

static int write_handle(const helper *h, const handle_file *f, const hf_hold *hold) {
    handle made = {.name = (char *)h->name,
                   .store = h->store->shown,
                   .token = hf_fence(hold),
                   .helper = getpid(),
                   .helper_began = handle_began(getpid())};
    return handle_write(h->handle, f, &made);
}

static void hold_in_background(const helper *h, handle_file *f, hf_hold *hold, hf__time until,
                               int to) {
    place_close(&f->place);
    prctl(PR_SET_PDEATHSIG, 0);
    go_into_background();
    send_report(to, 0, hf_fence(hold));
    end(hold, hold_on(h, hold, until), f);
}

/* The exit code, once all is over. */
static int take_and_hold(const helper *h, hf_client *client, handle_file *f, int to) {
    hf_hold *hold;
    int code = taking_acquire(client, h->store, h->name, &h->options, EXIT_CONFLICT, &hold);
    hf__time until = hf__after_ms(hf__now(), h->max_hold_ms ? h->max_hold_ms : HF_FOREVER);
    if (code) return code;
    code = write_handle(h, f, hold);
    if (code)
        (void)hf_release(hold);
    else
        hold_in_background(h, f, hold, until, to);
    return code;
}

static int run(const helper *h, int to) {
    hf_client *client;
    handle_file f;
    int code = handle_create(h->handle, &f);
    if (!code) code = store_open(h->store, &client);
    if (!code) {
        code = take_and_hold(h, client, &f, to);
        hf_close(client);
    }
    if (code)
        handle_remove(&f);
    else
        handle_close(&f);
    return code;
}

/* ---- Starting ---- */

/* Whoever started us wants the lock: if he dies while we wait for it, so do we. */
static _Noreturn void be_helper(const helper *h, pid_t parent, int to) {
    setsid();
    signal(SIGTERM, SIG_DFL); /* by which it is told to release, whoever ignored it before */
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(EXIT_SYSTEM);
    int code = run(h, to);
    if (code) send_report(to, code, 0);
    _exit(code);
}

int helper_start(const helper *h, uint64_t *token) {
    int ends[2];
    report r = {EXIT_SYSTEM, 0};
    pid_t self = getpid();
    if (pipe2(ends, O_CLOEXEC) != 0) return fail(EXIT_SYSTEM, "out of descriptors");
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        be_helper(h, self, ends[1]);
    }
    close(ends[1]);
    if (child < 0) {
        close(ends[0]);
        return fail(EXIT_SYSTEM, "cannot start a helper: %s", strerror(errno));
    }
    ssize_t n;
    do n = read(ends[0], &r, sizeof r);
    while (n < 0 && errno == EINTR);
    close(ends[0]);
    if (n != (ssize_t)sizeof r) return fail(EXIT_SYSTEM, "the helper died");
    *token = r.token;
    if (r.code) (void)waitpid(child, NULL, 0);
    return r.code;
}
