/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of t_redis: the private server starts, answers, is killed, restarts and is removed. */
#include "t.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static void test_commands(void **state) {
    (void)state;
    t_redis *r = t_redis_start(NULL);
    assert_string_equal(t_redis_str(r, "SET %s %s", "key", "a b"), "OK");
    assert_string_equal(t_redis_str(r, "GET key"), "a b");
    assert_null(t_redis_str(r, "GET none"));
    assert_int_equal(t_redis_int(r, "INCR n"), 1);
    assert_int_equal(t_redis_int(r, "GET n"), 1);
    assert_string_equal(t_redis_str(r, "INCR n"), "2");
    redisReply *reply = t_redis_eval(r, "return {KEYS[1], ARGV[1]}", 1, "k", "v", (char *)NULL);
    assert_int_equal(reply->type, REDIS_REPLY_ARRAY);
    assert_string_equal(reply->element[1]->str, "v");
    freeReplyObject(reply);
    reply = t_redis_cmd(r, "NOSUCH");
    assert_int_equal(reply->type, REDIS_REPLY_ERROR);
    freeReplyObject(reply);
    assert_true(t_redis_info(r, "total_commands_processed") > 5);
    t_redis_free(r);
}

static void test_reached_by_port(void **state) {
    (void)state;
    char expected[64], answer[8] = "";
    t_redis *r = t_redis_start(NULL);
    snprintf(expected, sizeof expected, "redis://127.0.0.1:%u", t_redis_port(r));
    assert_string_equal(t_redis_url(r), expected);
    assert_int_equal(strncmp(t_redis_unix_url(r), "redis+unix:///", 14), 0);
    int fd = t_net_connect(t_redis_port(r));
    assert_int_equal(write(fd, "PING\r\n", 6), 6);
    assert_int_equal(read(fd, answer, 7), 7);
    assert_string_equal(answer, "+PONG\r\n");
    close(fd);
    t_redis_free(r);
}

static void test_several(void **state) {
    (void)state;
    t_redis *r[3];
    for (int i = 0; i < 3; i++) r[i] = t_redis_start(NULL);
    for (int i = 0; i < 3; i++) t_redis_str(r[i], "SET me %d", i);
    for (int i = 0; i < 3; i++) assert_int_equal(t_redis_int(r[i], "GET me"), i);
    for (int i = 0; i < 3; i++) t_redis_free(r[i]);
}

static void test_restart_forgets(void **state) {
    (void)state;
    t_redis *r = t_redis_start(NULL);
    uint16_t port = t_redis_port(r);
    t_redis_str(r, "SET key v");
    t_redis_kill9(r);
    assert_false(t_net_accepts(port));
    t_redis_restart(r);
    assert_int_equal(t_redis_port(r), port);
    assert_true(t_net_accepts(port));
    assert_null(t_redis_str(r, "GET key"));
    t_redis_free(r);
}

/* A server of another test could otherwise take the port, and be found there. */
static bool can_listen(uint16_t port) {
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    bool listens = bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && !listen(fd, 1);
    close(fd);
    return listens;
}

static void test_a_killed_server_keeps_its_port(void **state) {
    (void)state;
    t_redis *r = t_redis_start(NULL);
    t_redis_kill9(r);
    assert_false(can_listen(t_redis_port(r)));
    assert_false(t_net_accepts(t_redis_port(r)));
    pid_t child = fork(); /* shares all descriptors */
    if (!child) {
        pause();
        _exit(0);
    }
    t_redis_restart(r);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    assert_string_equal(t_redis_str(r, "PING"), "PONG");
    t_redis_free(r);
}

static void test_restart_with_aof_remembers(void **state) {
    (void)state;
    t_redis *r = t_redis_start(&(t_redis_options){.appendonly = true});
    t_redis_str(r, "SET key v");
    t_redis_restart(r);
    assert_string_equal(t_redis_str(r, "GET key"), "v");
    t_redis_free(r);
}

static void test_password_and_config(void **state) {
    (void)state;
    const char *config[] = {"maxmemory 7mb", "--maxmemory-policy noeviction", NULL};
    t_redis *r = t_redis_start(&(t_redis_options){.requirepass = "p@ss/word", .config = config});
    redisReply *reply = t_redis_cmd(r, "CONFIG GET maxmemory");
    assert_string_equal(reply->element[1]->str, "7340032");
    freeReplyObject(reply);
    assert_non_null(strstr(t_redis_url(r), "redis://:p%40ss%2Fword@127.0.0.1:"));
    t_redis_restart(r);
    assert_int_equal(t_redis_int(r, "INCR n"), 1);
    t_redis_free(r);
}

static void test_users(void **state) {
    (void)state;
    const char *acl[] = {"default off", "alice on >secret ~* &* +@all -publish", NULL};
    t_redis *r = t_redis_start(&(t_redis_options){.acl = acl, .unix_only = true});
    assert_int_equal(t_redis_port(r), 0);
    redisReply *reply = t_redis_cmd(r, "ACL GETUSER alice");
    assert_int_equal(reply->type, REDIS_REPLY_ARRAY);
    freeReplyObject(reply);
    assert_non_null(strstr(t_redis_url_as(r, "alice", "secret"), "redis://alice:secret@"));
    t_redis_free(r);
}

static void test_stop_and_cont(void **state) {
    (void)state;
    char answer[8] = "";
    t_redis *r = t_redis_start(NULL);
    int fd = t_net_connect(t_redis_port(r));
    t_redis_stop(r);
    assert_int_equal(write(fd, "PING\r\n", 6), 6);
    t_sleep_ms(50);
    assert_int_equal(recv(fd, answer, 7, MSG_DONTWAIT), -1);
    t_redis_cont(r);
    assert_int_equal(read(fd, answer, 7), 7);
    close(fd);
    t_redis_stop(r); /* a stopped server is killed too */
    t_redis_free(r);
}

static void run_commands(int index, void *arg) {
    for (int i = 0; i < 100; i++) t_redis_int(arg, "INCR n%d", index);
}

static int run_commands_in_child(void *arg) {
    run_commands(0, arg);
    return 0;
}

static void test_threads_and_children(void **state) {
    (void)state;
    t_redis *r = t_redis_start(NULL);
    t_proc *proc = t_proc_start(run_commands_in_child, r);
    t_threads_run(4, run_commands, r, 10000);
    assert_int_equal(t_proc_wait(proc, 10000), 0);
    assert_int_equal(t_redis_int(r, "GET n0"), 200);
    assert_int_equal(t_redis_int(r, "GET n3"), 100);
    t_redis_free(r);
}

struct started {
    uint16_t port;
    char dir[256];
};

/* Each of these leaves its server running, as a failed test does. */
static int start_one(void *arg) {
    struct started *started = arg;
    t_redis *r = t_redis_start(NULL);
    snprintf(started->dir, sizeof started->dir, "%s", t_redis_dir(r));
    started->port = t_redis_port(r);
    return 0;
}

static int start_and_exit(void *arg) {
    exit(start_one(arg));
}

static int start_and_be_killed(void *arg) {
    start_one(arg);
    raise(SIGKILL);
    return 0;
}

/* A test that was killed cannot remove its directory. */
static void remove_files(const char *dir) {
    const char *names[] = {"redis.conf", "redis.sock", "log", "password", ""};
    char path[300];
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]);
        (void)remove(path);
    }
}

static void test_no_server_is_left_behind(void **state) {
    (void)state;
    struct started *started = t_shared_new(sizeof *started);
    t_proc_fn *const orderly[] = {start_one, start_and_exit};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(t_proc_wait(t_proc_start(orderly[i], started), 20000), 0);
        T_WAIT_UNTIL(!t_net_accepts(started->port), 5000);
        assert_int_not_equal(access(started->dir, F_OK), 0);
    }
    assert_int_equal(t_proc_wait(t_proc_start(start_and_be_killed, started), 20000), 128 + SIGKILL);
    T_WAIT_UNTIL(!t_net_accepts(started->port), 5000);
    remove_files(started->dir);
    t_shared_free(started, sizeof *started);
}

static int start_nothing(void *arg) {
    t_redis_start(&(t_redis_options){.binary = arg});
    return 0;
}

static int start_misconfigured(void *arg) {
    const char *config[] = {arg, NULL};
    t_redis_start(&(t_redis_options){.config = config});
    return 0;
}

static int read_integer_of_nothing(void *arg) {
    t_redis_int(arg, "GET none");
    return 0;
}

static int cause_error(void *arg) {
    t_redis_str(arg, "NOSUCH");
    return 0;
}

static int command_a_dead_server(void *arg) {
    t_redis *r = t_redis_start(NULL);
    (void)arg;
    t_redis_kill9(r);
    t_redis_str(r, "PING");
    return 0;
}

static void test_failures_are_reported(void **state) {
    (void)state;
    t_redis *r = t_redis_start(NULL);
    t_proc_expect_failure(start_nothing, "no-such-server", "run a server as `no-such-server`");
    t_proc_expect_failure(start_misconfigured, "no-such-option 1", "no-such-option");
    t_proc_expect_failure(read_integer_of_nothing, r, "`GET none` is not an integer");
    t_proc_expect_failure(cause_error, r, "`NOSUCH` is: ERR unknown command");
    t_proc_expect_failure(command_a_dead_server, r, "does not answer");
    t_redis_free(r);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_commands),
        cmocka_unit_test(test_reached_by_port),
        cmocka_unit_test(test_several),
        cmocka_unit_test(test_restart_forgets),
        cmocka_unit_test(test_a_killed_server_keeps_its_port),
        cmocka_unit_test(test_restart_with_aof_remembers),
        cmocka_unit_test(test_password_and_config),
        cmocka_unit_test(test_users),
        cmocka_unit_test(test_stop_and_cont),
        cmocka_unit_test(test_threads_and_children),
        cmocka_unit_test(test_no_server_is_left_behind),
        cmocka_unit_test(test_failures_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
