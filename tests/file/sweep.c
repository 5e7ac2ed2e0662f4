/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nothing grows without limit, and nothing in use is removed (B30): files of idle locks and FIFOs
 * of dead clients are removed. Also a race of many clients that use locks and sweep at once.
 *
 * The sweepers are clients in the test's own process, whose wall clock the test can set ahead.
 * Actors have the real clock.
 */
#include "kit.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "store/file/lockfile.h"

enum { MINUTE = 60000, HOUR = 60 * MINUTE };

/* ---- The clock ------------------------------------------------------------------------------- */

static _Atomic int64_t ahead_ms;

int __real_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now);
int __wrap_clock_gettime(clockid_t clock, struct timespec *now) {
    int rc = __real_clock_gettime(clock, now);
    if (clock == CLOCK_REALTIME) now->tv_sec += atomic_load(&ahead_ms) / 1000;
    return rc;
}

static int clock_back(void **state) {
    atomic_store(&ahead_ms, 0);
    return test_dir_tear_down(state);
}

/* ---- Sweeping -------------------------------------------------------------------------------- */

/* Opens and closes a client at that time from now. */
static void sweep_later(const test_dir *p, const char *options, int64_t later_ms) {
    hf_client *client = NULL;
    atomic_store(&ahead_ms, later_ms);
    T_HF(HF_OK, hf_open(url_with(p, options), NULL, &client));
    hf_close(client);
    atomic_store(&ahead_ms, 0);
}

static void use_lock(const test_dir *p, const char *name) {
    hf_client *client = NULL;
    hf_hold *hold;
    T_HF(HF_OK, hf_open(p->url, NULL, &client));
    T_HF(HF_OK, hf_try_lock(client, name, &hold));
    T_HF(HF_OK, hf_release(hold));
    hf_close(client);
}

static bool file_exists(const char *path) {
    struct stat st;
    return lstat(path, &st) == 0;
}

static void make_old(const char *path) {
    struct timespec then[2];
    __real_clock_gettime(CLOCK_REALTIME, &then[0]);
    then[0].tv_sec -= 7 * 24 * 3600;
    then[1] = then[0];
    assert_int_equal(utimensat(AT_FDCWD, path, then, AT_SYMLINK_NOFOLLOW), 0);
}

/* ---- What is removed ------------------------------------------------------------------------- */

static void B30_files_of_idle_locks_are_removed_after_their_time(void **state) {
    test_dir *p = *state;
    for (int i = 0; i < 5; i++) use_lock(p, (const char *[]){"a", "b", "c", "d", "e"}[i]);
    assert_int_equal(files_like(p, "lock."), 5);
    assert_int_equal(files_like(p, "life.") + files_like(p, "wake."), 0);
    sweep_later(p, "keep=2h", HOUR);
    assert_int_equal(files_like(p, "lock."), 5);
    sweep_later(p, "keep=2h", 3 * HOUR);
    assert_int_equal(files_like(p, "lock."), 0);
    assert_int_equal(files_like(p, ""), 3); /* the stamp, and the entries . and .. */
}

static void B30_the_default_is_a_day(void **state) {
    test_dir *p = *state;
    use_lock(p, LOCK);
    sweep_later(p, "", 23 * HOUR);
    assert_true(file_exists(lock_path(p, LOCK)));
    sweep_later(p, "", 2 * 25 * HOUR);
    assert_false(file_exists(lock_path(p, LOCK)));
}

/* Not every close sweeps: an old file stays while the last sweep is recent. */
static void B30_a_directory_is_swept_every_quarter_of_the_time(void **state) {
    test_dir *p = *state;
    use_lock(p, LOCK);
    make_old(lock_path(p, LOCK));
    sweep_later(p, "", 0);
    sweep_later(p, "", 5 * HOUR);
    assert_true(file_exists(lock_path(p, LOCK)));
    sweep_later(p, "", 7 * HOUR);
    assert_false(file_exists(lock_path(p, LOCK)));
}

/* The clock was ahead at the last sweep, and is right now. */
static void F06_a_sweep_in_the_future_does_not_prevent_sweeps(void **state) {
    test_dir *p = *state;
    struct timespec later[2];
    use_lock(p, LOCK);
    make_old(lock_path(p, LOCK));
    __real_clock_gettime(CLOCK_REALTIME, &later[0]);
    later[0].tv_sec += 24 * 3600;
    later[1] = later[0];
    assert_int_equal(utimensat(AT_FDCWD, path_of(p, "swept"), later, 0), 0);
    sweep_later(p, "", MINUTE);
    assert_false(file_exists(lock_path(p, LOCK)));
}

/* ---- What stays ------------------------------------------------------------------------------ */

static void B30_files_of_held_or_awaited_locks_stay(void **state) {
    test_dir *p = *state;
    actor *holder = actor_new(p, NULL), *waiter = actor_new(p, NULL), *last = actor_new(p, NULL);
    use_lock(p, "idle");
    uint64_t token = TAKES(holder, .lease_ms = 10 * MINUTE, .flags = HF_NO_RENEW);
    WAITS(waiter, .wait_ms = SOON_MS);
    make_old(lock_path(p, LOCK));
    sweep_later(p, "keep=1s", HOUR);
    assert_true(file_exists(lock_path(p, LOCK)));
    assert_false(file_exists(lock_path(p, "idle")));
    assert_int_equal(files_like(p, "life."), 2);
    assert_int_equal(files_like(p, "wake."), 1);
    IS(HF_OK, DO(holder, do_extend, .options = {.lease_ms = 10 * MINUTE}));
    WAITS(last, .wait_ms = SOON_MS);
    FREES(holder);
    assert_true(GETS(waiter) > token);
    make_old(lock_path(p, LOCK));
    sweep_later(p, "keep=1s", HOUR);
    assert_false(actor_ended(last));
    FREES(waiter);
    GETS(last);
}

/* A lock with a waiter and no holder is in use too. */
static void B30_the_file_of_a_lock_with_only_a_waiter_stays(void **state) {
    test_dir *p = *state;
    use_lock(p, LOCK);
    int ticket_fd = t_queue_join(lock_path(p, LOCK), 7, 0xabcd);
    make_old(lock_path(p, LOCK));
    sweep_later(p, "keep=1s", HOUR);
    assert_true(file_exists(lock_path(p, LOCK)));
    close(ticket_fd);
    make_old(lock_path(p, LOCK));
    sweep_later(p, "keep=1s", 2 * HOUR);
    assert_false(file_exists(lock_path(p, LOCK)));
}

/* Holders in the kinds table do not lock the range of a mutex hold. */
static void B30_a_file_with_readers_or_waiters_in_its_kinds_table_stays(void **state) {
    test_dir *p = *state;
    actor *reader = actor_new(p, NULL), *writer = actor_new(p, NULL);
    uint64_t token = TAKES(reader, .kind = HF_READ, .lease_ms = 10 * MINUTE, .flags = HF_NO_RENEW);
    make_old(lock_path(p, LOCK));
    sweep_later(p, "keep=1s", 0); /* makes the stamp */
    sweep_later(p, "keep=1s", HOUR);
    assert_true(file_exists(lock_path(p, LOCK)));
    WAITS(writer, .kind = HF_WRITE, .wait_ms = SOON_MS);
    make_old(lock_path(p, LOCK));
    sweep_later(p, "keep=1s", 2 * HOUR);
    assert_true(file_exists(lock_path(p, LOCK)));
    FREES(reader);
    assert_true(GETS(writer) > token);
    FREES(writer);
    make_old(lock_path(p, LOCK));
    sweep_later(p, "keep=1s", 3 * HOUR);
    assert_false(file_exists(lock_path(p, LOCK)));
}

static void B28_a_file_whose_kinds_table_had_a_token_ahead_of_the_clock_stays(void **state) {
    test_dir *p = *state;
    hf__head head;
    use_lock(p, LOCK);
    int fd = open(lock_path(p, LOCK), O_RDWR | O_CLOEXEC);
    assert_true(pread(fd, &head, sizeof head, 0) == (ssize_t)sizeof head);
    head.kinds.token = head.record.token + (uint64_t)2 * HOUR * 1000;
    assert_int_equal(hf__lockfile_write_kinds(fd, &head), 0);
    close(fd);
    make_old(lock_path(p, LOCK));
    sweep_later(p, "keep=1s", HOUR);
    assert_true(file_exists(lock_path(p, LOCK)));
    actor *mutex = actor_new(p, NULL);
    assert_true(TAKES(mutex) > head.kinds.token);
    FREES(mutex);
}

/* A new file would begin with a token from the clock, below the last one. */
static void B28_a_file_whose_token_is_ahead_of_the_clock_stays(void **state) {
    test_dir *p = *state;
    hf__head head;
    use_lock(p, LOCK);
    int fd = open(lock_path(p, LOCK), O_RDWR | O_CLOEXEC);
    assert_true(pread(fd, &head, sizeof head, 0) == (ssize_t)sizeof head);
    head.record.token += (uint64_t)2 * HOUR * 1000;
    assert_int_equal(hf__lockfile_write_record(fd, &head.record), 0);
    close(fd);
    make_old(lock_path(p, LOCK));
    sweep_later(p, "keep=1s", HOUR);
    assert_true(file_exists(lock_path(p, LOCK)));
    sweep_later(p, "keep=1s", 3 * HOUR);
    assert_false(file_exists(lock_path(p, LOCK)));
}

/* The directory contains other files. Only files marked as ours are removed. */
static void B30_files_of_others_stay(void **state) {
    test_dir *p = *state;
    static const char *const names[] = {"lock.json", "lock.hf.notes", "other", "life.0000abcd",
                                        "wake.0000abcd"};
    use_lock(p, LOCK);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        int fd = open(path_of(p, names[i]), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        assert_true(write(fd, "precious", 8) == 8);
        close(fd);
        make_old(path_of(p, names[i]));
    }
    assert_int_equal(mkdir(path_of(p, "lock.d"), 0700), 0);
    assert_int_equal(symlink("other", path_of(p, "lock.link")), 0);
    assert_int_equal(mkfifo(path_of(p, "lock.fifo"), 0600), 0);
    sweep_later(p, "keep=1s", HOUR);
    assert_false(file_exists(lock_path(p, LOCK)));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!file_exists(path_of(p, names[i]))) t_fail("the file %s was removed", names[i]);
    assert_true(file_exists(path_of(p, "lock.d")));
    assert_true(file_exists(path_of(p, "lock.link")));
    assert_true(file_exists(path_of(p, "lock.fifo")));
}

/* ---- FIFOs ----------------------------------------------------------------------------------- */

static void B30_fifos_of_dead_clients_are_removed(void **state) {
    test_dir *p = *state;
    actor *alive = actor_new(p, NULL), *holder = actor_new(p, NULL), *waiter = actor_new(p, NULL);
    IS(HF_OK, actor_do(alive, &(actor_request){.action = do_acquire, .name = "other"}));
    TAKES(holder);
    WAITS(waiter, .wait_ms = SOON_MS);
    actor_kill(waiter);
    actor_kill(holder);
    assert_int_equal(files_like(p, "life."), 3);
    assert_int_equal(files_like(p, "wake."), 1);
    sweep_later(p, "", MINUTE);
    assert_int_equal(files_like(p, "life."), 1);
    assert_int_equal(files_like(p, "wake.") + files_like(p, "who."), 0);
    assert_true(actor_holds(alive));
    TAKES(actor_new(p, NULL));
}

/* The client of a new FIFO may be about to lock it. */
static void B30_a_new_fifo_stays(void **state) {
    test_dir *p = *state;
    int64_t before = t_now_ms();
    assert_int_equal(mkfifo(path_of(p, "life.0000abcd"), 0600), 0);
    sweep_later(p, "", 0);
    assert_true(file_exists(path_of(p, "life.0000abcd")) || t_now_ms() - before >= 2000);
    sweep_later(p, "", MINUTE);
    assert_false(file_exists(path_of(p, "life.0000abcd")));
}

/* The life file of a client was removed, by hand for example. A sweep removes its other files. */
static void B30_files_without_a_life_file_are_removed(void **state) {
    test_dir *p = *state;
    use_lock(p, LOCK);
    assert_int_equal(mkfifo(path_of(p, "wake.0000abcd"), 0600), 0);
    assert_int_equal(symlink("1\tx\t", path_of(p, "who.0000abcd")), 0);
    sweep_later(p, "", 7 * HOUR);
    assert_int_equal(files_like(p, "wake.") + files_like(p, "who."), 0);
    assert_true(file_exists(lock_path(p, LOCK)));
}

/* A program is killed and restarted all day. It never closes a client, so a starting client
   sweeps. */
static void B30_a_crash_loop_leaves_few_fifos(void **state) {
    enum { LOOPS = 20, AT_ONCE = 10 }; /* 200 kills */
    test_dir *p = *state;
    actor *alive = actor_new(p, NULL);
    IS(HF_OK, actor_do(alive, &(actor_request){.action = do_acquire, .name = "alive"}));
    for (int loop = 0; loop < LOOPS; loop++) {
        actor *killed[AT_ONCE];
        for (int i = 0; i < AT_ONCE; i++) {
            actor_request take = {.action = do_acquire};
            snprintf(take.name, sizeof take.name, "n%d", i);
            if (i % 2) take.options.kind = HF_READ; /* has a wake and a who file as well */
            killed[i] = actor_new(p, NULL);
            IS(HF_OK, actor_do(killed[i], &take));
        }
        for (int i = 0; i < AT_ONCE; i++) actor_kill(killed[i]);
        sweep_later(p, "", MINUTE); /* a client starts when the dead ones are old enough */
        assert_int_equal(files_like(p, "life."), 1);
        assert_int_equal(files_like(p, "wake.") + files_like(p, "who."), 0);
    }
    assert_true(actor_holds(alive));
}

/* ---- All at the same time -------------------------------------------------------------------- */

enum { RACERS = 6, NAMES = 3, RACE_MS = 2000, WAIT_MS = 20000 };

typedef struct sweep_race {
    char url[PATH_SIZE];
    struct {
        atomic_int inside, collisions;
        _Atomic uint64_t token;
    } locks[NAMES];
    atomic_int racers, backward;
    bool alone; /* each also has a lock of its own */
    atomic_long visits;
    _Atomic int64_t until;
} sweep_race;

static void visit_lock(sweep_race *r, hf_client *client, int n) {
    char name[8];
    hf_hold *hold;
    snprintf(name, sizeof name, "n%d", n);
    T_HF(HF_OK, hf_acquire(client, name, &(hf_options){.wait_ms = WAIT_MS}, &hold));
    if (atomic_fetch_add(&r->locks[n].inside, 1)) atomic_fetch_add(&r->locks[n].collisions, 1);
    uint64_t last = atomic_exchange(&r->locks[n].token, hf_fence(hold));
    if (last >= hf_fence(hold)) atomic_fetch_add(&r->backward, 1);
    atomic_fetch_sub(&r->locks[n].inside, 1);
    T_HF(HF_OK, hf_release(hold));
    atomic_fetch_add(&r->visits, 1);
}

/* No other client wants this lock, so it is never busy: a sweep does not count as a holder. */
static void use_alone(hf_client *client, int index) {
    char name[16];
    hf_hold *hold;
    snprintf(name, sizeof name, "alone-%d", index);
    T_HF(HF_OK, hf_try_lock(client, name, &hold));
    T_HF(HF_OK, hf_release(hold));
}

static int race_in_child(void *arg) {
    sweep_race *r = arg;
    int index = atomic_fetch_add(&r->racers, 1);
    uint32_t seed = (uint32_t)index;
    while (t_now_ms() < atomic_load(&r->until)) {
        hf_client *client = NULL;
        T_HF(HF_OK, hf_open(r->url, NULL, &client));
        for (int i = 0; i < 4; i++) {
            seed = seed * 1664525 + 1013904223;
            visit_lock(r, client, (int)(seed >> 16) % NAMES);
            if (r->alone) use_alone(client, index);
        }
        hf_close(client);
    }
    return 0;
}

static void run_race(const test_dir *p, sweep_race *r) {
    t_proc *racers[RACERS];
    int failed = 0;
    snprintf(r->url, sizeof r->url, "%s", url_with(p, "keep=1ms"));
    atomic_store(&r->until, t_now_ms() + RACE_MS);
    for (int i = 0; i < RACERS; i++) racers[i] = t_proc_start(race_in_child, r);
    for (int i = 0; i < RACERS; i++) failed += t_proc_wait(racers[i], 30000) != 0;
    assert_int_equal(failed, 0);
    for (int i = 0; i < NAMES; i++) assert_int_equal(atomic_load(&r->locks[i].collisions), 0);
    assert_int_equal(atomic_load(&r->backward), 0);
    assert_true(atomic_load(&r->visits) >= RACERS);
}

static void B08_exclusion_holds_and_tokens_grow_during_sweeps(void **state) {
    sweep_race *r = t_shared_new(sizeof *r);
    run_race(*state, r);
    t_shared_free(r, sizeof *r);
}

static void B03_a_free_lock_can_be_tried_while_it_is_swept(void **state) {
    sweep_race *r = t_shared_new(sizeof *r);
    r->alone = true;
    run_race(*state, r);
    t_shared_free(r, sizeof *r);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, test_dir_set_up, clock_back)

static const struct CMUnitTest tests[] = {
    TEST(B08_exclusion_holds_and_tokens_grow_during_sweeps),
    TEST(B03_a_free_lock_can_be_tried_while_it_is_swept),
    TEST(B30_files_of_idle_locks_are_removed_after_their_time),
    TEST(B30_the_default_is_a_day),
    TEST(B30_a_directory_is_swept_every_quarter_of_the_time),
    TEST(F06_a_sweep_in_the_future_does_not_prevent_sweeps),
    TEST(B30_files_of_held_or_awaited_locks_stay),
    TEST(B30_the_file_of_a_lock_with_only_a_waiter_stays),
    TEST(B30_a_file_with_readers_or_waiters_in_its_kinds_table_stays),
    TEST(B28_a_file_whose_kinds_table_had_a_token_ahead_of_the_clock_stays),
    TEST(B28_a_file_whose_token_is_ahead_of_the_clock_stays),
    TEST(B30_files_of_others_stay),
    TEST(B30_fifos_of_dead_clients_are_removed),
    TEST(B30_a_new_fifo_stays),
    TEST(B30_files_without_a_life_file_are_removed),
    TEST(B30_a_crash_loop_leaves_few_fifos),
};

FILE_MAIN(tests)
