/* SPDX-License-Identifier: Apache-2.0 */
/* Texts for users: results and details for bad input, and log lines. They never contain a secret
   (F41). */
#include "t.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SECRET "s3cr3t-w0rd"
#define WRONG  "wr0ng-s3cr3t"

enum { WATCHDOG_MS = 20000, LINES = 200 };

static t_redis *redis;

static const char *const users[] = {"alice on >" SECRET " ~* &* +@all", NULL};

static int start_redis(void **state) {
    (void)state;
    redis = t_redis_start(&(t_redis_options){.requirepass = SECRET, .acl = users});
    return 0;
}

static int stop_redis(void **state) {
    (void)state;
    t_redis_free(redis);
    return 0;
}

/* ---- The log ---- */

struct logged_lines {
    pthread_mutex_t mutex;
    int count;
    int32_t level[LINES];
    char line[LINES][600];
};

static struct logged_lines logged = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void check_text(const char *text) {
    T_CHECK(!strstr(text, SECRET));
    T_CHECK(!strstr(text, WRONG));
    T_CHECK(!strpbrk(text, "\n\r\x1b"));
}

static void record_line(int32_t level, const char *line, void *arg) {
    struct logged_lines *h = arg;
    check_text(line);
    pthread_mutex_lock(&h->mutex);
    if (h->count < LINES) {
        h->level[h->count] = level;
        snprintf(h->line[h->count++], sizeof h->line[0], "%s", line);
    }
    pthread_mutex_unlock(&h->mutex);
}

static void clear_log(void) {
    pthread_mutex_lock(&logged.mutex);
    logged.count = 0;
    pthread_mutex_unlock(&logged.mutex);
}

/* Number of lines of a level that contain the text. */
static int lines_with(int32_t level, const char *text) {
    int count = 0;
    pthread_mutex_lock(&logged.mutex);
    for (int i = 0; i < logged.count; i++)
        if (logged.level[i] == level && strstr(logged.line[i], text)) count++;
    pthread_mutex_unlock(&logged.mutex);
    return count;
}

static int lines_above(int32_t level) {
    int count = 0;
    pthread_mutex_lock(&logged.mutex);
    for (int i = 0; i < logged.count; i++) count += logged.level[i] > level;
    pthread_mutex_unlock(&logged.mutex);
    return count;
}

/* Short timeouts, so that a test does not wait long for a server that is gone. */
static hf_client_options logging_options(uint32_t level) {
    return (hf_client_options){.log = record_line,
                               .log_arg = &logged,
                               .log_level = level,
                               .command_timeout_ms = 500,
                               .outage_ms = 500};
}

/* A hold is lost in a restart of the server. The log reports it, by level. */
static void live_through_a_restart(uint32_t level) {
    hf_client_options options = logging_options(level);
    hf_client *client;
    hf_hold *hold;
    clear_log();
    T_HF(HF_OK, hf_open(t_redis_url(redis), &options, &client));
    T_HF(HF_OK, hf_try_lock(client, "restart", &hold));
    t_redis_restart(redis);
    T_WAIT_UNTIL(!hf_held(hold), WATCHDOG_MS);
    T_WAIT_UNTIL(lines_with(HF_LOG_WARNING, "lost restart (token") == 1, WATCHDOG_MS);
    T_HF(HF_LOST, hf_release(hold));
    hf_close(client);
    /* says that the connection broke, and to which host */
    assert_true(lines_with(HF_LOG_WARNING, T_HOST) >= 1);
}

static void test_log_lines_by_level(void **state) {
    (void)state;
    live_through_a_restart(0);
    assert_int_equal(lines_above(HF_LOG_WARNING), 0);
    live_through_a_restart(HF_LOG_INFO);
    assert_int_equal(lines_with(HF_LOG_INFO, "again"), 1);
    assert_int_equal(lines_above(HF_LOG_INFO), 0);
    live_through_a_restart(HF_LOG_DEBUG);
}

/* ---- Secrets ---- */

static const char *write_file(const char *text) {
    static char path[512];
    snprintf(path, sizeof path, "%s/password", t_redis_dir(redis));
    FILE *file = fopen(path, "w");
    T_CHECK(file && fputs(text, file) >= 0 && fclose(file) == 0);
    return path;
}

static void check_refused(hf_result result, const char *mentions, const char *url) {
    hf_client_options options = logging_options(HF_LOG_DEBUG);
    hf_client *client;
    hf_result r = hf_open(url, &options, &client);
    if (r != result || client || !strstr(hf_error_detail(), mentions))
        fail_msg("%s: %s (%s), not %s with \"%s\"", url, hf_result_name(r), hf_error_detail(),
                 hf_result_name(result), mentions);
    check_text(hf_error_detail());
}

static const char *url_with(const char *userinfo, const char *rest) {
    static char url[1024];
    snprintf(url, sizeof url, "redis://%s%s:%d%s", userinfo, T_HOST, t_redis_port(redis), rest);
    return url;
}

static const char *url_with_file(const char *path) {
    char rest[600];
    snprintf(rest, sizeof rest, "?password_file=%s", path);
    return url_with("", rest);
}

static void test_F41_no_secret_is_shown(void **state) {
    (void)state;
    clear_log();
    check_refused(HF_REFUSED, "password", url_with(":" WRONG "@", ""));
    check_refused(HF_REFUSED, "password", url_with("alice:" WRONG "@", ""));
    check_refused(HF_REFUSED, "password", url_with("", ""));
    check_refused(HF_REFUSED, "password", url_with_file(write_file(WRONG "\n")));
    check_refused(HF_INVALID, "password_file", url_with_file(write_file("")));
    check_refused(HF_INVALID, "No such file", url_with_file("/nonexistent/file"));
    check_refused(HF_INVALID, "database", url_with(":" SECRET "@", "/x"));
    check_refused(HF_INVALID, "databases", url_with(":" SECRET "@", "/4000"));
    check_refused(HF_INVALID, "unknown option", url_with(":" SECRET "@", "?pasword=" WRONG));
    check_refused(HF_INVALID, "lease", url_with(":" SECRET "@", "?lease=5"));
    check_refused(HF_UNREACHABLE, "cannot connect", "redis://:" SECRET "@127.0.0.1:1");
    assert_true(logged.count > 0);
}

static void take_and_release(const char *url) {
    hf_client_options options = logging_options(HF_LOG_DEBUG);
    hf_client *client;
    hf_hold *hold;
    T_HF(HF_OK, hf_open(url, &options, &client));
    T_HF(HF_OK, hf_try_lock(client, "login", &hold));
    T_HF(HF_OK, hf_release(hold));
    hf_close(client);
}

static void test_ways_to_log_in(void **state) {
    (void)state;
    clear_log();
    take_and_release(url_with(":" SECRET "@", ""));
    take_and_release(url_with("alice:" SECRET "@", "/3"));
    take_and_release(url_with_file(write_file(SECRET "\r\nsecond line\n")));
    take_and_release(url_with_file(write_file(SECRET)));
}

/* The password is changed while a client is open. It is refused, and works again with the new
   one. */
/* The server repeats what it was sent. Our texts must not. */
static void test_F41_a_server_that_echoes_the_password(void **state) {
    (void)state;
    static const char *const echoes[] = {
        "EXPECT AUTH\nSEND -ERR unknown command 'AUTH', with args beginning with: '" SECRET
        "'\\r\\n\nEXPECT_CLOSE\n",
        "EXPECT AUTH\nSEND -ERR " SECRET " is no good\\r\\n\nEXPECT_CLOSE\n",
    };
    for (size_t i = 0; i < sizeof echoes / sizeof *echoes; i++) {
        hf_client_options options = logging_options(HF_LOG_DEBUG);
        hf_client *client;
        char url[128];
        t_fake *fake = t_fake_start(echoes[i]);
        snprintf(url, sizeof url, "redis://:" SECRET "@127.0.0.1:%d", t_fake_port(fake));
        clear_log();
        assert_int_not_equal(hf_open(url, &options, &client), HF_OK);
        check_text(hf_error_detail());
        t_fake_join(fake, WATCHDOG_MS);
        t_fake_free(fake);
    }
}

static void test_a_changed_password_is_read_again(void **state) {
    (void)state;
    hf_client_options options = logging_options(HF_LOG_DEBUG);
    hf_client *client;
    hf_hold *hold;
    clear_log();
    T_HF(HF_OK, hf_open(url_with_file(write_file(SECRET "\n")), &options, &client));
    write_file(WRONG "\n");
    t_redis_restart(redis);
    T_WAIT_UNTIL(hf_try_lock(client, "changed", &hold) == HF_REFUSED, WATCHDOG_MS);
    check_text(hf_error_detail());
    write_file(SECRET "\n");
    T_WAIT_UNTIL(hf_try_lock(client, "changed", &hold) == HF_OK, WATCHDOG_MS);
    T_HF(HF_OK, hf_release(hold));
    hf_close(client);
}

/* ---- Bad input ---- */

#define REFUSED(expected, mentions, ...)                                             \
    do {                                                                             \
        T_HF(expected, __VA_ARGS__);                                                 \
        if (!strstr(hf_error_detail(), mentions))                                    \
            fail_msg("\"%s\" does not contain \"%s\"", hf_error_detail(), mentions); \
    } while (0)

static void test_bad_urls(void **state) {
    (void)state;
    check_refused(HF_INVALID, "named by a URL", "127.0.0.1");
    check_refused(HF_UNSUPPORTED, "http:", "http://127.0.0.1");
    check_refused(HF_INVALID, "unknown option 'leese'", url_with("", "?leese=5s"));
    check_refused(HF_INVALID, "out of range", url_with("", "?lease=10ms"));
    check_refused(HF_INVALID, "2592000000", url_with("", "?lease=49ms"));
    char path[200];
    snprintf(path, sizeof path, "redis+unix:///%0*d", 150, 7);
    check_refused(HF_INVALID, "socket's path", path);
    check_refused(HF_UNREACHABLE, "cannot look up the host name", "redis://no.such.host.invalid");
    check_refused(HF_UNREACHABLE, "/nonexistent/redis.sock",
                  "redis+unix:///nonexistent/redis.sock");
}

static void test_F49_bad_leases(void **state) {
    (void)state;
    static const int64_t leases[] = {INT64_MIN,           -1,       1, HF_LEASE_MIN_MS - 1,
                                     HF_LEASE_MAX_MS + 1, INT64_MAX};
    hf_client *client;
    hf_hold *hold, *none;
    T_HF(HF_OK, hf_open(t_redis_url(redis), NULL, &client));
    T_HF(HF_OK, hf_try_lock(client, "held", &hold));
    for (size_t i = 0; i < sizeof leases / sizeof *leases; i++) {
        char number[32];
        snprintf(number, sizeof number, "%lld ms", (long long)leases[i]);
        hf_options options = {.lease_ms = leases[i]};
        REFUSED(HF_INVALID, number, hf_acquire(client, "lease", &options, &none));
        REFUSED(HF_INVALID, number, hf_extend(hold, leases[i]));
    }
    T_HF(HF_OK, hf_release(hold));
    hf_close(client);
}

struct far {
    t_proxy *proxy;
    char url[256];
};

static void go_far(struct far *far, const char *options) {
    far->proxy = t_proxy_start(t_redis_port(redis));
    t_proxy_delay(far->proxy, T_TO_CLIENT, 60);
    snprintf(far->url, sizeof far->url, "redis://:%s@%s:%d%s", SECRET, T_HOST,
             t_proxy_port(far->proxy), options);
}

static void test_F49_a_lease_below_the_round_trip(void **state) {
    (void)state;
    struct far far;
    hf_client *client;
    hf_hold *hold;
    go_far(&far, "");
    T_HF(HF_OK, hf_open(far.url, NULL, &client));
    hf_options options = {.lease_ms = 100};
    REFUSED(HF_INVALID, "100 ms", hf_acquire(client, "far", &options, &hold));
    assert_non_null(strstr(hf_error_detail(), "round trips"));
    long trip = 0;
    assert_int_equal(sscanf(strchr(hf_error_detail(), '('), "(%ld ms", &trip), 1);
    assert_true(trip >= 60);
    options.lease_ms = 5000;
    T_HF(HF_OK, hf_acquire(client, "far", &options, &hold));
    REFUSED(HF_INVALID, "round trips", hf_extend(hold, 100));
    T_HF(HF_OK, hf_release(hold));
    hf_close(client);
    t_proxy_free(far.proxy);
}

/* A client whose login took so long that a lease of SLOW_LEASE_MS would be refused. */
enum { SLOW_MS = 1000, SLOW_LEASE_MS = 2000 };

static hf_client *log_in_slowly(struct far *far, const hf_client_options *options) {
    hf_client *client;
    go_far(far, "");
    t_proxy_delay(far->proxy, T_TO_CLIENT, SLOW_MS);
    T_HF(HF_OK, hf_open(far->url, options, &client));
    t_proxy_delay(far->proxy, T_TO_CLIENT, 0);
    return client;
}

static void leave_slow(struct far *far, hf_client *client) {
    hf_close(client);
    t_proxy_free(far->proxy);
}

/* The round trip was measured during one login, while the server or this process was paused. It is
   measured again before a lease is refused for it. */
static void test_F49_one_slow_login_refuses_no_lease(void **state) {
    (void)state;
    static const int64_t waits[] = {0, 10000, HF_FOREVER};
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        struct far far;
        hf_client *client = log_in_slowly(&far, NULL);
        const hf_options options = {.wait_ms = waits[i], .lease_ms = SLOW_LEASE_MS};
        hf_hold *hold = NULL;
        T_HF(HF_OK, hf_acquire(client, "once", &options, &hold));
        T_HF(HF_OK, hf_release(hold));
        leave_slow(&far, client);
    }
}

static void test_F49_one_slow_login_refuses_no_lease_of_many_names(void **state) {
    (void)state;
    struct far far;
    hf_client *client = log_in_slowly(&far, NULL);
    const hf_request names[] = {{.name = "once"}, {.name = "twice"}};
    hf_hold *hold = NULL;
    T_HF(HF_OK, hf_acquire_all(client, names, 2, &(hf_options){.lease_ms = SLOW_LEASE_MS}, &hold));
    T_HF(HF_OK, hf_release(hold));
    leave_slow(&far, client);
}

struct async {
    atomic_bool done;
    hf_result result;
    hf_hold *hold;
};

static void store_result(hf_result result, hf_hold *hold, void *arg) {
    struct async *a = arg;
    a->result = result;
    a->hold = hold;
    atomic_store(&a->done, true);
}

static void test_F49_one_slow_login_refuses_no_lease_of_an_async_call(void **state) {
    (void)state;
    struct far far;
    struct async a = {.hold = NULL};
    hf_client *client = log_in_slowly(&far, NULL);
    const hf_options options = {.wait_ms = 10000, .lease_ms = SLOW_LEASE_MS};
    T_HF(HF_OK, hf_acquire_async(client, "once", &options, store_result, &a));
    T_WAIT_UNTIL(atomic_load(&a.done), WATCHDOG_MS);
    T_HF(HF_OK, a.result);
    T_HF(HF_OK, hf_release(a.hold));
    leave_slow(&far, client);
}

/* A store that is slow for a moment is waited for, like one that is away. */
static void *acquire_in_thread(void *arg) {
    struct async *a = arg;
    hf_client *client = (hf_client *)a->hold;
    hf_hold *hold = NULL;
    const hf_options options = {.wait_ms = HF_FOREVER, .lease_ms = SLOW_LEASE_MS};
    a->result = hf_acquire(client, "moment", &options, &hold);
    a->hold = hold;
    return NULL;
}

static void test_F49_a_wait_survives_a_store_that_is_slow_for_a_moment(void **state) {
    (void)state;
    struct far far;
    hf_client *client;
    pthread_t thread;
    go_far(&far, "");
    t_proxy_delay(far.proxy, T_TO_CLIENT, SLOW_MS);
    T_HF(HF_OK, hf_open(far.url, NULL, &client));
    struct async a = {.hold = (hf_hold *)client};
    uint64_t before = t_proxy_bytes(far.proxy, T_TO_SERVER);
    assert_int_equal(pthread_create(&thread, NULL, acquire_in_thread, &a), 0);
    /* The client has measured, and found the store too slow. It sends the second request after the
       answer to the first. */
    for (int i = 0; i < 2; i++) {
        t_proxy_wait_bytes(far.proxy, T_TO_SERVER, before + 1, WATCHDOG_MS);
        before = t_proxy_bytes(far.proxy, T_TO_SERVER);
    }
    t_proxy_delay(far.proxy, T_TO_CLIENT, 0);
    pthread_join(thread, NULL);
    T_HF(HF_OK, a.result);
    T_HF(HF_OK, hf_release(a.hold));
    leave_slow(&far, client);
}

/* The same for the client's default lease: reported at the latest when the lease is used. */
static void test_F49_a_default_lease_below_the_round_trip(void **state) {
    (void)state;
    struct far far;
    hf_client *client;
    hf_hold *hold = NULL;
    go_far(&far, "?lease=100ms");
    hf_result r = hf_open(far.url, NULL, &client);
    if (r == HF_OK) r = hf_try_lock(client, "far", &hold);
    if (hold) (void)hf_release(hold);
    hf_close(client);
    t_proxy_free(far.proxy);
    assert_int_equal(r, HF_INVALID);
    assert_non_null(strstr(hf_error_detail(), "round trips"));
}

static void test_F28_a_key_of_another_type(void **state) {
    (void)state;
    hf_client *client;
    hf_hold *hold;
    T_HF(HF_OK, hf_open(t_redis_url(redis), NULL, &client));
    t_redis_str(redis, "SET hf:{typed} x");
    REFUSED(HF_PROTOCOL, "holds something else", hf_try_lock(client, "typed", &hold));
    t_redis_int(redis, "DEL hf:{typed}");
    t_redis_str(redis, "SET hf:{typed}:f x");
    REFUSED(HF_PROTOCOL, "fence key", hf_try_lock(client, "typed", &hold));
    t_redis_int(redis, "DEL hf:{typed}:f");
    T_HF(HF_OK, hf_try_lock(client, "typed", &hold));
    T_HF(HF_OK, hf_release(hold));
    hf_close(client);
}

static void test_a_server_that_is_gone(void **state) {
    (void)state;
    hf_client_options options = logging_options(HF_LOG_DEBUG);
    hf_client *client;
    hf_hold *hold;
    T_HF(HF_OK, hf_open(t_redis_url(redis), &options, &client));
    t_redis_kill9(redis);
    hf_info *info;
    T_WAIT_UNTIL(hf_try_lock(client, "gone", &hold) == HF_UNREACHABLE, WATCHDOG_MS);
    assert_null(hold);
    REFUSED(HF_UNREACHABLE, T_HOST, hf_try_lock(client, "gone", &hold));
    REFUSED(HF_UNREACHABLE, T_HOST, hf_inspect(client, "gone", &info));
    REFUSED(HF_UNREACHABLE, T_HOST, hf_break(client, "gone", 0));
    t_redis_restart(redis);
    T_WAIT_UNTIL(hf_try_lock(client, "gone", &hold) == HF_OK, WATCHDOG_MS);
    T_HF(HF_OK, hf_release(hold));
    hf_close(client);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_log_lines_by_level),
        cmocka_unit_test(test_F41_no_secret_is_shown),
        cmocka_unit_test(test_ways_to_log_in),
        cmocka_unit_test(test_a_changed_password_is_read_again),
        cmocka_unit_test(test_F41_a_server_that_echoes_the_password),
        cmocka_unit_test(test_bad_urls),
        cmocka_unit_test(test_F49_bad_leases),
        cmocka_unit_test(test_F49_a_lease_below_the_round_trip),
        cmocka_unit_test(test_F49_one_slow_login_refuses_no_lease),
        cmocka_unit_test(test_F49_one_slow_login_refuses_no_lease_of_many_names),
        cmocka_unit_test(test_F49_one_slow_login_refuses_no_lease_of_an_async_call),
        cmocka_unit_test(test_F49_a_wait_survives_a_store_that_is_slow_for_a_moment),
        cmocka_unit_test(test_F49_a_default_lease_below_the_round_trip),
        cmocka_unit_test(test_F28_a_key_of_another_type),
        cmocka_unit_test(test_a_server_that_is_gone),
    };
    return cmocka_run_group_tests(tests, start_redis, stop_redis);
}
