/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding a cluster: through any node in the URL, under any host name, with a password, and over
 * TLS. Also the errors if there is no cluster.
 */
#include "kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { URL_MAX = 1024 };

static char url[URL_MAX];

static hf_client *open_at(const char *where) {
    hf_client *client = NULL;
    T_HF(HF_OK, hf_open(where, NULL, &client));
    return client;
}

static void check_refused(const char *where, hf_result result, const char *says) {
    hf_client *client;
    T_HF(result, hf_open(where, NULL, &client));
    assert_null(client);
    if (!strstr(hf_error_detail(), says))
        t_fail("the error detail does not contain \"%s\": %s", says, hf_error_detail());
}

/* Takes a lock on each node and hands it over. */
static void check_locks(hf_client *client, hf_client *other) {
    for (int node = 0; node < T_PRIMARIES; node++) {
        const char *name = kit_name(node);
        hf_hold *hold = kit_take(client, name, NULL);
        cluster_wait w;
        assert_true(kit_has(node, name));
        kit_begin(&w, other, name, NULL);
        T_WAIT_UNTIL(kit_subscribers(node, name) == 1, SOON_MS);
        T_HF(HF_OK, hf_release(hold));
        T_HF(HF_OK, kit_end_wait(&w));
        T_HF(HF_OK, hf_release(w.hold));
    }
}

static void any_node_that_answers_is_enough(void **state) {
    (void)state;
    uint16_t nobody = t_net_free_port();
    snprintf(url, sizeof url, "redis+cluster://" T_HOST ":%u," T_HOST ":%u," T_HOST ":%u", nobody,
             t_net_free_port(), t_cluster_port(cluster, 1));
    hf_client *client = open_at(url), *other = open_at(t_cluster_url(cluster));
    check_locks(client, other);
    hf_close(other);
    hf_close(client);
}

/* A node that accepts connections and does not answer delays nobody. */
static void a_node_that_does_not_answer_is_skipped(void **state) {
    (void)state;
    t_redis_stop(t_cluster_node(cluster, 0));
    hf_client *client = open_at(t_cluster_url(cluster));
    const char *name = kit_name(1);
    T_HF(HF_OK, hf_release(kit_take(client, name, NULL)));
    hf_close(client);
    t_redis_cont(t_cluster_node(cluster, 0));
}

/* The nodes know each other by address. */
static void a_node_may_be_known_by_another_name(void **state) {
    (void)state;
    snprintf(url, sizeof url, "redis+cluster://localhost:%u", t_cluster_port(cluster, 2));
    hf_client *client = open_at(url), *other = open_at(url);
    check_locks(client, other);
    hf_close(other);
    hf_close(client);
}

static void a_client_without_threads_finds_the_nodes(void **state) {
    (void)state;
    hf_client *client;
    hf_hold *hold;
    T_HF(HF_OK,
         hf_open(t_cluster_url(cluster), &(hf_client_options){.flags = HF_NO_THREAD}, &client));
    for (int node = 0; node < T_PRIMARIES; node++) {
        T_HF(HF_OK, hf_try_lock(client, kit_name(node), &hold));
        T_HF(HF_OK, hf_dispatch(client));
        T_HF(HF_OK, hf_release(hold));
    }
    hf_close(client);
}

/* ---- Not a cluster --------------------------------------------------------------------------- */

static void a_missing_node_is_reported(void **state) {
    (void)state;
    snprintf(url, sizeof url, "redis+cluster://" T_HOST ":%u," T_HOST ":%u", t_net_free_port(),
             t_net_free_port());
    check_refused(url, HF_UNREACHABLE, "cannot connect to");
}

static void a_server_without_a_cluster_is_reported(void **state) {
    (void)state;
    t_redis *redis = t_redis_start(NULL);
    snprintf(url, sizeof url, "redis+cluster://" T_HOST ":%u", t_redis_port(redis));
    check_refused(url, HF_INVALID, "not part of a cluster");
    t_redis_free(redis);
}

static void a_cluster_that_was_not_created_is_reported(void **state) {
    (void)state;
    static const char *const config[] = {"cluster-enabled yes", NULL};
    t_redis *redis = t_redis_start(&(t_redis_options){.config = config});
    snprintf(url, sizeof url, "redis+cluster://" T_HOST ":%u", t_redis_port(redis));
    check_refused(url, HF_UNREACHABLE, "no node has slots");
    t_redis_free(redis);
}

static void a_cluster_node_is_not_used_as_a_single_server(void **state) {
    (void)state;
    hf_hold *hold;
    snprintf(url, sizeof url, "redis://" T_HOST ":%u", t_cluster_port(cluster, 0));
    hf_client *client = open_at(url);
    T_HF(HF_UNSUPPORTED, hf_try_lock(client, kit_name(1), &hold));
    assert_non_null(strstr(hf_error_detail(), "use redis+cluster://"));
    hf_close(client);
}

/* ---- Password and TLS ------------------------------------------------------------------------ */

static int start_plain(void **state) {
    (void)state;
    cluster = t_cluster_start(&(t_cluster_options){.alone = true});
    return 0;
}

#ifdef CERTIFICATES
static char dir[] = "/tmp/hf-cluster-tls-XXXXXX";

/* TLS to every node, with plain ports closed. */
static void F41_each_node_is_verified_and_logged_in_to(void **state) {
    (void)state;
    const char *hosts = strstr(t_cluster_url(cluster), "://") + 3;
    snprintf(url, sizeof url, "rediss+cluster://:secret@%s?tls_ca=%s/ca.crt", hosts, dir);
    hf_client *client = open_at(url), *other = open_at(url);
    check_locks(client, other);
    hf_close(other);
    hf_close(client);
    snprintf(url, sizeof url, "rediss+cluster://:secret@%s?tls_ca=%s/stranger.crt", hosts, dir);
    check_refused(url, HF_REFUSED, "certificate");
    snprintf(url, sizeof url, "rediss+cluster://:wrong@%s?tls_ca=%s/ca.crt", hosts, dir);
    check_refused(url, HF_REFUSED, "password");
    assert_null(strstr(hf_error_detail(), "wrong"));
}

static int start_tls(void **state) {
    (void)state;
    char command[URL_MAX];
    if (!mkdtemp(dir)) return -1;
    snprintf(command, sizeof command, "%s %s", CERTIFICATES, dir);
    if (system(command) != 0) return -1;
    t_cluster_free(cluster);
    cluster = t_cluster_start(
        &(t_cluster_options){.alone = true, .password = "secret", .certificates = dir});
    return 0;
}

static int end_tls(void **state) {
    (void)state;
    char command[URL_MAX];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}
#endif

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    t_leave_out("F41_each_node_is_verified_and_logged_in_to", "tls");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_node_that_answers_is_enough),
        cmocka_unit_test(a_node_that_does_not_answer_is_skipped),
        cmocka_unit_test(a_node_may_be_known_by_another_name),
        cmocka_unit_test(a_client_without_threads_finds_the_nodes),
        cmocka_unit_test(a_missing_node_is_reported),
        cmocka_unit_test(a_server_without_a_cluster_is_reported),
        cmocka_unit_test(a_cluster_that_was_not_created_is_reported),
        cmocka_unit_test(a_cluster_node_is_not_used_as_a_single_server),
#ifdef CERTIFICATES
        cmocka_unit_test_setup_teardown(F41_each_node_is_verified_and_logged_in_to, start_tls,
                                        end_tls),
#endif
    };
    return cmocka_run_group_tests(tests, start_plain, kit_end);
}
