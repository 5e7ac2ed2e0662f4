/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Servers that answer what no real server would (F39, F40), through the public API. The client
 * closes the connection, assumes no lock is held, and recovers on the next good connection.
 */
#include "t.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SCRIPT_MAX = 16384, WATCHDOG_MS = 20000, AT_ONCE_MS = 3000 };

#define SHORT "?connect_timeout=3s&command_timeout=1s&outage=1s"

/* The login and the registration are answered. */
#define WELCOME        \
    "HANDSHAKE\n"      \
    "EXPECT EVALSHA\n" \
    "SEND :\\T\\r\\n\n"

/* Steps instead of an answer. A grant in them has the token 666, which no caller may see. */
static const struct attack {
    const char *name, *steps;
    bool is_a_time; /* two numbers: a valid answer at login */
} attacks[] = {
    {"more items than there are", "SEND *2147483647\\r\\n\n", false},
    {"items that overflow", "SEND *4294967297\\r\\n:1\\r\\n\n", false},
    {"items past counting", "SEND *99999999999999999999\\r\\n\n", false},
    {"negative items", "SEND *-2\\r\\n\n", false},
    {"a negative length", "SEND $-2\\r\\n\n", false},
    {"a length that overflows", "SEND $18446744073709551615\\r\\n\n", false},
    {"lists in lists", "SEND *1\\r\\n*1\\r\\n*1\\r\\n*1\\r\\n*1\\r\\n*1\\r\\n*1\\r\\n*1\\r\\n\n",
     false},
    {"a list in the grant", "SEND *3\\r\\n:1\\r\\n:\\T\\r\\n*1\\r\\n:666\\r\\n\n", false},
    {"a status", "SEND +OK\\r\\n\n", false},
    {"a number", "SEND :1\\r\\n\n", false},
    {"a text", "SEND $3\\r\\n666\\r\\n\n", false},
    {"nothing", "SEND $-1\\r\\n\n", false},
    {"an empty list", "SEND *0\\r\\n\n", false},
    {"no token", "SEND *2\\r\\n:1\\r\\n:\\T\\r\\n\n", true},
    {"token zero", "SEND *3\\r\\n:1\\r\\n:\\T\\r\\n:0\\r\\n\n", true},
    {"a negative token", "SEND *3\\r\\n:1\\r\\n:\\T\\r\\n:-666\\r\\n\n", true},
    {"a token that is text", "SEND *3\\r\\n:1\\r\\n:\\T\\r\\n+666\\r\\n\n", true},
    {"a time that is none", "SEND *3\\r\\n:1\\r\\n$-1\\r\\n:666\\r\\n\n", false},
    {"a status of its own", "SEND *3\\r\\n:7\\r\\n:\\T\\r\\n:666\\r\\n\n", true},
    {"garbage", "SEND \\x00\\x01\\xff*3\\r\\n:1\\r\\n\n", false},
    {"garbage in the middle", "SEND *3\\r\\n:1\\r\\n?\\x80\\r\\n:666\\r\\n\n", false},
    {"another protocol", "SEND HTTP/1.1 400 Bad Request\\r\\n\\r\\n\n", false},
    {"a push of RESP3", "SEND >2\\r\\n+invalidate\\r\\n*0\\r\\n\n", false},
    {"a map of RESP3", "SEND %1\\r\\n+a\\r\\n:1\\r\\n\n", false},
};

enum { ATTACKS = sizeof attacks / sizeof *attacks };

/* Joins a script from three parts. */
static t_fake *start_fake(const char *before, const char *steps, const char *after) {
    char *script = malloc(SCRIPT_MAX);
    T_CHECK(script);
    T_CHECK(snprintf(script, SCRIPT_MAX, "%s%s%s", before, steps, after) < SCRIPT_MAX);
    t_fake *fake = t_fake_start(script);
    free(script);
    return fake;
}

static hf_result open_fake(const t_fake *fake, const hf_client_options *options,
                           hf_client **client) {
    char url[256];
    snprintf(url, sizeof url, "%s" SHORT, t_fake_url(fake));
    return hf_open(url, options, client);
}

/* Acquires until the good server grants. Every failure must be a result that a user can act on. */
static hf_hold *acquire_in_the_end(hf_client *client, const char *name) {
    hf_hold *hold = NULL;
    int64_t until = t_now_ms() + t_patience(WATCHDOG_MS);
    while (hf_try_lock(client, "n", &hold) != HF_OK) {
        assert_null(hold);
        assert_true(*hf_error_detail());
        if (t_now_ms() > until)
            fail_msg("%s: the client did not recover: %s", name, hf_error_detail());
        t_sleep_ms(1);
    }
    return hold;
}

/* A bad answer, and then a good server at the same address. */
static void check_attack(const struct attack *attack) {
    hf_client *client;
    hf_hold *hold = NULL;
    t_fake *fake = start_fake(WELCOME "EXPECT EVALSHA\n", attack->steps, "EXPECT_CLOSE\n");
    uint16_t port = t_fake_port(fake);
    T_HF(HF_OK, open_fake(fake, NULL, &client));
    if (hf_acquire(client, "n", &(hf_options){.wait_ms = 1}, &hold) == HF_OK)
        fail_msg("%s: the lock counts as held, with the token %d", attack->name,
                 (int)hf_fence(hold));
    t_fake_join(fake, WATCHDOG_MS);
    t_fake_free(fake);
    t_redis *good = t_redis_start(&(t_redis_options){.port = port});
    hold = acquire_in_the_end(client, attack->name);
    assert_true(hf_fence(hold) != 666);
    T_HF(HF_OK, hf_release(hold));
    hf_close(client);
    t_redis_free(good);
}

static void test_F39_F40_answers_to_an_acquire(void **state) {
    (void)state;
    for (size_t i = 0; i < ATTACKS; i++) check_attack(&attacks[i]);
}

/* The same at login, where nothing is retried: hf_open reports the error. */
static void check_login(const struct attack *attack) {
    hf_client *client;
    t_fake *fake = start_fake("EXPECT TIME\n", attack->steps, "EXPECT_CLOSE\n");
    hf_result r = open_fake(fake, NULL, &client);
    if (r != HF_PROTOCOL || client || !strstr(hf_error_detail(), T_HOST))
        fail_msg("%s at login: hf_open returned %s (%s)", attack->name, hf_result_name(r),
                 hf_error_detail());
    t_fake_join(fake, WATCHDOG_MS);
    t_fake_free(fake);
}

static void test_F39_F40_answers_to_a_login(void **state) {
    (void)state;
    for (size_t i = 0; i < ATTACKS; i++)
        if (!attacks[i].is_a_time) check_login(&attacks[i]);
}

/* ---- Endless answers ------------------------------------------------------------------------- */

#define SOME                                                                                     \
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789" \
    "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789"
#define FLOOD "LOOP 1000\nSEND " SOME SOME SOME "\nEND\n"

static const struct attack floods[] = {
    {"half a gigabyte", "SEND $536870912\\r\\n\n" FLOOD, false},
    {"an endless line", "SEND +\n" FLOOD, false},
    {"an endless error", "SEND -ERR \n" FLOOD, false},
};

/* The client closes the connection in the middle, so the script does not reach its end. */
static void check_flood(const struct attack *flood) {
    hf_client *client;
    hf_hold *hold;
    t_fake *fake = start_fake("EXPECT TIME\n", flood->steps, "");
    T_HF(HF_PROTOCOL, open_fake(fake, NULL, &client));
    t_fake_free(fake);
    fake = start_fake(WELCOME "EXPECT EVALSHA\n", flood->steps, "");
    T_HF(HF_OK, open_fake(fake, NULL, &client));
    assert_int_not_equal(hf_acquire(client, "n", &(hf_options){.wait_ms = 300}, &hold), HF_OK);
    assert_null(hold);
    hf_close(client);
    t_fake_free(fake);
}

static void test_F39_answers_without_end(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof floods / sizeof *floods; i++) check_flood(&floods[i]);
}

/* ---- Answers without a request --------------------------------------------------------------- */

struct losses {
    atomic_int count;
};

static void count_loss(hf_hold *hold, void *arg) {
    (void)hold;
    atomic_fetch_add(&((struct losses *)arg)->count, 1);
}

/* The server of the next connection knows of no hold. */
#define NEXT_KNOWS_NOTHING                                       \
    "EXPECT_CLOSE\n"                                             \
    "ACCEPT\n"                                                   \
    "HANDSHAKE\n"                                                \
    "EXPECT EVALSHA\n" /* registers */                           \
    "SEND :\\T\\r\\n\n"                                          \
    "EXPECT EVALSHA\n" /* renews */                              \
    "SEND :-\\T\\r\\n\n"                                         \
    "LOOP\n"                                                     \
    "EXPECT EVALSHA\n"                                           \
    "SEND *5\\r\\n:0\\r\\n:\\T\\r\\n:10\\r\\n:0\\r\\n:1\\r\\n\n" \
    "END\n"

/* The lock may look held for a moment. In the end it is not held, and the holder was notified. */
static void find_out(const char *steps) {
    hf_client *client;
    hf_hold *hold = NULL;
    struct losses losses = {0};
    t_fake *fake = start_fake(steps, "", NEXT_KNOWS_NOTHING);
    T_HF(HF_OK, open_fake(fake, NULL, &client));
    hf_options options = {.on_lost = count_loss, .arg = &losses};
    hf_result r = hf_acquire(client, "n", &options, &hold);
    if (r == HF_OK) { /* found out immediately, long before the next renewal is due */
        T_WAIT_UNTIL(!hf_held(hold) && atomic_load(&losses.count) == 1, AT_ONCE_MS);
        T_HF(HF_LOST, hf_release(hold));
    }
    T_WAIT_UNTIL(hf_try_lock(client, "n", &hold) == HF_BUSY, AT_ONCE_MS);
    t_fake_join(fake, WATCHDOG_MS);
    hf_close(client);
    t_fake_free(fake);
}

#define GRANT "*3\\r\\n:1\\r\\n:\\T\\r\\n:666\\r\\n"

static void test_F40_more_answers_than_requests(void **state) {
    (void)state;
    find_out(WELCOME "EXPECT EVALSHA\nSEND " GRANT GRANT "\n");
    find_out(WELCOME "EXPECT EVALSHA\nSEND " GRANT "+OK\\r\\n\n");
    find_out(WELCOME "EXPECT EVALSHA\nSEND " GRANT "trailing\n");
}

/* No request is in flight. Unexpected bytes must not be taken for the answer to the next
   request. */
static void test_F40_answers_before_the_request(void **state) {
    (void)state;
    hf_client *client;
    hf_hold *hold = NULL;
    struct losses losses = {0};
    t_fake *fake = start_fake(WELCOME "EXPECT EVALSHA\nSEND " GRANT "\nSLEEP 20\nSEND " GRANT "\n",
                              "", NEXT_KNOWS_NOTHING);
    t_proxy *proxy = t_proxy_start(t_fake_port(fake));
    T_HF(HF_OK, hf_open(t_proxy_url(proxy), NULL, &client));
    hf_options options = {.on_lost = count_loss, .arg = &losses};
    T_HF(HF_OK, hf_acquire(client, "n", &options, &hold));
    uint64_t answered = t_proxy_forwarded(proxy, T_TO_CLIENT);
    T_WAIT_UNTIL(t_proxy_forwarded(proxy, T_TO_CLIENT) > answered, WATCHDOG_MS);
    T_HF(HF_UNREACHABLE, hf_extend(hold, 60000));
    T_WAIT_UNTIL(!hf_held(hold) && atomic_load(&losses.count) == 1, AT_ONCE_MS);
    T_HF(HF_LOST, hf_release(hold));
    T_WAIT_UNTIL(hf_try_lock(client, "n", &hold) == HF_BUSY, AT_ONCE_MS);
    t_fake_join(fake, WATCHDOG_MS);
    hf_close(client);
    t_proxy_free(proxy);
    t_fake_free(fake);
}

/* ---- Invalid times --------------------------------------------------------------------------- */

/* No calculation of the client with this time may overflow. */
static void bad_time(const char *before, const char *time, const char *after) {
    hf_client *client = NULL;
    hf_hold *hold = NULL;
    t_fake *fake = start_fake(before, time, after);
    hf_result r = open_fake(fake, NULL, &client);
    if (!r) r = hf_try_lock(client, "n", &hold);
    if (!r) (void)hf_release(hold);
    hf_close(client);
    t_fake_free(fake);
}

static void test_F39_times_that_overflow(void **state) {
    (void)state;
    static const char *const times[] = {"9223372036854775807", "-9223372036854775808"};
    for (size_t i = 0; i < 2; i++) {
        bad_time("EXPECT TIME\nSEND *2\\r\\n:", times[i],
                 "\\r\\n:0\\r\\n\nEXPECT_ANY\nRESET\nREFUSE\n");
        bad_time("HANDSHAKE\nEXPECT EVALSHA\nSEND :", times[i],
                 "\\r\\n\nEXPECT EVALSHA\nSEND " GRANT "\nEXPECT EVALSHA\nRESET\nREFUSE\n");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_F39_F40_answers_to_an_acquire),
        cmocka_unit_test(test_F39_F40_answers_to_a_login),
        cmocka_unit_test(test_F39_answers_without_end),
        cmocka_unit_test(test_F40_more_answers_than_requests),
        cmocka_unit_test(test_F39_times_that_overflow),
        cmocka_unit_test(test_F40_answers_before_the_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
