/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kinds table: readers, writers, upgrades and permits of many processes, in a table in the
 * lock's file. A process that dies leaves it immediately, even between two steps of a change (F46).
 * Mutexes and the other kinds exclude each other (B16). An entry of the table counts only while its
 * owner lives (F28).
 */
#include "kit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <unistd.h>

#include "store/file/slot_table.h"

#define READ_      .kind = HF_READ
#define WRITE_     .kind = HF_WRITE
#define UPGRADABLE .kind = HF_UPGRADABLE
#define PERMITS(n) .kind = HF_PERMITS, .permits = (n), .capacity = 4
#define WAIT       .wait_ms = SOON_MS

/* The quickest of several rounds counts. A wait that is not notified takes longer in all of
   them. */
typedef void scene(test_dir *p, int64_t *began);

static void check_notified(test_dir *p, scene *play) {
    int64_t best = -1;
    for (int i = 0; i < ROUNDS; i++) {
        int64_t began = 0;
        play(p, &began);
        int64_t took = t_now_ms() - began;
        if (best < 0 || took < best) best = took;
        for (int k = 0; k < ACTORS_MAX; k++)
            if (p->actors[k]) actor_kill(p->actors[k]);
    }
    if (best >= NOTIFIED_MS)
        t_fail("served after %lld ms at best: the waiter was not notified", (long long)best);
}

static void kill_at(actor *a, int64_t *began) {
    *began = t_now_ms();
    actor_kill(a);
}

static void do_upgrade(actor_state *me, const actor_request *q, actor_result *a) {
    a->result = hf_upgrade(me->holds[me->held - 1], q->options.wait_ms);
    a->token = hf_fence(me->holds[me->held - 1]);
}

static void do_downgrade(actor_state *me, const actor_request *q, actor_result *a) {
    (void)q;
    a->result = hf_downgrade(me->holds[me->held - 1]);
}

/* Begins an upgrade that has to wait. */
static void begin_upgrade(actor *a, const test_dir *p) {
    int before = t_queue_length(lock_path(p, LOCK));
    actor_begin(a, &(actor_request){.action = do_upgrade, .name = LOCK, .options = {WAIT}});
    UNTIL(t_queue_length(lock_path(p, LOCK)) == before + 1);
}

/* number: how many hold it; token: how many permits are in use */
static void do_count(actor_state *me, const actor_request *q, actor_result *a) {
    hf_info *info = NULL;
    a->result = hf_inspect(me->client, q->name, &info);
    if (info) a->number = info->holders;
    if (info) a->token = info->used;
    hf_info_free(info);
}

/* ---- B13: notified by the one that leaves ---------------------------------------------------- */

static void reader_leaves(test_dir *p, int64_t *began) {
    actor *reader = actor_new(p, NULL), *writer = actor_new(p, NULL), *mutex = actor_new(p, NULL);
    TAKES(reader, READ_);
    WAITS(writer, WRITE_, WAIT);
    WAITS(mutex, WAIT);
    *began = t_now_ms();
    FREES(reader);
    GETS(writer);
    FREES(writer);
    GETS(mutex);
}

static void waiting_writer_leaves(test_dir *p, int64_t *began) {
    actor *reader = actor_new(p, NULL), *writer = actor_new(p, NULL), *next = actor_new(p, NULL);
    TAKES(reader, READ_);
    WAITS(writer, WRITE_, WAIT);
    WAITS(next, READ_, WAIT);
    *began = t_now_ms();
    actor_signal(writer, SIGUSR1);
    IS(HF_CANCELLED, actor_end(writer));
    GETS(next);
}

static void writer_reads(test_dir *p, int64_t *began) {
    actor *writer = actor_new(p, NULL), *reader = actor_new(p, NULL);
    TAKES(writer, WRITE_);
    WAITS(reader, READ_, WAIT);
    *began = t_now_ms();
    IS(HF_OK, DO(writer, do_downgrade));
    GETS(reader);
}

static void B13_leaving_the_kinds_table_or_its_queue_notifies_the_next(void **state) {
    check_notified(*state, reader_leaves);
    check_notified(*state, waiting_writer_leaves);
    check_notified(*state, writer_reads);
}

/* ---- F46: deaths ----------------------------------------------------------------------------- */

static void last_reader_dies(test_dir *p, int64_t *began) {
    actor *one = actor_new(p, NULL), *two = actor_new(p, NULL), *writer = actor_new(p, NULL);
    uint64_t token = TAKES(one, READ_);
    TAKES(two, READ_);
    WAITS(writer, WRITE_, WAIT);
    actor_kill(one);
    assert_int_equal(DO(two, do_count).number, 1);
    assert_false(actor_ended(writer));
    assert_true(actor_holds(two));
    kill_at(two, began);
    assert_true(GETS(writer) > token);
}

static void F46_killed_readers_let_the_writer_in_with_the_last_of_them(void **state) {
    check_notified(*state, last_reader_dies);
}

static void writer_dies(test_dir *p, int64_t *began) {
    actor *writer = actor_new(p, NULL), *one = actor_new(p, NULL), *two = actor_new(p, NULL);
    TAKES(writer, WRITE_);
    WAITS(one, READ_, WAIT);
    WAITS(two, READ_, WAIT);
    kill_at(writer, began);
    GETS(one);
    GETS(two);
}

static void F46_a_killed_writer_lets_all_readers_in_together(void **state) {
    check_notified(*state, writer_dies);
}

/* The first waiter dies, and all behind it enter. */
static void waiting_writer_dies(test_dir *p, int64_t *began) {
    actor *reader = actor_new(p, NULL), *writer = actor_new(p, NULL);
    actor *one = actor_new(p, NULL), *two = actor_new(p, NULL);
    TAKES(reader, READ_);
    WAITS(writer, WRITE_, WAIT);
    WAITS(one, READ_, WAIT);
    WAITS(two, READ_, WAIT);
    kill_at(writer, began);
    GETS(one);
    GETS(two);
    assert_true(actor_holds(reader));
}

static void F46_a_queued_writer_that_is_killed_delays_no_reader(void **state) {
    check_notified(*state, waiting_writer_dies);
}

static void upgrader_dies(test_dir *p, int64_t *began) {
    actor *upgrader = actor_new(p, NULL), *reader = actor_new(p, NULL), *next = actor_new(p, NULL);
    TAKES(upgrader, UPGRADABLE);
    TAKES(reader, READ_);
    begin_upgrade(upgrader, p);
    WAITS(next, UPGRADABLE, WAIT);
    kill_at(upgrader, began);
    GETS(next);
    assert_true(actor_holds(reader));
}

static void F46_an_upgrader_killed_in_its_wait_leaves_the_queue_and_the_kinds_table(void **state) {
    check_notified(*state, upgrader_dies);
}

static void upgraded_dies(test_dir *p, int64_t *began) {
    actor *upgrader = actor_new(p, NULL), *reader = actor_new(p, NULL);
    uint64_t token = TAKES(upgrader, UPGRADABLE);
    assert_true(IS(HF_OK, DO(upgrader, do_upgrade)).token > token);
    WAITS(reader, READ_, WAIT);
    kill_at(upgrader, began);
    GETS(reader);
}

static void F46_an_upgraded_reader_that_is_killed_frees_all(void **state) {
    check_notified(*state, upgraded_dies);
}

static void reader_beside_upgrader_dies(test_dir *p, int64_t *began) {
    actor *upgrader = actor_new(p, NULL), *reader = actor_new(p, NULL);
    TAKES(upgrader, UPGRADABLE);
    TAKES(reader, READ_);
    begin_upgrade(upgrader, p);
    kill_at(reader, began);
    IS(HF_OK, actor_end(upgrader));
}

static void F46_an_upgrade_is_done_when_the_last_reader_is_killed(void **state) {
    check_notified(*state, reader_beside_upgrader_dies);
}

static void one_of_permits_dies(test_dir *p, int64_t *began) {
    actor *one = actor_new(p, NULL), *two = actor_new(p, NULL), *next = actor_new(p, NULL);
    TAKES(one, PERMITS(2));
    TAKES(two, PERMITS(2));
    WAITS(next, PERMITS(2), WAIT);
    kill_at(one, began);
    GETS(next);
    actor_result got = DO(two, do_count);
    assert_int_equal(got.number, 2);
    assert_int_equal(got.token, 4);
}

static void F46_permits_of_a_killed_holder_come_back_at_once(void **state) {
    check_notified(*state, one_of_permits_dies);
}

/* A waiter that becomes first in the queue must watch holders that it did not watch before. */
static void other_of_permits_dies(test_dir *p, int64_t *began) {
    actor *one = actor_new(p, NULL), *two = actor_new(p, NULL);
    actor *first = actor_new(p, NULL), *second = actor_new(p, NULL);
    TAKES(one, PERMITS(2));
    TAKES(two, PERMITS(2));
    WAITS(first, PERMITS(2), WAIT);
    WAITS(second, PERMITS(2), WAIT);
    FREES(one);
    GETS(first);
    t_sleep_ms(20); /* shorter than its own check interval */
    kill_at(two, began);
    GETS(second);
}

static void F46_the_new_first_waiter_is_notified_when_holders_die(void **state) {
    check_notified(*state, other_of_permits_dies);
}

/* ---- F46: killed between two steps ----------------------------------------------------------- */

/* The calls that change a lock's file. After `steps_left` of them the process gets
   `step_signal`. */
static atomic_int steps_left = -1;
static atomic_int step_signal;
static atomic_bool unwritable; /* every write fails, and everything else works */

static void count_step(void) {
    if (atomic_load(&steps_left) >= 0 && atomic_fetch_sub(&steps_left, 1) == 0)
        (void)raise(atomic_load(&step_signal));
}

ssize_t __real_pwrite64(int fd, const void *from, size_t length, off_t at);
ssize_t __wrap_pwrite64(int fd, const void *from, size_t length, off_t at);
ssize_t __wrap_pwrite64(int fd, const void *from, size_t length, off_t at) {
    count_step();
    if (atomic_load(&unwritable)) {
        errno = EFBIG;
        return -1;
    }
    return __real_pwrite64(fd, from, length, at);
}

int __real_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...) {
    va_list list;
    va_start(list, command);
    void *arg = va_arg(list, void *);
    va_end(list);
    count_step();
    return __real_fcntl64(fd, command, arg);
}

/* Runs an action with a signal in the middle: `token` is the signal, `number` the step before which
   it comes. */
static void signal_at_step(actor_action *what, actor_state *me, const actor_request *q,
                           actor_result *a) {
    actor_request plain = *q;
    plain.token = 0;
    plain.number = 0;
    plain.action = what;
    atomic_store(&step_signal, (int)q->token);
    atomic_store(&steps_left, (int)q->number);
    what(me, &plain, a);
    atomic_store(&steps_left, -1);
}

static void do_release_doomed(actor_state *me, const actor_request *q, actor_result *a) {
    signal_at_step(do_release, me, q, a);
}

static void do_acquire_doomed(actor_state *me, const actor_request *q, actor_result *a) {
    signal_at_step(do_acquire, me, q, a);
}

static void do_upgrade_doomed(actor_state *me, const actor_request *q, actor_result *a) {
    signal_at_step(do_upgrade, me, q, a);
}

static void do_downgrade_doomed(actor_state *me, const actor_request *q, actor_result *a) {
    signal_at_step(do_downgrade, me, q, a);
}

static void do_count_doomed(actor_state *me, const actor_request *q, actor_result *a) {
    signal_at_step(do_count, me, q, a);
}

enum { STEPS_MAX = 100 };

/* The process is killed in the middle of its action. The other holders are unaffected, and a writer
   enters when they leave. */
static bool dies_at(test_dir *p, const hf_options *first, bool alone, actor_action *what, int n) {
    actor *victim = actor_new(p, NULL), *reader = actor_new(p, NULL), *writer = actor_new(p, NULL);
    actor_result got;
    if (first) actor_takes(victim, first, __FILE__, __LINE__);
    if (!alone) TAKES(reader, READ_);
    if (first) WAITS(writer, WRITE_, WAIT);
    actor_request q = {
        .action = what, .name = LOCK, .token = SIGKILL, .number = n, .options = {READ_}};
    actor_begin(victim, &q);
    bool survived = actor_survives(victim, &got);
    if (survived) actor_kill(victim);
    if (!first) WAITS(writer, WRITE_, WAIT);
    if (!alone) {
        assert_false(actor_ended(writer));
        assert_true(actor_holds(reader));
        assert_int_equal(DO(reader, do_count).number, 1);
        FREES(reader);
    }
    GETS(writer);
    IS(HF_BUSY, TRIES(reader, READ_));
    FREES(writer);
    TAKES(reader);
    actor_kill(reader);
    actor_kill(writer);
    return !survived;
}

static void check_deaths(test_dir *p, const hf_options *first, bool alone, actor_action *what) {
    int n = 0;
    while (n < STEPS_MAX && dies_at(p, first, alone, what, n)) n++;
    assert_in_range(n, 4, STEPS_MAX - 1);
}

static void F46_killed_at_any_step_of_an_acquire(void **state) {
    check_deaths(*state, NULL, false, do_acquire_doomed);
}

static void F46_killed_at_any_step_of_a_release(void **state) {
    check_deaths(*state, &(hf_options){READ_}, false, do_release_doomed);
    check_deaths(*state, &(hf_options){WRITE_}, true, do_release_doomed);
}

static void F46_killed_at_any_step_of_an_upgrade(void **state) {
    check_deaths(*state, &(hf_options){UPGRADABLE}, true, do_upgrade_doomed);
}

static void F46_killed_at_any_step_of_a_downgrade(void **state) {
    check_deaths(*state, &(hf_options){WRITE_}, true, do_downgrade_doomed);
}

/* The process creates the kinds table and is killed. A mutex then finds the lock free
   immediately. */
static void F46_killed_at_any_step_of_creating_the_kinds_table(void **state) {
    test_dir *p = *state;
    actor *other = actor_new(p, NULL);
    bool died = true;
    for (int n = 0; died && n < STEPS_MAX; n++) {
        actor *victim = actor_new(p, NULL);
        uint32_t kind = (uint32_t)n % 4 + 1;
        actor_result got;
        actor_request q = {.action = do_acquire_doomed,
                           .name = LOCK,
                           .token = SIGKILL,
                           .number = n,
                           .options = {.kind = kind, .capacity = kind == HF_PERMITS}};
        actor_begin(victim, &q);
        died = !actor_survives(victim, &got);
        if (!died) actor_kill(victim);
        TAKES(other);
        FREES(other);
        TAKES(other, READ_);
        FREES(other);
    }
    assert_false(died);
}

/* ---- F14: failing writes --------------------------------------------------------------------- */

static void do_upgrade_unwritten(actor_state *me, const actor_request *q, actor_result *a) {
    atomic_store(&unwritable, true);
    do_upgrade(me, q, a);
    atomic_store(&unwritable, false);
}

static void F14_an_upgrade_that_cannot_be_written_leaves_the_hold_as_it_was(void **state) {
    test_dir *p = *state;
    actor *upgrader = actor_new(p, NULL), *reader = actor_new(p, NULL);
    uint64_t token = TAKES(upgrader, UPGRADABLE);
    assert_int_equal(IS(HF_REFUSED, DO(upgrader, do_upgrade_unwritten)).token, token);
    IS(HF_OK, DO(upgrader, do_extend, .options = {.lease_ms = 31000}));
    assert_true(actor_holds(upgrader));
    TAKES(reader, READ_);
    FREES(reader);
    assert_true(IS(HF_OK, DO(upgrader, do_upgrade)).token > token);
    IS(HF_BUSY, TRIES(reader, READ_));
    FREES(upgrader);
}

/* ---- F03: stopped ---------------------------------------------------------------------------- */

static bool is_stopped(pid_t pid) {
    char path[64], state = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    bool read = file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1;
    if (file) fclose(file);
    return read && state == 'T';
}

/* A process is stopped while it has the entry lock. Nobody can read the table, but nobody loses a
   hold. Everything continues when it does. */
static void F03_a_process_stopped_with_the_entry_lock_costs_nobody_a_hold(void **state) {
    test_dir *p = *state;
    actor *holder = actor_new(p, NULL), *stopped = actor_new(p, NULL), *other = actor_new(p, NULL);
    TAKES(holder, READ_, .lease_ms = 1500);
    actor_request q = {.action = do_acquire_doomed, .name = LOCK, .token = SIGSTOP, .number = 2};
    q.options = (hf_options){READ_, WAIT};
    actor_begin(stopped, &q);
    UNTIL(is_stopped(actor_pid(stopped)));
    assert_true(t_queue_holder(lock_path(p, LOCK)) != 0);
    check_detail(IS(HF_UNREACHABLE, TRIES(other, READ_)).detail, "stopped");
    t_sleep_ms(2000); /* longer than a lease */
    assert_true(actor_holds(holder));
    actor_signal(stopped, SIGCONT);
    IS(HF_OK, actor_end(stopped));
    TAKES(other, READ_);
    assert_int_equal(DO(other, do_count).number, 3);
}

/* The first process has not yet recorded in the file that there is a kinds table. It must not be
   taken for a mutex. */
static void F03_a_process_stopped_while_it_creates_the_kinds_table_is_no_holder(void **state) {
    test_dir *p = *state;
    actor *stopped = actor_new(p, NULL), *other = actor_new(p, NULL);
    actor_request q = {.action = do_acquire_doomed, .name = LOCK, .token = SIGSTOP, .number = 2};
    q.options = (hf_options){READ_, WAIT};
    actor_begin(stopped, &q);
    UNTIL(is_stopped(actor_pid(stopped)));
    assert_true(t_queue_holder(lock_path(p, LOCK)) != 0);
    check_detail(IS(HF_UNREACHABLE, TRIES(other, READ_)).detail, "stopped");
    IS(HF_UNREACHABLE, TRIES(other, 0));
    actor_signal(stopped, SIGCONT);
    IS(HF_OK, actor_end(stopped));
    TAKES(other, READ_);
}

/* A reader of the table is stopped before each of its steps, while a slot passes from one holder to
   another. That must not count as damage. */
static void F28_a_slot_that_changes_hands_during_an_inspection_is_not_damaged(void **state) {
    test_dir *p = *state;
    bool stopped = true;
    int n = 0;
    for (; stopped && n < STEPS_MAX; n++) {
        actor *one = actor_new(p, NULL), *two = actor_new(p, NULL), *looker = actor_new(p, NULL);
        TAKES(one, READ_);
        actor_request q = {.action = do_count_doomed, .name = LOCK, .token = SIGSTOP, .number = n};
        actor_begin(looker, &q);
        UNTIL(is_stopped(actor_pid(looker)) || actor_ended(looker));
        stopped = !actor_ended(looker);
        FREES(one);
        TAKES(two, READ_);
        actor_signal(looker, SIGCONT);
        IS(HF_OK, actor_end(looker));
        actor_kill(one);
        actor_kill(two);
        actor_kill(looker);
    }
    assert_in_range(n, 2, STEPS_MAX - 1);
}

/* A process that takes or leaves a slot is stopped before each of its steps, while another one
   reads the table. */
static void look_at_each_step(test_dir *p, actor_action *what) {
    bool stopped = true;
    int n = 0;
    for (; stopped && n < STEPS_MAX; n++) {
        actor *one = actor_new(p, NULL), *looker = actor_new(p, NULL);
        if (what == do_release_doomed) TAKES(one, READ_);
        actor_request q = {
            .action = what, .name = LOCK, .token = SIGSTOP, .number = n, .options = {READ_}};
        actor_begin(one, &q);
        UNTIL(is_stopped(actor_pid(one)) || actor_ended(one));
        stopped = !actor_ended(one);
        IS(HF_OK, DO(looker, do_count));
        actor_signal(one, SIGCONT);
        IS(HF_OK, actor_end(one));
        actor_kill(one);
        actor_kill(looker);
        assert_int_equal(unlink(lock_path(p, LOCK)), 0); /* the next slot was never used */
    }
    assert_in_range(n, 2, STEPS_MAX - 1);
}

static void F28_a_slot_that_is_being_taken_or_left_is_not_damaged(void **state) {
    look_at_each_step(*state, do_acquire_doomed);
    look_at_each_step(*state, do_release_doomed);
}

/* As in a queue of mutexes: the others pass it, and it is served when it continues. */
static void B08_a_stopped_first_waiter_of_the_kinds_table_is_passed_and_served_later(void **state) {
    test_dir *p = *state;
    actor *holder = actor_new(p, NULL), *stopped = actor_new(p, NULL), *next = actor_new(p, NULL);
    TAKES(holder, READ_);
    WAITS(stopped, WRITE_, .wait_ms = 3 * SOON_MS);
    WAITS(next, READ_, .wait_ms = 3 * SOON_MS);
    actor_signal(stopped, SIGSTOP);
    FREES(holder);
    GETS(next);
    actor_signal(stopped, SIGCONT);
    assert_false(actor_ended(stopped));
    FREES(next);
    GETS(stopped);
}

/* Waiting is driven by events: a long wait checks now and then, and no more. */
static void B13_waiting_for_the_kinds_table_rarely_polls(void **state) {
    test_dir *p = *state;
    TAKES(actor_new(p, NULL), READ_);
    for (uint32_t kind = HF_MUTEX; kind <= HF_WRITE; kind += HF_WRITE) {
        actor *waiter = actor_new(p, NULL);
        int64_t before = DO(waiter, do_stats).number;
        IS(HF_TIMEOUT, TRIES(waiter, .kind = kind, .wait_ms = 2500));
        assert_in_range(DO(waiter, do_stats).number - before, 1, 8);
    }
}

/* ---- B16: together with the mutex ------------------------------------------------------------ */

static void B16_a_mutex_and_readers_are_served_in_order_of_arrival(void **state) {
    test_dir *p = *state;
    actor *holder = actor_new(p, NULL), *one = actor_new(p, NULL), *two = actor_new(p, NULL);
    actor *mutex = actor_new(p, NULL), *late = actor_new(p, NULL), *last = actor_new(p, NULL);
    uint64_t token = TAKES(holder);
    IS(HF_BUSY, TRIES(one, READ_));
    WAITS(one, READ_, WAIT);
    WAITS(two, READ_, WAIT);
    WAITS(mutex, WAIT);
    WAITS(late, READ_, WAIT);
    WAITS(last, WAIT);
    FREES(holder);
    assert_true(GETS(one) > token);
    assert_true(GETS(two) > token);
    UNTIL(t_queue_length(lock_path(p, LOCK)) == 3);
    IS(HF_BUSY, TRIES(holder, 0));
    FREES(one);
    assert_false(actor_ended(mutex));
    FREES(two);
    token = GETS(mutex);
    assert_false(actor_ended(late) || actor_ended(last));
    IS(HF_BUSY, TRIES(one, READ_));
    FREES(mutex);
    assert_true(GETS(late) > token);
    assert_false(actor_ended(last));
    FREES(late);
    GETS(last);
}

/* Each waiter records its turn and leaves. */
static struct {
    pthread_mutex_t mutex;
    int64_t turns;
} said = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void note_turn(hf_result result, hf_hold *hold, void *arg) {
    if (result != HF_OK) t_fail("the acquire returned %s", hf_result_name(result));
    pthread_mutex_lock(&said.mutex);
    said.turns = said.turns * 10 + (int64_t)(uintptr_t)arg;
    pthread_mutex_unlock(&said.mutex);
    T_HF(HF_OK, hf_release(hold));
}

static void do_note_turn(actor_state *me, const actor_request *q, actor_result *a) {
    hf_options o = q->options;
    a->result = hf_acquire_async(me->client, q->name, &o, note_turn, (void *)(uintptr_t)q->number);
}

static void do_turns(actor_state *me, const actor_request *q, actor_result *a) {
    (void)me, (void)q;
    pthread_mutex_lock(&said.mutex);
    a->number = said.turns;
    pthread_mutex_unlock(&said.mutex);
}

/* Waiters of one client get their tickets through one open file, where they do not see each
   other. */
static void B08_waiters_of_one_client_are_served_in_order_of_arrival(void **state) {
    static const uint32_t kinds[] = {HF_WRITE, HF_MUTEX, HF_UPGRADABLE, HF_WRITE};
    test_dir *p = *state;
    actor *holder = actor_new(p, NULL), *many = actor_new(p, NULL);
    for (int round = 0; round < 2; round++) {
        TAKES(holder, .kind = round ? HF_READ : HF_MUTEX);
        for (int i = 0; i < 4; i++) {
            IS(HF_OK, DO(many, do_note_turn, .number = i + 1,
                         .options = {.kind = kinds[i], .wait_ms = SOON_MS}));
            UNTIL(t_queue_length(lock_path(p, LOCK)) == i + 1);
        }
        FREES(holder);
        UNTIL(DO(many, do_turns).number >= (round ? 12341234 : 1234));
        assert_int_equal(DO(many, do_turns).number, round ? 12341234 : 1234);
    }
}

static void reader_before_mutex_dies(test_dir *p, int64_t *began) {
    actor *reader = actor_new(p, NULL), *mutex = actor_new(p, NULL);
    TAKES(reader, READ_);
    WAITS(mutex, WAIT);
    kill_at(reader, began);
    GETS(mutex);
}

static void mutex_before_reader_dies(test_dir *p, int64_t *began) {
    actor *mutex = actor_new(p, NULL), *reader = actor_new(p, NULL);
    TAKES(mutex);
    WAITS(reader, READ_, WAIT);
    kill_at(mutex, began);
    GETS(reader);
}

static void F46_a_mutex_and_a_reader_are_notified_of_each_other_s_death(void **state) {
    check_notified(*state, reader_before_mutex_dies);
    check_notified(*state, mutex_before_reader_dies);
}

static hf__head head_of(const test_dir *p) {
    hf__head head;
    int fd = open(lock_path(p, LOCK), O_RDONLY | O_CLOEXEC);
    assert_true(pread(fd, &head, sizeof head, 0) == (ssize_t)sizeof head);
    close(fd);
    return head;
}

/* When the last holder of the kinds table has left, a mutex is as cheap as before. Programs that do
   not know the table cannot use a file that has one. */
static void B16_the_kinds_table_is_closed_when_the_last_holder_has_left(void **state) {
    test_dir *p = *state;
    actor *a = actor_new(p, NULL);
    TAKES(a);
    FREES(a);
    assert_int_equal(head_of(p).version, 1);
    uint64_t token = TAKES(a, READ_);
    assert_int_equal(head_of(p).version, 2);
    assert_true(head_of(p).kinds.in_use);
    FREES(a);
    assert_false(head_of(p).kinds.in_use);
    assert_true(TAKES(a) > token);
    assert_int_equal(t_queue_holder(lock_path(p, LOCK)) != 0, 1);
}

/* Tokens grow even if the clock is behind the last token, and for clients that have not seen that
   token. */
static void B28_tokens_grow_from_the_kinds_table_to_the_mutex_and_back(void **state) {
    test_dir *p = *state;
    uint64_t last = TAKES(actor_new(p, NULL), READ_) + 3600000000; /* an hour ahead */
    actor_kill(p->actors[0]);
    hf__head head = head_of(p);
    head.record.token = last;
    int fd = open(lock_path(p, LOCK), O_RDWR | O_CLOEXEC);
    assert_int_equal(hf__lockfile_write_record(fd, &head.record), 0);
    close(fd);
    for (uint32_t i = 0; i < 6; i++) {
        uint64_t token = TAKES(actor_new(p, NULL), .kind = i % 3);
        assert_true(token > last);
        last = token;
        actor_kill(p->actors[0]);
    }
}

/* ---- B26: breaking --------------------------------------------------------------------------- */

static void B26_one_of_several_holders_is_broken_by_its_token(void **state) {
    test_dir *p = *state;
    actor *one = actor_new(p, NULL), *two = actor_new(p, NULL), *breaker = actor_new(p, NULL);
    uint64_t token = TAKES(one, READ_, .lease_ms = 60000);
    TAKES(two, READ_, .lease_ms = 60000);
    IS(HF_NOT_HELD, DO(breaker, do_break, .token = token + 1000000));
    IS(HF_OK, DO(breaker, do_break, .token = token));
    actor_lost(one);
    assert_true(actor_holds(two));
    WAITS(one, WRITE_, WAIT);
    IS(HF_OK, DO(breaker, do_break));
    GETS(one);
    actor_lost(two);
}

static void B26_a_stopped_reader_obeys_when_it_continues(void **state) {
    test_dir *p = *state;
    actor *reader = actor_new(p, NULL), *next = actor_new(p, NULL), *breaker = actor_new(p, NULL);
    actor_request open = {.action = do_open, .options = {.wait_ms = 300}};
    char pid[32];
    IS(HF_OK, DO(breaker, do_close));
    snprintf(open.name, sizeof open.name, "%s", p->url);
    IS(HF_OK, actor_do(breaker, &open));
    TAKES(reader, READ_, .lease_ms = 60000);
    WAITS(next, WRITE_, WAIT);
    actor_signal(reader, SIGSTOP);
    actor_result got = IS(HF_UNKNOWN_OUTCOME, DO(breaker, do_break));
    snprintf(pid, sizeof pid, "process %d", (int)actor_pid(reader));
    check_detail(got.detail, pid);
    assert_false(actor_ended(next));
    actor_signal(reader, SIGCONT);
    GETS(next);
    actor_lost(reader);
}

/* ---- F28: damage ----------------------------------------------------------------------------- */

enum { SLOTS_AT = 4096, SLOT_SIZE = 256 };

/* A holder that renews would see the damage and end its hold, before others have tried. */
#define NEVER_LOOKS READ_, .lease_ms = 3600000, .flags = HF_NO_RENEW

static void flip_byte(const test_dir *p, int64_t at) {
    unsigned char byte;
    int fd = open(lock_path(p, LOCK), O_RDWR | O_CLOEXEC);
    assert_true(pread(fd, &byte, 1, at) == 1);
    byte ^= 0x5a;
    assert_true(pwrite(fd, &byte, 1, at) == 1);
    close(fd);
}

/* No changed byte of an active slot lets a writer in. */
static void F28_no_changed_byte_of_a_slot_lets_a_writer_in(void **state) {
    test_dir *p = *state;
    actor *reader = actor_new(p, NULL), *other = actor_new(p, NULL);
    TAKES(reader, NEVER_LOOKS);
    for (int i = (int)offsetof(hf__slot, token); i < (int)sizeof(hf__slot); i++) {
        flip_byte(p, SLOTS_AT + i);
        hf_result r = TRIES(other, WRITE_).result;
        if (r != HF_PROTOCOL) t_fail("byte %d: the call returned %s", i, hf_result_name(r));
        r = TRIES(other, 0).result;
        if (r != HF_PROTOCOL)
            t_fail("byte %d: the acquire of the mutex returned %s", i, hf_result_name(r));
        flip_byte(p, SLOTS_AT + i);
    }
    IS(HF_BUSY, TRIES(other, WRITE_));
    assert_true(actor_holds(reader));
    FREES(reader);
    TAKES(other, WRITE_);
}

/* ---- The records of the holders are gone ----------------------------------------------------- */

/* The end of the first two slots of the table. */
enum { TABLE_END = SLOTS_AT + 2 * SLOT_SIZE };

static void read_all(const test_dir *p, unsigned char bytes[TABLE_END]) {
    int fd = open(lock_path(p, LOCK), O_RDONLY | O_CLOEXEC);
    assert_true(pread(fd, bytes, TABLE_END, 0) == TABLE_END);
    close(fd);
}

static void write_at(const test_dir *p, const void *bytes, size_t length, int64_t at) {
    int fd = open(lock_path(p, LOCK), O_WRONLY | O_CLOEXEC);
    assert_true(pwrite(fd, bytes, length, at) == (ssize_t)length);
    close(fd);
}

/* Neither another client nor another owner of a client that holds the lock. */
static void check_nobody_gets_in(actor *inside, actor *other, int64_t cut_at) {
    actor_result tried[] = {TRIES(other, WRITE_), TRIES(other, 0),
                            TRIES(inside, WRITE_, .owner = 7), DO(other, do_inspect),
                            DO(other, do_break)};
    for (size_t i = 0; i < sizeof tried / sizeof *tried; i++)
        if (tried[i].result != HF_PROTOCOL)
            t_fail("cut at %lld: try %zu returned %s", (long long)cut_at, i,
                   hf_result_name(tried[i].result));
}

typedef struct readers_in {
    actor *first, *second, *other; /* the first two read */
    unsigned char whole[TABLE_END];
} readers_in;

static void read_by_two(test_dir *p, readers_in *s) {
    *s = (readers_in){actor_new(p, NULL), actor_new(p, NULL), actor_new(p, NULL), {0}};
    TAKES(s->first, NEVER_LOOKS);
    TAKES(s->second, NEVER_LOOKS);
    read_all(p, s->whole);
}

static void F28_a_file_cut_short_under_readers_lets_nobody_in(void **state) {
    static const int64_t lengths[] = {0, 1, 600, SLOTS_AT, SLOTS_AT + 8, SLOTS_AT + SLOT_SIZE};
    test_dir *p = *state;
    readers_in s;
    read_by_two(p, &s);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        assert_int_equal(truncate(lock_path(p, LOCK), lengths[i]), 0);
        check_nobody_gets_in(s.second, s.other, lengths[i]);
        write_at(p, s.whole, sizeof s.whole, 0);
    }
    IS(HF_BUSY, TRIES(s.other, WRITE_));
    assert_true(actor_holds(s.first) && actor_holds(s.second));
    FREES(s.first);
    FREES(s.second);
    TAKES(s.other, WRITE_);
}

static void F28_a_slot_overwritten_with_zeros_is_not_an_empty_one(void **state) {
    static const char zeros[SLOT_SIZE];
    test_dir *p = *state;
    readers_in s;
    read_by_two(p, &s);
    for (int i = 0; i < 2; i++) {
        int64_t slot = SLOTS_AT + (int64_t)i * SLOT_SIZE;
        write_at(p, zeros, sizeof(uint64_t), slot + (int64_t)offsetof(hf__slot, acquire_id));
        check_nobody_gets_in(s.second, s.other, slot);
        write_at(p, zeros, sizeof zeros, slot);
        check_nobody_gets_in(s.second, s.other, slot);
        write_at(p, s.whole, sizeof s.whole, 0);
    }
    IS(HF_BUSY, TRIES(s.other, WRITE_));
}

static hf__kinds_head kinds_head_of(const test_dir *p) {
    hf__kinds_head kinds;
    int fd = open(lock_path(p, LOCK), O_RDONLY | O_CLOEXEC);
    assert_true(pread(fd, &kinds, sizeof kinds, offsetof(hf__head, kinds)) ==
                (ssize_t)sizeof kinds);
    close(fd);
    return kinds;
}

static void F28_a_kinds_table_head_overwritten_with_zeros_lets_no_mutex_in(void **state) {
    static const char zeros[sizeof(hf__kinds_head)];
    test_dir *p = *state;
    actor *reader = actor_new(p, NULL), *other = actor_new(p, NULL);
    TAKES(reader, NEVER_LOOKS);
    write_at(p, zeros, sizeof zeros, offsetof(hf__head, kinds));
    IS(HF_BUSY, TRIES(other, 0));
    IS(HF_BUSY, TRIES(other, WRITE_));
    assert_true(actor_holds(reader));
    actor_kill(reader); /* a leaving process rewrites the head */
    TAKES(other);
    assert_true(kinds_head_of(p).checksum != 0); /* the mutex has closed it */
}

/* The head does not contain the token, and the clock was set back since. */
static void B28_tokens_grow_beyond_those_of_present_holders(void **state) {
    static const char zeros[sizeof(hf__kinds_head)];
    test_dir *p = *state;
    hf__slot slot;
    actor *reader = actor_new(p, NULL), *other = actor_new(p, NULL);
    uint64_t ahead = TAKES(reader, NEVER_LOOKS) + UINT64_C(3600000000);
    int fd = open(lock_path(p, LOCK), O_RDWR | O_CLOEXEC);
    assert_int_equal(hf__slot_read(fd, 0, &slot), 0);
    slot.token = ahead;
    assert_int_equal(hf__slot_write(fd, 0, &slot, false), 0);
    close(fd);
    write_at(p, zeros, sizeof zeros, offsetof(hf__head, kinds));
    assert_true(TAKES(other, READ_) > ahead);
}

static void F28_a_file_cut_to_nothing_is_new_when_the_last_holder_has_left(void **state) {
    test_dir *p = *state;
    actor *reader = actor_new(p, NULL), *other = actor_new(p, NULL);
    TAKES(reader, NEVER_LOOKS);
    assert_int_equal(truncate(lock_path(p, LOCK), 0), 0);
    IS(HF_PROTOCOL, TRIES(other, WRITE_));
    FREES(reader);
    TAKES(other, WRITE_);
}

static void F25_readers_of_a_file_cut_to_nothing_are_notified(void **state) {
    test_dir *p = *state;
    actor *reader = actor_new(p, NULL), *other = actor_new(p, NULL);
    TAKES(reader, READ_, .lease_ms = t_patience(300));
    assert_int_equal(truncate(lock_path(p, LOCK), 0), 0);
    IS(HF_PROTOCOL, TRIES(other, 0));
    actor_lost(reader);
    /* The reader's client closes the file a moment after it reports the loss. Then it is new. */
    T_WAIT_UNTIL(TRIES(other, WRITE_).result == HF_OK, 10000);
}

static void F25_a_reader_whose_slot_is_damaged_is_notified_at_its_next_renewal(void **state) {
    test_dir *p = *state;
    actor *reader = actor_new(p, NULL), *waiter = actor_new(p, NULL);
    TAKES(reader, READ_, .lease_ms = t_patience(300));
    WAITS(waiter, WRITE_, WAIT);
    flip_byte(p, SLOTS_AT + (int)offsetof(hf__slot, token));
    actor_lost(reader);
    hf_result r = actor_end(waiter).result; /* depending on what it finds first */
    assert_true(r == HF_PROTOCOL || r == HF_OK);
    actor_kill(waiter);
    TAKES(reader, WRITE_); /* a dead holder does not count */
}

/* A slot without a locked range belongs to nobody, whatever it contains. */
static void F28_slots_without_an_owner_are_ignored(void **state) {
    test_dir *p = *state;
    actor *a = actor_new(p, NULL);
    unsigned char slots[8 * SLOT_SIZE];
    TAKES(a, READ_);
    FREES(a);
    memset(slots, 0x77, sizeof slots);
    int fd = open(lock_path(p, LOCK), O_RDWR | O_CLOEXEC);
    assert_true(pwrite(fd, slots, sizeof slots, SLOTS_AT) == (ssize_t)sizeof slots);
    close(fd);
    TAKES(a, WRITE_);
    assert_int_equal(DO(a, do_count).number, 1);
    FREES(a);
    TAKES(a);
}

static void F28_no_changed_byte_of_the_kinds_table_head_lets_a_writer_in(void **state) {
    test_dir *p = *state;
    actor *reader = actor_new(p, NULL), *other = actor_new(p, NULL);
    TAKES(reader, NEVER_LOOKS);
    for (size_t i = 0; i < sizeof(hf__kinds_head); i++) {
        flip_byte(p, (int64_t)(offsetof(hf__head, kinds) + i));
        IS(HF_PROTOCOL, TRIES(other, WRITE_));
        IS(HF_PROTOCOL, TRIES(other, 0));
        flip_byte(p, (int64_t)(offsetof(hf__head, kinds) + i));
    }
    IS(HF_BUSY, TRIES(other, 0));
}

/* ---- F25: the file is gone ------------------------------------------------------------------- */

static void F25_holders_and_waiters_of_a_removed_kinds_table_move_on(void **state) {
    test_dir *p = *state;
    actor *reader = actor_new(p, NULL), *writer = actor_new(p, NULL), *next = actor_new(p, NULL);
    TAKES(reader, READ_, .lease_ms = t_patience(300));
    WAITS(writer, WRITE_, WAIT);
    WAITS(next, READ_, WAIT);
    assert_int_equal(unlink(lock_path(p, LOCK)), 0);
    actor_lost(reader);
    GETS(writer);
    assert_int_equal(DO(reader, do_count).number, 1);
    assert_false(actor_ended(next));
    FREES(writer);
    GETS(next);
}

/* For one client: its hold in the removed file is over when it takes the lock in the new file. */
static void F25_a_client_has_nothing_in_two_files_of_a_name(void **state) {
    test_dir *p = *state;
    actor *a = actor_new(p, NULL);
    TAKES(a, READ_, .lease_ms = 60000);
    assert_int_equal(unlink(lock_path(p, LOCK)), 0);
    uint64_t token = TAKES(a, WRITE_, .owner = 7, .lease_ms = 60000);
    UNTIL(DO(a, do_held).lost == 1);
    actor_result got = DO(a, do_inspect);
    assert_true(got.token == token);
    assert_true(actor_holds(a));
    FREES(a);
    IS(HF_LOST, DO(a, do_release));
}

/* ---- Full ------------------------------------------------------------------------------------ */

static void do_fill(actor_state *me, const actor_request *q, actor_result *a) {
    hf_options o = {.kind = HF_PERMITS, .capacity = 2 * HF__SLOTS_MAX};
    hf_hold *hold = NULL;
    while ((a->result = hf_acquire(me->client, q->name, &o, &hold)) == HF_OK) a->number++;
    snprintf(a->detail, sizeof a->detail, "%s", hf_error_detail());
    T_HF(HF_OK, hf_release(me->holds[0]));
    me->held = 0;
    T_HF(HF_OK, hf_acquire(me->client, q->name, &o, &me->holds[0]));
    me->held = 1;
}

static void F45_a_full_table_is_reported(void **state) {
    test_dir *p = *state;
    actor *a = actor_new(p, NULL), *other = actor_new(p, NULL);
    TAKES(a, .kind = HF_PERMITS, .capacity = 2 * HF__SLOTS_MAX);
    actor_result got = IS(HF_NOMEM, DO(a, do_fill));
    assert_int_equal(got.number, HF__SLOTS_MAX - 1);
    check_detail(got.detail, "1024");
    IS(HF_BUSY, TRIES(other, 0));
    IS(HF_NOMEM, TRIES(other, WAIT));
    actor_kill(a);
    TAKES(other);
}

static const struct CMUnitTest tests[] = {
    FILE_TEST(B13_leaving_the_kinds_table_or_its_queue_notifies_the_next),
    FILE_TEST(F46_killed_readers_let_the_writer_in_with_the_last_of_them),
    FILE_TEST(F46_a_killed_writer_lets_all_readers_in_together),
    FILE_TEST(F46_a_queued_writer_that_is_killed_delays_no_reader),
    FILE_TEST(F46_an_upgrader_killed_in_its_wait_leaves_the_queue_and_the_kinds_table),
    FILE_TEST(F46_an_upgraded_reader_that_is_killed_frees_all),
    FILE_TEST(F46_an_upgrade_is_done_when_the_last_reader_is_killed),
    FILE_TEST(F46_permits_of_a_killed_holder_come_back_at_once),
    FILE_TEST(F46_the_new_first_waiter_is_notified_when_holders_die),
    FILE_TEST(F46_killed_at_any_step_of_an_acquire),
    FILE_TEST(F46_killed_at_any_step_of_a_release),
    FILE_TEST(F46_killed_at_any_step_of_an_upgrade),
    FILE_TEST(F46_killed_at_any_step_of_a_downgrade),
    FILE_TEST(F46_killed_at_any_step_of_creating_the_kinds_table),
    FILE_TEST(F14_an_upgrade_that_cannot_be_written_leaves_the_hold_as_it_was),
    FILE_TEST(F28_a_slot_that_changes_hands_during_an_inspection_is_not_damaged),
    FILE_TEST(F28_a_slot_that_is_being_taken_or_left_is_not_damaged),
    FILE_TEST(F03_a_process_stopped_with_the_entry_lock_costs_nobody_a_hold),
    FILE_TEST(F03_a_process_stopped_while_it_creates_the_kinds_table_is_no_holder),
    FILE_TEST(B08_a_stopped_first_waiter_of_the_kinds_table_is_passed_and_served_later),
    FILE_TEST(B13_waiting_for_the_kinds_table_rarely_polls),
    FILE_TEST(B16_a_mutex_and_readers_are_served_in_order_of_arrival),
    FILE_TEST(B08_waiters_of_one_client_are_served_in_order_of_arrival),
    FILE_TEST(F46_a_mutex_and_a_reader_are_notified_of_each_other_s_death),
    FILE_TEST(B16_the_kinds_table_is_closed_when_the_last_holder_has_left),
    FILE_TEST(B28_tokens_grow_from_the_kinds_table_to_the_mutex_and_back),
    FILE_TEST(B26_one_of_several_holders_is_broken_by_its_token),
    FILE_TEST(B26_a_stopped_reader_obeys_when_it_continues),
    FILE_TEST(F28_no_changed_byte_of_a_slot_lets_a_writer_in),
    FILE_TEST(F28_a_file_cut_short_under_readers_lets_nobody_in),
    FILE_TEST(F28_a_slot_overwritten_with_zeros_is_not_an_empty_one),
    FILE_TEST(F28_a_kinds_table_head_overwritten_with_zeros_lets_no_mutex_in),
    FILE_TEST(B28_tokens_grow_beyond_those_of_present_holders),
    FILE_TEST(F28_a_file_cut_to_nothing_is_new_when_the_last_holder_has_left),
    FILE_TEST(F25_readers_of_a_file_cut_to_nothing_are_notified),
    FILE_TEST(F25_a_reader_whose_slot_is_damaged_is_notified_at_its_next_renewal),
    FILE_TEST(F28_slots_without_an_owner_are_ignored),
    FILE_TEST(F28_no_changed_byte_of_the_kinds_table_head_lets_a_writer_in),
    FILE_TEST(F25_holders_and_waiters_of_a_removed_kinds_table_move_on),
    FILE_TEST(F25_a_client_has_nothing_in_two_files_of_a_name),
    FILE_TEST(F45_a_full_table_is_reported),
};

FILE_MAIN(tests)
