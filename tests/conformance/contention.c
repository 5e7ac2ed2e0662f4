/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many threads contend for one lock. They exclude each other, are served in order of arrival, and
 * lose no wake-up.
 */
#include "conformance.h"

#include <dirent.h>
#include <sched.h>

/* ---- Exclusion and order --------------------------------------------------------------------- */

enum { CROWD = 100 };

/* Guarded by the lock alone, on purpose: a thread sanitizer sees whether the lock orders
   accesses. */
typedef struct thread_crowd {
    hf_client *client;
    const char *name;
    int rounds;
    int inside;
    int collisions;
    size_t entered;
    size_t order[CROWD];
    atomic_int failures;
} thread_crowd;

typedef struct contending_thread {
    thread_crowd *crowd;
    size_t index;
    cf_thread *thread;
} contending_thread;

static void enter_crowd(thread_crowd *c, size_t index) {
    if (c->inside++) c->collisions++;
    c->order[c->entered % CROWD] = index;
    sched_yield();
    c->entered++;
    c->inside--;
}

static void run_member(void *arg) {
    contending_thread *m = arg;
    for (int i = 0; i < m->crowd->rounds; i++) {
        hf_hold *hold;
        if (hf_lock(m->crowd->client, m->crowd->name, &hold) != HF_OK) {
            atomic_fetch_add(&m->crowd->failures, 1);
            return;
        }
        enter_crowd(m->crowd, m->index);
        if (hf_release(hold) != HF_OK) atomic_fetch_add(&m->crowd->failures, 1);
    }
}

static contending_thread *new_crowd(cf *f, int rounds) {
    thread_crowd *c = cf_new(f, sizeof *c);
    contending_thread *members = cf_new(f, CROWD * sizeof *members);
    *c = (thread_crowd){.client = f->a, .name = f->name, .rounds = rounds};
    for (size_t i = 0; i < CROWD; i++) members[i] = (contending_thread){.crowd = c, .index = i};
    return members;
}

static void check_crowd(const contending_thread *members) {
    for (size_t i = 0; i < CROWD; i++) cf_join(members[i].thread);
    const thread_crowd *c = members->crowd;
    assert_int_equal(c->failures, 0);
    assert_int_equal(c->collisions, 0);
    assert_int_equal(c->entered, CROWD * c->rounds);
}

static void B08_a_hundred_threads_exclude_each_other_and_all_finish(cf *f) {
    contending_thread *members = new_crowd(f, 5);
    for (size_t i = 0; i < CROWD; i++) {
        members[i].thread = cf_spawn(f, run_member, &members[i]);
    }
    check_crowd(members);
}

static void B08_threads_of_a_client_are_served_in_order_of_arrival(cf *f) {
    contending_thread *members = new_crowd(f, 1);
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    for (size_t i = 0; i < CROWD; i++) {
        members[i].thread = cf_spawn(f, run_member, &members[i]);
        CF_UNTIL(cf_stats(f->a).waiting == i + 1);
    }
    CF_FREE(hold);
    check_crowd(members);
    for (size_t i = 0; i < CROWD; i++) assert_int_equal(members->crowd->order[i], i);
}

static size_t count_descriptors(void) {
    size_t count = 0;
    DIR *directory = opendir("/proc/self/fd");
    assert_non_null(directory);
    while (readdir(directory)) count++;
    closedir(directory);
    return count;
}

/* One of the waiting threads reads for all: it polls a descriptor of its own beside the store's. */
static void waiting_threads_take_no_descriptors(cf *f) {
    enum { FEW = CROWD / 10 };
    contending_thread *members = new_crowd(f, 1);
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    size_t before = 0;
    for (size_t i = 0; i < CROWD; i++) {
        members[i].thread = cf_spawn(f, run_member, &members[i]);
        CF_UNTIL(cf_stats(f->a).waiting == i + 1);
        if (i == 0) before = count_descriptors();
    }
    size_t after = count_descriptors();
    CF_FREE(hold);
    check_crowd(members);
    assert_true(after <= before + FEW);
}

typedef struct section_visitor {
    cf_section *section;
    hf_client *client;
    const char *name;
    int rounds;
} section_visitor;

static void run_visitor(void *arg) {
    section_visitor *v = arg;
    cf_visit(v->section, v->client, v->name, v->rounds);
}

static void B08_clients_exclude_each_other_and_all_finish(cf *f) {
    enum { CLIENTS = 4, THREADS = 4, ROUNDS = 25 };
    cf_section *section = cf_new(f, sizeof *section);
    cf_thread *threads[CLIENTS * THREADS];
    for (int i = 0; i < CLIENTS; i++) {
        hf_client *client = cf_open(f);
        section_visitor *v = cf_new(f, sizeof *v);
        *v = (section_visitor){section, client, f->name, ROUNDS};
        for (int k = 0; k < THREADS; k++) {
            threads[i * THREADS + k] = cf_spawn(f, run_visitor, v);
        }
    }
    for (int i = 0; i < CLIENTS * THREADS; i++) cf_join(threads[i]);
    cf_section_check(section, CLIENTS * THREADS * ROUNDS);
}

/* A hundred threads of ten clients: one thread of each client queues for the others. */
static void B08_a_hundred_threads_of_ten_clients_exclude_each_other(cf *f) {
    enum { CLIENTS = 10, ROUNDS = 4 };
    cf_section *section = cf_new(f, sizeof *section);
    section_visitor *visitors = cf_new(f, CLIENTS * sizeof *visitors);
    cf_thread *threads[CROWD];
    for (int i = 0; i < CLIENTS; i++)
        visitors[i] = (section_visitor){section, cf_open(f), f->name, ROUNDS};
    for (int i = 0; i < CROWD; i++) threads[i] = cf_spawn(f, run_visitor, &visitors[i % CLIENTS]);
    for (int i = 0; i < CROWD; i++) cf_join(threads[i]);
    cf_section_check(section, CROWD * ROUNDS);
    if (cf_has(CF_QUEUE)) assert_int_equal(cf_queue_length(f->name), 0);
}

/* ---- Cancel against release ------------------------------------------------------------------ */

typedef struct cancel_race {
    hf_cancel *cancel;
    atomic_int go;
    int64_t delay_us;
} cancel_race;

static void spin_us(int64_t us) {
    for (int64_t end = t_now_us() + us; t_now_us() < end;) {
    }
}

static void fire_on_go(void *arg) {
    cancel_race *r = arg;
    while (!atomic_load(&r->go) && !cf_over()) sched_yield();
    spin_us(r->delay_us);
    hf_cancel_fire(r->cancel);
}

/* The holder releases while the first waiter is cancelled. In either order the second waiter must
   be served. The lease is far longer than the watchdog, so a grant to the cancelled wait would make
   the test fail. */
static void race_cancel_with_release(cf *f, hf_client *first, hf_client *second, int round) {
    cancel_race *r = cf_new(f, sizeof *r);
    r->cancel = cf_cancel();
    r->delay_us = round * 7 % 150;
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    cf_attempt *cancelled =
        cf_queue(f, first, f->name, &(hf_options){.wait_ms = HF_FOREVER, .cancel = r->cancel});
    cf_attempt *behind = cf_queue(f, second, f->name, &(hf_options){.wait_ms = CF_WATCHDOG_MS});
    cf_thread *firing = cf_spawn(f, fire_on_go, r);
    atomic_store(&r->go, 1);
    spin_us(round * 11 % 150);
    CF_FREE(hold);
    cf_join(firing);
    cf_join(cancelled->thread);
    if (cancelled->result == HF_OK) {
        CF_FREE(cancelled->hold);
    } else {
        CF_ENDED(HF_CANCELLED, cancelled);
    }
    hf_cancel_free(r->cancel);
    CF_FREE(cf_granted(behind));
}

static void B20_cancel_racing_a_release_loses_no_wake_up_in_a_client(cf *f) {
    for (int i = 0; i < 200; i++) race_cancel_with_release(f, f->a, f->a, i);
    CF_FREE(CF_TAKE(f->b, f->name, NULL));
}

static void B20_cancel_racing_a_release_loses_no_wake_up_across_clients(cf *f) {
    hf_client *third = cf_open(f);
    for (int i = 0; i < 120; i++) race_cancel_with_release(f, f->b, third, i);
    CF_FREE(CF_TAKE(f->a, f->name, NULL));
}

static void B20_cancel_racing_a_release_hands_over_within_the_waiting_client(cf *f) {
    for (int i = 0; i < 120; i++) race_cancel_with_release(f, f->b, f->b, i);
    CF_FREE(CF_TAKE(f->a, f->name, NULL));
}

const cf_case cf_contention[] = {
    CF_CASE(B08_a_hundred_threads_exclude_each_other_and_all_finish),
    CF_CASE(B08_threads_of_a_client_are_served_in_order_of_arrival),
    CF_CASE(waiting_threads_take_no_descriptors),
    CF_CASE(B08_clients_exclude_each_other_and_all_finish),
    CF_CASE(B08_a_hundred_threads_of_ten_clients_exclude_each_other),
    CF_CASE(B20_cancel_racing_a_release_loses_no_wake_up_in_a_client),
    CF_CASE(B20_cancel_racing_a_release_loses_no_wake_up_across_clients),
    CF_CASE(B20_cancel_racing_a_release_hands_over_within_the_waiting_client),
    CF_CASES_END,
};
