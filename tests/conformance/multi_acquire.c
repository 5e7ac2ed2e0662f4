/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Acquiring many names at once (B19): all or nothing, one time budget, and no deadlock in any order
 * of names. The loss of one is the loss of all.
 *
 * A case's names are its own with the suffixes -1, -2 and -3; they sort in that order. Cases that
 * need only the mutex run on every store.
 */
#include "conformance.h"

#include <poll.h>
#include <sched.h>

#include "t_proc.h"

enum { NAMES = 3 };

/* The names of a case, and requests for all of them as mutexes. */
typedef struct trio {
    const char *name[NAMES];
    hf_request forth[NAMES], back[NAMES];
} trio;

static trio *new_trio(cf *f) {
    static const char *const suffix[] = {"-1", "-2", "-3"};
    trio *t = cf_new(f, sizeof *t);
    for (int i = 0; i < NAMES; i++) t->name[i] = cf_name(f, suffix[i]);
    for (int i = 0; i < NAMES; i++) {
        t->forth[i].name = t->name[i];
        t->back[i].name = t->name[NAMES - 1 - i];
    }
    return t;
}

#define REQUESTS(...) \
    (hf_request[]){__VA_ARGS__}, sizeof(hf_request[]){__VA_ARGS__} / sizeof(hf_request)

/* Acquire, which must succeed; refuse_all: which must fail, without a hold and with a detail. */
static hf_hold *take_all(hf_client *client, const hf_request *requests, size_t count,
                         const hf_options *options) {
    hf_hold *hold = NULL;
    CF_IS(HF_OK, hf_acquire_all(client, requests, count, options, &hold));
    assert_non_null(hold);
    return hold;
}

static void refuse_all(hf_result expected, hf_client *client, const hf_request *requests,
                       size_t count, const hf_options *options) {
    hf_hold *hold = (hf_hold *)(uintptr_t)0x5a5a;
    CF_IS(expected, hf_acquire_all(client, requests, count, options, &hold));
    assert_null(hold);
    assert_string_not_equal(hf_error_detail(), "");
}

/* Another client can acquire it soon: some releases finish after the call. */
static void check_free(cf *f, const trio *t, int i) {
    CF_UNTIL(cf_can_acquire(f->b, t->name[i], NULL));
}

static void check_all_free(cf *f, const trio *t) {
    for (int i = 0; i < NAMES; i++) check_free(f, t, i);
}

static void check_busy(cf *f, const char *name) {
    CF_REFUSED(HF_BUSY, f->b, name, &(hf_options){.owner = 999});
}

/* A call in its own thread, and so under its own owner. */
typedef struct multi_call {
    hf_client *client;
    hf_request requests[NAMES];
    size_t count;
    hf_options options;
    hf_result result; /* after cf_join */
    hf_hold *hold;
    int64_t ended_ms;
    char detail[256];
    cf_thread *thread;
} multi_call;

static void run_call(void *arg) {
    multi_call *c = arg;
    c->result = hf_acquire_all(c->client, c->requests, c->count, &c->options, &c->hold);
    c->ended_ms = t_now_ms();
    if (c->result) snprintf(c->detail, sizeof c->detail, "%s", hf_error_detail());
}

static multi_call *start_call(cf *f, hf_client *client, const hf_request *requests, size_t count,
                              const hf_options *options) {
    multi_call *c = cf_new(f, sizeof *c);
    c->client = client;
    memcpy(c->requests, requests, count * sizeof *requests);
    c->count = count;
    c->options = *options;
    c->thread = cf_spawn(f, run_call, c);
    return c;
}

/* All three by `a`, which holds the first `held` and waits for the next, held by another client. */
static multi_call *wait_behind(cf *f, const trio *t, int held, const hf_options *options) {
    multi_call *c = start_call(f, f->a, t->forth, NAMES, options);
    CF_UNTIL(cf_queued(f->b, t->name[held]) == 1);
    for (int i = 0; i < held; i++) check_busy(f, t->name[i]);
    return c;
}

static void check_ended(multi_call *c, hf_result expected) {
    cf_join(c->thread);
    cf_is(expected, c->result, c->detail, __FILE__, __LINE__);
}

static hf_hold *check_granted(multi_call *c) {
    check_ended(c, HF_OK);
    assert_non_null(c->hold);
    return c->hold;
}

/* ---- All ------------------------------------------------------------------------------------- */

static void check_tokens(cf *f, const hf_hold *hold, const hf_request *requests) {
    for (int i = 0; i < NAMES; i++) {
        assert_true(hf_fence_of(hold, (size_t)i) != 0);
        assert_true(hf_fence_of(hold, (size_t)i) == cf_token(f->b, requests[i].name));
    }
    assert_true(hf_fence(hold) == hf_fence_of(hold, 0));
    assert_true(hf_fence_of(hold, NAMES) == 0);
    assert_true(hf_fence_of(hold, SIZE_MAX) == 0);
}

static void B19_all_are_held_by_one_hold_each_under_its_token(cf *f) {
    trio *t = new_trio(f);
    const hf_request *orders[] = {t->forth, t->back};
    uint64_t last = 0;
    for (int k = 0; k < 2; k++) {
        hf_hold *hold = take_all(f->a, orders[k], NAMES, NULL);
        assert_int_equal(hf_held(hold), 1);
        assert_true(hf_remaining_ms(hold) > 0);
        assert_null(hf_why_lost(hold));
        check_tokens(f, hold, orders[k]);
        assert_true(cf_token(f->b, t->name[0]) > last);
        last = cf_token(f->b, t->name[0]);
        for (int i = 0; i < NAMES; i++) check_busy(f, t->name[i]);
        assert_int_equal(cf_stats(f->a).held, NAMES);
        CF_FREE(hold);
        for (int i = 0; i < NAMES; i++) CF_FREE(CF_TAKE(f->b, t->name[i], NULL));
    }
    assert_int_equal(cf_stats(f->a).held, 0);
    assert_int_equal(cf_stats(f->a).acquired, 2 * NAMES);
    assert_int_equal(cf_stats(f->a).released, 2 * NAMES);
}

static void B19_one_name_works_like_many(cf *f) {
    hf_hold *hold = take_all(f->a, REQUESTS({.name = f->name}), NULL);
    assert_true(hf_fence_of(hold, 0) == cf_token(f->b, f->name));
    check_busy(f, f->name);
    CF_FREE(hold);
    CF_FREE(CF_TAKE(f->b, f->name, NULL));
    hold = CF_TAKE(f->a, f->name, NULL); /* a plain hold has one token, its first */
    assert_true(hf_fence_of(hold, 0) == hf_fence(hold));
    assert_true(hf_fence_of(hold, 1) == 0);
    CF_FREE(hold);
    assert_true(hf_fence_of(NULL, 0) == 0);
}

static void B19_the_maximum_number_of_names(cf *f) {
    static char names[HF_NAMES_MAX + 1][128];
    static hf_request requests[HF_NAMES_MAX + 1];
    for (int i = 0; i <= HF_NAMES_MAX; i++) {
        snprintf(names[i], sizeof names[i], "%s-%d", f->name, (i * 37) % (HF_NAMES_MAX + 1));
        requests[i] = (hf_request){.name = names[i]};
    }
    hf_hold *hold = take_all(f->a, requests, HF_NAMES_MAX, NULL);
    for (int i = 0; i < HF_NAMES_MAX; i++)
        assert_true(hf_fence_of(hold, (size_t)i) == cf_token(f->b, names[i]));
    CF_FREE(hold);
    refuse_all(HF_INVALID, f->a, requests, HF_NAMES_MAX + 1, NULL);
    refuse_all(HF_INVALID, f->a, requests, SIZE_MAX, NULL);
    refuse_all(HF_INVALID, f->a, requests, 0, NULL);
    for (int i = 0; i <= HF_NAMES_MAX; i++) CF_FREE(CF_TAKE(f->b, names[i], NULL));
}

static void B19_the_longest_names_can_be_taken_together(cf *f) {
    static char names[HF_NAMES_MAX][HF_NAME_MAX + 1];
    static hf_request requests[HF_NAMES_MAX];
    for (int i = 0; i < HF_NAMES_MAX; i++) {
        memset(names[i], '{', HF_NAME_MAX); /* which is longer in a key */
        memcpy(names[i], f->name, strlen(f->name));
        names[i][HF_NAME_MAX - 1] = (char)('0' + i);
        requests[i] = (hf_request){.name = names[i]};
    }
    hf_hold *hold = take_all(f->a, requests, HF_NAMES_MAX, NULL);
    CF_REFUSED(HF_BUSY, f->b, names[HF_NAMES_MAX - 1], NULL);
    CF_FREE(hold);
    CF_FREE(CF_TAKE(f->b, names[HF_NAMES_MAX - 1], NULL));
}

/* ---- Or nothing ------------------------------------------------------------------------------ */

static void B19_nothing_is_kept_when_one_is_busy(cf *f) {
    trio *t = new_trio(f);
    for (int held = 0; held < NAMES; held++) {
        hf_hold *other = CF_TAKE(f->b, t->name[held], NULL);
        uint64_t refused = cf_stats(f->a).refused;
        refuse_all(HF_BUSY, f->a, t->forth, NAMES, NULL);
        refuse_all(HF_BUSY, f->a, t->back, NAMES, NULL);
        assert_int_equal(cf_stats(f->a).refused, refused + 2); /* counts calls, not names */
        for (int i = 0; i < NAMES; i++)
            if (i != held) check_free(f, t, i);
        CF_FREE(other);
        CF_FREE(take_all(f->a, t->forth, NAMES, NULL));
    }
}

static void B19_nothing_is_kept_when_time_is_up(cf *f) {
    trio *t = new_trio(f);
    for (int held = 0; held < NAMES; held++) {
        hf_hold *other = CF_TAKE(f->b, t->name[held], NULL);
        refuse_all(HF_TIMEOUT, f->a, t->back, NAMES, &(hf_options){.wait_ms = t_patience(60)});
        for (int i = 0; i < NAMES; i++)
            if (i != held) check_free(f, t, i);
        CF_UNTIL(cf_queued(f->b, t->name[held]) == 0);
        CF_FREE(other);
        CF_FREE(CF_TAKE(f->b, t->name[held], NULL));
    }
}

static void B19_nothing_is_kept_when_it_is_cancelled(cf *f) {
    trio *t = new_trio(f);
    for (int held = 0; held < NAMES; held++) {
        hf_cancel *cancel = cf_cancel();
        hf_hold *other = CF_TAKE(f->b, t->name[held], NULL);
        const hf_options options = {.wait_ms = HF_FOREVER, .cancel = cancel};
        multi_call *c = wait_behind(f, t, held, &options);
        hf_cancel_fire(cancel);
        check_ended(c, HF_CANCELLED);
        refuse_all(HF_CANCELLED, f->a, t->forth, NAMES, &options); /* it was not even begun */
        CF_UNTIL(cf_queued(f->b, t->name[held]) == 0);
        CF_FREE(other);
        check_all_free(f, t);
        hf_cancel_free(cancel);
    }
}

static void B19_nothing_is_kept_when_the_client_is_closed(cf *f) {
    trio *t = new_trio(f);
    for (int held = 0; held < NAMES; held++) {
        hf_hold *other = CF_TAKE(f->b, t->name[held], NULL);
        multi_call *c = wait_behind(f, t, held, &(hf_options){.wait_ms = HF_FOREVER});
        cf_close(f, f->a);
        check_ended(c, HF_CLOSED);
        CF_FREE(other);
        for (int i = 0; i < NAMES; i++) CF_FREE(CF_TAKE(f->b, t->name[i], NULL));
        f->a = cf_open(f);
    }
}

static void B19_closing_releases_all_of_a_hold(cf *f) {
    trio *t = new_trio(f);
    hf_hold *hold = take_all(f->a, t->forth, NAMES, NULL);
    cf_close(f, f->a);
    assert_int_equal(hf_held(hold), 0);
    for (int i = 0; i < NAMES; i++) CF_FREE(CF_TAKE(f->b, t->name[i], NULL));
    CF_IS(HF_CLOSED, hf_release(hold));
}

/* ---- Waiting --------------------------------------------------------------------------------- */

static void B19_the_call_waits_for_all_names(cf *f) {
    trio *t = new_trio(f);
    hf_hold *others[NAMES];
    for (int i = 0; i < NAMES; i++) others[i] = CF_TAKE(f->b, t->name[i], NULL);
    multi_call *c = start_call(f, f->a, t->back, NAMES, &(hf_options){.wait_ms = HF_FOREVER});
    for (int i = 0; i < NAMES; i++) {
        /* in the order of names, and in one queue at a time */
        CF_UNTIL(cf_queued(f->b, t->name[i]) == 1);
        for (int k = 0; k < NAMES; k++) assert_int_equal(cf_queued(f->b, t->name[k]), k == i);
        CF_FREE(others[i]);
    }
    hf_hold *hold = check_granted(c);
    assert_int_equal(hf_held(hold), 1);
    check_tokens(f, hold, t->back);
    CF_FREE(hold);
    check_all_free(f, t);
}

/* If each name had its own time budget, the call would wait for the second as long again. */
static void B19_one_time_budget_covers_all_names(cf *f) {
    trio *t = new_trio(f);
    int64_t wait = t_patience(1500);
    hf_hold *first = CF_TAKE(f->b, t->name[0], NULL), *second = CF_TAKE(f->b, t->name[1], NULL);
    multi_call *c = wait_behind(f, t, 0, &(hf_options){.wait_ms = wait});
    t_sleep_ms(wait * 2 / 3);
    CF_FREE(first);
    int64_t freed = t_now_ms();
    check_ended(c, HF_TIMEOUT);
    assert_in_range(c->ended_ms - freed, 0, wait - 1);
    CF_FREE(second);
    check_all_free(f, t);
}

static void B19_held_names_are_renewed_while_others_are_waited_for(cf *f) {
    trio *t = new_trio(f);
    hf_hold *other = CF_TAKE(f->b, t->name[2], NULL);
    multi_call *c =
        wait_behind(f, t, 2, &(hf_options){.wait_ms = HF_FOREVER, .lease_ms = CF_KEPT_LEASE_MS});
    uint64_t tokens[] = {cf_token(f->b, t->name[0]), cf_token(f->b, t->name[1])};
    t_sleep_ms(CF_PAST_LEASE_MS);
    for (int i = 0; i < 2; i++) assert_true(cf_token(f->b, t->name[i]) == tokens[i]);
    CF_FREE(other);
    hf_hold *hold = check_granted(c);
    for (size_t i = 0; i < 2; i++) assert_true(hf_fence_of(hold, i) == tokens[i]);
    t_sleep_ms(CF_PAST_LEASE_MS); /* and later too */
    assert_int_equal(hf_held(hold), 1);
    CF_FREE(hold);
}

/* A name that is lost during the wait is acquired again: all returned names are held. */
static void B19_a_name_lost_during_the_wait_is_acquired_again(cf *f) {
    trio *t = new_trio(f);
    for (int lost = 0; lost < 2; lost++) {
        cf_lost *lost_calls = cf_new(f, sizeof *lost_calls);
        hf_hold *other = CF_TAKE(f->b, t->name[2], NULL);
        multi_call *c = wait_behind(f, t, 2,
                                    &(hf_options){.wait_ms = HF_FOREVER,
                                                  .lease_ms = CF_KEPT_LEASE_MS,
                                                  .on_lost = cf_on_lost,
                                                  .arg = lost_calls});
        uint64_t token = cf_token(f->b, t->name[lost]);
        CF_IS(HF_OK, hf_break(f->b, t->name[lost], 0));
        CF_UNTIL(cf_stats(f->a).lost == (uint64_t)lost + 1);
        CF_FREE(other);
        hf_hold *hold = check_granted(c);
        check_tokens(f, hold, t->forth);
        assert_true(hf_fence_of(hold, (size_t)lost) > token);
        assert_int_equal(hf_held(hold), 1);
        CF_FREE(hold);
        assert_int_equal(atomic_load(&lost_calls->calls), 0);
        check_all_free(f, t);
    }
}

static void B19_a_name_lost_during_the_wait_is_reported_at_the_timeout(cf *f) {
    trio *t = new_trio(f);
    hf_cancel *cancel = cf_cancel();
    hf_hold *other = CF_TAKE(f->b, t->name[2], NULL);
    const hf_options options = {
        .wait_ms = HF_FOREVER, .lease_ms = CF_KEPT_LEASE_MS, .cancel = cancel};
    multi_call *c = wait_behind(f, t, 2, &options);
    CF_IS(HF_OK, hf_break(f->b, t->name[0], 0));
    CF_UNTIL(cf_stats(f->a).lost == 1);
    hf_cancel_fire(cancel);
    check_ended(c, HF_CANCELLED);
    CF_FREE(other);
    check_all_free(f, t);
    hf_cancel_free(cancel);
}

/* ---- No deadlock ----------------------------------------------------------------------------- */

enum { CALLERS = 4, ROUNDS = 25 };

typedef struct sections {
    cf_section section[NAMES];
    trio *t;
} sections;

typedef struct multi_caller {
    sections *sections;
    hf_client *client;
    int index;
} multi_caller;

static void be_in_all(sections *r) {
    for (int i = 0; i < NAMES; i++)
        if (atomic_fetch_add(&r->section[i].inside, 1))
            atomic_fetch_add(&r->section[i].collisions, 1);
    sched_yield();
    for (int i = 0; i < NAMES; i++) {
        atomic_fetch_add(&r->section[i].visits, 1);
        atomic_fetch_sub(&r->section[i].inside, 1);
    }
}

/* All three, in either order; and some visits take a single name. */
static void visit_all(sections *r, hf_client *client, int index) {
    const hf_options wait = {.wait_ms = t_patience(CF_WATCHDOG_MS)};
    for (int i = 0; i < ROUNDS; i++) {
        hf_hold *hold = NULL;
        const hf_request *order = (index + i) % 2 ? r->t->back : r->t->forth;
        if (hf_acquire_all(client, order, NAMES, &wait, &hold) != HF_OK) {
            atomic_fetch_add(&r->section[0].failures, 1);
            continue;
        }
        be_in_all(r);
        if (hf_release(hold) != HF_OK) atomic_fetch_add(&r->section[0].failures, 1);
        int one = i % NAMES;
        cf_visit(&r->section[one], client, r->t->name[one], 1);
    }
}

static void check_sections(sections *r, int callers) {
    long visits = 0;
    for (int i = 0; i < NAMES; i++) {
        assert_int_equal(atomic_load(&r->section[i].failures), 0);
        assert_int_equal(atomic_load(&r->section[i].collisions), 0);
        visits += atomic_load(&r->section[i].visits);
    }
    assert_int_equal(visits, callers * ROUNDS * (NAMES + 1));
}

static void run_caller(void *arg) {
    multi_caller *c = arg;
    visit_all(c->sections, c->client, c->index);
}

static void check_callers(cf *f, bool one_client) {
    sections *r = cf_new(f, sizeof *r);
    cf_thread *threads[CALLERS];
    r->t = new_trio(f);
    for (int i = 0; i < CALLERS; i++) {
        multi_caller *c = cf_new(f, sizeof *c);
        *c = (multi_caller){r, one_client || i % 2 ? f->a : f->b, i};
        threads[i] = cf_spawn(f, run_caller, c);
    }
    for (int i = 0; i < CALLERS; i++) cf_join(threads[i]);
    check_sections(r, CALLERS);
}

static void B19_opposite_orders_of_one_client_do_not_deadlock(cf *f) {
    check_callers(f, true);
}

static void B19_opposite_orders_of_two_clients_do_not_deadlock(cf *f) {
    check_callers(f, false);
}

typedef struct multi_stage {
    sections sections;
    atomic_int next;
} multi_stage;

static int visit_in_child(void *arg) {
    multi_stage *s = arg;
    hf_client *client = NULL;
    CF_IS(HF_OK, hf_open(cf_url(), NULL, &client));
    visit_all(&s->sections, client, atomic_fetch_add(&s->next, 1));
    hf_close(client);
    return 0;
}

static void B19_opposite_orders_of_processes_do_not_deadlock(cf *f) {
    multi_stage *s = t_shared_new(sizeof *s);
    t_proc *children[CALLERS];
    s->sections.t = new_trio(f);
    for (int i = 0; i < CALLERS; i++) children[i] = t_proc_start(visit_in_child, s);
    for (int i = 0; i < CALLERS; i++)
        assert_int_equal(t_proc_wait(children[i], 2 * CF_WATCHDOG_MS), 0);
    check_sections(&s->sections, CALLERS);
    t_shared_free(s, sizeof *s);
}

/* ---- Death ----------------------------------------------------------------------------------- */

typedef struct doomed {
    trio *t;
    atomic_int go, ready;
} doomed;

static int take_until_killed(void *arg) {
    doomed *d = arg;
    hf_client *client = NULL;
    CF_IS(HF_OK, hf_open(cf_url(), NULL, &client));
    CF_UNTIL(atomic_load(&d->go));
    hf_options options = {.wait_ms = HF_FOREVER, .lease_ms = CF_KEPT_LEASE_MS};
    (void)take_all(client, d->t->back, NAMES, &options);
    atomic_store(&d->ready, 1);
    t_sleep_ms(t_patience(CF_WATCHDOG_MS));
    return 1; /* not reached: the process is killed */
}

static void kill_it(t_proc *child) {
    t_proc_kill(child, SIGKILL);
    assert_int_equal(t_proc_wait(child, CF_WATCHDOG_MS), 128 + SIGKILL);
}

static void B19_names_of_a_killed_process_come_free(cf *f) {
    doomed *d = t_shared_new(sizeof *d);
    d->t = new_trio(f);
    t_proc *child = t_proc_start(take_until_killed, d);
    atomic_store(&d->go, 1);
    CF_UNTIL(atomic_load(&d->ready));
    for (int i = 0; i < NAMES; i++) check_busy(f, d->t->name[i]);
    kill_it(child);
    check_all_free(f, d->t);
    t_shared_free(d, sizeof *d);
}

/* The process holds two of the names, and waits for the third. */
static void B19_a_process_killed_while_it_waits_keeps_none(cf *f) {
    doomed *d = t_shared_new(sizeof *d);
    d->t = new_trio(f);
    t_proc *child = t_proc_start(take_until_killed, d);
    hf_hold *last = CF_TAKE(f->a, d->t->name[NAMES - 1], NULL);
    atomic_store(&d->go, 1);
    CF_UNTIL(cf_queued(f->a, d->t->name[NAMES - 1]) == 1);
    for (int i = 0; i < NAMES; i++) check_busy(f, d->t->name[i]);
    kill_it(child);
    CF_FREE(last);
    check_all_free(f, d->t);
    assert_int_equal(atomic_load(&d->ready), 0);
    t_shared_free(d, sizeof *d);
}

/* ---- The same name twice --------------------------------------------------------------------- */

static void B19_a_name_given_twice_is_taken_once(cf *f) {
    trio *t = new_trio(f);
    hf_hold *hold = take_all(
        f->a, REQUESTS({.name = t->name[1]}, {.name = t->name[0]}, {.name = t->name[1]}), NULL);
    assert_int_equal(cf_count(f->b, t->name[1]), 1);
    assert_int_equal(cf_stats(f->a).held, 2);
    assert_true(hf_fence_of(hold, 0) == cf_token(f->b, t->name[1]));
    assert_true(hf_fence_of(hold, 1) == cf_token(f->b, t->name[0]));
    assert_true(hf_fence_of(hold, 2) == hf_fence_of(hold, 0));
    CF_FREE(hold);
    check_all_free(f, t);
    /* A second acquire would fail because of the flag, so the name is acquired only once. */
    CF_FREE(take_all(f->a,
                     REQUESTS({.name = f->name, .flags = HF_NOT_REENTRANT},
                              {.name = f->name, .flags = HF_NOT_REENTRANT}),
                     NULL));
    static hf_request same[HF_NAMES_MAX];
    for (int i = 0; i < HF_NAMES_MAX; i++) same[i].name = f->name;
    CF_FREE(take_all(f->a, same, HF_NAMES_MAX, NULL));
    CF_FREE(CF_TAKE(f->b, f->name, NULL));
}

static uint32_t kind_of(cf *f, const char *name) {
    hf_info *info = cf_inspect(f->b, name);
    uint32_t kind = info->kind;
    hf_info_free(info);
    return kind;
}

static void check_stronger(cf *f, uint32_t weak, uint32_t strong) {
    for (int i = 0; i < 2; i++) {
        hf_hold *hold = take_all(f->a,
                                 REQUESTS({.name = f->name, .kind = i ? weak : strong},
                                          {.name = f->name, .kind = i ? strong : weak}),
                                 NULL);
        assert_int_equal(cf_holders(f->b, f->name), 1);
        bool reads = cf_can_acquire(f->b, f->name, CF_TRY(HF_READ, 0));
        bool may_upgrade = cf_can_acquire(f->b, f->name, CF_TRY(HF_UPGRADABLE, 0));
        assert_int_equal(reads, strong == HF_UPGRADABLE || strong == HF_READ);
        assert_int_equal(may_upgrade, strong == HF_READ);
        CF_FREE(hold);
    }
}

static void B19_the_stronger_of_two_kinds_of_a_name_is_acquired(cf *f) {
    check_stronger(f, HF_READ, HF_READ);
    check_stronger(f, HF_READ, HF_UPGRADABLE);
    check_stronger(f, HF_READ, HF_WRITE);
    check_stronger(f, HF_READ, HF_MUTEX);
    check_stronger(f, HF_UPGRADABLE, HF_WRITE);
    check_stronger(f, HF_MUTEX, HF_WRITE);
}

static void B19_permits_of_one_name_add_up(cf *f) {
    hf_hold *hold =
        take_all(f->a,
                 REQUESTS({.name = f->name, .kind = HF_PERMITS, .permits = 2, .capacity = 4},
                          {.name = f->name, .kind = HF_PERMITS, .capacity = 4}),
                 NULL);
    assert_int_equal(cf_used(f->b, f->name), 3);
    assert_int_equal(cf_holders(f->b, f->name), 1);
    CF_FREE(hold);
    CF_UNTIL(cf_used(f->b, f->name) == 0);
}

static void B19_requests_that_contradict_each_other_are_refused(cf *f) {
    const char *n = f->name;
    hf_client *a = f->a;
    const hf_request all_of_2[] = {{.name = n, .kind = HF_PERMITS, .permits = 2, .capacity = 2},
                                   {.name = n, .kind = HF_PERMITS, .capacity = 2}};
    refuse_all(HF_INVALID, a, all_of_2, 2, NULL);
    refuse_all(HF_INVALID, a,
               REQUESTS({.name = n, .kind = HF_PERMITS, .capacity = 2},
                        {.name = n, .kind = HF_PERMITS, .capacity = 3}),
               NULL);
    refuse_all(HF_INVALID, a, REQUESTS({.name = n, .kind = HF_PERMITS, .capacity = 2}, {.name = n}),
               NULL);
    refuse_all(
        HF_INVALID, a,
        REQUESTS({.name = n, .kind = HF_READ}, {.name = n, .kind = HF_PERMITS, .capacity = 2}),
        NULL);
    /* An invalid request is refused even beside a request that includes it, or if the sum
       overflows. */
    const hf_request huge = {
        .name = n, .kind = HF_PERMITS, .permits = UINT32_C(1) << 31, .capacity = 2};
    refuse_all(HF_INVALID, a, REQUESTS(huge, huge), NULL);
    refuse_all(HF_INVALID, a, REQUESTS({.name = n}, {.name = n, .kind = HF_READ, .permits = 1}),
               NULL);
    refuse_all(HF_UNSUPPORTED, a, REQUESTS({.name = n}, {.name = n, .kind = 77}), NULL);
    CF_FREE(CF_TAKE(f->b, n, NULL));
}

/* ---- Kinds ----------------------------------------------------------------------------------- */

static void B19_kinds_may_be_mixed(cf *f) {
    trio *t = new_trio(f);
    hf_hold *hold = take_all(
        f->a,
        REQUESTS({.name = t->name[2], .kind = HF_PERMITS, .permits = 2, .capacity = 3},
                 {.name = t->name[1], .kind = HF_READ}, {.name = t->name[0], .kind = HF_WRITE}),
        NULL);
    assert_int_equal(kind_of(f, t->name[0]), HF_WRITE);
    assert_false(cf_can_acquire(f->b, t->name[0], CF_TRY(HF_READ, 0)));
    assert_true(cf_can_acquire(f->b, t->name[1], CF_TRY(HF_READ, 0)));
    assert_false(cf_can_acquire(f->b, t->name[1], CF_TRY(HF_WRITE, 0)));
    assert_int_equal(cf_used(f->b, t->name[2]), 2);
    assert_true(hf_fence_of(hold, 2) == cf_token(f->b, t->name[0]));
    CF_FREE(hold);
    check_all_free(f, t);
}

/* A try: a name that can be shared is not busy. */
static void B19_a_try_shares_what_can_be_shared(cf *f) {
    trio *t = new_trio(f);
    const hf_request wants[] = {{.name = t->name[0]},
                                {.name = t->name[1], .kind = HF_READ},
                                {.name = t->name[2], .kind = HF_PERMITS, .capacity = 2}};
    hf_hold *reads = CF_TAKE(f->b, t->name[1], CF_TRY(HF_READ, 0));
    hf_hold *permit = CF_TAKE(f->b, t->name[2], &(hf_options){.kind = HF_PERMITS, .capacity = 2});
    hf_hold *hold = take_all(f->a, wants, NAMES, NULL);
    assert_int_equal(cf_holders(f->b, t->name[1]), 2);
    assert_int_equal(cf_used(f->b, t->name[2]), 2);
    refuse_all(HF_BUSY, f->b, &wants[1], 2, &(hf_options){.owner = 7}); /* no permit is left */
    CF_FREE(reads);
    CF_FREE(permit);
    assert_int_equal(hf_held(hold), 1);
    CF_FREE(hold);
    check_all_free(f, t);
}

static void B19_a_capacity_in_force_is_reported(cf *f) {
    trio *t = new_trio(f);
    hf_hold *other = CF_TAKE(f->b, t->name[1], &(hf_options){.kind = HF_PERMITS, .capacity = 37});
    refuse_all(
        HF_INVALID, f->a,
        REQUESTS({.name = t->name[0]}, {.name = t->name[1], .kind = HF_PERMITS, .capacity = 41}),
        &(hf_options){.wait_ms = HF_FOREVER});
    assert_non_null(strstr(hf_error_detail(), "37"));
    check_free(f, t, 0);
    CF_FREE(other);
}

static void B19_readers_of_a_client_share_with_one_of_many_names(cf *f) {
    trio *t = new_trio(f);
    hf_hold *alone = CF_TAKE(f->a, t->name[1], CF_TRY(HF_READ, 1));
    hf_hold *hold =
        take_all(f->a, REQUESTS({.name = t->name[0]}, {.name = t->name[1], .kind = HF_READ}),
                 &(hf_options){.owner = 2});
    hf_hold *later = CF_TAKE(f->a, t->name[1], CF_TRY(HF_READ, 3));
    CF_FREE(alone);
    CF_FREE(hold);
    assert_int_equal(hf_held(later), 1);
    check_free(f, t, 0);
    assert_false(cf_can_acquire(f->b, t->name[1], CF_TRY(HF_WRITE, 0)));
    CF_FREE(later);
    check_free(f, t, 1);
}

static void B19_a_waiting_writer_is_not_passed(cf *f) {
    trio *t = new_trio(f);
    hf_hold *reads = CF_TAKE(f->b, t->name[1], CF_TRY(HF_READ, 0));
    cf_attempt *writer = cf_arrive(f, cf_open(f), t->name[1], CF_WAIT(HF_WRITE));
    const hf_request wants[] = {{.name = t->name[0]}, {.name = t->name[1], .kind = HF_READ}};
    refuse_all(HF_BUSY, f->a, wants, 2, NULL);
    multi_call *c = start_call(f, f->a, wants, 2, &(hf_options){.wait_ms = HF_FOREVER});
    CF_UNTIL(cf_queued(f->b, t->name[1]) == 2);
    CF_FREE(reads);
    CF_FREE(cf_granted(writer));
    CF_FREE(check_granted(c));
}

/* ---- Owners ---------------------------------------------------------------------------------- */

static void B19_a_held_name_is_re_entered(cf *f) {
    trio *t = new_trio(f);
    hf_hold *one = CF_TAKE(f->a, t->name[1], NULL);
    hf_hold *all = take_all(f->a, t->forth, NAMES, NULL);
    hf_hold *again = take_all(f->a, t->back, NAMES, NULL);
    assert_true(hf_fence_of(all, 1) == hf_fence(one));
    for (size_t i = 0; i < NAMES; i++)
        assert_true(hf_fence_of(again, i) == hf_fence_of(all, NAMES - 1 - i));
    CF_UNTIL(cf_count(f->b, t->name[1]) == 3);
    CF_FREE(all);
    assert_int_equal(hf_held(again), 1);
    for (int i = 0; i < NAMES; i++) check_busy(f, t->name[i]);
    CF_FREE(again);
    check_free(f, t, 0);
    check_free(f, t, 2);
    assert_int_equal(hf_held(one), 1);
    check_busy(f, t->name[1]);
    CF_FREE(one);
    check_all_free(f, t);
    /* The same in the other order. */
    all = take_all(f->a, t->forth, NAMES, NULL);
    one = CF_TAKE(f->a, t->name[1], NULL);
    CF_FREE(all);
    check_busy(f, t->name[1]);
    CF_FREE(one);
    check_all_free(f, t);
}

static void B19_re_entry_may_be_forbidden(cf *f) {
    trio *t = new_trio(f);
    hf_hold *one = CF_TAKE(f->a, t->name[1], NULL);
    const hf_options wait = {.wait_ms = HF_FOREVER};
    hf_request wants[] = {{.name = t->name[0]},
                          {.name = t->name[1], .flags = HF_NOT_REENTRANT},
                          {.name = t->name[2]}};
    refuse_all(HF_DEADLOCK, f->a, wants, NAMES, &wait);
    refuse_all(HF_DEADLOCK, f->a, t->forth, NAMES,
               &(hf_options){.wait_ms = HF_FOREVER, .flags = HF_NOT_REENTRANT});
    check_free(f, t, 0);
    check_free(f, t, 2);
    CF_FREE(one);
    one = CF_TAKE(f->a, t->name[1], &(hf_options){.flags = HF_NOT_REENTRANT});
    refuse_all(HF_DEADLOCK, f->a, t->forth, NAMES, &wait);
    CF_FREE(one);
    hf_hold *all = take_all(f->a, wants, NAMES, NULL);
    CF_REFUSED(HF_DEADLOCK, f->a, t->name[1], &wait);
    CF_FREE(CF_TAKE(f->a, t->name[0], NULL)); /* the flag applies to that hold only */
    CF_FREE(all);
}

static void B19_a_request_that_could_only_wait_for_itself_is_a_deadlock(cf *f) {
    trio *t = new_trio(f);
    hf_hold *reads = CF_TAKE(f->a, t->name[1], CF_TRY(HF_READ, 0));
    refuse_all(HF_DEADLOCK, f->a,
               REQUESTS({.name = t->name[0]}, {.name = t->name[1], .kind = HF_WRITE},
                        {.name = t->name[2]}),
               &(hf_options){.wait_ms = HF_FOREVER});
    assert_int_equal(hf_held(reads), 1);
    check_free(f, t, 0);
    check_free(f, t, 2);
    CF_FREE(reads);
}

/* ---- Loss ------------------------------------------------------------------------------------ */

typedef struct loss_record {
    atomic_int calls;
    _Atomic(hf_hold *) hold;
} loss_record;

static void on_lost(hf_hold *hold, void *arg) {
    loss_record *t = arg;
    atomic_store(&t->hold, hold);
    atomic_fetch_add(&t->calls, 1);
}

static void check_loss_of(cf *f, const trio *t, int lost) {
    loss_record *known = cf_new(f, sizeof *known);
    hf_hold *hold =
        take_all(f->a, t->back, NAMES,
                 &(hf_options){.lease_ms = t_patience(1000), .on_lost = on_lost, .arg = known});
    int fd = hf_lost_fd(hold);
    assert_true(fd >= 0);
    assert_false(cf_readable(fd));
    CF_IS(HF_OK, hf_break(f->b, t->name[lost], 0));
    CF_UNTIL(cf_readable(fd));
    CF_UNTIL(atomic_load(&known->calls) == 1);
    assert_ptr_equal(atomic_load(&known->hold), hold);
    assert_int_equal(hf_held(hold), 0);
    assert_int_equal(hf_remaining_ms(hold), 0);
    assert_non_null(hf_why_lost(hold));
    assert_int_equal(hf_lost_fd(hold), fd);
    CF_IS(HF_LOST, hf_extend(hold, t_patience(1000)));
    /* the others are renewed: no other client can acquire them yet */
    t_sleep_ms(t_patience(1000) * 3 / 2);
    for (int i = 0; i < NAMES; i++)
        if (i != lost) check_busy(f, t->name[i]);
    CF_FREE(CF_TAKE(f->b, t->name[lost], NULL));
    CF_IS(HF_LOST, hf_release(hf_ref(hold)));
    CF_IS(HF_NOT_HELD, hf_release(hf_ref(hold)));
    for (size_t i = 0; i < NAMES; i++) assert_true(hf_fence_of(hold, i) != 0);
    assert_non_null(hf_why_lost(hold));
    check_all_free(f, t);
    assert_int_equal(atomic_load(&known->calls), 1);
    hf_unref(hold);
}

static void B19_the_loss_of_any_is_the_loss_of_all(cf *f) {
    trio *t = new_trio(f);
    for (int lost = 0; lost < NAMES; lost++) check_loss_of(f, t, lost);
}

/* Break a name. If the machine pauses for longer than the lease, the name is lost already, and the
   break finds no holder. */
static void lose_name(cf *f, const char *name) {
    hf_result result = hf_break(f->b, name, 0);
    if (result != HF_NOT_HELD) CF_IS(HF_OK, result);
}

static void B19_the_loss_of_several_is_reported_once(cf *f) {
    trio *t = new_trio(f);
    loss_record *known = cf_new(f, sizeof *known);
    hf_hold *hold =
        take_all(f->a, t->forth, NAMES,
                 &(hf_options){.lease_ms = CF_KEPT_LEASE_MS, .on_lost = on_lost, .arg = known});
    for (int i = 0; i < NAMES; i++) lose_name(f, t->name[i]);
    CF_UNTIL(cf_stats(f->a).lost == NAMES);
    CF_UNTIL(atomic_load(&known->calls) == 1);
    CF_IS(HF_LOST, hf_release(hold));
    assert_int_equal(atomic_load(&known->calls), 1);
}

/* Two holds have a handle on the lost name. Each of the two is notified. */
static void B19_each_handle_of_a_shared_name_is_notified(cf *f) {
    trio *t = new_trio(f);
    loss_record *of_all = cf_new(f, sizeof *of_all), *of_one = cf_new(f, sizeof *of_one);
    hf_hold *all =
        take_all(f->a, t->forth, NAMES,
                 &(hf_options){.lease_ms = CF_KEPT_LEASE_MS, .on_lost = on_lost, .arg = of_all});
    hf_hold *one =
        CF_TAKE(f->a, t->name[2],
                &(hf_options){.lease_ms = CF_KEPT_LEASE_MS, .on_lost = on_lost, .arg = of_one});
    CF_IS(HF_OK, hf_break(f->b, t->name[2], 0));
    CF_UNTIL(atomic_load(&of_all->calls) == 1 && atomic_load(&of_one->calls) == 1);
    assert_ptr_equal(atomic_load(&of_all->hold), all);
    assert_ptr_equal(atomic_load(&of_one->hold), one);
    CF_IS(HF_LOST, hf_release(one));
    CF_IS(HF_LOST, hf_release(all));
}

static void release_it(hf_hold *hold, void *arg) {
    atomic_store((atomic_int *)arg, hf_release(hf_ref(hold)) == HF_LOST ? 1 : -1);
}

static void B19_on_lost_may_release_all(cf *f) {
    trio *t = new_trio(f);
    atomic_int *released = cf_new(f, sizeof *released);
    hf_hold *hold = take_all(
        f->a, t->forth, NAMES,
        &(hf_options){.lease_ms = CF_KEPT_LEASE_MS, .on_lost = release_it, .arg = released});
    CF_IS(HF_OK, hf_break(f->b, t->name[1], 0));
    CF_UNTIL(atomic_load(released) == 1);
    check_all_free(f, t);
    CF_IS(HF_NOT_HELD, hf_release(hold));
}

/* ---- Times ----------------------------------------------------------------------------------- */

static void B19_the_remaining_time_is_the_shortest_of_all(cf *f) {
    trio *t = new_trio(f);
    int64_t shorter = t_patience(5000), longer = t_patience(60000);
    hf_hold *one =
        CF_TAKE(f->a, t->name[1], &(hf_options){.lease_ms = shorter, .flags = HF_NO_RENEW});
    hf_hold *all = take_all(f->a, t->forth, NAMES, &(hf_options){.lease_ms = longer});
    assert_in_range(hf_remaining_ms(all), 1, shorter);
    CF_IS(HF_OK, hf_extend(all, longer));
    assert_in_range(hf_remaining_ms(all), shorter + 1, longer);
    CF_FREE(one);
    CF_FREE(all);
    CF_IS(HF_INVALID, hf_extend(NULL, longer));
}

static void B19_extending_extends_all(cf *f) {
    trio *t = new_trio(f);
    int64_t lease = t_patience(5000), longer = t_patience(60000);
    hf_hold *all = take_all(f->a, t->forth, NAMES, &(hf_options){.lease_ms = lease});
    CF_IS(HF_OK, hf_extend(all, longer));
    assert_in_range(hf_remaining_ms(all), lease + 1, longer);
    for (int i = 0; i < NAMES && !cf_has(CF_OWN_CLOCK); i++) {
        hf_info *info = cf_inspect(f->b, t->name[i]);
        assert_in_range(info->remaining_ms, lease + 1, longer);
        hf_info_free(info);
    }
    hf_hold *mine = hf_ref(all);
    CF_FREE(all);
    CF_IS(HF_NOT_HELD, hf_extend(mine, longer));
    assert_int_equal(hf_held(mine), 0);
    hf_unref(mine);
}

/* Some names were held longer than that before all were: this time does not count. */
static void B19_max_hold_counts_from_when_all_are_held(cf *f) {
    trio *t = new_trio(f);
    int64_t most = t_patience(600);
    hf_hold *other = CF_TAKE(f->b, t->name[2], NULL);
    multi_call *c = wait_behind(f, t, 2, &(hf_options){.wait_ms = HF_FOREVER, .max_hold_ms = most});
    t_sleep_ms(most * 3 / 2);
    CF_FREE(other);
    hf_hold *hold = check_granted(c);
    assert_in_range(hf_remaining_ms(hold), 1, most);
    CF_UNTIL(hf_why_lost(hold));
    assert_int_equal(hf_held(hold), 0);
    assert_non_null(strstr(hf_why_lost(hold), "max_hold"));
    CF_IS(HF_LOST, hf_release(hold));
    check_all_free(f, t);
}

static void B19_max_hold_bounds_names_acquired_in_one_step(cf *f) {
    trio *t = new_trio(f);
    int64_t most = t_patience(300);
    hf_hold *hold = take_all(f->a, t->forth, NAMES, &(hf_options){.max_hold_ms = most});
    assert_in_range(hf_remaining_ms(hold), 1, most);
    CF_UNTIL(!hf_held(hold));
    CF_IS(HF_LOST, hf_extend(hold, t_patience(1000)));
    CF_IS(HF_LOST, hf_release(hold));
    check_all_free(f, t);
}

static void B19_without_renewal_all_end_a_lease_after_all_are_held(cf *f) {
    trio *t = new_trio(f);
    int64_t lease = t_patience(600);
    hf_hold *other = CF_TAKE(f->b, t->name[2], NULL);
    multi_call *c = wait_behind(
        f, t, 2, &(hf_options){.wait_ms = HF_FOREVER, .lease_ms = lease, .flags = HF_NO_RENEW});
    t_sleep_ms(lease * 5 / 2);
    CF_FREE(other);
    hf_hold *hold = check_granted(c);
    assert_in_range(hf_remaining_ms(hold), 1, lease);
    CF_UNTIL(!hf_held(hold));
    CF_IS(HF_LOST, hf_release(hold));
    hold = take_all(f->a, t->forth, NAMES, &(hf_options){.lease_ms = lease, .flags = HF_NO_RENEW});
    CF_UNTIL(!hf_held(hold));
    CF_IS(HF_LOST, hf_release(hold));
    check_all_free(f, t);
}

/* ---- Handles --------------------------------------------------------------------------------- */

static void B19_the_last_reference_releases_all(cf *f) {
    trio *t = new_trio(f);
    hf_hold *hold = take_all(f->a, t->forth, NAMES, NULL), *mine = hf_ref(hold);
    assert_ptr_equal(hold, mine);
    hf_unref(hold);
    assert_int_equal(hf_held(mine), 1);
    for (int i = 0; i < NAMES; i++) check_busy(f, t->name[i]);
    hf_unref(mine);
    check_all_free(f, t);
}

static void release_elsewhere(void *arg) {
    (void)!hf_release(arg);
}

static void B19_any_thread_may_release_all(cf *f) {
    trio *t = new_trio(f);
    hf_hold *hold = take_all(f->a, t->forth, NAMES, NULL), *mine = hf_ref(hold);
    cf_join(cf_spawn(f, release_elsewhere, hold));
    assert_int_equal(hf_held(mine), 0);
    check_all_free(f, t);
    CF_IS(HF_NOT_HELD, hf_release(mine));
}

typedef struct release_outcome {
    atomic_int calls;
    atomic_int result;
} release_outcome;

static void on_released(hf_result result, void *arg) {
    release_outcome *o = arg;
    atomic_store(&o->result, result);
    atomic_fetch_add(&o->calls, 1);
}

static void B19_all_can_be_released_without_blocking(cf *f) {
    trio *t = new_trio(f);
    release_outcome *o = cf_new(f, sizeof *o);
    for (int i = 0; i < 2; i++) {
        hf_hold *hold =
            take_all(f->a, t->forth, NAMES, &(hf_options){.lease_ms = CF_KEPT_LEASE_MS});
        if (i) CF_IS(HF_OK, hf_break(f->b, t->name[1], 0));
        if (i) CF_UNTIL(!hf_held(hold));
        CF_IS(HF_OK, hf_release_async(hold, on_released, o));
        CF_UNTIL(atomic_load(&o->calls) == i + 1);
        assert_int_equal(atomic_load(&o->result), i ? HF_LOST : HF_OK);
        check_all_free(f, t);
    }
}

static void B19_upgrading_all_is_not_supported(cf *f) {
    hf_hold *hold = take_all(f->a, REQUESTS({.name = f->name, .kind = HF_UPGRADABLE}), NULL);
    CF_IS(HF_UNSUPPORTED, hf_upgrade(hold, 0));
    CF_IS(HF_UNSUPPORTED, hf_downgrade(hold));
    CF_FREE(hold);
}

/* ---- Forks ----------------------------------------------------------------------------------- */

static int own_nothing(void *arg) {
    hf_hold *hold = arg;
    assert_int_equal(hf_held(hold), 0);
    assert_int_equal(hf_remaining_ms(hold), 0);
    assert_int_equal(hf_lost_fd(hold), -1);
    CF_IS(HF_FORKED, hf_extend(hold, 1000));
    CF_IS(HF_FORKED, hf_release(hold));
    return 0;
}

static void F42_a_forked_child_owns_none_of_many_names(cf *f) {
    trio *t = new_trio(f);
    hf_hold *hold = take_all(f->a, t->forth, NAMES, NULL);
    assert_true(hf_lost_fd(hold) >= 0);
    t_proc *child = t_proc_start(own_nothing, hold);
    assert_int_equal(t_proc_wait(child, CF_WATCHDOG_MS), 0);
    assert_int_equal(hf_held(hold), 1);
    for (int i = 0; i < NAMES; i++) check_busy(f, t->name[i]);
    CF_FREE(hold);
    check_all_free(f, t);
}

/* ---- The user's own loop --------------------------------------------------------------------- */

static void run_loop_once(hf_client *client) {
    struct pollfd fd = {.fd = hf_fd(client), .events = POLLIN};
    if (poll(&fd, 1, 10) > 0) CF_IS(HF_OK, hf_dispatch(client));
}

static void free_later(void *arg) {
    cf_attempt *a = arg;
    t_sleep_ms(CF_PAST_LEASE_MS); /* the waiter renews its names meanwhile */
    a->result = hf_release(a->hold);
}

/* A break may have to wait until the holder has released the lock. */
static void break_it(void *arg) {
    cf_attempt *a = arg;
    a->result = hf_break(a->client, a->name, 0);
}

static void check_reported_by_dispatch(cf *f, hf_client *client, const char *name,
                                       loss_record *known) {
    cf_attempt *a = cf_new(f, sizeof *a);
    *a = (cf_attempt){.client = f->b, .name = name};
    cf_thread *thread = cf_spawn(f, break_it, a);
    int64_t until = t_now_ms() + t_patience(CF_WATCHDOG_MS);
    while (!atomic_load(&known->calls) && t_now_ms() < until) run_loop_once(client);
    assert_int_equal(atomic_load(&known->calls), 1);
    cf_join(thread);
    CF_IS(HF_OK, a->result);
}

static void B19_a_client_without_threads_takes_many(cf *f) {
    trio *t = new_trio(f);
    loss_record *known = cf_new(f, sizeof *known);
    hf_client *client = cf_open_url(f, cf_url(), &(hf_client_options){.flags = HF_NO_THREAD});
    const hf_options options = {.wait_ms = t_patience(CF_WATCHDOG_MS),
                                .lease_ms = CF_KEPT_LEASE_MS,
                                .on_lost = on_lost,
                                .arg = known};
    CF_FREE(take_all(client, t->forth, NAMES, &options));
    cf_attempt *other = cf_new(f, sizeof *other);
    other->hold = CF_TAKE(f->b, t->name[1], NULL);
    cf_thread *thread = cf_spawn(f, free_later, other);
    hf_hold *hold = take_all(client, t->forth, NAMES, &options);
    cf_join(thread);
    CF_IS(HF_OK, other->result);
    assert_int_equal(hf_held(hold), 1);
    check_reported_by_dispatch(f, client, t->name[0], known);
    assert_ptr_equal(atomic_load(&known->hold), hold);
    release_outcome *o = cf_new(f, sizeof *o);
    CF_IS(HF_OK, hf_release_async(hold, on_released, o));
    CF_UNTIL((run_loop_once(client), atomic_load(&o->calls)));
    assert_int_equal(atomic_load(&o->result), HF_LOST);
    check_all_free(f, t);
}

/* ---- Misuse ---------------------------------------------------------------------------------- */

static void B19_wrong_requests_are_refused(cf *f) {
    static char too_long[HF_NAME_MAX + 2];
    const char *n = f->name;
    memset(too_long, 'n', HF_NAME_MAX + 1);
    refuse_all(HF_INVALID, f->a, NULL, 1, NULL);
    refuse_all(HF_INVALID, f->a, REQUESTS({.name = n}, {.name = NULL}), NULL);
    refuse_all(HF_INVALID, f->a, REQUESTS({.name = n}, {.name = ""}), NULL);
    refuse_all(HF_INVALID, f->a, REQUESTS({.name = n}, {.name = too_long}), NULL);
    refuse_all(HF_INVALID, NULL, REQUESTS({.name = n}), NULL);
    refuse_all(HF_INVALID, f->a, REQUESTS({.name = n}), &(hf_options){.wait_ms = -2});
    refuse_all(HF_INVALID, f->a, REQUESTS({.name = n}), &(hf_options){.lease_ms = 1});
    refuse_all(HF_INVALID, f->a, REQUESTS({.name = n}), &(hf_options){.max_hold_ms = 1});
    refuse_all(HF_INVALID, f->a, REQUESTS({.name = n}), &(hf_options){.kind = HF_READ});
    refuse_all(HF_INVALID, f->a, REQUESTS({.name = n}), &(hf_options){.permits = 1});
    refuse_all(HF_INVALID, f->a, REQUESTS({.name = n}), &(hf_options){.capacity = 1});
    refuse_all(HF_INVALID, f->a, REQUESTS({.name = n, .permits = 1}), NULL);
    refuse_all(HF_UNSUPPORTED, f->a, REQUESTS({.name = n}), &(hf_options){.flags = 1u << 30});
    refuse_all(HF_UNSUPPORTED, f->a, REQUESTS({.name = n, .flags = HF_NO_RENEW}), NULL);
    refuse_all(HF_UNSUPPORTED, f->a, REQUESTS({.name = n, .flags = 1u << 30}), NULL);
    refuse_all(HF_UNSUPPORTED, f->a, REQUESTS({.name = n, .kind = 77}), NULL);
    hf_result r = hf_acquire_all(f->a, REQUESTS({.name = n}), NULL, NULL);
    CF_IS(HF_INVALID, r);
    if (!cf_has(CF_KINDS))
        refuse_all(HF_UNSUPPORTED, f->a, REQUESTS({.name = n}, {.name = n, .kind = HF_READ}), NULL);
    CF_FREE(CF_TAKE(f->b, n, NULL));
}

/* A caller compiled with another version of the header. */
static void B19_requests_of_other_versions_are_understood(cf *f) {
    trio *t = new_trio(f);
    struct later {
        hf_request known;
        uint64_t more;
    } later[] = {{{.name = t->name[0]}, 0}, {{.name = t->name[1]}, 0}};
    const char *const earlier[] = {t->name[0], t->name[1]};
    hf_hold *hold = NULL;
    CF_IS(HF_OK, hf_acquire_all_v(f->a, &later[0].known, 2, sizeof later[0], NULL, 0, &hold));
    assert_true(hf_fence_of(hold, 1) == cf_token(f->b, t->name[1]));
    CF_FREE(hold);
    later[1].more = 1;
    CF_IS(HF_UNSUPPORTED,
          hf_acquire_all_v(f->a, &later[0].known, 2, sizeof later[0], NULL, 0, &hold));
    assert_null(hold);
    CF_IS(HF_OK, hf_acquire_all_v(f->a, (const hf_request *)(const void *)earlier, 2,
                                  sizeof earlier[0], NULL, 0, &hold));
    assert_true(hf_fence_of(hold, 1) == cf_token(f->b, t->name[1]));
    CF_FREE(hold);
    check_all_free(f, t);
}

/* Cases that need a queue wait until the store has queued somebody. A quorum has no queue, because
   its nodes cannot agree on an order of arrival. */
const cf_case cf_multi_acquire[] = {
    CF_CASE(B19_all_are_held_by_one_hold_each_under_its_token),
    CF_CASE(B19_one_name_works_like_many),
    CF_CASE(B19_the_maximum_number_of_names),
    CF_CASE(B19_the_longest_names_can_be_taken_together),
    CF_CASE(B19_nothing_is_kept_when_one_is_busy),
    CF_CASE(B19_nothing_is_kept_when_time_is_up),
    CF_CASE_NEEDS(B19_nothing_is_kept_when_it_is_cancelled, CF_QUEUE),
    CF_CASE_NEEDS(B19_nothing_is_kept_when_the_client_is_closed, CF_QUEUE),
    CF_CASE(B19_closing_releases_all_of_a_hold),
    CF_CASE_NEEDS(B19_the_call_waits_for_all_names, CF_QUEUE),
    CF_CASE_NEEDS(B19_one_time_budget_covers_all_names, CF_QUEUE),
    CF_CASE_NEEDS(B19_held_names_are_renewed_while_others_are_waited_for, CF_QUEUE),
    CF_CASE_NEEDS(B19_a_name_lost_during_the_wait_is_acquired_again, CF_QUEUE),
    CF_CASE_NEEDS(B19_a_name_lost_during_the_wait_is_reported_at_the_timeout, CF_QUEUE),
    CF_CASE(B19_opposite_orders_of_one_client_do_not_deadlock),
    CF_CASE(B19_opposite_orders_of_two_clients_do_not_deadlock),
    CF_CASE_NEEDS(B19_opposite_orders_of_processes_do_not_deadlock, CF_PROCESSES),
    CF_CASE_NEEDS(B19_names_of_a_killed_process_come_free, CF_PROCESSES),
    CF_CASE_NEEDS(B19_a_process_killed_while_it_waits_keeps_none, CF_PROCESSES | CF_QUEUE),
    CF_CASE(B19_a_name_given_twice_is_taken_once),
    CF_CASE_NEEDS(B19_the_stronger_of_two_kinds_of_a_name_is_acquired, CF_KINDS),
    CF_CASE_NEEDS(B19_permits_of_one_name_add_up, CF_KINDS),
    CF_CASE_NEEDS(B19_requests_that_contradict_each_other_are_refused, CF_KINDS),
    CF_CASE_NEEDS(B19_kinds_may_be_mixed, CF_KINDS),
    CF_CASE_NEEDS(B19_a_try_shares_what_can_be_shared, CF_KINDS),
    CF_CASE_NEEDS(B19_a_capacity_in_force_is_reported, CF_KINDS),
    CF_CASE_NEEDS(B19_readers_of_a_client_share_with_one_of_many_names, CF_KINDS),
    CF_CASE_NEEDS(B19_a_waiting_writer_is_not_passed, CF_KINDS),
    CF_CASE(B19_a_held_name_is_re_entered),
    CF_CASE(B19_re_entry_may_be_forbidden),
    CF_CASE_NEEDS(B19_a_request_that_could_only_wait_for_itself_is_a_deadlock, CF_KINDS),
    CF_CASE(B19_the_loss_of_any_is_the_loss_of_all),
    CF_CASE(B19_the_loss_of_several_is_reported_once),
    CF_CASE(B19_each_handle_of_a_shared_name_is_notified),
    CF_CASE(B19_on_lost_may_release_all),
    CF_CASE(B19_the_remaining_time_is_the_shortest_of_all),
    CF_CASE(B19_extending_extends_all),
    CF_CASE_NEEDS(B19_max_hold_counts_from_when_all_are_held, CF_QUEUE),
    CF_CASE(B19_max_hold_bounds_names_acquired_in_one_step),
    CF_CASE_NEEDS(B19_without_renewal_all_end_a_lease_after_all_are_held, CF_QUEUE),
    CF_CASE(B19_the_last_reference_releases_all),
    CF_CASE(B19_any_thread_may_release_all),
    CF_CASE(B19_all_can_be_released_without_blocking),
    CF_CASE_NEEDS(B19_upgrading_all_is_not_supported, CF_KINDS),
    CF_CASE(F42_a_forked_child_owns_none_of_many_names),
    CF_CASE(B19_a_client_without_threads_takes_many),
    CF_CASE(B19_wrong_requests_are_refused),
    CF_CASE(B19_requests_of_other_versions_are_understood),
    CF_CASES_END,
};
