/* SPDX-License-Identifier: Apache-2.0 */
/* See t_proc.h. */
#include "t_proc.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "t_exempt.h"
#include "t_fail.h"
#include "t_time.h"

#define OUTPUT_MAX     ((size_t)1 << 18)
#define EXPECT_MS      10000
#define STOP_WITHIN_MS 5000

struct t_proc {
    pid_t pid;
    int output_fd; /* the child's output; -1 after its end */
    char *output;  /* OUTPUT_MAX bytes; the last one is always 0 */
    size_t length;
};

/* ---- Processes ------------------------------------------------------------------------------- */

void t_proc_require_main_thread(const char *what) {
    if (gettid() != getpid()) t_fail("%s must be called from the main thread: see t_proc.h", what);
}

bool t_proc_die_with(pid_t parent) {
    return prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() == parent;
}

/* Exists only in a coverage build, where _exit would lose the child's counts. */
extern void __gcov_dump(void) __attribute__((weak));

static struct {
    t_proc_fn *fn;
    void *arg;
    int result;
    t_proc *proc;
    char *output;
} child;

static void run_in_child(void **state) {
    (void)state;
    child.result = child.fn(child.arg);
}

/* _exit, because the parent's atexit functions and leak checks must not run in the child. */
_Noreturn static void child_main(pid_t parent, int output) {
    if (!t_proc_die_with(parent)) _exit(T_PROC_FAILED);
    if (dup2(output, STDOUT_FILENO) < 0 || dup2(output, STDERR_FILENO) < 0) _exit(T_PROC_FAILED);
    close(output);
    setenv("CMOCKA_MESSAGE_OUTPUT", "STDOUT", 1);
    cmocka_set_test_filter(NULL); /* the parent's filter would exclude this test */
    const struct CMUnitTest tests[] = {cmocka_unit_test(run_in_child)};
    int failures = cmocka_run_group_tests_name("child", tests, NULL, NULL);
    fflush(stdout);
    t_end();
    if (__gcov_dump) __gcov_dump();
    _exit(failures ? T_PROC_FAILED : child.result);
}

t_proc *t_proc_start(t_proc_fn *fn, void *arg) {
    t_proc_require_main_thread("t_proc_start");
    t_exempt_begin();
    t_proc *proc = calloc(1, sizeof *proc);
    char *output = calloc(1, OUTPUT_MAX);
    int ends[2];
    if (!proc || !output || pipe2(ends, O_CLOEXEC) != 0) t_fail("no child: %s", strerror(errno));
    child.proc = proc; /* the parent's: the child must not report it as a leak */
    child.output = output;
    child.fn = fn;
    child.arg = arg;
    pid_t parent = getpid();
    fflush(stdout); /* otherwise the child would print it again */
    pid_t pid = fork();
    if (pid < 0) t_fail("fork: %s", strerror(errno));
    t_exempt_end();
    if (pid == 0) child_main(parent, ends[1]);
    close(ends[1]);
    *proc = (t_proc){.pid = pid, .output_fd = ends[0], .output = output};
    return proc;
}

pid_t t_proc_pid(const t_proc *proc) {
    return proc->pid;
}

/* Whether the child has stopped or ended. It can still be waited for. */
static bool has_stopped(pid_t pid) {
    siginfo_t info = {0};
    int rc = waitid(P_PID, (id_t)pid, &info, WSTOPPED | WEXITED | WNOHANG | WNOWAIT);
    return rc == 0 && info.si_pid == pid;
}

void t_proc_signal(pid_t pid, int signal_number) {
    if (kill(pid, signal_number) != 0) {
        t_fail("cannot send signal %d to child %d: %s", signal_number, (int)pid, strerror(errno));
    }
    if (signal_number == SIGSTOP) T_WAIT_UNTIL(has_stopped(pid), STOP_WITHIN_MS);
}

void t_proc_kill(t_proc *proc, int signal_number) {
    t_proc_signal(proc->pid, signal_number);
}

/* Read what is available. Bytes beyond OUTPUT_MAX are dropped, so that the child never blocks. */
static void read_output(t_proc *proc, int timeout_ms) {
    struct pollfd pfd = {.fd = proc->output_fd, .events = POLLIN};
    char rest[4096];
    if (poll(&pfd, 1, timeout_ms) <= 0) return;
    size_t space = OUTPUT_MAX - 1 - proc->length;
    ssize_t n = space ? read(proc->output_fd, proc->output + proc->length, space)
                      : read(proc->output_fd, rest, sizeof rest);
    if (n > 0 && space) proc->length += (size_t)n;
    if (n > 0 || (n < 0 && errno == EINTR)) return;
    close(proc->output_fd);
    proc->output_fd = -1;
}

static bool reap_child(t_proc *proc, int *status) {
    int raw;
    if (waitpid(proc->pid, &raw, WNOHANG) != proc->pid) return false;
    *status = WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);
    return true;
}

static void proc_free(t_proc *proc) {
    if (proc->output_fd >= 0) close(proc->output_fd);
    free(proc->output);
    free(proc);
}

/* False at the deadline. Does not wait for the end of the pipe: a grandchild may keep it open. */
static bool await_child(t_proc *proc, int64_t deadline_ms, int *status) {
    int64_t until = t_now_ms() + t_patience(deadline_ms);
    while (!reap_child(proc, status)) {
        if (t_now_ms() > until) return false;
        if (proc->output_fd >= 0) {
            read_output(proc, 1);
        } else {
            t_sleep_ms(1);
        }
    }
    for (size_t before = proc->length + 1; proc->output_fd >= 0 && proc->length != before;) {
        before = proc->length;
        read_output(proc, 0);
    }
    return true;
}

static void kill_late(t_proc *proc) {
    pid_t pid = proc->pid;
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    fprintf(stderr, "%s", proc->output);
    proc_free(proc);
}

int t_proc_wait(t_proc *proc, int64_t deadline_ms) {
    int status;
    if (!await_child(proc, deadline_ms, &status)) {
        int pid = (int)proc->pid;
        kill_late(proc);
        t_fail("child %d is still running after %lld ms", pid, (long long)t_patience(deadline_ms));
    }
    bool meant = status == 0 || status == 128 + SIGKILL;
    if (!meant) fprintf(stderr, "%s", proc->output);
    proc_free(proc);
    return status;
}

void t_proc_expect_failure(t_proc_fn *fn, void *arg, const char *text) {
    int status;
    t_proc *proc = t_proc_start(fn, arg);
    if (!await_child(proc, EXPECT_MS, &status)) {
        kill_late(proc);
        t_fail("neither ended nor failed with: %s", text);
    }
    bool failed = status == T_PROC_FAILED || status == 128 + SIGABRT;
    bool said = strstr(proc->output, text) != NULL;
    if (!failed || !said) fprintf(stderr, "%s", proc->output);
    proc_free(proc);
    if (!failed) t_fail("ended with status %d instead of failing with: %s", status, text);
    if (!said) t_fail("failed, but did not print: %s", text);
}

/* ---- Shared memory --------------------------------------------------------------------------- */

void *t_shared_new(size_t size) {
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        t_fail("cannot map %zu bytes of shared memory: %s", size, strerror(errno));
    return memory;
}

void t_shared_free(void *memory, size_t size) {
    if (memory) (void)munmap(memory, size);
}

/* ---- Threads --------------------------------------------------------------------------------- */

struct one {
    t_threads *all;
    int index;
    pthread_t thread;
};

struct t_threads {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    bool go;
    int n, ended;
    t_thread_fn *fn;
    void *arg;
    struct one each[];
};

static void *thread_main(void *arg) {
    struct one *one = arg;
    t_threads *all = one->all;
    pthread_mutex_lock(&all->mutex);
    while (!all->go) pthread_cond_wait(&all->changed, &all->mutex);
    pthread_mutex_unlock(&all->mutex);
    all->fn(one->index, all->arg);
    pthread_mutex_lock(&all->mutex);
    all->ended++;
    pthread_cond_broadcast(&all->changed);
    pthread_mutex_unlock(&all->mutex);
    return NULL;
}

static void threads_init(t_threads *all) {
    pthread_condattr_t attributes;
    pthread_mutex_init(&all->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&all->changed, &attributes);
    pthread_condattr_destroy(&attributes);
}

t_threads *t_threads_start(int n, t_thread_fn *fn, void *arg) {
    t_exempt_begin();
    t_threads *all = calloc(1, sizeof *all + (size_t)n * sizeof all->each[0]);
    if (!all) t_fail("out of memory");
    threads_init(all);
    all->n = n;
    all->fn = fn;
    all->arg = arg;
    for (int i = 0; i < n; i++) {
        all->each[i].all = all;
        all->each[i].index = i;
        int error = pthread_create(&all->each[i].thread, NULL, thread_main, &all->each[i]);
        if (error) t_fail("cannot start thread %d of %d: %s", i + 1, n, strerror(error));
    }
    t_exempt_end();
    pthread_mutex_lock(&all->mutex);
    all->go = true;
    pthread_cond_broadcast(&all->changed);
    pthread_mutex_unlock(&all->mutex);
    return all;
}

int t_threads_ended(t_threads *threads) {
    pthread_mutex_lock(&threads->mutex);
    int ended = threads->ended;
    pthread_mutex_unlock(&threads->mutex);
    return ended;
}

void t_threads_join(t_threads *threads, int64_t deadline_ms) {
    struct timespec until;
    int64_t limit_ms = t_patience(deadline_ms);
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(limit_ms / 1000 + 1); /* never early by a fraction of a second */
    pthread_mutex_lock(&threads->mutex);
    int error = 0;
    while (threads->ended < threads->n && !error) {
        error = pthread_cond_timedwait(&threads->changed, &threads->mutex, &until);
    }
    int left = threads->n - threads->ended;
    pthread_mutex_unlock(&threads->mutex);
    if (left) {
        t_fail("%d of %d threads are still running after %lld ms", left, threads->n,
               (long long)limit_ms);
    }
    for (int i = 0; i < threads->n; i++) pthread_join(threads->each[i].thread, NULL);
    pthread_cond_destroy(&threads->changed);
    pthread_mutex_destroy(&threads->mutex);
    free(threads);
}

void t_threads_run(int n, t_thread_fn *fn, void *arg, int64_t deadline_ms) {
    t_threads_join(t_threads_start(n, fn, arg), deadline_ms);
}
