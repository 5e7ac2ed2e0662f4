/* SPDX-License-Identifier: Apache-2.0 */
/* See kit.h. */
#include "kit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* SIGALRM ends a test that hangs. cmocka has printed its name by then. */
enum { HANG_MS = 40000, DISMISS_MS = 1000, PATHS = 8 };

/* ---- Around a test --------------------------------------------------------------------------- */

void file_begin(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 1) cmocka_set_test_filter(argv[1]);
}

/* The pattern has selected the tests. It must not also filter the tests that children run as. */
int file_all(void **state) {
    (void)state;
    cmocka_set_test_filter(NULL);
    return 0;
}

int test_dir_set_up(void **state) {
    test_dir *p = calloc(1, sizeof *p);
    if (!p) return -1;
    *state = p;
    alarm((unsigned)(t_patience(HANG_MS) / 1000));
    snprintf(p->directory, sizeof p->directory, "/tmp/hf-file-XXXXXX");
    if (!mkdtemp(p->directory)) return -1;
    snprintf(p->url, sizeof p->url, "file://%s", p->directory);
    return 0;
}

static void end_actor(actor *a);

int test_dir_tear_down(void **state) {
    test_dir *p = *state;
    for (int i = 0; i < ACTORS_MAX; i++)
        if (p->actors[i]) end_actor(p->actors[i]);
    remove_tree(p->directory);
    alarm(0);
    free(p);
    return 0;
}

/* ---- Files ----------------------------------------------------------------------------------- */

static char *next_path(void) {
    static char paths[PATHS][PATH_SIZE];
    static int next;
    return paths[next++ % PATHS];
}

const char *path_of(const test_dir *p, const char *file) {
    char *path = next_path();
    snprintf(path, PATH_SIZE, "%s/%s", p->directory, file);
    return path;
}

const char *lock_path(const test_dir *p, const char *name) {
    char *path = next_path();
    snprintf(path, PATH_SIZE, "%s/lock.hf.%s", p->directory, name);
    return path;
}

const char *url_with(const test_dir *p, const char *options) {
    char *url = next_path();
    snprintf(url, PATH_SIZE, "%s?%s", p->url, options);
    return url;
}

int files_like(const test_dir *p, const char *start) {
    int count = 0;
    DIR *dir = opendir(p->directory);
    if (!dir) t_fail("cannot open %s: %s", p->directory, strerror(errno));
    for (struct dirent *entry; (entry = readdir(dir));)
        count += !strncmp(entry->d_name, start, strlen(start));
    closedir(dir);
    return count;
}

void remove_fifos(const test_dir *p) {
    DIR *dir = opendir(p->directory);
    if (!dir) t_fail("cannot open %s: %s", p->directory, strerror(errno));
    for (struct dirent *entry; (entry = readdir(dir));)
        if (!strncmp(entry->d_name, "life.", 5) || !strncmp(entry->d_name, "wake.", 5))
            (void)unlinkat(dirfd(dir), entry->d_name, 0);
    closedir(dir);
}

void remove_tree(const char *directory) {
    DIR *dir = opendir(directory);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
        if (unlinkat(dirfd(dir), entry->d_name, 0) == 0) continue;
        char path[PATH_SIZE];
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        remove_tree(path);
    }
    if (dir) closedir(dir);
    (void)rmdir(directory);
}

/* ---- Mounts ---------------------------------------------------------------------------------- */

static bool unshare_mounts(void) {
    return unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0;
}

static int try_mounts(void *arg) {
    (void)arg;
    return !unshare_mounts();
}

void needs_mounts(void) {
    if (t_proc_wait(t_proc_start(try_mounts, NULL), SOON_MS) == 0) return;
    print_message("skipped: the test mounts filesystems, which needs root\n");
    skip();
}

void own_mounts(void) {
    if (!unshare_mounts()) t_fail("cannot unshare the mounts: %s", strerror(errno));
}

void mount_tmpfs(const char *path, const char *options) {
    if (mount("tmpfs", path, "tmpfs", 0, options) != 0)
        t_fail("cannot mount a tmpfs at %s: %s", path, strerror(errno));
}

/* ---- Actions --------------------------------------------------------------------------------- */

static atomic_int losses;
static hf_cancel *volatile cancel_on_signal;

static void count_loss(hf_hold *hold, void *arg) {
    (void)hold, (void)arg;
    atomic_fetch_add(&losses, 1);
}

static void fire_cancel(int number) {
    (void)number;
    hf_cancel_fire(cancel_on_signal);
}

static hf_hold *last_hold(const actor_state *me) {
    if (!me->held) t_fail("the actor has no hold");
    return me->holds[me->held - 1];
}

void do_open(actor_state *me, const actor_request *q, actor_result *a) {
    hf_client_options options = {.command_timeout_ms = q->options.wait_ms};
    a->result = hf_open(q->name, &options, &me->client);
}

void do_close(actor_state *me, const actor_request *q, actor_result *a) {
    (void)q, (void)a;
    hf_close(me->client);
    me->client = NULL;
}

void do_acquire(actor_state *me, const actor_request *q, actor_result *a) {
    hf_options options = q->options;
    hf_hold *hold = NULL;
    hf_cancel_free(me->cancel);
    me->cancel = cancel_on_signal = options.cancel = hf_cancel_new();
    if (signal(SIGUSR1, fire_cancel) == SIG_ERR) t_fail("cannot set the signal handler");
    options.on_lost = count_loss;
    a->result = hf_acquire(me->client, q->name, &options, &hold);
    if (!hold) return;
    T_CHECK(a->result == HF_OK && me->held < HOLDS_MAX);
    a->token = hf_fence(hold);
    me->holds[me->held++] = hold;
}

/* For races: a delay that can be chosen. */
static void spin_us(int64_t us) {
    for (int64_t end = t_now_us() + us; us && t_now_us() < end;) {
    }
}

void do_release(actor_state *me, const actor_request *q, actor_result *a) {
    spin_us(q->number);
    a->result = hf_release(last_hold(me));
    me->held--;
}

void do_extend(actor_state *me, const actor_request *q, actor_result *a) {
    a->result = hf_extend(last_hold(me), q->options.lease_ms);
}

void do_inspect(actor_state *me, const actor_request *q, actor_result *a) {
    hf_info *info = NULL;
    a->result = hf_inspect(me->client, q->name, &info);
    if (info) {
        a->token = info->token;
        a->number = info->held ? info->pid : 0;
    }
    hf_info_free(info);
}

void do_break(actor_state *me, const actor_request *q, actor_result *a) {
    spin_us(q->number);
    a->result = hf_break(me->client, q->name, q->token);
}

/* number: operations of the store */
void do_stats(actor_state *me, const actor_request *q, actor_result *a) {
    (void)q;
    hf_stats stats = {0};
    a->result = hf_stats_get(me->client, &stats);
    a->number = (int64_t)stats.commands;
}

void do_held(actor_state *me, const actor_request *q, actor_result *a) {
    (void)q;
    a->number = hf_held(last_hold(me));
}

void do_until(actor_state *me, const actor_request *q, actor_result *a) {
    (void)q, (void)a;
    hf_hold *hold = last_hold(me);
    UNTIL(atomic_load(&losses) > 0 && hf_why_lost(hold));
    T_CHECK(!hf_held(hold));
    struct pollfd lost = {.fd = hf_lost_fd(hold), .events = POLLIN};
    T_CHECK(poll(&lost, 1, (int)t_patience(SOON_MS)) == 1);
    snprintf(a->detail, sizeof a->detail, "%s", hf_why_lost(hold));
}

/* ---- Actors ---------------------------------------------------------------------------------- */

struct actor {
    test_dir *dir;
    t_proc *proc;
    int socket_fd; /* the test's end */
};

typedef struct actor_start {
    int socket_fd;
} actor_start;

static void perform_request(actor_state *me, int socket_fd, const actor_request *q) {
    actor_result a = {0};
    q->action(me, q, &a);
    a.lost = atomic_load(&losses);
    if (a.result && !*a.detail) snprintf(a.detail, sizeof a.detail, "%s", hf_error_detail());
    if (send(socket_fd, &a, sizeof a, MSG_NOSIGNAL) != (ssize_t)sizeof a)
        t_fail("the test has closed the socket");
}

/* Runs until the test closes the socket. */
static int actor_main(void *arg) {
    actor_start *b = arg;
    static actor_state me;
    static actor_request q;
    while (recv(b->socket_fd, &q, sizeof q, 0) == (ssize_t)sizeof q)
        perform_request(&me, b->socket_fd, &q);
    hf_close(me.client);
    hf_cancel_free(me.cancel);
    for (int i = 0; i < me.held; i++) hf_unref(me.holds[i]);
    return 0;
}

actor *actor_new(test_dir *p, const char *url) {
    int ends[2], slot = 0;
    actor *a = calloc(1, sizeof *a);
    while (slot < ACTORS_MAX && p->actors[slot]) slot++;
    if (!a || slot == ACTORS_MAX) t_fail("too many actors: raise ACTORS_MAX");
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        t_fail("socketpair: %s", strerror(errno));
    *a = (actor){
        .dir = p, .proc = t_proc_start(actor_main, &(actor_start){ends[1]}), .socket_fd = ends[0]};
    close(ends[1]);
    p->actors[slot] = a;
    actor_request open = {.action = do_open};
    snprintf(open.name, sizeof open.name, "%s", url ? url : p->url);
    IS(HF_OK, actor_do(a, &open));
    return a;
}

pid_t actor_pid(const actor *a) {
    return t_proc_pid(a->proc);
}

void actor_begin(actor *a, const actor_request *q) {
    if (send(a->socket_fd, q, sizeof *q, MSG_NOSIGNAL) != (ssize_t)sizeof *q)
        t_fail("the actor is gone: %s", strerror(errno));
}

static bool has_answer(actor *a, int64_t within_ms) {
    struct pollfd line = {.fd = a->socket_fd, .events = POLLIN};
    return poll(&line, 1, (int)within_ms) == 1;
}

bool actor_ended(actor *a) {
    return has_answer(a, 0);
}

static void remove_actor(actor *a) {
    for (int i = 0; i < ACTORS_MAX; i++)
        if (a->dir->actors[i] == a) a->dir->actors[i] = NULL;
    close(a->socket_fd);
    free(a);
}

actor_result actor_end(actor *a) {
    actor_result got;
    if (!has_answer(a, t_patience(SOON_MS))) t_fail("the actor does not answer");
    if (recv(a->socket_fd, &got, sizeof got, 0) == (ssize_t)sizeof got) return got;
    t_proc *proc = a->proc;
    remove_actor(a);
    t_fail("the actor ended, with status %d", t_proc_wait(proc, SOON_MS)); /* shows its output */
}

bool actor_survives(actor *a, actor_result *got) {
    if (!has_answer(a, t_patience(SOON_MS))) t_fail("the actor does not answer");
    if (recv(a->socket_fd, got, sizeof *got, 0) == (ssize_t)sizeof *got) return true;
    t_proc *proc = a->proc;
    remove_actor(a);
    assert_int_equal(t_proc_wait(proc, SOON_MS), 128 + SIGKILL);
    return false;
}

actor_result actor_do(actor *a, const actor_request *q) {
    actor_begin(a, q);
    return actor_end(a);
}

void actor_signal(actor *a, int signal_number) {
    t_proc_kill(a->proc, signal_number);
}

void actor_kill(actor *a) {
    t_proc *proc = a->proc;
    t_proc_kill(proc, SIGKILL);
    remove_actor(a);
    (void)t_proc_wait(proc, SOON_MS);
}

/* It closes its client and ends if it can. A process that is stuck after a failed test is
   killed. */
static void end_actor(actor *a) {
    siginfo_t ended = {0};
    /* A close alone is not enough: later actors have a copy of the socket. */
    (void)shutdown(a->socket_fd, SHUT_RDWR);
    t_proc_kill(a->proc, SIGCONT);
    for (int i = 0; i < DISMISS_MS && !ended.si_pid; i++) {
        (void)waitid(P_PID, (id_t)actor_pid(a), &ended, WEXITED | WNOHANG | WNOWAIT);
        if (!ended.si_pid) t_sleep_ms(1);
    }
    actor_kill(a);
}

void actor_leaves(actor *a, int status) {
    t_proc *proc = a->proc;
    remove_actor(a);
    assert_int_equal(t_proc_wait(proc, SOON_MS), status);
}

/* ---- Shorthands ------------------------------------------------------------------------------ */

actor_result answer_is(hf_result expected, actor_result got, const char *what, const char *file,
                       int line) {
    if (got.result != expected)
        t_fail_at(file, line, "%s returned %s (%s), not %s", what, hf_result_name(got.result),
                  got.detail, hf_result_name(expected));
    return got;
}

uint64_t actor_takes(actor *a, const hf_options *options, const char *file, int line) {
    actor_result got = DO(a, do_acquire, .options = *options);
    return answer_is(HF_OK, got, "an acquire", file, line).token;
}

void actor_waits(actor *a, const hf_options *options) {
    const char *path = lock_path(a->dir, LOCK);
    int before = t_queue_length(path);
    actor_begin(a, &(actor_request){.action = do_acquire, .name = LOCK, .options = *options});
    UNTIL(t_queue_length(path) == before + 1);
}

uint64_t actor_gets(actor *a, const char *file, int line) {
    return answer_is(HF_OK, actor_end(a), "a wait", file, line).token;
}

void actor_says(actor *a, actor_action *what, hf_result expected, const char *file, int line) {
    (void)answer_is(expected, DO(a, what), "the action", file, line);
}

bool actor_holds(actor *a) {
    return DO(a, do_held).number;
}

void actor_lost(actor *a) {
    assert_int_equal(DO(a, do_until).lost, 1);
    assert_false(actor_holds(a));
    IS(HF_LOST, DO(a, do_release));
    assert_int_equal(DO(a, do_stats).lost, 1);
}

void check_detail(const char *detail, const char *part) {
    if (!strstr(detail, part)) t_fail("\"%s\" does not contain \"%s\"", detail, part);
}
