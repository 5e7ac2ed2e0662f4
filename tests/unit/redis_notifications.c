/* SPDX-License-Identifier: Apache-2.0 */
/* Grants received as messages: from when their lease counts, and when they are not used. */
#include "t.h"

#include <stdlib.h>

#include "store/redis/protocol/notifications.h"

#define NOW       (1000 * HF__SEC)
#define SERVER_US INT64_C(1794772518000000)
#define LEASE_MS  10000

typedef struct subscriber {
    hf__session commands, messages;
    hf__notifications notifications;
} subscriber;

/* The server's clock was sampled at NOW; the subscriber is connected. */
static int set_up(void **state) {
    subscriber *e = calloc(1, sizeof *e);
    e->commands =
        (hf__session){.state = HF__READY, .link = 3, .server_us = SERVER_US, .sampled_at = NOW};
    e->notifications = (hf__notifications){.commands = &e->commands, .messages = &e->messages};
    hf__notifications_connecting(&e->notifications);
    hf__notifications_update(&e->notifications, true);
    hf__notification notification;
    assert_true(hf__notifications_next(&e->notifications, &notification));
    assert_int_equal(notification.type, HF__NOTIFICATIONS_MISSED);
    *state = e;
    return 0;
}

static int tear_down(void **state) {
    free(*state);
    return 0;
}

/* A grant made `server_ms` after the sample by the server's clock, received `came_ms` after it
   by ours. */
static hf__notification receive_grant(subscriber *e, int64_t server_ms, int64_t came_ms) {
    hf__notification notification;
    e->messages.messages[e->messages.message_first] =
        (hf__message){.acquire_id = 5,
                      .token = SERVER_US,
                      .server_us = SERVER_US + server_ms * 1000,
                      .lease_ms = LEASE_MS,
                      .arrived_at = NOW + came_ms * HF__MS};
    e->messages.message_count = 1;
    assert_true(hf__notifications_next(&e->notifications, &notification));
    assert_int_equal(notification.type, HF__GRANTED);
    return notification;
}

static void test_a_grant_counts_from_before_it_was_made(void **state) {
    hf__notification notification = receive_grant(*state, 300, 305);
    assert_int_equal(notification.sent_at,
                     NOW + 297 * HF__MS); /* minus the margin for clock drift */
    assert_int_equal(notification.link, 3);
    assert_int_equal(notification.acquire_id, 5);
    assert_int_equal(notification.lease_ms, LEASE_MS);
}

/* By then drifting clocks may differ by more than the margin of a lease. */
static void test_F53_a_sample_older_than_the_lease_is_not_relied_on(void **state) {
    assert_int_not_equal(receive_grant(*state, LEASE_MS - 1, LEASE_MS).sent_at, 0);
    assert_int_equal(receive_grant(*state, LEASE_MS - 1, LEASE_MS + 1).sent_at, 0);
}

/* An answer may arrive before a message that was sent earlier on the other connection. */
static void test_a_grant_may_be_older_than_the_sample(void **state) {
    hf__notification notification = receive_grant(*state, -300, 5);
    assert_int_equal(notification.sent_at, NOW - 303 * HF__MS);
    assert_int_not_equal(receive_grant(*state, -LEASE_MS / 10, 5).sent_at, 0);
    assert_int_equal(receive_grant(*state, -LEASE_MS / 10 - 1, 5).sent_at, 0);
}

static void test_F53_a_clock_that_was_stepped_is_not_relied_on(void **state) {
    assert_int_equal(receive_grant(*state, -LEASE_MS, 5).sent_at, 0);
    assert_int_equal(receive_grant(*state, 6, 5).sent_at, 0);
}

/* Earlier messages may be from another server than the present one. */
static void test_F56_a_new_server_discards_old_messages(void **state) {
    subscriber *e = *state;
    hf__notification notification;
    assert_false(hf__notifications_stale(&e->notifications));
    e->messages.message_count = 1;
    e->commands.link++;
    assert_true(hf__notifications_stale(&e->notifications));
    assert_false(hf__notifications_next(&e->notifications, &notification));
}

static void test_F19_a_waiter_that_missed_a_message_retries(void **state) {
    subscriber *e = *state;
    hf__notification notification;
    e->messages.missed = true;
    hf__notifications_update(&e->notifications, true);
    assert_true(hf__notifications_next(&e->notifications, &notification));
    assert_int_equal(notification.type, HF__NOTIFICATIONS_MISSED);
    assert_false(hf__notifications_next(&e->notifications, &notification));
}

/* A connection for messages is opened for queued waiters, and not for others. */
static void test_a_queued_waiter_subscribes(void **state) {
    subscriber *e = *state;
    hf__notifications_note_answer(&e->notifications,
                                  &(hf__op){.verb = HF__ACQUIRE, .enqueue = true});
    assert_false(e->notifications.wanted);
    hf__notifications_note_answer(&e->notifications,
                                  &(hf__op){.verb = HF__ACQUIRE, .queued = true});
    assert_true(e->notifications.wanted);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_a_grant_counts_from_before_it_was_made),
        TEST(test_a_grant_may_be_older_than_the_sample),
        TEST(test_F53_a_sample_older_than_the_lease_is_not_relied_on),
        TEST(test_F53_a_clock_that_was_stepped_is_not_relied_on),
        TEST(test_F56_a_new_server_discards_old_messages),
        TEST(test_F19_a_waiter_that_missed_a_message_retries),
        TEST(test_a_queued_waiter_subscribes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
