/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Failing memory, descriptors and threads (F45). Each allocation and each system call of a scenario
 * fails once, and then it and all later ones fail. Every call returns HF_NOMEM or works without the
 * resource. No lock is held wrongly, nothing leaks (checked by the asan run), and nothing hangs
 * (checked by the timeout).
 */
#include "t.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A short lease, which ends locks that could not be released, and short timeouts. */
#define OPTIONS  "lease=200ms&connect_timeout=2s&command_timeout=150ms&outage=150ms"
#define LEASE_MS 200

enum { WATCHDOG_MS = 20000 };

/* ---- The stores ---- */

struct failing_store {
    char url[512];
    t_redis *redis;     /* NULL: memory, or */
    t_nodes *nodes;     /* a quorum */
    hf_client *witness; /* a client on the same locks, where nothing fails */
};

static struct failing_store memory, redis, unix_redis, watched, quorum;
static t_redis *replica, *sentinel;

enum { NODES = 3 };

/* The witness has its background thread from before. Later it uses no other threads. */
static void open_witness(struct failing_store *s, const char *url) {
    hf_hold *hold;
    T_HF(HF_OK, hf_open(url, NULL, &s->witness));
    T_HF(HF_OK, hf_try_lock(s->witness, "warm", &hold));
    T_HF(HF_OK, hf_release(hold));
}

/* Starts a store behind a Sentinel, with a replica that must confirm. */
static void start_watched(void) {
    char of[64], monitor[96];
    const char *config[] = {of, NULL}, *watch[] = {monitor, NULL};
    snprintf(of, sizeof of, "replicaof " T_HOST " %u", t_redis_port(redis.redis));
    snprintf(monitor, sizeof monitor, "sentinel monitor " T_PRIMARY " " T_HOST " %u 2",
             t_redis_port(redis.redis));
    replica = t_redis_start(&(t_redis_options){.config = config});
    sentinel = t_redis_start(&(t_redis_options){.sentinel = true, .config = watch});
    T_WAIT_UNTIL(t_redis_str(redis.redis, "SET in sync PX 1") &&
                     t_redis_int(redis.redis, "WAIT 1 100") == 1,
                 WATCHDOG_MS);
    watched.redis = redis.redis;
    snprintf(watched.url, sizeof watched.url,
             "redis+sentinel://" T_HOST ":%u/" T_PRIMARY "?replicas=1&" OPTIONS,
             t_redis_port(sentinel));
}

static int set_up(void **state) {
    (void)state;
    static const char *const config[] = {"repl-diskless-sync-delay 0", NULL};
    redis.redis = unix_redis.redis = t_redis_start(&(t_redis_options){.config = config});
    start_watched();
    snprintf(memory.url, sizeof memory.url, "memory:failing?lease=200ms");
    snprintf(redis.url, sizeof redis.url, "%s?" OPTIONS, t_redis_url(redis.redis));
    snprintf(unix_redis.url, sizeof unix_redis.url, "%s?" OPTIONS, t_redis_unix_url(redis.redis));
    open_witness(&memory, "memory:failing");
    quorum.nodes = t_nodes_start(NODES, NULL);
    t_nodes_grow_old(quorum.nodes, 2);
    snprintf(quorum.url, sizeof quorum.url, "%s?rejoin_delay=1ms&" OPTIONS,
             t_nodes_url(quorum.nodes, NODES));
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    hf_close(memory.witness);
    t_redis_free(sentinel);
    t_redis_free(replica);
    t_redis_free(redis.redis);
    t_nodes_free(quorum.nodes);
    return 0;
}

static int reset_store(void **state) {
    (void)state;
    t_alloc_reset();
    t_sys_reset();
    return 0;
}

/* ---- The store's view ------------------------------------------------------------------------ */

static uint64_t token_at(t_redis *node, const char *name) {
    const char *text = t_redis_str(node, "HGET hf:{%s} t", name);
    return text ? strtoull(text, NULL, 10) : 0;
}

/* The token that two nodes agree on; otherwise that of any node that has one. */
static uint64_t token_of_most(t_nodes *nodes, const char *name) {
    uint64_t a = token_at(t_nodes_at(nodes, 0), name), b = token_at(t_nodes_at(nodes, 1), name);
    uint64_t c = token_at(t_nodes_at(nodes, 2), name);
    if (a && (a == b || a == c)) return a;
    if (b && b == c) return b;
    return a | b | c;
}

/* The token under which a lock is held; 0 if it is free. */
static uint64_t token_of(const struct failing_store *s, const char *name) {
    uint64_t token = 0;
    t_exempt_begin();
    if (s->redis) {
        token = token_at(s->redis, name);
    } else if (s->nodes) {
        token = token_of_most(s->nodes, name);
    } else {
        hf_info *info;
        T_HF(HF_OK, hf_inspect(s->witness, name, &info));
        token = info->token;
        hf_info_free(info);
    }
    t_exempt_end();
    return token;
}

static uint64_t token_in(const struct failing_store *s) {
    return token_of(s, "n");
}

/* A lock that was not released ends with its lease. */
static void assert_free_in_the_end(const struct failing_store *s) {
    T_WAIT_UNTIL(token_in(s) == 0, WATCHDOG_MS);
}

/* ---- Calls that may fail ---- */

static bool went_well(hf_result r, const char *what) {
    /* HF_BUSY: an earlier acquire reached a node late. */
    return t_hf_did_without(r, what, (const hf_result[]){HF_NO_QUORUM, HF_BUSY, HF_OK});
}

static hf_client *try_open(const struct failing_store *s) {
    hf_client *client = NULL;
    bool made = went_well(hf_open(s->url, NULL, &client), "hf_open");
    T_CHECK(made == (client != NULL));
    return client;
}

static void ignore_loss(hf_hold *hold, void *arg) {
    (void)hold, (void)arg;
}

static hf_hold *try_acquire(const struct failing_store *s, hf_client *client,
                            const hf_options *options) {
    hf_hold *hold = NULL;
    bool made = went_well(hf_acquire(client, "n", options, &hold), "hf_acquire");
    T_CHECK(made == (hold != NULL));
    if (made && hf_held(hold)) {
        uint64_t token = token_in(s);
        /* a valid hold is held on the store too, unless it is over */
        T_CHECK(token == hf_fence(hold) || !hf_held(hold));
    }
    return hold;
}

/* With such a short lease the hold may be over, if its renewal had no memory. */
static void try_release(hf_hold *hold) {
    if (!hold) return;
    hf_result r = hf_release(hold);
    if (r != HF_LOST) (void)went_well(r, "hf_release");
}

/* ---- Scenarios ------------------------------------------------------------------------------- */

static void open_and_close(void *arg) {
    hf_close(try_open(arg));
}

static void acquire_and_release(void *arg) {
    struct failing_store *s = arg;
    hf_client *client = try_open(s);
    hf_options options = {.on_lost = ignore_loss};
    if (client) try_release(try_acquire(s, client, &options));
    hf_close(client);
    assert_free_in_the_end(s);
}

static void reenter_lock(void *arg) {
    struct failing_store *s = arg;
    hf_client *client = try_open(s);
    hf_hold *first = client ? try_acquire(s, client, NULL) : NULL;
    hf_hold *second = first ? try_acquire(s, client, NULL) : NULL;
    if (first && second && hf_held(first)) T_CHECK(hf_fence(first) == hf_fence(second));
    try_release(second);
    try_release(first);
    hf_close(client);
    assert_free_in_the_end(s);
}

static void extend_and_watch(void *arg) {
    struct failing_store *s = arg;
    hf_client *client = try_open(s);
    hf_hold *hold = client ? try_acquire(s, client, NULL) : NULL;
    if (hold) {
        hf_result r = hf_extend(hold, LEASE_MS + 50);
        if (r != HF_LOST) (void)went_well(r, "hf_extend");
        (void)hf_lost_fd(hold); /* -1 if there is no descriptor */
        hf_unref(hold);         /* releases without waiting */
    }
    hf_close(client);
    assert_free_in_the_end(s);
}

static void inspect_and_break(void *arg) {
    struct failing_store *s = arg;
    hf_info *info = NULL;
    hf_client *client = try_open(s);
    hf_hold *hold = client ? try_acquire(s, client, NULL) : NULL;
    if (hold) {
        T_CHECK(went_well(hf_inspect(client, "n", &info), "hf_inspect") == (info != NULL));
        hf_info_free(info);
        hf_result r = hf_break(client, "n", hf_fence(hold));
        if (r != HF_NOT_HELD) (void)went_well(r, "hf_break");
        try_release(hold);
    }
    hf_close(client);
    assert_free_in_the_end(s);
}

static void close_while_holding(void *arg) {
    struct failing_store *s = arg;
    hf_client *client = try_open(s);
    hf_hold *hold = client ? try_acquire(s, client, NULL) : NULL;
    hf_close(client);
    if (hold) {
        T_CHECK(!hf_held(hold));
        hf_unref(hold);
    }
    assert_free_in_the_end(s);
}

/* All or nothing: a failed acquire holds nothing for longer than its lease. */
static void take_many(void *arg) {
    static const hf_request names[] = {
        {.name = "o"}, {.name = "n", .kind = HF_WRITE}, {.name = "m", .kind = HF_READ}};
    struct failing_store *s = arg;
    hf_client *client = try_open(s);
    hf_hold *hold = NULL;
    hf_options options = {.on_lost = ignore_loss};
    if (client) {
        bool made = went_well(hf_acquire_all(client, names, 3, &options, &hold), "hf_acquire_all");
        T_CHECK(made == (hold != NULL));
        for (size_t i = 0; i < 3 && made && hf_held(hold); i++) {
            uint64_t token = token_of(s, names[i].name);
            T_CHECK(token == hf_fence_of(hold, i) || !hf_held(hold));
        }
        if (made) (void)hf_lost_fd(hold);
        try_release(hold);
    }
    hf_close(client);
    for (size_t i = 0; i < 3; i++) T_WAIT_UNTIL(token_of(s, names[i].name) == 0, WATCHDOG_MS);
}

static void cancel_wait(void *arg) {
    struct failing_store *s = arg;
    hf_cancel *fired = hf_cancel_new();
    hf_client *client = fired ? try_open(s) : NULL;
    hf_cancel_fire(fired);
    if (client) {
        hf_hold *hold;
        hf_result r = hf_acquire(client, "n", &(hf_options){.cancel = fired}, &hold);
        T_CHECK(!hold && (r == HF_CANCELLED || !went_well(r, "hf_acquire")));
    }
    hf_close(client);
    hf_cancel_free(fired);
}

/* Successful count-downs count, and a waiter gets the true value. */
static void count_a_latch(void *arg) {
    uint32_t left = 0;
    hf_client *client = try_open(arg);
    if (client && went_well(hf_latch_set(client, "n", 2), "hf_latch_set")) {
        if (went_well(hf_latch_count_down(client, "n", 1, &left), "hf_latch_count_down"))
            T_CHECK(left == 1);
        hf_result r = hf_latch_wait(client, "n", &(hf_options){.wait_ms = 20});
        if (r != HF_TIMEOUT) T_CHECK(!went_well(r, "hf_latch_wait"));
        if (went_well(hf_latch_left(client, "n", &left), "hf_latch_left")) T_CHECK(left != 0);
    }
    hf_close(client);
}

static void ignore_leader(const hf_leader_info *leader, void *arg) {
    (void)leader, (void)arg;
}

static void lead_and_observe(void *arg) {
    struct failing_store *s = arg;
    hf_hold *hold = NULL;
    hf_leader_info *info = NULL;
    hf_observer *observer = NULL;
    hf_client *client = try_open(s);
    if (client) {
        bool made =
            went_well(hf_observe(client, "n", ignore_leader, NULL, &observer), "hf_observe");
        T_CHECK(made == (observer != NULL));
        hf_result r = hf_campaign(client, "n", "here", 4, NULL, &hold);
        if (r != HF_LOST) T_CHECK(went_well(r, "hf_campaign") == (hold != NULL));
        r = hf_leader(client, "n", &info);
        if (r != HF_NOT_HELD) T_CHECK(went_well(r, "hf_leader") == (info != NULL));
        if (info) T_CHECK(info->value_length == 4 && !strcmp(info->value, "here"));
        hf_leader_free(info);
        try_release(hold);
    }
    hf_unobserve(observer);
    hf_close(client);
    assert_free_in_the_end(s);
}

static int32_t count_one(const char *name, const hf_info *info, void *arg) {
    T_CHECK(!strcmp(name, "n") && info->held);
    ++*(int *)arg;
    return 0;
}

/* Lists the names in use, or returns an error. */
static void list_names(void *arg) {
    struct failing_store *s = arg;
    int listed = 0;
    hf_client *client = try_open(s);
    hf_hold *hold = client ? try_acquire(s, client, NULL) : NULL;
    if (hold && went_well(hf_list(client, "n", count_one, &listed), "hf_list") && hf_held(hold))
        T_CHECK(listed > 0);
    try_release(hold);
    hf_close(client);
    assert_free_in_the_end(s);
}

/* The export worked or it did not. In both cases the lock is free in the end. */
static void leave_and_adopt(void *arg) {
    struct failing_store *s = arg;
    char text[HF_EXPORT_MAX];
    hf_client *client = try_open(s);
    hf_hold *hold = client ? try_acquire(s, client, NULL) : NULL;
    hf_result r = hold ? hf_export(hold, text, sizeof text) : HF_NOMEM;
    if (r == HF_OK) {
        hold = NULL;
        r = hf_adopt(client, text, NULL, &hold);
        T_CHECK((r == HF_OK) == (hold != NULL));
    }
    if (hold && r != HF_LOST && r != HF_UNSUPPORTED) (void)went_well(r, "leaving");
    try_release(hold);
    hf_close(client);
    assert_free_in_the_end(s);
}

/* The last ones use kinds, latches, leaders and exports, which a quorum does not support. */
static t_inject_fn *const scenarios[] = {
    open_and_close,    acquire_and_release, reenter_lock, extend_and_watch,
    inspect_and_break, close_while_holding, cancel_wait,  take_many,
    count_a_latch,     lead_and_observe,    list_names,   leave_and_adopt,
};

enum { SCENARIOS = sizeof scenarios / sizeof *scenarios, MUTEX_SCENARIOS = SCENARIOS - 5 };

static void test_F45_memory_on_memory(void **state) {
    (void)state;
    for (size_t i = 0; i < SCENARIOS; i++) t_alloc_each(scenarios[i], &memory, 1000);
}

static void test_F45_memory_on_redis(void **state) {
    (void)state;
    for (size_t i = 0; i < SCENARIOS; i++) t_alloc_each(scenarios[i], &redis, 1000);
}

static void test_F45_memory_on_a_quorum(void **state) {
    (void)state;
    for (size_t i = 0; i < MUTEX_SCENARIOS; i++) t_alloc_each(scenarios[i], &quorum, 1000);
}

static void test_F45_descriptors_and_threads_on_a_quorum(void **state) {
    (void)state;
    t_sys_each(acquire_and_release, &quorum, 1000);
}

static void test_F45_memory_on_a_socket(void **state) {
    (void)state;
    t_alloc_each(acquire_and_release, &unix_redis, 1000);
}

static void test_F45_memory_through_a_sentinel(void **state) {
    (void)state;
    t_alloc_each(acquire_and_release, &watched, 1000);
    t_sys_each(acquire_and_release, &watched, 1000);
}

static void test_F45_descriptors_and_threads_on_memory(void **state) {
    (void)state;
    for (size_t i = 0; i < SCENARIOS; i++) t_sys_each(scenarios[i], &memory, 1000);
}

static void test_F45_descriptors_and_threads_on_redis(void **state) {
    (void)state;
    for (size_t i = 0; i < SCENARIOS; i++) t_sys_each(scenarios[i], &redis, 1000);
}

int main(void) {
#define TEST(name) cmocka_unit_test_teardown(name, reset_store)
    const struct CMUnitTest tests[] = {
        TEST(test_F45_memory_on_memory),
        TEST(test_F45_memory_on_redis),
        TEST(test_F45_memory_on_a_socket),
        TEST(test_F45_memory_through_a_sentinel),
        TEST(test_F45_memory_on_a_quorum),
        TEST(test_F45_descriptors_and_threads_on_a_quorum),
        TEST(test_F45_descriptors_and_threads_on_memory),
        TEST(test_F45_descriptors_and_threads_on_redis),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
