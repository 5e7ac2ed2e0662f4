/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of t_files and t_queue. */
#include "t.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

static char directory[64], file[128];

static int set_up(void **state) {
    (void)state;
    snprintf(directory, sizeof directory, "/tmp/hf-selftest-XXXXXX");
    if (!mkdtemp(directory)) return -1;
    snprintf(file, sizeof file, "%s/file", directory);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    t_files_reset();
    (void)unlink(file);
    return rmdir(directory);
}

/* ---- t_files --------------------------------------------------------------------------------- */

static int fd;

static bool call_open(void) {
    return open(file, O_RDONLY | O_CLOEXEC) < 0;
}
static bool call_openat(void) {
    return openat(AT_FDCWD, file, O_RDONLY | O_CLOEXEC) < 0;
}
static bool call_mkdir(void) {
    return mkdir(file, 0700) < 0;
}
static bool call_mkfifoat(void) {
    return mkfifoat(AT_FDCWD, file, 0600) < 0;
}
static bool call_unlinkat(void) {
    return unlinkat(AT_FDCWD, file, 0) < 0;
}
static bool call_fcntl(void) {
    return fcntl(fd, F_GETFD) < 0;
}
static bool call_futimens(void) {
    return futimens(fd, NULL) < 0;
}
static bool call_fdopendir(void) {
    return !fdopendir(fd);
}

static bool call_pread(void) {
    char byte;
    return pread(fd, &byte, 1, 0) < 0;
}

static bool call_pwrite(void) {
    return pwrite(fd, "", 1, 0) < 0;
}

static bool call_fstat(void) {
    struct stat st;
    return fstat(fd, &st) < 0;
}

static bool call_fstatat(void) {
    struct stat st;
    return fstatat(AT_FDCWD, file, &st, 0) < 0;
}

static bool call_statx(void) {
    struct statx st;
    return statx(AT_FDCWD, file, 0, STATX_INO, &st) < 0;
}

static bool call_fstatfs(void) {
    struct statfs fs;
    return fstatfs(fd, &fs) < 0;
}

static bool call_epoll_ctl(void) {
    return epoll_ctl(fd, EPOLL_CTL_DEL, fd, NULL) < 0;
}

static const struct {
    bool (*fails)(void);
    int error;
} calls[] = {
    {call_open, EMFILE},      {call_openat, EMFILE},    {call_mkdir, EDQUOT},
    {call_mkfifoat, ENOSPC},  {call_unlinkat, EIO},     {call_fcntl, ENOLCK},
    {call_pread, EIO},        {call_pwrite, ENOSPC},    {call_fstat, EIO},
    {call_fstatat, EIO},      {call_statx, EIO},        {call_fstatfs, EIO},
    {call_epoll_ctl, ENOMEM}, {call_fdopendir, ENOMEM}, {call_futimens, EACCES},
};

static void each_call_fails_with_its_error(void **state) {
    (void)state;
    fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    t_files_fail_at(1, true);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        errno = 0;
        assert_true(calls[i].fails());
        assert_int_equal(errno, calls[i].error);
    }
    t_files_reset();
    close(fd);
}

static void calls_that_are_exempt_go_through(void **state) {
    (void)state;
    fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    t_files_fail_at(1, true);
    t_exempt_begin();
    assert_false(call_fstat());
    assert_false(call_fcntl());
    t_exempt_end();
    assert_true(call_fstat());
    t_files_reset();
    assert_false(call_fstat());
    close(fd);
}

static void touch_twice(void *arg) {
    int *failed = arg;
    *failed += call_fstat();
    *failed += call_fcntl();
}

static void each_of_two_calls_fails_once_and_from_then_on(void **state) {
    int failed = 0;
    (void)state;
    fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_int_equal(t_files_each(touch_twice, &failed, 10), 2);
    assert_int_equal(failed, 1 + 1 + 2 + 1);
    close(fd);
}

/* ---- t_queue --------------------------------------------------------------------------------- */

static void a_queue_is_seen_from_outside(void **state) {
    static const int64_t tickets[] = {7, 0, 1000000, 8};
    static const uint32_t in_order[] = {2, 1, 4, 3};
    int ticket_fd[4];
    (void)state;
    assert_int_equal(t_queue_length(file), 0);
    for (uint32_t i = 0; i < 4; i++) {
        ticket_fd[i] = t_queue_join(file, tickets[i], i + 1);
        assert_int_equal(t_queue_length(file), i + 1);
    }
    for (int i = 0; i < 4; i++) assert_int_equal(t_queue_at(file, i), in_order[i]);
    assert_int_equal(t_queue_at(file, 4), 0);
    assert_int_equal(t_queue_holder(file), 0);
    int hold = t_queue_hold(file, UINT32_MAX);
    assert_true(t_queue_holder(file) == UINT32_MAX);
    assert_int_equal(t_queue_length(file), 4);
    close(hold);
    assert_int_equal(t_queue_holder(file), 0);
    for (int i = 0; i < 4; i++) close(ticket_fd[i]);
    assert_int_equal(t_queue_length(file), 0);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(each_call_fails_with_its_error),
        TEST(calls_that_are_exempt_go_through),
        TEST(each_of_two_calls_fails_once_and_from_then_on),
        TEST(a_queue_is_seen_from_outside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
