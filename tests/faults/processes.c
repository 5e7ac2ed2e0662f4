/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that are stopped past their lease, killed, or forked (F3, F42, F46).
 *
 * A child holds the lock with its own client and shares memory (a stage) with the test. Children
 * that start threads are started before the test opens clients: see t_proc.h.
 */
#include "fault.h"

#include <signal.h>

typedef struct holder_stage {
    char url[256];
    int64_t lease_ms;
    atomic_int ready, go; /* the child holds; the test has stopped it for long enough */
    /* what the child observed from then on */
    atomic_int held_after, lost_calls;
    atomic_int released; /* the result of its release */
} holder_stage;

static holder_stage *stage_new(bed *b, int64_t lease_ms) {
    holder_stage *s = t_shared_new(sizeof *s);
    snprintf(s->url, sizeof s->url, "%s", front_url(t_redis_url(b->redis)));
    s->lease_ms = lease_ms;
    return s;
}

static void count_in_stage(hf_hold *hold, void *arg) {
    holder_stage *s = arg;
    (void)hold;
    atomic_fetch_add(&s->lost_calls, 1);
}

static hf_hold *hold_in_child(holder_stage *s, hf_client **client) {
    T_HF(HF_OK, hf_open(s->url, NULL, client));
    hf_hold *hold = TAKE(*client, .lease_ms = s->lease_ms, .on_lost = count_in_stage, .arg = s);
    atomic_store(&s->ready, 1);
    return hold;
}

/* Calls hf_held without a pause, so the first answer after the stop is among the results. */
static int poll_over_a_stop(void *arg) {
    holder_stage *s = arg;
    hf_client *client = NULL;
    hf_hold *hold = hold_in_child(s, &client);
    int gone;
    do {
        gone = atomic_load(&s->go);
        int32_t held = hf_held(hold);
        int64_t left = hf_remaining_ms(hold);
        if (gone && (held || left)) atomic_store(&s->held_after, 1);
    } while (!gone);
    atomic_store(&s->released, hf_release(hold));
    hf_close(client);
    return 0;
}

static t_proc *start_holder(holder_stage *s, t_proc_fn *fn) {
    t_proc *child = t_proc_start(fn, s);
    UNTIL(atomic_load(&s->ready));
    return child;
}

/* Stops the child until its lease is over on the server, then continues it. */
static void check_stopped(bed *b, holder_stage *s, t_proc *child, bool taken) {
    t_proc_kill(child, SIGSTOP);
    UNTIL(!on_server(b));
    hf_hold *next = taken ? TAKE(bed_direct(b)) : NULL;
    uint64_t token = server_token(b);
    atomic_store(&s->go, 1);
    t_proc_kill(child, SIGCONT);
    assert_int_equal(t_proc_wait(child, SOON_MS), 0);
    assert_int_equal(atomic_load(&s->held_after), 0);
    assert_int_equal(atomic_load(&s->released), HF_LOST);
    assert_in_range(atomic_load(&s->lost_calls), 0, 1);
    assert_true(server_token(b) == token); /* 0 if nobody took it: it was not recreated */
    if (next) {
        assert_int_equal(hf_held(next), 1);
        FREE(next);
    }
}

static void stop_holder(void **state, bool taken) {
    bed *b = *state;
    holder_stage *s = stage_new(b, t_patience(500));
    check_stopped(b, s, start_holder(s, poll_over_a_stop), taken);
    t_shared_free(s, sizeof *s);
}

static void F03_a_process_stopped_past_its_lease_knows_at_its_first_call(void **state) {
    stop_holder(state, false);
}

static void F03_a_process_stopped_past_its_lease_does_not_affect_the_next_holder(void **state) {
    stop_holder(state, true);
}

static int hold_until_killed(void *arg) {
    hf_client *client = NULL;
    (void)hold_in_child(arg, &client);
    t_sleep_ms(t_patience(60000));
    return 1; /* it should have been killed by now */
}

static void F46_a_killed_process_frees_its_lock_after_the_lease_and_not_before(void **state) {
    bed *b = *state;
    holder_stage *s = stage_new(b, t_patience(700));
    t_proc *child = start_holder(s, hold_until_killed);
    int64_t ttl = server_ttl_ms(b);
    UNTIL(ttl_grew(b, &ttl)); /* the renewed lease counts too, not only the first one */
    t_proc_kill(child, SIGKILL);
    assert_int_equal(t_proc_wait(child, SOON_MS), 128 + SIGKILL);
    hf_client *client = bed_direct(b);
    uint64_t token = server_token(b);
    int64_t killed = t_now_ms(), left = server_ttl_ms(b);
    assert_true(left > 0);
    REFUSED(HF_BUSY, client, 0);
    hf_hold *hold = TAKE(client, .wait_ms = t_patience(SOON_MS));
    assert_true(t_now_ms() - killed >= left - 1);
    assert_true(hf_fence(hold) > token);
    FREE(hold);
    t_shared_free(s, sizeof *s);
}

static int own_nothing(void *arg) {
    hf_hold *hold = arg;
    assert_int_equal(hf_held(hold), 0);
    assert_int_equal(hf_remaining_ms(hold), 0);
    T_HF(HF_FORKED, hf_extend(hold, 60000));
    T_HF(HF_FORKED, hf_release(hold));
    return 0;
}

static void F42_a_forked_child_ends_no_hold_of_its_parent(void **state) {
    bed *b = *state;
    hf_hold *hold = TAKE(bed_direct(b));
    assert_int_equal(t_proc_wait(t_proc_start(own_nothing, hold), SOON_MS), 0);
    check_held(b, hold);
    T_HF(HF_OK, hf_extend(hold, t_patience(60000)));
    FREE(hold);
}

/* A resource that refuses a token lower than the highest it has seen, and a record of the writes to
   it. */
typedef struct resource {
    holder_stage stage;
    _Atomic uint64_t highest;
    atomic_int checked, writes, refused;
} resource;

static void write_with(resource *r, uint64_t token) {
    bool ok = token >= atomic_load(&r->highest);
    if (ok) atomic_store(&r->highest, token);
    atomic_fetch_add(ok ? &r->writes : &r->refused, 1);
}

/* hf_held correctly says that the lock is held. The process is stopped before it writes. */
static int check_then_write(void *arg) {
    resource *r = arg;
    hf_client *client = NULL;
    hf_hold *hold = hold_in_child(&r->stage, &client);
    T_CHECK(hf_held(hold) && hf_remaining_ms(hold) > 0);
    atomic_store(&r->checked, 1);
    raise(SIGSTOP);
    write_with(r, hf_fence(hold));
    T_HF(HF_LOST, hf_release(hold));
    hf_close(client);
    return 0;
}

static void F02_a_write_after_a_pause_is_fenced_by_its_token(void **state) {
    bed *b = *state;
    resource *r = t_shared_new(sizeof *r);
    snprintf(r->stage.url, sizeof r->stage.url, "%s", front_url(t_redis_url(b->redis)));
    r->stage.lease_ms = t_patience(500);
    t_proc *child = start_holder(&r->stage, check_then_write);
    UNTIL(atomic_load(&r->checked));
    t_proc_kill(child, SIGSTOP);
    hf_hold *next = TAKE(bed_direct(b), .wait_ms = t_patience(2 * SOON_MS));
    write_with(r, hf_fence(next));
    /* The child may not have reached its own stop before this one. */
    UNTIL(atomic_load(&r->refused) == 1 || (kill(t_proc_pid(child), SIGCONT), false));
    assert_int_equal(t_proc_wait(child, SOON_MS), 0);
    assert_int_equal(atomic_load(&r->writes), 1);
    check_held(b, next);
    FREE(next);
    t_shared_free(r, sizeof *r);
}

static const struct CMUnitTest tests[] = {
    FAULT_TEST(F02_a_write_after_a_pause_is_fenced_by_its_token),
    FAULT_TEST(F03_a_process_stopped_past_its_lease_knows_at_its_first_call),
    FAULT_TEST(F03_a_process_stopped_past_its_lease_does_not_affect_the_next_holder),
    FAULT_TEST(F46_a_killed_process_frees_its_lock_after_the_lease_and_not_before),
    FAULT_TEST(F42_a_forked_child_ends_no_hold_of_its_parent),
};

FAULT_MAIN(tests)
