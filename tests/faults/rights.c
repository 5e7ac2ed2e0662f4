/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rights that are missing when a lock is handed over (F55). The lock is released anyway, no grant
 * is left half done, and waiters are served when they acquire by themselves. Also the user of
 * docs/REDIS-PROTOCOL.md, which has exactly the required rights.
 */
#include "waiters.h"

static const char *const ALL_RIGHTS[] = {"anna on >secret ~* &* +@all", NULL};
static const t_redis_options WITH_ANNA = {.acl = ALL_RIGHTS};

static hf_client *open_anna(bed *b) {
    return bed_open(b, t_redis_url_as(b->redis, "anna", "secret"), NULL);
}

/* `sign` is + or -. `command` is a command or a category. */
static void set_right_of_anna(bed *b, char sign, const char *command) {
    char line[64];
    snprintf(line, sizeof line, "ACL SETUSER anna %c%s", sign, command);
    run_command(b, line);
}

/* ---- Rights of the releasing client ---------------------------------------------------------- */

static const char *const TO_RELEASE[] = {
    "publish", "pubsub", "lindex", "lrem",    "llen", "lset",
    "linsert", "rpush",  "get",    "pexpire", "set",
};
enum { RIGHTS = sizeof TO_RELEASE / sizeof *TO_RELEASE };

/* The lock is free, or its first waiter holds it with an expiry. There is no state in between. */
static void check_not_half_granted(bed *b, queued_id first, const char *missing) {
    if (!on_server(b)) return;
    if (!same_id(id_of_holder(b), first))
        t_fail("without the right %s the lock is neither released nor handed over", missing);
    if (server_ttl_ms(b) < 0)
        t_fail("without the right %s the lock was granted without an expiry", missing);
}

/* One of the two waiters enters, as the server confirms. Then the other one enters. */
static void serve_both(bed *b, attempt *a, attempt *other) {
    UNTIL(!is_waiting(a) || !is_waiting(other));
    attempt *first = is_waiting(a) ? other : a;
    hf_hold *hold = attempt_end(first, HF_OK);
    check_held(b, hold);
    FREE(hold);
    hold = attempt_end(first == a ? other : a, HF_OK);
    check_held(b, hold);
    FREE(hold);
    assert_int_equal(a->rival_held, 0);
    assert_int_equal(other->rival_held, 0);
}

/* Without a right the waiters may lose their queue positions, but they are still served. */
static void release_without(bed *b, hf_client *anna, hf_client *const *clients, const char *right) {
    hf_hold *hold = TAKE(anna, .lease_ms = t_patience(300));
    hf_ref(hold);
    attempt *a = enqueue_against(b, clients[0], &FOREVER, hold);
    attempt *other = enqueue_against(b, clients[1], &FOREVER, hold);
    queued_id waiter_id = queued_at(b, 0);
    set_right_of_anna(b, '-', right);
    hf_result r = hf_release(hold);
    if (r != HF_OK && r != HF_REFUSED)
        t_fail("the release without the right %s returned %s", right, hf_result_name(r));
    check_not_half_granted(b, waiter_id, right);
    serve_both(b, a, other);
    if (queue_length(b) || on_server(b))
        t_fail("without the right %s a hold or a queue entry is left", right);
    set_right_of_anna(b, '+', right);
    hf_unref(hold);
    attempts_over(b);
}

static void F55_a_release_without_a_right_releases_and_half_grants_nobody(void **state) {
    bed *b = *state;
    hf_client *anna = open_anna(b), *clients[2] = {bed_subscriber(b), bed_subscriber(b)};
    for (int i = 0; i < RIGHTS; i++) release_without(b, anna, clients, TO_RELEASE[i]);
}

/* An undone grant leaves the queue unchanged. The next client that may serve the queue does so and
   does not enter first. */
static void F55_after_a_refused_publish_nobody_passes_the_queue(void **state) {
    bed *b = *state;
    hf_client *late = bed_direct(b);
    hf_hold *hold = TAKE(open_anna(b));
    attempt *a = enqueue(b, bed_subscriber(b), &FOREVER);
    queued_id waiter_id = queued_at(b, 0);
    set_right_of_anna(b, '-', "publish");
    FREE(hold);
    assert_false(on_server(b));
    assert_true(same_id(queued_at(b, 0), waiter_id));
    REFUSED(HF_BUSY, late, .wait_ms = 0);
    FREE(await_grant(a));
}

/* The next thread of the same client needs no notification. */
static void F55_a_release_that_may_not_publish_serves_its_own_client(void **state) {
    bed *b = *state;
    hf_client *anna = open_anna(b);
    hf_hold *hold = TAKE(anna);
    attempt *a = enqueue(b, bed_subscriber(b), &FOREVER), *next = attempt_start(b, anna, &FOREVER);
    UNTIL(stats_of(anna).waiting == 1);
    set_right_of_anna(b, '-', "publish");
    FREE(hold);
    hold = await_grant(next);
    check_held(b, hold);
    assert_true(is_waiting(a));
    set_right_of_anna(b, '+', "publish");
    FREE(hold);
    FREE(await_grant(a));
}

/* A release that the server refuses grants nothing to anybody, on the server or in the client. */
static void check_refused_release(bed *b, const char *trouble, const char *over, hf_result result) {
    hf_client *client = bed_direct(b);
    hf_hold *hold = TAKE(client);
    attempt *next = attempt_start(b, client, &FOREVER);
    UNTIL(stats_of(client).waiting == 1);
    run_command(b, trouble);
    T_HF(result, hf_release(hold));
    t_sleep_ms(50); /* time in which the next could enter, and must not */
    assert_int_equal(stats_of(client).held, 0);
    run_command(b, over);
    hold = attempt_end(next, HF_OK);
    check_held(b, hold);
    FREE(hold);
}

static void F55_a_release_that_is_refused_lets_nobody_in(void **state) {
    check_refused_release(*state, "REPLICAOF " T_HOST " 1", "REPLICAOF NO ONE", HF_REFUSED);
}

static void F55_a_release_of_a_key_that_is_not_a_lock_lets_nobody_in(void **state) {
    bed *b = *state;
    hf_client *client = bed_direct(b);
    hf_hold *hold = TAKE(client);
    attempt *next = attempt_start(b, client, &FOREVER);
    UNTIL(stats_of(client).waiting == 1);
    run_command(b, "SET " KEY " precious");
    T_HF(HF_LOST, hf_release(hold));
    attempt_end(next, HF_PROTOCOL); /* the result when it acquires by itself */
}

static void F55_a_break_without_a_right_half_grants_nobody(void **state) {
    bed *b = *state;
    hf_client *anna = open_anna(b), *holder = bed_direct(b), *client = bed_subscriber(b);
    for (int i = 0; i < RIGHTS; i++) {
        hf_hold *hold = TAKE(holder, .lease_ms = t_patience(300));
        attempt *a = enqueue(b, client, &FOREVER);
        queued_id waiter_id = queued_at(b, 0);
        set_right_of_anna(b, '-', TO_RELEASE[i]);
        hf_result r = hf_break(anna, LOCK, 0);
        if (r != HF_OK && r != HF_REFUSED) t_fail("the break returned %s", hf_result_name(r));
        check_not_half_granted(b, waiter_id, TO_RELEASE[i]);
        set_right_of_anna(b, '+', TO_RELEASE[i]);
        hf_hold *next = attempt_end(a, HF_OK);
        check_held(b, next);
        FREE(next);
        T_HF(HF_LOST, hf_release(hold));
        attempts_over(b);
    }
}

/* ---- Rights of the waiting client ------------------------------------------------------------ */

/* The waiter acquires ten times a second, and is served although it gets no notification. */
static void wait_without(bed *b, const char *right) {
    set_right_of_anna(b, '-', right);
    hf_client *anna = open_anna(b);
    hf_hold *hold = TAKE(bed_direct(b));
    attempt *a = enqueue(b, anna, &FOREVER);
    FREE(hold);
    hold = await_grant(a);
    check_held(b, hold);
    FREE(hold);
}

static void F55_a_client_that_may_not_subscribe_is_served(void **state) {
    wait_without(*state, "subscribe");
}

static void F55_a_client_that_may_not_use_its_channel_is_served(void **state) {
    bed *b = *state;
    run_command(b, "ACL SETUSER anna resetchannels");
    wait_without(b, "subscribe");
}

typedef struct busy {
    hf_client *client;
    atomic_bool enough;
} busy;

static void hand_over_repeatedly(int index, void *arg) {
    busy *others = arg;
    (void)index;
    while (!atomic_load(&others->enough)) {
        hf_hold *hold = NULL;
        T_HF(HF_OK, hf_lock(others->client, LOCK, &hold));
        T_HF(HF_OK, hf_release(hold));
    }
}

/* The lock is never free: it is handed from thread to thread and to subscribed waiters. */
static void F55_a_client_that_may_not_subscribe_does_not_starve(void **state) {
    bed *b = *state;
    set_right_of_anna(b, '-', "subscribe");
    hf_client *anna = open_anna(b);
    busy others = {.client = bed_direct(b)}, more = {.client = bed_direct(b)};
    t_threads *threads = t_threads_start(3, hand_over_repeatedly, &others);
    t_threads *rivals = t_threads_start(1, hand_over_repeatedly, &more);
    UNTIL(stats_of(others.client).acquired > 100 && stats_of(more.client).acquired > 10);
    attempt *a = attempt_start(b, anna, &FOREVER);
    FREE(await_grant(a));
    atomic_store(&others.enough, true);
    atomic_store(&more.enough, true);
    t_threads_join(threads, SOON_MS);
    t_threads_join(rivals, SOON_MS);
}

static void F55_a_client_that_may_not_queue_gets_an_error(void **state) {
    static const char *const rights[] = {"rpush", "hexists"};
    bed *b = *state;
    hf_client *anna = open_anna(b);
    hf_hold *hold = TAKE(bed_direct(b));
    for (size_t i = 0; i < sizeof rights / sizeof *rights; i++) {
        set_right_of_anna(b, '-', rights[i]);
        REFUSED(HF_REFUSED, anna, .wait_ms = HF_FOREVER);
        check_detail("ACL");
        check_detail(rights[i]);
        set_right_of_anna(b, '+', rights[i]);
    }
    UNTIL(queue_length(b) == 0);
    check_held(b, hold);
    FREE(hold);
}

/* ---- The documented user --------------------------------------------------------------------- */

enum { VISITORS = 12, VISITS = 20 };

typedef struct shared_lock {
    hf_client *clients[3];
    atomic_int inside, collisions, visits;
} shared_lock;

static void visit_lock(int index, void *arg) {
    shared_lock *r = arg;
    hf_client *client = r->clients[index % 3];
    for (int i = 0; i < VISITS; i++) {
        hf_hold *hold = NULL;
        T_HF(HF_OK, hf_lock(client, LOCK, &hold));
        if (atomic_fetch_add(&r->inside, 1)) atomic_fetch_add(&r->collisions, 1);
        atomic_fetch_add(&r->visits, 1);
        atomic_fetch_sub(&r->inside, 1);
        T_HF(HF_OK, hf_release(hold));
    }
}

/* Everything else a client may do: extend, re-enter, inspect, break, leave a tombstone. */
static void do_all_else(bed *b, hf_client *client, hf_client *other) {
    hf_info *info = NULL;
    hf_hold *hold = TAKE(client), *again = TAKE(client);
    T_HF(HF_OK, hf_extend(hold, t_patience(60000)));
    attempt *a = enqueue(b, other, &(hf_options){.wait_ms = t_patience(300)});
    T_HF(HF_OK, hf_inspect(other, LOCK, &info));
    assert_int_equal(info->waiting, 1);
    hf_info_free(info);
    attempt_end(a, HF_TIMEOUT);
    UNTIL(queue_length(b) == 0);
    a = enqueue(b, other, &FOREVER);
    T_HF(HF_OK, hf_break(client, LOCK, 0));
    FREE(await_grant(a));
    hf_unref(again);
    (void)hf_release(hold);
}

static void note_nothing(const hf_leader_info *leader, void *arg) {
    (void)leader;
    atomic_fetch_add((atomic_int *)arg, 1);
}

/* The user may not set the latch's expiry and gets an error. A latch set by another client is
   unchanged. */
static void F55_a_client_that_may_not_set_a_latch_does_not_change_one(void **state) {
    bed *b = *state;
    uint32_t left = 0;
    hf_client *other = bed_direct(b), *anna = open_anna(b);
    set_right_of_anna(b, '-', "pexpire");
    T_HF(HF_REFUSED, hf_latch_set(anna, LOCK, 3));
    T_HF(HF_NOT_HELD, hf_latch_left(other, LOCK, &left));
    T_HF(HF_OK, hf_latch_set(other, LOCK, 2));
    T_HF(HF_REFUSED, hf_latch_set(anna, LOCK, 3));
    T_HF(HF_REFUSED, hf_latch_count_down(anna, LOCK, 1, NULL));
    T_HF(HF_OK, hf_latch_left(other, LOCK, &left));
    assert_int_equal(left, 2);
}

/* Latches with a waiter, and a leader with a watcher. */
static void do_latches_and_leaders(hf_client *client, hf_client *other) {
    static atomic_int seen;
    hf_observer *observer = NULL;
    hf_leader_info *info = NULL;
    hf_hold *hold = NULL;
    T_HF(HF_OK, hf_latch_set(client, LOCK, 2));
    T_HF(HF_TIMEOUT, hf_latch_wait(other, LOCK, &(hf_options){.wait_ms = 50}));
    T_HF(HF_OK, hf_latch_count_down(other, LOCK, 2, NULL));
    T_HF(HF_OK, hf_latch_wait(client, LOCK, &FOREVER));
    atomic_store(&seen, 0);
    T_HF(HF_OK, hf_observe(other, LOCK, note_nothing, &seen, &observer));
    UNTIL(atomic_load(&seen) == 1);
    T_HF(HF_OK, hf_campaign(client, LOCK, "x", 1, NULL, &hold));
    UNTIL(atomic_load(&seen) == 2);
    T_HF(HF_OK, hf_leader(other, LOCK, &info));
    hf_leader_free(info);
    hf_unobserve(observer);
    FREE(hold);
}

/* Acquires that are never answered, queued and not, and the tombstones left for them. */
static void lose_answers(bed *b, hf_client *client) {
    for (int held = 0; held < 2; held++) {
        hf_hold *hold = held ? TAKE(b->clients[0]) : NULL;
        t_proxy_withhold(b->proxy, T_TO_SERVER, true);
        attempt *a = attempt_sent(b, client, &(hf_options){.wait_ms = t_patience(100)});
        attempt_end(a, HF_UNKNOWN_OUTCOME);
        t_proxy_withhold(b->proxy, T_TO_SERVER, false);
        if (hold) FREE(hold);
        FREE(TAKE(client, .wait_ms = t_patience(SOON_MS)));
    }
}

static const char *url_of_user(bed *b) {
    static char url[128];
    snprintf(url, sizeof url, "redis://holdfast:PASSWORD@" T_HOST ":%u", t_proxy_port(b->proxy));
    return url;
}

static void F55_the_user_of_the_documentation_has_all_required_rights(void **state) {
    static shared_lock r;
    bed *b = *state;
    t_acl_user(b->redis, NULL);
    b->proxy = t_proxy_start(t_redis_port(b->redis));
    r = (shared_lock){.inside = 0};
    for (int i = 0; i < 3; i++) r.clients[i] = bed_open(b, url_of_user(b), NULL);
    t_threads_run(VISITORS, visit_lock, &r, 2 * SOON_MS);
    assert_int_equal(atomic_load(&r.collisions), 0);
    assert_int_equal(atomic_load(&r.visits), VISITORS * VISITS);
    UNTIL(subscriber_count(b) == 3);
    do_all_else(b, r.clients[0], r.clients[1]);
    do_latches_and_leaders(r.clients[0], r.clients[1]);
    lose_answers(b, r.clients[1]);
    t_acl_none_refused(b->redis);
}

static void F55_without_a_queue_no_right_to_one_is_needed(void **state) {
    bed *b = *state;
    hf_client *anna = open_anna(b);
    set_right_of_anna(b, '-', "@list");
    set_right_of_anna(b, '-', "@pubsub");
    FREE(TAKE(anna));
}

/* ---- Missing rights are named (F27) ---------------------------------------------------------- */

static const char *const COMMANDS[] = {
    "evalsha", "time",    "get",   "set",  "hget",  "hset",   "pexpire", "del",
    "hexists", "hgetall", "hmget", "pttl", "rpush", "lrange", "llen",
};

/* If the call was refused, its detail names the command. Any other result is accepted. */
static void named_if_refused(hf_result result, const char *command, int *refused) {
    char words[64];
    if (result != HF_REFUSED) return;
    snprintf(words, sizeof words, "may not run the command %s", command);
    if (!strstr(hf_error_detail(), words)) {
        /* if one line of the script has several */
        snprintf(words, sizeof words, " or %s;", command);
        if (!strstr(hf_error_detail(), words))
            t_fail("without the right %s the detail does not name it: %s", command,
                   hf_error_detail());
    }
    ++*refused;
}

static int try_without(bed *b, hf_client *anna, hf_client *other, const char *command) {
    int refused = 0;
    hf_hold *hold = NULL;
    hf_info *info = NULL;
    named_if_refused(hf_acquire(anna, LOCK, &(hf_options){.lease_ms = 1000}, &hold), command,
                     &refused);
    if (hold) named_if_refused(hf_release(hold), command, &refused);
    run_command(b, "FLUSHALL"); /* locks that could not be released */
    hold = TAKE(other);
    named_if_refused(hf_inspect(anna, LOCK, &info), command, &refused);
    hf_info_free(info);
    hf_hold *none = NULL;
    hf_result wait = hf_acquire(anna, LOCK, &(hf_options){.wait_ms = 50}, &none);
    named_if_refused(wait, command, &refused);
    FREE(hold);
    return refused;
}

static void F27_a_missing_command_right_is_named(void **state) {
    bed *b = *state;
    hf_client *anna = open_anna(b), *other = bed_direct(b);
    for (size_t i = 0; i < sizeof COMMANDS / sizeof *COMMANDS; i++) {
        set_right_of_anna(b, '-', COMMANDS[i]);
        if (!try_without(b, anna, other, COMMANDS[i]))
            t_fail("without the right %s no call was refused", COMMANDS[i]);
        set_right_of_anna(b, '+', COMMANDS[i]);
    }
}

static void F27_a_key_that_is_not_allowed_is_named(void **state) {
    bed *b = *state;
    hf_client *anna = open_anna(b);
    run_command(b, "ACL SETUSER anna resetkeys ~elsewhere:*");
    REFUSED(HF_REFUSED, anna, .wait_ms = 0);
    check_detail("may not use the key hf:{lock}");
    check_detail("~hf:*");
}

static void note_channel(int32_t level, const char *line, void *arg) {
    if (level == HF_LOG_WARNING && strstr(line, "may not use the channel hf:c:"))
        atomic_store((atomic_bool *)arg, true);
}

/* A client that may not subscribe is served anyway. The log reports the missing right. */
static void F27_a_channel_that_is_not_allowed_is_named(void **state) {
    static atomic_bool named;
    bed *b = *state;
    run_command(b, "ACL SETUSER anna resetchannels");
    hf_client *anna = bed_open(
        b, t_redis_url_as(b->redis, "anna", "secret"),
        &(hf_client_options){.log = note_channel, .log_arg = &named, .log_level = HF_LOG_WARNING});
    hf_hold *hold = TAKE(bed_direct(b));
    attempt *a = attempt_start(b, anna, &FOREVER);
    UNTIL(atomic_load(&named));
    FREE(hold);
    FREE(await_grant(a));
}

static const struct CMUnitTest tests[] = {
    FAULT_TEST_ON(F27_a_missing_command_right_is_named, &WITH_ANNA),
    FAULT_TEST_ON(F27_a_key_that_is_not_allowed_is_named, &WITH_ANNA),
    FAULT_TEST_ON(F27_a_channel_that_is_not_allowed_is_named, &WITH_ANNA),
    FAULT_TEST_ON(F55_a_release_without_a_right_releases_and_half_grants_nobody, &WITH_ANNA),
    FAULT_TEST_ON(F55_after_a_refused_publish_nobody_passes_the_queue, &WITH_ANNA),
    FAULT_TEST_ON(F55_a_release_that_may_not_publish_serves_its_own_client, &WITH_ANNA),
    FAULT_TEST(F55_a_release_that_is_refused_lets_nobody_in),
    FAULT_TEST(F55_a_release_of_a_key_that_is_not_a_lock_lets_nobody_in),
    FAULT_TEST_ON(F55_a_break_without_a_right_half_grants_nobody, &WITH_ANNA),
    FAULT_TEST_ON(F55_a_client_that_may_not_subscribe_is_served, &WITH_ANNA),
    FAULT_TEST_ON(F55_a_client_that_may_not_use_its_channel_is_served, &WITH_ANNA),
    FAULT_TEST_ON(F55_a_client_that_may_not_subscribe_does_not_starve, &WITH_ANNA),
    FAULT_TEST_ON(F55_a_client_that_may_not_queue_gets_an_error, &WITH_ANNA),
    FAULT_TEST_ON(F55_a_client_that_may_not_set_a_latch_does_not_change_one, &WITH_ANNA),
    FAULT_TEST(F55_the_user_of_the_documentation_has_all_required_rights),
    FAULT_TEST_ON(F55_without_a_queue_no_right_to_one_is_needed, &WITH_ANNA),
};

FAULT_MAIN(tests)
