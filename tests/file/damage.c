/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Damaged files: cut short, overwritten, of a newer version, of another lock, or not regular files.
 * Every call returns a clear result with a text that names the file. Nothing crashes, and there are
 * never two holders.
 */
#include "kit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/file/lockfile.h"

enum { FILE_MAX = 4096, VERSION_AT = 8, KEY_AT = 512 };

/* All bytes of a lock's file. */
typedef struct file_bytes {
    unsigned char at[FILE_MAX];
    size_t length;
} file_bytes;

/* Pretends to be another user, without the right to change users. */
static bool pretend_other_user;

uid_t __real_geteuid(void);
uid_t __wrap_geteuid(void);
uid_t __wrap_geteuid(void) {
    return __real_geteuid() + pretend_other_user;
}

/* ---- Clients of the test's own process ------------------------------------------------------- */

static hf_client *open_client(const test_dir *p) {
    hf_client *client = NULL;
    T_HF(HF_OK, hf_open(p->url, NULL, &client));
    return client;
}

static void read_file(const test_dir *p, file_bytes *b) {
    int fd = open(lock_path(p, LOCK), O_RDONLY | O_CLOEXEC);
    ssize_t n = read(fd, b->at, sizeof b->at);
    assert_true(fd >= 0 && n > 0 && n < FILE_MAX);
    b->length = (size_t)n;
    close(fd);
}

/* Writes in place: the inode stays. */
static void write_file(const test_dir *p, const file_bytes *b) {
    int fd = open(lock_path(p, LOCK), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && write(fd, b->at, b->length) == (ssize_t)b->length);
    close(fd);
}

/* Uses a lock, and reads its file. */
static void make_file(const test_dir *p, file_bytes *b) {
    hf_hold *hold;
    hf_client *client = open_client(p);
    T_HF(HF_OK, hf_try_lock(client, LOCK, &hold));
    T_HF(HF_OK, hf_release(hold));
    hf_close(client);
    read_file(p, b);
}

/* ---- Results of all calls -------------------------------------------------------------------- */

static void check_refused(hf_client *client, hf_result expected, const char *part) {
    hf_hold *hold = NULL;
    hf_info *info = NULL;
    T_HF(expected, hf_try_lock(client, LOCK, &hold));
    assert_null(hold);
    check_detail(hf_error_detail(), "lock.hf." LOCK);
    check_detail(hf_error_detail(), part);
    T_HF(expected, hf_acquire(client, LOCK, &(hf_options){.wait_ms = SOON_MS}, &hold));
    assert_null(hold);
    T_HF(expected, hf_inspect(client, LOCK, &info));
    assert_null(info);
    T_HF(expected, hf_break(client, LOCK, 0));
    check_detail(hf_error_detail(), part);
}

/* Checks a fresh client, and one that opened the file when it was good. */
static void check_both_refused(const test_dir *p, hf_client *old, hf_result expected,
                               const char *part) {
    hf_hold *hold = NULL;
    hf_client *fresh = open_client(p);
    check_refused(fresh, expected, part);
    hf_close(fresh);
    hf_result r = hf_try_lock(old, LOCK, &hold);
    if (r != expected) t_fail("a client that opened the file before got %s", hf_result_name(r));
}

/* Whatever is in the file, there is at most one holder, and it can release. */
static void check_one_at_most(const test_dir *p) {
    hf_client *one = open_client(p), *two = open_client(p);
    hf_hold *first = NULL, *second = NULL;
    hf_result r = hf_try_lock(one, LOCK, &first);
    if (r != HF_OK && r != HF_PROTOCOL) t_fail("the call returned %s", hf_result_name(r));
    hf_result s = hf_try_lock(two, LOCK, &second);
    if (r == HF_OK) T_CHECK(s == HF_BUSY || s == HF_PROTOCOL);
    hf_info *info = NULL;
    hf_result t = hf_inspect(two, LOCK, &info);
    T_CHECK(t == HF_OK || t == HF_PROTOCOL);
    hf_info_free(info);
    if (first) T_HF(HF_OK, hf_release(first));
    if (second) T_HF(HF_OK, hf_release(second));
    hf_close(one);
    hf_close(two);
    assert_int_equal(t_queue_holder(lock_path(p, LOCK)), 0);
    assert_int_equal(t_queue_length(lock_path(p, LOCK)), 0);
}

/* ---- Cut short ------------------------------------------------------------------------------- */

static void F28_a_file_cut_to_any_length_is_refused(void **state) {
    test_dir *p = *state;
    file_bytes whole;
    make_file(p, &whole);
    for (size_t n = 1; n < whole.length; n++) {
        file_bytes part = whole;
        part.length = n;
        write_file(p, &part);
        hf_client *client = open_client(p);
        check_refused(client, HF_PROTOCOL, "remove the file");
        hf_close(client);
    }
    write_file(p, &whole);
    check_one_at_most(p);
}

/* The first holder has not written it yet, or it was emptied. It contains no data, so nothing is
   wrong. The token still grows. */
static void F28_an_empty_file_is_a_new_one(void **state) {
    test_dir *p = *state;
    file_bytes whole, none = {.length = 0};
    hf_client *client = open_client(p);
    hf_hold *hold;
    uint64_t last = 0;
    for (int i = 0; i < 3; i++) {
        T_HF(HF_OK, hf_try_lock(client, LOCK, &hold));
        assert_true(hf_fence(hold) > last);
        last = hf_fence(hold);
        T_HF(HF_OK, hf_release(hold));
        read_file(p, &whole);
        assert_true(whole.length > sizeof(hf__head));
        write_file(p, &none);
    }
    hf_close(client);
    check_one_at_most(p);
}

/* A full disk or a file size limit in the middle of the first write. */
static int limit_and_acquire(void *arg) {
    struct rlimit limit = {.rlim_cur = KEY_AT + 10, .rlim_max = RLIM_INFINITY};
    hf_client *client = open_client(arg);
    hf_hold *hold = NULL;
    if (signal(SIGXFSZ, SIG_IGN) == SIG_ERR) return 1;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    hf_result r = hf_try_lock(client, "a-name-that-does-not-fit", &hold);
    if (r != HF_REFUSED) t_fail("the call returned %s", hf_result_name(r));
    assert_null(hold);
    hf_close(client);
    return 0;
}

static void F28_a_file_that_could_not_be_written_whole_is_a_new_one_later(void **state) {
    test_dir *p = *state;
    hf_hold *hold;
    assert_int_equal(t_proc_wait(t_proc_start(limit_and_acquire, p), SOON_MS), 0);
    hf_client *client = open_client(p);
    T_HF(HF_OK, hf_try_lock(client, "a-name-that-does-not-fit", &hold));
    T_HF(HF_OK, hf_release(hold));
    hf_close(client);
}

/* ---- Overwritten ----------------------------------------------------------------------------- */

static void F28_no_changed_byte_lets_two_in(void **state) {
    test_dir *p = *state;
    file_bytes whole;
    make_file(p, &whole);
    for (size_t i = 0; i < whole.length; i++) {
        file_bytes bad = whole;
        bad.at[i] ^= (unsigned char)(1 + i * 31 % 255);
        write_file(p, &bad);
        check_one_at_most(p);
    }
}

/* Uses a seed, so that every run is the same. */
static void fill_random(unsigned char *at, size_t length, uint32_t *seed) {
    for (size_t i = 0; i < length; i++) {
        *seed = *seed * 1664525 + 1013904223;
        at[i] = (unsigned char)(*seed >> 24);
    }
}

static void F28_random_bytes_are_refused(void **state) {
    test_dir *p = *state;
    hf_client *old = open_client(p);
    uint32_t seed = 1;
    file_bytes b;
    make_file(p, &b);
    for (int i = 0; i < 100; i++) {
        fill_random(b.at, sizeof b.at, &seed);
        b.length = 1 + seed % (FILE_MAX - 1);
        write_file(p, &b);
        check_both_refused(p, old, HF_PROTOCOL, "remove the file");
    }
    hf_close(old);
}

/* The head is valid and the record is not. */
static void F28_a_damaged_record_is_refused(void **state) {
    test_dir *p = *state;
    hf_client *client = open_client(p);
    hf_hold *hold = NULL;
    uint32_t seed = 2;
    file_bytes whole;
    make_file(p, &whole);
    for (int i = 0; i < 100; i++) {
        file_bytes b = whole;
        fill_random(b.at + offsetof(hf__head, record), sizeof(hf__record), &seed);
        write_file(p, &b);
        T_HF(HF_PROTOCOL, hf_try_lock(client, LOCK, &hold));
        check_detail(hf_error_detail(), "damaged");
        check_detail(hf_error_detail(), "remove the file");
    }
    hf_close(client);
}

static void F28_a_newer_version_is_refused_and_left_unchanged(void **state) {
    test_dir *p = *state;
    file_bytes b, after;
    make_file(p, &b);
    b.at[VERSION_AT] += 2; /* the version after it marks a file whose kinds table was used */
    write_file(p, &b);
    hf_client *client = open_client(p);
    check_refused(client, HF_PROTOCOL, "newer version");
    check_detail(hf_error_detail(), "update");
    hf_close(client);
    read_file(p, &after);
    assert_int_equal(after.length, b.length);
    assert_memory_equal(after.at, b.at, b.length);
}

/* As if the hashes of two names were equal. */
static void F50_the_file_of_another_lock_is_refused(void **state) {
    test_dir *p = *state;
    file_bytes b;
    make_file(p, &b);
    b.at[KEY_AT + 3] ^= 1; /* "hf", NUL, then the name */
    write_file(p, &b);
    hf_client *client = open_client(p);
    check_refused(client, HF_PROTOCOL, "another lock");
    check_detail(hf_error_detail(), "choose another name");
    hf_close(client);
}

/* A record with a valid checksum and unterminated strings, as written on purpose. */
static void F39_unterminated_texts_are_not_read_past_their_field(void **state) {
    test_dir *p = *state;
    file_bytes b;
    hf__head head;
    make_file(p, &b);
    memcpy(&head, b.at, sizeof head);
    head.record.id = 0xabcd;
    memset(head.record.client, 'c', sizeof head.record.client);
    memset(head.record.program, 'p', sizeof head.record.program);
    memset(head.record.label, 'l', sizeof head.record.label);
    int hold = t_queue_hold(lock_path(p, LOCK), 0xabcd);
    assert_int_equal(hf__lockfile_write_record(hold, &head.record), 0);
    hf_client *client = open_client(p);
    hf_info *info = NULL;
    T_HF(HF_OK, hf_inspect(client, LOCK, &info));
    assert_in_range(strlen(info->program), 0, sizeof head.record.program);
    assert_in_range(strlen(info->label), 0, sizeof head.record.label);
    hf_info_free(info);
    hf_close(client);
    close(hold);
}

/* ---- Not a regular file ---------------------------------------------------------------------- */

static void check_kind(const test_dir *p, const char *part) {
    hf_client *client = open_client(p);
    check_refused(client, HF_REFUSED, part);
    hf_close(client);
}

static void F28_a_path_that_is_not_a_regular_file_is_refused(void **state) {
    test_dir *p = *state;
    const char *path = lock_path(p, LOCK);
    assert_int_equal(mkdir(path, 0700), 0);
    check_kind(p, "directory");
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(mkfifo(path, 0600), 0);
    check_kind(p, "not a file");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/dev/null", path), 0);
    check_kind(p, "symbolic link");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("nowhere", path), 0);
    check_kind(p, "symbolic link");
    assert_int_equal(access(path_of(p, "nowhere"), F_OK), -1);
}

/* A link to a good lock file is refused as well. */
static void F28_a_link_to_a_lock_file_is_refused(void **state) {
    test_dir *p = *state;
    file_bytes b;
    make_file(p, &b);
    assert_int_equal(rename(lock_path(p, LOCK), path_of(p, "elsewhere")), 0);
    assert_int_equal(symlink("elsewhere", lock_path(p, LOCK)), 0);
    check_kind(p, "symbolic link");
}

static void F28_a_file_that_others_may_write_is_refused(void **state) {
    static const mode_t bad[] = {0666, 0622, 0660, 0620, 0602};
    test_dir *p = *state;
    file_bytes b;
    make_file(p, &b);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(chmod(lock_path(p, LOCK), bad[i]), 0);
        check_kind(p, "only this user may write");
    }
    assert_int_equal(chmod(lock_path(p, LOCK), 0644), 0);
    check_one_at_most(p);
}

static void F28_a_file_of_another_user_is_refused(void **state) {
    test_dir *p = *state;
    file_bytes b;
    make_file(p, &b);
    pretend_other_user = true;
    hf_client *client = NULL;
    hf_result r = hf_open(p->url, NULL, &client); /* the directory belongs to another user too */
    pretend_other_user = false;
    T_CHECK(r == HF_REFUSED);
    client = open_client(p);
    pretend_other_user = true;
    check_refused(client, HF_REFUSED, "only this user may write");
    pretend_other_user = false;
    hf_close(client);
}

/* ---- Damaged while in use -------------------------------------------------------------------- */

enum { LEASE_MS = 300 };

typedef void damage_fn(const test_dir *p);

static void cut_to_nothing(const test_dir *p) {
    assert_int_equal(truncate(lock_path(p, LOCK), 0), 0);
}

static void cut_short(const test_dir *p) {
    assert_int_equal(truncate(lock_path(p, LOCK), 100), 0);
}

static void overwrite_file(const test_dir *p) {
    file_bytes b;
    uint32_t seed = 3;
    read_file(p, &b);
    fill_random(b.at, b.length, &seed);
    write_file(p, &b);
}

static void overwrite_record(const test_dir *p) {
    file_bytes b;
    uint32_t seed = 4;
    read_file(p, &b);
    fill_random(b.at + offsetof(hf__head, record), sizeof(hf__record), &seed);
    write_file(p, &b);
}

static damage_fn *const damages[] = {cut_to_nothing, cut_short, overwrite_file, overwrite_record};

static void F25_a_holder_of_a_damaged_file_is_notified_at_its_next_renewal(void **state) {
    test_dir *p = *state;
    for (size_t i = 0; i < sizeof damages / sizeof *damages; i++) {
        actor *holder = actor_new(p, NULL), *other = actor_new(p, NULL);
        TAKES(holder, .lease_ms = t_patience(LEASE_MS));
        damages[i](p);
        hf_result r = TRIES(other, 0).result; /* the holder is still there */
        assert_true(r == HF_BUSY || r == HF_PROTOCOL);
        actor_lost(holder);
        assert_int_equal(t_queue_holder(lock_path(p, LOCK)), 0);
        r = TRIES(other, 0).result;
        assert_true(r == (i ? HF_PROTOCOL : HF_OK));
        actor_kill(holder);
        actor_kill(other);
        assert_int_equal(unlink(lock_path(p, LOCK)), 0);
    }
}

/* Each waiter gets the error when its turn comes. */
static void F25_waiters_for_a_damaged_file_get_an_error(void **state) {
    test_dir *p = *state;
    actor *holder = actor_new(p, NULL), *first = actor_new(p, NULL), *last = actor_new(p, NULL);
    TAKES(holder, .lease_ms = t_patience(LEASE_MS));
    WAITS(first, .wait_ms = SOON_MS);
    WAITS(last, .wait_ms = SOON_MS);
    overwrite_file(p);
    actor_lost(holder);
    IS(HF_PROTOCOL, actor_end(first));
    IS(HF_PROTOCOL, actor_end(last));
    assert_int_equal(t_queue_length(lock_path(p, LOCK)), 0);
    assert_int_equal(unlink(lock_path(p, LOCK)), 0); /* as the message advises */
    TAKES(first);
}

/* ---- Held by hand ---------------------------------------------------------------------------- */

/* Another program has the range locked and writes no record: the lock is held by an unknown
   holder. */
static void B27_a_hold_without_a_record_is_reported(void **state) {
    test_dir *p = *state;
    file_bytes b;
    make_file(p, &b);
    int hold = t_queue_hold(lock_path(p, LOCK), 0xabcd);
    hf_client *client = open_client(p);
    hf_info *info = NULL;
    hf_hold *none = NULL;
    T_HF(HF_OK, hf_inspect(client, LOCK, &info));
    assert_int_equal(info->held, 1);
    assert_int_equal(info->token, 0);
    assert_int_equal(info->pid, 0);
    hf_info_free(info);
    T_HF(HF_BUSY, hf_try_lock(client, LOCK, &none));
    close(hold);
    hf_close(client);
}

/* Another process began to remove the file and does not finish. A clear message comes after the
   outage time at most. */
static void F28_a_file_whose_removal_does_not_end_is_reported(void **state) {
    test_dir *p = *state;
    file_bytes b;
    make_file(p, &b);
    int all = t_queue_take_all(lock_path(p, LOCK));
    hf_client *client = NULL;
    hf_hold *none = NULL;
    T_HF(HF_OK, hf_open(p->url, &(hf_client_options){.outage_ms = 200}, &client));
    T_HF(HF_UNREACHABLE, hf_try_lock(client, LOCK, &none));
    T_HF(HF_UNREACHABLE, hf_acquire(client, LOCK, &(hf_options){.wait_ms = SOON_MS}, &none));
    check_detail(hf_error_detail(), "removed");
    close(all);
    T_HF(HF_OK, hf_try_lock(client, LOCK, &none));
    T_HF(HF_OK, hf_release(none));
    hf_close(client);
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

/* The clock was set back. The last token is in the file, and the next one is higher. */
static void F06_a_token_is_above_the_last_one_whatever_the_clock_says(void **state) {
    enum { AHEAD_US = 2000000000 };
    test_dir *p = *state;
    file_bytes b;
    hf__head head;
    make_file(p, &b);
    memcpy(&head, b.at, sizeof head);
    uint64_t ahead = head.record.token += AHEAD_US;
    int fd = open(lock_path(p, LOCK), O_WRONLY | O_CLOEXEC);
    assert_int_equal(hf__lockfile_write_record(fd, &head.record), 0);
    close(fd);
    for (int i = 0; i < 3; i++) {
        hf_client *client = open_client(p);
        hf_hold *hold;
        T_HF(HF_OK, hf_try_lock(client, LOCK, &hold));
        assert_true(hf_fence(hold) > ahead);
        ahead = hf_fence(hold);
        T_HF(HF_OK, hf_release(hold));
        hf_close(client);
    }
}

static const struct CMUnitTest tests[] = {
    FILE_TEST(F28_a_file_cut_to_any_length_is_refused),
    FILE_TEST(F28_an_empty_file_is_a_new_one),
    FILE_TEST(F28_a_file_that_could_not_be_written_whole_is_a_new_one_later),
    FILE_TEST(F28_no_changed_byte_lets_two_in),
    FILE_TEST(F28_random_bytes_are_refused),
    FILE_TEST(F28_a_damaged_record_is_refused),
    FILE_TEST(F28_a_newer_version_is_refused_and_left_unchanged),
    FILE_TEST(F50_the_file_of_another_lock_is_refused),
    FILE_TEST(F39_unterminated_texts_are_not_read_past_their_field),
    FILE_TEST(F28_a_path_that_is_not_a_regular_file_is_refused),
    FILE_TEST(F28_a_link_to_a_lock_file_is_refused),
    FILE_TEST(F28_a_file_that_others_may_write_is_refused),
    FILE_TEST(F28_a_file_of_another_user_is_refused),
    FILE_TEST(F25_a_holder_of_a_damaged_file_is_notified_at_its_next_renewal),
    FILE_TEST(F25_waiters_for_a_damaged_file_get_an_error),
    FILE_TEST(B27_a_hold_without_a_record_is_reported),
    FILE_TEST(F28_a_file_whose_removal_does_not_end_is_reported),
    FILE_TEST(F06_a_token_is_above_the_last_one_whatever_the_clock_says),
};

FILE_MAIN(tests)
