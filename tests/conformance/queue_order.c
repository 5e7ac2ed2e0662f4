/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store's queue of waiters (B8): clients and processes are served in order of arrival. Waiters
 * that leave the queue do not change the order of the others.
 *
 * Waiters arrive one after another: the next begins when the store has queued the one before.
 */
#include "conformance.h"

#include <unistd.h>

#include "t_proc.h"

enum { WAITERS = 8 };

/* ---- Waiters, each with its own client ------------------------------------------------------- */

/* The order in which waiters were served. */
typedef struct served {
    atomic_int inside, collisions;
    atomic_size_t count;
    atomic_size_t order[WAITERS];
} served;

typedef struct queue_waiter {
    hf_client *client;
    const char *name;
    hf_options options;
    served *served;
    size_t index;
    hf_result result;
    cf_thread *thread;
} queue_waiter;

static void be_served(void *arg) {
    queue_waiter *w = arg;
    hf_hold *hold = NULL;
    w->result = hf_acquire(w->client, w->name, &w->options, &hold);
    if (w->result != HF_OK) return;
    if (atomic_fetch_add(&w->served->inside, 1)) atomic_fetch_add(&w->served->collisions, 1);
    atomic_store(&w->served->order[atomic_fetch_add(&w->served->count, 1) % WAITERS], w->index);
    atomic_fetch_sub(&w->served->inside, 1);
    w->result = hf_release(hold);
}

/* Without options it waits forever. */
static queue_waiter *start_waiter(cf *f, hf_client *client, served *to, size_t index,
                                  const hf_options *options) {
    queue_waiter *w = cf_new(f, sizeof *w);
    *w = (queue_waiter){.client = client, .name = f->name, .served = to, .index = index};
    w->options = options ? *options : (hf_options){.wait_ms = HF_FOREVER};
    w->thread = cf_spawn(f, be_served, w);
    return w;
}

/* Starts a waiter, and returns when the store has queued it. */
static queue_waiter *start_queued_waiter(cf *f, hf_client *client, served *to, size_t index,
                                         const hf_options *options) {
    int before = cf_queue_length(f->name);
    queue_waiter *w = start_waiter(f, client, to, index, options);
    CF_UNTIL(cf_queue_length(f->name) == before + 1);
    return w;
}

/* Another waiter of a client that is queued already or holds the lock. */
static queue_waiter *queue_behind(cf *f, hf_client *client, served *to, size_t index) {
    uint64_t before = cf_stats(client).waiting;
    queue_waiter *w = start_waiter(f, client, to, index, NULL);
    CF_UNTIL(cf_stats(client).waiting == before + 1);
    return w;
}

static void check_result(queue_waiter *w, hf_result expected) {
    cf_join(w->thread);
    CF_IS(expected, w->result);
}

static void check_order(const served *s, const size_t *order, size_t count) {
    assert_int_equal(s->collisions, 0);
    assert_int_equal(s->count, count);
    for (size_t i = 0; i < count; i++) assert_int_equal(s->order[i], order[i]);
}

static void B08_clients_are_served_in_order_of_arrival(cf *f) {
    static const size_t all[WAITERS] = {0, 1, 2, 3, 4, 5, 6, 7};
    served *s = cf_new(f, sizeof *s);
    queue_waiter *waiters[WAITERS];
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    for (size_t i = 0; i < WAITERS; i++)
        waiters[i] = start_queued_waiter(f, cf_open(f), s, i, NULL);
    CF_FREE(hold);
    for (size_t i = 0; i < WAITERS; i++) check_result(waiters[i], HF_OK);
    check_order(s, all, WAITERS);
}

/* A client that releases and comes back queues behind the waiters. */
static void B08_a_client_that_returns_queues_behind_the_others(cf *f) {
    static const size_t all[] = {0, 1, 2};
    served *s = cf_new(f, sizeof *s);
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    queue_waiter *first = start_queued_waiter(f, f->b, s, 0, NULL),
                 *second = start_queued_waiter(f, cf_open(f), s, 1, NULL);
    queue_waiter *again = queue_behind(f, f->a, s, 2); /* queued once the hold is released */
    CF_FREE(hold);
    check_result(first, HF_OK);
    check_result(second, HF_OK);
    check_result(again, HF_OK);
    check_order(s, all, 3);
}

/* ---- Waiters that leave ---------------------------------------------------------------------- */

static void B08_a_cancelled_waiter_does_not_change_the_order_of_the_others(cf *f) {
    static const size_t left[] = {1, 2, 4, 5};
    served *s = cf_new(f, sizeof *s);
    queue_waiter *waiters[WAITERS - 2];
    hf_cancel *cancel = cf_cancel();
    const hf_options until_cancelled = {.wait_ms = HF_FOREVER, .cancel = cancel};
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    for (size_t i = 0; i < 6; i++)
        waiters[i] = start_queued_waiter(f, cf_open(f), s, i, i % 3 ? NULL : &until_cancelled);
    hf_cancel_fire(cancel); /* the first waiter, and one in the middle */
    check_result(waiters[0], HF_CANCELLED);
    check_result(waiters[3], HF_CANCELLED);
    CF_UNTIL(cf_queue_length(f->name) == 4);
    CF_FREE(hold);
    for (size_t i = 0; i < 4; i++) check_result(waiters[left[i]], HF_OK);
    check_order(s, left, 4);
    hf_cancel_free(cancel);
}

static void B08_a_waiter_that_times_out_does_not_change_the_order_of_the_others(cf *f) {
    static const size_t left[] = {1, 3, 4};
    served *s = cf_new(f, sizeof *s);
    queue_waiter *waiters[5];
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    for (size_t i = 0; i < 5; i++) {
        const hf_options briefly = {.wait_ms = t_patience(800)};
        waiters[i] = start_queued_waiter(f, cf_open(f), s, i, i % 2 || i == 4 ? NULL : &briefly);
    }
    check_result(waiters[0], HF_TIMEOUT);
    check_result(waiters[2], HF_TIMEOUT);
    CF_UNTIL(cf_queue_length(f->name) == 3);
    CF_FREE(hold);
    for (size_t i = 0; i < 3; i++) check_result(waiters[left[i]], HF_OK);
    check_order(s, left, 3);
}

static void B08_a_client_that_closes_leaves_the_queue(cf *f) {
    static const size_t left[] = {1};
    served *s = cf_new(f, sizeof *s);
    hf_client *leaving = cf_open(f);
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    queue_waiter *first = start_queued_waiter(f, leaving, s, 0, NULL),
                 *second = start_queued_waiter(f, f->b, s, 1, NULL);
    cf_close(f, leaving);
    check_result(first, HF_CLOSED);
    assert_int_equal(cf_queue_length(f->name), 1);
    CF_FREE(hold);
    check_result(second, HF_OK);
    check_order(s, left, 1);
}

/* The position belongs to the client: another of its threads takes it over from the one that
   leaves. */
static void take_over(cf *f, hf_cancel *cancel, const hf_options *leaving, hf_result how) {
    static const size_t left[] = {2, 1, 3};
    served *s = cf_new(f, sizeof *s);
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    queue_waiter *leaver = start_queued_waiter(f, f->b, s, 0, leaving);
    queue_waiter *other = start_queued_waiter(f, cf_open(f), s, 1, NULL);
    queue_waiter *successor = queue_behind(f, f->b, s, 2);
    queue_waiter *last = start_queued_waiter(f, cf_open(f), s, 3, NULL);
    hf_cancel_fire(cancel);
    check_result(leaver, how);
    assert_int_equal(cf_queue_length(f->name), 3);
    CF_FREE(hold);
    check_result(successor, HF_OK);
    check_result(other, HF_OK);
    check_result(last, HF_OK);
    check_order(s, left, 3);
}

static void B08_a_thread_takes_over_the_position_of_one_that_is_cancelled(cf *f) {
    hf_cancel *cancel = cf_cancel();
    take_over(f, cancel, &(hf_options){.wait_ms = HF_FOREVER, .cancel = cancel}, HF_CANCELLED);
    hf_cancel_free(cancel);
}

static void B08_a_thread_takes_over_the_position_of_one_that_times_out(cf *f) {
    take_over(f, NULL, &(hf_options){.wait_ms = t_patience(800)}, HF_TIMEOUT);
}

/* A try neither queues nor passes waiters. */
static void B04_a_try_does_not_change_the_queue(cf *f) {
    served *s = cf_new(f, sizeof *s);
    hf_client *third = cf_open(f);
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    queue_waiter *first = start_queued_waiter(f, f->b, s, 0, NULL);
    CF_REFUSED(HF_BUSY, third, f->name, NULL);
    CF_REFUSED(HF_BUSY, f->b, f->name, NULL);
    assert_int_equal(cf_queue_length(f->name), 1);
    CF_FREE(hold);
    check_result(first, HF_OK);
    CF_FREE(CF_TAKE(third, f->name, NULL));
}

/* ---- Processes ------------------------------------------------------------------------------- */

enum { CROWD = 100 };

/* In shared memory. A child begins to wait when it reads its index. */
typedef struct process_crowd {
    const char *name;
    int gate[2];
    atomic_int inside, collisions;
    atomic_size_t count;
    _Atomic unsigned char order[CROWD];
    _Atomic uint64_t token;
    atomic_int backward;
} process_crowd;

static int wait_in_child(void *arg) {
    process_crowd *c = arg;
    unsigned char number;
    hf_client *client = NULL;
    CF_IS(HF_OK, hf_open(cf_url(), NULL, &client));
    assert_int_equal(read(c->gate[0], &number, 1), 1);
    hf_hold *hold = CF_TAKE(client, c->name, &(hf_options){.wait_ms = HF_FOREVER});
    if (atomic_fetch_add(&c->inside, 1)) atomic_fetch_add(&c->collisions, 1);
    if (atomic_exchange(&c->token, hf_fence(hold)) >= hf_fence(hold)) c->backward++;
    atomic_store(&c->order[atomic_fetch_add(&c->count, 1) % CROWD], number);
    atomic_fetch_sub(&c->inside, 1);
    CF_FREE(hold);
    hf_close(client);
    return 0;
}

static void B08_a_hundred_processes_are_served_in_order_of_arrival(cf *f) {
    process_crowd *c = t_shared_new(sizeof *c);
    t_proc *children[CROWD];
    c->name = f->name;
    assert_int_equal(pipe(c->gate), 0);
    for (int i = 0; i < CROWD; i++) children[i] = t_proc_start(wait_in_child, c);
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    for (unsigned char i = 0; i < CROWD; i++) {
        assert_int_equal(write(c->gate[1], &i, 1), 1);
        CF_UNTIL(cf_queue_length(f->name) == i + 1);
    }
    CF_FREE(hold);
    int failed = 0;
    for (int i = 0; i < CROWD; i++) failed += t_proc_wait(children[i], CF_WATCHDOG_MS) != 0;
    assert_int_equal(failed, 0);
    assert_int_equal(c->collisions, 0);
    assert_int_equal(c->backward, 0);
    assert_int_equal(c->count, CROWD);
    for (int i = 0; i < CROWD; i++) assert_int_equal(c->order[i], i);
    close(c->gate[0]);
    close(c->gate[1]);
    t_shared_free(c, sizeof *c);
}

const cf_case cf_queue_order[] = {
    CF_CASE_NEEDS(B08_clients_are_served_in_order_of_arrival, CF_QUEUE),
    CF_CASE_NEEDS(B08_a_client_that_returns_queues_behind_the_others, CF_QUEUE),
    CF_CASE_NEEDS(B08_a_cancelled_waiter_does_not_change_the_order_of_the_others, CF_QUEUE),
    CF_CASE_NEEDS(B08_a_waiter_that_times_out_does_not_change_the_order_of_the_others, CF_QUEUE),
    CF_CASE_NEEDS(B08_a_client_that_closes_leaves_the_queue, CF_QUEUE),
    CF_CASE_NEEDS(B08_a_thread_takes_over_the_position_of_one_that_is_cancelled, CF_QUEUE),
    CF_CASE_NEEDS(B08_a_thread_takes_over_the_position_of_one_that_times_out, CF_QUEUE),
    CF_CASE_NEEDS(B04_a_try_does_not_change_the_queue, CF_QUEUE),
    CF_CASE_NEEDS(B08_a_hundred_processes_are_served_in_order_of_arrival, CF_QUEUE | CF_PROCESSES),
    CF_CASES_END,
};
