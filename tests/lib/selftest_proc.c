/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of t_proc, t_time and t_fail: children, threads, waiting and failing. */
#include "t.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

static int return_arg(void *arg) {
    return *(int *)arg;
}

static int fail_by_assert(void *arg) {
    (void)arg;
    assert_int_equal(1, 2);
    return 0;
}

static int fail_by_t_fail(void *arg) {
    (void)arg;
    t_fail("the number is %d", 17);
}

static int fail_by_waiting(void *arg) {
    (void)arg;
    T_WAIT_UNTIL(getpid() == 1, 20);
    return 0;
}

static void check_on_thread(int index, void *arg) {
    (void)index, (void)arg;
    T_CHECK(getpid() == 1);
}

/* ThreadSanitizer lets a child start threads only if its parent has none. This parent has none. */
static int fail_on_thread(void *arg) {
    (void)prctl(PR_SET_DUMPABLE, 0); /* an expected abort leaves no core file */
    t_threads_run(1, check_on_thread, arg, 5000);
    return 0;
}

static int sleep_long(void *arg) {
    (void)arg;
    t_sleep_ms(600000);
    return 0;
}

static int wait_too_short(void *arg) {
    (void)t_proc_wait(t_proc_start(sleep_long, arg), 20);
    return 0;
}

static int print_much(void *arg) {
    (void)arg;
    for (int i = 0; i < 100000; i++) printf("line %d\n", i);
    return 0;
}

static int end_with_success(void *arg) {
    (void)arg;
    return 0;
}

static int expect_failure_of_success(void *arg) {
    t_proc_expect_failure(end_with_success, arg, "anything");
    return 0;
}

static void test_child_status(void **state) {
    (void)state;
    int three = 3, zero = 0;
    assert_int_equal(t_proc_wait(t_proc_start(return_arg, &three), 5000), 3);
    assert_int_equal(t_proc_wait(t_proc_start(return_arg, &zero), 5000), 0);
    assert_int_equal(t_proc_wait(t_proc_start(print_much, NULL), 20000), 0);
}

static void test_child_failure_stays_in_child(void **state) {
    (void)state;
    t_proc_expect_failure(fail_by_assert, NULL, "0x1 != 0x2");
    t_proc_expect_failure(fail_by_t_fail, NULL, "FAILED: the number is 17");
    t_proc_expect_failure(fail_by_waiting, NULL, " ms for: getpid() == 1");
    t_proc_expect_failure(fail_on_thread, NULL, "is false: getpid() == 1");
    t_proc_expect_failure(wait_too_short, NULL, "running after");
    t_proc_expect_failure(expect_failure_of_success, NULL, "ended with status 0 instead");
}

static void test_child_is_killed(void **state) {
    (void)state;
    t_proc *proc = t_proc_start(sleep_long, NULL);
    t_proc_kill(proc, SIGSTOP);
    t_proc_kill(proc, SIGCONT);
    t_proc_kill(proc, SIGKILL);
    assert_int_equal(t_proc_wait(proc, 5000), 128 + SIGKILL);
}

/* A child starts a child, reports its pid, and is killed. The grandchild must die with it. */
static int start_grandchild(void *arg) {
    atomic_int *pid = arg;
    atomic_store(pid, t_proc_pid(t_proc_start(sleep_long, NULL)));
    return sleep_long(NULL);
}

static bool is_gone(pid_t pid) {
    char path[64], text[256] = "";
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    if (!file) return true;
    size_t n = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    return n == 0 || strstr(text, ") Z ") != NULL; /* a zombie: nobody has waited for it yet */
}

static void test_child_dies_with_parent(void **state) {
    (void)state;
    atomic_int *pid = t_shared_new(sizeof *pid);
    t_proc *proc = t_proc_start(start_grandchild, pid);
    T_WAIT_UNTIL(atomic_load(pid) != 0, 5000);
    assert_false(is_gone(atomic_load(pid)));
    t_proc_kill(proc, SIGKILL);
    assert_int_equal(t_proc_wait(proc, 5000), 128 + SIGKILL);
    T_WAIT_UNTIL(is_gone(atomic_load(pid)), 5000);
    t_shared_free(pid, sizeof *pid);
}

static void add_index(int index, void *arg) {
    atomic_fetch_add((atomic_int *)arg, index);
}

static void wait_for_flag(int index, void *arg) {
    (void)index;
    T_WAIT_UNTIL(atomic_load((atomic_int *)arg) != 0, 10000);
}

static void test_threads(void **state) {
    (void)state;
    atomic_int sum = 0, flag = 0;
    t_threads_run(10, add_index, &sum, 5000);
    assert_int_equal(atomic_load(&sum), 45);
    t_threads *waiters = t_threads_start(3, wait_for_flag, &flag);
    assert_int_equal(t_threads_ended(waiters), 0);
    atomic_store(&flag, 1);
    t_threads_join(waiters, 5000);
}

static void test_time(void **state) {
    (void)state;
    int64_t before = t_now_ms();
    t_sleep_ms(30);
    assert_true(t_now_ms() - before >= 29);
    int turns = 0;
    T_WAIT_UNTIL(++turns == 5, 5000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_child_status),    cmocka_unit_test(test_child_failure_stays_in_child),
        cmocka_unit_test(test_child_is_killed), cmocka_unit_test(test_child_dies_with_parent),
        cmocka_unit_test(test_threads),         cmocka_unit_test(test_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
