/* SPDX-License-Identifier: Apache-2.0 */
/* Latches: rounds, counting down, waiting, and changes during a wait. */
#include "conformance.h"

#include <sched.h>

#include "t_proc.h"

static const hf_options FOREVER = {.wait_ms = HF_FOREVER};
static const hf_options ONCE = {.wait_ms = 0};

static uint32_t left_of(hf_client *client, const char *name) {
    uint32_t left = 77;
    CF_IS(HF_OK, hf_latch_left(client, name, &left));
    return left;
}

static uint32_t count_down(hf_client *client, const char *name, uint32_t by) {
    uint32_t left = 77;
    CF_IS(HF_OK, hf_latch_count_down(client, name, by, &left));
    return left;
}

/* A wait in its own thread. */
typedef struct latch_waiter {
    hf_client *client;
    const char *name;
    hf_options options;
    hf_result result;
    atomic_int over;
    char detail[256];
    cf_thread *thread;
} latch_waiter;

static void wait_open(void *arg) {
    latch_waiter *w = arg;
    w->result = hf_latch_wait(w->client, w->name, &w->options);
    snprintf(w->detail, sizeof w->detail, "%s", w->result ? hf_error_detail() : "");
    atomic_store(&w->over, 1);
}

/* The wait has read the latch when this returns: a client's requests are answered in order. */
static latch_waiter *begin_wait(cf *f, hf_client *client, const char *name,
                                const hf_options *options) {
    uint32_t left;
    latch_waiter *w = cf_new(f, sizeof *w);
    *w = (latch_waiter){.client = client, .name = name, .options = *options};
    uint64_t waiting = cf_stats(client).waiting;
    w->thread = cf_spawn(f, wait_open, w);
    CF_UNTIL(cf_stats(client).waiting > waiting || atomic_load(&w->over));
    CF_IS(HF_OK, hf_latch_left(client, name, &left));
    return w;
}

static void check_ended(latch_waiter *w, hf_result expected) {
    cf_join(w->thread);
    cf_is(expected, w->result, w->detail, __FILE__, __LINE__);
}

/* The wait must continue for so long that it could end wrongly. */
static void check_waits(latch_waiter *w) {
    t_sleep_ms(150);
    assert_int_equal(atomic_load(&w->over), 0);
}

/* ---- Counting -------------------------------------------------------------------------------- */

static void B31_a_latch_is_counted_down_and_open(cf *f) {
    CF_IS(HF_OK, hf_latch_set(f->a, f->name, 3));
    assert_int_equal(left_of(f->b, f->name), 3);
    CF_IS(HF_BUSY, hf_latch_wait(f->b, f->name, &ONCE));
    CF_IS(HF_BUSY, hf_latch_wait(f->b, f->name, NULL));
    assert_int_equal(count_down(f->b, f->name, 1), 2);
    assert_int_equal(count_down(f->a, f->name, 1), 1);
    CF_IS(HF_BUSY, hf_latch_wait(f->a, f->name, &ONCE));
    CF_IS(HF_TIMEOUT, hf_latch_wait(f->a, f->name, &(hf_options){.wait_ms = 300}));
    assert_string_not_equal(hf_error_detail(), "");
    assert_int_equal(count_down(f->a, f->name, 1), 0);
    CF_IS(HF_OK, hf_latch_wait(f->a, f->name, &ONCE));
    CF_IS(HF_OK, hf_latch_wait(f->b, f->name, &FOREVER));
}

static void B31_it_is_never_counted_below_zero(cf *f) {
    CF_IS(HF_OK, hf_latch_set(f->a, f->name, 5));
    assert_int_equal(count_down(f->a, f->name, 4), 1);
    assert_int_equal(count_down(f->b, f->name, HF_LATCH_MAX), 0);
    assert_int_equal(count_down(f->b, f->name, 2), 0);
    assert_int_equal(left_of(f->a, f->name), 0);
    CF_IS(HF_OK, hf_latch_count_down(f->a, f->name, 1, NULL));
}

static void B31_a_latch_of_zero_is_open(cf *f) {
    CF_IS(HF_OK, hf_latch_set(f->a, f->name, 0));
    CF_IS(HF_OK, hf_latch_wait(f->b, f->name, &ONCE));
    CF_IS(HF_OK, hf_latch_set(f->a, f->name, HF_LATCH_MAX));
    assert_int_equal(left_of(f->b, f->name), HF_LATCH_MAX);
}

static void B31_a_latch_that_is_not_set_is_reported(cf *f) {
    uint32_t left = 77;
    CF_IS(HF_NOT_HELD, hf_latch_count_down(f->a, f->name, 1, &left));
    assert_int_equal(left, 0);
    assert_non_null(strstr(hf_error_detail(), "hf_latch_set"));
    CF_IS(HF_NOT_HELD, hf_latch_wait(f->a, f->name, &ONCE));
    CF_IS(HF_NOT_HELD, hf_latch_wait(f->a, f->name, &FOREVER));
    CF_IS(HF_NOT_HELD, hf_latch_left(f->a, f->name, &left));
    CF_IS(HF_OK, hf_latch_set(f->b, f->name, 1)); /* the earlier count does not apply now */
    assert_int_equal(left_of(f->a, f->name), 1);
}

static void B31_arguments_are_checked(cf *f) {
    CF_IS(HF_INVALID, hf_latch_set(f->a, "", 1));
    CF_IS(HF_INVALID, hf_latch_set(f->a, f->name, HF_LATCH_MAX + 1));
    CF_IS(HF_INVALID, hf_latch_set(NULL, f->name, 1));
    CF_IS(HF_OK, hf_latch_set(f->a, f->name, 2));
    CF_IS(HF_INVALID, hf_latch_count_down(f->a, f->name, 0, NULL));
    CF_IS(HF_INVALID, hf_latch_count_down(f->a, f->name, HF_LATCH_MAX + 1, NULL));
    CF_IS(HF_INVALID, hf_latch_left(f->a, f->name, NULL));
    CF_IS(HF_INVALID, hf_latch_wait(f->a, f->name, &(hf_options){.wait_ms = -2}));
    CF_IS(HF_INVALID, hf_latch_wait(f->a, f->name, &(hf_options){.lease_ms = 1000}));
    CF_IS(HF_INVALID, hf_latch_wait(f->a, f->name, &(hf_options){.flags = HF_NO_RENEW}));
    assert_int_equal(left_of(f->b, f->name), 2);
}

/* A lock and a latch of the same name are independent, as are other names and spaces. */
static void B31_a_latch_is_separate_from_locks_and_other_names(cf *f) {
    hf_client *elsewhere = cf_open_url(f, cf_other_url(), NULL);
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    CF_IS(HF_OK, hf_latch_set(f->b, f->name, 1));
    CF_IS(HF_NOT_HELD, hf_latch_wait(f->b, cf_name(f, "-other"), &ONCE));
    CF_IS(HF_NOT_HELD, hf_latch_wait(elsewhere, f->name, &ONCE));
    CF_FREE(hold);
    CF_FREE(CF_TAKE(f->b, f->name, NULL));
    assert_int_equal(count_down(f->b, f->name, 1), 0);
    hf_info *info = cf_inspect(f->a, f->name);
    assert_int_equal(info->held, 0);
    hf_info_free(info);
    CF_IS(HF_OK, hf_latch_set(f->a, "{}%\n/", 1));
    assert_int_equal(count_down(f->b, "{}%\n/", 1), 0);
}

enum { COUNTERS = 8, EACH = 25 };

typedef struct counting {
    hf_client *client;
    const char *name;
    atomic_int failures, zeros;
} counting;

static void count_each(void *arg) {
    counting *c = arg;
    for (int i = 0; i < EACH; i++) {
        uint32_t left;
        if (hf_latch_count_down(c->client, c->name, 1, &left) != HF_OK)
            atomic_fetch_add(&c->failures, 1);
        else if (!left)
            atomic_fetch_add(&c->zeros, 1);
    }
}

static void B31_many_threads_of_many_clients_count_each_once(cf *f) {
    counting *c[2] = {cf_new(f, sizeof **c), cf_new(f, sizeof **c)};
    cf_thread *threads[COUNTERS];
    CF_IS(HF_OK, hf_latch_set(f->a, f->name, COUNTERS * EACH + 1));
    for (int i = 0; i < 2; i++) *c[i] = (counting){.client = i ? f->a : f->b, .name = f->name};
    latch_waiter *waits = begin_wait(f, f->b, f->name, &FOREVER);
    for (int i = 0; i < COUNTERS; i++) threads[i] = cf_spawn(f, count_each, c[i % 2]);
    for (int i = 0; i < COUNTERS; i++) cf_join(threads[i]);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(atomic_load(&c[i]->failures), 0);
        assert_int_equal(atomic_load(&c[i]->zeros), 0);
    }
    assert_int_equal(left_of(f->a, f->name), 1);
    check_waits(waits);
    assert_int_equal(count_down(f->a, f->name, 1), 0);
    check_ended(waits, HF_OK);
}

/* ---- Waiting --------------------------------------------------------------------------------- */

static void B31_all_waiters_are_released(cf *f) {
    enum { WAITERS = 6 };
    latch_waiter *waits[WAITERS];
    CF_IS(HF_OK, hf_latch_set(f->a, f->name, 2));
    for (int i = 0; i < WAITERS; i++)
        waits[i] = begin_wait(f, i % 2 ? f->a : f->b, f->name,
                              i < 3 ? &FOREVER : &(hf_options){.wait_ms = 60000});
    assert_int_equal(count_down(f->a, f->name, 1), 1);
    check_waits(waits[0]);
    assert_int_equal(count_down(f->b, f->name, 1), 0);
    for (int i = 0; i < WAITERS; i++) check_ended(waits[i], HF_OK);
    assert_int_equal(cf_stats(f->a).waiting, 0);
}

static void B31_a_wait_ends_with_its_time(cf *f) {
    CF_IS(HF_OK, hf_latch_set(f->a, f->name, 2));
    int64_t began = t_now_ms();
    CF_IS(HF_TIMEOUT, hf_latch_wait(f->b, f->name, &(hf_options){.wait_ms = 300}));
    assert_true(t_now_ms() - began >= 300);
    assert_non_null(strstr(hf_error_detail(), "2 are left"));
    assert_int_equal(left_of(f->b, f->name), 2);
}

static void B31_a_wait_is_cancelled(cf *f) {
    hf_cancel *cancel = cf_cancel();
    CF_IS(HF_OK, hf_latch_set(f->a, f->name, 1));
    latch_waiter *w =
        begin_wait(f, f->b, f->name, &(hf_options){.wait_ms = HF_FOREVER, .cancel = cancel});
    latch_waiter *other = begin_wait(f, f->b, f->name, &FOREVER);
    check_waits(w);
    hf_cancel_fire(cancel);
    check_ended(w, HF_CANCELLED);
    CF_IS(HF_CANCELLED, hf_latch_wait(f->b, f->name, &(hf_options){.cancel = cancel}));
    check_waits(other);
    assert_int_equal(count_down(f->a, f->name, 1), 0);
    check_ended(other, HF_OK);
    hf_cancel_free(cancel);
}

static void B31_a_close_ends_waits(cf *f) {
    hf_client *client = cf_open(f);
    CF_IS(HF_OK, hf_latch_set(f->a, f->name, 1));
    latch_waiter *w[2] = {begin_wait(f, client, f->name, &FOREVER),
                          begin_wait(f, client, f->name, &(hf_options){.wait_ms = 60000})};
    check_waits(w[0]);
    int64_t began = t_now_ms();
    cf_close(f, client);
    CF_AT_ONCE(began);
    for (int i = 0; i < 2; i++) check_ended(w[i], HF_CLOSED);
    assert_int_equal(left_of(f->a, f->name), 1);
}

/* A wait for a latch blocks nothing else in its client. */
static void B31_a_wait_does_not_block_the_rest_of_its_client(cf *f) {
    CF_IS(HF_OK, hf_latch_set(f->a, f->name, 1));
    latch_waiter *w = begin_wait(f, f->a, f->name, &FOREVER);
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    cf_attempt *next = cf_queue(f, f->b, f->name, &FOREVER);
    CF_FREE(hold);
    CF_FREE(cf_granted(next));
    assert_int_equal(count_down(f->a, f->name, 1), 0);
    check_ended(w, HF_OK);
}

static void B31_a_client_without_threads_waits_too(cf *f) {
    hf_client *client = cf_open_url(f, cf_url(), &(hf_client_options){.flags = HF_NO_THREAD});
    CF_IS(HF_OK, hf_latch_set(client, f->name, 2));
    CF_IS(HF_TIMEOUT, hf_latch_wait(client, f->name, &(hf_options){.wait_ms = 300}));
    latch_waiter *w = begin_wait(f, client, f->name, &FOREVER);
    assert_int_equal(count_down(f->a, f->name, 1), 1);
    check_waits(w);
    assert_int_equal(count_down(client, f->name, 1), 0);
    check_ended(w, HF_OK);
}

/* ---- Rounds ---------------------------------------------------------------------------------- */

static void B31_setting_it_again_begins_a_new_round(cf *f) {
    CF_IS(HF_OK, hf_latch_set(f->a, f->name, 1));
    assert_int_equal(count_down(f->a, f->name, 1), 0);
    CF_IS(HF_OK, hf_latch_wait(f->b, f->name, &ONCE));
    CF_IS(HF_OK, hf_latch_set(f->a, f->name, 2));
    CF_IS(HF_BUSY, hf_latch_wait(f->b, f->name, &ONCE));
    assert_int_equal(count_down(f->b, f->name, 2), 0);
    CF_IS(HF_OK, hf_latch_wait(f->b, f->name, &ONCE));
}

/* A round that completed while the waiter was not looking still ends the wait. */
static void B31_a_missed_round_releases_its_waiters(cf *f) {
    for (int i = 0; i < 10; i++) {
        CF_IS(HF_OK, hf_latch_set(f->a, f->name, 1));
        latch_waiter *w = begin_wait(f, f->b, f->name, &FOREVER);
        assert_int_equal(count_down(f->a, f->name, 1), 0);
        CF_IS(HF_OK, hf_latch_set(f->a, f->name, 5)); /* at once */
        check_ended(w, HF_OK);
    }
}

/* A round that was given up ends no wait, because its work may not be done. */
static void B31_an_abandoned_round_releases_no_waiter(cf *f) {
    CF_IS(HF_OK, hf_latch_set(f->a, f->name, 2));
    latch_waiter *w = begin_wait(f, f->b, f->name, &FOREVER);
    assert_int_equal(count_down(f->a, f->name, 1), 1);
    CF_IS(HF_OK, hf_latch_set(f->a, f->name, 3));
    check_waits(w);
    assert_int_equal(count_down(f->b, f->name, 2), 1);
    check_waits(w);
    assert_int_equal(count_down(f->a, f->name, 1), 0);
    check_ended(w, HF_OK);
}

static void set_and_count(void *arg) {
    counting *c = arg;
    for (int i = 0; i < EACH; i++) {
        if (hf_latch_set(c->client, c->name, 1) != HF_OK ||
            hf_latch_count_down(c->client, c->name, 1, NULL) != HF_OK)
            atomic_fetch_add(&c->failures, 1);
    }
}

/* Waits, rounds and changes of one client at once: every wait ends with some round. */
static void B31_rounds_race_with_waits(cf *f) {
    enum { WAITERS = 4 };
    counting *c = cf_new(f, sizeof *c);
    latch_waiter *w[WAITERS];
    *c = (counting){.client = f->a, .name = f->name};
    CF_IS(HF_OK, hf_latch_set(f->a, f->name, 1));
    for (int i = 0; i < WAITERS; i++) w[i] = begin_wait(f, i % 2 ? f->a : f->b, f->name, &FOREVER);
    cf_thread *threads[2] = {cf_spawn(f, set_and_count, c), cf_spawn(f, set_and_count, c)};
    for (int i = 0; i < 2; i++) cf_join(threads[i]);
    for (int i = 0; i < WAITERS; i++) check_ended(w[i], HF_OK);
    assert_int_equal(atomic_load(&c->failures), 0);
}

/* ---- Processes ------------------------------------------------------------------------------- */

typedef struct latch_stage {
    cf *f;
    atomic_int ready;
} latch_stage;

static int count_in_child(void *arg) {
    latch_stage *s = arg;
    hf_client *client = NULL;
    CF_IS(HF_OK, hf_open(cf_url(), NULL, &client));
    CF_UNTIL(atomic_load(&s->ready));
    CF_IS(HF_OK, hf_latch_count_down(client, s->f->name, 1, NULL));
    CF_IS(HF_OK, hf_latch_wait(client, s->f->name, &(hf_options){.wait_ms = CF_WATCHDOG_MS}));
    hf_close(client);
    return 0;
}

static void B31_processes_count_and_wait_for_each_other(cf *f) {
    enum { PROCESSES = 3 };
    latch_stage *s = t_shared_new(sizeof *s);
    t_proc *children[PROCESSES];
    s->f = f;
    for (int i = 0; i < PROCESSES; i++) children[i] = t_proc_start(count_in_child, s);
    CF_IS(HF_OK, hf_latch_set(f->a, f->name, PROCESSES + 1));
    atomic_store(&s->ready, 1);
    CF_UNTIL(left_of(f->a, f->name) == 1);
    CF_IS(HF_TIMEOUT, hf_latch_wait(f->a, f->name, &(hf_options){.wait_ms = 300}));
    assert_int_equal(count_down(f->a, f->name, 1), 0);
    for (int i = 0; i < PROCESSES; i++)
        assert_int_equal(t_proc_wait(children[i], CF_WATCHDOG_MS), 0);
    t_shared_free(s, sizeof *s);
}

static int check_child_has_no_latch(void *arg) {
    latch_stage *s = arg;
    uint32_t left;
    CF_IS(HF_FORKED, hf_latch_set(s->f->a, s->f->name, 1));
    CF_IS(HF_FORKED, hf_latch_count_down(s->f->a, s->f->name, 1, &left));
    CF_IS(HF_FORKED, hf_latch_wait(s->f->a, s->f->name, &FOREVER));
    CF_IS(HF_FORKED, hf_latch_left(s->f->a, s->f->name, &left));
    return 0;
}

static void F42_a_forked_child_has_no_latch(cf *f) {
    latch_stage *s = t_shared_new(sizeof *s);
    s->f = f;
    CF_IS(HF_OK, hf_latch_set(f->a, f->name, 2));
    assert_int_equal(t_proc_wait(t_proc_start(check_child_has_no_latch, s), CF_WATCHDOG_MS), 0);
    assert_int_equal(left_of(f->b, f->name), 2);
    t_shared_free(s, sizeof *s);
}

const cf_case cf_latch[] = {
    CF_CASE_NEEDS(B31_a_latch_is_counted_down_and_open, CF_LATCH_LEADER),
    CF_CASE_NEEDS(B31_it_is_never_counted_below_zero, CF_LATCH_LEADER),
    CF_CASE_NEEDS(B31_a_latch_of_zero_is_open, CF_LATCH_LEADER),
    CF_CASE_NEEDS(B31_a_latch_that_is_not_set_is_reported, CF_LATCH_LEADER),
    CF_CASE_NEEDS(B31_arguments_are_checked, CF_LATCH_LEADER),
    CF_CASE_NEEDS(B31_a_latch_is_separate_from_locks_and_other_names, CF_LATCH_LEADER),
    CF_CASE_NEEDS(B31_many_threads_of_many_clients_count_each_once, CF_LATCH_LEADER),
    CF_CASE_NEEDS(B31_all_waiters_are_released, CF_LATCH_LEADER),
    CF_CASE_NEEDS(B31_a_wait_ends_with_its_time, CF_LATCH_LEADER),
    CF_CASE_NEEDS(B31_a_wait_is_cancelled, CF_LATCH_LEADER),
    CF_CASE_NEEDS(B31_a_close_ends_waits, CF_LATCH_LEADER),
    CF_CASE_NEEDS(B31_a_wait_does_not_block_the_rest_of_its_client, CF_LATCH_LEADER),
    CF_CASE_NEEDS(B31_a_client_without_threads_waits_too, CF_LATCH_LEADER),
    CF_CASE_NEEDS(B31_setting_it_again_begins_a_new_round, CF_LATCH_LEADER),
    CF_CASE_NEEDS(B31_a_missed_round_releases_its_waiters, CF_LATCH_LEADER),
    CF_CASE_NEEDS(B31_an_abandoned_round_releases_no_waiter, CF_LATCH_LEADER),
    CF_CASE_NEEDS(B31_rounds_race_with_waits, CF_LATCH_LEADER),
    CF_CASE_NEEDS(B31_processes_count_and_wait_for_each_other, CF_PROCESSES | CF_LATCH_LEADER),
    CF_CASE_NEEDS(F42_a_forked_child_has_no_latch, CF_LATCH_LEADER),
    CF_CASES_END,
};
