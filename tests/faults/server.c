/* SPDX-License-Identifier: Apache-2.0 */
/* Servers that die, lose data, and lose their scripts (F22, F23, F25, F29); and renewal through all
   of it (B15). */
#include "fault.h"

static hf_hold *take_watched(bed *b, hf_client *client, int64_t lease_ms) {
    return TAKE(client, .lease_ms = lease_ms, .on_lost = count_loss, .arg = &b->loss);
}

/* ---- F22, F23: killed and started again ------------------------------------------------------ */

/* The lease is far from over, so the reconnect must find the loss. */
static void F22_a_restart_without_data_is_a_loss_reported_on_reconnect(void **state) {
    bed *b = *state;
    hf_client *client = bed_direct(b);
    hf_hold *hold = take_watched(b, client, 3600000);
    int fd = hf_lost_fd(hold);
    t_redis_restart(b->redis);
    assert_true(becomes_readable(fd));
    assert_int_equal(stats_of(client).lost, 1);
    check_lost(b, hold, "no longer has it");
    assert_false(on_server(b));
}

static const t_redis_options DURABLE = {.appendonly = true};

static void F23_a_restart_with_its_data_is_no_loss(void **state) {
    bed *b = *state;
    hf_client *client = bed_direct(b);
    hf_hold *hold = take_watched(b, client, t_patience(2000));
    t_redis_restart(b->redis);
    uint64_t renewed = stats_of(client).renewed;
    UNTIL(stats_of(client).renewed >= renewed + 2);
    check_held(b, hold);
    assert_int_equal(stats_of(client).acquired, 1);
    FREE(hold);
    assert_int_equal(atomic_load(&b->loss.calls), 0);
}

/* ---- F25: deleted by hand -------------------------------------------------------------------- */

static void check_forgotten(void **state, const char *command) {
    bed *b = *state;
    hf_client *client = bed_direct(b);
    hf_hold *hold = take_watched(b, client, t_patience(900));
    uint64_t token = hf_fence(hold);
    freeReplyObject(t_redis_cmd(b->redis, command));
    check_lost(b, hold, "no longer has it");
    assert_false(on_server(b));
    hold = TAKE(client);
    assert_true(hf_fence(hold) > token); /* also if the fence was deleted with it */
    FREE(hold);
}

static void F25_a_flush_is_a_loss_at_the_next_renewal(void **state) {
    check_forgotten(state, "FLUSHALL");
}

static void F25_a_key_deleted_by_hand_is_a_loss_at_the_next_renewal(void **state) {
    check_forgotten(state, "DEL " KEY);
}

static void F25_a_lock_that_another_took_meanwhile_is_not_affected(void **state) {
    bed *b = *state;
    hf_hold *hold = take_watched(b, bed_direct(b), t_patience(900));
    freeReplyObject(t_redis_cmd(b->redis, "DEL " KEY));
    hf_hold *next = TAKE(bed_direct(b));
    assert_true(hf_fence(next) > hf_fence(hold));
    check_lost(b, hold, "no longer has it");
    check_held(b, next);
    FREE(next);
}

/* The next renewal is far away. The release itself finds the loss. */
static void F25_a_release_reports_that_the_lock_was_gone(void **state) {
    bed *b = *state;
    hf_client *client = bed_direct(b);
    hf_hold *hold = TAKE(client);
    freeReplyObject(t_redis_cmd(b->redis, "DEL " KEY));
    hf_hold *next = TAKE(bed_direct(b));
    T_HF(HF_LOST, hf_release(hold));
    check_detail("no longer has it");
    check_held(b, next);
    FREE(next);
}

/* ---- F29: lost scripts ----------------------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 60 };

typedef struct script_crowd {
    hf_client *client;
    atomic_int inside, collisions, failures;
} script_crowd;

static void acquire_and_release_repeatedly(int index, void *arg) {
    script_crowd *c = arg;
    (void)index;
    for (int i = 0; i < ROUNDS; i++) {
        hf_hold *hold = NULL;
        if (hf_lock(c->client, LOCK, &hold) != HF_OK) {
            atomic_fetch_add(&c->failures, 1);
            continue;
        }
        if (atomic_fetch_add(&c->inside, 1)) atomic_fetch_add(&c->collisions, 1);
        if (hf_extend(hold, t_patience(60000)) != HF_OK) atomic_fetch_add(&c->failures, 1);
        atomic_fetch_sub(&c->inside, 1);
        if (hf_release(hold) != HF_OK) atomic_fetch_add(&c->failures, 1);
    }
}

static void F29_scripts_flushed_at_any_moment_are_no_failure(void **state) {
    static script_crowd c;
    bed *b = *state;
    c = (script_crowd){.client = bed_direct(b)};
    t_threads *threads = t_threads_start(THREADS, acquire_and_release_repeatedly, &c);
    int flushes = 0;
    for (; t_threads_ended(threads) < THREADS; flushes++)
        freeReplyObject(t_redis_cmd(b->redis, "SCRIPT FLUSH"));
    t_threads_join(threads, SOON_MS);
    assert_true(flushes > 0);
    assert_int_equal(atomic_load(&c.failures), 0);
    assert_int_equal(atomic_load(&c.collisions), 0);
    assert_false(on_server(b));
}

/* ---- B15 ------------------------------------------------------------------------------------- */

static void B15_renewal_keeps_a_lock_for_many_leases_over_reconnects(void **state) {
    bed *b = *state;
    hf_client *client = bed_through(b, NULL);
    int64_t lease_ms = t_patience(500), until = t_now_ms() + 4 * lease_ms;
    hf_hold *hold = take_watched(b, client, lease_ms);
    for (uint64_t cuts = 0; t_now_ms() < until; cuts++) {
        t_proxy_cut(b->proxy);
        UNTIL(stats_of(client).reconnects > cuts);
        uint64_t renewed = stats_of(client).renewed;
        UNTIL(stats_of(client).renewed >= renewed + 2);
        check_held(b, hold);
    }
    assert_int_equal(atomic_load(&b->loss.calls), 0);
    FREE(hold);
    assert_false(on_server(b));
}

static void B22_a_renewal_never_shortens_an_extension_on_the_server(void **state) {
    bed *b = *state;
    hf_client *client = bed_direct(b);
    hf_hold *hold = TAKE(client, .lease_ms = t_patience(300));
    T_HF(HF_OK, hf_extend(hold, 3600000));
    uint64_t renewed = stats_of(client).renewed;
    UNTIL(stats_of(client).renewed >= renewed + 2);
    assert_true(server_ttl_ms(b) > 3000000);
    check_held(b, hold);
    FREE(hold);
}

static const struct CMUnitTest tests[] = {
    FAULT_TEST(F22_a_restart_without_data_is_a_loss_reported_on_reconnect),
    FAULT_TEST_ON(F23_a_restart_with_its_data_is_no_loss, &DURABLE),
    FAULT_TEST(F25_a_flush_is_a_loss_at_the_next_renewal),
    FAULT_TEST(F25_a_key_deleted_by_hand_is_a_loss_at_the_next_renewal),
    FAULT_TEST(F25_a_lock_that_another_took_meanwhile_is_not_affected),
    FAULT_TEST(F25_a_release_reports_that_the_lock_was_gone),
    FAULT_TEST(F29_scripts_flushed_at_any_moment_are_no_failure),
    FAULT_TEST(B15_renewal_keeps_a_lock_for_many_leases_over_reconnects),
    FAULT_TEST(B22_a_renewal_never_shortens_an_extension_on_the_server),
};

FAULT_MAIN(tests)
