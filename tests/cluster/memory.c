/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Failing memory, descriptors and threads (F45) on a cluster of one node. Each allocation and each
 * system call of a scenario fails once, and then it and all later ones fail. Every call returns
 * HF_NOMEM or works without the resource. No lock is held wrongly, nothing leaks (checked by the
 * asan run), and nothing hangs.
 */
#include "t.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPTIONS "lease=200ms&connect_timeout=2s&command_timeout=150ms&outage=150ms"

enum { WATCHDOG_MS = 20000 };

static t_redis *node;
static char url[256];

static bool is_ok(void) {
    redisReply *reply = t_redis_cmd(node, "CLUSTER INFO");
    bool ok = strstr(reply->str, "cluster_state:ok") != NULL;
    freeReplyObject(reply);
    return ok;
}

/* One lock is held forever. */
static int set_up(void **state) {
    (void)state;
    static const char *const config[] = {"cluster-enabled yes", NULL};
    node = t_redis_start(&(t_redis_options){.config = config});
    static char line[16384 * sizeof " 12345"];
    int used = snprintf(line, sizeof line, "CLUSTER ADDSLOTS");
    for (int i = 0; i < 16384; i++)
        used += snprintf(line + used, sizeof line - (size_t)used, " %d", i);
    freeReplyObject(t_redis_cmd(node, line));
    T_WAIT_UNTIL(is_ok(), WATCHDOG_MS);
    freeReplyObject(t_redis_cmd(node, "HSET hf:{busy} n other:1 t 1 other:t1 1"));
    snprintf(url, sizeof url, "redis+cluster://" T_HOST ":%u?" OPTIONS, t_redis_port(node));
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    t_redis_free(node);
    return 0;
}

static int reset_store(void **state) {
    (void)state;
    t_alloc_reset();
    t_sys_reset();
    return 0;
}

/* The token under which a lock is held; 0 if it is free. */
static uint64_t token_of(const char *name) {
    t_exempt_begin();
    const char *text = t_redis_str(node, "HGET hf:{%s} t", name);
    uint64_t token = text ? strtoull(text, NULL, 10) : 0;
    t_exempt_end();
    return token;
}

static bool went_well(hf_result r, const char *what) {
    return t_hf_did_without(r, what, (const hf_result[]){HF_OK});
}

static hf_client *try_open(void) {
    hf_client *client = NULL;
    bool made = went_well(hf_open(url, NULL, &client), "hf_open");
    T_CHECK(made == (client != NULL));
    return client;
}

static void acquire_and_release(void *arg) {
    (void)arg;
    hf_client *client = try_open();
    hf_hold *hold = NULL;
    if (client && went_well(hf_acquire(client, "n", NULL, &hold), "hf_acquire")) {
        uint64_t token = token_of("n");
        /* a valid hold is held on the store too, unless it is over */
        T_CHECK(token == hf_fence(hold) || !hf_held(hold));
        hf_result r = hf_release(hold);
        if (r != HF_LOST) (void)went_well(r, "hf_release");
    }
    hf_close(client);
    T_WAIT_UNTIL(token_of("n") == 0, WATCHDOG_MS);
}

/* A waiter is queued and subscribed, and gives up. */
static void wait_in_queue(void *arg) {
    (void)arg;
    hf_client *client = try_open();
    hf_hold *hold = NULL;
    if (client) {
        hf_result r = hf_acquire(client, "busy", &(hf_options){.wait_ms = 40}, &hold);
        if (r != HF_TIMEOUT) T_CHECK(!went_well(r, "hf_acquire"));
        T_CHECK(!hold);
    }
    hf_close(client);
    T_CHECK(token_of("busy") == 1);
}

static void test_F45_memory(void **state) {
    (void)state;
    t_alloc_each(acquire_and_release, NULL, 1000);
    t_alloc_each(wait_in_queue, NULL, 1000);
}

static void test_F45_descriptors_and_threads(void **state) {
    (void)state;
    t_sys_each(acquire_and_release, NULL, 1000);
    t_sys_each(wait_in_queue, NULL, 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_F45_memory, reset_store),
        cmocka_unit_test_teardown(test_F45_descriptors_and_threads, reset_store),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
