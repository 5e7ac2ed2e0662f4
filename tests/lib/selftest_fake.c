/* SPDX-License-Identifier: Apache-2.0 */
/* Tests of t_fake: it follows its script, and reports a client that does not. */
#include "t.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void send_text(int fd, const char *text) {
    T_CHECK(send(fd, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text));
}

static void receive_text(int fd, char *received, size_t length) {
    for (size_t got = 0; got < length;) {
        ssize_t n = recv(fd, received + got, length - got, 0);
        if (n <= 0) t_fail("the fake server sent nothing more: %s", strerror(errno));
        got += (size_t)n;
    }
    received[length] = '\0';
}

static void expect_received(int fd, const char *expected) {
    char received[512];
    receive_text(fd, received, strlen(expected));
    T_CHECK(strcmp(received, expected) == 0);
}

static void test_expect_and_send(void **state) {
    (void)state;
    t_fake *fake = t_fake_start("# a comment\n"
                                "EXPECT get my-KEY\n"
                                "SEND $3\\r\\na\\x00b\\r\\n\n"
                                "\n"
                                "  EXPECT_ANY\n"
                                "  SEND $3\\r\\n\\{1}\\r\\n\n"
                                "EXPECT a\\x00b\n"
                                "SEND_BYTES_SLOWLY 1 :12\\r\\n\n"
                                "EXPECT_CLOSE\n");
    char received[64];
    int fd = t_net_connect(t_fake_port(fake));
    send_text(fd, "*2\r\n$3\r\nGET\r\n$6\r\nmy-"); /* one command, sent in two parts */
    t_sleep_ms(5);
    send_text(fd, "key\r\n*2\r\n$4\r\nECHO\r\n$3\r\nxyz\r\n");
    receive_text(fd, received, 9);
    assert_memory_equal(received, "$3\r\na\0b\r\n", 9);
    expect_received(fd, "$3\r\nxyz\r\n");
    assert_int_equal(send(fd, "*1\r\n$3\r\na\0b\r\n", 13, MSG_NOSIGNAL), 13);
    expect_received(fd, ":12\r\n");
    close(fd);
    t_fake_join(fake, 5000);
    t_fake_free(fake);
}

static void test_handshake(void **state) {
    (void)state;
    t_fake *fake = t_fake_start("HANDSHAKE\nEXPECT evalsha abc\nSEND +T\\T\\r\\n\nRESET\n");
    char received[128], byte;
    int fd = t_net_connect(t_fake_port(fake));
    send_text(fd, "*2\r\n$4\r\nAUTH\r\n$1\r\np\r\n*2\r\n$6\r\nCLIENT\r\n$5\r\nSETNA\r\n");
    expect_received(fd, "+OK\r\n+OK\r\n");
    send_text(fd, "*1\r\n$4\r\nHSET\r\n*1\r\n$7\r\npexpire\r\n");
    expect_received(fd, ":1\r\n:1\r\n");
    send_text(fd, "*2\r\n$9\r\nSUBSCRIBE\r\n$5\r\nhf:c1\r\n");
    expect_received(fd, "*3\r\n$9\r\nsubscribe\r\n$5\r\nhf:c1\r\n:1\r\n");
    send_text(fd, "*1\r\n$4\r\nTIME\r\n");
    receive_text(fd, received, 4 + 5 + 12);
    assert_memory_equal(received, "*2\r\n$10\r\n", 9);
    recv(fd, received, sizeof received, 0); /* the microseconds, with any number of digits */
    send_text(fd, "*2\r\n$7\r\nEVALSHA\r\n$3\r\nabc\r\n");
    receive_text(fd, received, 20);
    assert_memory_equal(received, "+T1", 3);
    assert_int_equal(recv(fd, &byte, 1, 0), -1);
    assert_int_equal(errno, ECONNRESET);
    close(fd);
    t_fake_join(fake, 5000);
    t_fake_free(fake);
}

static void test_several_connections(void **state) {
    (void)state;
    t_fake *fake = t_fake_start("EXPECT one\nACCEPT\nEXPECT two\nUSE 1\nSEND +1\\r\\n\n"
                                "USE 2\nSEND +2\\r\\n\nCLOSE\nREFUSE\n");
    char byte;
    int a = t_net_connect(t_fake_port(fake));
    send_text(a, "*1\r\n$3\r\none\r\n");
    int b = t_net_connect(t_fake_port(fake));
    send_text(b, "*1\r\n$3\r\ntwo\r\n");
    expect_received(b, "+2\r\n");
    expect_received(a, "+1\r\n");
    assert_int_equal(recv(b, &byte, 1, 0), 0);
    t_fake_join(fake, 5000);
    assert_false(t_net_accepts(t_fake_port(fake)));
    close(a);
    close(b);
    t_fake_free(fake);
}

static void test_loops(void **state) {
    (void)state;
    t_fake *fake = t_fake_start("LOOP 2\nLOOP 3\nEXPECT x\nSEND +x\\r\\n\nEND\nSEND +y\\r\\n\nEND\n"
                                "LOOP\nEXPECT_ANY\nSEND +z\\r\\n\nEND\n");
    int fd = t_net_connect(t_fake_port(fake));
    for (int i = 0; i < 6; i++) send_text(fd, "*1\r\n$1\r\nx\r\n");
    expect_received(fd, "+x\r\n+x\r\n+x\r\n+y\r\n+x\r\n+x\r\n+x\r\n+y\r\n");
    for (int i = 0; i < 3; i++) send_text(fd, "*1\r\n$1\r\nx\r\n");
    expect_received(fd, "+z\r\n+z\r\n+z\r\n");
    t_fake_join(fake, 5000); /* it may stay in its endless loop */
    t_fake_free(fake);
    close(fd);
}

/* Runs a script in a child. Its client sends `text`, and may wait until the connection ends. */
struct fake_attempt {
    const char *script, *text;
    bool close;
};

static int run_attempt(void *arg) {
    const struct fake_attempt *a = arg;
    char received[64];
    t_fake *fake = t_fake_start(a->script);
    int fd = t_net_connect(t_fake_port(fake));
    send_text(fd, a->text);
    if (a->close) {
        (void)shutdown(fd, SHUT_WR);
        while (recv(fd, received, sizeof received, 0) > 0) {
        }
    }
    t_fake_join(fake, 100);
    return 0;
}

static void expect_complaint(const char *script, const char *text, bool close, const char *said) {
    struct fake_attempt a = {.script = script, .text = text, .close = close};
    t_proc_expect_failure(run_attempt, &a, said);
}

static void test_failures_are_reported(void **state) {
    (void)state;
    expect_complaint("EXPECT_ANY\n\nEXPECT evalsha\n",
                     "*1\r\n$1\r\nx\r\n*2\r\n$4\r\nAUTH\r\n$2\r\n\x01z\r\n", true,
                     "step 2 (line 3) `EXPECT evalsha`: got `AUTH \\x01z`");
    expect_complaint("EXPECT x\n", "*1\r\n$4\r\nab", true,
                     "step 1 (line 1) `EXPECT x`: the client closed the connection after "
                     "*1\\r\\n$4\\r\\nab");
    expect_complaint("EXPECT x\n", "PING\r\n", true, "got input that is not a command: PING\\r\\n");
    expect_complaint("EXPECT x\nEXPECT y\n", "*1\r\n$1\r\nx\r\n", false,
                     "step 2 (line 2) `EXPECT y`: was stopped at this step");
    expect_complaint("EXPECT x\nUSE 2\n", "*1\r\n$1\r\nx\r\n", false, "only 1 connections so far");
    expect_complaint("EXPECT x\nSEND \\{4}\n", "*1\r\n$1\r\nx\r\n", false, "an unknown escape");
}

static void test_bad_scripts_are_reported(void **state) {
    (void)state;
    expect_complaint("\nNOSUCH\n", "", false, "line 2 of the script: no such step: NOSUCH");
    expect_complaint("SLEEP\n", "", false, "needs a number: SLEEP");
    expect_complaint("EXPECT\n", "", false, "needs a text: EXPECT");
    expect_complaint("CLOSE now\n", "", false, "takes no more: CLOSE now");
    expect_complaint("LOOP 2\n", "", false, "LOOP without an END");
    expect_complaint("END\n", "", false, "without a LOOP: END");
}

static void test_freed_at_any_time(void **state) {
    (void)state;
    t_fake_free(t_fake_start("EXPECT x\n"));
    t_fake_free(t_fake_start("SLEEP 600000\n"));
    t_fake *fake = t_fake_start("EXPECT x\n");
    int fd = t_net_connect(t_fake_port(fake));
    send_text(fd, "*1\r\n");
    t_fake_free(fake);
    close(fd);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_failures_are_reported),
        cmocka_unit_test(test_bad_scripts_are_reported),
        cmocka_unit_test(test_expect_and_send),
        cmocka_unit_test(test_handshake),
        cmocka_unit_test(test_several_connections),
        cmocka_unit_test(test_loops),
        cmocka_unit_test(test_freed_at_any_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
