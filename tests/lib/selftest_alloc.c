/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of t_alloc and t_sys: the chosen calls fail, and no others do. */
#include "t.h"

#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

static int tear_down(void **state) {
    (void)state;
    t_alloc_reset();
    t_sys_reset();
    return 0;
}

/* Volatile, because the optimiser may remove an allocation whose result is not used. */
static _Thread_local void *volatile sink;

static bool try_malloc(void) {
    sink = malloc(10);
    bool made = sink != NULL;
    free(sink);
    return made;
}

static void test_fails_at_once_or_for_good(void **state) {
    (void)state;
    t_alloc_fail_at(2, false);
    assert_true(try_malloc());
    assert_false(try_malloc());
    assert_true(try_malloc());
    assert_int_equal(t_alloc_count(), 3);
    assert_int_equal(t_alloc_failed(), 1);
    t_alloc_fail_at(2, true);
    assert_true(try_malloc());
    assert_false(try_malloc());
    assert_false(try_malloc());
    t_exempt_begin();
    assert_true(try_malloc());
    t_exempt_end();
    t_alloc_reset();
    assert_true(try_malloc());
}

static void test_every_allocator_is_reached(void **state) {
    (void)state;
    char *text = NULL;
    size_t size;
    struct addrinfo *info;
    void *memory;
    t_alloc_fail_at(1, true);
    errno = 0;
    assert_null(sink = calloc(1, 1));
    assert_int_equal(errno, ENOMEM);
    assert_null(sink = realloc(NULL, 1000));
    assert_null(sink = reallocarray(NULL, 2, 2));
    assert_null(sink = aligned_alloc(16, 16));
    assert_null(sink = strdup("x"));
    assert_null(sink = strndup("x", 1));
    assert_null(sink = open_memstream(&text, &size));
    assert_null(sink = fopen("/dev/null", "r"));
    assert_int_equal(posix_memalign(&memory, 16, 16), ENOMEM);
    assert_int_equal(getaddrinfo("127.0.0.1", NULL, NULL, &info), EAI_MEMORY);
    assert_int_equal(asprintf(&text, "%d", 1), -1);
    assert_int_equal(t_alloc_failed(), 11);
    t_alloc_reset();
    assert_int_equal(asprintf(&text, "%d", 17), 2);
    assert_string_equal(text, "17");
    free(text);
}

/* Makes three allocations. It tolerates a failure of the second. */
static void take_three(void *arg) {
    int *runs = arg;
    ++*runs;
    char *a = malloc(1), *b = a ? strdup("b") : NULL, *c = a ? calloc(1, 1) : NULL;
    sink = a, sink = b, sink = c;
    free(a);
    free(b);
    free(c);
}

static void test_each(void **state) {
    (void)state;
    int runs = 0;
    assert_int_equal(t_alloc_each(take_three, &runs, 100), 3);
    /* One run that only counts. Then, for `once` and for `forever`: calls 1 to 3, and one run
       without a failure. */
    assert_int_equal(runs, 1 + 4 + 4);
    assert_true(try_malloc());
}

static void take_on_threads(int index, void *arg) {
    (void)index, (void)arg;
    (void)try_malloc();
}

static void run_threads(void *arg) {
    t_threads_run(4, take_on_threads, arg, 5000);
}

static void test_counts_over_threads_but_not_the_helpers(void **state) {
    (void)state;
    assert_int_equal(t_alloc_each(run_threads, NULL, 100), 4);
}

static void assert_no_failure(void *arg) {
    (void)arg;
    assert_true(try_malloc());
}

/* The failed assertion jumps out of the driver. The process reports the injected failure at
   exit. */
static int leave_each(void *arg) {
    t_alloc_each(assert_no_failure, arg, 100);
    return 0;
}

static void allocate_more_each_time(void *arg) {
    for (int i = ++*(int *)arg + 10; i > 0; i--) (void)try_malloc();
}

static void allocate_nothing(void *arg) {
    (void)arg;
}

static int each_of_nothing(void *arg) {
    t_alloc_each(allocate_nothing, arg, 10);
    return 0;
}

static int each_without_end(void *arg) {
    int runs = 0;
    (void)arg;
    t_alloc_each(allocate_more_each_time, &runs, 20);
    return 0;
}

static void test_failures_are_reported(void **state) {
    (void)state;
    t_proc_expect_failure(leave_each, NULL, "ended while allocation 1 failed");
    t_proc_expect_failure(each_of_nothing, NULL, "is the test linked with hf_testalloc?");
    t_proc_expect_failure(each_without_end, NULL, "more than 20 calls (allocation)");
}

static bool try_fd(int fd) {
    if (fd >= 0) close(fd);
    return fd >= 0;
}

static void *run_nothing(void *arg) {
    return arg;
}

static bool try_thread(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, run_nothing, NULL) != 0) return false;
    pthread_join(thread, NULL);
    return true;
}

static bool try_pipe(void) {
    int ends[2];
    if (pipe2(ends, 0) != 0) return false;
    close(ends[0]);
    close(ends[1]);
    return true;
}

struct alloc_tally {
    int runs, failures;
};

static void take_descriptors(void *arg) {
    struct alloc_tally *tally = arg;
    bool made[] = {try_fd(socket(AF_UNIX, SOCK_STREAM, 0)),
                   try_fd(eventfd(0, 0)),
                   try_fd(epoll_create1(0)),
                   try_fd(timerfd_create(CLOCK_MONOTONIC, 0)),
                   try_pipe(),
                   try_thread()};
    tally->runs++;
    for (size_t i = 0; i < sizeof made / sizeof made[0]; i++) tally->failures += !made[i];
}

static void test_descriptors_and_threads(void **state) {
    (void)state;
    struct alloc_tally tally = {0};
    assert_int_equal(t_sys_each(take_descriptors, &tally, 100), 6);
    assert_int_equal(tally.runs, 1 + 7 + 7);
    assert_int_equal(tally.failures, 6 + (6 + 5 + 4 + 3 + 2 + 1));
}

/* The test library's helpers work while every call fails, and their own calls are not counted. */
static void test_helpers_are_exempt(void **state) {
    (void)state;
    t_redis *redis = t_redis_start(NULL);
    t_alloc_fail_at(1, true);
    t_sys_fail_at(1, true);
    t_proxy *proxy = t_proxy_start(t_redis_port(redis));
    t_fake *fake = t_fake_start("EXPECT_ANY\n");
    assert_string_equal(t_redis_str(redis, "SET k v"), "OK");
    t_redis_restart(redis);
    assert_null(t_redis_str(redis, "GET k"));
    t_fake_free(fake);
    t_proxy_free(proxy);
    t_redis_free(redis);
    assert_int_equal(t_alloc_count(), 0);
    assert_int_equal(t_sys_count(), 0);
}

/* Allocations of hiredis fail too where it is linked statically. It then returns no reply. */
static void test_hiredis(void **state) {
    (void)state;
    t_redis *redis = t_redis_start(NULL);
    t_alloc_reset();
    redisContext *context = redisConnectUnix(t_redis_socket(redis));
    assert_non_null(context);
    if (t_alloc_count() > 0) {
        t_alloc_fail_at(1, false);
        assert_null(redisCommand(context, "PING"));
        t_alloc_reset();
    }
    redisFree(context);
    t_redis_free(redis);
}

int main(void) {
#define TEST(name) cmocka_unit_test_teardown(name, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_failures_are_reported),
        TEST(test_fails_at_once_or_for_good),
        TEST(test_every_allocator_is_reached),
        TEST(test_each),
        TEST(test_counts_over_threads_but_not_the_helpers),
        TEST(test_descriptors_and_threads),
        TEST(test_helpers_are_exempt),
        TEST(test_hiredis),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
