/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server whose wall clock is stepped while locks are held (F8, F9), and a replica whose clock
 * differs from its primary's (F11). Uses real servers with stepped.c loaded into them.
 */
#include "fault.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HOUR_S = 3600, LEASE_MS = 1500 };

static int64_t *step_s; /* of every server that is started with it */
static char path[] = "/tmp/hf-step-XXXXXX";

static int make_step(void **state) {
    int fd = mkstemp(path);
    T_CHECK(fd >= 0 && ftruncate(fd, sizeof *step_s) == 0);
    step_s = mmap(NULL, sizeof *step_s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    T_CHECK(step_s != MAP_FAILED);
    close(fd);
    return fault_chosen(state);
}

static int remove_step(void **state) {
    (void)state;
    munmap(step_s, sizeof *step_s);
    return unlink(path);
}

static t_redis *start_stepped(const char *const *config) {
    setenv("HOLDFAST_TEST_STEP", path, 1);
    setenv("LD_PRELOAD", STEPPED, 1);
    t_redis *redis = front_server(&(t_redis_options){.config = config});
    unsetenv("LD_PRELOAD");
    unsetenv("HOLDFAST_TEST_STEP");
    return redis;
}

static int clock_up(void **state) {
    *state = (void *)(uintptr_t)&BED_BARE;
    *step_s = 0;
    int rc = bed_up(state);
    if (rc == 0) ((bed *)*state)->redis = start_stepped(NULL);
    return rc;
}

static int64_t server_time_s(t_redis *redis) {
    redisReply *reply = t_redis_cmd(redis, "TIME");
    int64_t seconds = strtoll(reply->element[0]->str, NULL, 10);
    freeReplyObject(reply);
    return seconds;
}

/* Valkey updates its clock when it has work to do, so the first request may see an older time. */
static void step_by(bed *b, int64_t seconds) {
    int64_t before = server_time_s(b->redis), moved;
    *step_s += seconds;
    UNTIL((moved = server_time_s(b->redis) - before) >= seconds && moved < seconds + 60);
}

/* The server expires the hold immediately. The holder finds out at its next renewal, and the token
   protects the resource meanwhile. */
static void F08_a_server_clock_stepped_forward_is_a_loss_that_the_token_fences(void **state) {
    bed *b = *state;
    hf_client *client = bed_direct(b);
    hf_hold *hold =
        TAKE(client, .lease_ms = t_patience(LEASE_MS), .on_lost = count_loss, .arg = &b->loss);
    uint64_t token = hf_fence(hold);
    step_by(b, HOUR_S);
    hf_hold *next = TAKE(bed_direct(b), .wait_ms = t_patience(SOON_MS));
    assert_true(hf_fence(next) > token);
    check_lost(b, hold, "");
    check_held(b, next);
    FREE(next);
}

static void F08_nothing_is_recreated_after_a_step_forward(void **state) {
    bed *b = *state;
    hf_hold *hold = TAKE(bed_direct(b), .lease_ms = t_patience(LEASE_MS), .on_lost = count_loss,
                         .arg = &b->loss);
    step_by(b, HOUR_S);
    check_lost(b, hold, "");
    assert_false(on_server(b));
}

/* Leases on the server now last an hour longer. Waits still end in time, and a release still serves
   the next waiter. */
static void F09_after_a_step_back_waits_end_in_time_and_are_served(void **state) {
    bed *b = *state;
    hf_client *holder = bed_direct(b), *waiter = bed_direct(b);
    hf_hold *hold = TAKE(holder, .lease_ms = t_patience(LEASE_MS));
    uint64_t token = hf_fence(hold), renewed = stats_of(holder).renewed;
    step_by(b, -HOUR_S);
    REFUSED(HF_TIMEOUT, waiter, .wait_ms = 300);
    attempt *a = attempt_start(b, waiter, &(hf_options){.wait_ms = HF_FOREVER});
    UNTIL(stats_of(holder).renewed >= renewed + 2);
    check_held(b, hold);
    FREE(hold);
    hold = attempt_end(a, HF_OK);
    assert_true(hf_fence(hold) > token); /* although the clock that tokens come from went back */
    FREE(hold);
}

/* If a holder dies at that moment, its lock lasts longer than its lease. It still ends, and an
   operator can see and break it. Each renewal by a live holder corrects the expiry. */
static void F09_a_renewal_after_a_step_back_corrects_the_expiry(void **state) {
    bed *b = *state;
    int64_t lease = t_patience(LEASE_MS);
    hf_client *holder = bed_direct(b), *other = bed_direct(b);
    hf_hold *hold = TAKE(holder, .lease_ms = lease);
    step_by(b, -HOUR_S);
    uint64_t renewed = stats_of(holder).renewed;
    UNTIL(stats_of(holder).renewed >= renewed + 2);
    assert_true(server_ttl_ms(b) <= INT64_C(1000) * HOUR_S + lease);
    T_HF(HF_OK, hf_break(other, LOCK, hf_fence(hold)));
    FREE(TAKE(other, .wait_ms = t_patience(SOON_MS)));
    T_HF(HF_LOST, hf_release(hold));
}

/* ---- F11 ------------------------------------------------------------------------------------- */

/* Returns when the replica has all earlier writes. */
static void await_replica(bed *b, t_redis *replica) {
    freeReplyObject(t_redis_cmd(b->redis, "SET reached 1"));
    UNTIL(t_redis_int(replica, "EXISTS reached") == 1);
}

/* A replica becomes the primary. If its clock is ahead, a lease ends there sooner, and the loss is
   reported as usual. If it is behind, the lease lasts longer there. Tokens still grow, because the
   fence was replicated. */
static void check_other_clock(bed *b, int64_t ahead_s) {
    char of[64];
    const char *config[] = {of, NULL};
    hf_client *client = bed_through(b, NULL);
    hf_hold *hold = TAKE(client, .lease_ms = t_patience(LEASE_MS));
    uint64_t token = hf_fence(hold);
    snprintf(of, sizeof of, "replicaof " T_HOST " %u", t_redis_port(b->redis));
    *step_s = ahead_s;
    t_redis *replica = start_stepped(config);
    FREE(hold);
    await_replica(b, replica);
    freeReplyObject(t_redis_cmd(replica, "REPLICAOF NO ONE"));
    hold = acquire_or_fail(bed_open(b, t_redis_url(replica), NULL), LOCK,
                           &(hf_options){.wait_ms = t_patience(SOON_MS)}, __FILE__, __LINE__);
    assert_true(hf_fence(hold) > token);
    FREE(hold);
    for (int i = 0; i < BED_CLIENTS; i++)
        if (b->clients[i]) bed_close(b, b->clients[i]);
    t_redis_free(replica);
}

static const char *const prompt[] = {"repl-diskless-sync-delay 0", NULL};
static const t_redis_options PRIMARY = {.config = prompt};

static void F11_a_replica_whose_clock_is_ahead_gives_higher_tokens(void **state) {
    check_other_clock(*state, HOUR_S);
}

static void F11_a_replica_whose_clock_is_behind_gives_higher_tokens(void **state) {
    check_other_clock(*state, -HOUR_S);
}

#define CLOCK_TEST(fn) \
    { #fn, fn, clock_up, bed_down, NULL }

static const struct CMUnitTest tests[] = {
    CLOCK_TEST(F08_a_server_clock_stepped_forward_is_a_loss_that_the_token_fences),
    CLOCK_TEST(F08_nothing_is_recreated_after_a_step_forward),
    CLOCK_TEST(F09_after_a_step_back_waits_end_in_time_and_are_served),
    CLOCK_TEST(F09_a_renewal_after_a_step_back_corrects_the_expiry),
    FAULT_TEST_ON(F11_a_replica_whose_clock_is_ahead_gives_higher_tokens, &PRIMARY),
    FAULT_TEST_ON(F11_a_replica_whose_clock_is_behind_gives_higher_tokens, &PRIMARY),
};

int main(int argc, char **argv) {
    fault_begin(argc, argv);
    return cmocka_run_group_tests(tests, make_step, remove_step);
}
