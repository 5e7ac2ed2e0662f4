/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ways to reach a server: addresses, sockets, databases, passwords; and other programs at the
 * address (F21, F27). The linker redirects getaddrinfo to this file, so a test decides what a name
 * resolves to.
 */
#include "fault.h"

#include <fcntl.h>
#include <netdb.h>
#include <unistd.h>

/* ---- Names ----------------------------------------------------------------------------------- */

#define NAME "locks.test"

/* The addresses NAME resolves to now: up to two, in this order. With none, the lookup fails. */
static const char *_Atomic meaning[2];

static void resolve_name_to(const char *first, const char *second) {
    atomic_store(&meaning[0], first);
    atomic_store(&meaning[1], second);
}

int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **list);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **list);

/* Joins the lists of both addresses. */
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **list) {
    if (strcmp(host, NAME) != 0 || hints->ai_flags & AI_NUMERICHOST)
        return __real_getaddrinfo(host, port, hints, list);
    int error = EAI_NONAME;
    *list = NULL;
    for (int i = 0; i < 2; i++) {
        const char *address = atomic_load(&meaning[i]);
        if (!address) continue;
        error = __real_getaddrinfo(address, port, hints, list);
        if (error) break;
        while (*list) list = &(*list)->ai_next;
    }
    return error;
}

static const char *url_by_name(bed *b) {
    static char url[64];
    snprintf(url, sizeof url, "redis://" NAME ":%u", t_redis_port(b->redis));
    return url;
}

/* Skips the test if the machine has no IPv6. In CI a skip counts as a failure. */
static void need_ipv6(void) {
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *list = NULL;
    if (__real_getaddrinfo("::1", "1", &hints, &list)) skip();
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool there = fd >= 0 && bind(fd, list->ai_addr, list->ai_addrlen) == 0;
    freeaddrinfo(list);
    if (fd >= 0) close(fd);
    if (!there) skip();
}

static const char *const ON_IPV6[] = {"bind ::1", NULL};
static const t_redis_options IPV6_ALONE = {.config = ON_IPV6};

static bed *start_on_ipv6(void **state) {
    bed *b = *state;
    need_ipv6();
    b->redis = t_redis_start(&IPV6_ALONE);
    return b;
}

static void connect_by_ipv6_address(void **state) {
    char url[64];
    bed *b = start_on_ipv6(state);
    snprintf(url, sizeof url, "redis://[::1]:%u", t_redis_port(b->redis));
    FREE(TAKE(bed_open(b, url, NULL)));
}

static void connect_to_the_second_address_of_a_name(void **state) {
    bed *b = *state;
    resolve_name_to("::1", T_HOST);
    FREE(TAKE(bed_open(b, url_by_name(b), NULL)));
}

static void connect_to_the_second_address_of_a_name_by_ipv6(void **state) {
    bed *b = start_on_ipv6(state);
    resolve_name_to(T_HOST, "::1");
    FREE(TAKE(bed_open(b, url_by_name(b), NULL)));
}

static void F21_an_unknown_name_is_reported(void **state) {
    hf_client *client = NULL;
    resolve_name_to(NULL, NULL);
    T_HF(HF_UNREACHABLE, hf_open(url_by_name(*state), NULL, &client));
    check_detail("cannot look up the host name");
    check_detail(NAME);
}

/* Every connection attempt looks the name up again. */
static void F21_a_name_that_changes_leads_to_the_new_address(void **state) {
    bed *b = start_on_ipv6(state);
    uint16_t port = t_redis_port(b->redis);
    resolve_name_to("::1", NULL);
    hf_client *client = bed_open(b, url_by_name(b), NULL);
    FREE(TAKE(client));
    resolve_name_to(NULL, NULL); /* for a while the name does not resolve at all */
    t_redis_free(b->redis);
    b->redis = t_redis_start(&(t_redis_options){.port = port});
    resolve_name_to(T_HOST, NULL);
    FREE(TAKE(client, .wait_ms = t_patience(20000)));
}

/* ---- Sockets and databases ------------------------------------------------------------------- */

static const t_redis_options UNIX_ALONE = {.unix_only = true};

static void connect_by_unix_socket(void **state) {
    bed *b = *state;
    hf_client *client = bed_open(b, t_redis_unix_url(b->redis), NULL),
              *other = bed_open(b, with_option(t_redis_unix_url(b->redis), "db=5"), NULL);
    hf_hold *hold = TAKE(client);
    FREE(TAKE(other)); /* a database of its own */
    t_redis_restart(b->redis);
    UNTIL(stats_of(client).lost == 1);
    T_HF(HF_LOST, hf_release(hold));
    FREE(TAKE(client, .wait_ms = t_patience(SOON_MS)));
}

static void connect_to_a_unix_socket_that_is_not_there(void **state) {
    hf_client *client = NULL;
    (void)state;
    T_HF(HF_UNREACHABLE, hf_open("redis+unix:///nonexistent/redis.sock", NULL, &client));
    check_detail("/nonexistent/redis.sock");
}

static const char *url_of_db(bed *b, int db) {
    static char url[256];
    snprintf(url, sizeof url, "%s/%d", t_redis_url(b->redis), db);
    return url;
}

static void connect_to_a_database(void **state) {
    bed *b = *state;
    hf_client *here = bed_open(b, url_of_db(b, 3), NULL), *there = bed_direct(b);
    hf_hold *hold = TAKE(here), *other = TAKE(there);
    redisReply *reply = t_redis_eval(
        b->redis, "redis.call('SELECT', 3) return redis.call('EXISTS', KEYS[1])", 1, KEY, NULL);
    assert_int_equal(reply->integer, 1);
    freeReplyObject(reply);
    freeReplyObject(t_redis_cmd(b->redis, "CLIENT KILL TYPE normal"));
    UNTIL(stats_of(here).reconnects == 1 && stats_of(there).reconnects == 1);
    FREE(hold); /* each is found in its own database, also after a reconnect */
    FREE(other);
}

static void connect_to_a_database_that_is_not_there(void **state) {
    hf_client *client = NULL;
    T_HF(HF_INVALID, hf_open(url_of_db(*state, 9999), NULL, &client));
    check_detail("databases");
}

/* ---- Passwords ------------------------------------------------------------------------------- */

#define SECRET "s3cr:t/?#@%"
#define WRONG  "wr0ng-pass"

static const t_redis_options LOCKED = {.requirepass = SECRET};
static const char *const USERS[] = {"alice on >" SECRET " ~* &* +@all", NULL};
static const t_redis_options WITH_USERS = {.acl = USERS};

static void check_refused(const char *url, const char *word) {
    hf_client *client = NULL;
    T_HF(HF_REFUSED, hf_open(url, NULL, &client));
    check_detail(word);
    assert_null(strstr(hf_error_detail(), SECRET));
    assert_null(strstr(hf_error_detail(), WRONG));
}

static const char *url_without_password(bed *b) {
    static char url[64];
    snprintf(url, sizeof url, "redis://" T_HOST ":%u", t_redis_port(b->redis));
    return url;
}

static void F27_a_password_is_needed_and_must_be_right(void **state) {
    bed *b = *state;
    FREE(TAKE(bed_direct(b)));
    check_refused(url_without_password(b), "NOAUTH");
    check_refused(t_redis_url_as(b->redis, NULL, WRONG), "WRONGPASS");
    check_refused(t_redis_url_as(b->redis, "nobody", SECRET), "WRONGPASS");
}

static void F27_a_user_logs_in_with_a_password_of_its_own(void **state) {
    bed *b = *state;
    FREE(TAKE(bed_open(b, t_redis_url_as(b->redis, "alice", SECRET), NULL)));
    check_refused(t_redis_url_as(b->redis, "alice", WRONG), "WRONGPASS");
}

static void F27_an_unneeded_password_is_refused(void **state) {
    bed *b = *state;
    check_refused(t_redis_url_as(b->redis, NULL, WRONG), "no password");
}

static void write_password(bed *b, const char *password) {
    int fd = open(t_redis_password_file(b->redis), O_WRONLY | O_TRUNC | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, password, strlen(password)), strlen(password));
    close(fd);
}

static hf_client *open_by_password_file(bed *b) {
    return bed_open(
        b,
        with_option(url_without_password(b), "password_file=%s", t_redis_password_file(b->redis)),
        &(hf_client_options){.command_timeout_ms = t_patience(500)});
}

static void password_file_is_read_again_at_every_connect(void **state) {
    bed *b = *state;
    hf_client *client = open_by_password_file(b);
    hf_hold *hold = TAKE(client);
    set_config(b, "requirepass", "changed");
    write_password(b, "changed\n");
    freeReplyObject(t_redis_cmd(b->redis, "CLIENT KILL TYPE normal"));
    UNTIL(stats_of(client).reconnects == 1);
    check_held(b, hold);
    FREE(hold);
}

/* The old password is refused until the file is updated. Then the client recovers by itself. */
static void password_is_refused_until_its_file_is_updated(void **state) {
    bed *b = *state;
    hf_client *client = open_by_password_file(b);
    FREE(TAKE(client));
    set_config(b, "requirepass", "changed");
    freeReplyObject(t_redis_cmd(b->redis, "CLIENT KILL TYPE normal"));
    hf_info *info = NULL;
    UNTIL(hf_inspect(client, LOCK, &info) != HF_OK && strstr(hf_error_detail(), "WRONGPASS"));
    REFUSED(HF_REFUSED, client, .wait_ms = 0);
    check_detail("WRONGPASS");
    write_password(b, "changed");
    FREE(TAKE(client, .wait_ms = t_patience(SOON_MS)));
}

static void password_file_that_cannot_be_used_is_reported(void **state) {
    bed *b = *state;
    hf_client *client = NULL;
    T_HF(HF_INVALID,
         hf_open(with_option(url_without_password(b), "password_file=/nonexistent/password"), NULL,
                 &client));
    check_detail("/nonexistent/password");
    write_password(b, "");
    T_HF(HF_INVALID, hf_open(with_option(url_without_password(b), "password_file=%s",
                                         t_redis_password_file(b->redis)),
                             NULL, &client));
    check_detail("password_file");
}

/* ---- Something other than a server at the address -------------------------------------------- */

static void check_at_fake(void **state, const char *script, hf_result expected,
                          const char *detail) {
    bed *b = *state;
    hf_client *client = NULL;
    b->fake = t_fake_start(script);
    T_HF(expected, hf_open(t_fake_url(b->fake),
                           &(hf_client_options){.connect_timeout_ms = t_patience(300)}, &client));
    check_detail(detail);
}

static void connect_to_something_that_is_not_redis(void **state) {
    check_at_fake(state,
                  "EXPECT_ANY\nSEND HTTP/1.1 400 Bad Request\\r\\nConnection: close\\r\\n\\r\\n\n"
                  "EXPECT_CLOSE\n",
                  HF_PROTOCOL, "is it one?");
}

static void connect_to_something_that_does_not_answer(void **state) {
    int64_t began = t_now_ms();
    check_at_fake(state, "EXPECT_ANY\nEXPECT_CLOSE\n", HF_UNREACHABLE, "connect_timeout");
    assert_true(t_now_ms() - began >= t_patience(300));
}

static void connect_to_something_that_hangs_up(void **state) {
    check_at_fake(state, "EXPECT_ANY\nCLOSE\n", HF_UNREACHABLE, "closed");
}

static const struct CMUnitTest tests[] = {
    FAULT_TEST_ON(connect_by_ipv6_address, &BED_BARE),
    FAULT_TEST(connect_to_the_second_address_of_a_name),
    FAULT_TEST_ON(connect_to_the_second_address_of_a_name_by_ipv6, &BED_BARE),
    FAULT_TEST(F21_an_unknown_name_is_reported),
    FAULT_TEST_ON(F21_a_name_that_changes_leads_to_the_new_address, &BED_BARE),
    FAULT_TEST_ON(connect_by_unix_socket, &UNIX_ALONE),
    FAULT_TEST_ON(connect_to_a_unix_socket_that_is_not_there, &BED_BARE),
    FAULT_TEST(connect_to_a_database),
    FAULT_TEST(connect_to_a_database_that_is_not_there),
    FAULT_TEST_ON(F27_a_password_is_needed_and_must_be_right, &LOCKED),
    FAULT_TEST_ON(F27_a_user_logs_in_with_a_password_of_its_own, &WITH_USERS),
    FAULT_TEST(F27_an_unneeded_password_is_refused),
    FAULT_TEST_ON(password_file_is_read_again_at_every_connect, &LOCKED),
    FAULT_TEST_ON(password_is_refused_until_its_file_is_updated, &LOCKED),
    FAULT_TEST_ON(password_file_that_cannot_be_used_is_reported, &LOCKED),
    FAULT_TEST_ON(connect_to_something_that_is_not_redis, &BED_BARE),
    FAULT_TEST_ON(connect_to_something_that_does_not_answer, &BED_BARE),
    FAULT_TEST_ON(connect_to_something_that_hangs_up, &BED_BARE),
};

FAULT_MAIN(tests)
