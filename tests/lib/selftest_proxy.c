/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of t_proxy: each control does to connections what t_proxy.h says. */
#include "t.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct proxy_bed {
    t_redis *redis;
    t_proxy *proxy;
};

static int set_up(void **state) {
    struct proxy_bed *bed = calloc(1, sizeof *bed);
    bed->redis = t_redis_start(NULL);
    bed->proxy = t_proxy_start(t_redis_port(bed->redis));
    *state = bed;
    return 0;
}

static int tear_down(void **state) {
    struct proxy_bed *bed = *state;
    t_proxy_free(bed->proxy);
    t_redis_free(bed->redis);
    free(bed);
    return 0;
}

static int connect_to_proxy(const struct proxy_bed *bed) {
    return t_net_connect(t_proxy_port(bed->proxy));
}

static void send_text(int fd, const char *text) {
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), strlen(text));
}

static void expect_text(int fd, const char *expected) {
    char received[256] = "";
    size_t length = 0, wanted = strlen(expected);
    while (length < wanted) {
        ssize_t n = recv(fd, received + length, wanted - length, 0);
        if (n <= 0) t_fail("received `%s` and then nothing (%s)", received, strerror(errno));
        length += (size_t)n;
    }
    assert_string_equal(received, expected);
}

static void assert_silent(int fd, int64_t ms) {
    char byte;
    t_sleep_ms(ms);
    assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN);
}

static void assert_reset(int fd) {
    char byte;
    assert_int_equal(recv(fd, &byte, 1, 0), -1);
    assert_int_equal(errno, ECONNRESET);
    close(fd);
}

static void test_passes_through(void **state) {
    struct proxy_bed *bed = *state;
    int fd = connect_to_proxy(bed);
    send_text(fd, "PING\r\n");
    expect_text(fd, "+PONG\r\n");
    assert_int_equal(t_proxy_connections(bed->proxy), 1);
    assert_int_equal(t_proxy_bytes(bed->proxy, T_TO_SERVER), 6);
    assert_int_equal(t_proxy_forwarded(bed->proxy, T_TO_CLIENT), 7);
    close(fd);
    T_WAIT_UNTIL(t_proxy_open(bed->proxy) == 0, 5000);
}

/* Ten megabytes: more than the queues of the proxy and the buffers of the kernel hold. */
static void test_passes_much(void **state) {
    struct proxy_bed *bed = *state;
    static char buffer[65536];
    size_t length = (size_t)10 << 20, got = 0;
    char header[32];
    int head = snprintf(header, sizeof header, "$%zu\r\n", length);
    t_redis_str(bed->redis, "SETRANGE big %d x", (int)length - 1);
    int fd = connect_to_proxy(bed);
    send_text(fd, "GET big\r\n");
    while (got < (size_t)head + length + 2) {
        ssize_t n = recv(fd, buffer, sizeof buffer, 0);
        T_CHECK(n > 0);
        got += (size_t)n;
    }
    close(fd);
}

static void test_server_end_is_passed_on(void **state) {
    struct proxy_bed *bed = *state;
    char byte;
    int fd = connect_to_proxy(bed);
    send_text(fd, "QUIT\r\n");
    expect_text(fd, "+OK\r\n");
    assert_int_equal(recv(fd, &byte, 1, 0), 0);
    close(fd);
    t_redis_kill9(bed->redis);
    fd = connect_to_proxy(bed); /* no server behind it: accepted and reset */
    assert_reset(fd);
}

static void test_unix_target(void **state) {
    struct proxy_bed *bed = *state;
    t_proxy *proxy = t_proxy_start_unix(t_redis_socket(bed->redis));
    int fd = t_net_connect(t_proxy_port(proxy));
    send_text(fd, "PING\r\n");
    expect_text(fd, "+PONG\r\n");
    t_proxy_cut(proxy);
    assert_reset(fd);
    t_proxy_free(proxy);
}

static void test_cut(void **state) {
    struct proxy_bed *bed = *state;
    int a = connect_to_proxy(bed), b = connect_to_proxy(bed);
    t_proxy_wait_connections(bed->proxy, 2, 5000);
    t_proxy_cut(bed->proxy);
    assert_reset(a);
    assert_reset(b);
    int fd = connect_to_proxy(bed);
    send_text(fd, "PING\r\n");
    expect_text(fd, "+PONG\r\n");
    close(fd);
}

static int run_idle_child(void *arg) {
    (void)arg;
    t_sleep_ms(600000);
    return 0;
}

/* A forked child inherits all descriptors. It must not keep a connection or the port alive. */
static void test_cut_and_refuse_despite_a_forked_child(void **state) {
    struct proxy_bed *bed = *state;
    int fd = connect_to_proxy(bed);
    send_text(fd, "PING\r\n");
    expect_text(fd, "+PONG\r\n");
    t_proc *child = t_proc_start(run_idle_child, NULL);
    t_proxy_cut(bed->proxy);
    assert_reset(fd);
    t_proxy_refuse(bed->proxy, true);
    assert_false(t_net_accepts(t_proxy_port(bed->proxy)));
    t_proxy_refuse(bed->proxy, false);
    assert_true(t_net_accepts(t_proxy_port(bed->proxy)));
    t_proc_kill(child, SIGKILL);
    (void)t_proc_wait(child, 5000);
}

static void test_refuse(void **state) {
    struct proxy_bed *bed = *state;
    int fd = connect_to_proxy(bed);
    send_text(fd, "PING\r\n");
    expect_text(fd, "+PONG\r\n");
    t_proxy_refuse(bed->proxy, true);
    assert_false(t_net_accepts(t_proxy_port(bed->proxy)));
    send_text(fd, "PING\r\n");
    expect_text(fd, "+PONG\r\n");
    t_proxy_refuse(bed->proxy, false);
    assert_true(t_net_accepts(t_proxy_port(bed->proxy)));
    close(fd);
}

static void test_delay(void **state) {
    struct proxy_bed *bed = *state;
    int fd = connect_to_proxy(bed);
    t_proxy_wait_connections(bed->proxy, 1, 5000);
    t_proxy_delay(bed->proxy, T_TO_SERVER, 60);
    t_proxy_delay(bed->proxy, T_TO_CLIENT, 50);
    int64_t before = t_now_ms();
    send_text(fd, "PING\r\n");
    expect_text(fd, "+PONG\r\n");
    assert_true(t_now_ms() - before >= 109);
    t_proxy_delay(bed->proxy, T_TO_SERVER, 0);
    t_proxy_delay(bed->proxy, T_TO_CLIENT, 0);
    send_text(fd, "PING\r\n");
    expect_text(fd, "+PONG\r\n");
    close(fd);
}

static void test_slice(void **state) {
    struct proxy_bed *bed = *state;
    char bytes[64];
    int reads = 0;
    int fd = connect_to_proxy(bed);
    t_proxy_slice(bed->proxy, T_TO_CLIENT, 1);
    t_proxy_slice(bed->proxy, T_TO_SERVER, 2);
    send_text(fd, "ECHO abcdefghijklmnopqrstuvwxyz\r\n");
    for (size_t got = 0; got < 33; reads++) {
        ssize_t n = recv(fd, bytes, sizeof bytes, 0);
        T_CHECK(n > 0);
        got += (size_t)n;
    }
    assert_true(reads > 5); /* 33, unless this thread was slow */
    close(fd);
}

static void test_withhold_answers(void **state) {
    struct proxy_bed *bed = *state;
    int fd = connect_to_proxy(bed);
    t_proxy_withhold(bed->proxy, T_TO_CLIENT, true);
    send_text(fd, "INCR n\r\n");
    t_proxy_wait_bytes(bed->proxy, T_TO_CLIENT, 4, 5000);
    assert_int_equal(t_redis_int(bed->redis, "GET n"), 1);
    assert_silent(fd, 30);
    t_proxy_withhold(bed->proxy, T_TO_CLIENT, false);
    expect_text(fd, ":1\r\n");
    close(fd);
}

/* Withheld bytes arrive in order, although their sender has closed. */
static void test_withheld_bytes_outlive_their_sender(void **state) {
    struct proxy_bed *bed = *state;
    int fd = connect_to_proxy(bed);
    t_proxy_withhold(bed->proxy, T_TO_SERVER, true);
    send_text(fd, "APPEND log a\r\n");
    send_text(fd, "APPEND log b\r\n");
    t_proxy_wait_bytes(bed->proxy, T_TO_SERVER, 28, 5000);
    t_net_reset(fd);
    t_sleep_ms(30);
    assert_null(t_redis_str(bed->redis, "GET log"));
    t_proxy_withhold(bed->proxy, T_TO_SERVER, false);
    T_WAIT_UNTIL(t_redis_int(bed->redis, "STRLEN log") == 2, 5000);
    assert_string_equal(t_redis_str(bed->redis, "GET log"), "ab");
    T_WAIT_UNTIL(t_proxy_open(bed->proxy) == 0, 5000);
}

static void test_blackhole(void **state) {
    struct proxy_bed *bed = *state;
    int fd = connect_to_proxy(bed);
    send_text(fd, "PING\r\n");
    expect_text(fd, "+PONG\r\n");
    t_proxy_blackhole(bed->proxy, true);
    send_text(fd, "INCR n\r\n");
    t_proxy_wait_bytes(bed->proxy, T_TO_SERVER, 14, 5000);
    assert_silent(fd, 30);
    int64_t clients = t_redis_info(bed->redis, "connected_clients");
    close(fd); /* the server is not informed */
    t_sleep_ms(30);
    assert_int_equal(t_redis_info(bed->redis, "connected_clients"), clients);
    t_proxy_blackhole(bed->proxy, false);
    T_WAIT_UNTIL(t_redis_info(bed->redis, "connected_clients") == clients - 1, 5000);
    assert_null(t_redis_str(bed->redis, "GET n"));
}

static void test_drop_answers(void **state) {
    struct proxy_bed *bed = *state;
    int fd = connect_to_proxy(bed);
    t_proxy_drop_answers(bed->proxy, 2);
    send_text(fd, "INCR n\r\n");
    t_proxy_wait_bytes(bed->proxy, T_TO_CLIENT, 4, 5000);
    assert_silent(fd, 10);
    send_text(fd, "INCR n\r\n");
    assert_reset(fd);
    assert_int_equal(t_redis_int(bed->redis, "GET n"), 2);
    fd = connect_to_proxy(bed);
    send_text(fd, "INCR n\r\n");
    expect_text(fd, ":3\r\n");
    close(fd);
}

/* F51: the bytes of a closed connection arrive after the bytes of the next one. */
static void test_late_bytes(void **state) {
    struct proxy_bed *bed = *state;
    int fd = connect_to_proxy(bed);
    send_text(fd, "PING\r\n");
    expect_text(fd, "+PONG\r\n");
    t_proxy_withhold(bed->proxy, T_TO_SERVER, true);
    send_text(fd, "APPEND log old\r\n");
    t_proxy_wait_bytes(bed->proxy, T_TO_SERVER, 6 + 16, 5000);
    assert_int_equal(t_proxy_detach(bed->proxy), 16);
    assert_reset(fd);
    fd = connect_to_proxy(bed);
    send_text(fd, "APPEND log new\r\n");
    expect_text(fd, ":3\r\n");
    assert_string_equal(t_redis_str(bed->redis, "GET log"), "new");
    assert_int_equal(t_proxy_deliver(bed->proxy), 16);
    assert_string_equal(t_redis_str(bed->redis, "GET log"), "newold");
    assert_string_equal(t_proxy_late_answers(bed->proxy), ":6\r\n");
    send_text(fd, "PING\r\n");
    expect_text(fd, "+PONG\r\n");
    close(fd);
}

/* The same if the client closed the connection, and a cut happens in between. */
static void test_late_bytes_after_the_client_reset(void **state) {
    struct proxy_bed *bed = *state;
    int fd = connect_to_proxy(bed);
    t_proxy_withhold(bed->proxy, T_TO_SERVER, true);
    send_text(fd, "APPEND log old\r\n");
    t_net_reset(fd);
    t_proxy_wait_bytes(bed->proxy, T_TO_SERVER, 16, 5000);
    assert_int_equal(t_proxy_detach(bed->proxy), 16);
    t_proxy_cut(bed->proxy);
    assert_int_equal(t_proxy_deliver(bed->proxy), 16);
    assert_string_equal(t_redis_str(bed->redis, "GET log"), "old");
}

static int select_missing(void *arg) {
    (void)arg;
    t_proxy *proxy = t_proxy_start(1); /* a child does not have its parent's threads */
    t_proxy_select(proxy, 7);
    t_proxy_withhold(proxy, T_TO_CLIENT, true);
    return 0;
}

static void test_select(void **state) {
    struct proxy_bed *bed = *state;
    int a = connect_to_proxy(bed);
    t_proxy_wait_connections(bed->proxy, 1, 5000);
    int b = connect_to_proxy(bed);
    t_proxy_wait_connections(bed->proxy, 2, 5000);
    t_proxy_select(bed->proxy, 1);
    t_proxy_withhold(bed->proxy, T_TO_CLIENT, true);
    send_text(a, "PING\r\n");
    send_text(b, "PING\r\n");
    expect_text(b, "+PONG\r\n");
    assert_silent(a, 20);
    t_proxy_cut(bed->proxy);
    assert_reset(a);
    send_text(b, "PING\r\n");
    expect_text(b, "+PONG\r\n");
    close(b);
}

static int wait_until_timeout(void *arg) {
    (void)arg;
    t_proxy_wait_bytes(t_proxy_start(1), T_TO_SERVER, 5, 20);
    return 0;
}

static void test_failures_are_reported(void **state) {
    (void)state;
    t_proc_expect_failure(select_missing, NULL, "selected in the proxy is not open");
    t_proc_expect_failure(wait_until_timeout, NULL, "for 5 bytes to the server: got 0");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failures_are_reported),
        TEST(test_passes_through),
        TEST(test_passes_much),
        TEST(test_server_end_is_passed_on),
        TEST(test_unix_target),
        TEST(test_cut),
        TEST(test_cut_and_refuse_despite_a_forked_child),
        TEST(test_refuse),
        TEST(test_delay),
        TEST(test_slice),
        TEST(test_withhold_answers),
        TEST(test_withheld_bytes_outlive_their_sender),
        TEST(test_blackhole),
        TEST(test_drop_answers),
        TEST(test_late_bytes),
        TEST(test_late_bytes_after_the_client_reset),
        TEST(test_select),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
