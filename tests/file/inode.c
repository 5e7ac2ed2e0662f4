/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files and directories that are removed or replaced by hand (F25). The lock is the file that has
 * the name now. Idle and waiting clients move to it, and a holder of the old file is notified of
 * the loss.
 */
#include "kit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LEASE_MS = 300 };

static void copy_file(const char *from, const char *to) {
    char bytes[4096];
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    ssize_t n = read(in, bytes, sizeof bytes);
    assert_true(n > 0 && write(out, bytes, (size_t)n) == n);
    close(in);
    close(out);
}

/* ---- Ways to remove a file ------------------------------------------------------------------- */

typedef void gone_fn(const test_dir *p);

static void remove_file(const test_dir *p) {
    assert_int_equal(unlink(lock_path(p, LOCK)), 0);
}

static void rename_file(const test_dir *p) {
    assert_int_equal(rename(lock_path(p, LOCK), path_of(p, "moved")), 0);
}

/* Replaced by a copy, as a careless editor or a restored backup does. */
static void replace_file(const test_dir *p) {
    copy_file(lock_path(p, LOCK), path_of(p, "copy"));
    assert_int_equal(rename(path_of(p, "copy"), lock_path(p, LOCK)), 0);
}

static gone_fn *const ways[] = {remove_file, rename_file, replace_file};

enum { WAYS = sizeof ways / sizeof *ways };

/* ---- Idle ------------------------------------------------------------------------------------ */

/* A client that has the old file open excludes clients of the new file, and they exclude it. */
static void F25_an_idle_client_takes_the_file_that_has_the_name(void **state) {
    test_dir *p = *state;
    actor *old = actor_new(p, NULL), *fresh = actor_new(p, NULL);
    for (int i = 0; i < WAYS; i++) {
        uint64_t before = TAKES(old);
        FREES(old);
        ways[i](p);
        uint64_t token = TAKES(fresh);
        assert_true(token > before);
        IS(HF_BUSY, TRIES(old, 0));
        IS(HF_TIMEOUT, TRIES(old, .wait_ms = 20));
        FREES(fresh);
        assert_true(TAKES(old) > token);
        IS(HF_BUSY, TRIES(fresh, 0));
        FREES(old);
    }
}

/* The file was moved away and came back with its contents. */
static void F25_a_file_that_comes_back_is_the_lock_again(void **state) {
    test_dir *p = *state;
    actor *old = actor_new(p, NULL), *fresh = actor_new(p, NULL);
    TAKES(old);
    FREES(old);
    rename_file(p);
    uint64_t token = TAKES(fresh);
    FREES(fresh);
    assert_int_equal(rename(path_of(p, "moved"), lock_path(p, LOCK)), 0);
    /* the client remembers the token, although the file does not */
    assert_true(TAKES(fresh) > token);
    IS(HF_BUSY, TRIES(old, 0));
}

/* ---- Waited for ------------------------------------------------------------------------------ */

static void F25_waiters_move_on_to_the_file_that_has_the_name(void **state) {
    test_dir *p = *state;
    actor *holder = actor_new(p, NULL), *first = actor_new(p, NULL), *last = actor_new(p, NULL);
    for (int i = 0; i < WAYS; i++) {
        actor *fresh = actor_new(p, NULL); /* a client with the old file open would wait too */
        TAKES(holder, .lease_ms = 60000);
        WAITS(first, .wait_ms = SOON_MS);
        WAITS(last, .wait_ms = SOON_MS);
        ways[i](p);
        TAKES(fresh);
        hf_result r = DO(holder, do_release).result; /* of the old file: nothing prevents it */
        assert_true(r == HF_OK);
        UNTIL(t_queue_length(lock_path(p, LOCK)) == 2);
        assert_false(actor_ended(first) || actor_ended(last));
        FREES(fresh);
        actor *next = NULL;
        UNTIL((next = actor_ended(first) ? first : actor_ended(last) ? last : NULL));
        GETS(next);
        assert_false(actor_ended(next == first ? last : first));
        FREES(next);
        next = next == first ? last : first;
        GETS(next);
        FREES(next);
        actor_kill(fresh);
    }
}

/* ---- Held ------------------------------------------------------------------------------------ */

static void F25_a_holder_is_notified_at_its_next_renewal(void **state) {
    test_dir *p = *state;
    for (int i = 0; i < WAYS; i++) {
        actor *holder = actor_new(p, NULL), *fresh = actor_new(p, NULL);
        uint64_t token = TAKES(holder, .lease_ms = t_patience(LEASE_MS));
        ways[i](p);
        actor_lost(holder);
        assert_true(TAKES(fresh) > token);
        IS(HF_BUSY, TRIES(holder, 0));
        actor_kill(holder);
        actor_kill(fresh);
    }
}

/* An extension is a renewal. */
static void F25_a_holder_is_notified_when_it_extends(void **state) {
    test_dir *p = *state;
    actor *holder = actor_new(p, NULL);
    TAKES(holder, .lease_ms = 60000);
    remove_file(p);
    IS(HF_LOST, DO(holder, do_extend, .options = {.lease_ms = 60000}));
    actor_lost(holder);
    TAKES(holder);
}

/* Nobody can have taken the lock of the old file meanwhile, so the hold was valid until now. */
static void F25_a_release_before_the_next_renewal_succeeds(void **state) {
    test_dir *p = *state;
    actor *holder = actor_new(p, NULL), *fresh = actor_new(p, NULL);
    TAKES(holder, .lease_ms = 60000);
    remove_file(p);
    TAKES(fresh);
    hf_result r = DO(holder, do_release).result;
    assert_true(r == HF_OK || r == HF_LOST);
    assert_true(actor_holds(fresh));
    IS(HF_BUSY, TRIES(holder, 0));
}

/* ---- The directory --------------------------------------------------------------------------- */

static void remove_directory(const test_dir *p) {
    remove_tree(p->directory);
    assert_int_equal(access(p->directory, F_OK), -1);
}

static void F25_a_directory_that_is_gone_is_reported(void **state) {
    test_dir *p = *state;
    actor *idle = actor_new(p, NULL), *fresh = actor_new(p, NULL), *holder = actor_new(p, NULL);
    TAKES(idle);
    FREES(idle);
    actor_request other = {
        .action = do_acquire, .name = "other", .options = {.lease_ms = t_patience(LEASE_MS)}};
    IS(HF_OK, actor_do(holder, &other));
    remove_directory(p);
    actor *both[] = {idle, fresh};
    for (int i = 0; i < 2; i++) {
        check_detail(IS(HF_REFUSED, TRIES(both[i], 0)).detail, p->directory);
        check_detail(IS(HF_REFUSED, TRIES(both[i], .wait_ms = SOON_MS)).detail,
                     "open the store again");
        IS(HF_OK, DO(both[i], do_inspect)); /* a missing lock has no holder */
    }
    actor_lost(holder);
    IS(HF_OK, DO(idle, do_close));
    actor *again = actor_new(p, NULL); /* creates it again */
    TAKES(again);
}

static void F25_a_directory_that_is_gone_ends_the_waits(void **state) {
    test_dir *p = *state;
    actor *holder = actor_new(p, NULL), *waiter = actor_new(p, NULL);
    TAKES(holder, .lease_ms = t_patience(LEASE_MS));
    WAITS(waiter, .wait_ms = SOON_MS);
    remove_directory(p);
    actor_lost(holder);
    IS(HF_REFUSED, actor_end(waiter));
}

/* Another directory has the name now. Holds in the old one no longer exclude anybody. */
static void F25_a_holder_in_a_replaced_directory_is_notified(void **state) {
    test_dir *p = *state;
    char moved[PATH_SIZE];
    actor *holder = actor_new(p, NULL), *idle = actor_new(p, NULL);
    IS(HF_OK, actor_do(idle, &(actor_request){.action = do_acquire, .name = "other"}));
    IS(HF_OK, DO(idle, do_release));
    TAKES(holder, .lease_ms = t_patience(LEASE_MS));
    snprintf(moved, sizeof moved, "%s-moved", p->directory);
    assert_int_equal(rename(p->directory, moved), 0);
    TAKES(actor_new(p, NULL));
    actor_result noticed = DO(holder, do_until), tried = TRIES(idle, 0);
    remove_tree(moved);
    assert_int_equal(noticed.lost, 1);
    IS(HF_REFUSED, tried);
}

static const struct CMUnitTest tests[] = {
    FILE_TEST(F25_an_idle_client_takes_the_file_that_has_the_name),
    FILE_TEST(F25_a_file_that_comes_back_is_the_lock_again),
    FILE_TEST(F25_waiters_move_on_to_the_file_that_has_the_name),
    FILE_TEST(F25_a_holder_is_notified_at_its_next_renewal),
    FILE_TEST(F25_a_holder_is_notified_when_it_extends),
    FILE_TEST(F25_a_release_before_the_next_renewal_succeeds),
    FILE_TEST(F25_a_directory_that_is_gone_is_reported),
    FILE_TEST(F25_a_directory_that_is_gone_ends_the_waits),
    FILE_TEST(F25_a_holder_in_a_replaced_directory_is_notified),
};

FILE_MAIN(tests)
