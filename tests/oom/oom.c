/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The conformance suite while calls fail (F45): each allocation and each system call that the
 * library makes in a case fails once, and then together with all later calls of its kind. The case
 * may fail because of it. The process must not crash or hang, and nothing may leak (the asan build
 * checks). Nobody may hold a lock that another holds or that the store does not know (watch.h).
 *
 *     oom STORE [PATTERN]      the cases that conformance would run; and in the environment:
 *     EVERY=1                  each call, even on a call path that was seen before (paths.h)
 *     STRIDE=n[/m]             every nth failure, of every mth case; all of them by default
 *     WAYS=file                programs that share this file divide the cases among themselves
 *     ONLY=KIND[:n[:good]]     failures of one kind; the nth call alone, once or for good
 *
 * Every run is a process of its own, forked before the library has done anything. A first run
 * without failures counts the calls. With threads the nth call differs between runs, and may not
 * happen; the figures count failures that happened.
 */
#include <fcntl.h>
#include <fnmatch.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "calls.h"
#include "cf_redis.h"
#include "paths.h"
#include "run.h"
#include "t_exempt.h"
#include "t_proc.h"
#include "t_redis.h"
#include "watch.h"

#if defined(__SANITIZE_ADDRESS__)
int __lsan_do_recoverable_leak_check(void);
const char *__asan_default_options(void);
/* cmocka would catch signals that must end the process */
const char *__asan_default_options(void) {
    return "handle_segv=2:handle_sigbus=2:handle_sigfpe=2:handle_sigill=2:exitcode=97:"
           "leak_check_at_exit=0:allocator_may_return_null=1";
}
#else
static int __lsan_do_recoverable_leak_check(void) {
    return 0;
}
#endif

enum {
    PASSED = 0,
    CASE_FAILED = 1, /* which is allowed */
    LEAKED = 96,
    RUN_MS = 120000, /* everything a case waits for has happened or timed out by then */
    HURRY_MS = 1500, /* replaces CF_WATCHDOG_MS in the cases */
    STOP_MS = 4000,
    OUTPUT_MAX = 16384
};

typedef struct oom_job {
    const struct CMUnitTest *test;
    int kind; /* -1: nothing fails */
    long first;
    bool for_good;
} oom_job;

typedef struct oom_totals {
    long cases, calls, runs, passed, troubles, met[CALLS_COUNT];
} oom_totals;

static long stride = 1, case_stride = 1, only_first;
static const char *only_kind = "";
static bool only_for_good, every;
static oom_totals sum;

/* ---- In the child ---- */

static const struct CMUnitTest *current;
static bool whole_passed;

/* The fixture is part of the case: opening its clients may fail, too. */
static void run_whole(void **state) {
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    for (size_t i = 0; i < 4; i++) signal(signals[i], SIG_DFL); /* cmocka must not catch them */
    signal(SIGALRM, SIG_IGN);                                   /* the parent limits the time */
    *state = current->initial_state;
    atomic_store(&calls_shared->armed, true);
    int r = current->setup_func(state);
    if (r) fail();
    current->test_func(state);
    whole_passed = true;
}

/* Threads of the case may be about to call a client that is closed next. They get time to see that
   the case is over. Threads that continue after that are inside a call that waits. */
static void leave_case(cf *f) {
    watch_stop();
    (void)cf_threads_end(f, STOP_MS);
}

static int end_whole(void **state) {
    t_hurry(100);
    if (*state == current->initial_state) return 0;
    if (!whole_passed) leave_case(*state);
    int r = current->teardown_func(state);
    if (r) watch_violation("a thread continues after hf_close", current->name);
    return r;
}

static hf_client *open_witness(void) {
    hf_client *client = NULL;
    t_exempt_begin();
    if (hf_open(cf_url(), NULL, &client) != HF_OK) abort();
    t_exempt_end();
    return client;
}

_Noreturn static void child(const oom_job *j) {
    const cf_case *c = j->test->initial_state;
    hf_client *witness = open_witness();
    const struct CMUnitTest whole[] = {{j->test->name, run_whole, NULL, end_whole, NULL}};
    current = j->test;
    if (j->kind >= 0) t_hurry((int)(HURRY_MS * 100 / t_patience(CF_WATCHDOG_MS)));
    watch_begin(cf_url(), witness, c->needs & CF_REDIS);
    int failed = _cmocka_run_group_tests("oom", whole, 1, NULL, NULL);
    watch_end();
    atomic_store(&calls_shared->armed, false);
    hf_close(witness);
    /* Processes that a case left behind still use its memory, which looks like a leak. */
    bool looks = !failed || !(c->needs & CF_PROCESSES);
    if (looks && __lsan_do_recoverable_leak_check()) _exit(LEAKED);
    fflush(NULL);
    _exit(failed ? CASE_FAILED : PASSED);
}

/* ---- Runs ---- */

static void empty_store(void) {
    char command[256];
    const char *url = cf_url();
    if (cf_redis()) freeReplyObject(t_redis_cmd(cf_redis(), "FLUSHALL"));
    if (strncmp(url, "file://", 7) != 0) return;
    snprintf(command, sizeof command, "find %s -mindepth 1 -delete", url + 7);
    if (system(command) != 0) abort();
}

/* The status from waitpid; 0x7f00 and above: the process was killed. */
static int wait_for(pid_t pid) {
    int status = 0;
    for (int64_t until = t_now_ms() + RUN_MS; t_now_ms() < until; t_sleep_ms(1))
        if (waitpid(pid, &status, WNOHANG) == pid) return status;
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return -1;
}

static void show_output(int fd) {
    char text[OUTPUT_MAX];
    ssize_t n = pread(fd, text, sizeof text, 0);
    if (n > 0) fwrite(text, 1, (size_t)n, stdout);
}

/* A test helper aborted, because it failed on a thread that cannot return. */
static bool aborted_by_test(int fd) {
    char text[OUTPUT_MAX + 1];
    ssize_t n = pread(fd, text, OUTPUT_MAX, 0);
    text[n > 0 ? n : 0] = '\0';
    return strstr(text, "FAILED: ") && !strstr(text, "Sanitizer");
}

static const char *trouble_of(int status, int output) {
    if (status == -1) return "did not end";
    if (WIFSIGNALED(status))
        return WTERMSIG(status) == SIGABRT && aborted_by_test(output) ? NULL : "crashed";
    switch (WEXITSTATUS(status)) {
    case PASSED:
    case CASE_FAILED: return NULL;
    case LEAKED: return "leaked";
    case WATCH_VIOLATION: return "broke a promise";
    default: return "ended in a way of its own";
    }
}

static void report_trouble(const oom_job *j, const char *what, int output) {
    printf("TROUBLE %s: %s", j->test->name, what);
    if (j->kind >= 0)
        printf(", ONLY=%s:%ld:%s", calls_name(j->kind), j->first, j->for_good ? "good" : "once");
    printf("\n");
    show_output(output);
    sum.troubles++;
}

/* Returns whether the case passed. */
static bool run_case(const oom_job *j) {
    int output = memfd_create("output", MFD_CLOEXEC);
    empty_store();
    for (int i = 0; i < CALLS_COUNT; i++) atomic_store(&calls_shared->made[i], 0);
    atomic_store(&calls_shared->armed, false);
    atomic_store(&calls_shared->failed, 0);
    atomic_store(&calls_shared->kind, j->kind);
    atomic_store(&calls_shared->first, j->first);
    atomic_store(&calls_shared->for_good, j->for_good);
    fflush(NULL);
    pid_t parent = getpid(), pid = fork();
    if (pid == 0) {
        signal(SIGTERM, SIG_DFL);
        if (!t_proc_die_with(parent)) _exit(1);
        dup2(output, STDOUT_FILENO);
        dup2(output, STDERR_FILENO);
        child(j);
    }
    int status = wait_for(pid);
    const char *trouble = trouble_of(status, output);
    if (trouble) report_trouble(j, trouble, output);
    close(output);
    return status == 0;
}

static void run_failing(const oom_job *j) {
    sum.runs++;
    sum.passed += run_case(j);
    sum.met[j->kind] += atomic_load(&calls_shared->failed) > 0;
}

/* ---- All failures ---- */

static long turn;                   /* counts failures, to select every nth */
static volatile sig_atomic_t ended; /* by SIGTERM: the results so far are still reported */

static void note_sigterm(int number) {
    (void)number;
    ended = 1;
}

static void fail_in_turn(const struct CMUnitTest *test, int kind, long made) {
    if (*only_kind && strcmp(only_kind, calls_name(kind)) != 0) return;
    for (long n = 1; n <= made && !ended; n++) {
        for (int good = 0; good < 2; good++) {
            if (only_first && (n != only_first || good != only_for_good)) continue;
            if (!only_first && !every && !paths_picked(calls_paths, kind, n)) continue;
            if (!only_first && turn++ % stride != 0) continue;
            run_failing(&(oom_job){test, kind, n, good});
        }
    }
}

static void fail_in_case(const struct CMUnitTest *test) {
    long made[CALLS_COUNT];
    if (!run_case(&(oom_job){.test = test, .kind = -1})) {
        printf("%s fails even without an injected failure\n", test->name);
        sum.troubles += sum.troubles == 0;
        return;
    }
    sum.cases++;
    for (int i = 0; i < CALLS_COUNT; i++)
        sum.calls += made[i] = atomic_load(&calls_shared->made[i]);
    for (int i = 0; i < CALLS_COUNT; i++) fail_in_turn(test, i, made[i]);
}

static void read_settings(void) {
    static char kind[32];
    char good[8] = "";
    const char *text = getenv("EVERY");
    every = text && *text;
    text = getenv("STRIDE");
    if (text && *text) (void)sscanf(text, "%ld/%ld", &stride, &case_stride);
    text = getenv("ONLY");
    if (text && *text) (void)sscanf(text, "%31[^:]:%ld:%7s", kind, &only_first, good);
    only_kind = kind;
    only_for_good = strcmp(good, "good") == 0;
    if (stride < 1 || case_stride < 1) exit(64);
}

static void print_totals(const char *store) {
    printf("%s: %ld cases, %ld calls, %ld runs, %ld of which passed all the same; %ld in trouble\n",
           store, sum.cases, sum.calls, sum.runs, sum.passed, sum.troubles);
    for (int i = 0; i < CALLS_COUNT; i++)
        if (sum.met[i]) printf("failed %s %ld\n", calls_name(i), sum.met[i]);
    if (!sum.troubles) printf("[  PASSED  ] %ld tests\n", sum.runs);
}

/* Cases with a hundred threads cover nothing that a few do not, and take the whole machine. Cases
   with processes that do a fixed number of rounds may wait for a timeout in each round. */
static bool is_crowd(const char *name) {
    return strstr(name, "a_hundred") || strstr(name, "processes_exclude");
}

int cf_run(const char *store, const struct CMUnitTest *tests, size_t count, CMFixtureFunction start,
           CMFixtureFunction stop, const char *pattern) {
    void *state = NULL;
    long nth = 0;
    read_settings();
    calls_shared = t_shared_new(sizeof *calls_shared);
    calls_paths = paths_new(getenv("WAYS"));
    start(&state);
    signal(SIGTERM, note_sigterm);
    long wanted = paths_begin(calls_paths) * case_stride;
    for (size_t i = 0; i < count && !ended; i++) {
        if (fnmatch(pattern ? pattern : "*", tests[i].name, 0) != 0 || is_crowd(tests[i].name))
            continue;
        if (nth++ != wanted) continue;
        fail_in_case(&tests[i]);
        wanted = paths_begin(calls_paths) * case_stride;
    }
    print_totals(store);
    t_shared_free(calls_shared, sizeof *calls_shared);
    paths_free(calls_paths);
    calls_shared = NULL;
    calls_paths = NULL;
    stop(&state);
    return sum.troubles ? 1 : 0;
}
