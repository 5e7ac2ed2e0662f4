/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notifications that a waiter has the lock (F19, F52, F53, F54, F56). They are lost, late, repeated
 * or forged, come with a stepped clock, or on a connection that is down or leads to another server.
 * No wait relies on a notification, and no waiter enters on one that the server would not confirm.
 */
#include "waiters.h"

#include <inttypes.h>

/* ---- F19: lost ------------------------------------------------------------------------------- */

/* The server granted the lock and sent the message. Its bytes are lost, and the connection looks
   healthy. */
static void F19_a_lost_message_costs_no_more_than_the_holders_lease(void **state) {
    bed *b = *state;
    hf_client *client = bed_subscriber_through(b, NULL);
    hf_hold *hold = TAKE(bed_direct(b), .lease_ms = t_patience(1000));
    attempt *a = enqueue(b, client, &FOREVER);
    queued_id waiter_id = queued_at(b, 0);
    t_proxy_select(b->proxy, NOTIFICATION_CONNECTION);
    t_proxy_blackhole(b->proxy, true);
    t_proxy_select(b->proxy, 0);
    FREE(hold);
    assert_true(same_id(id_of_holder(b), waiter_id));
    hold = await_grant(a);
    check_held(b, hold);
    FREE(hold);
}

/* The connection was gone before anybody noticed. It is reopened, and the wait acquires
   immediately. */
static void F19_a_message_lost_with_its_connection_causes_a_new_acquire(void **state) {
    bed *b = *state;
    hf_client *client = bed_subscriber_through(b, NULL);
    hf_hold *hold = TAKE(bed_direct(b));
    attempt *a = enqueue(b, client, &FOREVER);
    withhold_bytes(b, NOTIFICATION_CONNECTION, T_TO_CLIENT);
    FREE(hold);
    cut_connection(b, NOTIFICATION_CONNECTION);
    hold = await_grant(a);
    check_held(b, hold);
    FREE(hold);
}

static void F19_a_release_without_a_subscriber_causes_a_new_acquire(void **state) {
    bed *b = *state;
    hf_client *client = bed_subscriber_through(b, NULL);
    hf_hold *hold = TAKE(bed_direct(b));
    attempt *a = enqueue(b, client, &FOREVER);
    t_proxy_refuse(b->proxy, true);
    cut_connection(b, NOTIFICATION_CONNECTION);
    UNTIL(subscriber_count(b) == 0);
    FREE(hold);
    t_proxy_refuse(b->proxy, false);
    FREE(await_grant(a));
}

/* A queued subscriber acquires by itself after 10 s, minus up to a quarter at random. If it is
   served sooner, it was notified. */
enum { UNNOTIFIED_MS = 7000 };

/* The lock is released while the client is queued but not subscribed yet. The client subscribes
   while it waits for the answer to an acquire from before the release. */
static void F19_a_release_between_acquire_and_subscription_causes_a_new_acquire(void **state) {
    bed *b = *state;
    hf_hold *hold = TAKE(bed_direct(b));
    hf_client *client = bed_through(b, NULL);
    t_proxy_withhold(b->proxy, T_TO_SERVER, true);
    stop_withholding(b, COMMAND_CONNECTION, T_TO_SERVER);
    attempt *a = enqueue(b, client, &FOREVER);
    t_proxy_wait_connections(b->proxy, NOTIFICATION_CONNECTION, SOON_MS);
    withhold_bytes(b, COMMAND_CONNECTION, T_TO_CLIENT);
    int64_t before = call_count(b, "evalsha");
    UNTIL(call_count(b, "evalsha") > before); /* until it is subscribed it acquires often */
    FREE(hold);
    assert_false(on_server(b));
    uint64_t came = t_proxy_forwarded(b->proxy, T_TO_CLIENT);
    t_proxy_withhold(b->proxy, T_TO_SERVER, false);
    UNTIL(t_proxy_forwarded(b->proxy, T_TO_CLIENT) > came);
    t_sleep_ms(50); /* so that it knows it is subscribed, most likely */
    int64_t since = t_now_ms();
    stop_withholding(b, COMMAND_CONNECTION, T_TO_CLIENT);
    FREE(await_grant(a));
    assert_true(t_now_ms() - since < UNNOTIFIED_MS);
}

/* More notifications at once than a client keeps, with the relevant one last. */
static void F19_a_message_among_too_many_causes_a_new_acquire(void **state) {
    bed *b = *state;
    char text[64];
    hf_client *client = bed_subscriber_through(b, NULL);
    hf_hold *hold = TAKE(bed_direct(b));
    attempt *a = enqueue(b, client, &FOREVER);
    queued_id waiter_id = queued_at(b, 0);
    withhold_bytes(b, NOTIFICATION_CONNECTION, T_TO_CLIENT);
    for (int i = 0; i < 150; i++) {
        snprintf(text, sizeof text, "%d 1794777709466423 1794777709466423 2000", 1000 + i);
        publish_text(b, &waiter_id, text);
    }
    FREE(hold);
    stop_withholding(b, NOTIFICATION_CONNECTION, T_TO_CLIENT);
    FREE(await_grant(a));
}

enum { BUSY_THREADS = 4, HAND_OVERS = 30 };

typedef struct bustle {
    hf_client *client;
    atomic_int stop, rounds;
} bustle;

static void lock_others(int index, void *arg) {
    bustle *busy = arg;
    char name[16];
    snprintf(name, sizeof name, "busy-%d", index);
    while (!atomic_load(&busy->stop)) {
        hf_hold *hold = NULL;
        if (hf_try_lock(busy->client, name, &hold) != HF_OK) return; /* the test has failed */
        (void)hf_release(hold);
        atomic_fetch_add(&busy->rounds, 1);
    }
}

/* Counts the rounds of other threads from a release until the waiter has the lock. */
static int rounds_meanwhile(bed *b, bustle *busy, hf_client *other) {
    hf_hold *hold = TAKE(other);
    attempt *a = enqueue(b, busy->client, &FOREVER);
    int before = atomic_load(&busy->rounds);
    FREE(hold);
    hold = attempt_end(a, HF_OK);
    int meanwhile = atomic_load(&busy->rounds) - before;
    FREE(hold);
    attempts_over(b);
    return meanwhile;
}

static void note_hold(hf_result result, hf_hold *hold, void *arg) {
    T_CHECK(result == HF_OK);
    atomic_store((hf_hold * _Atomic *)arg, hold);
}

static int rounds_until_called(bed *b, bustle *busy, hf_client *other) {
    static hf_hold *_Atomic got;
    hf_hold *hold = TAKE(other);
    atomic_store(&got, NULL);
    T_HF(HF_OK, hf_acquire_async(busy->client, LOCK, &FOREVER, note_hold, (void *)&got));
    UNTIL(queue_length(b) == 1);
    int before = atomic_load(&busy->rounds);
    FREE(hold);
    T_WAIT_UNTIL(atomic_load(&got) != NULL, 2 * SOON_MS);
    int meanwhile = atomic_load(&busy->rounds) - before;
    FREE(atomic_load(&got));
    return meanwhile;
}

/* The threads share the waiter's connections and read for each other. A few rounds are fair, and a
   busy machine makes some more now and then. Before notifications were read by every thread, there
   were hundreds in a third of the runs. */
static void check_notified(bed *b, int (*hand_over)(bed *b, bustle *busy, hf_client *other)) {
    static bustle busy;
    int late = 0;
    hf_client *other = bed_direct(b);
    busy = (bustle){.client = bed_subscriber(b)};
    t_threads *threads = t_threads_start(BUSY_THREADS, lock_others, &busy);
    for (int i = 0; i < HAND_OVERS; i++) late += hand_over(b, &busy, other) > 100;
    atomic_store(&busy.stop, 1);
    t_threads_join(threads, SOON_MS);
    assert_in_range(late, 0, HAND_OVERS / 5);
}

static void F19_a_message_is_read_beside_busy_threads(void **state) {
    check_notified(*state, rounds_meanwhile);
}

static void F19_a_callback_is_called_beside_busy_threads(void **state) {
    check_notified(*state, rounds_until_called);
}

/* ---- F52: notifications that must not be trusted --------------------------------------------- */

/* The answer that the client is queued is late; the notification that it has the lock is not. */
static void F52_a_message_that_overtakes_its_answer_counts(void **state) {
    bed *b = *state;
    hf_client *client = bed_subscriber_through(b, NULL);
    hf_cancel *cancel = hf_cancel_new(); /* a wait with a cancel polls all of its descriptors */
    hf_hold *hold = TAKE(bed_direct(b));
    withhold_bytes(b, COMMAND_CONNECTION, T_TO_CLIENT);
    attempt *a = enqueue(b, client, &(hf_options){.wait_ms = HF_FOREVER, .cancel = cancel});
    uint64_t came = t_proxy_forwarded(b->proxy, T_TO_CLIENT);
    FREE(hold);
    UNTIL(t_proxy_forwarded(b->proxy, T_TO_CLIENT) > came);
    t_sleep_ms(50); /* so that it has read the notification, most likely */
    stop_withholding(b, COMMAND_CONNECTION, T_TO_CLIENT);
    hold = await_grant(a);
    check_held(b, hold);
    FREE(hold);
    hf_cancel_free(cancel);
}

/* The client missed the grant. Then the hold was broken, and another client took the lock. The wait
   has learned that from a later answer. */
static void F52_a_grant_older_than_a_later_answer_is_void(void **state) {
    bed *b = *state;
    char old[128];
    hf_client *client = bed_subscriber_through(b, NULL), *other = bed_direct(b);
    hf_hold *hold = TAKE(bed_direct(b));
    attempt *a = enqueue(b, client, &FOREVER);
    queued_id waiter_id = queued_at(b, 0);
    withhold_bytes(b, NOTIFICATION_CONNECTION, T_TO_CLIENT);
    FREE(hold);
    grant_message(b, old);
    T_HF(HF_OK, hf_break(other, LOCK, 0));
    hold = TAKE(other);
    cut_connection(b, NOTIFICATION_CONNECTION);
    UNTIL(queue_length(b) == 1 && subscriber_count(b) == 1); /* known busy */
    calls_reset(b);
    publish_text(b, &waiter_id, old);
    UNTIL(call_count(b, "evalsha") >= 1); /* it acquires */
    assert_true(is_waiting(a));
    uint64_t token = hf_fence(hold);
    FREE(hold);
    hold = await_grant(a);
    assert_true(hf_fence(hold) > token);
    FREE(hold);
}

/* A notification to a wait that has ended, while the next wait of its client is queued. */
static void F52_a_grant_of_an_ended_wait_is_ignored(void **state) {
    bed *b = *state;
    hf_client *client = bed_subscriber_through(b, NULL), *other = bed_direct(b);
    hf_cancel *cancel = hf_cancel_new();
    hf_hold *hold = TAKE(other);
    attempt *a = enqueue(b, client, &(hf_options){.wait_ms = HF_FOREVER, .cancel = cancel});
    withhold_bytes(b, NOTIFICATION_CONNECTION, T_TO_CLIENT);
    FREE(hold);
    hf_cancel_fire(cancel);
    attempt_end(a, HF_CANCELLED);
    UNTIL(!on_server(b));
    hold = TAKE(other);
    attempt *next = enqueue_against(b, client, &FOREVER, hold);
    uint64_t came = t_proxy_forwarded(b->proxy, T_TO_CLIENT);
    stop_withholding(b, NOTIFICATION_CONNECTION, T_TO_CLIENT);
    UNTIL(t_proxy_forwarded(b->proxy, T_TO_CLIENT) > came);
    hf_ref(hold);
    FREE(hold);
    hf_hold *entered = await_grant(next);
    assert_int_equal(next->rival_held, 0);
    hf_unref(hold);
    FREE(entered);
    hf_cancel_free(cancel);
}

static void F52_a_grant_that_comes_twice_counts_once(void **state) {
    bed *b = *state;
    char text[128];
    hf_client *client = bed_subscriber(b), *other = bed_direct(b);
    hf_hold *hold = TAKE(other);
    attempt *a = enqueue(b, client, &FOREVER);
    queued_id waiter_id = queued_at(b, 0);
    FREE(hold);
    hold = await_grant(a);
    uint64_t acquired = stats_of(client).acquired;
    grant_message(b, text);
    publish_text(b, &waiter_id, text);
    FREE(hold);
    hold = TAKE(other);
    a = enqueue_against(b, client, &FOREVER, hold);
    publish_text(b, &waiter_id, text);
    hf_ref(hold);
    FREE(hold);
    FREE(await_grant(a));
    assert_int_equal(a->rival_held, 0);
    assert_true(stats_of(client).acquired == acquired + 1);
    hf_unref(hold);
}

/* Each entry is wrong in one way. %n is the acquire id that waits, %l another one. %t is now and %o
   some time ago, by the server's clock in microseconds. */
static const char *const FORGED[] = {
    "",
    " ",
    "garbage",
    "%n",
    "%n %t",
    "%n %t %t",
    "%n %t %t ",
    "%n %t %t 2000 1",
    "%n %t %t 2000\n",
    "%n,%t,%t,2000",
    "-%n %t %t 2000",
    "%n -%t %t 2000",
    "%n %t -%t 2000",
    "%n %t %t -2000",
    "%n %t %t 0",
    "0 %t %t 2000",
    "%n 0 %t 2000",
    "%n %t 0 2000",
    "%n %t 99999999999999999999 2000",
    "99999999999999999999 %t %t 2000",
    "%n %t %t 99999999999999999999",
    "%n %t %t 2592000001",
    "%n %t %o 2000",               /* from before the answer that another client holds the lock */
    "%n %t 9000000000000000 2000", /* about two hundred years ahead */
    "%l %t %t 2000",               /* for an acquire id that does not wait */
    "%n 9007199254740993 %t 2000", /* a token that no script could have written */
    "%n %t %t 40000",              /* a lease longer than requested */
};
enum { FORGERIES = sizeof FORGED / sizeof *FORGED };

static int64_t server_us(bed *b) {
    return t_redis_int(b->redis, "EVAL %s 0",
                       "local t = redis.call('TIME') return t[1] * 1000000 + t[2]");
}

static void send_forgery(bed *b, const queued_id *to, int64_t old_us, const char *form) {
    char text[256] = "";
    size_t n = 0;
    for (; *form; form++) {
        if (*form != '%') {
            text[n++] = *form;
            continue;
        }
        form++;
        int64_t value = *form == 'n'   ? (int64_t)to->acquire_id
                        : *form == 'l' ? (int64_t)to->acquire_id - 1
                        : *form == 'o' ? old_us
                                       : server_us(b);
        n += (size_t)snprintf(text + n, sizeof text - n, "%" PRId64, value);
    }
    publish_bytes(b, to, text, n);
}

static void F52_nobody_enters_on_a_forged_message(void **state) {
    bed *b = *state;
    hf_client *client = bed_subscriber(b), *other = bed_direct(b);
    hf_hold *hold = TAKE(other);
    int64_t old_us = server_us(b);
    attempt *a = enqueue_against(b, client, &FOREVER, hold);
    queued_id waiter_id = queued_at(b, 0);
    for (int i = 0; i < FORGERIES; i++) {
        send_forgery(b, &waiter_id, old_us, FORGED[i]);
        t_sleep_ms(2); /* so that each is read by itself, usually */
        if (!is_waiting(a)) t_fail("entered on the forged message `%s`", FORGED[i]);
    }
    publish_bytes(b, &waiter_id, "1 2\0 3 4", 8);
    check_held(b, hold);
    hf_ref(hold);
    FREE(hold);
    hf_hold *entered = await_grant(a);
    assert_int_equal(a->rival_held, 0);
    check_held(b, entered);
    FREE(entered);
    hf_unref(hold);
}

/* This is not a valid message: the client closes the connection, reopens it, and continues to
   wait. */
static void F52_a_message_of_a_megabyte_is_not_read(void **state) {
    static char huge[1 << 20];
    bed *b = *state;
    hf_client *client = bed_subscriber(b);
    hf_hold *hold = TAKE(bed_direct(b));
    attempt *a = enqueue(b, client, &FOREVER);
    queued_id waiter_id = queued_at(b, 0);
    memset(huge, '1', sizeof huge);
    int64_t before = t_redis_info(b->redis, "total_connections_received");
    publish_bytes(b, &waiter_id, huge, sizeof huge);
    UNTIL(t_redis_info(b->redis, "total_connections_received") > before &&
          subscriber_count(b) == 1);
    FREE(hold);
    FREE(await_grant(a));
}

/* As docs/REDIS-PROTOCOL.md says, a forgery that is right in every field is believed until the
   first renewal. So nobody else may have the right to publish there. */
static void F52_an_exact_forgery_is_believed_until_the_first_renewal(void **state) {
    bed *b = *state;
    hf_client *client = bed_subscriber(b), *other = bed_direct(b);
    hf_hold *hold = TAKE(other);
    attempt *a = enqueue(b, client,
                         &(hf_options){.wait_ms = HF_FOREVER,
                                       .lease_ms = t_patience(900),
                                       .on_lost = count_loss,
                                       .arg = &b->loss});
    queued_id waiter_id = queued_at(b, 0);
    send_forgery(b, &waiter_id, 0, "%n %t %t 900");
    hf_hold *entered = await_grant(a);
    check_lost(b, entered, "");
    check_held(b, hold);
    FREE(hold);
    UNTIL(!on_server(b) && queue_length(b) == 0);
}

/* ---- F53: a clock that was stepped ----------------------------------------------------------- */

/* A session: log in, register, enqueue, subscribe, and enqueue once more. The first %s is the
   server's time then. The server claims to grant the lock at the second %s. */
#define FAKE_QUEUE                                                       \
    "HANDSHAKE\n"                                                        \
    "EXPECT EVALSHA\n"                                                   \
    "SEND :\\T\\r\\n\n"                                                  \
    "EXPECT EVALSHA\n"                                                   \
    "SEND *5\\r\\n:0\\r\\n:%s\\r\\n:30000\\r\\n:1\\r\\n:1\\r\\n\n"       \
    "ACCEPT\n"                                                           \
    "EXPECT SUBSCRIBE\n"                                                 \
    "SEND *3\\r\\n$9\\r\\nsubscribe\\r\\n$41\\r\\n\\{1}\\r\\n:1\\r\\n\n" \
    "USE 1\n"                                                            \
    "EXPECT EVALSHA\n"                                                   \
    "SEND *5\\r\\n:0\\r\\n:%s\\r\\n:30000\\r\\n:1\\r\\n:1\\r\\n\n"       \
    "USE 2\n"                                                            \
    "SEND *3\\r\\n$7\\r\\nmessage\\r\\n$1\\r\\nx\\r\\n$40\\r\\n1 1794777709466423 %s 2000\\r\\n\n"

#define CLAIM  "USE 1\nEXPECT EVALSHA\nSEND *3\\r\\n:1\\r\\n:\\T\\r\\n:1794777709466424\\r\\n\n"
#define LET_GO "USE 1\nEXPECT EVALSHA\nSEND :1\\r\\n\nEXPECT_CLOSE\n"

#define LONG_AGO "1700000000000000"
#define BY_NOW   "\\T"

static void check_fake_grant(bed *b, const char *first_time, const char *granted, bool claims) {
    char script[2048];
    snprintf(script, sizeof script, FAKE_QUEUE "%s" LET_GO, first_time, first_time, granted,
             claims ? CLAIM : "");
    b->fake = t_fake_start(script);
    hf_client *client = bed_open(b, t_fake_url(b->fake), NULL);
    hf_hold *hold = TAKE(client, .wait_ms = HF_FOREVER);
    assert_true(hf_fence(hold) == UINT64_C(1794777709466423) + claims);
    FREE(hold);
    bed_close(b, client);
    t_fake_join(b->fake, SOON_MS);
}

static void F53_with_a_steady_clock_a_grant_is_entered(void **state) {
    check_fake_grant(*state, BY_NOW, BY_NOW, false);
}

static void F53_after_a_step_forward_a_grant_is_claimed(void **state) {
    check_fake_grant(*state, LONG_AGO, BY_NOW, true);
}

static void F53_after_a_step_back_a_grant_is_claimed(void **state) {
    check_fake_grant(*state, BY_NOW, LONG_AGO, true);
}

/* ---- F54: a monitor -------------------------------------------------------------------------- */

static redisContext *monitor_start(bed *b) {
    redisContext *monitor = redisConnectUnix(t_redis_socket(b->redis));
    T_CHECK(monitor && !monitor->err);
    redisReply *reply = redisCommand(monitor, "PSUBSCRIBE *");
    T_CHECK(reply && reply->type == REDIS_REPLY_ARRAY);
    freeReplyObject(reply);
    return monitor;
}

static void F54_a_monitor_does_not_make_dead_waiters_look_alive(void **state) {
    bed *b = *state;
    hf_client *dead = bed_subscriber_through(b, NULL);
    hf_hold *hold = TAKE(bed_direct(b));
    attempt *gone = enqueue(b, dead, &FOREVER), *next = enqueue(b, bed_subscriber(b), &FOREVER);
    queued_id first = queued_at(b, 0);
    redisContext *monitor = monitor_start(b);
    t_proxy_refuse(b->proxy, true);
    t_proxy_cut(b->proxy);
    UNTIL(subscriber_count(b) == 1);
    FREE(hold);
    hold = await_grant(next);
    assert_true(same_id(queued_at(b, 0), first)); /* it keeps its position for a while */
    assert_true(is_waiting(gone));
    t_proxy_refuse(b->proxy, false); /* and is served when it is back */
    UNTIL(subscriber_count(b) == 2);
    FREE(hold);
    FREE(attempt_end(gone, HF_OK));
    redisFree(monitor);
}

/* ---- F56: one connection of two -------------------------------------------------------------- */

/* A waiter without a subscription acquires ten times a second. */
static void F56_a_waiter_that_cannot_subscribe_is_served(void **state) {
    bed *b = *state;
    hf_client *client = bed_subscriber_through(b, NULL);
    hf_hold *hold = TAKE(bed_direct(b));
    attempt *a = enqueue(b, client, &FOREVER);
    t_proxy_refuse(b->proxy, true);
    cut_connection(b, NOTIFICATION_CONNECTION);
    UNTIL(subscriber_count(b) == 0);
    calls_reset(b);
    UNTIL(call_count(b, "lpos") >= 3); /* it keeps acquiring */
    FREE(hold);
    hold = await_grant(a);
    check_held(b, hold);
    FREE(hold);
}

/* The grant may be over when the client can send again, so the client must claim the grant
   first. */
static void F56_a_grant_read_while_nothing_can_be_sent_is_claimed_later(void **state) {
    bed *b = *state;
    hf_client *client = bed_subscriber_through(b, NULL);
    hf_hold *hold = TAKE(bed_direct(b));
    attempt *a = enqueue(b, client, &(hf_options){.wait_ms = t_patience(20000)});
    t_proxy_refuse(b->proxy, true);
    cut_connection(b, COMMAND_CONNECTION);
    uint64_t came = t_proxy_forwarded(b->proxy, T_TO_CLIENT);
    FREE(hold);
    UNTIL(t_proxy_forwarded(b->proxy, T_TO_CLIENT) > came);
    t_sleep_ms(100); /* time in which it could enter, and must not */
    assert_true(is_waiting(a));
    t_proxy_refuse(b->proxy, false);
    hold = await_grant(a);
    check_held(b, hold);
    FREE(hold);
}

/* The command connection now leads to another server, where another client holds the lock. The
   first server is still running and still has the client in its queue. */
typedef struct elsewhere {
    t_redis *redis;
    hf_client *client;
    hf_hold *hold;
} elsewhere;

static elsewhere lead_elsewhere(bed *b) {
    elsewhere there;
    t_proxy_refuse(b->proxy, true);
    there.redis = t_redis_start(&(t_redis_options){.port = t_proxy_port(b->proxy)});
    there.client = bed_open(b, t_redis_url(there.redis), NULL);
    there.hold = acquire_or_fail(there.client, LOCK, NULL, __FILE__, __LINE__);
    return there;
}

static int64_t queue_length_there(const elsewhere *there) {
    return t_redis_int(there->redis, "LLEN " QUEUE);
}

static void leave_elsewhere(bed *b, const elsewhere *there, hf_client *client) {
    bed_close(b, client);
    bed_close(b, there->client);
    t_redis_free(there->redis);
}

/* Releases the lock on the first server, where that client no longer acquires. */
static void check_nobody_enters(bed *b, hf_hold *here, elsewhere *there, attempt *a) {
    FREE(here);
    t_sleep_ms(100); /* time in which it could enter, and must not */
    bool entered = !is_waiting(a);
    int32_t held = hf_held(there->hold);
    FREE(there->hold);
    leave_elsewhere(b, there, a->client);
    t_threads_join(a->thread, SOON_MS);
    a->thread = NULL;
    hf_unref(a->hold);
    assert_int_equal(held, 1);
    assert_false(entered);
}

static void F56_a_grant_of_another_server_is_not_entered(void **state) {
    bed *b = *state;
    hf_client *client = bed_subscriber_through(b, NULL);
    hf_hold *hold = TAKE(bed_direct(b));
    attempt *a = enqueue(b, client, &FOREVER);
    elsewhere there = lead_elsewhere(b);
    cut_connection(b, COMMAND_CONNECTION);
    UNTIL(queue_length_there(&there) == 1);
    check_nobody_enters(b, hold, &there, a);
}

static void F56_a_grant_of_a_server_whose_answer_was_lost_is_not_entered(void **state) {
    bed *b = *state;
    hf_client *client = bed_subscriber_through(b, NULL);
    hf_hold *hold = TAKE(bed_direct(b));
    withhold_bytes(b, COMMAND_CONNECTION, T_TO_CLIENT);
    attempt *a = enqueue(b, client, &FOREVER);
    elsewhere there = lead_elsewhere(b);
    cut_connection(b, COMMAND_CONNECTION);
    UNTIL(queue_length_there(&there) == 1);
    check_nobody_enters(b, hold, &there, a);
}

static bool is_subscribed_there(const elsewhere *there) {
    redisReply *reply = t_redis_cmd(there->redis, "PUBSUB CHANNELS hf:c:*");
    bool listens = reply->elements > 0;
    freeReplyObject(reply);
    return listens;
}

/* The client must subscribe at the server to which it sends commands. The server where it was
   subscribed may still be running. */
static void F56_a_client_led_to_another_server_subscribes_there(void **state) {
    bed *b = *state;
    hf_client *client = bed_subscriber_through(b, NULL);
    elsewhere there = lead_elsewhere(b);
    cut_connection(b, COMMAND_CONNECTION);
    attempt *a = attempt_start(b, client, &FOREVER);
    UNTIL(queue_length_there(&there) == 1);
    UNTIL(is_subscribed_there(&there));
    FREE(there.hold);
    FREE(await_grant(a));
    leave_elsewhere(b, &there, client);
}

/* From the start the client is subscribed at another server than the one that gets its commands. It
   gets no notification and acquires by itself. */
static void F56_a_waiter_subscribed_elsewhere_is_served_within_the_lease_of_the_holder(
    void **state) {
    bed *b = *state;
    hf_hold *hold = TAKE(bed_direct(b), .lease_ms = t_patience(1000));
    hf_client *client = bed_through(b, NULL);
    elsewhere there = lead_elsewhere(b);
    attempt *a = enqueue(b, client, &FOREVER);
    FREE(hold);
    hold = attempt_end(a, HF_OK);
    check_held(b, hold);
    FREE(hold);
    FREE(there.hold);
    leave_elsewhere(b, &there, client);
}

static const struct CMUnitTest tests[] = {
    FAULT_TEST(F19_a_lost_message_costs_no_more_than_the_holders_lease),
    FAULT_TEST(F19_a_message_lost_with_its_connection_causes_a_new_acquire),
    FAULT_TEST(F19_a_release_without_a_subscriber_causes_a_new_acquire),
    FAULT_TEST(F19_a_release_between_acquire_and_subscription_causes_a_new_acquire),
    FAULT_TEST(F19_a_message_among_too_many_causes_a_new_acquire),
    FAULT_TEST(F19_a_message_is_read_beside_busy_threads),
    FAULT_TEST(F19_a_callback_is_called_beside_busy_threads),
    FAULT_TEST(F52_a_message_that_overtakes_its_answer_counts),
    FAULT_TEST(F52_a_grant_older_than_a_later_answer_is_void),
    FAULT_TEST(F52_a_grant_of_an_ended_wait_is_ignored),
    FAULT_TEST(F52_a_grant_that_comes_twice_counts_once),
    FAULT_TEST(F52_nobody_enters_on_a_forged_message),
    FAULT_TEST(F52_a_message_of_a_megabyte_is_not_read),
    FAULT_TEST(F52_an_exact_forgery_is_believed_until_the_first_renewal),
    FAULT_TEST_ON(F53_with_a_steady_clock_a_grant_is_entered, &BED_BARE),
    FAULT_TEST_ON(F53_after_a_step_forward_a_grant_is_claimed, &BED_BARE),
    FAULT_TEST_ON(F53_after_a_step_back_a_grant_is_claimed, &BED_BARE),
    FAULT_TEST(F54_a_monitor_does_not_make_dead_waiters_look_alive),
    FAULT_TEST(F56_a_waiter_that_cannot_subscribe_is_served),
    FAULT_TEST(F56_a_grant_read_while_nothing_can_be_sent_is_claimed_later),
    FAULT_TEST(F56_a_grant_of_another_server_is_not_entered),
    FAULT_TEST(F56_a_grant_of_a_server_whose_answer_was_lost_is_not_entered),
    FAULT_TEST(F56_a_client_led_to_another_server_subscribes_there),
    FAULT_TEST(F56_a_waiter_subscribed_elsewhere_is_served_within_the_lease_of_the_holder),
};

FAULT_MAIN(tests)
