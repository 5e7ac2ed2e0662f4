/* SPDX-License-Identifier: Apache-2.0 */
/* What a program that uses the library may do: exec, leave SIGPIPE at its default, receive signals
   at any time (F43). */
#include "t.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WATCHDOG_MS = 20000 };

static t_redis *redis;

static int start_redis(void **state) {
    (void)state;
    redis = t_redis_start(NULL);
    return 0;
}

static int stop_redis(void **state) {
    (void)state;
    t_redis_free(redis);
    return 0;
}

static hf_client *open_client(void) {
    hf_client *client;
    T_HF(HF_OK, hf_open(t_redis_url(redis), NULL, &client));
    return client;
}

/* ---- exec ---- */

/* Number of descriptors this program was started with, beyond the first three. */
static int count_descriptors(void) {
    DIR *dir = opendir("/proc/self/fd");
    if (!dir) return 125;
    int count = 0;
    for (const struct dirent *entry; (entry = readdir(dir));) {
        int fd = atoi(entry->d_name);
        if (fd > 2 && fd != dirfd(dir)) count++;
    }
    closedir(dir);
    return count;
}

static int count_in_program(void) {
    pid_t pid = fork();
    if (pid == 0) {
        char *const argv[] = {"process", "--count-descriptors", NULL};
        execv("/proc/self/exe", argv);
        _exit(126);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void never_lost(hf_hold *hold, void *arg) {
    (void)hold, (void)arg;
}

static void test_F43_nothing_is_inherited_by_exec(void **state) {
    (void)state;
    hf_hold *hold, *other;
    int before = count_in_program();
    hf_client *client = open_client(), *memory;
    T_HF(HF_OK, hf_open("memory:exec", NULL, &memory));
    hf_cancel *cancel = hf_cancel_new();
    assert_non_null(cancel);
    hf_options options = {.wait_ms = 100, .cancel = cancel, .on_lost = never_lost};
    T_HF(HF_OK, hf_acquire(client, "exec", &options, &hold));
    T_HF(HF_OK, hf_acquire(memory, "exec", &options, &other));
    assert_true(hf_lost_fd(hold) > 2 && hf_lost_fd(other) > 2);
    assert_int_equal(count_in_program(), before);
    T_HF(HF_OK, hf_release(hold));
    T_HF(HF_OK, hf_release(other));
    hf_cancel_free(cancel);
    hf_close(client);
    hf_close(memory);
}

/* ---- SIGPIPE ---- */

static atomic_int pipes;

static void count_pipe(int number) {
    (void)number;
    atomic_fetch_add(&pipes, 1);
}

/* The server closes while we send, again and again. */
static void test_F43_no_sigpipe(void **state) {
    (void)state;
    struct sigaction action = {.sa_handler = count_pipe}, before;
    sigaction(SIGPIPE, &action, &before);
    t_fake *fake = t_fake_start("HANDSHAKE\nRESET\nLOOP 8\nACCEPT\nHANDSHAKE\nCLOSE\nEND\n");
    char url[128];
    hf_client *client;
    hf_hold *hold;
    snprintf(url, sizeof url, "%s?outage=200ms", t_fake_url(fake));
    T_HF(HF_OK, hf_open(url, NULL, &client));
    int64_t until = t_now_ms() + t_patience(WATCHDOG_MS);
    hf_stats stats;
    do {
        /* A try, because a wait would open a second connection for notifications. */
        assert_int_not_equal(hf_try_lock(client, "n", &hold), HF_OK);
        t_sleep_ms(5);
        T_HF(HF_OK, hf_stats_get(client, &stats));
    } while (stats.reconnects < 4 && t_now_ms() < until);
    hf_close(client);
    t_fake_free(fake);
    sigaction(SIGPIPE, &before, NULL);
    assert_int_equal(atomic_load(&pipes), 0);
    assert_true(stats.reconnects >= 4);
}

/* ---- Many signals ---------------------------------------------------------------------------- */

static atomic_long interruptions;

static void count_interruption(int number) {
    (void)number;
    atomic_fetch_add(&interruptions, 1);
}

static void set_storm(suseconds_t every_us) {
    struct itimerval timer = {.it_interval = {.tv_usec = every_us},
                              .it_value = {.tv_usec = every_us}};
    assert_int_equal(setitimer(ITIMER_REAL, &timer, NULL), 0);
}

static int begin_storm(void **state) {
    (void)state;
    struct sigaction action = {.sa_handler = count_interruption}; /* without SA_RESTART */
    sigaction(SIGALRM, &action, NULL);
    set_storm(700);
    return 0;
}

static int end_storm(void **state) {
    (void)state;
    set_storm(0);
    return 0;
}

static void test_F43_interrupted_waits_end_in_time(void **state) {
    (void)state;
    hf_client *a = open_client(), *b = open_client();
    hf_hold *hold, *none;
    T_HF(HF_OK, hf_try_lock(a, "storm", &hold));
    long before = atomic_load(&interruptions);
    int64_t began = t_now_ms();
    T_HF(HF_TIMEOUT, hf_acquire(b, "storm", &(hf_options){.wait_ms = 300}, &none));
    assert_true(t_now_ms() - began >= 300);
    assert_true(atomic_load(&interruptions) > before + 20);
    T_HF(HF_OK, hf_release(hold));
    hf_close(a);
    hf_close(b);
}

struct process_contest {
    hf_client *client;
    atomic_int inside, collisions, rounds;
};

static void contend_for_lock(int index, void *arg) {
    struct process_contest *c = arg;
    (void)index;
    for (int i = 0; i < 10; i++) {
        hf_hold *hold;
        T_HF(HF_OK, hf_lock(c->client, "contest", &hold));
        if (atomic_fetch_add(&c->inside, 1)) atomic_fetch_add(&c->collisions, 1);
        atomic_fetch_sub(&c->inside, 1);
        T_HF(HF_OK, hf_release(hold));
        atomic_fetch_add(&c->rounds, 1);
    }
}

static void test_F43_interrupted_contenders_all_get_in(void **state) {
    (void)state;
    struct process_contest contest = {.client = open_client()};
    t_threads_run(4, contend_for_lock, &contest, WATCHDOG_MS);
    assert_int_equal(atomic_load(&contest.rounds), 40);
    assert_int_equal(atomic_load(&contest.collisions), 0);
    hf_close(contest.client);
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--count-descriptors") == 0) return count_descriptors();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_F43_nothing_is_inherited_by_exec),
        cmocka_unit_test(test_F43_no_sigpipe),
        cmocka_unit_test_setup_teardown(test_F43_interrupted_waits_end_in_time, begin_storm,
                                        end_storm),
        cmocka_unit_test_setup_teardown(test_F43_interrupted_contenders_all_get_in, begin_storm,
                                        end_storm),
    };
    return cmocka_run_group_tests(tests, start_redis, stop_redis);
}
