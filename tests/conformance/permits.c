/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Permits (B18): the permits in use never exceed the capacity, and can reach it. A waiter for many
 * permits is not passed by waiters for few.
 */
#include "conformance.h"

#include <sched.h>

#include "t_proc.h"

/* `n` of `of`, tried once for a logical owner (0: this thread), or waited for. */
#define PERMITS(n, of, ...) \
    (&(hf_options){.kind = HF_PERMITS, .permits = (n), .capacity = (of), __VA_ARGS__})
#define TRY(n, of, owner_) PERMITS(n, of, .owner = (owner_))
#define WAIT(n, of)        PERMITS(n, of, .wait_ms = HF_FOREVER)

static void check_used(cf *f, uint32_t used, uint32_t capacity, uint32_t holders) {
    hf_info *info = cf_inspect(f->b, f->name);
    assert_int_equal(info->held, holders > 0);
    assert_int_equal(info->kind, holders ? HF_PERMITS : 0);
    assert_int_equal(info->used, used);
    assert_int_equal(info->capacity, holders ? capacity : 0);
    assert_int_equal(info->holders, holders);
    hf_info_free(info);
}

/* ---- Capacity -------------------------------------------------------------------------------- */

static void B18_capacity_is_reached_and_not_exceeded(cf *f) {
    enum { CAPACITY = 6 };
    hf_hold *holds[CAPACITY];
    for (uint32_t i = 0; i < CAPACITY; i++) {
        check_used(f, i, CAPACITY, i);
        holds[i] = CF_TAKE(i % 2 ? f->a : f->b, f->name, TRY(1, CAPACITY, i + 1));
        for (uint32_t k = 0; k < i; k++) assert_true(hf_fence(holds[i]) != hf_fence(holds[k]));
    }
    check_used(f, CAPACITY, CAPACITY, CAPACITY);
    for (uint32_t i = 0; i < CAPACITY; i++) {
        CF_REFUSED(HF_BUSY, f->a, f->name, TRY(1, CAPACITY, 50));
        CF_REFUSED(HF_BUSY, f->b, f->name, TRY(0, CAPACITY, 50)); /* 0 means one */
        CF_FREE(holds[i]);
        CF_REFUSED(HF_BUSY, f->b, f->name, TRY(2, CAPACITY, 50)); /* one is free */
        holds[i] = CF_TAKE(f->b, f->name, TRY(0, CAPACITY, 60 + i));
    }
    for (uint32_t i = 0; i < CAPACITY; i++) CF_FREE(holds[i]);
    check_used(f, 0, 0, 0);
}

static void B18_any_number_of_permits_can_be_acquired(cf *f) {
    hf_hold *five = CF_TAKE(f->a, f->name, TRY(5, 10, 1));
    hf_hold *three = CF_TAKE(f->b, f->name, TRY(3, 10, 1));
    check_used(f, 8, 10, 2);
    CF_REFUSED(HF_BUSY, f->a, f->name, TRY(3, 10, 2));
    hf_hold *two = CF_TAKE(f->a, f->name, TRY(2, 10, 2));
    CF_REFUSED(HF_BUSY, f->b, f->name, TRY(1, 10, 2));
    CF_FREE(five);
    CF_REFUSED(HF_BUSY, f->b, f->name, TRY(6, 10, 2));
    five = CF_TAKE(f->b, f->name, TRY(5, 10, 2));
    check_used(f, 10, 10, 3);
    CF_FREE(two);
    CF_FREE(three);
    CF_FREE(five);
    CF_FREE(CF_TAKE(f->a, f->name, TRY(10, 10, 0)));
}

static void B18_the_limits_themselves_are_allowed(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, TRY(HF_PERMITS_MAX - 1, HF_PERMITS_MAX, 0));
    hf_hold *last = CF_TAKE(f->b, f->name, TRY(1, HF_PERMITS_MAX, 0));
    check_used(f, HF_PERMITS_MAX, HF_PERMITS_MAX, 2);
    CF_REFUSED(HF_BUSY, f->b, f->name, TRY(1, HF_PERMITS_MAX, 1));
    CF_FREE(hold);
    CF_FREE(last);
    CF_FREE(CF_TAKE(f->a, f->name, TRY(HF_PERMITS_MAX, HF_PERMITS_MAX, 0)));
    CF_FREE(CF_TAKE(f->a, f->name, TRY(0, 1, 0)));
}

static void B18_invalid_numbers_are_refused(cf *f) {
    static const hf_options bad[] = {
        {.kind = HF_PERMITS},
        {.kind = HF_PERMITS, .permits = 1},
        {.kind = HF_PERMITS, .permits = 4, .capacity = 3},
        {.kind = HF_PERMITS, .permits = UINT32_MAX, .capacity = 3},
        {.kind = HF_PERMITS, .permits = 1, .capacity = HF_PERMITS_MAX + 1},
        {.kind = HF_PERMITS, .permits = UINT32_MAX, .capacity = UINT32_MAX},
        {.kind = HF_PERMITS, .permits = 4, .capacity = 3, .wait_ms = HF_FOREVER},
        {.kind = HF_READ, .permits = 1},
        {.kind = HF_READ, .capacity = 1},
        {.kind = HF_WRITE, .permits = 1, .capacity = 1},
        {.kind = HF_UPGRADABLE, .capacity = 1},
        {.kind = HF_MUTEX, .permits = 1, .capacity = 1},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CF_REFUSED(HF_INVALID, f->a, f->name, &bad[i]);
    CF_FREE(CF_TAKE(f->b, f->name, NULL));
}

/* ---- Capacities that disagree ---------------------------------------------------------------- */

/* Refused at once, and the detail has both capacities. */
static void check_disagrees(hf_client *client, const char *name, const hf_options *options) {
    int64_t started = t_now_ms();
    CF_REFUSED(HF_INVALID, client, name, options);
    CF_AT_ONCE(started);
    assert_non_null(strstr(hf_error_detail(), "37"));
    assert_non_null(strstr(hf_error_detail(), "41"));
}

static void B18_a_different_capacity_is_refused(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, TRY(1, 37, 0));
    check_disagrees(f->a, f->name, TRY(1, 41, 1));
    check_disagrees(f->b, f->name, TRY(1, 41, 0));
    check_disagrees(f->b, f->name, WAIT(41, 41));
    assert_int_equal(hf_held(hold), 1);
    check_used(f, 1, 37, 1);
    assert_int_equal(cf_queued(f->b, f->name), 0);
    CF_FREE(CF_TAKE(f->b, f->name, TRY(1, 37, 0)));
    CF_FREE(hold);
    hold = CF_TAKE(f->b, f->name, TRY(1, 41, 0)); /* no holders: the capacity is set again */
    check_used(f, 1, 41, 1);
    check_disagrees(f->a, f->name, TRY(1, 37, 0));
    CF_FREE(hold);
}

/* Also when all permits are in use and it would wait, and when it does wait. */
static void B18_a_different_capacity_is_refused_to_a_waiter(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, TRY(37, 37, 0));
    cf_attempt *waits = cf_arrive(f, f->b, f->name, WAIT(1, 37));
    check_disagrees(cf_open(f), f->name, WAIT(1, 41));
    check_disagrees(f->a, f->name, PERMITS(1, 41, .owner = 1, .wait_ms = HF_FOREVER));
    check_disagrees(f->b, f->name, WAIT(1, 41)); /* also behind a hold of its own client */
    CF_FREE(hold);
    CF_FREE(cf_granted(waits));

    hold = CF_TAKE(f->a, f->name, CF_TRY(HF_WRITE, 0)); /* no capacity is in force */
    cf_attempt *first = cf_arrive(f, f->b, f->name, WAIT(1, 37));
    cf_attempt *second = cf_arrive(f, cf_open(f), f->name, WAIT(1, 41));
    cf_attempt *third = cf_arrive(f, cf_open(f), f->name, WAIT(1, 37));
    CF_FREE(hold);
    hf_hold *one = cf_granted(first), *three = cf_granted(third);
    CF_ENDED(HF_INVALID, second);
    assert_non_null(strstr(second->detail, "37"));
    assert_non_null(strstr(second->detail, "41"));
    CF_FREE(one);
    CF_FREE(three);
}

/* ---- With other kinds ------------------------------------------------------------------------ */

static void B18_permits_keep_all_other_kinds_out(cf *f) {
    static const uint32_t kinds[] = {HF_MUTEX, HF_READ, HF_WRITE, HF_UPGRADABLE};
    hf_hold *hold = CF_TAKE(f->a, f->name, TRY(1, 3, 0));
    for (size_t i = 0; i < 4; i++) {
        CF_REFUSED(HF_BUSY, f->a, f->name, CF_TRY(kinds[i], 1));
        CF_REFUSED(HF_BUSY, f->b, f->name, CF_TRY(kinds[i], 0));
    }
    CF_FREE(hold);
    for (size_t i = 0; i < 4; i++) {
        hold = CF_TAKE(f->a, f->name, CF_TRY(kinds[i], 0));
        CF_REFUSED(HF_BUSY, f->a, f->name, TRY(1, 3, 1));
        CF_REFUSED(HF_BUSY, f->b, f->name, TRY(1, 3, 0));
        CF_FREE(hold);
    }
}

/* In order of arrival, whatever they wait for. */
static void B18_kinds_wait_for_each_other_in_order_of_arrival(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, TRY(1, 3, 0));
    hf_client *clients[6];
    for (int i = 0; i < 6; i++) clients[i] = cf_open(f);
    cf_attempt *reader = cf_arrive(f, clients[0], f->name, CF_WAIT(HF_READ));
    cf_attempt *two = cf_arrive(f, clients[1], f->name, WAIT(2, 3));
    cf_attempt *one = cf_arrive(f, clients[2], f->name, WAIT(1, 3));
    cf_attempt *writer = cf_arrive(f, clients[3], f->name, CF_WAIT(HF_WRITE));
    cf_attempt *last = cf_arrive(f, clients[4], f->name, WAIT(1, 3));
    CF_REFUSED(HF_BUSY, clients[5], f->name,
               TRY(1, 3, 0)); /* two are free, but other waiters were first */
    CF_FREE(hold);
    hold = cf_granted(reader);
    CF_STILL_WAITS(two);
    CF_FREE(hold);
    hold = cf_granted(two);
    hf_hold *beside = cf_granted(one);
    CF_STILL_WAITS(writer);
    check_used(f, 3, 3, 2);
    CF_FREE(hold);
    CF_STILL_WAITS(last);
    CF_FREE(beside);
    hold = cf_granted(writer);
    CF_STILL_WAITS(last);
    CF_FREE(hold);
    CF_FREE(cf_granted(last));
}

/* ---- One release admits one waiter ----------------------------------------------------------- */

/* All permits are in use, and some wait: all of one client, or each of its own. */
static void check_one_by_one(cf *f, bool own_clients) {
    enum { CAPACITY = 3, WAITERS = 5 };
    hf_hold *holds[CAPACITY];
    cf_attempt *waiters[WAITERS];
    for (uint64_t i = 0; i < CAPACITY; i++)
        holds[i] = CF_TAKE(f->a, f->name, TRY(1, CAPACITY, i + 1));
    for (int i = 0; i < WAITERS; i++) {
        if (own_clients || !i)
            waiters[i] = cf_arrive(f, own_clients ? cf_open(f) : f->b, f->name, WAIT(1, CAPACITY));
        else
            waiters[i] = cf_queue(f, f->b, f->name, WAIT(1, CAPACITY));
    }
    for (uint32_t i = 0; i < WAITERS; i++) {
        CF_FREE(holds[i % CAPACITY]);
        holds[i % CAPACITY] = cf_granted(waiters[i]);
        for (int k = (int)i + 1; own_clients && k < WAITERS; k++) CF_STILL_WAITS(waiters[k]);
        if (!own_clients) assert_int_equal(cf_stats(f->b).waiting, WAITERS - i - 1);
        check_used(f, CAPACITY, CAPACITY, CAPACITY);
    }
    for (int i = 0; i < CAPACITY; i++) CF_FREE(holds[i]);
}

static void B18_one_release_admits_one_in_order_of_arrival(cf *f) {
    check_one_by_one(f, true);
}

static void B18_one_release_admits_one_thread_in_order_of_arrival(cf *f) {
    check_one_by_one(f, false);
}

static void B18_one_release_admits_all_that_fit(cf *f) {
    hf_client *const third = cf_open(f), *const fourth = cf_open(f);
    hf_hold *hold = CF_TAKE(f->a, f->name, TRY(4, 4, 0));
    cf_attempt *one = cf_arrive(f, f->b, f->name, WAIT(1, 4));
    cf_attempt *two = cf_arrive(f, third, f->name, WAIT(2, 4));
    cf_attempt *other = cf_arrive(f, fourth, f->name, WAIT(1, 4));
    cf_attempt *local = cf_queue(f, f->a, f->name, WAIT(1, 4));
    CF_FREE(hold);
    hf_hold *holds[] = {cf_granted(one), cf_granted(two), cf_granted(other)};
    check_used(f, 4, 4, 3);
    CF_STILL_WAITS(local);
    CF_FREE(holds[1]);
    hold = cf_granted(local);
    check_used(f, 3, 4, 3);
    CF_FREE(holds[0]);
    CF_FREE(holds[2]);
    CF_FREE(hold);
}

static void B18_threads_of_a_client_that_fit_enter_together(cf *f) {
    enum { THREADS = 5 };
    cf_attempt *waiters[THREADS];
    hf_hold *hold = CF_TAKE(f->a, f->name, TRY(THREADS, THREADS, 0));
    waiters[0] = cf_arrive(f, f->b, f->name, WAIT(1, THREADS));
    for (int i = 1; i < THREADS; i++) waiters[i] = cf_queue(f, f->b, f->name, WAIT(1, THREADS));
    CF_FREE(hold);
    for (int i = 0; i < THREADS; i++) (void)cf_granted(waiters[i]);
    check_used(f, THREADS, THREADS, THREADS);
    for (int i = 0; i < THREADS; i++) CF_FREE(waiters[i]->hold);
}

/* ---- Waiters for many permits ---------------------------------------------------------------- */

/* A waiter for many permits waits although some are free. Later waiters come after it, however few
   permits they want. */
static void check_not_passed(cf *f, hf_client *large, hf_client *small) {
    hf_hold *hold = CF_TAKE(f->a, f->name, TRY(1, 4, 0));
    cf_attempt *all = cf_arrive(f, large, f->name, WAIT(4, 4));
    CF_REFUSED(HF_BUSY, small, f->name, TRY(1, 4, 5));
    CF_REFUSED(HF_TIMEOUT, small, f->name, PERMITS(1, 4, .owner = 5, .wait_ms = 300));
    cf_attempt *late = cf_queue(f, small, f->name, WAIT(1, 4));
    check_used(f, 1, 4, 1);
    CF_FREE(hold);
    hold = cf_granted(all);
    check_used(f, 4, 4, 1);
    CF_STILL_WAITS(late);
    CF_FREE(hold);
    CF_FREE(cf_granted(late));
}

static void B18_a_waiter_for_many_is_not_passed_by_waiters_for_few(cf *f) {
    hf_client *third = cf_open(f);
    check_not_passed(f, f->b, third);
    check_not_passed(f, f->b, f->b);
    check_not_passed(f, f->b, f->a);
    check_not_passed(f, f->a, f->b);
    check_not_passed(f, f->a, f->a);
}

typedef struct permit_stream {
    hf_client *client;
    const char *name;
    uint32_t capacity;
    atomic_int *over;
    atomic_long *taken;
    hf_result failed;
} permit_stream;

static void keep_taking(void *arg) {
    permit_stream *s = arg;
    while (!atomic_load(s->over) && !cf_over()) {
        hf_hold *hold = NULL;
        hf_result result = hf_acquire(s->client, s->name, WAIT(1, s->capacity), &hold);
        if (result == HF_OK) {
            atomic_fetch_add(s->taken, 1);
            sched_yield();
            result = hf_release(hold);
        }
        if (result != HF_OK) s->failed = result;
        if (result != HF_OK) return;
    }
}

static void B18_a_waiter_for_many_is_not_starved_by_acquires_of_few(cf *f) {
    enum { STREAMS = 8, CAPACITY = 4, TURNS = 5 };
    permit_stream *streams = cf_new(f, STREAMS * sizeof *streams);
    atomic_int *over = cf_new(f, sizeof *over);
    atomic_long *taken = cf_new(f, sizeof *taken);
    cf_thread *threads[STREAMS];
    hf_client *const clients[] = {f->a, f->b, cf_open(f)};
    for (int i = 0; i < STREAMS; i++) {
        streams[i] = (permit_stream){clients[i % 2], f->name, CAPACITY, over, taken, HF_OK};
        threads[i] = cf_spawn(f, keep_taking, &streams[i]);
    }
    for (int i = 0; i < TURNS; i++) {
        long before = atomic_load(taken);
        CF_UNTIL(atomic_load(taken) > before); /* and they are not stopped by it */
        hf_hold *hold = CF_TAKE(clients[i % 3], f->name,
                                PERMITS(CAPACITY, CAPACITY, .wait_ms = CF_WATCHDOG_MS));
        check_used(f, CAPACITY, CAPACITY, 1);
        CF_FREE(hold);
    }
    atomic_store(over, 1);
    for (int i = 0; i < STREAMS; i++) {
        cf_join(threads[i]);
        CF_IS(HF_OK, streams[i].failed);
    }
}

/* ---- A waiter for many that gives up --------------------------------------------------------- */

typedef struct permit_scene {
    hf_hold *hold;
    hf_client *waiting;
    cf_attempt *large, *same, *other;
} permit_scene;

static permit_scene set_scene(cf *f, const hf_options *large) {
    permit_scene s = {.waiting = cf_open(f)};
    s.hold = CF_TAKE(f->a, f->name, TRY(1, 4, 0));
    s.large = cf_arrive(f, s.waiting, f->name, large);
    s.other = cf_arrive(f, f->b, f->name, WAIT(1, 4));
    return s;
}

static void end_scene(cf *f, permit_scene *s) {
    hf_hold *other = cf_granted(s->other), *same = s->same ? cf_granted(s->same) : NULL;
    check_used(f, same ? 3 : 2, 4, same ? 3 : 2);
    CF_FREE(other);
    if (same) CF_FREE(same);
    CF_FREE(CF_TAKE(f->b, f->name, TRY(3, 4, 0)));
    CF_FREE(s->hold);
}

static void B18_a_large_request_that_times_out_lets_small_ones_in(cf *f) {
    permit_scene s = set_scene(f, PERMITS(4, 4, .wait_ms = t_patience(500)));
    s.same = cf_queue(f, s.waiting, f->name, WAIT(1, 4));
    CF_ENDED(HF_TIMEOUT, s.large);
    end_scene(f, &s);
}

static void B18_a_large_request_that_is_cancelled_lets_small_ones_in(cf *f) {
    hf_cancel *cancel = cf_cancel();
    permit_scene s = set_scene(f, PERMITS(4, 4, .wait_ms = HF_FOREVER, .cancel = cancel));
    s.same = cf_queue(f, s.waiting, f->name, WAIT(1, 4));
    hf_cancel_fire(cancel);
    CF_ENDED(HF_CANCELLED, s.large);
    end_scene(f, &s);
    hf_cancel_free(cancel);
}

static void B18_a_large_request_whose_client_closes_lets_small_ones_in(cf *f) {
    permit_scene s = set_scene(f, WAIT(4, 4));
    cf_close(f, s.waiting);
    CF_ENDED(HF_CLOSED, s.large);
    end_scene(f, &s);
}

/* ---- Permits of one owner -------------------------------------------------------------------- */

static void B18_permits_of_one_owner_are_separate_holds(cf *f) {
    hf_hold *one = CF_TAKE(f->a, f->name, TRY(1, 3, 0));
    hf_hold *two = CF_TAKE(f->a, f->name, TRY(2, 3, 0));
    assert_true(hf_fence(one) != hf_fence(two));
    assert_int_equal(cf_stats(f->a).held, 2);
    assert_int_equal(cf_stats(f->a).reentered, 0);
    check_used(f, 3, 3, 2);
    CF_REFUSED(HF_BUSY, f->a, f->name, TRY(1, 3, 0));
    CF_REFUSED(HF_TIMEOUT, f->a, f->name, PERMITS(1, 3, .wait_ms = 300));
    CF_FREE(two);
    /* a waiter that gave up may be granted it, and passes it on */
    CF_UNTIL(cf_used(f->b, f->name) == 1);
    check_used(f, 1, 3, 1);
    two = CF_TAKE(f->b, f->name, TRY(2, 3, 0));
    CF_FREE(one);
    assert_int_equal(hf_held(two), 1);
    check_used(f, 2, 3, 1);
    CF_FREE(two);
}

/* Such a request would wait for itself. */
static void B18_permits_of_a_name_that_its_owner_holds_otherwise_are_a_deadlock(cf *f) {
    static const uint32_t kinds[] = {HF_MUTEX, HF_READ, HF_WRITE, HF_UPGRADABLE};
    for (size_t i = 0; i < 4; i++) {
        int64_t started = t_now_ms();
        hf_hold *hold = CF_TAKE(f->a, f->name, CF_TRY(kinds[i], 0));
        CF_REFUSED(HF_DEADLOCK, f->a, f->name, TRY(1, 3, 0));
        CF_REFUSED(HF_DEADLOCK, f->a, f->name, WAIT(1, 3));
        CF_FREE(hold);
        hold = CF_TAKE(f->a, f->name, TRY(1, 3, 0));
        CF_REFUSED(HF_DEADLOCK, f->a, f->name, CF_TRY(kinds[i], 0));
        CF_REFUSED(HF_DEADLOCK, f->a, f->name, CF_WAIT(kinds[i]));
        CF_AT_ONCE(started);
        check_used(f, 1, 3, 1);
        CF_FREE(hold);
    }
}

/* One hold is lost, the other stays. */
static void B18_permits_of_one_owner_are_lost_one_by_one(cf *f) {
    cf_lost *lost = cf_new(f, 2 * sizeof *lost);
    hf_hold *holds[2];
    for (int i = 0; i < 2; i++)
        holds[i] =
            CF_TAKE(f->a, f->name,
                    PERMITS(1, 2, .lease_ms = i ? CF_KEPT_LEASE_MS : CF_SHORT_LEASE_MS,
                            .flags = i ? 0 : HF_NO_RENEW, .on_lost = cf_on_lost, .arg = &lost[i]));
    CF_UNTIL(atomic_load(&lost[0].calls) == 1);
    assert_true(atomic_load(&lost[0].token) == hf_fence(holds[0]));
    uint64_t renewed = cf_stats(f->a).renewed;
    CF_UNTIL(cf_stats(f->a).renewed >= renewed + 4);
    assert_int_equal(hf_held(holds[1]), 1);
    check_used(f, 1, 2, 1);
    CF_IS(HF_LOST, hf_release(holds[0]));
    check_used(f, 1, 2, 1);
    CF_FREE(holds[1]);
    assert_int_equal(atomic_load(&lost[1].calls), 0);
}

/* ---- Permits that return --------------------------------------------------------------------- */

static void B18_permits_whose_lease_ends_come_back(cf *f) {
    hf_hold *stays = CF_TAKE(f->a, f->name, PERMITS(1, 4, .lease_ms = CF_KEPT_LEASE_MS));
    hf_hold *dying =
        CF_TAKE(f->b, f->name, PERMITS(3, 4, .lease_ms = CF_SHORT_LEASE_MS, .flags = HF_NO_RENEW));
    cf_attempt *waiter = cf_arrive(f, cf_open(f), f->name, WAIT(2, 4));
    hf_hold *hold = cf_granted(waiter);
    assert_int_equal(hf_held(dying), 0);
    assert_int_equal(hf_held(stays), 1);
    check_used(f, 3, 4, 2);
    CF_IS(HF_LOST, hf_release(dying));
    check_used(f, 3, 4, 2);
    CF_FREE(hold);
    CF_FREE(stays);
}

static void B26_broken_permits_are_reported_and_come_back(cf *f) {
    cf_lost *lost = cf_new(f, 2 * sizeof *lost);
    hf_hold *holds[2];
    hf_client *const clients[] = {f->a, f->b};
    for (int i = 0; i < 2; i++)
        holds[i] = CF_TAKE(
            clients[i], f->name,
            PERMITS(2, 4, .lease_ms = CF_KEPT_LEASE_MS, .on_lost = cf_on_lost, .arg = &lost[i]));
    cf_attempt *waiter = cf_arrive(f, cf_open(f), f->name, WAIT(2, 4));
    cf_attempt *last = cf_arrive(f, cf_open(f), f->name, WAIT(4, 4));
    CF_IS(HF_OK, hf_break(f->b, f->name, hf_fence(holds[0])));
    hf_hold *hold = cf_granted(waiter);
    CF_STILL_WAITS(last);
    CF_UNTIL(atomic_load(&lost[0].calls) == 1);
    assert_int_equal(hf_held(holds[1]), 1);
    CF_IS(HF_OK, hf_break(f->a, f->name, 0)); /* all permits */
    CF_FREE(cf_granted(last));
    CF_UNTIL(atomic_load(&lost[1].calls) == 1);
    for (int i = 0; i < 2; i++) CF_IS(HF_LOST, hf_release(holds[i]));
    CF_IS(HF_LOST, hf_release(hold));
}

/* ---- Many ------------------------------------------------------------------------------------ */

enum { POOL = 5, ROUNDS = 24 };

typedef struct pool {
    const char *name;
    atomic_int out, most, over, failures;
    atomic_long visits;
} pool;

static void visit_pool(pool *p, hf_client *client, int first) {
    for (int i = 0; i < ROUNDS; i++) {
        int n = 1 + (first + i) % POOL;
        hf_hold *hold = NULL;
        if (hf_acquire(client, p->name, WAIT((uint32_t)n, POOL), &hold) != HF_OK) {
            atomic_fetch_add(&p->failures, 1);
            continue;
        }
        int out = atomic_fetch_add(&p->out, n) + n;
        if (out > POOL) atomic_fetch_add(&p->over, 1);
        if (out > atomic_load(&p->most)) atomic_store(&p->most, out);
        sched_yield();
        atomic_fetch_add(&p->visits, 1);
        atomic_fetch_sub(&p->out, n);
        if (hf_release(hold) != HF_OK) atomic_fetch_add(&p->failures, 1);
    }
}

static void check_pool(cf *f, pool *p, int visitors) {
    assert_int_equal(p->failures, 0);
    assert_int_equal(p->over, 0);
    assert_int_equal(p->visits, visitors * ROUNDS);
    assert_int_equal(p->most, POOL);
    check_used(f, 0, 0, 0);
    assert_int_equal(cf_queued(f->b, f->name), 0);
}

static void run_visitor(void *arg) {
    cf_visitor *v = arg;
    visit_pool(v->arg, v->client, v->index);
}

static void B18_many_threads_and_clients_never_exceed_capacity_and_all_finish(cf *f) {
    enum { CLIENTS = 4, THREADS = 6 };
    pool *p = cf_new(f, sizeof *p);
    p->name = f->name;
    cf_crowd(f, CLIENTS, THREADS, run_visitor, p);
    check_pool(f, p, CLIENTS * THREADS);
}

static void B18_many_threads_of_a_client_never_exceed_capacity_and_all_finish(cf *f) {
    enum { THREADS = 24 };
    pool *p = cf_new(f, sizeof *p);
    cf_thread *threads[THREADS];
    p->name = f->name;
    for (int i = 0; i < THREADS; i++) {
        cf_visitor *v = cf_new(f, sizeof *v);
        *v = (cf_visitor){p, f->a, i};
        threads[i] = cf_spawn(f, run_visitor, v);
    }
    for (int i = 0; i < THREADS; i++) cf_join(threads[i]);
    check_pool(f, p, THREADS);
}

/* As many threads as permits are inside together, and wait there for each other. */
typedef struct meeting {
    hf_client *client;
    const char *name;
    atomic_int *present, *go;
    hf_result result;
} meeting;

static void join_meeting(void *arg) {
    meeting *m = arg;
    hf_hold *hold = NULL;
    m->result = hf_acquire(m->client, m->name, WAIT(1, POOL), &hold);
    if (m->result != HF_OK) return;
    atomic_fetch_add(m->present, 1);
    while (!atomic_load(m->go) && !cf_over()) t_sleep_ms(1);
    m->result = hf_release(hold);
}

static void B18_as_many_threads_as_permits_are_inside_together(cf *f) {
    enum { ALL = 3 * POOL };
    meeting *meetings = cf_new(f, ALL * sizeof *meetings);
    atomic_int *present = cf_new(f, sizeof *present), *go = cf_new(f, sizeof *go);
    cf_thread *threads[ALL];
    for (int i = 0; i < ALL; i++) {
        meetings[i] = (meeting){i % 2 ? f->a : f->b, f->name, present, go, HF_OK};
        threads[i] = cf_spawn(f, join_meeting, &meetings[i]);
    }
    CF_UNTIL(atomic_load(present) == POOL);
    CF_UNTIL(cf_stats(f->a).waiting + cf_stats(f->b).waiting == ALL - POOL);
    assert_int_equal(atomic_load(present), POOL);
    check_used(f, POOL, POOL, POOL);
    atomic_store(go, 1);
    for (int i = 0; i < ALL; i++) {
        cf_join(threads[i]);
        CF_IS(HF_OK, meetings[i].result);
    }
    assert_int_equal(atomic_load(present), ALL);
}

/* ---- Processes ------------------------------------------------------------------------------- */

typedef struct permit_stage {
    pool pool;
    atomic_int ready;
} permit_stage;

static hf_client *open_in_child(void) {
    hf_client *client = NULL;
    CF_IS(HF_OK, hf_open(cf_url(), NULL, &client));
    return client;
}

static int visit_in_child(void *arg) {
    permit_stage *s = arg;
    hf_client *client = open_in_child();
    visit_pool(&s->pool, client, atomic_fetch_add(&s->ready, 1));
    hf_close(client);
    return 0;
}

static void B18_processes_never_exceed_capacity_and_all_finish(cf *f) {
    enum { PROCESSES = 5 };
    permit_stage *s = t_shared_new(sizeof *s);
    t_proc *children[PROCESSES];
    s->pool.name = f->name;
    for (int i = 0; i < PROCESSES; i++) children[i] = t_proc_start(visit_in_child, s);
    for (int i = 0; i < PROCESSES; i++)
        assert_int_equal(t_proc_wait(children[i], CF_WATCHDOG_MS), 0);
    check_pool(f, &s->pool, PROCESSES);
    t_shared_free(s, sizeof *s);
}

static int hold_in_child(void *arg) {
    permit_stage *s = arg;
    hf_client *client = open_in_child();
    (void)CF_TAKE(client, s->pool.name, PERMITS(2, 4, .lease_ms = CF_KEPT_LEASE_MS));
    (void)CF_TAKE(client, s->pool.name, PERMITS(1, 4, .lease_ms = CF_KEPT_LEASE_MS));
    atomic_store(&s->ready, 1);
    t_sleep_ms(t_patience(CF_WATCHDOG_MS));
    return 1; /* not reached: the process is killed */
}

static void B18_permits_of_a_killed_process_come_back(cf *f) {
    permit_stage *s = t_shared_new(sizeof *s);
    s->pool.name = f->name;
    t_proc *child = t_proc_start(hold_in_child, s);
    CF_UNTIL(atomic_load(&s->ready));
    hf_hold *hold = CF_TAKE(f->a, f->name, TRY(1, 4, 0));
    cf_attempt *waiter = cf_arrive(f, f->b, f->name, WAIT(3, 4));
    t_sleep_ms(CF_PAST_LEASE_MS); /* the child renews */
    CF_STILL_WAITS(waiter);
    check_used(f, 4, 4, 3);
    t_proc_kill(child, SIGKILL);
    assert_int_equal(t_proc_wait(child, CF_WATCHDOG_MS), 128 + SIGKILL);
    CF_FREE(cf_granted(waiter));
    assert_int_equal(hf_held(hold), 1);
    CF_FREE(hold);
    t_shared_free(s, sizeof *s);
}

/* No acquire runs meanwhile, which would remove them. */
static void B27_permits_of_dead_holders_are_not_in_use(cf *f) {
    permit_stage *s = t_shared_new(sizeof *s);
    s->pool.name = f->name;
    t_proc *child = t_proc_start(hold_in_child, s);
    CF_UNTIL(atomic_load(&s->ready));
    hf_hold *hold = CF_TAKE(f->a, f->name, TRY(1, 4, 0));
    check_used(f, 4, 4, 3);
    t_proc_kill(child, SIGKILL);
    assert_int_equal(t_proc_wait(child, CF_WATCHDOG_MS), 128 + SIGKILL);
    CF_UNTIL(cf_holders(f->b, f->name) == 1);
    check_used(f, 1, 4, 1);
    CF_FREE(hold);
    t_shared_free(s, sizeof *s);
}

const cf_case cf_permits[] = {
    CF_CASE_NEEDS(B18_capacity_is_reached_and_not_exceeded, CF_KINDS),
    CF_CASE_NEEDS(B18_any_number_of_permits_can_be_acquired, CF_KINDS),
    CF_CASE_NEEDS(B18_the_limits_themselves_are_allowed, CF_KINDS),
    CF_CASE_NEEDS(B18_invalid_numbers_are_refused, CF_KINDS),
    CF_CASE_NEEDS(B18_a_different_capacity_is_refused, CF_KINDS),
    CF_CASE_NEEDS(B18_a_different_capacity_is_refused_to_a_waiter, CF_KINDS),
    CF_CASE_NEEDS(B18_permits_keep_all_other_kinds_out, CF_KINDS),
    CF_CASE_NEEDS(B18_kinds_wait_for_each_other_in_order_of_arrival, CF_KINDS),
    CF_CASE_NEEDS(B18_one_release_admits_one_in_order_of_arrival, CF_KINDS),
    CF_CASE_NEEDS(B18_one_release_admits_one_thread_in_order_of_arrival, CF_KINDS),
    CF_CASE_NEEDS(B18_one_release_admits_all_that_fit, CF_KINDS),
    CF_CASE_NEEDS(B18_threads_of_a_client_that_fit_enter_together, CF_KINDS),
    CF_CASE_NEEDS(B18_a_waiter_for_many_is_not_passed_by_waiters_for_few, CF_KINDS),
    CF_CASE_NEEDS(B18_a_waiter_for_many_is_not_starved_by_acquires_of_few, CF_KINDS),
    CF_CASE_NEEDS(B18_a_large_request_that_times_out_lets_small_ones_in, CF_KINDS),
    CF_CASE_NEEDS(B18_a_large_request_that_is_cancelled_lets_small_ones_in, CF_KINDS),
    CF_CASE_NEEDS(B18_a_large_request_whose_client_closes_lets_small_ones_in, CF_KINDS),
    CF_CASE_NEEDS(B18_permits_of_one_owner_are_separate_holds, CF_KINDS),
    CF_CASE_NEEDS(B18_permits_of_a_name_that_its_owner_holds_otherwise_are_a_deadlock, CF_KINDS),
    CF_CASE_NEEDS(B18_permits_of_one_owner_are_lost_one_by_one, CF_KINDS),
    CF_CASE_NEEDS(B18_permits_whose_lease_ends_come_back, CF_KINDS),
    CF_CASE_NEEDS(B26_broken_permits_are_reported_and_come_back, CF_KINDS),
    CF_CASE_NEEDS(B18_many_threads_and_clients_never_exceed_capacity_and_all_finish, CF_KINDS),
    CF_CASE_NEEDS(B18_many_threads_of_a_client_never_exceed_capacity_and_all_finish, CF_KINDS),
    CF_CASE_NEEDS(B18_as_many_threads_as_permits_are_inside_together, CF_KINDS),
    CF_CASE_NEEDS(B18_processes_never_exceed_capacity_and_all_finish, CF_KINDS | CF_PROCESSES),
    CF_CASE_NEEDS(B18_permits_of_a_killed_process_come_back, CF_KINDS | CF_PROCESSES),
    CF_CASE_NEEDS(B27_permits_of_dead_holders_are_not_in_use, CF_KINDS | CF_PROCESSES),
    CF_CASES_END,
};
