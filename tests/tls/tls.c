/*
 * rediss:// against a real server with throw-away certificates (F41): who is accepted, who is not, and
 * that the lock behind it is the same lock.
 */
#include "t.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define URL_MAX 1024

static char dir[] = "/tmp/hf-tls-XXXXXX";
static const char *script; /* tests/tls/certificates */

typedef struct server {
    t_redis *redis;
    uint16_t port;
} server;

/* A server that speaks TLS with this certificate, and trusts ours for clients. */
static server start(const char *certificate, bool wants_client) {
    server s = {.port = t_net_free_port()};
    char lines[6][URL_MAX];
    snprintf(lines[0], URL_MAX, "tls-port %d", s.port);
    snprintf(lines[1], URL_MAX, "tls-cert-file %s/%s.crt", dir, certificate);
    snprintf(lines[2], URL_MAX, "tls-key-file %s/%s.key", dir, certificate);
    snprintf(lines[3], URL_MAX, "tls-ca-cert-file %s/ca.crt", dir);
    snprintf(lines[4], URL_MAX, "tls-auth-clients %s", wants_client ? "yes" : "no");
    const char *config[] = {lines[0], lines[1], lines[2], lines[3], lines[4], NULL};
    s.redis = t_redis_start(&(t_redis_options){.config = config});
    return s;
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

static void refused(const char *url, hf_result result, const char *says) {
    hf_client *client;
    T_HF(result, hf_open(url, NULL, &client));
    assert_null(client);
    if (!strstr(hf_error_detail(), says))
        t_fail("the detail should say \"%s\": %s", says, hf_error_detail());
}

/* Take, look through the plain port, re-take after a cut of the connection, release. */
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
    server s = start("good", false);
    lock_through(s, url_of(s, "localhost", trust_ca()));
    lock_through(s, url_of(s, "127.0.0.1", trust_ca()));
    t_redis_free(s.redis);
}

static void a_directory_of_authorities_will_do(void **state) {
    (void)state;
    server s = start("good", false);
    char option[URL_MAX];
    snprintf(option, sizeof option, "tls_ca=%s/authorities", dir);
    lock_through(s, url_of(s, "localhost", option));
    t_redis_free(s.redis);
}

static void F41_a_chain_that_is_not_trusted_is_refused(void **state) {
    (void)state;
    server s = start("good", false);
    char option[URL_MAX];
    refused(url_of(s, "localhost", ""), HF_REFUSED, "certificate is not accepted");
    snprintf(option, sizeof option, "tls_ca=%s/stranger.crt", dir);
    refused(url_of(s, "localhost", option), HF_REFUSED, "certificate is not accepted");
    t_redis_free(s.redis);
}

static void F41_a_certificate_for_another_host_is_refused(void **state) {
    (void)state;
    server s = start("other-host", false);
    refused(url_of(s, "localhost", trust_ca()), HF_REFUSED, "hostname mismatch");
    refused(url_of(s, "127.0.0.1", trust_ca()), HF_REFUSED, "IP address mismatch");
    t_redis_free(s.redis);
}

static void F41_an_expired_certificate_is_refused(void **state) {
    (void)state;
    server s = start("expired", false);
    refused(url_of(s, "localhost", trust_ca()), HF_REFUSED, "expired");
    t_redis_free(s.redis);
}

static void note_warning(int32_t level, const char *line, void *arg) {
    if (level == HF_LOG_WARNING && strstr(line, "tls_verify=none")) *(bool *)arg = true;
}

static void only_the_word_none_turns_verification_off_and_it_is_logged(void **state) {
    (void)state;
    server s = start("expired", false);
    bool warned = false;
    hf_client *client;
    T_HF(HF_OK, hf_open(url_of(s, "localhost", "tls_verify=none"),
                        &(hf_client_options){.log = note_warning, .log_arg = &warned}, &client));
    assert_true(warned);
    hf_close(client);
    refused(url_of(s, "localhost", "tls_verify=no"), HF_INVALID, "can only be none");
    t_redis_free(s.redis);
}

static void F41_there_is_no_fallback_to_plain(void **state) {
    (void)state;
    t_redis *plain = t_redis_start(NULL);
    char url[2 * URL_MAX];
    snprintf(url, sizeof url, "rediss://:sekret@127.0.0.1:%d?connect_timeout=300ms",
             t_redis_port(plain));
    int64_t before = t_redis_info(plain, "total_commands_processed");
    refused(url, HF_UNREACHABLE, "TLS handshake");
    assert_null(strstr(hf_error_detail(), "sekret"));
    assert_int_equal(t_redis_info(plain, "total_commands_processed"), before + 1);
    t_redis_free(plain);
}

static void a_client_certificate_is_shown_where_it_is_wanted(void **state) {
    (void)state;
    server s = start("good", true);
    char option[3 * URL_MAX];
    refused(url_of(s, "localhost", trust_ca()), HF_REFUSED, "localhost");
    snprintf(option, sizeof option, "%s&tls_cert=%s/client.crt&tls_key=%s/client.key", trust_ca(),
             dir, dir);
    lock_through(s, url_of(s, "localhost", option));
    snprintf(option, sizeof option, "%s&tls_cert=%s/client.crt&tls_key=%s/good.key", trust_ca(),
             dir, dir);
    refused(url_of(s, "localhost", option), HF_INVALID, "tls_key");
    snprintf(option, sizeof option, "%s&tls_cert=%s/absent.crt", trust_ca(), dir);
    refused(url_of(s, "localhost", option), HF_INVALID, "No such file");
    t_redis_free(s.redis);
}

/* Records of every size, cut anywhere, and a broken connection in between. */
static void a_hold_outlives_a_broken_tls_connection(void **state) {
    (void)state;
    server s = start("good", false);
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

static void run(const char *program, const char *argument) {
    char command[2 * URL_MAX];
    snprintf(command, sizeof command, "%.1000s %.1000s", program, argument);
    if (system(command) != 0) t_fail("failed: %s", command);
}

static int make_certificates(void **state) {
    (void)state;
    if (!mkdtemp(dir)) t_fail("no directory for certificates");
    run(script, dir);
    return 0;
}

static int remove_certificates(void **state) {
    (void)state;
    run("rm -rf", dir);
    return 0;
}

/* Each node is verified by itself: one that is not who it should be has no vote. */
static void F41_the_nodes_of_a_quorum_are_verified(void **state) {
    (void)state;
    server nodes[] = {start("good", false), start("good", false), start("other-host", false)};
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
    refused(url, HF_REFUSED, "certificate is not accepted");
    for (int i = 0; i < 3; i++) t_redis_free(nodes[i].redis);
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    script = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_verified_server_serves_locks),
        cmocka_unit_test(a_directory_of_authorities_will_do),
        cmocka_unit_test(F41_a_chain_that_is_not_trusted_is_refused),
        cmocka_unit_test(F41_a_certificate_for_another_host_is_refused),
        cmocka_unit_test(F41_an_expired_certificate_is_refused),
        cmocka_unit_test(F41_the_nodes_of_a_quorum_are_verified),
        cmocka_unit_test(only_the_word_none_turns_verification_off_and_it_is_logged),
        cmocka_unit_test(F41_there_is_no_fallback_to_plain),
        cmocka_unit_test(a_client_certificate_is_shown_where_it_is_wanted),
        cmocka_unit_test(a_hold_outlives_a_broken_tls_connection),
    };
    return cmocka_run_group_tests(tests, make_certificates, remove_certificates);
}
