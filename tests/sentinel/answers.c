/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conflicting answers of Sentinels and nodes, and which of them the client trusts. The tests set up
 * the answers of single Sentinels and the roles of the nodes. Real failovers are in failover.c.
 */
#include "t.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LOCK "lock"
#define KEY  "hf:{lock}"

enum { SOON_MS = 8000, URL_MAX = 1024 };

/* ---- Sentinels and nodes --------------------------------------------------------------------- */

static t_redis *start_node(void) {
    static const char *const config[] = {"repl-diskless-sync-delay 0", NULL};
    return t_redis_start(&(t_redis_options){.config = config});
}

/* A single Sentinel never fails over, so its answer does not change. */
static t_redis *sentinel_at(uint16_t port, const t_redis *node, int epoch, const char *password,
                            const char *const *more) {
    char monitor[128], at[64];
    const char *config[16] = {monitor, at};
    snprintf(monitor, sizeof monitor, "sentinel monitor " T_PRIMARY " " T_HOST " %u 2",
             t_redis_port(node));
    snprintf(at, sizeof at, "sentinel config-epoch " T_PRIMARY " %d", epoch);
    for (int i = 0; more && more[i]; i++) config[2 + i] = more[i];
    return t_redis_start(&(t_redis_options){
        .sentinel = true, .port = port, .requirepass = password, .config = config});
}

static t_redis *sentinel_of(const t_redis *node, int epoch) {
    return sentinel_at(0, node, epoch, NULL, NULL);
}

static const char *url_of(const t_redis *first, const t_redis *second, const char *options) {
    static char url[URL_MAX];
    char other[32] = "";
    if (second) snprintf(other, sizeof other, "," T_HOST ":%u", t_redis_port(second));
    snprintf(url, sizeof url, "redis+sentinel://" T_HOST ":%u%s/" T_PRIMARY "?%s",
             t_redis_port(first), other, options);
    return url;
}

static hf_client *open_at(const char *url) {
    hf_client *client;
    T_HF(HF_OK, hf_open(url, NULL, &client));
    return client;
}

static hf_hold *take_lock(hf_client *client) {
    hf_hold *hold = NULL;
    T_HF(HF_OK, hf_acquire(client, LOCK, &(hf_options){.wait_ms = t_patience(SOON_MS)}, &hold));
    return hold;
}

static bool has_lock(t_redis *node) {
    return t_redis_int(node, "EXISTS " KEY) == 1;
}

/* Whether a lock taken now is stored on this node. */
static bool takes_at(hf_client *client, t_redis *node) {
    hf_hold *hold = NULL;
    hf_result result =
        hf_acquire(client, LOCK, &(hf_options){.wait_ms = t_patience(SOON_MS)}, &hold);
    if (result != HF_OK) return false;
    bool there = has_lock(node);
    (void)hf_release(hold); /* it may be lost with a node that the client leaves */
    return there;
}

static void check_refused(const char *url, hf_result result, const char *text) {
    hf_client *client;
    T_HF(result, hf_open(url, NULL, &client));
    if (!strstr(hf_error_detail(), text))
        t_fail("the error detail does not contain \"%s\": %s", text, hf_error_detail());
}

/* A log line that the test waits for. */
typedef struct {
    const char *text;
    atomic_bool found;
} awaited_line;

static void check_line(int32_t level, const char *line, void *arg) {
    awaited_line *awaited = arg;
    if (level == HF_LOG_INFO && strstr(line, awaited->text)) atomic_store(&awaited->found, true);
}

static hf_client *open_with_log(const char *url, awaited_line *awaited) {
    hf_client *client;
    hf_client_options options = {.log = check_line, .log_arg = awaited, .log_level = HF_LOG_INFO};
    T_HF(HF_OK, hf_open(url, &options, &client));
    return client;
}

/* ---- Which Sentinel to believe --------------------------------------------------------------- */

static void F33_a_sentinel_that_is_behind_the_others_is_not_trusted(void **state) {
    (void)state;
    t_redis *old = start_node(), *new = start_node();
    t_redis *behind = sentinel_of(old, 1), *knows = sentinel_of(new, 2);
    static awaited_line disbelieved = {.text = "is not believed"};
    hf_client *client = open_with_log(url_of(knows, behind, ""), &disbelieved);
    hf_hold *hold = take_lock(client);
    T_WAIT_UNTIL(atomic_load(&disbelieved.found), SOON_MS);
    assert_int_equal(hf_held(hold), 1);
    T_HF(HF_OK, hf_extend(hold, 60000));
    assert_true(has_lock(new) && !has_lock(old));
    T_HF(HF_OK, hf_release(hold));
    hf_close(client);
    /* A client that asks this Sentinel first soon gets the newer answer. */
    client = open_at(url_of(behind, knows, ""));
    T_WAIT_UNTIL(takes_at(client, new), SOON_MS);
    T_CHECK(takes_at(client, new));
    hf_close(client);
    t_redis *all[] = {behind, knows, old, new};
    for (int i = 0; i < 4; i++) t_redis_free(all[i]);
}

/* Two of them report a lower epoch than the known one. The client starts again from it. */
static void a_lower_epoch_of_most_sentinels_is_accepted(void **state) {
    (void)state;
    t_redis *old = start_node(), *new = start_node();
    t_redis *first = sentinel_of(old, 9), *second = sentinel_of(old, 9);
    uint16_t ports[] = {t_redis_port(first), t_redis_port(second)};
    hf_client *client = open_at(url_of(first, second, "outage=30s"));
    T_CHECK(takes_at(client, old));
    t_redis_free(first);
    t_redis_free(second);
    first = sentinel_at(ports[0], new, 0, NULL, NULL);
    second = sentinel_at(ports[1], new, 0, NULL, NULL);
    t_redis_kill9(old); /* so that the Sentinels are asked immediately */
    T_WAIT_UNTIL(takes_at(client, new), SOON_MS);
    hf_close(client);
    t_redis *all[] = {first, second, old, new};
    for (int i = 0; i < 4; i++) t_redis_free(all[i]);
}

static void make_replica(t_redis *node, const t_redis *of) {
    freeReplyObject(t_redis_cmd(node, "REPLICAOF " T_HOST " %d", t_redis_port(of)));
    T_WAIT_UNTIL(t_redis_info(node, "master_repl_offset") >= 0 &&
                     strstr(t_redis_str(node, "INFO replication"), "master_link_status:up"),
                 SOON_MS);
}

static void F32_a_node_that_says_it_is_a_replica_is_not_used(void **state) {
    (void)state;
    t_redis *primary = start_node(), *replica = start_node();
    make_replica(replica, primary);
    t_redis *wrong = sentinel_of(replica, 1), *right = sentinel_of(primary, 2);
    check_refused(url_of(wrong, NULL, "connect_timeout=400ms"), HF_UNREACHABLE,
                  "says that it is a replica");
    hf_client *client = open_at(url_of(wrong, right, ""));
    T_CHECK(takes_at(client, primary));
    hf_close(client);
    t_redis *all[] = {wrong, right, primary, replica};
    for (int i = 0; i < 4; i++) t_redis_free(all[i]);
}

/* The node changes its role and keeps its connections. Only its answer shows it. */
static void F32_a_primary_that_becomes_read_only_is_left(void **state) {
    (void)state;
    t_redis *old = start_node(), *new = start_node();
    t_redis *sentinel = sentinel_of(old, 1);
    uint16_t port = t_redis_port(sentinel);
    hf_client *client = open_at(url_of(sentinel, NULL, "outage=30s"));
    T_CHECK(takes_at(client, old));
    make_replica(old, new);
    t_redis_free(sentinel);
    sentinel = sentinel_at(port, new, 2, NULL, NULL);
    T_CHECK(takes_at(client, new));
    hf_close(client);
    t_redis *all[] = {sentinel, old, new};
    for (int i = 0; i < 3; i++) t_redis_free(all[i]);
}

/* The node has the old address and says that it is a primary. A Sentinel that is behind names
   it. */
static void F32_an_old_primary_that_is_back_without_data_is_not_used_again(void **state) {
    (void)state;
    t_redis *old = start_node(), *new = start_node();
    t_redis *behind = sentinel_of(old, 1), *knows = sentinel_of(old, 1);
    uint16_t port = t_redis_port(knows);
    hf_client *client = open_at(url_of(behind, knows, "outage=60s&connect_timeout=30s"));
    T_CHECK(takes_at(client, old));
    t_redis_free(knows);
    knows = sentinel_at(port, new, 2, NULL, NULL);
    t_redis_stop(knows); /* its answer is late */
    t_redis_restart(old);
    for (int64_t end = t_now_ms() + 400; t_now_ms() < end; t_sleep_ms(5))
        assert_int_equal(t_redis_int(old, "DBSIZE"), 0); /* no client has even registered */
    t_redis_cont(knows);
    T_CHECK(takes_at(client, new));
    assert_int_equal(t_redis_int(old, "DBSIZE"), 0);
    hf_close(client);
    t_redis *all[] = {behind, knows, old, new};
    for (int i = 0; i < 4; i++) t_redis_free(all[i]);
}

static void a_client_without_threads_follows_too(void **state) {
    (void)state;
    t_redis *old = start_node(), *new = start_node(), *sentinel = sentinel_of(old, 1);
    uint16_t port = t_redis_port(sentinel);
    hf_client *client;
    T_HF(HF_OK, hf_open(url_of(sentinel, NULL, "outage=30s"),
                        &(hf_client_options){.flags = HF_NO_THREAD}, &client));
    T_CHECK(takes_at(client, old));
    t_redis_free(sentinel);
    sentinel = sentinel_at(port, new, 2, NULL, NULL);
    t_redis_kill9(old);
    T_CHECK(takes_at(client, new));
    hf_close(client);
    t_redis *all[] = {sentinel, old, new};
    for (int i = 0; i < 3; i++) t_redis_free(all[i]);
}

/* The new primary still has the lock, which was released. */
static void F38_a_release_that_was_lost_is_repeated(void **state) {
    (void)state;
    t_redis *old = start_node(), *new = start_node(), *sentinel = sentinel_of(old, 1);
    uint16_t port = t_redis_port(sentinel);
    hf_client *client = open_at(url_of(sentinel, NULL, "lease=10m&outage=30s"));
    hf_hold *hold = take_lock(client);
    redisReply *dump = t_redis_cmd(old, "DUMP " KEY);
    freeReplyObject(t_redis_cmd(new, "RESTORE " KEY " 600000 %b", dump->str, (size_t)dump->len));
    freeReplyObject(dump);
    T_HF(HF_OK, hf_release(hold));
    T_CHECK(has_lock(new));
    t_redis_free(sentinel);
    sentinel = sentinel_at(port, new, 2, NULL, NULL);
    t_redis_kill9(old);
    T_WAIT_UNTIL(!has_lock(new), SOON_MS);
    hf_close(client);
    t_redis *all[] = {sentinel, old, new};
    for (int i = 0; i < 3; i++) t_redis_free(all[i]);
}

/* ---- Messages -------------------------------------------------------------------------------- */

/* The steps of a fake Sentinel that answers a query. */
static void write_answer(char *out, size_t size, uint16_t port, int epoch) {
    snprintf(out, size,
             "EXPECT MASTER\nSEND *2\\r\\n$12\\r\\nconfig-epoch\\r\\n$1\\r\\n%d\\r\\n\n"
             "EXPECT GET-MASTER-ADDR\nSEND *2\\r\\n$9\\r\\n127.0.0.1\\r\\n$5\\r\\n%05u\\r\\n\n"
             "EXPECT SUBSCRIBE\n"
             "SEND *3\\r\\n$9\\r\\nsubscribe\\r\\n$14\\r\\n+switch-master\\r\\n:1\\r\\n\n",
             epoch, port);
}

static void a_failover_message_is_followed(void **state) {
    (void)state;
    t_redis *old = start_node(), *new = start_node();
    char script[2048], url[128], before[600], after[600];
    write_answer(before, sizeof before, t_redis_port(old), 1);
    write_answer(after, sizeof after, t_redis_port(new), 2);
    snprintf(script, sizeof script,
             "%sSLEEP 1500\n"
             "SEND *3\\r\\n$7\\r\\nmessage\\r\\n$14\\r\\n+switch-master\\r\\n"
             "$12\\r\\nmymaster a b\\r\\n\nACCEPT\n%s",
             before, after);
    t_fake *fake = t_fake_start(script);
    snprintf(url, sizeof url, "redis+sentinel://" T_HOST ":%u/" T_PRIMARY, t_fake_port(fake));
    static awaited_line failover = {.text = "reports a failover"};
    hf_client *client = open_with_log(url, &failover);
    hf_hold *hold = take_lock(client);
    T_CHECK(has_lock(old));
    T_WAIT_UNTIL(!hf_held(hold), SOON_MS);
    /* Polling would find it too, but later. */
    T_WAIT_UNTIL(atomic_load(&failover.found), SOON_MS);
    (void)hf_release(hold);
    T_CHECK(takes_at(client, new));
    t_fake_join(fake, SOON_MS);
    hf_close(client);
    t_fake_free(fake);
    t_redis_free(old);
    t_redis_free(new);
}

/* ---- Login ----------------------------------------------------------------------------------- */

static void write_password(char path[64], const char *password) {
    snprintf(path, 64, "/tmp/hf-sentinel-password-XXXXXX");
    int fd = mkstemp(path);
    if (fd < 0 || write(fd, password, strlen(password)) < 0) t_fail("cannot write %s", path);
    close(fd);
}

static void sentinels_have_a_password_of_their_own(void **state) {
    (void)state;
    char path[64], options[128];
    t_redis *node = t_redis_start(&(t_redis_options){.requirepass = "noisy"});
    t_redis *sentinel = sentinel_at(0, node, 1, "hushed", NULL);
    char url[URL_MAX];
    snprintf(url, sizeof url, "redis+sentinel://:noisy@" T_HOST ":%u/" T_PRIMARY,
             t_redis_port(sentinel));
    check_refused(url, HF_REFUSED, "sentinel_password_file");
    write_password(path, "hushed\n");
    snprintf(options, sizeof options, "?sentinel_password_file=%s", path);
    strcat(url, options);
    hf_client *client = open_at(url);
    T_CHECK(takes_at(client, node));
    hf_close(client);
    snprintf(url, sizeof url,
             "redis+sentinel://:false@" T_HOST ":%u/" T_PRIMARY "?sentinel_password_file=%s",
             t_redis_port(sentinel), path);
    check_refused(url, HF_REFUSED, "check user and password"); /* immediately, by the node */
    unlink(path);
    snprintf(url, sizeof url,
             "redis+sentinel://:noisy@" T_HOST ":%u/" T_PRIMARY "?sentinel_password=wrong",
             t_redis_port(sentinel));
    check_refused(url, HF_REFUSED, "WRONGPASS");
    assert_null(strstr(hf_error_detail(), "wrong"));
    t_redis_free(sentinel);
    t_redis_free(node);
}

/* The users of docs/TOPOLOGIES.md have exactly the required rights. */
static void users_need_few_rights(void **state) {
    (void)state;
    static const char *const users[] = {
        "default off",
        "watcher on >quiet resetchannels &+switch-master -@all +sentinel|master "
        "+sentinel|get-master-addr-by-name +subscribe",
        NULL};
    t_redis *node = start_node();
    char monitor[96], url[URL_MAX];
    const char *config[] = {monitor, NULL};
    t_acl_user(node, NULL);
    freeReplyObject(t_redis_cmd(node, "ACL SETUSER holdfast +role"));
    snprintf(monitor, sizeof monitor, "sentinel monitor " T_PRIMARY " " T_HOST " %u 2",
             t_redis_port(node));
    t_redis *sentinel =
        t_redis_start(&(t_redis_options){.sentinel = true, .acl = users, .config = config});
    snprintf(url, sizeof url,
             "redis+sentinel://holdfast:PASSWORD@" T_HOST ":%u/" T_PRIMARY
             "?sentinel_user=watcher&sentinel_password=quiet",
             t_redis_port(sentinel));
    hf_client *client = open_at(url);
    T_CHECK(takes_at(client, node));
    hf_close(client);
    t_acl_none_refused(node);
    t_redis_free(sentinel);
    t_redis_free(node);
}

static void F21_a_sentinel_whose_name_is_not_found_is_passed_over(void **state) {
    (void)state;
    t_redis *node = start_node(), *sentinel = sentinel_of(node, 1);
    char url[URL_MAX];
    snprintf(url, sizeof url, "redis+sentinel://nowhere.invalid," T_HOST ":%u/" T_PRIMARY,
             t_redis_port(sentinel));
    hf_client *client = open_at(url);
    T_CHECK(takes_at(client, node));
    hf_close(client);
    t_redis_free(sentinel);
    t_redis_free(node);
}

static void a_server_that_is_no_sentinel_is_reported(void **state) {
    (void)state;
    t_redis *node = start_node();
    check_refused(url_of(node, NULL, ""), HF_PROTOCOL, "does not answer as a Sentinel does");
    t_redis_kill9(node);
    check_refused(url_of(node, NULL, ""), HF_UNREACHABLE, "no Sentinel says where the primary");
    t_redis_free(node);
}

/* ---- TLS ------------------------------------------------------------------------------------- */

#ifdef CERTIFICATES
static char dir[] = "/tmp/hf-sentinel-tls-XXXXXX";

static int add_tls(char lines[6][URL_MAX], const char **config, uint16_t port) {
    snprintf(lines[0], URL_MAX, "tls-port %u", port);
    snprintf(lines[1], URL_MAX, "tls-cert-file %s/good.crt", dir);
    snprintf(lines[2], URL_MAX, "tls-key-file %s/good.key", dir);
    snprintf(lines[3], URL_MAX, "tls-ca-cert-file %s/ca.crt", dir);
    snprintf(lines[4], URL_MAX, "tls-auth-clients no");
    for (int i = 0; i < 5; i++) config[i] = lines[i];
    return 5;
}

/* TLS to Sentinels and nodes, with plain ports closed. */
static void F41_sentinels_and_nodes_are_reached_over_tls(void **state) {
    (void)state;
    char lines[2][6][URL_MAX], monitor[128], url[URL_MAX];
    const char *node_config[8] = {0}, *config[8] = {0};
    uint16_t node_port = t_net_free_port(), port = t_net_free_port();
    add_tls(lines[0], node_config, node_port);
    t_redis *node = t_redis_start(&(t_redis_options){.config = node_config});
    snprintf(monitor, sizeof monitor, "sentinel monitor " T_PRIMARY " " T_HOST " %u 2", node_port);
    config[add_tls(lines[1], config, port)] = monitor;
    t_redis *sentinel = t_redis_start(&(t_redis_options){.sentinel = true, .config = config});
    snprintf(url, sizeof url, "rediss+sentinel://localhost:%u/" T_PRIMARY "?tls_ca=%s/ca.crt", port,
             dir);
    hf_client *client = open_at(url);
    T_CHECK(takes_at(client, node));
    hf_close(client);
    snprintf(url, sizeof url, "rediss+sentinel://localhost:%u/" T_PRIMARY, port);
    check_refused(url, HF_REFUSED, "certificate is not accepted");
    snprintf(url, sizeof url, "redis+sentinel://localhost:%u/" T_PRIMARY "?connect_timeout=500ms",
             port);
    check_refused(url, HF_UNREACHABLE, "no Sentinel says");
    t_redis_free(sentinel);
    t_redis_free(node);
}

static int make_certificates(void **state) {
    (void)state;
    char command[URL_MAX];
    if (!mkdtemp(dir)) return -1;
    snprintf(command, sizeof command, "%s %s", CERTIFICATES, dir);
    return system(command);
}

static int remove_certificates(void **state) {
    (void)state;
    char command[URL_MAX];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}
#endif

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    t_leave_out("F41_sentinels_and_nodes_are_reached_over_tls", "tls");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(F33_a_sentinel_that_is_behind_the_others_is_not_trusted),
        cmocka_unit_test(a_lower_epoch_of_most_sentinels_is_accepted),
        cmocka_unit_test(F32_a_node_that_says_it_is_a_replica_is_not_used),
        cmocka_unit_test(F32_a_primary_that_becomes_read_only_is_left),
        cmocka_unit_test(F32_an_old_primary_that_is_back_without_data_is_not_used_again),
        cmocka_unit_test(a_client_without_threads_follows_too),
        cmocka_unit_test(F38_a_release_that_was_lost_is_repeated),
        cmocka_unit_test(a_failover_message_is_followed),
        cmocka_unit_test(sentinels_have_a_password_of_their_own),
        cmocka_unit_test(users_need_few_rights),
        cmocka_unit_test(F21_a_sentinel_whose_name_is_not_found_is_passed_over),
        cmocka_unit_test(a_server_that_is_no_sentinel_is_reported),
#ifdef CERTIFICATES
        cmocka_unit_test_setup_teardown(F41_sentinels_and_nodes_are_reached_over_tls,
                                        make_certificates, remove_certificates),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
