/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The queue of waiters, which the kernel maintains. A death at any position serves the next waiter
 * at once (F46). Waiters that leave or are stopped delay nobody (B7, B8), and nobody passes the
 * others.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "kit.h"

#include <sys/stat.h>
#include <unistd.h>

static int64_t keep_quickest(int64_t best, int64_t since_ms) {
    int64_t took = t_now_ms() - since_ms;
    return best < 0 || took < best ? took : best;
}

/* A wait that was not notified of its turn would have taken longer. */
static void check_notified(int64_t best_ms) {
    if (best_ms >= NOTIFIED_MS)
        t_fail("served after %lld ms at best: the waiter was not notified", (long long)best_ms);
}

static int by_length(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int64_t middle_of(int64_t took[ROUNDS]) {
    qsort(took, ROUNDS, sizeof *took, by_length);
    return took[ROUNDS / 2];
}

/* ---- The holder ------------------------------------------------------------------------------ */

static void B13_a_release_serves_the_next_at_once(void **state) {
    test_dir *p = *state;
    actor *holder = actor_new(p, NULL), *next = actor_new(p, NULL);
    int64_t best = -1;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t token = TAKES(holder);
        WAITS(next, .wait_ms = SOON_MS);
        int64_t began = t_now_ms();
        FREES(holder);
        assert_true(GETS(next) > token);
        best = keep_quickest(best, began);
        FREES(next);
    }
    check_notified(best);
}

/* The lease of a minute makes no difference. */
static void F46_a_killed_holder_serves_the_next_at_once(void **state) {
    test_dir *p = *state;
    actor *next = actor_new(p, NULL);
    int64_t best = -1;
    for (int i = 0; i < ROUNDS; i++) {
        actor *holder = actor_new(p, NULL);
        uint64_t token = TAKES(holder, .lease_ms = 60000);
        WAITS(next, .wait_ms = SOON_MS);
        int64_t began = t_now_ms();
        actor_kill(holder);
        assert_true(GETS(next) > token);
        best = keep_quickest(best, began);
        FREES(next);
    }
    check_notified(best);
}

static void F46_a_killed_holder_leaves_a_lock_that_can_be_tried(void **state) {
    test_dir *p = *state;
    actor *holder = actor_new(p, NULL), *other = actor_new(p, NULL);
    uint64_t token = TAKES(holder, .lease_ms = 60000);
    IS(HF_BUSY, TRIES(other, 0));
    actor_kill(holder);
    assert_true(TAKES(other) > token);
}

/* The holder got the lock by waiting. The waiters behind it saw it in the queue, and now see it
   hold. */
static void F46_a_killed_holder_that_had_waited_serves_the_next_at_once(void **state) {
    test_dir *p = *state;
    actor *last = actor_new(p, NULL);
    int64_t best = -1;
    for (int i = 0; i < ROUNDS; i++) {
        actor *first = actor_new(p, NULL), *holder = actor_new(p, NULL);
        TAKES(first);
        WAITS(holder, .wait_ms = SOON_MS);
        WAITS(last, .wait_ms = SOON_MS);
        FREES(first);
        GETS(holder);
        int64_t began = t_now_ms();
        actor_kill(holder);
        GETS(last);
        best = keep_quickest(best, began);
        FREES(last);
        actor_kill(first);
    }
    check_notified(best);
}

/* ---- Waiters that die ------------------------------------------------------------------------ */

enum { WAITERS = 5 };

/* A holder with a queue behind it. */
static actor *enqueue_waiters(test_dir *p, actor *waiters[WAITERS]) {
    actor *holder = actor_new(p, NULL);
    TAKES(holder);
    for (int i = 0; i < WAITERS; i++) waiters[i] = actor_new(p, NULL);
    for (int i = 0; i < WAITERS; i++) WAITS(waiters[i], .wait_ms = 3 * SOON_MS);
    return holder;
}

/* The remaining waiters are served one after another, in order. */
static void check_served(actor *waiters[WAITERS]) {
    uint64_t last = 0;
    for (int i = 0; i < WAITERS; i++) {
        if (!waiters[i]) continue;
        for (int k = i + 1; k < WAITERS; k++) assert_true(!waiters[k] || !actor_ended(waiters[k]));
        uint64_t token = GETS(waiters[i]);
        assert_true(token > last);
        last = token;
        FREES(waiters[i]);
    }
}

static void kill_waiter(test_dir *p, actor *waiters[WAITERS], int which) {
    int before = t_queue_length(lock_path(p, LOCK));
    actor_kill(waiters[which]);
    waiters[which] = NULL;
    assert_int_equal(t_queue_length(lock_path(p, LOCK)), before - 1);
}

static void F46_killed_waiters_leave_the_order_of_the_others(void **state) {
    static const int dead[][2] = {{0, 1}, {1, 3}, {2, 4}};
    test_dir *p = *state;
    for (size_t i = 0; i < sizeof dead / sizeof *dead; i++) {
        actor *waiters[WAITERS];
        actor *holder = enqueue_waiters(p, waiters);
        kill_waiter(p, waiters, dead[i][0]);
        kill_waiter(p, waiters, dead[i][1]);
        FREES(holder);
        check_served(waiters);
        for (int k = 0; k < WAITERS; k++)
            if (waiters[k]) actor_kill(waiters[k]);
        actor_kill(holder);
    }
}

/* The waiter behind the dead one is now behind the holder, and is notified of the holder's death
   too. */
static void F46_the_first_waiter_and_then_the_holder_die(void **state) {
    test_dir *p = *state;
    actor *last = actor_new(p, NULL);
    int64_t best = -1;
    for (int i = 0; i < ROUNDS; i++) {
        actor *holder = actor_new(p, NULL), *first = actor_new(p, NULL);
        TAKES(holder);
        WAITS(first, .wait_ms = SOON_MS);
        WAITS(last, .wait_ms = SOON_MS);
        actor_kill(first);
        int64_t began = t_now_ms();
        actor_kill(holder);
        GETS(last);
        best = keep_quickest(best, began);
        FREES(last);
    }
    check_notified(best);
}

/* The same if the first waiter leaves alive: the next one learns which process is now ahead of
   it. */
static void F46_the_first_waiter_leaves_and_then_the_holder_dies(void **state) {
    test_dir *p = *state;
    actor *last = actor_new(p, NULL), *first = actor_new(p, NULL);
    int64_t best = -1;
    for (int i = 0; i < ROUNDS; i++) {
        actor *holder = actor_new(p, NULL);
        TAKES(holder);
        WAITS(first, .wait_ms = SOON_MS);
        WAITS(last, .wait_ms = SOON_MS);
        actor_signal(first, SIGUSR1);
        IS(HF_CANCELLED, actor_end(first));
        int64_t began = t_now_ms();
        actor_kill(holder);
        GETS(last);
        best = keep_quickest(best, began);
        FREES(last);
    }
    check_notified(best);
}

/* The kernel frees the locks of a dead process in some order. A holder may have lost its life lock
   but not its hold. Waiters then check repeatedly, for a short time. */
static void F46_a_holder_that_is_not_quite_dead_is_checked_again(void **state) {
    test_dir *p = *state;
    actor *next = actor_new(p, NULL);
    int64_t took[ROUNDS];
    assert_int_equal(mkfifo(path_of(p, "life.0000abcd"), 0600), 0);
    TAKES(next);
    FREES(next);
    for (int i = 0; i < ROUNDS; i++) {
        int hold = t_queue_hold(lock_path(p, LOCK), 0xabcd);
        WAITS(next, .wait_ms = SOON_MS);
        int64_t began = t_now_ms();
        close(hold);
        GETS(next);
        took[i] = t_now_ms() - began;
        FREES(next);
    }
    check_notified(middle_of(took)); /* one waiter may be served before its first check */
}

/* ---- Waiters without notifications ----------------------------------------------------------- */

/* If somebody removed the FIFOs, waiters are slower, but neither stuck nor busy. */
static void B08_without_its_fifos_a_queue_still_advances(void **state) {
    test_dir *p = *state;
    actor *holder = actor_new(p, NULL), *first = actor_new(p, NULL), *last = actor_new(p, NULL);
    TAKES(holder);
    remove_fifos(p);
    WAITS(first, .wait_ms = SOON_MS);
    WAITS(last, .wait_ms = SOON_MS);
    remove_fifos(p);
    FREES(holder);
    GETS(first);
    actor_kill(first);
    GETS(last);
}

/* A waiter that cannot be notified of the holder's death checks for it, but not all the time. */
static void B08_without_fifos_a_waiter_does_not_spin(void **state) {
    enum { WATCHED_MS = 400, OFTEN = 40 };
    test_dir *p = *state;
    actor *holder = actor_new(p, NULL), *next = actor_new(p, NULL);
    TAKES(holder);
    remove_fifos(p);
    int64_t before = DO(next, do_stats).number;
    IS(HF_TIMEOUT, TRIES(next, .wait_ms = WATCHED_MS));
    assert_in_range(DO(next, do_stats).number - before, 1, OFTEN);
}

/* ---- Nobody passes the queue ----------------------------------------------------------------- */

/* A queued waiter does nothing. The lock still does not go to later clients. */
static void B08_a_try_does_not_pass_a_waiter(void **state) {
    test_dir *p = *state;
    actor *late = actor_new(p, NULL);
    TAKES(late);
    FREES(late);
    int ticket_fd = t_queue_join(lock_path(p, LOCK), 0, 0xabcd);
    assert_int_equal(t_queue_holder(lock_path(p, LOCK)), 0);
    IS(HF_BUSY, TRIES(late, 0));
    IS(HF_TIMEOUT, TRIES(late, .wait_ms = 100));
    assert_int_equal(t_queue_length(lock_path(p, LOCK)), 1); /* it left the queue */
    close(ticket_fd);
    TAKES(late);
}

/* A new waiter is behind the last one, wherever there are gaps in the queue. */
static void B08_a_new_waiter_queues_behind_all_others(void **state) {
    static const int64_t tickets[] = {0, 3, 4, 11, 500, 1000000};
    enum { COUNT = sizeof tickets / sizeof *tickets };
    test_dir *p = *state;
    actor *holder = actor_new(p, NULL), *late = actor_new(p, NULL);
    TAKES(holder);
    int ticket_fd[COUNT];
    for (uint32_t i = 0; i < COUNT; i++)
        ticket_fd[i] = t_queue_join(lock_path(p, LOCK), tickets[i], i + 1);
    WAITS(late, .wait_ms = SOON_MS);
    for (uint32_t i = 0; i < COUNT; i++)
        assert_int_equal(t_queue_at(lock_path(p, LOCK), (int)i), i + 1);
    FREES(holder);
    for (int i = 0; i < COUNT; i++) {
        assert_false(actor_ended(late));
        close(ticket_fd[i]);
    }
    GETS(late);
}

/* Ticket numbers are limited, and start again when nobody waits. */
static void B08_running_out_of_tickets_is_reported(void **state) {
    enum { LAST = (1 << 30) - 2 };
    test_dir *p = *state;
    actor *holder = actor_new(p, NULL), *late = actor_new(p, NULL);
    TAKES(holder);
    int ticket_fd = t_queue_join(lock_path(p, LOCK), LAST, 0xabcd);
    check_detail(IS(HF_NOMEM, TRIES(late, .wait_ms = SOON_MS)).detail, "wait for");
    close(ticket_fd);
    WAITS(late, .wait_ms = SOON_MS);
    FREES(holder);
    GETS(late);
}

/* ---- Stopped --------------------------------------------------------------------------------- */

/* The lock is free and the first waiter does not take it. The others pass it, and it is served when
   it continues. */
static void B08_a_stopped_first_waiter_is_passed_and_served_later(void **state) {
    test_dir *p = *state;
    actor *holder = actor_new(p, NULL), *stopped = actor_new(p, NULL), *next = actor_new(p, NULL);
    TAKES(holder);
    WAITS(stopped, .wait_ms = 3 * SOON_MS);
    WAITS(next, .wait_ms = 3 * SOON_MS);
    actor_signal(stopped, SIGSTOP);
    FREES(holder);
    uint64_t token = GETS(next);
    actor_signal(stopped, SIGCONT);
    IS(HF_BUSY, TRIES(holder, 0)); /* it did not enter together with the other */
    assert_false(actor_ended(stopped));
    assert_int_equal(t_queue_length(lock_path(p, LOCK)), 1);
    FREES(next);
    assert_true(GETS(stopped) > token);
}

/* Whether the threads of a process sleep: it has no work at the moment. */
static bool sleeps(pid_t pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *threads = opendir(path);
    bool all = threads != NULL;
    for (struct dirent *each; all && (each = readdir(threads));) {
        char state = 'S';
        if (*each->d_name == '.') continue;
        snprintf(path, sizeof path, "/proc/%d/task/%.16s/stat", (int)pid, each->d_name);
        FILE *file = fopen(path, "r");
        all = file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1 && state == 'S';
        if (file) fclose(file);
    }
    if (threads) closedir(threads);
    return all;
}

/* The wait of a waiter ends while it is stopped. The waiter returns a timeout when it continues,
   and delays nobody. */
static void B06_a_wait_that_ends_while_stopped_is_a_timeout(void **state) {
    test_dir *p = *state;
    actor *holder = actor_new(p, NULL), *stopped = actor_new(p, NULL);
    TAKES(holder);
    WAITS(stopped, .wait_ms = t_patience(600));
    /* stopped in the middle of an attempt it would complete that first, and might succeed */
    UNTIL(sleeps(actor_pid(stopped)));
    actor_signal(stopped, SIGSTOP);
    t_sleep_ms(t_patience(700));
    FREES(holder);
    actor_signal(stopped, SIGCONT);
    actor_result end = actor_end(stopped);
    if (end.result == HF_OK) t_fail("granted after its wait was over");
    IS(HF_TIMEOUT, end);
    TAKES(holder);
}

static void B08_a_waiter_stopped_for_a_moment_keeps_its_position(void **state) {
    test_dir *p = *state;
    actor *holder = actor_new(p, NULL), *stopped = actor_new(p, NULL), *last = actor_new(p, NULL);
    TAKES(holder);
    WAITS(stopped, .wait_ms = SOON_MS);
    WAITS(last, .wait_ms = SOON_MS);
    actor_signal(stopped, SIGSTOP);
    FREES(holder);
    actor_signal(stopped, SIGCONT);
    GETS(stopped);
    assert_false(actor_ended(last));
    FREES(stopped);
    GETS(last);
}

/* A stopped holder keeps its lock, because it may continue its work at any time. When it continues,
   its own lease has ended, and it must stop (F3). */
static void F03_a_stopped_holder_keeps_its_lock_until_it_continues(void **state) {
    enum { LEASE_MS = 1000 };
    test_dir *p = *state;
    actor *holder = actor_new(p, NULL), *next = actor_new(p, NULL);
    uint64_t token = TAKES(holder, .lease_ms = LEASE_MS);
    WAITS(next, .wait_ms = SOON_MS);
    actor_signal(holder, SIGSTOP);
    t_sleep_ms(2 * LEASE_MS);
    assert_false(actor_ended(next));
    actor_signal(holder, SIGCONT);
    assert_true(GETS(next) > token);
    actor_lost(holder);
    assert_true(actor_holds(next));
}

static const struct CMUnitTest tests[] = {
    FILE_TEST(B13_a_release_serves_the_next_at_once),
    FILE_TEST(F46_a_killed_holder_serves_the_next_at_once),
    FILE_TEST(F46_a_killed_holder_leaves_a_lock_that_can_be_tried),
    FILE_TEST(F46_a_killed_holder_that_had_waited_serves_the_next_at_once),
    FILE_TEST(F46_killed_waiters_leave_the_order_of_the_others),
    FILE_TEST(F46_the_first_waiter_and_then_the_holder_die),
    FILE_TEST(F46_the_first_waiter_leaves_and_then_the_holder_dies),
    FILE_TEST(F46_a_holder_that_is_not_quite_dead_is_checked_again),
    FILE_TEST(B08_without_its_fifos_a_queue_still_advances),
    FILE_TEST(B08_without_fifos_a_waiter_does_not_spin),
    FILE_TEST(B08_a_try_does_not_pass_a_waiter),
    FILE_TEST(B08_a_new_waiter_queues_behind_all_others),
    FILE_TEST(B08_running_out_of_tickets_is_reported),
    FILE_TEST(B08_a_stopped_first_waiter_is_passed_and_served_later),
    FILE_TEST(B06_a_wait_that_ends_while_stopped_is_a_timeout),
    FILE_TEST(B08_a_waiter_stopped_for_a_moment_keeps_its_position),
    FILE_TEST(F03_a_stopped_holder_keeps_its_lock_until_it_continues),
};

FILE_MAIN(tests)
