/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forks, execs and pipes (F42, F43). A lock belongs to the process that took it, not to its
 * children. Waking other processes cannot harm the process that wakes them.
 */
#include "kit.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/file/lockfile.h"

/* ---- Children of actors ---------------------------------------------------------------------- */

/* Bystanders survive the actor, become children of the test, and end with the test. */
static pid_t fork_bystander(void) {
    int ready[2];
    char byte = 0;
    if (pipe2(ready, O_CLOEXEC) != 0) t_fail("pipe2 failed");
    pid_t pid = fork();
    if (pid < 0) t_fail("fork failed");
    if (pid) { /* until its fork handlers have run */
        T_CHECK(read(ready[0], &byte, 1) == 1);
        close(ready[0]);
        close(ready[1]);
        return pid;
    }
    T_CHECK(write(ready[1], &byte, 1) == 1);
    alarm((unsigned)(t_patience(60000) / 1000));
    for (;;) pause();
}

static void adopt_children(void) {
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
}

static void end_bystander(pid_t pid) {
    assert_int_equal(kill(pid, 0), 0); /* it was there all the time */
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_true(waitpid(pid, NULL, 0) == pid);
}

/* Number of descriptors that a process has on files of the directory. `itself` also counts the
   directory. */
static int descriptors_in(const test_dir *p, pid_t pid, bool itself) {
    char path[64];
    int count = 0;
    size_t length = strlen(p->directory);
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *dir = opendir(path);
    if (!dir) t_fail("cannot read the descriptors of process %d", (int)pid);
    for (struct dirent *entry; (entry = readdir(dir));) {
        char target[PATH_MAX] = "";
        if (readlinkat(dirfd(dir), entry->d_name, target, sizeof target - 1) < 0) continue;
        if (strncmp(target, p->directory, length) != 0) continue;
        count += target[length] == '/' || itself;
    }
    closedir(dir);
    return count;
}

/* ---- F42 ------------------------------------------------------------------------------------- */

static void do_fork(actor_state *me, const actor_request *q, actor_result *a) {
    (void)me, (void)q;
    a->number = fork_bystander();
}

static void F42_a_surviving_child_keeps_no_lock_of_its_parent(void **state) {
    test_dir *p = *state;
    adopt_children();
    actor *holder = actor_new(p, NULL), *next = actor_new(p, NULL);
    TAKES(holder, .lease_ms = 60000);
    pid_t child = (pid_t)DO(holder, do_fork).number;
    assert_true(descriptors_in(p, actor_pid(holder), false) > 0);
    assert_int_equal(descriptors_in(p, child, false), 0);
    IS(HF_BUSY, TRIES(next, 0));
    actor_kill(holder);
    TAKES(next);
    end_bystander(child);
}

static void F42_a_surviving_child_is_not_in_the_kinds_table(void **state) {
    test_dir *p = *state;
    adopt_children();
    actor *reader = actor_new(p, NULL), *next = actor_new(p, NULL);
    TAKES(reader, .kind = HF_READ, .lease_ms = 60000);
    pid_t child = (pid_t)DO(reader, do_fork).number;
    assert_int_equal(descriptors_in(p, child, false), 0);
    IS(HF_BUSY, TRIES(next, .kind = HF_WRITE));
    WAITS(next, .kind = HF_WRITE, .wait_ms = SOON_MS);
    actor_kill(reader);
    GETS(next);
    end_bystander(child);
}

/* A waiter behind the parent is notified of its death although a child lives. */
static void F42_a_surviving_child_does_not_hide_the_death_of_its_parent(void **state) {
    test_dir *p = *state;
    int64_t best = INT64_MAX;
    adopt_children();
    actor *next = actor_new(p, NULL);
    for (int i = 0; i < ROUNDS; i++) {
        actor *holder = actor_new(p, NULL);
        TAKES(holder, .lease_ms = 60000);
        pid_t child = (pid_t)DO(holder, do_fork).number;
        WAITS(next, .wait_ms = SOON_MS);
        int64_t began = t_now_ms();
        actor_kill(holder);
        GETS(next);
        if (t_now_ms() - began < best) best = t_now_ms() - began;
        FREES(next);
        end_bystander(child);
    }
    assert_true(best < NOTIFIED_MS);
}

static void wait_in_thread(int index, void *arg) {
    hf_hold *hold;
    (void)index;
    T_HF(HF_OK, hf_lock(arg, LOCK, &hold)); /* it is killed before this returns */
}

static void do_wait_and_fork(actor_state *me, const actor_request *q, actor_result *a) {
    hf_stats stats = {0};
    (void)q;
    (void)t_threads_start(1, wait_in_thread, me->client);
    UNTIL(hf_stats_get(me->client, &stats) == HF_OK && stats.waiting == 1);
    a->number = fork_bystander();
}

static void F42_a_surviving_child_keeps_no_queue_position(void **state) {
    test_dir *p = *state;
    adopt_children();
    actor *holder = actor_new(p, NULL), *dying = actor_new(p, NULL), *last = actor_new(p, NULL);
    TAKES(holder);
    pid_t child = (pid_t)DO(dying, do_wait_and_fork).number;
    WAITS(last, .wait_ms = SOON_MS);
    assert_int_equal(descriptors_in(p, child, false), 0);
    actor_kill(dying);
    assert_int_equal(t_queue_length(lock_path(p, LOCK)), 1);
    FREES(holder);
    GETS(last);
    end_bystander(child);
}

/* A release in the parent works although a child was forked meanwhile. */
static void F42_the_parent_of_a_child_releases_as_usual(void **state) {
    test_dir *p = *state;
    adopt_children();
    actor *holder = actor_new(p, NULL), *next = actor_new(p, NULL);
    TAKES(holder);
    pid_t child = (pid_t)DO(holder, do_fork).number;
    FREES(holder);
    TAKES(next);
    FREES(next);
    IS(HF_OK, DO(holder, do_close));
    assert_int_equal(files_like(p, "life."), 1); /* of the other client */
    actor_kill(holder);
    end_bystander(child);
}

/* ---- F42: a fork at a bad moment ------------------------------------------------------------- */

/* The store opens its files with openat. Another thread forks right after that, or a little later
   if the store delays the fork. */
enum { FORK_WITHIN_MS = 100 };

static atomic_int fork_after; /* after how many more openings; 0: never */
static atomic_int forked;
static t_threads *forker;

static void fork_in_thread(int index, void *arg) {
    (void)index, (void)arg;
    atomic_store(&forked, (int)fork_bystander());
}

static void fork_at_last(void) {
    int left = atomic_load(&fork_after);
    if (!left) return;
    atomic_store(&fork_after, left - 1);
    if (left > 1) return;
    forker = t_threads_start(1, fork_in_thread, NULL);
    for (int i = 0; i < FORK_WITHIN_MS && !atomic_load(&forked); i++) t_sleep_ms(1);
}

/* The child forked after the n-th opening of an action; 0 if there are fewer. */
static pid_t fork_in_action(int n, actor_action *what, actor_state *me, const actor_request *q,
                            actor_result *a) {
    atomic_store(&forked, 0);
    atomic_store(&fork_after, n);
    what(me, q, a);
    if (atomic_exchange(&fork_after, 0)) return 0;
    t_threads_join(forker, SOON_MS);
    return (pid_t)atomic_load(&forked);
}

#define WRAP_OPENAT(name)                                                  \
    int __real_##name(int directory, const char *path, int flags, ...);    \
    int __wrap_##name(int directory, const char *path, int flags, ...);    \
    int __wrap_##name(int directory, const char *path, int flags, ...) {   \
        va_list args;                                                      \
        va_start(args, flags);                                             \
        int fd = __real_##name(directory, path, flags, va_arg(args, int)); \
        va_end(args);                                                      \
        fork_at_last();                                                    \
        return fd;                                                         \
    }

WRAP_OPENAT(openat)
WRAP_OPENAT(openat64)

static void do_acquire_forking(actor_state *me, const actor_request *q, actor_result *a) {
    a->number = fork_in_action((int)q->number, do_acquire, me, q, a);
}

/* Forks after each opening of an acquire. One of them opens the lock's file. */
static void F42_a_child_forked_while_files_are_opened_keeps_no_lock(void **state) {
    test_dir *p = *state;
    adopt_children();
    actor *next = actor_new(p, NULL);
    for (int n = 1;; n++) {
        actor *holder = actor_new(p, NULL);
        actor_result got =
            IS(HF_OK, DO(holder, do_acquire_forking, .number = n, .options = {.lease_ms = 60000}));
        actor_kill(holder);
        if (!got.number) break;
        int left = descriptors_in(p, (pid_t)got.number, false);
        actor_result tried = TRIES(next, 0);
        end_bystander((pid_t)got.number);
        IS(HF_OK, tried);
        FREES(next);
        assert_int_equal(left, 0);
        assert_in_range(n, 1, 20);
    }
}

/* Makes the last token higher than the clock. A sweep reads such a file and keeps it. */
static void make_worth_keeping(const test_dir *p) {
    hf__head head;
    struct timespec long_ago[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
    int fd = open(lock_path(p, LOCK), O_RDWR | O_CLOEXEC);
    assert_true(pread(fd, &head, sizeof head, 0) == (ssize_t)sizeof head);
    head.record.token *= 2;
    assert_int_equal(hf__lockfile_write_record(fd, &head.record), 0);
    assert_int_equal(futimens(fd, long_ago), 0);
    close(fd);
}

static void do_close_forking(actor_state *me, const actor_request *q, actor_result *a) {
    a->number = fork_in_action((int)q->number, do_close, me, q, a);
}

/* The same for a sweep, which locks the files it may remove. */
static void F42_a_child_forked_in_a_sweep_keeps_no_lock(void **state) {
    test_dir *p = *state;
    adopt_children();
    actor *next = actor_new(p, NULL);
    TAKES(next);
    FREES(next);
    for (int n = 1;; n++) {
        make_worth_keeping(p);
        actor *sweeper = actor_new(p, url_with(p, "keep=1ms"));
        pid_t child = (pid_t)DO(sweeper, do_close_forking, .number = n).number;
        actor_kill(sweeper);
        if (!child) break;
        actor_result tried = TRIES(next, 0);
        end_bystander(child);
        IS(HF_OK, tried);
        FREES(next);
        assert_in_range(n, 1, 20);
    }
}

/* ---- F42: descriptors of the program --------------------------------------------------------- */

/* The program later reuses descriptor numbers that the store had, and a child needs those
   descriptors. */
static void do_fork_with_descriptors(actor_state *me, const actor_request *q, actor_result *a) {
    enum { COUNT = 40 };
    int fds[COUNT];
    char name[32];
    (void)q;
    for (int i = 0; i < COUNT; i++) {
        hf_hold *hold;
        snprintf(name, sizeof name, "n%d", i);
        T_HF(HF_OK, hf_try_lock(me->client, name, &hold));
        T_HF(HF_OK, hf_release(hold));
    }
    hf_close(me->client);
    me->client = NULL;
    for (int i = 0; i < COUNT; i++) fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    pid_t pid = fork();
    if (pid == 0) {
        int gone = 0;
        for (int i = 0; i < COUNT; i++) gone += fcntl(fds[i], F_GETFD) < 0;
        _exit(gone);
    }
    int status = -1;
    T_CHECK(waitpid(pid, &status, 0) == pid);
    a->number = status;
}

static void F42_a_child_keeps_the_descriptors_of_the_program(void **state) {
    test_dir *p = *state;
    actor *a = actor_new(p, NULL);
    assert_int_equal(DO(a, do_fork_with_descriptors).number, 0);
}

/* ---- F43: exec ------------------------------------------------------------------------------- */

static char *const sleeper[] = {"sleep", "600", NULL};

/* Without fork handlers, like a program started by system() or popen(). */
static void do_spawn(actor_state *me, const actor_request *q, actor_result *a) {
    extern char **environ;
    pid_t pid = 0;
    (void)me, (void)q;
    T_CHECK(posix_spawn(&pid, "/bin/sleep", NULL, NULL, sleeper, environ) == 0);
    a->number = pid;
}

static void F43_a_program_that_is_started_inherits_nothing(void **state) {
    test_dir *p = *state;
    adopt_children();
    actor *holder = actor_new(p, NULL), *waiter = actor_new(p, NULL), *next = actor_new(p, NULL);
    TAKES(holder);
    IS(HF_TIMEOUT, TRIES(waiter, .wait_ms = 10));
    actor *both[] = {holder, waiter};
    pid_t programs[2];
    for (int i = 0; i < 2; i++) {
        programs[i] = (pid_t)DO(both[i], do_spawn).number;
        assert_int_equal(descriptors_in(p, programs[i], true), 0);
    }
    actor_kill(holder);
    actor_kill(waiter);
    TAKES(next);
    for (int i = 0; i < 2; i++) end_bystander(programs[i]);
}

static void do_exec(actor_state *me, const actor_request *q, actor_result *a) {
    (void)me, (void)q, (void)a;
    execv("/bin/sleep", sleeper);
    t_fail("exec failed");
}

static void F43_a_process_that_executes_another_program_frees_its_locks(void **state) {
    test_dir *p = *state;
    actor *holder = actor_new(p, NULL), *next = actor_new(p, NULL);
    TAKES(holder, .lease_ms = 60000);
    WAITS(next, .wait_ms = SOON_MS);
    actor_begin(holder, &(actor_request){.action = do_exec});
    GETS(next);
    assert_int_equal(descriptors_in(p, actor_pid(holder), true), 0);
    actor_kill(holder);
}

/* ---- F43: SIGPIPE, and FIFOs that are full --------------------------------------------------- */

enum { PEER = 0xabcd };

static const char *peer_fifo(const test_dir *p) {
    return path_of(p, "wake.0000abcd");
}

/* A waiter played by the test: it has a queue ticket and a FIFO. */
static int play_waiter(const test_dir *p, int *fifo) {
    if (mkfifo(peer_fifo(p), 0600) != 0) assert_int_equal(access(peer_fifo(p), F_OK), 0);
    *fifo = open(peer_fifo(p), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    assert_true(*fifo >= 0);
    return t_queue_join(lock_path(p, LOCK), 0, PEER);
}

/* The waiter is woken with the lock's inode and no acquire id. The next time it is gone. The waking
   process survives. */
static void F43_waking_a_client_that_has_just_died_raises_no_signal(void **state) {
    test_dir *p = *state;
    actor *holder = actor_new(p, NULL);
    uint64_t message[2] = {0, 1};
    struct stat st;
    int fifo;
    TAKES(holder);
    int ticket_fd = play_waiter(p, &fifo);
    FREES(holder);
    assert_true(read(fifo, message, sizeof message) == (ssize_t)sizeof message);
    assert_int_equal(stat(lock_path(p, LOCK), &st), 0);
    assert_true(message[0] == st.st_ino && !message[1]);
    close(ticket_fd);
    close(fifo);

    TAKES(holder);
    ticket_fd = play_waiter(p, &fifo);
    close(fifo); /* dead, except for its queue ticket */
    FREES(holder);
    close(ticket_fd);
    TAKES(holder);
}

static void F43_a_client_that_reads_nothing_blocks_nobody(void **state) {
    test_dir *p = *state;
    actor *holder = actor_new(p, NULL);
    int fifo;
    TAKES(holder);
    int ticket_fd = play_waiter(p, &fifo);
    int fill = open(peer_fifo(p), O_RDWR | O_NONBLOCK | O_CLOEXEC);
    char page[4096] = {0};
    while (write(fill, page, sizeof page) > 0) {
    }
    FREES(holder);
    close(ticket_fd);
    TAKES(holder);
    close(fill);
    close(fifo);
}

/* Writes random numbers of random bytes into every FIFO of the directory. */
static void write_to_fifos(const test_dir *p) {
    DIR *dir = opendir(p->directory);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        if (strncmp(entry->d_name, "life.", 5) != 0 && strncmp(entry->d_name, "wake.", 5) != 0)
            continue;
        int fd = openat(dirfd(dir), entry->d_name, O_RDWR | O_NONBLOCK | O_CLOEXEC);
        assert_true(fd >= 0 && write(fd, "nonsense from outside", 21) == 21);
        close(fd);
    }
    closedir(dir);
}

/* Bytes from other programs in a client's FIFOs do no harm. */
static void F40_nonsense_in_a_fifo_harms_nobody(void **state) {
    test_dir *p = *state;
    actor *holder = actor_new(p, NULL), *next = actor_new(p, NULL);
    TAKES(holder);
    WAITS(next, .wait_ms = SOON_MS);
    write_to_fifos(p);
    FREES(holder);
    GETS(next);
    write_to_fifos(p);
    assert_true(actor_holds(next));
    IS(HF_OK, DO(next, do_extend, .options = {.lease_ms = 40000}));
    FREES(next);
}

static const struct CMUnitTest tests[] = {
    FILE_TEST(F42_a_surviving_child_keeps_no_lock_of_its_parent),
    FILE_TEST(F42_a_surviving_child_is_not_in_the_kinds_table),
    FILE_TEST(F42_a_surviving_child_does_not_hide_the_death_of_its_parent),
    FILE_TEST(F42_a_surviving_child_keeps_no_queue_position),
    FILE_TEST(F42_the_parent_of_a_child_releases_as_usual),
    FILE_TEST(F42_a_child_forked_while_files_are_opened_keeps_no_lock),
    FILE_TEST(F42_a_child_forked_in_a_sweep_keeps_no_lock),
    FILE_TEST(F42_a_child_keeps_the_descriptors_of_the_program),
    FILE_TEST(F43_a_program_that_is_started_inherits_nothing),
    FILE_TEST(F43_a_process_that_executes_another_program_frees_its_locks),
    FILE_TEST(F43_waking_a_client_that_has_just_died_raises_no_signal),
    FILE_TEST(F43_a_client_that_reads_nothing_blocks_nobody),
    FILE_TEST(F40_nonsense_in_a_fifo_harms_nobody),
};

FILE_MAIN(tests)
