/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Latches and leader values in a directory of locks: which files are removed, and which stay (B30).
 * Also files that are cut, foreign, or locked by a stopped process (F28), and processes that are
 * killed (F46).
 */
#include "kit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static void make_old(const char *path) {
    struct timespec then[2];
    clock_gettime(CLOCK_REALTIME, &then[0]);
    then[0].tv_sec -= 7 * 24 * 3600;
    then[1] = then[0];
    assert_int_equal(utimensat(AT_FDCWD, path, then, AT_SYMLINK_NOFOLLOW), 0);
}

static hf_client *open_here(const test_dir *p) {
    hf_client *client = NULL;
    T_HF(HF_OK, hf_open(p->url, NULL, &client));
    return client;
}

/* Opens and closes a client, as if the last sweep were long ago. */
static void sweep_dir(const test_dir *p) {
    if (!files_like(p, "swept")) hf_close(open_here(p));
    make_old(path_of(p, "swept"));
    hf_close(open_here(p));
}

static uint32_t left_of(hf_client *client) {
    uint32_t left = 77;
    T_HF(HF_OK, hf_latch_left(client, LOCK, &left));
    return left;
}

static hf_hold *campaign_here(hf_client *client, const char *value) {
    hf_hold *hold = NULL;
    T_HF(HF_OK, hf_campaign(client, LOCK, value, strlen(value), NULL, &hold));
    return hold;
}

static hf_result has_leader(hf_client *client) {
    hf_leader_info *info = NULL;
    hf_result r = hf_leader(client, LOCK, &info);
    hf_leader_free(info);
    return r;
}

/* ---- B30 ------------------------------------------------------------------------------------- */

static void B30_latches_and_leader_values_are_removed_after_their_time(void **state) {
    test_dir *p = *state;
    hf_client *client = open_here(p);
    T_HF(HF_OK, hf_latch_set(client, LOCK, 2));
    T_HF(HF_OK, hf_release(campaign_here(client, "x")));
    hf_close(client);
    assert_int_equal(files_like(p, "gate."), 1);
    assert_int_equal(files_like(p, "lead."), 1);
    sweep_dir(p);
    assert_int_equal(files_like(p, "gate.") + files_like(p, "lead."), 2);
    make_old(path_of(p, "gate.hf." LOCK));
    make_old(path_of(p, "lead.hf." LOCK));
    sweep_dir(p);
    assert_int_equal(files_like(p, "gate.") + files_like(p, "lead."), 0);
    client = open_here(p);
    T_HF(HF_NOT_HELD, hf_latch_count_down(client, LOCK, 1, NULL));
    hf_close(client);
}

/* A leader of many days keeps its value. A latch that has a waiter is in use. */
static void B30_files_in_use_stay(void **state) {
    test_dir *p = *state;
    hf_client *client = open_here(p);
    T_HF(HF_OK, hf_latch_set(client, LOCK, 2));
    hf_hold *hold = campaign_here(client, "x");
    make_old(path_of(p, "gate.hf." LOCK));
    make_old(path_of(p, "lead.hf." LOCK));
    T_HF(HF_BUSY, hf_latch_wait(client, LOCK, NULL));
    sweep_dir(p);
    assert_int_equal(left_of(client), 2);
    T_HF(HF_OK, has_leader(client));
    T_HF(HF_OK, hf_release(hold));
    hf_close(client);
}

static void write_file(const char *path, const char *bytes, size_t length) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, length), length);
    close(fd);
}

static void B30_files_of_others_stay(void **state) {
    test_dir *p = *state;
    hf_client *client = open_here(p);
    T_HF(HF_OK, hf_latch_set(client, LOCK, 2));
    hf_close(client);
    write_file(path_of(p, "gate.keeper"), "not ours", 8);
    make_old(path_of(p, "gate.keeper"));
    sweep_dir(p);
    sweep_dir(p);
    assert_int_equal(files_like(p, "gate.keeper"), 1);
}

/* ---- F28 ------------------------------------------------------------------------------------- */

static void F28_a_file_that_is_not_a_latch_is_refused_and_left_unchanged(void **state) {
    test_dir *p = *state;
    struct stat st;
    hf_client *client = open_here(p);
    write_file(path_of(p, "gate.hf." LOCK), "this is not a latch of holdfast's", 33);
    T_HF(HF_PROTOCOL, hf_latch_set(client, LOCK, 2));
    T_HF(HF_PROTOCOL, hf_latch_count_down(client, LOCK, 2, NULL));
    T_HF(HF_PROTOCOL, hf_latch_wait(client, LOCK, NULL));
    assert_non_null(strstr(hf_error_detail(), "gate.hf." LOCK));
    assert_int_equal(stat(path_of(p, "gate.hf." LOCK), &st), 0);
    assert_int_equal(st.st_size, 33);
    hf_close(client);
}

/* Cut by a crash of the machine. A damaged latch must not be taken for another one, but a leader
   may write its value again. */
static void F28_a_file_cut_to_any_length_is_not_trusted(void **state) {
    test_dir *p = *state;
    struct stat st;
    hf_client *client = open_here(p);
    hf_hold *hold = campaign_here(client, "a value");
    T_HF(HF_OK, hf_latch_set(client, LOCK, 2));
    assert_int_equal(stat(path_of(p, "gate.hf." LOCK), &st), 0);
    for (off_t length = st.st_size - 1; length > 0; length -= 5) {
        assert_int_equal(truncate(path_of(p, "gate.hf." LOCK), length), 0);
        T_HF(HF_PROTOCOL, hf_latch_count_down(client, LOCK, 1, NULL));
    }
    assert_int_equal(truncate(path_of(p, "gate.hf." LOCK), 0), 0);
    T_HF(HF_NOT_HELD, hf_latch_count_down(client, LOCK, 1, NULL));
    assert_int_equal(truncate(path_of(p, "lead.hf." LOCK), 40), 0);
    T_HF(HF_NOT_HELD, has_leader(client));
    T_HF(HF_OK, hf_proclaim(hold, "anew", 4));
    T_HF(HF_OK, has_leader(client));
    T_HF(HF_OK, hf_release(hold));
    hf_close(client);
}

static void F28_the_latch_of_another_name_is_refused(void **state) {
    test_dir *p = *state;
    hf_client *client = open_here(p);
    T_HF(HF_OK, hf_latch_set(client, "other", 2));
    assert_int_equal(rename(path_of(p, "gate.hf.other"), path_of(p, "gate.hf." LOCK)), 0);
    T_HF(HF_PROTOCOL, hf_latch_count_down(client, LOCK, 1, NULL));
    hf_close(client);
}

/* Another process was stopped in the middle of a write. The call has a deadline, and nothing blocks
   forever. */
static void F03_a_latch_that_another_keeps_locked_is_reported(void **state) {
    test_dir *p = *state;
    hf_client *client = NULL;
    T_HF(HF_OK, hf_open(p->url,
                        &(hf_client_options){.command_timeout_ms = t_patience(200),
                                             .outage_ms = t_patience(200)},
                        &client));
    T_HF(HF_OK, hf_latch_set(client, LOCK, 2));
    int fd = open(path_of(p, "gate.hf." LOCK), O_RDWR | O_CLOEXEC);
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    assert_int_equal(fcntl(fd, F_OFD_SETLK, &range), 0);
    T_HF(HF_UNREACHABLE, hf_latch_count_down(client, LOCK, 1, NULL));
    assert_int_equal(left_of(client), 2);
    close(fd);
    T_HF(HF_OK, hf_latch_count_down(client, LOCK, 1, NULL));
    assert_int_equal(left_of(client), 1);
    hf_close(client);
}

/* ---- F46: kills ------------------------------------------------------------------------------ */

enum { TOTAL = HF_LATCH_MAX, COUNTERS = 3, KILLS = 40 };

typedef struct latch_counts {
    char url[128];
    _Atomic uint32_t begun, done, failed;
} latch_counts;

static int count_until_killed(void *arg) {
    latch_counts *t = arg;
    hf_client *client = NULL;
    T_HF(HF_OK, hf_open(t->url, NULL, &client));
    for (;;) {
        atomic_fetch_add(&t->begun, 1);
        if (hf_latch_count_down(client, LOCK, 1, NULL) != HF_OK) atomic_fetch_add(&t->failed, 1);
        atomic_fetch_add(&t->done, 1);
    }
    return 1;
}

static void kill_one(t_proc *child) {
    t_proc_kill(child, SIGKILL);
    assert_int_equal(t_proc_wait(child, SOON_MS), 128 + SIGKILL);
}

/* Whenever a process is killed, its current count-down counts or does not, and nothing else
   changes. */
static void F46_kills_while_counting_lose_nothing(void **state) {
    test_dir *p = *state;
    t_proc *children[COUNTERS];
    latch_counts *t = t_shared_new(sizeof *t);
    snprintf(t->url, sizeof t->url, "%s", p->url);
    hf_client *client = open_here(p);
    T_HF(HF_OK, hf_latch_set(client, LOCK, TOTAL));
    hf_close(client);
    for (int i = 0; i < COUNTERS; i++) children[i] = t_proc_start(count_until_killed, t);
    for (int i = 0; i < KILLS; i++) {
        uint32_t before = atomic_load(&t->done);
        UNTIL(atomic_load(&t->done) > before + (uint32_t)i);
        kill_one(children[i % COUNTERS]);
        children[i % COUNTERS] = t_proc_start(count_until_killed, t);
    }
    for (int i = 0; i < COUNTERS; i++) kill_one(children[i]);
    client = open_here(p);
    uint32_t counted = TOTAL - left_of(client);
    hf_close(client);
    assert_in_range(counted, atomic_load(&t->done), atomic_load(&t->begun));
    assert_int_equal(atomic_load(&t->failed), 0);
    t_shared_free(t, sizeof *t);
}

static const struct CMUnitTest tests[] = {
    FILE_TEST(B30_latches_and_leader_values_are_removed_after_their_time),
    FILE_TEST(B30_files_in_use_stay),
    FILE_TEST(B30_files_of_others_stay),
    FILE_TEST(F28_a_file_that_is_not_a_latch_is_refused_and_left_unchanged),
    FILE_TEST(F28_a_file_cut_to_any_length_is_not_trusted),
    FILE_TEST(F28_the_latch_of_another_name_is_refused),
    FILE_TEST(F03_a_latch_that_another_keeps_locked_is_reported),
    FILE_TEST(F46_kills_while_counting_lose_nothing),
};

FILE_MAIN(tests)
