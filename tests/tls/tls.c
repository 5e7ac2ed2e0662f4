/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rediss:// against a real server with temporary certificates (F41): which servers and clients are
 * accepted, and that the lock behind TLS is the same lock.
 */
#include "t.h"

#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store/net/tls.h"

#define URL_MAX 1024

static char dir[] = "/tmp/hf-tls-XXXXXX";
static const char *script; /* tests/tls/certificates */

typedef struct server {
    t_redis *redis;
    uint16_t port;
} server;

/* A server with this TLS certificate, which trusts our certificate for clients. */
static server start_with(const char *certificate, const char *clients, const char *protocols) {
    server s = {.port = t_net_free_port()};
    char lines[4][URL_MAX];
    snprintf(lines[0], URL_MAX, "tls-port %d", s.port);
    snprintf(lines[1], URL_MAX, "tls-cert-file %s/%s.crt", dir, certificate);
    snprintf(lines[2], URL_MAX, "tls-key-file %s/%s.key", dir, certificate);
    snprintf(lines[3], URL_MAX, "tls-ca-cert-file %s/ca.crt", dir);
    const char *config[] = {lines[0], lines[1], lines[2], lines[3], clients, protocols, NULL};
    s.redis = t_redis_start(&(t_redis_options){.config = config});
    return s;
}

static server start_server(const char *certificate, bool wants_client) {
    return start_with(certificate, wants_client ? "tls-auth-clients yes" : "tls-auth-clients no",
                      NULL);
}

static const char *url_of(server s, const char *host, const char *options) {
    static char url[8 * URL_MAX];
    snprintf(url, sizeof url, "rediss://%s:%d?%s", host, s.port, options);
    return url;
}

static const char *trust_ca(void) {
    static char option[URL_MAX];
    snprintf(option, sizeof option, "tls_ca=%s/ca.crt", dir);
    return option;
}

/* Number of subscribed clients. */
static int64_t count_subscribers(t_redis *redis) {
    redisReply *reply = t_redis_cmd(redis, "PUBSUB CHANNELS hf:c:*");
    int64_t count = (int64_t)reply->elements;
    freeReplyObject(reply);
    return count;
}

typedef struct tls_waiter {
    hf_client *client;
    hf_hold **hold;
} tls_waiter;

static void wait_for_lock(int index, void *arg) {
    const tls_waiter *w = arg;
    (void)index;
    T_HF(HF_OK, hf_lock(w->client, "turns", w->hold));
}

static void check_refused(const char *url, hf_result result, const char *says) {
    hf_client *client;
    T_HF(result, hf_open(url, NULL, &client));
    assert_null(client);
    if (!strstr(hf_error_detail(), says))
        t_fail("the error detail does not contain \"%s\": %s", says, hf_error_detail());
}

/* Takes a lock, checks it through the plain port, takes it again after a broken connection,
   releases it. */
static void lock_through(server s, const char *url) {
    hf_client *client;
    hf_hold *hold;
    T_HF(HF_OK, hf_open(url, NULL, &client));
    T_HF(HF_OK, hf_acquire(client, "through-tls", &(hf_options){.lease_ms = 2000}, &hold));
    assert_int_equal(t_redis_int(s.redis, "EXISTS hf:{through-tls}"), 1);
    T_HF(HF_OK, hf_extend(hold, 5000));
    T_HF(HF_OK, hf_release(hold));
    assert_int_equal(t_redis_int(s.redis, "EXISTS hf:{through-tls}"), 0);
    hf_close(client);
}

static void a_verified_server_serves_locks(void **state) {
    (void)state;
    server s = start_server("good", false);
    lock_through(s, url_of(s, "localhost", trust_ca()));
    lock_through(s, url_of(s, "127.0.0.1", trust_ca()));
    t_redis_free(s.redis);
}

static void a_directory_of_authorities_is_accepted(void **state) {
    (void)state;
    server s = start_server("good", false);
    char option[URL_MAX];
    snprintf(option, sizeof option, "tls_ca=%s/authorities", dir);
    lock_through(s, url_of(s, "localhost", option));
    t_redis_free(s.redis);
}

static void F41_a_chain_that_is_not_trusted_is_refused(void **state) {
    (void)state;
    server s = start_server("good", false);
    char option[URL_MAX];
    check_refused(url_of(s, "localhost", ""), HF_REFUSED, "certificate is not accepted");
    snprintf(option, sizeof option, "tls_ca=%s/stranger.crt", dir);
    check_refused(url_of(s, "localhost", option), HF_REFUSED, "certificate is not accepted");
    t_redis_free(s.redis);
}

static void F41_a_certificate_for_another_host_is_refused(void **state) {
    (void)state;
    server s = start_server("other-host", false);
    check_refused(url_of(s, "localhost", trust_ca()), HF_REFUSED, "hostname mismatch");
    check_refused(url_of(s, "127.0.0.1", trust_ca()), HF_REFUSED, "IP address mismatch");
    t_redis_free(s.redis);
}

static void F41_an_expired_certificate_is_refused(void **state) {
    (void)state;
    server s = start_server("expired", false);
    check_refused(url_of(s, "localhost", trust_ca()), HF_REFUSED, "expired");
    t_redis_free(s.redis);
}

static void note_warning(int32_t level, const char *line, void *arg) {
    if (level == HF_LOG_WARNING && strstr(line, "tls_verify=none")) *(bool *)arg = true;
}

static void only_the_word_none_turns_verification_off_and_it_is_logged(void **state) {
    (void)state;
    server s = start_server("expired", false);
    bool warned = false;
    hf_client *client;
    T_HF(HF_OK, hf_open(url_of(s, "localhost", "tls_verify=none"),
                        &(hf_client_options){.log = note_warning, .log_arg = &warned}, &client));
    assert_true(warned);
    hf_close(client);
    check_refused(url_of(s, "localhost", "tls_verify=no"), HF_INVALID, "can only be none");
    t_redis_free(s.redis);
}

static void F41_there_is_no_fallback_to_plain(void **state) {
    (void)state;
    t_redis *plain = t_redis_start(NULL);
    char url[2 * URL_MAX];
    snprintf(url, sizeof url, "rediss://:sekret@127.0.0.1:%d?connect_timeout=300ms",
             t_redis_port(plain));
    int64_t before = t_redis_info(plain, "total_commands_processed");
    check_refused(url, HF_UNREACHABLE, "TLS handshake");
    assert_null(strstr(hf_error_detail(), "sekret"));
    assert_int_equal(t_redis_info(plain, "total_commands_processed"), before + 1);
    t_redis_free(plain);
}

static void a_client_certificate_is_sent_if_it_is_requested(void **state) {
    (void)state;
    server s = start_server("good", true);
    char option[3 * URL_MAX];
    check_refused(url_of(s, "localhost", trust_ca()), HF_REFUSED, "localhost");
    snprintf(option, sizeof option, "%s&tls_cert=%s/client.crt&tls_key=%s/client.key", trust_ca(),
             dir, dir);
    lock_through(s, url_of(s, "localhost", option));
    snprintf(option, sizeof option, "%s&tls_cert=%s/stranger.crt&tls_key=%s/stranger.key",
             trust_ca(), dir, dir);
    check_refused(url_of(s, "localhost", option), HF_REFUSED, "localhost");
    snprintf(option, sizeof option, "%s&tls_cert=%s/client.crt&tls_key=%s/good.key", trust_ca(),
             dir, dir);
    check_refused(url_of(s, "localhost", option), HF_INVALID, "tls_key");
    snprintf(option, sizeof option, "%s&tls_cert=%s/absent.crt", trust_ca(), dir);
    check_refused(url_of(s, "localhost", option), HF_INVALID, "No such file");
    t_redis_free(s.redis);
}

/* TLS records of every size, cut anywhere, and a broken connection in between. */
static void a_hold_outlives_a_broken_tls_connection(void **state) {
    (void)state;
    server s = start_server("good", false);
    t_proxy *proxy = t_proxy_start(s.port);
    char url[2 * URL_MAX];
    hf_client *client;
    hf_hold *hold;
    snprintf(url, sizeof url, "rediss://localhost:%d?%s", t_proxy_port(proxy), trust_ca());
    t_proxy_slice(proxy, T_TO_CLIENT, 7);
    T_HF(HF_OK, hf_open(url, NULL, &client));
    T_HF(HF_OK, hf_acquire(client, "cut", &(hf_options){.lease_ms = 3000}, &hold));
    hf_stats stats;
    t_proxy_cut(proxy);
    do T_HF(HF_OK, hf_stats_get(client, &stats));
    while (stats.renewed == 0 && (t_sleep_ms(2), hf_held(hold)));
    assert_int_equal(hf_held(hold), 1);
    T_HF(HF_OK, hf_release(hold));
    hf_close(client);
    t_proxy_free(proxy);
    t_redis_free(s.redis);
}

/* ---- Protocol ---- */

/* The environment allows every version that OpenSSL has (see main). So the client itself must
   refuse. */
static void F41_no_version_below_tls_1_2_is_used(void **state) {
    (void)state;
    server s = start_with("good", "tls-auth-clients no", "tls-protocols \"TLSv1.1\"");
    char command[3 * URL_MAX];
    snprintf(command, sizeof command,
             "openssl s_client -connect 127.0.0.1:%d -tls1_1 -cipher DEFAULT@SECLEVEL=0 "
             "-CAfile %s/ca.crt </dev/null >/dev/null 2>&1",
             s.port, dir);
    if (system(command) != 0)
        t_fail("the server does not support TLS 1.1, so the test would prove nothing");
    check_refused(url_of(s, "localhost", trust_ca()), HF_REFUSED, "TLS handshake failed");
    t_redis_free(s.redis);
    s = start_with("good", "tls-auth-clients no", "tls-protocols \"TLSv1.2\"");
    lock_through(s, url_of(s, "localhost", trust_ca()));
    t_redis_free(s.redis);
}

/* The server has two certificates, and shows the good one only to clients that name the host. */
static int serve_two_hosts(void *arg) {
    char port[8], file[4][URL_MAX];
    static const char *const names[] = {"other-host.crt", "other-host.key", "good.crt", "good.key"};
    snprintf(port, sizeof port, "%d", *(uint16_t *)arg);
    for (int i = 0; i < 4; i++) snprintf(file[i], URL_MAX, "%s/%s", dir, names[i]);
    execlp("openssl", "openssl", "s_server", "-accept", port, "-www", "-quiet", "-cert", file[0],
           "-key", file[1], "-cert2", file[2], "-key2", file[3], "-servername", "localhost", NULL);
    return 1;
}

/* After the handshake the server does not work as a lock server. */
static void the_name_of_the_host_is_sent(void **state) {
    (void)state;
    server s = {.port = t_net_free_port()};
    char option[2 * URL_MAX];
    t_proc *two = t_proc_start(serve_two_hosts, &s.port);
    T_WAIT_UNTIL(t_net_accepts(s.port), 5000);
    snprintf(option, sizeof option, "%s&connect_timeout=500ms", trust_ca());
    check_refused(url_of(s, "localhost", option), HF_UNREACHABLE, "the login at");
    check_refused(url_of(s, "127.0.0.1", option), HF_REFUSED, "IP address mismatch");
    t_proc_kill(two, SIGKILL);
    (void)t_proc_wait(two, 5000);
}

/* ---- Deadlines ---- */

/* The server sends this many bytes, reads everything, and sends nothing more. */
static void stalls_after(const char *said) {
    char steps[256], url[2 * URL_MAX];
    snprintf(steps, sizeof steps, "%sEXPECT_CLOSE", said);
    t_fake *fake = t_fake_start(steps);
    snprintf(url, sizeof url, "rediss://127.0.0.1:%d?connect_timeout=200ms", t_fake_port(fake));
    int64_t begun = t_now_ms();
    check_refused(url, HF_UNREACHABLE, "the TLS handshake with");
    assert_true(t_now_ms() - begun >= 190);
    t_fake_free(fake);
}

static void F17_a_handshake_that_stalls_ends_with_its_time(void **state) {
    (void)state;
    stalls_after("");
    /* the head of a record, and nothing else */
    stalls_after("SEND \\x16\\x03\\x03\\x00\\x7a\\x02\n");
}

/* The client reconnects, and the server stalls in that handshake. */
static void F17_a_call_ends_in_time_while_a_handshake_stalls(void **state) {
    (void)state;
    server s = start_server("good", false);
    t_proxy *proxy = t_proxy_start(s.port);
    char url[2 * URL_MAX];
    hf_client *client;
    hf_hold *hold = NULL;
    snprintf(url, sizeof url, "rediss://localhost:%d?%s", t_proxy_port(proxy), trust_ca());
    T_HF(HF_OK, hf_open(url, NULL, &client));
    t_proxy_cut(proxy);
    t_proxy_withhold(proxy, T_TO_CLIENT, true);
    int64_t begun = t_now_ms();
    hf_result result = hf_acquire(client, "stalled", &(hf_options){.wait_ms = 300}, &hold);
    assert_null(hold);
    assert_true(result == HF_UNREACHABLE || result == HF_UNKNOWN_OUTCOME);
    assert_true(t_now_ms() - begun < t_patience(4000)); /* connect_timeout is longer */
    t_proxy_withhold(proxy, T_TO_CLIENT, false);
    T_HF(HF_OK, hf_acquire(client, "stalled", &(hf_options){.wait_ms = t_patience(5000)}, &hold));
    T_HF(HF_OK, hf_release(hold));
    hf_close(client);
    t_proxy_free(proxy);
    t_redis_free(s.redis);
}

/* A queued waiter gets its notification over TLS, too. */
static void a_lock_is_handed_over_through_tls(void **state) {
    (void)state;
    server s = start_server("good", false);
    hf_client *clients[2];
    hf_hold *hold, *other = NULL;
    const char *url = url_of(s, "localhost", trust_ca());
    for (int i = 0; i < 2; i++) T_HF(HF_OK, hf_open(url, NULL, &clients[i]));
    T_HF(HF_OK, hf_lock(clients[0], "turns", &hold));
    tls_waiter w = {clients[1], &other};
    t_threads *thread = t_threads_start(1, wait_for_lock, &w);
    T_WAIT_UNTIL(t_redis_int(s.redis, "LLEN hf:{turns}:q") == 1, 5000);
    T_WAIT_UNTIL(count_subscribers(s.redis) == 1, 5000);
    T_HF(HF_OK, hf_release(hold));
    t_threads_join(thread, 5000);
    assert_int_equal(hf_held(other), 1);
    T_HF(HF_OK, hf_release(other));
    for (int i = 0; i < 2; i++) hf_close(clients[i]);
    t_redis_free(s.redis);
}

/* A handshake with the server, over our own connection. */
static hf__tls *shake_hands(const hf__url *url, int fd) {
    char bytes[4096], *detail = NULL;
    hf__buffer out, plain;
    hf__tls *tls = NULL;
    hf__buffer_init(&out, 1 << 16);
    hf__buffer_init(&plain, 1 << 16);
    T_HF(HF_OK, hf__tls_new(url, NULL, &out, &tls, &detail));
    while (!hf__tls_ready(tls)) {
        assert_int_equal(write(fd, out.data, out.length), out.length);
        hf__buffer_cut(&out, 0);
        ssize_t n = read(fd, bytes, sizeof bytes);
        assert_true(n > 0);
        T_HF(HF_OK, hf__tls_feed(tls, bytes, (size_t)n, &plain, &out, &detail));
    }
    hf__buffer_fini(&out);
    hf__buffer_fini(&plain);
    return tls;
}

static size_t in_use(void) {
    struct mallinfo2 all = mallinfo2(); /* zeros under a sanitizer, which has its own heap */
    return all.uordblks + all.hblkhd;
}

/* After a large burst of data is sent, none of its memory is kept. */
static void memory_of_a_burst_is_not_kept(void **state) {
    enum { BURST = 8 << 20, KEPT_MAX = 256 << 10 };
    (void)state;
    server s = start_server("good", false);
    int fd = t_net_connect(s.port);
    hf__url url;
    hf__buffer records;
    T_HF(HF_OK, hf__url_parse(&url, url_of(s, "localhost", trust_ca())));
    hf__tls *tls = shake_hands(&url, fd);
    size_t before = in_use();
    char *bytes = calloc(1, BURST);
    assert_non_null(bytes);
    hf__buffer_init(&records, 2 * (size_t)BURST);
    hf__tls_seal(tls, bytes, BURST, &records);
    assert_false(records.failed);
    assert_true(records.length > BURST);
    hf__buffer_fini(&records);
    free(bytes);
    assert_true(in_use() <= before + KEPT_MAX);
    hf__tls_free(tls);
    hf__url_fini(&url);
    close(fd);
    t_redis_free(s.redis);
}

static void run_program(const char *program, const char *argument) {
    char command[2 * URL_MAX];
    snprintf(command, sizeof command, "%.1000s %.1000s", program, argument);
    if (system(command) != 0) t_fail("the command failed: %s", command);
}

/* Allows everything that OpenSSL would refuse by itself, so a refusal is our own. */
static void allow_all_protocols(void) {
    char path[URL_MAX];
    snprintf(path, sizeof path, "%s/openssl.cnf", dir);
    FILE *file = fopen(path, "we");
    if (!file) t_fail("cannot write %s", path);
    fputs("openssl_conf = all\n[all]\nssl_conf = ssl\n[ssl]\nsystem_default = any\n"
          "[any]\nMinProtocol = TLSv1\nCipherString = DEFAULT@SECLEVEL=0\n",
          file);
    fclose(file);
    setenv("OPENSSL_CONF", path, 1);
}

static int make_certificates(void **state) {
    (void)state;
    if (!mkdtemp(dir)) t_fail("cannot create a directory for certificates");
    run_program(script, dir);
    allow_all_protocols();
    return 0;
}

static int remove_certificates(void **state) {
    (void)state;
    run_program("rm -rf", dir);
    return 0;
}

/* Each node is verified separately. A node with a wrong identity has no vote. */
static void F41_the_nodes_of_a_quorum_are_verified(void **state) {
    (void)state;
    server nodes[] = {start_server("good", false), start_server("good", false),
                      start_server("other-host", false)};
    char url[2 * URL_MAX];
    hf_client *client;
    hf_hold *hold;
    for (int i = 0; i < 3; i++)
        T_WAIT_UNTIL(t_redis_info(nodes[i].redis, "uptime_in_seconds") >= 2, 10000);
    snprintf(url, sizeof url,
             "rediss+quorum://localhost:%d,localhost:%d,localhost:%d?rejoin_delay=1ms&%s",
             nodes[0].port, nodes[1].port, nodes[2].port, trust_ca());
    T_HF(HF_OK, hf_open(url, NULL, &client));
    T_HF(HF_OK, hf_acquire(client, "q", &(hf_options){.wait_ms = 10000}, &hold));
    assert_int_equal(t_redis_int(nodes[0].redis, "EXISTS hf:{q}"), 1);
    assert_int_equal(t_redis_int(nodes[2].redis, "EXISTS hf:{q}"), 0);
    T_HF(HF_OK, hf_release(hold));
    hf_close(client);
    *strchr(url, '?') = '\0';
    check_refused(url, HF_REFUSED, "certificate is not accepted");
    for (int i = 0; i < 3; i++) t_redis_free(nodes[i].redis);
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    script = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_verified_server_serves_locks),
        cmocka_unit_test(a_directory_of_authorities_is_accepted),
        cmocka_unit_test(F41_a_chain_that_is_not_trusted_is_refused),
        cmocka_unit_test(F41_a_certificate_for_another_host_is_refused),
        cmocka_unit_test(F41_an_expired_certificate_is_refused),
        cmocka_unit_test(F41_the_nodes_of_a_quorum_are_verified),
        cmocka_unit_test(only_the_word_none_turns_verification_off_and_it_is_logged),
        cmocka_unit_test(F41_there_is_no_fallback_to_plain),
        cmocka_unit_test(a_client_certificate_is_sent_if_it_is_requested),
        cmocka_unit_test(a_hold_outlives_a_broken_tls_connection),
        cmocka_unit_test(F41_no_version_below_tls_1_2_is_used),
        cmocka_unit_test(the_name_of_the_host_is_sent),
        cmocka_unit_test(F17_a_handshake_that_stalls_ends_with_its_time),
        cmocka_unit_test(F17_a_call_ends_in_time_while_a_handshake_stalls),
        cmocka_unit_test(a_lock_is_handed_over_through_tls),
        cmocka_unit_test(memory_of_a_burst_is_not_kept),
    };
    return cmocka_run_group_tests(tests, make_certificates, remove_certificates);
}
