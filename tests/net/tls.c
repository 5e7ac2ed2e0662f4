/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections of src/store/net with TLS, to `openssl s_server`: whom they accept, which application
 * protocol they agree on, and what they do with bytes. One server is our own, because s_server
 * cannot be made to select a protocol that nobody offered.
 */
#include "rig.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static char dir[] = "/tmp/hf-net-XXXXXX"; /* certificates, and what servers have received */

/* ---- openssl s_server ------------------------------------------------------------------------ */

typedef struct s_server {
    uint16_t port;
    const char *certificate, *alpn;
    int said[2]; /* a pipe: what it is to send */
    t_proc *process;
} s_server;

/* Sends its input and writes what it receives to the file `heard`. */
static int run_s_server(void *arg) {
    const s_server *s = arg;
    char port[8], cert[64], key[64], heard[64];
    snprintf(port, sizeof port, "%u", s->port);
    snprintf(cert, sizeof cert, "%s/%s.crt", dir, s->certificate);
    snprintf(key, sizeof key, "%s/%s.key", dir, s->certificate);
    snprintf(heard, sizeof heard, "%s/heard", dir);
    int out = open(heard, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (out < 0 || dup2(out, STDOUT_FILENO) < 0 || dup2(s->said[0], STDIN_FILENO) < 0) return 1;
    execlp("openssl", "openssl", "s_server", "-accept", port, "-quiet", "-cert", cert, "-key", key,
           s->alpn ? "-alpn" : NULL, s->alpn, NULL);
    return 1;
}

static s_server start_server(const char *certificate, const char *alpn) {
    s_server s = {.port = t_net_free_port(), .certificate = certificate, .alpn = alpn};
    assert_int_equal(pipe2(s.said, O_CLOEXEC), 0);
    s.process = t_proc_start(run_s_server, &s);
    T_WAIT_UNTIL(t_net_accepts(s.port), 5000);
    return s;
}

static void end_server(s_server *s) {
    t_proc_kill(s->process, SIGKILL);
    (void)t_proc_wait(s->process, 5000);
    close(s->said[0]);
    close(s->said[1]);
}

static rig *rig_of(const s_server *s, const char *host, const char *alpn) {
    char option[64];
    snprintf(option, sizeof option, "tls_ca=%s/ca.crt", dir);
    rig *r = rig_new(HF__TCP_TLS, host, s->port, option);
    r->c.alpn = alpn;
    return r;
}

/* ---- Whom it accepts ------------------------------------------------------------------------- */

static void a_server_with_the_right_name_is_accepted(void **state) {
    (void)state;
    s_server s = start_server("good", NULL);
    static const char *const hosts[] = {"localhost", "127.0.0.1"};
    for (int i = 0; i < 2; i++) {
        rig *r = rig_of(&s, hosts[i], NULL);
        rig_up(r, -1);
        assert_string_equal(hf__tls_protocol(r->c.tls), "");
        rig_free(r);
    }
    end_server(&s);
}

static void a_certificate_for_another_host_is_refused(void **state) {
    (void)state;
    s_server s = start_server("other-host", NULL);
    rig *r = rig_of(&s, "localhost", NULL);
    rig_fails(r, HF_REFUSED, "hostname mismatch");
    rig_free(r);
    r = rig_of(&s, "127.0.0.1", NULL);
    rig_fails(r, HF_REFUSED, "IP address mismatch");
    rig_free(r);
    end_server(&s);
}

static void a_handshake_has_a_deadline(void **state) {
    (void)state;
    uint16_t port;
    int listener = t_net_listen_any(&port);
    rig *r = rig_new(HF__TCP_TLS, T_HOST, port, "connect_timeout=100ms");
    rig_fails(r, HF_UNREACHABLE, "the TLS handshake with");
    assert_non_null(strstr(r->c.down_detail, "took longer than connect_timeout (100 ms)"));
    assert_true(hf__now() >= r->c.attempt_until);
    rig_free(r);
    t_net_unlisten(listener);
}

/* ---- Application protocols ------------------------------------------------------------------- */

static void expect_protocol(const s_server *s, const char *offered, const char *selected) {
    rig *r = rig_of(s, "localhost", offered);
    rig_up(r, -1);
    assert_string_equal(hf__tls_protocol(r->c.tls), selected);
    rig_free(r);
}

static void expect_refusal(const s_server *s, const char *offered, const char *says) {
    rig *r = rig_of(s, "localhost", offered);
    rig_fails(r, HF_REFUSED, says);
    char needed[64];
    snprintf(needed, sizeof needed, "the server must speak %s", offered);
    assert_non_null(strstr(r->c.down_detail, needed));
    rig_free(r);
}

static void the_selected_protocol_is_reported(void **state) {
    (void)state;
    s_server s = start_server("good", "h2,http/1.1");
    expect_protocol(&s, "h2", "h2");
    expect_protocol(&s, "http/1.1", "http/1.1");
    expect_protocol(&s, "spdy/3,http/1.1", "http/1.1");
    expect_protocol(&s, NULL, "");
    end_server(&s);
}

static void a_server_without_the_protocol_is_refused(void **state) {
    (void)state;
    s_server s = start_server("good", NULL); /* it ignores the offer */
    expect_refusal(&s, "h2", "it selected no protocol");
    end_server(&s);
    s = start_server("good", "http/1.1"); /* it ends the handshake */
    expect_refusal(&s, "h2", "no application protocol");
    expect_refusal(&s, "http/1.", "no application protocol"); /* no part of a name counts */
    end_server(&s);
}

static int select_another(SSL *ssl, const unsigned char **out, unsigned char *length,
                          const unsigned char *in, unsigned in_length, void *arg) {
    (void)ssl, (void)in, (void)in_length;
    *out = arg;
    *length = (unsigned char)strlen(arg);
    return SSL_TLSEXT_ERR_OK;
}

typedef struct own_server {
    int listener;
    SSL_CTX *ctx;
} own_server;

static void serve_one(int index, void *arg) {
    own_server *s = arg;
    char byte;
    (void)index;
    int fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC);
    SSL *ssl = SSL_new(s->ctx);
    T_CHECK(fd >= 0 && ssl && SSL_set_fd(ssl, fd));
    if (SSL_accept(ssl) == 1) (void)SSL_read(ssl, &byte, 1); /* until the client ends it */
    SSL_free(ssl);
    close(fd);
}

static void a_server_that_selects_another_protocol_is_refused(void **state) {
    (void)state;
    static char another[] = "h";
    char cert[64], key[64];
    own_server own = {.ctx = SSL_CTX_new(TLS_server_method())};
    s_server s = {0};
    snprintf(cert, sizeof cert, "%s/good.crt", dir);
    snprintf(key, sizeof key, "%s/good.key", dir);
    assert_int_equal(SSL_CTX_use_certificate_chain_file(own.ctx, cert), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey_file(own.ctx, key, SSL_FILETYPE_PEM), 1);
    SSL_CTX_set_alpn_select_cb(own.ctx, select_another, another);
    own.listener = t_net_listen_any(&s.port);
    assert_int_equal(fcntl(own.listener, F_SETFL, 0), 0); /* blocking */
    t_threads *thread = t_threads_start(1, serve_one, &own);
    expect_refusal(&s, "h2", "");
    t_threads_join(thread, 5000);
    t_net_unlisten(own.listener);
    SSL_CTX_free(own.ctx);
}

/* ---- Bytes ----------------------------------------------------------------------------------- */

static void bytes_arrive_one_at_a_time(void **state) {
    (void)state;
    s_server s = start_server("good", NULL);
    rig *r = rig_of(&s, "localhost", NULL);
    rig_up(r, -1);
    for (size_t i = 0; i < 100; i++) {
        char byte = rig_byte(i);
        assert_int_equal(write(s.said[1], &byte, 1), 1);
        RIG_UNTIL(r, r->got.length == i + 1);
    }
    rig_check_stream(r->got.data, r->got.length, 0);
    rig_free(r);
    end_server(&s);
}

static size_t size_of_heard(void) {
    char path[64];
    snprintf(path, sizeof path, "%s/heard", dir);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    off_t size = lseek(fd, 0, SEEK_END);
    close(fd);
    return (size_t)size;
}

static void check_heard(size_t length) {
    char path[64];
    snprintf(path, sizeof path, "%s/heard", dir);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *bytes = malloc(length);
    assert_non_null(bytes);
    assert_int_equal(read(fd, bytes, length), length);
    rig_check_stream(bytes, length, 0);
    free(bytes);
    close(fd);
}

/* The records of a full buffer are longer than the buffer. */
static void a_peer_that_does_not_read_fills_the_buffers_and_no_more(void **state) {
    (void)state;
    s_server s = start_server("good", NULL);
    rig *r = rig_of(&s, "localhost", NULL);
    rig_up(r, -1);
    t_proc_kill(s.process, SIGSTOP);
    size_t end = 0;
    do {
        end = rig_fill(r, end);
        rig_turn(r);
        assert_int_equal(r->c.state, HF__NET_UP);
    } while (!r->c.want_write);
    end = rig_fill(r, end);
    assert_true(r->out.size <= 2 * OUT_MAX && r->c.sending.size <= 2 * OUT_MAX &&
                r->c.sealed.size <= 2 * OUT_MAX);
    t_proc_kill(s.process, SIGCONT);
    RIG_UNTIL(r, hf__connection_quiet(&r->c) && size_of_heard() == end);
    check_heard(end);
    assert_int_equal(r->c.failures, 0);
    rig_free(r);
    end_server(&s);
}

static void a_server_that_dies_is_noticed(void **state) {
    (void)state;
    s_server s = start_server("good", NULL);
    rig *r = rig_of(&s, "localhost", NULL);
    rig_up(r, -1);
    end_server(&s);
    rig_fails(r, HF_UNREACHABLE, "the connection to localhost");
    rig_free(r);
}

static void run_program(const char *program, const char *argument) {
    char command[512];
    snprintf(command, sizeof command, "%s %s", program, argument);
    if (system(command) != 0) t_fail("the command failed: %s", command);
}

static int make_certificates(void **state) {
    (void)state;
    if (!mkdtemp(dir)) t_fail("cannot create a directory for certificates");
    run_program(CERTIFICATES, dir);
    return 0;
}

static int remove_certificates(void **state) {
    (void)state;
    run_program("rm -rf", dir);
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_with_the_right_name_is_accepted),
        cmocka_unit_test(a_certificate_for_another_host_is_refused),
        cmocka_unit_test(a_handshake_has_a_deadline),
        cmocka_unit_test(the_selected_protocol_is_reported),
        cmocka_unit_test(a_server_without_the_protocol_is_refused),
        cmocka_unit_test(a_server_that_selects_another_protocol_is_refused),
        cmocka_unit_test(bytes_arrive_one_at_a_time),
        cmocka_unit_test(a_peer_that_does_not_read_fills_the_buffers_and_no_more),
        cmocka_unit_test(a_server_that_dies_is_noticed),
    };
    return cmocka_run_group_tests(tests, make_certificates, remove_certificates);
}
