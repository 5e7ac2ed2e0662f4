/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections of src/store/net without TLS. The linker redirects getaddrinfo to this file, so a
 * test decides what a name resolves to; the addresses and sockets are real.
 */
#include "rig.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/un.h>

#define NAME   "many.test"
#define SLOW   "slow.test"
#define SECOND "127.0.0.2" /* another address of this machine */

/* ---- Names ----------------------------------------------------------------------------------- */

static const char *meaning[2]; /* the addresses of NAME, in this order */
static sem_t may_answer;       /* what a lookup of SLOW waits for */
static atomic_int slow_lookups;

int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **list);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **list);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **list) {
    bool many = strcmp(host, NAME) == 0, slow = strcmp(host, SLOW) == 0;
    if (hints->ai_flags & AI_NUMERICHOST || (!many && !slow))
        return __real_getaddrinfo(host, port, hints, list);
    if (slow) {
        while (sem_wait(&may_answer) != 0) continue;
        atomic_fetch_sub(&slow_lookups, 1);
        return __real_getaddrinfo(T_HOST, port, hints, list);
    }
    int error = 0;
    for (int i = 0; i < 2 && !error; i++) {
        error = __real_getaddrinfo(meaning[i], port, hints, list);
        while (!error && *list) list = &(*list)->ai_next;
    }
    return error;
}

/* ---- Sockets --------------------------------------------------------------------------------- */

/* A socket that is bound and does not listen: its port refuses connections, and nobody else can
   take it. */
static int bind_port(const char *address, uint16_t *port) {
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(*port)};
    socklen_t length = sizeof a;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(inet_pton(AF_INET, address, &a.sin_addr), 1);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &length), 0);
    *port = ntohs(a.sin_port);
    return fd;
}

static int listen_at(uint16_t *port) {
    *port = 0;
    int fd = bind_port(T_HOST, port);
    assert_int_equal(listen(fd, 16), 0);
    return fd;
}

/* A listener whose queue is full: the kernel drops what asks for a connection. */
typedef struct full_listener {
    int fd, queued;
    uint16_t port;
} full_listener;

static full_listener listen_in_vain(const char *address, uint16_t port) {
    full_listener l = {.port = port};
    struct sockaddr_in a = {.sin_family = AF_INET};
    l.fd = bind_port(address, &l.port);
    assert_int_equal(listen(l.fd, 0), 0);
    a.sin_port = htons(l.port);
    assert_int_equal(inet_pton(AF_INET, address, &a.sin_addr), 1);
    l.queued = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(l.queued, (struct sockaddr *)&a, sizeof a), 0);
    return l;
}

static void unlisten(full_listener l) {
    close(l.fd);
    close(l.queued);
}

static int count_descriptors(void) {
    int count = 0;
    for (int fd = 0; fd < 1024; fd++) count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static bool closes_on_exec(int fd) {
    int flags = fcntl(fd, F_GETFD);
    return flags >= 0 && flags & FD_CLOEXEC;
}

static void expect_peer_end(rig *r, ssize_t result, int error) {
    char byte;
    assert_int_equal(rig_peer_recv(r, &byte, 1), result);
    if (result < 0) assert_int_equal(errno, error);
}

/* ---- Connecting ------------------------------------------------------------------------------ */

static void a_refused_connection_is_said(void **state) {
    (void)state;
    uint16_t port = 0;
    int fd = bind_port(T_HOST, &port);
    rig *r = rig_new(HF__TCP, T_HOST, port, "");
    rig_fails(r, HF_UNREACHABLE, "Connection refused (is a server running there?)");
    rig_free(r);
    close(fd);
}

/* The pauses double from 20 ms on; at least three quarters of each are waited. */
static void pauses_grow_until_the_server_is_there(void **state) {
    (void)state;
    uint16_t port = 0;
    int listener = bind_port(T_HOST, &port);
    rig *r = rig_new(HF__TCP, T_HOST, port, "");
    for (unsigned n = 1; n <= 4; n++) {
        hf__time before = hf__now(), pause = (20 * HF__MS) << (n - 1);
        RIG_UNTIL(r, r->c.failures == n);
        assert_true(r->c.retry_at >= before + pause * 3 / 4);
        assert_true(r->c.retry_at <= hf__now() + pause);
        assert_int_equal(hf__connection_due(&r->c), r->c.retry_at);
        hf__connection_tick(&r->c, r->c.retry_at - 1);
        assert_int_equal(r->c.state, HF__NET_IDLE);
    }
    for (unsigned n = 5; n <= 40; n++) { /* without waiting: the clock is the caller's */
        hf__time now = r->c.retry_at;
        hf__connection_fail(&r->c, HF_UNREACHABLE, NULL, now);
        assert_true(r->c.retry_at <= now + 2 * HF__SEC);
    }
    assert_true(r->c.retry_at >= hf__now() + HF__SEC);
    assert_int_equal(listen(listener, 1), 0);
    r->c.retry_at = hf__now();
    rig_up(r, listener);
    assert_int_equal(r->c.failures, 0);
    close(r->peer); /* the back-off begins anew */
    r->peer = -1;
    RIG_UNTIL(r, r->c.failures == 1);
    assert_true(r->c.retry_at <= hf__now() + 20 * HF__MS);
    rig_free(r);
    close(listener);
}

static void the_next_address_is_tried_if_one_refuses(void **state) {
    (void)state;
    uint16_t port;
    int listener = listen_at(&port);
    meaning[0] = SECOND; /* nothing listens there */
    meaning[1] = T_HOST;
    rig *r = rig_new(HF__TCP, NAME, port, "");
    rig_up(r, listener);
    assert_int_equal(r->c.failures, 0); /* it was one attempt */
    rig_free(r);
    close(listener);
    r = rig_new(HF__TCP, NAME, port, "");
    rig_fails(r, HF_UNREACHABLE, "Connection refused");
    rig_free(r);
}

/* An address that does not answer gets half of the time, not all of it. */
static void the_next_address_is_tried_if_one_is_silent(void **state) {
    (void)state;
    uint16_t port;
    int listener = listen_at(&port);
    full_listener silent = listen_in_vain(SECOND, port);
    meaning[0] = SECOND;
    meaning[1] = T_HOST;
    rig *r = rig_new(HF__TCP, NAME, port, "connect_timeout=400ms");
    rig_up(r, listener);
    assert_int_equal(r->c.failures, 0);
    rig_free(r);
    unlisten(silent);
    close(listener);
}

static void a_unix_socket_is_connected_to(void **state) {
    (void)state;
    char dir[] = "/tmp/hf-net-XXXXXX";
    assert_non_null(mkdtemp(dir));
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    snprintf(a.sun_path, sizeof a.sun_path, "%s/s", dir);
    rig *r = rig_new(HF__UNIX_SOCKET, a.sun_path, 0, "");
    rig_fails(r, HF_UNREACHABLE, "No such file");
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(listener, 1), 0);
    rig_up(r, listener);
    rig_free(r);
    close(listener);
    unlink(a.sun_path);
    rmdir(dir);
    char path[200];
    memset(path, 'p', sizeof path);
    path[0] = '/';
    path[sizeof path - 1] = '\0';
    r = rig_new(HF__UNIX_SOCKET, path, 0, "");
    rig_fails(r, HF_INVALID, "longer than 107 bytes");
    rig_free(r);
}

static void a_move_leads_to_the_new_address_at_once(void **state) {
    (void)state;
    uint16_t port[2];
    int listener[2] = {listen_at(&port[0]), listen_at(&port[1])};
    rig *r = rig_new(HF__TCP, T_HOST, port[0], "");
    rig_up(r, listener[0]);
    int old = r->peer;
    r->peer = -1;
    r->url.port = port[1];
    hf__connection_move(&r->c, 0);
    rig_up(r, listener[1]);
    assert_int_equal(r->c.failures, 0);
    int new = r->peer;
    r->peer = old;
    expect_peer_end(r, -1, ECONNRESET);
    close(new);
    rig_free(r);
    for (int i = 0; i < 2; i++) close(listener[i]);
}

/* ---- Deadlines ------------------------------------------------------------------------------- */

#define TIMEOUT "connect_timeout=100ms"

/* The attempt takes its whole time, and then it is said what took so long. */
static void takes_too_long(rig *r, const char *says) {
    rig_fails(r, HF_UNREACHABLE, says);
    assert_non_null(strstr(r->c.down_detail, "took longer than connect_timeout (100 ms)"));
    assert_true(hf__now() >= r->c.attempt_until);
    rig_free(r);
}

static void a_lookup_has_a_deadline(void **state) {
    (void)state;
    int before = count_descriptors();
    atomic_store(&slow_lookups, 1);
    rig *r = rig_new(HF__TCP, SLOW, 1, TIMEOUT);
    rig_turn(r);
    assert_int_equal(r->c.state, HF__NET_RESOLVING);
    assert_true(closes_on_exec(hf__connection_poll(&r->c, true).fd));
    takes_too_long(r, "the DNS lookup of");
    sem_post(&may_answer); /* the abandoned thread frees what is left */
    T_WAIT_UNTIL(atomic_load(&slow_lookups) == 0, 5000);
    T_WAIT_UNTIL(count_descriptors() == before, 5000);
}

static void connecting_has_a_deadline(void **state) {
    (void)state;
    full_listener silent = listen_in_vain(T_HOST, 0);
    rig *r = rig_new(HF__TCP, T_HOST, silent.port, TIMEOUT);
    rig_turn(r);
    assert_int_equal(r->c.state, HF__NET_CONNECTING);
    assert_true(closes_on_exec(r->c.fd));
    takes_too_long(r, "connecting to");
    unlisten(silent);
}

static void the_login_has_a_deadline(void **state) {
    (void)state;
    uint16_t port;
    int listener = listen_at(&port);
    rig *r = rig_new(HF__TCP, T_HOST, port, TIMEOUT);
    r->stays_out = true;
    takes_too_long(r, "the login at");
    close(listener);
}

static void only_a_plain_login_is_ended_with_the_hint(void **state) {
    (void)state;
    uint16_t port;
    int listener = listen_at(&port);
    rig *r = rig_new(HF__TCP, T_HOST, port, "");
    r->stays_out = true;
    r->c.plain_hint = "; knock twice";
    RIG_UNTIL(r, r->c.state == HF__NET_LOGIN);
    RIG_UNTIL(r, (r->peer = accept(listener, NULL, NULL)) >= 0);
    close(r->peer);
    r->peer = -1;
    rig_fails(r, HF_UNREACHABLE, "closed the connection at login: closed by the server; knock");
    rig_free(r);
    close(listener);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static rig *connect_pair(int *listener) {
    uint16_t port;
    *listener = listen_at(&port);
    rig *r = rig_new(HF__TCP, T_HOST, port, "");
    rig_up(r, *listener);
    return r;
}

static void a_half_closed_peer_is_gone(void **state) {
    (void)state;
    for (int ignores = 0; ignores < 2; ignores++) {
        int listener;
        rig *r = connect_pair(&listener);
        r->ignores = ignores; /* its end is noticed by a store that waits for nothing, too */
        assert_int_equal(send(r->peer, "bye", 3, MSG_NOSIGNAL), 3);
        shutdown(r->peer, SHUT_WR);
        rig_fails(r, HF_UNREACHABLE, "closed by the server");
        assert_int_equal(r->got.length, 3);
        expect_peer_end(r, -1, ECONNRESET);
        rig_free(r);
        close(listener);
    }
}

static void bytes_arrive_one_at_a_time(void **state) {
    (void)state;
    int listener;
    rig *r = connect_pair(&listener);
    for (size_t i = 0; i < 300; i++) {
        char byte = rig_byte(i);
        assert_int_equal(send(r->peer, &byte, 1, MSG_NOSIGNAL), 1);
        RIG_UNTIL(r, r->got.length == i + 1);
    }
    rig_check_stream(r->got.data, r->got.length, 0);
    assert_int_equal(r->longest, 1);
    rig_free(r);
    close(listener);
}

static void a_read_returns_no_more_than_its_maximum(void **state) {
    enum { TOTAL = 1 << 20 };
    (void)state;
    int listener;
    rig *r = connect_pair(&listener);
    char *bytes = malloc(TOTAL);
    assert_non_null(bytes);
    for (size_t i = 0; i < TOTAL; i++) bytes[i] = rig_byte(i);
    for (size_t sent = 0; sent < TOTAL;) {
        ssize_t n = send(r->peer, bytes + sent, TOTAL - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n > 0) sent += (size_t)n;
        if (sent > HF__READ_SIZE) rig_turn(r);
    }
    RIG_UNTIL(r, r->got.length == TOTAL);
    rig_check_stream(r->got.data, TOTAL, 0);
    assert_int_equal(r->longest, HF__READ_SIZE);
    free(bytes);
    rig_free(r);
    close(listener);
}

static void unread_bytes_are_seen(void **state) {
    (void)state;
    int listener;
    rig *r = connect_pair(&listener);
    assert_false(hf__connection_unread(&r->c));
    r->ignores = true;
    assert_int_equal(send(r->peer, "x", 1, MSG_NOSIGNAL), 1);
    RIG_UNTIL(r, hf__connection_unread(&r->c));
    r->ignores = false;
    RIG_UNTIL(r, r->got.length == 1);
    assert_false(hf__connection_unread(&r->c));
    rig_free(r);
    close(listener);
}

/* ---- Sleeping reads -------------------------------------------------------------------------- */

typedef struct sleeper {
    rig *r;
    hf__read_mode mode;
    size_t length; /* what the read returned */
} sleeper;

static void sleep_in_read(int index, void *arg) {
    sleeper *s = arg;
    const char *bytes;
    (void)index;
    pthread_mutex_lock(&s->r->mutex);
    s->length = hf__connection_read(&s->r->c, s->mode, &s->r->mutex, &bytes);
    if (s->length) hf__buffer_add(&s->r->got, bytes, s->length);
    pthread_mutex_unlock(&s->r->mutex);
}

static bool is_reading(rig *r) {
    pthread_mutex_lock(&r->mutex);
    bool reading = r->c.reading;
    pthread_mutex_unlock(&r->mutex);
    return reading;
}

/* Starts a thread that reads. Returns with the mutex unlocked. */
static t_threads *start_reading(sleeper *s) {
    pthread_mutex_unlock(&s->r->mutex);
    t_threads *thread = t_threads_start(1, sleep_in_read, s);
    T_WAIT_UNTIL(is_reading(s->r), 5000);
    return thread;
}

static void a_sleeping_read_wakes_for_bytes(void **state) {
    (void)state;
    int listener;
    rig *r = connect_pair(&listener);
    for (size_t i = 0; i < 2; i++) {
        sleeper s = {r, i ? HF__READ_POLL_FIRST : HF__READ_SLEEP, 0};
        t_threads *thread = start_reading(&s);
        assert_int_equal(send(r->peer, "x", 1, MSG_NOSIGNAL), 1);
        t_threads_join(thread, 5000);
        pthread_mutex_lock(&r->mutex);
        assert_int_equal(s.length, 1);
        assert_int_equal(r->got.length, i + 1);
    }
    rig_free(r);
    close(listener);
}

/* One thread gives the connection up while another sleeps in it. The socket is closed only when
   that one is done. */
static void a_sleeping_read_wakes_when_the_connection_is_given_up(void **state) {
    (void)state;
    int listener;
    rig *r = connect_pair(&listener);
    sleeper s = {r, HF__READ_SLEEP, 1};
    t_threads *thread = start_reading(&s);
    pthread_mutex_lock(&r->mutex);
    hf__connection_fail(&r->c, HF_UNREACHABLE, hf__line("no answer"), hf__now());
    assert_int_equal(r->c.state, HF__NET_BREAKING);
    assert_true(r->c.fd >= 0);
    assert_int_equal(hf__connection_poll(&r->c, true).fd, -1);
    pthread_mutex_unlock(&r->mutex);
    t_threads_join(thread, 5000);
    pthread_mutex_lock(&r->mutex);
    assert_int_equal(s.length, 0);
    assert_int_equal(r->c.state, HF__NET_IDLE);
    assert_int_equal(r->c.fd, -1);
    assert_string_equal(r->c.down_detail, "no answer");
    rig_up(r, listener);
    rig_free(r);
    close(listener);
}

/* ---- Writing --------------------------------------------------------------------------------- */

/* The peer reads nothing. What waits to be sent has a maximum, and the connection stays up. */
static void a_peer_that_does_not_read_fills_the_buffers_and_no_more(void **state) {
    char bytes[4096];
    (void)state;
    int listener;
    rig *r = connect_pair(&listener);
    size_t end = 0, got;
    do {
        end = rig_fill(r, end);
        rig_turn(r);
        assert_int_equal(r->c.state, HF__NET_UP);
    } while (!r->c.want_write);
    end = rig_fill(r, end);
    assert_true(r->out.size <= OUT_MAX && r->c.sending.size <= OUT_MAX);
    for (int i = 0; i < 3; i++) rig_turn(r);
    assert_int_equal(r->c.state, HF__NET_UP);
    for (got = 0; got < end;) {
        ssize_t n = rig_peer_recv(r, bytes, sizeof bytes);
        assert_true(n > 0);
        rig_check_stream(bytes, (size_t)n, got);
        got += (size_t)n;
    }
    RIG_UNTIL(r, hf__connection_quiet(&r->c));
    assert_int_equal(r->out.length, 0);
    assert_int_equal(r->c.failures, 0);
    rig_free(r);
    close(listener);
}

/* ---- Closing --------------------------------------------------------------------------------- */

static void a_connection_is_closed_in_order(void **state) {
    char bytes[8];
    (void)state;
    int listener;
    rig *r = connect_pair(&listener);
    hf__buffer_add(&r->out, "bye", 3);
    assert_true(hf__connection_quiet(&r->c));
    hf__connection_shut(&r->c, &r->out);
    assert_int_equal(r->c.state, HF__NET_SHUT);
    assert_int_equal(rig_peer_recv(r, bytes, sizeof bytes), 3);
    expect_peer_end(r, 0, 0);
    assert_int_equal(hf__connection_due(&r->c), HF__NEVER); /* for good */
    rig_free(r);
    close(listener);
}

static void a_connection_that_is_given_up_is_reset(void **state) {
    (void)state;
    int listener;
    rig *r = connect_pair(&listener);
    hf__connection_shut(&r->c, NULL);
    expect_peer_end(r, -1, ECONNRESET);
    rig_free(r);
    close(listener);
}

/* The parent still uses the socket. */
static void a_forked_child_resets_nothing(void **state) {
    char byte;
    (void)state;
    int listener;
    rig *r = connect_pair(&listener);
    int parents = dup(r->c.fd), peer = dup(r->peer);
    hf__connection_fini(&r->c, true);
    assert_int_equal(r->c.fd, -1);
    assert_int_equal(recv(peer, &byte, 1, MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(send(parents, "x", 1, MSG_NOSIGNAL), 1);
    close(parents);
    close(peer);
    hf__connection_init(&r->c, &r->url, HF__TCP, OUT_MAX, &r->log);
    rig_free(r);
    close(listener);
}

static void descriptors_are_closed_on_exec_and_at_the_end(void **state) {
    (void)state;
    int before = count_descriptors(), listener;
    rig *r = connect_pair(&listener);
    assert_true(closes_on_exec(r->c.fd));
    rig_free(r);
    close(listener);
    assert_int_equal(count_descriptors(), before);
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    sem_init(&may_answer, 0, 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refused_connection_is_said),
        cmocka_unit_test(pauses_grow_until_the_server_is_there),
        cmocka_unit_test(the_next_address_is_tried_if_one_refuses),
        cmocka_unit_test(the_next_address_is_tried_if_one_is_silent),
        cmocka_unit_test(a_unix_socket_is_connected_to),
        cmocka_unit_test(a_move_leads_to_the_new_address_at_once),
        cmocka_unit_test(a_lookup_has_a_deadline),
        cmocka_unit_test(connecting_has_a_deadline),
        cmocka_unit_test(the_login_has_a_deadline),
        cmocka_unit_test(only_a_plain_login_is_ended_with_the_hint),
        cmocka_unit_test(a_half_closed_peer_is_gone),
        cmocka_unit_test(bytes_arrive_one_at_a_time),
        cmocka_unit_test(a_read_returns_no_more_than_its_maximum),
        cmocka_unit_test(unread_bytes_are_seen),
        cmocka_unit_test(a_sleeping_read_wakes_for_bytes),
        cmocka_unit_test(a_sleeping_read_wakes_when_the_connection_is_given_up),
        cmocka_unit_test(a_peer_that_does_not_read_fills_the_buffers_and_no_more),
        cmocka_unit_test(a_connection_is_closed_in_order),
        cmocka_unit_test(a_connection_that_is_given_up_is_reset),
        cmocka_unit_test(a_forked_child_resets_nothing),
        cmocka_unit_test(descriptors_are_closed_on_exec_and_at_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
