/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Behaviour that all kinds of lock share: readers (HF_READ), writers (HF_WRITE), upgradable readers
 * and permits are acquired, waited for, renewed and lost as a mutex is. readers.c, upgrade.c and
 * permits.c test how kinds interact.
 */
#include "conformance.h"

#include <poll.h>
#include <sched.h>

#include "t_proc.h"

static const struct {
    uint32_t kind;
    const char *suffix;
} KINDS[] = {
    {HF_READ, "-read"},
    {HF_WRITE, "-write"},
    {HF_UPGRADABLE, "-upgradable"},
    {HF_PERMITS, "-permits"},
};
enum { KINDS_COUNT = sizeof KINDS / sizeof *KINDS };

#define EACH_KIND(i) for (size_t i = 0; i < KINDS_COUNT; i++)

static const char *name_of(cf *f, size_t i) {
    return cf_name(f, KINDS[i].suffix);
}

/* ---- Stores without kinds -------------------------------------------------------------------- */

static void kinds_that_a_store_lacks_are_unsupported(cf *f) {
    if (cf_has(CF_KINDS)) return;
    EACH_KIND(i) {
        CF_REFUSED(HF_UNSUPPORTED, f->a, f->name, CF_TRY(KINDS[i].kind, 0));
        CF_REFUSED(HF_UNSUPPORTED, f->a, f->name, CF_WAIT(KINDS[i].kind));
    }
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    CF_REFUSED(HF_UNSUPPORTED, f->b, f->name, CF_TRY(HF_READ, 0));
    assert_int_equal(hf_held(hold), 1);
    CF_FREE(hold);
}

/* ---- Acquire and release --------------------------------------------------------------------- */

static void B03_every_kind_is_acquired_and_released(cf *f) {
    uint64_t token = 0;
    EACH_KIND(i) {
        hf_hold *hold = CF_TAKE(f->a, f->name, CF_TRY(KINDS[i].kind, 0));
        assert_int_equal(hf_held(hold), 1);
        assert_in_range(hf_remaining_ms(hold), 1, 30000);
        assert_true(hf_fence(hold) > token); /* B28: across all kinds */
        token = hf_fence(hold);
        hf_info *info = cf_inspect(f->b, f->name);
        assert_int_equal(info->held, 1);
        assert_int_equal(info->kind, KINDS[i].kind);
        assert_int_equal(info->holders, 1);
        assert_int_equal(info->count, 1);
        assert_int_equal(info->used, KINDS[i].kind == HF_PERMITS);
        assert_int_equal(info->capacity, KINDS[i].kind == HF_PERMITS);
        assert_true(info->token == token);
        assert_true(*info->client && *info->owner && *info->host);
        assert_in_range(info->remaining_ms, 1, 30000);
        hf_info_free(info);
        hf_hold *ref = hf_ref(hold);
        CF_FREE(hold);
        CF_IS(HF_NOT_HELD, hf_release(ref));
        assert_int_equal(cf_holders(f->b, f->name), 0);
        hold = CF_TAKE(f->b, f->name, NULL);
        assert_true(hf_fence(hold) > token);
        token = hf_fence(hold);
        CF_FREE(hold);
    }
}

static void B21_prefixes_and_names_keep_kinds_apart(cf *f) {
    hf_client *elsewhere = cf_open_url(f, cf_other_url(), NULL);
    EACH_KIND(i) {
        hf_hold *hold = CF_TAKE(f->a, f->name, CF_TRY(KINDS[i].kind, 0));
        CF_FREE(CF_TAKE(elsewhere, f->name, CF_TRY(HF_WRITE, 0)));
        CF_FREE(CF_TAKE(f->b, cf_name(f, "-other"), CF_TRY(HF_WRITE, 0)));
        CF_FREE(hold);
    }
}

static void B24_any_thread_may_release_any_kind(cf *f) {
    EACH_KIND(i) {
        hf_hold *hold = CF_TAKE(f->a, f->name, CF_TRY(KINDS[i].kind, 0));
        CF_IS(HF_OK, cf_release_in_thread(f, hold));
        /* dropping the last reference releases */
        hf_unref(CF_TAKE(f->b, f->name, CF_TRY(KINDS[i].kind, 0)));
        CF_FREE(CF_TAKE(f->a, f->name, &(hf_options){.wait_ms = CF_WATCHDOG_MS}));
    }
}

/* ---- Waiting --------------------------------------------------------------------------------- */

static void B06_a_wait_for_any_kind_ends_when_its_time_is_up(cf *f) {
    hf_client *const clients[] = {f->a, f->b};
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    EACH_KIND(i) {
        for (int c = 0; c < 2; c++) {
            cf_attempt *waiter =
                cf_start(f, clients[c], f->name, CF_OPTIONS(KINDS[i].kind, .wait_ms = 300));
            CF_ENDED(HF_TIMEOUT, waiter);
            assert_true(waiter->took_ms >= 60);
            assert_null(waiter->hold);
            assert_true(*waiter->detail);
        }
    }
    CF_FREE(hold);
    CF_FREE(CF_TAKE(f->b, f->name, NULL));
}

static void B07_a_cancel_ends_a_wait_for_any_kind(cf *f) {
    hf_cancel *cancel = cf_cancel();
    cf_attempt *waiters[KINDS_COUNT][2];
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    EACH_KIND(i) {
        const hf_options *options =
            CF_OPTIONS(KINDS[i].kind, .wait_ms = HF_FOREVER, .cancel = cancel);
        waiters[i][0] = cf_queue(f, f->a, f->name, options);
        waiters[i][1] = cf_queue(f, f->b, f->name, options);
    }
    hf_cancel_fire(cancel);
    EACH_KIND(i) {
        for (int c = 0; c < 2; c++) CF_ENDED(HF_CANCELLED, waiters[i][c]);
        CF_REFUSED(HF_CANCELLED, f->b, f->name,
                   CF_OPTIONS(KINDS[i].kind, .wait_ms = HF_FOREVER, .cancel = cancel));
    }
    assert_int_equal(cf_stats(f->a).waiting + cf_stats(f->b).waiting, 0);
    CF_FREE(hold);
    /* a waiter that gave up may leave the queue a moment later */
    CF_FREE(CF_TAKE(f->b, f->name, CF_OPTIONS(HF_WRITE, .wait_ms = CF_WATCHDOG_MS)));
    hf_cancel_free(cancel);
}

static void B26_after_a_break_the_next_of_any_kind_is_served(cf *f) {
    hf_client *third = cf_open(f);
    EACH_KIND(i) {
        hf_hold *hold = CF_TAKE(f->a, f->name, CF_TRY(KINDS[i].kind, 0));
        cf_attempt *waiter = cf_arrive(f, f->b, f->name, CF_WAIT(HF_WRITE));
        CF_IS(HF_OK, hf_break(f->a, f->name, 0));
        hf_hold *next = cf_granted(waiter);
        waiter = cf_arrive(f, third, f->name, CF_WAIT(KINDS[i].kind));
        CF_IS(HF_OK, hf_break(f->a, f->name, hf_fence(next)));
        CF_FREE(cf_granted(waiter));
        CF_IS(HF_LOST, hf_release(hold));
        CF_IS(HF_LOST, hf_release(next));
    }
}

/* ---- Leases ---------------------------------------------------------------------------------- */

static void B15_renewal_keeps_every_kind_for_many_leases(cf *f) {
    enum { LEASES = 3 };
    cf_lost *lost = cf_new(f, sizeof *lost);
    hf_hold *holds[KINDS_COUNT];
    uint64_t tokens[KINDS_COUNT];
    EACH_KIND(i) {
        holds[i] = CF_TAKE(f->a, name_of(f, i),
                           CF_OPTIONS(KINDS[i].kind, .lease_ms = CF_KEPT_LEASE_MS,
                                      .on_lost = cf_on_lost, .arg = lost));
        tokens[i] = hf_fence(holds[i]);
    }
    for (int64_t end = t_now_ms() + LEASES * CF_KEPT_LEASE_MS; t_now_ms() < end;) {
        EACH_KIND(i) {
            CF_REFUSED(HF_BUSY, f->b, name_of(f, i), NULL);
            assert_int_equal(hf_held(holds[i]), 1);
            assert_in_range(hf_remaining_ms(holds[i]), 1, CF_KEPT_LEASE_MS);
        }
        t_sleep_ms(10);
    }
    assert_true(cf_stats(f->a).renewed >= LEASES * KINDS_COUNT);
    EACH_KIND(i) {
        assert_true(hf_fence(holds[i]) == tokens[i]);
        assert_true(cf_token(f->b, name_of(f, i)) == tokens[i]);
        CF_FREE(holds[i]);
    }
    assert_int_equal(atomic_load(&lost->calls), 0);
}

/* The lock always has a waiter. Renewals do not pass the lock on, and the waiter keeps its
   position. */
static void B15_renewal_keeps_every_kind_that_has_waiters(cf *f) {
    hf_hold *holds[KINDS_COUNT];
    cf_attempt *waiters[KINDS_COUNT];
    EACH_KIND(i) {
        holds[i] =
            CF_TAKE(f->a, name_of(f, i), CF_OPTIONS(KINDS[i].kind, .lease_ms = CF_KEPT_LEASE_MS));
        waiters[i] = cf_arrive(f, f->b, name_of(f, i), CF_WAIT(HF_WRITE));
    }
    uint64_t renewed = cf_stats(f->a).renewed;
    CF_UNTIL(cf_stats(f->a).renewed >= renewed + 4 * KINDS_COUNT);
    assert_int_equal(cf_stats(f->b).waiting, KINDS_COUNT);
    EACH_KIND(i) {
        assert_int_equal(hf_held(holds[i]), 1);
        CF_FREE(holds[i]);
        CF_FREE(cf_granted(waiters[i]));
    }
}

static void B22_extend_makes_every_kind_outlive_its_lease(cf *f) {
    hf_hold *holds[KINDS_COUNT];
    EACH_KIND(i) {
        holds[i] =
            CF_TAKE(f->a, name_of(f, i),
                    CF_OPTIONS(KINDS[i].kind, .lease_ms = CF_KEPT_LEASE_MS, .flags = HF_NO_RENEW));
        CF_IS(HF_OK, hf_extend(holds[i], 20000));
    }
    t_sleep_ms(CF_PAST_LEASE_MS);
    EACH_KIND(i) {
        assert_in_range(hf_remaining_ms(holds[i]), 10000, 20000);
        CF_REFUSED(HF_BUSY, f->b, name_of(f, i), NULL);
        CF_FREE(holds[i]);
    }
}

/* ---- Losing ---------------------------------------------------------------------------------- */

typedef struct kinds_victim {
    hf_hold *hold;
    int fd;
    cf_lost lost;
} kinds_victim;

static kinds_victim *take_victims(cf *f, int64_t max_hold_ms, uint32_t flags) {
    kinds_victim *victims = cf_new(f, KINDS_COUNT * sizeof *victims);
    int64_t lease_ms = flags ? CF_SHORT_LEASE_MS : CF_KEPT_LEASE_MS;
    EACH_KIND(i) {
        kinds_victim *v = &victims[i];
        v->hold =
            CF_TAKE(f->a, name_of(f, i),
                    CF_OPTIONS(KINDS[i].kind, .lease_ms = lease_ms, .max_hold_ms = max_hold_ms,
                               .flags = flags, .on_lost = cf_on_lost, .arg = &v->lost));
        v->fd = hf_lost_fd(v->hold);
    }
    return victims;
}

static void check_loss_reported(cf *f, kinds_victim *victims) {
    EACH_KIND(i) {
        kinds_victim *v = &victims[i];
        CF_UNTIL(!hf_held(v->hold));
        CF_UNTIL(cf_readable(v->fd));
        CF_UNTIL(atomic_load(&v->lost.calls) == 1);
        assert_true(atomic_load(&v->lost.token) == hf_fence(v->hold));
        assert_non_null(hf_why_lost(v->hold));
        assert_int_equal(hf_remaining_ms(v->hold), 0);
        CF_IS(HF_LOST, hf_extend(v->hold, 30000));
        hf_hold *next =
            CF_TAKE(f->b, name_of(f, i), CF_OPTIONS(KINDS[i].kind, .wait_ms = CF_WATCHDOG_MS));
        assert_true(hf_fence(next) > hf_fence(v->hold));
        CF_IS(HF_LOST, hf_release(v->hold)); /* and does not affect the next holder */
        assert_true(cf_token(f->a, name_of(f, i)) == hf_fence(next));
        assert_int_equal(cf_holders(f->a, name_of(f, i)), 1);
        CF_FREE(next);
        assert_int_equal(atomic_load(&v->lost.calls), 1);
    }
    assert_int_equal(cf_stats(f->a).lost, KINDS_COUNT);
    assert_int_equal(cf_stats(f->a).held, 0);
}

static void B11_a_lease_of_any_kind_that_expires_is_reported(cf *f) {
    check_loss_reported(f, take_victims(f, 0, HF_NO_RENEW));
}

static void B11_a_broken_hold_of_any_kind_is_reported(cf *f) {
    kinds_victim *victims = take_victims(f, 0, 0);
    EACH_KIND(i) {
        CF_IS(HF_NOT_HELD, hf_break(f->b, name_of(f, i), hf_fence(victims[i].hold) + 1));
        CF_IS(HF_OK, hf_break(f->b, name_of(f, i), i % 2 ? hf_fence(victims[i].hold) : 0));
        CF_IS(HF_NOT_HELD, hf_break(f->b, name_of(f, i), 0));
    }
    check_loss_reported(f, victims);
}

static void F05_max_hold_ends_every_kind_and_is_reported(cf *f) {
    check_loss_reported(f, take_victims(f, CF_PAST_LEASE_MS, 0));
}

/* After a loss the same owner acquires again: the old handle still belongs to the old ownership. */
static void B12_after_a_loss_any_kind_may_be_acquired_again(cf *f) {
    kinds_victim *victims = take_victims(f, 0, 0);
    EACH_KIND(i) {
        kinds_victim *v = &victims[i];
        CF_IS(HF_OK, hf_break(f->b, name_of(f, i), 0));
        CF_UNTIL(!hf_held(v->hold));
        hf_hold *again = CF_TAKE(f->a, name_of(f, i), CF_WAIT(KINDS[i].kind));
        assert_true(hf_fence(again) > hf_fence(v->hold));
        CF_IS(HF_LOST, hf_release(v->hold));
        assert_int_equal(hf_held(again), 1);
        assert_true(cf_token(f->b, name_of(f, i)) == hf_fence(again));
        CF_FREE(again);
    }
}

static void B10_a_normal_release_of_any_kind_is_no_loss(cf *f) {
    kinds_victim *victims = take_victims(f, 0, 0);
    hf_hold *refs[KINDS_COUNT];
    EACH_KIND(i) {
        refs[i] = hf_ref(victims[i].hold);
        CF_FREE(victims[i].hold);
    }
    t_sleep_ms(CF_PAST_LEASE_MS);
    EACH_KIND(i) {
        assert_int_equal(cf_readable(victims[i].fd), 0);
        assert_null(hf_why_lost(refs[i]));
        assert_int_equal(atomic_load(&victims[i].lost.calls), 0);
        hf_unref(refs[i]);
    }
    assert_int_equal(cf_stats(f->a).lost, 0);
}

/* ---- Closing --------------------------------------------------------------------------------- */

static void F47_close_releases_every_kind_and_ends_its_waits(cf *f) {
    hf_client *client = cf_open(f);
    hf_hold *holds[KINDS_COUNT], *blocks = CF_TAKE(f->a, f->name, NULL);
    cf_attempt *waiters[KINDS_COUNT], *served[KINDS_COUNT];
    EACH_KIND(i) {
        holds[i] = CF_TAKE(client, name_of(f, i), CF_TRY(KINDS[i].kind, 0));
        waiters[i] = cf_queue(f, client, f->name, CF_WAIT(KINDS[i].kind));
        served[i] = cf_arrive(f, f->b, name_of(f, i), CF_WAIT(HF_WRITE));
    }
    cf_close(f, client);
    EACH_KIND(i) {
        CF_ENDED(HF_CLOSED, waiters[i]);
        CF_FREE(cf_granted(served[i]));
        assert_int_equal(hf_held(holds[i]), 0);
        CF_IS(HF_CLOSED, hf_release(holds[i]));
    }
    assert_int_equal(cf_queued(f->b, f->name), 0);
    CF_FREE(blocks);
    CF_FREE(CF_TAKE(f->b, f->name, CF_TRY(HF_WRITE, 0)));
}

/* ---- Cancel and close against a grant -------------------------------------------------------- */

typedef struct kinds_race {
    hf_hold *hold;
    hf_cancel *cancel;
    atomic_int go;
    hf_result result;
} kinds_race;

static void release_on_go(void *arg) {
    kinds_race *r = arg;
    while (!atomic_load(&r->go) && !cf_over()) sched_yield();
    r->result = hf_release(r->hold);
}

/* One waiter queues behind a holder, another behind that waiter. The first is cancelled while the
   holder releases. In either order the second waiter must be served. */
static void race_cancel(cf *f, uint32_t held, uint32_t wanted, uint32_t behind_it, hf_client *first,
                        hf_client *second) {
    kinds_race *r = cf_new(f, sizeof *r);
    r->cancel = cf_cancel();
    /* A grant to a cancelled wait of the race before may not have been released yet. */
    r->hold = CF_TAKE(f->a, f->name, CF_OPTIONS(held, .wait_ms = CF_WATCHDOG_MS));
    const hf_options *forever = CF_OPTIONS(wanted, .wait_ms = HF_FOREVER, .cancel = r->cancel);
    cf_attempt *writer = first == f->a ? cf_queue(f, first, f->name, forever)
                                       : cf_arrive(f, first, f->name, forever);
    cf_attempt *behind =
        cf_queue(f, second, f->name, CF_OPTIONS(behind_it, .wait_ms = CF_WATCHDOG_MS));
    cf_thread *releasing = cf_spawn(f, release_on_go, r);
    atomic_store(&r->go, 1);
    hf_cancel_fire(r->cancel);
    cf_join(releasing);
    CF_IS(HF_OK, r->result);
    cf_join(writer->thread);
    if (writer->result == HF_OK)
        CF_FREE(writer->hold);
    else
        CF_ENDED(HF_CANCELLED, writer);
    CF_FREE(cf_granted(behind));
    hf_cancel_free(r->cancel);
}

static void B20_cancel_racing_a_release_of_any_kind_loses_no_wake_up(cf *f) {
    hf_client *third = cf_open(f);
    for (size_t round = 0; round < 8; round++) {
        uint32_t kind = KINDS[round % KINDS_COUNT].kind;
        EACH_KIND(i) {
            race_cancel(f, kind, HF_WRITE, KINDS[i].kind, f->b, third);
            race_cancel(f, kind, HF_WRITE, KINDS[i].kind, f->a, f->a);
            race_cancel(f, kind, HF_WRITE, KINDS[i].kind, f->b, f->b);
            race_cancel(f, HF_WRITE, kind, KINDS[i].kind, f->b, third);
            race_cancel(f, HF_WRITE, kind, KINDS[i].kind, f->a, f->a);
            race_cancel(f, HF_MUTEX, kind, KINDS[i].kind, f->b, f->b);
        }
    }
    CF_FREE(CF_TAKE(f->b, f->name, NULL));
    assert_int_equal(cf_queued(f->b, f->name), 0);
}

/* A client closes while its waiters are granted: nothing of them may stay. */
static void F47_close_racing_grants_of_any_kind_leaves_nothing_held(cf *f) {
    for (int round = 0; round < 20; round++) {
        hf_client *client = cf_open(f);
        kinds_race *r = cf_new(f, sizeof *r);
        cf_attempt *waiters[KINDS_COUNT];
        r->hold = CF_TAKE(f->a, f->name, CF_TRY(KINDS[round % KINDS_COUNT].kind, 99));
        waiters[0] = cf_arrive(f, client, f->name, CF_WAIT(HF_WRITE));
        for (int i = 1; i < KINDS_COUNT; i++)
            waiters[i] = cf_queue(f, client, f->name, CF_WAIT(HF_READ));
        cf_thread *releasing = cf_spawn(f, release_on_go, r);
        atomic_store(&r->go, 1);
        cf_close(f, client);
        cf_join(releasing);
        CF_IS(HF_OK, r->result);
        EACH_KIND(i) {
            cf_join(waiters[i]->thread);
            if (waiters[i]->result == HF_OK)
                CF_IS(HF_CLOSED, hf_release(waiters[i]->hold));
            else
                CF_ENDED(HF_CLOSED, waiters[i]);
        }
        CF_FREE(CF_TAKE(f->b, f->name, CF_OPTIONS(HF_WRITE, .wait_ms = CF_WATCHDOG_MS)));
    }
    assert_int_equal(cf_queued(f->b, f->name), 0);
}

/* ---- Random operations ----------------------------------------------------------------------- */

enum { CAPACITY = 3, CHAOS_ROUNDS = 60 };

/* How many threads are inside, by kind. The threads inside count themselves. */
typedef struct kinds_chaos {
    const char *name;
    atomic_int alone, readers, upgradables, permits;
    atomic_int collisions, failures;
    atomic_long entered, upgrades, refused;
} kinds_chaos;

typedef struct random_user {
    kinds_chaos *chaos;
    hf_client *client;
    uint64_t random;
} random_user;

static uint32_t draw_number(random_user *p, uint32_t below) {
    p->random = p->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(p->random >> 33) % below;
}

static void check_alone(kinds_chaos *c, int alone) {
    if (atomic_load(&c->alone) != alone || (alone && atomic_load(&c->readers)) ||
        (alone && atomic_load(&c->permits)) || atomic_load(&c->upgradables) > 1 ||
        atomic_load(&c->permits) > CAPACITY ||
        (atomic_load(&c->permits) && atomic_load(&c->readers)))
        atomic_fetch_add(&c->collisions, 1);
}

static void expect_ok(kinds_chaos *c, hf_result result) {
    if (result != HF_OK) atomic_fetch_add(&c->failures, 1);
}

static void write_a_while(kinds_chaos *c) {
    atomic_fetch_add(&c->alone, 1);
    check_alone(c, 1);
    sched_yield();
    check_alone(c, 1);
    atomic_fetch_sub(&c->alone, 1);
}

/* Upgrade, and perhaps downgrade again; it is a reader before and after. */
static void upgrade_and_downgrade(random_user *p, hf_hold *hold) {
    static const int64_t waits[] = {0, 1, 3, HF_FOREVER};
    kinds_chaos *c = p->chaos;
    uint64_t token = hf_fence(hold);
    hf_result result = hf_upgrade(hold, waits[draw_number(p, 4)]);
    if (result == HF_OK) {
        atomic_fetch_sub(&c->readers, 1);
        if (hf_fence(hold) <= token) atomic_fetch_add(&c->failures, 1);
        atomic_fetch_add(&c->upgrades, 1);
        write_a_while(c);
        atomic_fetch_add(&c->readers, 1);
        if (draw_number(p, 2)) expect_ok(c, hf_downgrade(hold));
    } else if ((result != HF_BUSY && result != HF_TIMEOUT) || hf_fence(hold) != token) {
        atomic_fetch_add(&c->failures, 1);
    }
}

static void stay_inside(random_user *p, hf_hold *hold, const hf_options *o) {
    kinds_chaos *c = p->chaos;
    bool alone = o->kind == HF_MUTEX || o->kind == HF_WRITE;
    if (alone) write_a_while(c);
    if (o->kind == HF_WRITE && draw_number(p, 2)) {
        expect_ok(c, hf_downgrade(hold));
        alone = false;
    } else if (alone) {
        return;
    }
    atomic_int *count = o->kind == HF_PERMITS ? &c->permits : &c->readers;
    int weight = o->kind == HF_PERMITS ? (int)o->permits : 1;
    atomic_fetch_add(count, weight);
    if (o->kind == HF_UPGRADABLE) atomic_fetch_add(&c->upgradables, 1);
    check_alone(c, 0);
    sched_yield();
    check_alone(c, 0);
    if (o->kind == HF_UPGRADABLE && draw_number(p, 2)) upgrade_and_downgrade(p, hold);
    if (o->kind == HF_UPGRADABLE) atomic_fetch_sub(&c->upgradables, 1);
    atomic_fetch_sub(count, weight);
}

/* A wait may end before the store has answered at all. */
static bool may_end(const hf_options *o, hf_result result) {
    if (o->wait_ms == 0) return result == HF_BUSY;
    if (o->wait_ms == HF_FOREVER) return false;
    return result == HF_TIMEOUT || result == HF_UNKNOWN_OUTCOME || result == HF_UNREACHABLE;
}

static void run_random_visitor(void *arg) {
    static const uint32_t kinds[] = {HF_MUTEX, HF_READ,       HF_READ,       HF_READ,
                                     HF_WRITE, HF_UPGRADABLE, HF_UPGRADABLE, HF_PERMITS};
    static const int64_t waits[] = {0, 1, 4, HF_FOREVER, HF_FOREVER, HF_FOREVER};
    random_user *p = arg;
    for (int i = 0; i < CHAOS_ROUNDS; i++) {
        hf_hold *hold = NULL;
        hf_options o = {.kind = kinds[draw_number(p, 8)], .wait_ms = waits[draw_number(p, 6)]};
        if (o.kind == HF_PERMITS) o.capacity = CAPACITY;
        if (o.kind == HF_PERMITS) o.permits = 1 + draw_number(p, CAPACITY);
        /* not shared with other readers */
        if (o.kind == HF_READ && !draw_number(p, 4)) o.lease_ms = 20000;
        hf_result result = hf_acquire(p->client, p->chaos->name, &o, &hold);
        if (result == HF_OK) {
            atomic_fetch_add(&p->chaos->entered, 1);
            stay_inside(p, hold, &o);
            expect_ok(p->chaos, hf_release(hold));
        } else if (may_end(&o, result)) {
            atomic_fetch_add(&p->chaos->refused, 1);
        } else {
            expect_ok(p->chaos, result);
        }
    }
}

static void B08_random_operations_never_break_exclusion(cf *f) {
    enum { CLIENTS = 4, THREADS = 5 };
    kinds_chaos *c = cf_new(f, sizeof *c);
    cf_thread *threads[CLIENTS * THREADS];
    uint64_t seed = (uint64_t)t_now_us();
    c->name = f->name;
    for (int i = 0; i < CLIENTS * THREADS; i++) {
        random_user *p = cf_new(f, sizeof *p);
        *p = (random_user){c, i < CLIENTS ? cf_open(f) : NULL, seed + (uint64_t)i * 7919};
        if (!p->client) p->client = f->clients[2 + i % CLIENTS];
        threads[i] = cf_spawn(f, run_random_visitor, p);
    }
    for (int i = 0; i < CLIENTS * THREADS; i++) cf_join(threads[i]);
    assert_int_equal(c->failures, 0);
    assert_int_equal(c->collisions, 0);
    assert_int_equal(c->entered + c->refused, CLIENTS * THREADS * CHAOS_ROUNDS);
    assert_true(c->upgrades > 0);
    CF_FREE(CF_TAKE(f->b, f->name, CF_OPTIONS(HF_WRITE, .wait_ms = CF_GRANT_MS)));
    CF_UNTIL(cf_queued(f->b, f->name) == 0);
}

/* ---- Async calls ----------------------------------------------------------------------------- */

typedef struct kinds_outcome {
    atomic_int calls;
    hf_result result;
    hf_hold *hold;
    char detail[256];
} kinds_outcome;

static void on_acquired(hf_result result, hf_hold *hold, void *arg) {
    kinds_outcome *o = arg;
    o->result = result;
    o->hold = hold;
    snprintf(o->detail, sizeof o->detail, "%s", result == HF_OK ? "" : hf_error_detail());
    atomic_fetch_add(&o->calls, 1);
}

static void on_released(hf_result result, void *arg) {
    on_acquired(result, NULL, arg);
}

static kinds_outcome *begin_acquire(cf *f, hf_client *client, const char *name,
                                    const hf_options *options) {
    kinds_outcome *o = cf_new(f, sizeof *o);
    CF_IS(HF_OK, hf_acquire_async(client, name, options, on_acquired, o));
    return o;
}

#define OUTCOME(expected, o) outcome_is((expected), (o), __FILE__, __LINE__)

static void outcome_is(hf_result result, kinds_outcome *o, const char *file, int line) {
    CF_UNTIL(atomic_load(&o->calls) == 1);
    cf_is(result, o->result, o->detail, file, line);
    assert_int_equal(o->hold != NULL, result == HF_OK && o->hold != NULL);
    if (result != HF_OK) assert_true(*o->detail);
}

static void free_async(cf *f, hf_hold *hold) {
    kinds_outcome *released = cf_new(f, sizeof *released);
    CF_IS(HF_OK, hf_release_async(hold, on_released, released));
    OUTCOME(HF_OK, released);
}

static void B05_async_agrees_with_sync_for_every_kind(cf *f) {
    EACH_KIND(i) {
        uint32_t kind = KINDS[i].kind;
        kinds_outcome *o = begin_acquire(f, f->a, f->name, CF_TRY(kind, 0));
        OUTCOME(HF_OK, o);
        assert_int_equal(hf_held(o->hold), 1);
        kinds_outcome *busy = begin_acquire(f, f->b, f->name, CF_TRY(HF_WRITE, 0));
        OUTCOME(HF_BUSY, busy);
        OUTCOME(HF_TIMEOUT, begin_acquire(f, f->b, f->name, CF_OPTIONS(HF_WRITE, .wait_ms = 200)));
        cf_attempt *writer = cf_arrive(f, f->b, f->name, CF_WAIT(HF_WRITE));
        if (kind == HF_READ) CF_KEPT_OUT(f->a, f->name, CF_TRY(kind, 9));
        kinds_outcome *late = begin_acquire(f, f->a, f->name, CF_TRY(kind, 0)); /* a new owner */
        OUTCOME(HF_BUSY, late);
        late = begin_acquire(f, f->a, f->name, CF_WAIT(kind));
        CF_UNTIL(cf_stats(f->a).waiting == 1);
        free_async(f, o->hold);
        hf_hold *hold = cf_granted(writer);
        assert_int_equal(atomic_load(&late->calls), 0);
        CF_FREE(hold);
        OUTCOME(HF_OK, late);
        free_async(f, late->hold);
        CF_FREE(CF_TAKE(f->b, f->name, CF_TRY(HF_WRITE, 0)));
    }
}

static void B16_async_readers_share_and_enter_together(cf *f) {
    enum { COUNT = 6 };
    kinds_outcome *outcomes[COUNT];
    hf_hold *hold = CF_TAKE(f->a, f->name, CF_TRY(HF_WRITE, 0));
    for (int i = 0; i < COUNT; i++)
        outcomes[i] = begin_acquire(f, i % 2 ? f->a : f->b, f->name, CF_WAIT(HF_READ));
    CF_UNTIL(cf_stats(f->a).waiting + cf_stats(f->b).waiting == COUNT);
    CF_FREE(hold);
    for (int i = 0; i < COUNT; i++) OUTCOME(HF_OK, outcomes[i]);
    assert_in_range(cf_holders(f->b, f->name), 2, COUNT);
    for (int i = 0; i < COUNT; i++) CF_FREE(outcomes[i]->hold);
}

static void B07_a_cancel_ends_async_waits_for_every_kind(cf *f) {
    hf_cancel *cancel = cf_cancel();
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    kinds_outcome *outcomes[KINDS_COUNT];
    EACH_KIND(i) {
        outcomes[i] = begin_acquire(
            f, f->b, f->name, CF_OPTIONS(KINDS[i].kind, .wait_ms = HF_FOREVER, .cancel = cancel));
        CF_UNTIL(cf_stats(f->b).waiting == i + 1);
    }
    hf_cancel_fire(cancel);
    EACH_KIND(i) OUTCOME(HF_CANCELLED, outcomes[i]);
    CF_FREE(hold);
    hf_cancel_free(cancel);
}

/* ---- In the user's own loop ------------------------------------------------------------------ */

static void run_loop_once(hf_client *client, int ms) {
    struct pollfd fd = {.fd = hf_fd(client), .events = POLLIN};
    if (poll(&fd, 1, ms) > 0) CF_IS(HF_OK, hf_dispatch(client));
}

static void run_loop_until(hf_client *client, atomic_int *flag) {
    int64_t until = t_now_ms() + t_patience(CF_WATCHDOG_MS);
    while (!atomic_load(flag) && t_now_ms() < until) run_loop_once(client, 100);
    assert_true(atomic_load(flag));
}

static void B05_a_client_without_threads_has_every_kind(cf *f) {
    hf_client *client = cf_open_url(f, cf_url(), &(hf_client_options){.flags = HF_NO_THREAD});
    EACH_KIND(i) {
        const hf_options *options =
            CF_OPTIONS(KINDS[i].kind, .wait_ms = HF_FOREVER, .lease_ms = CF_KEPT_LEASE_MS);
        hf_hold *blocks = CF_TAKE(f->a, f->name, NULL);
        kinds_outcome *o = begin_acquire(f, client, f->name, options);
        if (cf_has(CF_QUEUE)) CF_UNTIL((run_loop_once(client, 20), cf_queued(f->b, f->name) == 1));
        CF_FREE(blocks);
        run_loop_until(client, &o->calls);
        OUTCOME(HF_OK, o);
        int64_t until = t_now_ms() + CF_WATCHDOG_MS;
        uint64_t renewed = cf_stats(client).renewed;
        while (cf_stats(client).renewed < renewed + 2 && t_now_ms() < until)
            run_loop_once(client, 20);
        assert_int_equal(hf_held(o->hold), 1);
        if (KINDS[i].kind == HF_UPGRADABLE) CF_IS(HF_OK, hf_upgrade(o->hold, HF_FOREVER));
        if (KINDS[i].kind == HF_UPGRADABLE) CF_IS(HF_OK, hf_downgrade(o->hold));
        CF_FREE(o->hold);
        CF_FREE(CF_TAKE(f->b, f->name, CF_TRY(HF_WRITE, 0)));
    }
}

/* ---- F42 ------------------------------------------------------------------------------------- */

typedef struct kinds_stage {
    cf *f;
    hf_hold *holds[KINDS_COUNT];
} kinds_stage;

static int child_owns_nothing(void *arg) {
    kinds_stage *s = arg;
    EACH_KIND(i) {
        assert_int_equal(hf_held(s->holds[i]), 0);
        CF_IS(HF_FORKED, hf_upgrade(s->holds[i], HF_FOREVER));
        CF_IS(HF_FORKED, hf_downgrade(s->holds[i]));
        CF_REFUSED(HF_FORKED, s->f->a, s->f->name, CF_TRY(KINDS[i].kind, 0));
        CF_IS(HF_FORKED, hf_release(s->holds[i]));
    }
    hf_close(s->f->a);
    return 0;
}

static void F42_a_forked_child_owns_no_kind_and_its_parent_is_undisturbed(cf *f) {
    kinds_stage *s = cf_new(f, sizeof *s);
    s->f = f;
    EACH_KIND(i)
    s->holds[i] =
        CF_TAKE(f->a, name_of(f, i), CF_OPTIONS(KINDS[i].kind, .lease_ms = CF_KEPT_LEASE_MS));
    assert_int_equal(t_proc_wait(t_proc_start(child_owns_nothing, s), CF_WATCHDOG_MS), 0);
    uint64_t renewed = cf_stats(f->a).renewed;
    CF_UNTIL(cf_stats(f->a).renewed >= renewed + 4 * KINDS_COUNT);
    EACH_KIND(i) {
        assert_int_equal(hf_held(s->holds[i]), 1);
        CF_REFUSED(HF_BUSY, f->b, name_of(f, i), NULL);
        CF_FREE(s->holds[i]);
    }
}

const cf_case cf_kinds[] = {
    CF_CASE(kinds_that_a_store_lacks_are_unsupported),
    CF_CASE_NEEDS(B03_every_kind_is_acquired_and_released, CF_KINDS),
    CF_CASE_NEEDS(B21_prefixes_and_names_keep_kinds_apart, CF_KINDS),
    CF_CASE_NEEDS(B24_any_thread_may_release_any_kind, CF_KINDS),
    CF_CASE_NEEDS(B06_a_wait_for_any_kind_ends_when_its_time_is_up, CF_KINDS),
    CF_CASE_NEEDS(B07_a_cancel_ends_a_wait_for_any_kind, CF_KINDS),
    CF_CASE_NEEDS(B26_after_a_break_the_next_of_any_kind_is_served, CF_KINDS),
    CF_CASE_NEEDS(B15_renewal_keeps_every_kind_for_many_leases, CF_KINDS),
    CF_CASE_NEEDS(B15_renewal_keeps_every_kind_that_has_waiters, CF_KINDS),
    CF_CASE_NEEDS(B22_extend_makes_every_kind_outlive_its_lease, CF_KINDS),
    CF_CASE_NEEDS(B11_a_lease_of_any_kind_that_expires_is_reported, CF_KINDS),
    CF_CASE_NEEDS(B11_a_broken_hold_of_any_kind_is_reported, CF_KINDS),
    CF_CASE_NEEDS(F05_max_hold_ends_every_kind_and_is_reported, CF_KINDS),
    CF_CASE_NEEDS(B12_after_a_loss_any_kind_may_be_acquired_again, CF_KINDS),
    CF_CASE_NEEDS(B10_a_normal_release_of_any_kind_is_no_loss, CF_KINDS),
    CF_CASE_NEEDS(F47_close_releases_every_kind_and_ends_its_waits, CF_KINDS),
    CF_CASE_NEEDS(B20_cancel_racing_a_release_of_any_kind_loses_no_wake_up, CF_KINDS),
    CF_CASE_NEEDS(F47_close_racing_grants_of_any_kind_leaves_nothing_held, CF_KINDS),
    CF_CASE_NEEDS(B08_random_operations_never_break_exclusion, CF_KINDS),
    CF_CASE_NEEDS(B05_async_agrees_with_sync_for_every_kind, CF_KINDS),
    CF_CASE_NEEDS(B16_async_readers_share_and_enter_together, CF_KINDS),
    CF_CASE_NEEDS(B07_a_cancel_ends_async_waits_for_every_kind, CF_KINDS),
    CF_CASE_NEEDS(B05_a_client_without_threads_has_every_kind, CF_KINDS),
    CF_CASE_NEEDS(F42_a_forked_child_owns_no_kind_and_its_parent_is_undisturbed, CF_KINDS),
    CF_CASES_END,
};
