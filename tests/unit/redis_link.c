/* SPDX-License-Identifier: Apache-2.0 */
/* Deadlines and waiting of a connection, on a socket pair. */
#include "t.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/time.h"
#include "store/redis/net/link.h"

typedef struct link_fixture {
    hf__link link;
    hf__url url;
    hf__identity who;
    hf__log log;
    int server; /* the other end */
} link_fixture;

/* A connection for messages with a ping that has waited longer than an answer may take. */
static int set_up(void **state) {
    int ends[2];
    link_fixture *f = calloc(1, sizeof *f);
    if (!f || hf__url_parse(&f->url, "redis://h") || socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
        return -1;
    f->who = (hf__identity){.client = "c", .pid = 7, .host = "ho", .program = "pr"};
    if (!hf__link_init(&f->link, HF__MESSAGES, &f->url, &f->who, &f->log)) return -1;
    f->link.net.fd = ends[0];
    f->server = ends[1];
    f->link.net.state = HF__NET_UP;
    f->link.session.state = HF__READY;
    f->link.session.pinged_at = hf__now() - 2 * f->url.command_timeout_ms * HF__MS;
    *state = f;
    return 0;
}

static int tear_down(void **state) {
    link_fixture *f = *state;
    hf__link_fini(&f->link, false);
    hf__url_fini(&f->url);
    close(f->server);
    free(f);
    return 0;
}

static void test_a_silent_server_is_given_up(void **state) {
    link_fixture *f = *state;
    hf__link_tick(&f->link, hf__now());
    assert_int_not_equal(f->link.net.state, HF__NET_UP);
}

/* The leading thread reads this connection. It may be waiting for another connection, for
   seconds if that server hangs. Meanwhile the background thread must not spin on a deadline that
   it cannot act on. */
static void test_an_answer_that_nobody_reads_is_not_due_at_once(void **state) {
    link_fixture *f = *state;
    hf__time now = hf__now();
    assert_int_equal(write(f->server, "+", 1), 1);
    assert_true(hf__link_due(&f->link) <= now);
    for (int i = 0; i < 3; i++) {
        hf__link_tick(&f->link, now);
        assert_int_equal(f->link.net.state, HF__NET_UP);
        assert_true(hf__link_due(&f->link) > now);
        now = hf__link_due(&f->link);
    }
    assert_true(now < hf__now() + HF__SEC); /* but soon enough to notice a dead connection */
}

/* ---- Waiting for an answer ---- */

/* The library's reads; --wrap=recv redirects them to this file. */
static struct { int fd, server, looks, sleeps; } reads;

ssize_t __real_recv(int fd, void *buffer, size_t length, int flags);
ssize_t __wrap_recv(int fd, void *buffer, size_t length, int flags);
ssize_t __wrap_recv(int fd, void *buffer, size_t length, int flags) {
    if (fd == reads.fd && flags & MSG_DONTWAIT) {
        reads.looks++;
    } else if (fd == reads.fd) { /* the answer arrives only when the reader sleeps */
        reads.sleeps++;
        assert_int_equal(write(reads.server, "+", 1), 1);
    }
    return __real_recv(fd, buffer, length, flags);
}

/* Waits for a part of an answer, which is there or arrives when the reader sleeps. */
static void await_answer(link_fixture *f, bool there, bool look) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    reads.looks = reads.sleeps = 0;
    reads.fd = f->link.net.fd;
    reads.server = f->server;
    if (there) assert_int_equal(write(f->server, "+", 1), 1);
    f->link.session.in_flight = f->link.session.unsent = 1; /* an operation without a recipient */
    pthread_mutex_lock(&mutex);
    assert_true(hf__link_wait(&f->link, look, &mutex));
    pthread_mutex_unlock(&mutex);
    f->link.session.in_flight = f->link.session.unsent = 0;
    reads.fd = -1;
    assert_int_equal(f->link.net.state, HF__NET_UP);
}

static void test_a_reader_polls_before_it_sleeps(void **state) {
    link_fixture *f = *state;
    await_answer(f, true, true);
    assert_int_equal(reads.looks, 1);
    assert_int_equal(reads.sleeps, 0);
    await_answer(f, false, false); /* unless others need the CPU */
    assert_int_equal(reads.looks, 0);
    assert_int_equal(reads.sleeps, 1);
}

/* If the server is far away or busy, polling would waste CPU time. */
static void test_polling_without_an_answer_backs_off(void **state) {
    link_fixture *f = *state;
    for (int in_vain = 1; in_vain <= 3; in_vain++) {
        await_answer(f, false, true);
        assert_true(reads.looks > 1);
        assert_int_equal(reads.sleeps, 1);
        for (int i = 0; i < 1 << in_vain; i++) {
            await_answer(f, false, true);
            assert_int_equal(reads.looks, 0);
            assert_int_equal(reads.sleeps, 1);
        }
    }
    await_answer(f, true, true); /* an answer in time ends the back-off */
    assert_int_equal(reads.sleeps, 0);
    await_answer(f, false, true);
    assert_true(reads.looks > 1);
}

/* ---- Memory ---- */

/* Sends commands of that many bytes, which the server reads. */
static void send_commands(link_fixture *f, size_t length) {
    static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    static char bytes[4096];
    char *room = hf__buffer_room(&f->link.session.out, length);
    assert_non_null(room);
    memset(room, 'x', length);
    pthread_mutex_lock(&mutex);
    for (size_t got = 0; got < length;) {
        hf__link_flush(&f->link, &mutex);
        ssize_t n = recv(f->server, bytes, sizeof bytes, MSG_DONTWAIT);
        assert_true(n > 0);
        got += (size_t)n;
        f->link.net.want_write = false; /* the socket has space again */
    }
    pthread_mutex_unlock(&mutex);
}

/* When a server is back without its scripts, all waiters send theirs in full at once. */
static void test_memory_of_a_burst_is_freed(void **state) {
    link_fixture *f = *state;
    const hf__buffer *out = &f->link.session.out, *sending = &f->link.net.sending;
    for (int i = 0; i < 2; i++) send_commands(f, 1 << 20);
    assert_true(out->size + sending->size >= 2 << 20);
    for (int i = 0; i < 200; i++) send_commands(f, 300);
    assert_int_equal(f->link.net.state, HF__NET_UP);
    assert_true(out->size + sending->size <= 4096);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_silent_server_is_given_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_an_answer_that_nobody_reads_is_not_due_at_once, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_a_reader_polls_before_it_sleeps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_polling_without_an_answer_backs_off, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_memory_of_a_burst_is_freed, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
