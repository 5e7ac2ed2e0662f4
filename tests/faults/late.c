/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes that arrive late: bytes of a closed connection, after those of its successor (F15, F51);
 * and answers that are late, cut off or in pieces (F16, F18).
 */
#include "fault.h"

#include <inttypes.h>

/* Detaches the bytes that the proxy withholds from the client's connection. The client reconnects,
   and the server gets the bytes when the test delivers them. */
static void detach_late(bed *b) {
    assert_true(t_proxy_detach(b->proxy) > 0);
}

/* Delivers the late bytes. The server understood them and gave this answer. */
static void deliver_late(bed *b, const char *answer) {
    assert_true(t_proxy_deliver(b->proxy) > 0);
    if (!strstr(t_proxy_late_answers(b->proxy), answer))
        t_fail("the server answered the late bytes with: %s", t_proxy_late_answers(b->proxy));
}

/* ---- Late releases --------------------------------------------------------------------------- */

/* The bytes of a release are still in flight when its client has reconnected and released again. */
static void release_late(bed *b, hf_hold *hold) {
    t_proxy_withhold(b->proxy, T_TO_SERVER, true);
    T_HF(HF_UNKNOWN_OUTCOME, hf_release(hold));
    detach_late(b);
    UNTIL(!on_server(b));
}

static hf_client *client_of_late_releases(bed *b) {
    return bed_through(b, &(hf_client_options){.command_timeout_ms = t_patience(300)});
}

static void F15_a_late_release_does_not_affect_the_next_owner(void **state) {
    bed *b = *state;
    hf_client *client = client_of_late_releases(b), *next = bed_direct(b);
    release_late(b, TAKE(client));
    hf_hold *hold = TAKE(next);
    deliver_late(b, ":0\r\n");
    check_held(b, hold);
    FREE(hold);
}

static void F51_a_late_release_does_not_affect_the_next_hold_of_its_own_client(void **state) {
    bed *b = *state;
    hf_client *client = client_of_late_releases(b);
    release_late(b, TAKE(client));
    hf_hold *hold = TAKE(client, .wait_ms = t_patience(SOON_MS));
    deliver_late(b, ":0\r\n");
    check_held(b, hold);
    FREE(hold);
}

/* ---- Late renewals --------------------------------------------------------------------------- */

/* The bytes of an extension to one minute are still in flight when its hold has been released. */
static void extend_late(bed *b, hf_client *client) {
    hf_hold *hold = TAKE(client, .lease_ms = t_patience(10000));
    t_proxy_withhold(b->proxy, T_TO_SERVER, true);
    T_HF(HF_UNKNOWN_OUTCOME, hf_extend(hold, t_patience(60000)));
    detach_late(b);
    UNTIL(hf_release(hold) == HF_OK);
}

static void check_late_renewal(bed *b, hf_client *next) {
    extend_late(b, client_of_late_releases(b));
    hf_hold *hold = TAKE(next, .lease_ms = t_patience(10000), .wait_ms = t_patience(SOON_MS));
    deliver_late(b, ":-");
    assert_in_range(server_ttl_ms(b), 0, t_patience(10000));
    assert_int_equal(t_redis_int(b->redis, "HLEN " KEY), 3);
    check_held(b, hold);
    FREE(hold);
}

static void F51_a_late_renewal_does_not_affect_the_next_owner(void **state) {
    check_late_renewal(*state, bed_direct(*state));
}

static void F51_a_late_renewal_restores_nothing(void **state) {
    bed *b = *state;
    extend_late(b, client_of_late_releases(b));
    deliver_late(b, ":-");
    assert_false(on_server(b));
}

/* ---- Late acquires --------------------------------------------------------------------------- */

/* The acquire is sent on a connection that breaks. It is sent again on the next connection and
   granted. */
static hf_hold *take_on_second_connection(bed *b, hf_client *client, int64_t wait_ms) {
    t_proxy_withhold(b->proxy, T_TO_SERVER, true);
    attempt *a = attempt_sent(b, client, &(hf_options){.wait_ms = wait_ms});
    detach_late(b);
    return attempt_end(a, HF_OK);
}

static void F51_a_late_acquire_does_not_bring_a_released_lock_back(void **state) {
    bed *b = *state;
    hf_client *client = bed_through(b, NULL);
    FREE(take_on_second_connection(b, client, t_patience(SOON_MS)));
    deliver_late(b, "*2\r\n:2\r\n");
    assert_false(on_server(b));
    FREE(TAKE(client)); /* only the old acquire id is refused */
}

static void F51_a_late_try_does_not_bring_a_released_lock_back(void **state) {
    bed *b = *state;
    hf_client *client = bed_through(b, NULL);
    FREE(take_on_second_connection(b, client, 0));
    deliver_late(b, "*2\r\n:2\r\n");
    assert_false(on_server(b));
}

/* While the lock is held, a repeated acquire may only renew the lease. */
static void F51_a_late_acquire_of_a_hold_that_is_held_counts_once(void **state) {
    bed *b = *state;
    hf_client *client = bed_through(b, NULL);
    hf_hold *hold = take_on_second_connection(b, client, t_patience(SOON_MS));
    deliver_late(b, "*3\r\n:1\r\n");
    check_held(b, hold);
    FREE(hold);
    assert_false(on_server(b));
}

static void F51_a_late_acquire_is_refused_after_others_have_held(void **state) {
    bed *b = *state;
    hf_client *client = bed_through(b, NULL), *other = bed_direct(b);
    FREE(take_on_second_connection(b, client, t_patience(SOON_MS)));
    hf_hold *hold = TAKE(other);
    uint64_t token = hf_fence(hold);
    FREE(hold);
    hold = TAKE(client);
    assert_true(hf_fence(hold) > token);
    FREE(hold);
    deliver_late(b, "*2\r\n:2\r\n");
    assert_false(on_server(b));
}

/* The late acquire takes the lock again under the old acquire id, but others held the lock in
   between. */
static void F51_a_broken_hold_is_lost_even_if_its_late_acquire_arrives(void **state) {
    bed *b = *state;
    hf_client *client = bed_through(b, NULL), *other = bed_direct(b);
    hf_hold *hold = take_on_second_connection(b, client, t_patience(SOON_MS));
    T_HF(HF_OK, hf_break(other, LOCK, 0));
    FREE(TAKE(other));
    deliver_late(b, ":1");
    assert_true(on_server(b));
    T_HF(HF_LOST, hf_extend(hold, t_patience(60000)));
    T_HF(HF_LOST, hf_release(hold));
    UNTIL(!on_server(b));
}

/* The same, but the holder has not noticed the loss when it releases. The lock it finds is not its
   hold. */
static void F51_a_broken_hold_that_its_late_acquire_restored_is_not_released(void **state) {
    bed *b = *state;
    hf_client *client = bed_through(b, NULL), *other = bed_direct(b);
    hf_hold *hold = take_on_second_connection(b, client, t_patience(SOON_MS));
    T_HF(HF_OK, hf_break(other, LOCK, 0));
    FREE(TAKE(other));
    deliver_late(b, ":1");
    assert_true(on_server(b));
    T_HF(HF_LOST, hf_release(hold));
    assert_false(on_server(b));
}

/* Two clients with late acquires at the same time: the tombstone of one must not replace that of
   the other. */
static void F51_late_acquires_of_two_clients_are_both_refused(void **state) {
    bed *b = *state;
    hf_client *client = bed_through(b, NULL);
    t_proxy *mine = b->proxy;
    b->proxy = NULL;
    hf_client *other = bed_through(b, NULL);
    t_proxy *others = b->proxy;
    b->proxy = mine;
    FREE(take_on_second_connection(b, client, t_patience(SOON_MS)));
    b->proxy = others;
    FREE(take_on_second_connection(b, other, t_patience(SOON_MS)));
    b->proxy = mine;
    (void)t_proxy_deliver(mine);
    bool first = on_server(b);
    (void)t_proxy_deliver(others);
    bed_close(b, other);
    t_proxy_free(others);
    assert_false(first);
    assert_false(on_server(b));
}

/* ---- Tombstones of many clients -------------------------------------------------------------- */

enum { TOMBSTONES = 32, TOMBSTONE_BYTES = 80, MANY = 200 };

/* `count` clients have left a tombstone in the fence. `mark` "0" before its time: the client says
   when it sent the acquire. */
static void leave_tombstones(bed *b, int count, const char *mark) {
    redisReply *time = t_redis_cmd(b->redis, "TIME");
    int64_t till = strtoll(time->element[0]->str, NULL, 10) + 3600;
    freeReplyObject(time);
    for (int i = 0; i < count; i++) {
        char tombstone[TOMBSTONE_BYTES];
        int length =
            snprintf(tombstone, sizeof tombstone, " gone-%d:1 %s%" PRId64 "000000", i, mark, till);
        t_redis_int(b->redis, "APPEND %s %b", FENCE, tombstone, (size_t)length);
    }
}

/* An acquire is granted on a second connection and released. A copy of it is still in flight on the
   first connection. */
static void release_with_tombstone(bed *b, hf_client *client, uint32_t kind) {
    const hf_options options = {.kind = kind, .wait_ms = t_patience(SOON_MS)};
    t_proxy_withhold(b->proxy, T_TO_SERVER, true);
    attempt *a = attempt_sent(b, client, &options);
    detach_late(b);
    FREE(attempt_end(a, HF_OK));
}

/* One client has a late acquire. Many others leave tombstones, and then one more does. The first
   tombstone must still work, although there is no space for all of them. */
static void late_among_many(bed *b, uint32_t kind) {
    hf_client *client = bed_through(b, NULL);
    t_proxy *mine = b->proxy;
    b->proxy = NULL;
    hf_client *other = bed_through(b, NULL);
    t_proxy *others = b->proxy;
    b->proxy = mine;
    release_with_tombstone(b, client, kind);
    leave_tombstones(b, MANY, "0");
    b->proxy = others;
    release_with_tombstone(b, other, kind);
    b->proxy = mine;
    int64_t bytes = t_redis_int(b->redis, "STRLEN " FENCE);
    (void)t_proxy_deliver(mine);
    bool taken = on_server(b);
    FREE(TAKE(bed_direct(b), .kind = kind)); /* requests sent from now on are in time */
    FREE(TAKE(client, .kind = kind));
    bed_close(b, other);
    t_proxy_free(others);
    assert_in_range(bytes, 1, TOMBSTONES * TOMBSTONE_BYTES);
    assert_false(taken);
}

static void F51_tombstones_of_many_clients_are_bounded_and_none_is_lost(void **state) {
    late_among_many(*state, HF_MUTEX);
}

static void F51_tombstones_of_many_readers_are_bounded_and_none_is_lost(void **state) {
    late_among_many(*state, HF_READ);
}

/* A client of version 0.1 does not say when it sends its acquires. Only its own tombstone stops
   them. */
static void F51_tombstones_of_older_clients_are_not_merged(void **state) {
    bed *b = *state;
    hf_client *client = bed_through(b, NULL);
    FREE(TAKE(client));
    leave_tombstones(b, MANY, "");
    release_with_tombstone(b, client, HF_MUTEX);
    const char *fence = t_redis_str(b->redis, "GET " FENCE);
    for (int i = 0; i < MANY; i++) {
        char id[32];
        snprintf(id, sizeof id, " gone-%d:1 ", i);
        if (!strstr(fence, id)) t_fail("the tombstone of%sis gone", id);
    }
}

/* The server's clock was set back to before the time of a merged tombstone. Nobody has to wait
   until that time is reached again. */
static void F09_a_merged_tombstone_of_a_later_time_stops_nobody(void **state) {
    bed *b = *state;
    hf_client *client = bed_direct(b);
    FREE(TAKE(client));
    redisReply *time = t_redis_cmd(b->redis, "TIME");
    int64_t later = strtoll(time->element[0]->str, NULL, 10) + 3600;
    freeReplyObject(time);
    char tombstone[TOMBSTONE_BYTES];
    int length = snprintf(tombstone, sizeof tombstone, " *:%" PRId64 "000000 0%" PRId64 "000000",
                          later, later + 5);
    t_redis_int(b->redis, "APPEND %s %b", FENCE, tombstone, (size_t)length);
    FREE(TAKE(client));
    FREE(TAKE(client, .kind = HF_READ));
}

/* An acquire that gave up. The bytes of its first try are late, and its second try was answered
   that another client holds the lock. */
static attempt *busy_on_second_connection(bed *b, const hf_options *options) {
    hf_client *client = bed_through(b, NULL);
    t_proxy_withhold(b->proxy, T_TO_SERVER, true);
    attempt *a = attempt_sent(b, client, options);
    detach_late(b);
    return a;
}

static void F51_a_late_acquire_of_a_busy_try_takes_nothing(void **state) {
    bed *b = *state;
    hf_hold *hold = TAKE(bed_direct(b));
    attempt_end(busy_on_second_connection(b, NULL), HF_BUSY);
    FREE(hold);
    (void)t_proxy_deliver(b->proxy);
    /* it may be granted, but then it is released: it is not left for a whole lease */
    UNTIL(!on_server(b));
}

static void F51_a_late_acquire_of_a_cancelled_wait_takes_nothing(void **state) {
    bed *b = *state;
    hf_hold *hold = TAKE(bed_direct(b));
    hf_cancel *cancel = hf_cancel_new();
    attempt *a =
        busy_on_second_connection(b, &(hf_options){.wait_ms = HF_FOREVER, .cancel = cancel});
    calls_reset(b);
    /* registered again, and refused because another holds the lock */
    UNTIL(call_count(b, "evalsha") >= 2);
    hf_cancel_fire(cancel);
    attempt_end(a, HF_CANCELLED);
    FREE(hold);
    (void)t_proxy_deliver(b->proxy);
    UNTIL(!on_server(b));
    hf_cancel_free(cancel);
}

static void F51_a_late_acquire_of_a_wait_cancelled_unanswered_takes_nothing(void **state) {
    bed *b = *state;
    hf_client *client = bed_through(b, NULL);
    hf_cancel *cancel = hf_cancel_new();
    t_proxy_withhold(b->proxy, T_TO_SERVER, true);
    attempt *a = attempt_sent(b, client, &(hf_options){.wait_ms = HF_FOREVER, .cancel = cancel});
    hf_cancel_fire(cancel);
    attempt_end(a, HF_CANCELLED);
    calls_reset(b);
    detach_late(b);
    UNTIL(call_count(b, "set") >= 1); /* the release after it has written its tombstone */
    deliver_late(b, "*2\r\n:2\r\n");
    assert_false(on_server(b));
    hf_cancel_free(cancel);
}

/* ---- F16: each answer belongs to its own request --------------------------------------------- */

enum { THREADS = 8, CUTS = 40 };

typedef struct inspecting_crowd {
    hf_client *client;
    atomic_int stop, strangers, rounds, failures;
} inspecting_crowd;

/* The store's information on this thread's lock must match what this thread did. */
static void check_own_info(inspecting_crowd *c, const char *name, uint64_t owner,
                           const hf_hold *hold) {
    hf_info *info = NULL;
    char text[32];
    if (hf_inspect(c->client, name, &info) != HF_OK) return; /* its connection broke: no answer */
    snprintf(text, sizeof text, "o%" PRIu64, owner);
    bool lost = !hf_held(hold);
    if (!lost && (info->token != hf_fence(hold) || strcmp(info->owner, text) != 0))
        atomic_fetch_add(&c->strangers, 1);
    hf_info_free(info);
}

static void use_own_lock(int index, void *arg) {
    inspecting_crowd *c = arg;
    char name[32];
    uint64_t owner = 1000 + (uint64_t)index;
    snprintf(name, sizeof name, "own-%d", index);
    while (!atomic_load(&c->stop)) {
        hf_hold *hold = NULL;
        hf_options options = {.wait_ms = t_patience(20000), .owner = owner};
        if (hf_acquire(c->client, name, &options, &hold) != HF_OK) {
            atomic_fetch_add(&c->failures, 1);
            continue;
        }
        check_own_info(c, name, owner, hold);
        if (hf_break(c->client, name, 1) == HF_OK) atomic_fetch_add(&c->strangers, 1);
        hf_result r = hf_release(hold);
        if (r != HF_OK && r != HF_UNKNOWN_OUTCOME) atomic_fetch_add(&c->failures, 1);
        atomic_fetch_add(&c->rounds, 1);
    }
}

/* False if the threads make no progress. The test must stop its threads before it may fail. */
static bool all_made_rounds(inspecting_crowd *c) {
    int enough = atomic_load(&c->rounds) + THREADS;
    int64_t until = t_now_ms() + t_patience(SOON_MS);
    while (atomic_load(&c->rounds) < enough && t_now_ms() < until) t_sleep_ms(1);
    return atomic_load(&c->rounds) >= enough;
}

static void F16_late_answers_go_only_to_their_own_requests(void **state) {
    static inspecting_crowd c;
    bed *b = *state;
    c = (inspecting_crowd){.client = bed_through(b, NULL)};
    t_threads *threads = t_threads_start(THREADS, use_own_lock, &c);
    bool going = true;
    for (int i = 0; i < CUTS && going; i++) {
        t_proxy_delay(b->proxy, T_TO_CLIENT, i % 3 * 5);
        going = all_made_rounds(&c);
        t_proxy_cut(b->proxy);
    }
    atomic_store(&c.stop, 1);
    t_threads_join(threads, 4 * SOON_MS);
    assert_true(going);
    assert_int_equal(atomic_load(&c.strangers), 0);
    assert_int_equal(atomic_load(&c.failures), 0);
    assert_true(stats_of(c.client).reconnects >= CUTS);
}

/* ---- F18: answers in pieces ------------------------------------------------------------------ */

static void F18_answers_in_single_bytes_are_understood(void **state) {
    bed *b = *state;
    hf_client *client = bed_through(b, NULL);
    hf_info *info = NULL;
    t_proxy_slice(b->proxy, T_TO_CLIENT, 1);
    t_proxy_slice(b->proxy, T_TO_SERVER, 1);
    t_proxy_cut(b->proxy); /* the login too */
    hf_hold *hold = TAKE(client, .wait_ms = t_patience(SOON_MS)), *again = TAKE(client);
    T_HF(HF_OK, hf_extend(hold, t_patience(60000)));
    T_HF(HF_OK, hf_inspect(client, LOCK, &info));
    assert_int_equal(info->count, 2);
    assert_true(info->token == hf_fence(hold));
    hf_info_free(info);
    check_held(b, hold);
    FREE(again);
    FREE(hold);
    assert_false(on_server(b));
}

static const struct CMUnitTest tests[] = {
    FAULT_TEST(F15_a_late_release_does_not_affect_the_next_owner),
    FAULT_TEST(F51_a_late_release_does_not_affect_the_next_hold_of_its_own_client),
    FAULT_TEST(F51_a_late_renewal_does_not_affect_the_next_owner),
    FAULT_TEST(F51_a_late_renewal_restores_nothing),
    FAULT_TEST(F51_a_late_acquire_does_not_bring_a_released_lock_back),
    FAULT_TEST(F51_a_late_try_does_not_bring_a_released_lock_back),
    FAULT_TEST(F51_a_late_acquire_of_a_hold_that_is_held_counts_once),
    FAULT_TEST(F51_a_late_acquire_is_refused_after_others_have_held),
    FAULT_TEST(F51_a_broken_hold_is_lost_even_if_its_late_acquire_arrives),
    FAULT_TEST(F51_a_broken_hold_that_its_late_acquire_restored_is_not_released),
    FAULT_TEST(F51_late_acquires_of_two_clients_are_both_refused),
    FAULT_TEST(F51_tombstones_of_many_clients_are_bounded_and_none_is_lost),
    FAULT_TEST(F51_tombstones_of_many_readers_are_bounded_and_none_is_lost),
    FAULT_TEST(F51_tombstones_of_older_clients_are_not_merged),
    FAULT_TEST(F09_a_merged_tombstone_of_a_later_time_stops_nobody),
    FAULT_TEST(F51_a_late_acquire_of_a_busy_try_takes_nothing),
    FAULT_TEST(F51_a_late_acquire_of_a_cancelled_wait_takes_nothing),
    FAULT_TEST(F51_a_late_acquire_of_a_wait_cancelled_unanswered_takes_nothing),
    FAULT_TEST(F16_late_answers_go_only_to_their_own_requests),
    FAULT_TEST(F18_answers_in_single_bytes_are_understood),
};

FAULT_MAIN(tests)
