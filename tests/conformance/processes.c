/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other processes: they are excluded, their death frees their locks, and a fork does not share the
 * parent's clients.
 *
 * Children run as t_proc: they may assert, and share `process_stage` with the case. A child that
 * locks opens its own client, because inherited clients belong to the parent. Where possible it is
 * forked before the case starts threads, because the thread sanitizer cannot follow it otherwise.
 */
#include "conformance.h"

#include "t_proc.h"

/* Exchanged between a case and its child; in shared memory except f and hold. */
typedef struct process_stage {
    cf *f;
    hf_hold *hold;
    cf_section section;
    _Atomic uint64_t token; /* of the child's hold, once it has one */
    atomic_int ready;
    atomic_int go;
} process_stage;

static process_stage *new_stage(cf *f) {
    process_stage *s = t_shared_new(sizeof *s);
    s->f = f;
    return s;
}

static void end_stage(process_stage *s) {
    t_shared_free(s, sizeof *s);
}

static void end_child(t_proc *child) {
    assert_int_equal(t_proc_wait(child, CF_WATCHDOG_MS), 0);
}

static hf_client *open_in_child(void) {
    hf_client *client = NULL;
    CF_IS(HF_OK, hf_open(cf_url(), NULL, &client));
    return client;
}

/* ---- B13 ------------------------------------------------------------------------------------- */

enum { PROCESSES = 4, ROUNDS = 25 };

static int visit_in_child(void *arg) {
    process_stage *s = arg;
    hf_client *client = open_in_child();
    cf_visit(&s->section, client, s->f->name, ROUNDS);
    hf_close(client);
    return 0;
}

static void B13_processes_exclude_each_other_and_all_finish(cf *f) {
    process_stage *s = new_stage(f);
    t_proc *children[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) children[i] = t_proc_start(visit_in_child, s);
    cf_visit(&s->section, f->a, f->name, ROUNDS);
    for (int i = 0; i < PROCESSES; i++) end_child(children[i]);
    cf_section_check(&s->section, (PROCESSES + 1) * ROUNDS);
    end_stage(s);
}

static int wait_in_child(void *arg) {
    process_stage *s = arg;
    hf_client *client = open_in_child();
    CF_UNTIL(atomic_load(&s->go));
    CF_REFUSED(HF_BUSY, client, s->f->name, NULL);
    atomic_store(&s->ready, 1);
    hf_hold *hold = CF_TAKE(client, s->f->name, &(hf_options){.wait_ms = CF_WATCHDOG_MS});
    atomic_store(&s->token, hf_fence(hold));
    CF_FREE(hold);
    hf_close(client);
    return 0;
}

static void B13_a_release_serves_a_waiter_in_another_process(cf *f) {
    process_stage *s = new_stage(f);
    t_proc *child = t_proc_start(wait_in_child, s);
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    uint64_t token = hf_fence(hold);
    atomic_store(&s->go, 1);
    CF_UNTIL(atomic_load(&s->ready));
    CF_FREE(hold);
    end_child(child);
    assert_true(atomic_load(&s->token) > token);
    end_stage(s);
}

/* ---- B8 -------------------------------------------------------------------------------------- */

enum { HUNDRED = 100, HUNDRED_ROUNDS = 3 };

static int visit_among_a_hundred(void *arg) {
    process_stage *s = arg;
    hf_client *client = open_in_child();
    cf_visit(&s->section, client, s->f->name, HUNDRED_ROUNDS);
    hf_close(client);
    return 0;
}

static void B08_a_hundred_processes_exclude_each_other_and_all_finish(cf *f) {
    process_stage *s = new_stage(f);
    t_proc *children[HUNDRED];
    for (int i = 0; i < HUNDRED; i++) children[i] = t_proc_start(visit_among_a_hundred, s);
    for (int i = 0; i < HUNDRED; i++) end_child(children[i]);
    cf_section_check(&s->section, HUNDRED * HUNDRED_ROUNDS);
    assert_int_equal(cf_queue_length(f->name), 0);
    end_stage(s);
}

/* ---- B14, F3 --------------------------------------------------------------------------------- */

static hf_hold *hold_in_child(process_stage *s) {
    hf_hold *hold =
        CF_TAKE(open_in_child(), s->f->name, &(hf_options){.lease_ms = CF_KEPT_LEASE_MS});
    atomic_store(&s->token, hf_fence(hold));
    atomic_store(&s->ready, 1);
    CF_UNTIL(atomic_load(&s->go));
    return hold;
}

static int hold_until_killed(void *arg) {
    (void)hold_in_child(arg);
    return 1; /* not reached: the process is killed */
}

static int hold_and_exit(void *arg) {
    (void)hold_in_child(arg);
    return 0;
}

/* A child that holds the lock, and a waiter that it blocks for longer than its lease. */
static cf_attempt *wait_behind_child(process_stage *s, t_proc_fn *fn, t_proc **child) {
    *child = t_proc_start(fn, s);
    CF_UNTIL(atomic_load(&s->ready));
    cf_attempt *waiter =
        cf_queue(s->f, s->f->a, s->f->name, &(hf_options){.wait_ms = CF_WATCHDOG_MS});
    t_sleep_ms(CF_PAST_LEASE_MS);
    assert_int_equal(cf_stats(s->f->a).waiting, 1);
    return waiter;
}

static void check_inherits(process_stage *s, cf_attempt *waiter) {
    hf_hold *hold = cf_granted(waiter);
    assert_true(hf_fence(hold) > atomic_load(&s->token));
    CF_FREE(hold);
    end_stage(s);
}

static void B14_a_waiter_gets_the_lock_of_a_killed_process(cf *f) {
    process_stage *s = new_stage(f);
    t_proc *child;
    cf_attempt *waiter = wait_behind_child(s, hold_until_killed, &child);
    t_proc_kill(child, SIGKILL);
    assert_int_equal(t_proc_wait(child, CF_WATCHDOG_MS), 128 + SIGKILL);
    check_inherits(s, waiter);
}

static void B14_a_waiter_gets_the_lock_of_a_process_that_ended(cf *f) {
    process_stage *s = new_stage(f);
    t_proc *child;
    cf_attempt *waiter = wait_behind_child(s, hold_and_exit, &child);
    atomic_store(&s->go, 1);
    end_child(child);
    check_inherits(s, waiter);
}

/* Its very first check after SIGCONT must not report the lock as held. */
static int wake_up_late(void *arg) {
    hf_hold *hold = hold_in_child(arg);
    assert_int_equal(hf_held(hold), 0);
    assert_int_equal(hf_remaining_ms(hold), 0);
    CF_IS(HF_LOST, hf_extend(hold, 30000));
    CF_IS(HF_LOST, hf_release(hold));
    return 0;
}

static void F03_a_process_stopped_past_its_lease_wakes_up_without_the_lock(cf *f) {
    process_stage *s = new_stage(f);
    t_proc *child;
    cf_attempt *waiter = wait_behind_child(s, wake_up_late, &child);
    t_proc_kill(child, SIGSTOP);
    hf_hold *hold = NULL;
    if (!cf_has(CF_OWN_CLOCK)) hold = cf_granted(waiter);
    t_sleep_ms(CF_PAST_LEASE_MS); /* the lease ends for its holder, in every store */
    atomic_store(&s->go, 1);
    t_proc_kill(child, SIGCONT);
    end_child(child);
    if (!hold) hold = cf_granted(waiter);
    assert_int_equal(hf_held(hold), 1);
    assert_true(cf_token(f->b, f->name) == hf_fence(hold));
    CF_FREE(hold);
    end_stage(s);
}

/* ---- F42 ------------------------------------------------------------------------------------- */

static int child_owns_nothing(void *arg) {
    process_stage *s = arg;
    hf_client *client = s->f->a;
    hf_hold *hold = s->hold, *none = hold;
    hf_info *info = NULL;
    hf_stats stats;
    assert_int_equal(hf_held(hold), 0);
    assert_int_equal(hf_remaining_ms(hold), 0);
    assert_int_equal(hf_lost_fd(hold), -1);
    CF_IS(HF_FORKED, hf_extend(hold, 30000));
    CF_REFUSED(HF_FORKED, client, s->f->name, NULL);
    CF_REFUSED(HF_FORKED, client, cf_name(s->f, "-free"), &(hf_options){.wait_ms = HF_FOREVER});
    CF_IS(HF_FORKED, hf_try_lock(client, s->f->name, &none));
    CF_IS(HF_FORKED, hf_lock(client, s->f->name, &none));
    CF_IS(HF_FORKED, hf_inspect(client, s->f->name, &info));
    CF_IS(HF_FORKED, hf_break(client, s->f->name, 0));
    CF_IS(HF_FORKED, hf_stats_get(client, &stats));
    hf_unref(hf_ref(hold));
    CF_IS(HF_FORKED, hf_release(hold));
    hf_close(client);
    return 0;
}

/* Frees what it inherited in the other order: the client before its hold. */
static int child_closes_first(void *arg) {
    process_stage *s = arg;
    hf_close(s->f->a);
    assert_int_equal(hf_held(s->hold), 0);
    hf_unref(s->hold);
    return 0;
}

static void F42_a_forked_child_owns_nothing_and_its_parent_is_undisturbed(cf *f) {
    cf_lost *lost = cf_new(f, sizeof *lost);
    process_stage *s = new_stage(f);
    s->hold =
        CF_TAKE(f->a, f->name,
                &(hf_options){.lease_ms = CF_KEPT_LEASE_MS, .on_lost = cf_on_lost, .arg = lost});
    cf_attempt *local = cf_queue(f, f->a, f->name, &(hf_options){.wait_ms = HF_FOREVER});
    end_child(t_proc_start(child_owns_nothing, s));
    end_child(t_proc_start(child_closes_first, s));

    uint64_t renewed = cf_stats(f->a).renewed;
    CF_UNTIL(cf_stats(f->a).renewed >= renewed + 4);
    assert_int_equal(hf_held(s->hold), 1);
    CF_REFUSED(HF_BUSY, f->b, f->name, NULL);
    CF_FREE(s->hold);
    CF_FREE(cf_granted(local));
    assert_int_equal(atomic_load(&lost->calls), 0);
    end_stage(s);
}

static int lock_in_child(void *arg) {
    process_stage *s = arg;
    hf_client *client = open_in_child();
    if (cf_has(CF_PROCESSES))
        CF_REFUSED(HF_BUSY, client, s->f->name, NULL);
    else
        /* the store's locks belong to one process, and this is another */
        CF_FREE(CF_TAKE(client, s->f->name, NULL));
    CF_FREE(CF_TAKE(client, cf_name(s->f, "-child"), NULL));
    hf_close(client);
    return 0;
}

static void F42_a_forked_child_may_open_a_client_of_its_own(cf *f) {
    process_stage *s = new_stage(f);
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    end_child(t_proc_start(lock_in_child, s));
    CF_FREE(hold);
    end_stage(s);
}

const cf_case cf_processes[] = {
    CF_CASE_NEEDS(B13_processes_exclude_each_other_and_all_finish, CF_PROCESSES),
    CF_CASE_NEEDS(B13_a_release_serves_a_waiter_in_another_process, CF_PROCESSES),
    CF_CASE_NEEDS(B08_a_hundred_processes_exclude_each_other_and_all_finish,
                  CF_PROCESSES | CF_QUEUE),
    CF_CASE_NEEDS(B14_a_waiter_gets_the_lock_of_a_killed_process, CF_PROCESSES),
    CF_CASE_NEEDS(B14_a_waiter_gets_the_lock_of_a_process_that_ended, CF_PROCESSES),
    CF_CASE_NEEDS(F03_a_process_stopped_past_its_lease_wakes_up_without_the_lock, CF_PROCESSES),
    CF_CASE(F42_a_forked_child_owns_nothing_and_its_parent_is_undisturbed),
    CF_CASE_NEEDS(F42_a_forked_child_may_open_a_client_of_its_own, CF_FORK_WITH_THREADS),
    CF_CASES_END,
};
