/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Holds that end without their holder's consent: broken (B26), bounded (F5), past their lease (F3).
 * A hold that has ended stays ended (F48).
 */
#include "kit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/file/lockfile.h"

/* ---- B26 ------------------------------------------------------------------------------------- */

static void B26_break_ends_the_hold_of_another_process_and_serves_the_next(void **state) {
    test_dir *p = *state;
    actor *holder = actor_new(p, NULL), *next = actor_new(p, NULL), *breaker = actor_new(p, NULL);
    uint64_t token = TAKES(holder, .lease_ms = 60000);
    WAITS(next, .wait_ms = SOON_MS);
    IS(HF_OK, DO(breaker, do_break));
    assert_true(GETS(next) > token);
    actor_lost(holder);
    assert_true(actor_holds(next));
}

/* The holder's background thread does not renew, but still obeys a break. */
static void B26_break_ends_a_hold_that_is_not_renewed(void **state) {
    test_dir *p = *state;
    actor *holder = actor_new(p, NULL), *breaker = actor_new(p, NULL);
    TAKES(holder, .lease_ms = 60000, .flags = HF_NO_RENEW);
    IS(HF_OK, DO(breaker, do_break));
    actor_lost(holder);
    TAKES(breaker);
}

static void B26_break_requires_the_given_token(void **state) {
    test_dir *p = *state;
    actor *holder = actor_new(p, NULL), *breaker = actor_new(p, NULL);
    char expected[64];
    IS(HF_NOT_HELD, DO(breaker, do_break));
    uint64_t token = TAKES(holder);
    snprintf(expected, sizeof expected, "held under token %llu", (unsigned long long)token);
    actor_result other = IS(HF_NOT_HELD, DO(breaker, do_break, .token = token + 1));
    check_detail(other.detail, expected);
    assert_true(actor_holds(holder));
    IS(HF_OK, DO(holder, do_extend, .options = {.lease_ms = 40000}));
    IS(HF_OK, DO(breaker, do_break, .token = token));
    actor_lost(holder);
    IS(HF_NOT_HELD, DO(breaker, do_break, .token = token));
}

/* The mark of a break stays in the file. It applies to that one hold and no later one. */
static void B26_a_break_does_not_affect_the_next_hold(void **state) {
    test_dir *p = *state;
    actor *holder = actor_new(p, NULL), *breaker = actor_new(p, NULL);
    uint64_t token = TAKES(holder);
    IS(HF_OK, DO(breaker, do_break));
    actor_lost(holder);
    assert_true(TAKES(breaker) > token);
    IS(HF_OK, DO(breaker, do_extend, .options = {.lease_ms = 40000}));
    assert_true(actor_holds(breaker));
    IS(HF_BUSY, TRIES(holder, 0));
}

static void B26_a_client_may_break_its_own_hold(void **state) {
    test_dir *p = *state;
    actor *holder = actor_new(p, NULL);
    TAKES(holder);
    IS(HF_OK, DO(holder, do_break));
    actor_lost(holder);
    TAKES(holder);
}

/* ---- The hold ends before the lock is free --------------------------------------------------- */

/* A woken waiter may enter. At that moment the holder's hold must already be over. */
static hf_hold *_Atomic watched;
static atomic_int wakes, held_at_wake;

ssize_t __real_write(int fd, const void *from, size_t length);
ssize_t __wrap_write(int fd, const void *from, size_t length);
ssize_t __wrap_write(int fd, const void *from, size_t length) {
    struct stat st;
    hf_hold *hold = atomic_load(&watched);
    if (hold && length == 2 * sizeof(uint64_t) && fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode)) {
        atomic_fetch_add(&wakes, 1);
        atomic_fetch_add(&held_at_wake, hf_held(hold));
    }
    return __real_write(fd, from, length);
}

static void do_watch(actor_state *me, const actor_request *q, actor_result *a) {
    (void)q, (void)a;
    atomic_store(&watched, me->holds[me->held - 1]);
}

/* number: wake-ups, plus 1000 for each that came too early */
static void do_unwatch(actor_state *me, const actor_request *q, actor_result *a) {
    (void)me, (void)q;
    a->number = atomic_load(&wakes) + 1000 * atomic_load(&held_at_wake);
    atomic_store(&watched, NULL);
}

static void ends_by_break(test_dir *p, actor *holder) {
    (void)holder;
    IS(HF_OK, DO(actor_new(p, NULL), do_break));
}

static void ends_by_removal(test_dir *p, actor *holder) {
    assert_int_equal(unlink(lock_path(p, LOCK)), 0);
    IS(HF_LOST, DO(holder, do_extend, .options = {.lease_ms = 60000}));
}

static void ends_by_time(test_dir *p, actor *holder) {
    (void)p, (void)holder;
}

static void check_over_before_the_next(void **state, const hf_options *options,
                                       void (*ends)(test_dir *, actor *)) {
    test_dir *p = *state;
    actor *holder = actor_new(p, NULL), *next = actor_new(p, NULL);
    actor_takes(holder, options, __FILE__, __LINE__);
    DO(holder, do_watch);
    WAITS(next, .wait_ms = SOON_MS);
    ends(p, holder);
    GETS(next);
    DO(holder, do_until);
    assert_int_equal(DO(holder, do_unwatch).number, 1);
}

static void B26_a_broken_hold_is_over_before_the_next_is_notified(void **state) {
    check_over_before_the_next(state, &(hf_options){.lease_ms = 60000}, ends_by_break);
}

static void F25_a_hold_whose_file_is_gone_is_over_before_the_next_is_notified(void **state) {
    check_over_before_the_next(state, &(hf_options){.lease_ms = 60000}, ends_by_removal);
}

static void F05_a_bounded_hold_is_over_before_the_next_is_notified(void **state) {
    check_over_before_the_next(state, &(hf_options){.max_hold_ms = 600}, ends_by_time);
}

static void F05_an_unrenewed_hold_is_over_before_the_next_is_notified(void **state) {
    const hf_options options = {.lease_ms = 600, .flags = HF_NO_RENEW};
    check_over_before_the_next(state, &options, ends_by_time);
}

/* ---- B26 on a stopped holder ----------------------------------------------------------------- */

/* A client that waits only a short time for the holder to obey a break. */
static actor *hasty_breaker(test_dir *p) {
    actor *a = actor_new(p, NULL);
    actor_request open = {.action = do_open, .options = {.wait_ms = 300}};
    IS(HF_OK, DO(a, do_close));
    snprintf(open.name, sizeof open.name, "%s", p->url);
    IS(HF_OK, actor_do(a, &open));
    return a;
}

static void B26_a_stopped_holder_obeys_when_it_continues(void **state) {
    test_dir *p = *state;
    actor *holder = actor_new(p, NULL), *next = actor_new(p, NULL), *breaker = hasty_breaker(p);
    char pid[32];
    uint64_t token = TAKES(holder, .lease_ms = 60000);
    WAITS(next, .wait_ms = 2 * SOON_MS);
    actor_signal(holder, SIGSTOP);
    actor_result got = IS(HF_UNKNOWN_OUTCOME, DO(breaker, do_break, .token = token));
    snprintf(pid, sizeof pid, "process %d", (int)actor_pid(holder));
    check_detail(got.detail, pid);
    assert_false(actor_ended(next)); /* a stopped process keeps its locks */
    IS(HF_UNKNOWN_OUTCOME, DO(breaker, do_break));
    actor_signal(holder, SIGCONT);
    assert_true(GETS(next) > token);
    actor_lost(holder);
}

/* The mark in the lock's file: the token of the hold that must end. */
static uint64_t read_broken_mark(const test_dir *p) {
    uint64_t token = 0;
    int fd = open(lock_path(p, LOCK), O_RDONLY | O_CLOEXEC);
    assert_true(pread(fd, &token, sizeof token, offsetof(hf__head, broken)) == sizeof token);
    close(fd);
    return token;
}

static void B26_a_stopped_holder_that_is_killed_is_broken(void **state) {
    test_dir *p = *state;
    actor *holder = actor_new(p, NULL), *breaker = actor_new(p, NULL);
    uint64_t token = TAKES(holder, .lease_ms = 60000);
    actor_signal(holder, SIGSTOP);
    actor_begin(breaker, &(actor_request){.action = do_break, .name = LOCK});
    UNTIL(read_broken_mark(p) == token);
    actor_kill(holder);
    IS(HF_OK, actor_end(breaker));
    TAKES(breaker);
}

typedef struct breaking {
    hf_client *client;
    hf_result result;
} breaking;

static void break_in_thread(int index, void *arg) {
    breaking *b = arg;
    (void)index;
    b->result = hf_break(b->client, LOCK, 0);
}

static void do_break_and_close(actor_state *me, const actor_request *q, actor_result *a) {
    (void)q;
    hf_stats before = {0}, now = {0};
    breaking b = {.client = me->client};
    T_HF(HF_OK, hf_stats_get(me->client, &before));
    t_threads *thread = t_threads_start(1, break_in_thread, &b);
    UNTIL(hf_stats_get(me->client, &now) == HF_OK && now.commands > before.commands);
    hf_close(me->client);
    me->client = NULL;
    t_threads_join(thread, SOON_MS);
    a->result = b.result;
}

/* If a client is closed while its break waits for the holder, the break returns that. */
static void F47_a_break_that_waits_ends_with_its_client(void **state) {
    test_dir *p = *state;
    actor *holder = actor_new(p, NULL), *breaker = actor_new(p, NULL);
    TAKES(holder, .lease_ms = 60000);
    actor_signal(holder, SIGSTOP);
    actor_result got = DO(breaker, do_break_and_close);
    IS(HF_CLOSED, got);
}

/* ---- B26 against a release ------------------------------------------------------------------- */

/* Whichever comes first, the lock ends up free, both results fit, and no later hold is touched. */
static void B26_break_racing_a_release_leaves_a_free_lock(void **state) {
    enum { RACES = 150 };
    test_dir *p = *state;
    actor *holder = actor_new(p, NULL), *breaker = actor_new(p, NULL);
    for (int i = 0; i < RACES; i++) {
        uint64_t token = TAKES(holder);
        actor_request release = {.action = do_release, .number = i * 13 % 200};
        actor_request brk = {
            .action = do_break, .name = LOCK, .token = token, .number = i * 7 % 200};
        actor_begin(holder, &release);
        actor_begin(breaker, &brk);
        actor_result released = actor_end(holder), broken = actor_end(breaker);
        assert_true(released.result == HF_OK || released.result == HF_LOST);
        assert_true(broken.result == HF_OK || broken.result == HF_NOT_HELD);
        assert_true(broken.result == HF_OK || released.result == HF_OK);
        assert_true(TAKES(breaker) > token);
        assert_true(actor_holds(breaker));
        FREES(breaker);
    }
}

/* ---- F5, F48, F49 ---------------------------------------------------------------------------- */

static void F05_max_hold_ends_a_hold_and_serves_the_next(void **state) {
    enum { BOUND_MS = 600 };
    test_dir *p = *state;
    actor *holder = actor_new(p, NULL), *next = actor_new(p, NULL);
    int64_t began = t_now_ms();
    TAKES(holder, .lease_ms = 300, .max_hold_ms = BOUND_MS);
    WAITS(next, .wait_ms = SOON_MS);
    GETS(next);
    assert_true(t_now_ms() - began >= BOUND_MS * 9 / 10);
    check_detail(DO(holder, do_until).detail, "max_hold");
    actor_lost(holder);
}

static void F05_a_lease_that_is_not_renewed_ends_and_serves_the_next(void **state) {
    enum { LEASE_MS = 600 };
    test_dir *p = *state;
    actor *holder = actor_new(p, NULL), *next = actor_new(p, NULL);
    int64_t began = t_now_ms();
    TAKES(holder, .lease_ms = LEASE_MS, .flags = HF_NO_RENEW);
    WAITS(next, .wait_ms = SOON_MS);
    GETS(next);
    assert_true(t_now_ms() - began >= LEASE_MS * 9 / 10);
    actor_lost(holder);
}

static void B15_renewal_keeps_a_lock_for_many_leases(void **state) {
    enum { LEASE_MS = 1500 };
    test_dir *p = *state;
    actor *holder = actor_new(p, NULL), *next = actor_new(p, NULL);
    TAKES(holder, .lease_ms = LEASE_MS);
    IS(HF_TIMEOUT, TRIES(next, .wait_ms = 3 * LEASE_MS));
    assert_true(actor_holds(holder));
    FREES(holder);
}

static void do_release_keeping(actor_state *me, const actor_request *q, actor_result *a) {
    (void)q;
    a->result = hf_release(hf_ref(me->holds[me->held - 1]));
}

/* Through another reference, after another process got the lock. */
static void F48_a_second_release_affects_no_later_hold(void **state) {
    test_dir *p = *state;
    actor *holder = actor_new(p, NULL), *next = actor_new(p, NULL);
    TAKES(holder);
    WAITS(next, .wait_ms = SOON_MS);
    IS(HF_OK, DO(holder, do_release_keeping));
    GETS(next);
    IS(HF_NOT_HELD, DO(holder, do_release));
    assert_true(actor_holds(next));
    IS(HF_BUSY, TRIES(holder, 0));
}

static void F48_a_release_after_a_loss_affects_no_later_hold(void **state) {
    test_dir *p = *state;
    actor *holder = actor_new(p, NULL), *next = actor_new(p, NULL);
    TAKES(holder);
    IS(HF_OK, DO(next, do_break));
    TAKES(next);
    actor_lost(holder);
    assert_true(actor_holds(next));
    IS(HF_BUSY, TRIES(holder, 0));
}

static void F49_leases_out_of_range_are_refused(void **state) {
    static const int64_t bad[] = {-1,       INT64_MIN, 1, HF_LEASE_MIN_MS - 1, HF_LEASE_MAX_MS + 1,
                                  INT64_MAX};
    test_dir *p = *state;
    actor *a = actor_new(p, NULL);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        IS(HF_INVALID, TRIES(a, .lease_ms = bad[i]));
    assert_int_equal(access(lock_path(p, LOCK), F_OK), -1); /* nothing was even tried */
    TAKES(a, .lease_ms = HF_LEASE_MAX_MS);
    assert_true(actor_holds(a));
}

static const struct CMUnitTest tests[] = {
    FILE_TEST(B26_break_ends_the_hold_of_another_process_and_serves_the_next),
    FILE_TEST(B26_break_ends_a_hold_that_is_not_renewed),
    FILE_TEST(B26_break_requires_the_given_token),
    FILE_TEST(B26_a_break_does_not_affect_the_next_hold),
    FILE_TEST(B26_a_client_may_break_its_own_hold),
    FILE_TEST(B26_a_broken_hold_is_over_before_the_next_is_notified),
    FILE_TEST(F25_a_hold_whose_file_is_gone_is_over_before_the_next_is_notified),
    FILE_TEST(F05_a_bounded_hold_is_over_before_the_next_is_notified),
    FILE_TEST(F05_an_unrenewed_hold_is_over_before_the_next_is_notified),
    FILE_TEST(B26_a_stopped_holder_obeys_when_it_continues),
    FILE_TEST(B26_a_stopped_holder_that_is_killed_is_broken),
    FILE_TEST(F47_a_break_that_waits_ends_with_its_client),
    FILE_TEST(B26_break_racing_a_release_leaves_a_free_lock),
    FILE_TEST(F05_max_hold_ends_a_hold_and_serves_the_next),
    FILE_TEST(F05_a_lease_that_is_not_renewed_ends_and_serves_the_next),
    FILE_TEST(B15_renewal_keeps_a_lock_for_many_leases),
    FILE_TEST(F48_a_second_release_affects_no_later_hold),
    FILE_TEST(F48_a_release_after_a_loss_affects_no_later_hold),
    FILE_TEST(F49_leases_out_of_range_are_refused),
};

FILE_MAIN(tests)
