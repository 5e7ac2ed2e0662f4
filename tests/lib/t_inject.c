/* SPDX-License-Identifier: Apache-2.0 */
/* See t_inject.h. */
#include "t_inject.h"

#include <stdio.h>
#include <stdlib.h>

#include "t_exempt.h"
#include "t_fail.h"

#define EACH_MAX 100000

bool t_inject_hit(struct t_inject *inject) {
    if (t_exempt()) return false;
    long long call = atomic_fetch_add(&inject->calls, 1) + 1;
    long long n = atomic_load(&inject->fail_at);
    if (n == 0 || call < n) return false;
    if (call > n && !atomic_load(&inject->forever)) return false;
    atomic_fetch_add(&inject->failed, 1);
    return true;
}

void t_inject_arm(struct t_inject *inject, int64_t n, bool forever) {
    atomic_store(&inject->fail_at, 0);
    atomic_store(&inject->calls, 0);
    atomic_store(&inject->failed, 0);
    atomic_store(&inject->forever, forever);
    atomic_store(&inject->fail_at, n);
}

/*
 * A failed assertion in the function under test jumps out of it, past its driver. The call that was
 * made to fail is then reported at the end of the process, or at the next use.
 */
static struct t_inject *_Atomic current;

static void report_if_left(struct t_inject *inject) {
    if (!atomic_exchange(&inject->running, false)) return;
    fprintf(stderr, "The test ended while %s %lld failed%s.\n", inject->what,
            atomic_load(&inject->fail_at), atomic_load(&inject->forever) ? " for good" : "");
}

static void report_at_end(void) {
    struct t_inject *inject = atomic_load(&current);
    if (inject) report_if_left(inject);
}

/* Whether the run met a failure. */
static bool run_failing(struct t_inject *inject, t_inject_fn *fn, void *arg, int64_t n,
                        bool forever) {
    t_inject_arm(inject, n, forever);
    atomic_store(&inject->running, true);
    fn(arg);
    atomic_store(&inject->running, false);
    bool met = atomic_load(&inject->failed) > 0;
    t_inject_arm(inject, 0, false);
    return met;
}

/* On a slow machine a run may have nothing to wait for, and so make fewer calls than other runs. */
enum { TRIES = 10 };

static void run_until_clean(struct t_inject *inject, t_inject_fn *fn, void *arg, int64_t max,
                            bool forever) {
    int64_t n = 1;
    for (int i = 0; n == 1 && i < TRIES; i++)
        while (run_failing(inject, fn, arg, n, forever))
            if (n++ == max) t_fail("more than %lld calls (%s)", (long long)max, inject->what);
    if (n == 1) t_fail("no %s failed, although there are some", inject->what);
}

int64_t t_inject_each(struct t_inject *inject, t_inject_fn *fn, void *arg, int64_t max) {
    report_at_end();
    t_at_end(report_at_end);
    atomic_store(&current, inject);
    t_inject_arm(inject, 0, false);
    int64_t calls = 0;
    for (int i = 0; calls == 0 && i < TRIES; i++) {
        fn(arg);
        calls = atomic_load(&inject->calls);
    }
    if (calls == 0)
        t_fail("no %s in a run without failures: is the test linked with hf_testalloc?",
               inject->what);
    run_until_clean(inject, fn, arg, max ? max : EACH_MAX, false);
    run_until_clean(inject, fn, arg, max ? max : EACH_MAX, true);
    return calls;
}
