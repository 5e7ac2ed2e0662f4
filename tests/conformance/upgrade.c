/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Upgradable readers (B17): they share the lock with plain readers only, can become a writer
 * without releasing, and can downgrade again.
 */
#include "conformance.h"

#include <sched.h>

#include "t_proc.h"

static const hf_options KEPT_UPGRADABLE = {.kind = HF_UPGRADABLE, .lease_ms = CF_KEPT_LEASE_MS};

/* ---- An hf_upgrade that waits ---------------------------------------------------------------- */

typedef struct upgrading {
    hf_hold *hold;
    int64_t wait_ms, took_ms;
    hf_result result;
    char detail[256];
    atomic_int over;
    cf_thread *thread;
} upgrading;

static void run_upgrade(void *arg) {
    upgrading *u = arg;
    int64_t started = t_now_ms();
    u->result = hf_upgrade(u->hold, u->wait_ms);
    u->took_ms = t_now_ms() - started;
    snprintf(u->detail, sizeof u->detail, "%s", u->result == HF_OK ? "" : hf_error_detail());
    atomic_store(&u->over, 1);
}

/* Start an upgrade, and return when it waits: from then on no new reader enters. */
static upgrading *begin_upgrade(cf *f, hf_client *client, hf_hold *hold, int64_t wait_ms) {
    uint64_t before = cf_stats(client).waiting;
    upgrading *u = cf_new(f, sizeof *u);
    u->hold = hold;
    u->wait_ms = wait_ms;
    u->thread = cf_spawn(f, run_upgrade, u);
    CF_UNTIL(cf_stats(client).waiting == before + 1);
    CF_UNTIL(!cf_can_acquire(client, f->name, CF_TRY(HF_READ, 77)));
    return u;
}

#define ENDED(expected, u) \
    (check_ended(u), cf_is((expected), (u)->result, (u)->detail, __FILE__, __LINE__))

static void check_ended(upgrading *u) {
    cf_join(u->thread);
    if (u->result != HF_OK) assert_true(*u->detail);
}

/* As cf_granted: nothing blocks the upgrade any more. */
#define UPGRADED(u)                                         \
    do {                                                    \
        T_WAIT_UNTIL(atomic_load(&(u)->over), CF_GRANT_MS); \
        ENDED(HF_OK, (u));                                  \
    } while (0)

static hf_hold *take_upgradable(cf *f, hf_client *client) {
    return CF_TAKE(client, f->name, CF_TRY(HF_UPGRADABLE, 0));
}

/* The hold is a writer's: nobody else is inside, and hf_inspect shows the kind. */
static void check_writes(cf *f, hf_hold *hold) {
    assert_int_equal(hf_held(hold), 1);
    CF_REFUSED(HF_BUSY, f->a, f->name, CF_TRY(HF_READ, 88));
    CF_REFUSED(HF_BUSY, f->b, f->name, CF_TRY(HF_READ, 88));
    hf_info *info = cf_inspect(f->b, f->name);
    assert_int_equal(info->kind, HF_WRITE);
    assert_int_equal(info->holders, 1);
    assert_true(info->token == hf_fence(hold));
    hf_info_free(info);
}

/* The hold is upgradable: readers can enter, other kinds cannot. */
static void check_upgradable(cf *f, hf_hold *hold) {
    assert_int_equal(hf_held(hold), 1);
    hf_client *const clients[] = {f->a, f->b};
    for (int i = 0; i < 2; i++) {
        CF_FREE(CF_TAKE(clients[i], f->name, CF_TRY(HF_READ, 88)));
        CF_REFUSED(HF_BUSY, clients[i], f->name, CF_TRY(HF_UPGRADABLE, 88));
        CF_REFUSED(HF_BUSY, clients[i], f->name, CF_TRY(HF_WRITE, 88));
        CF_REFUSED(HF_BUSY, clients[i], f->name, CF_TRY(HF_MUTEX, 88));
        CF_REFUSED(HF_BUSY, clients[i], f->name, CF_TRY(HF_PERMITS, 88));
    }
}

/* ---- With other holders ---------------------------------------------------------------------- */

static void B17_an_upgradable_reader_shares_with_readers_and_not_with_another(cf *f) {
    hf_hold *before = CF_TAKE(f->b, f->name, CF_TRY(HF_READ, 0));
    hf_hold *local = CF_TAKE(f->a, f->name, CF_TRY(HF_READ, 1));
    hf_hold *hold = take_upgradable(f, f->a);
    check_upgradable(f, hold);
    assert_int_equal(cf_holders(f->b, f->name), 3);
    CF_FREE(before);
    CF_FREE(local);
    check_upgradable(f, hold);
    CF_FREE(hold);
    CF_FREE(CF_TAKE(f->b, f->name, CF_TRY(HF_WRITE, 0)));
}

static void B17_the_next_upgradable_reader_enters_after_it(cf *f) {
    hf_client *const clients[] = {f->a, f->b};
    for (int i = 0; i < 2; i++) {
        hf_hold *reader = CF_TAKE(f->b, f->name, CF_TRY(HF_READ, 5));
        hf_hold *hold = take_upgradable(f, f->a);
        cf_attempt *next = cf_arrive(f, clients[i], f->name, CF_WAIT(HF_UPGRADABLE));
        CF_FREE(hold);
        hold = cf_granted(next); /* beside the reader, which is still inside */
        assert_int_equal(cf_holders(f->b, f->name), 2);
        check_upgradable(f, hold);
        CF_FREE(hold);
        CF_FREE(reader);
    }
}

static void B17_a_waiting_writer_holds_back_an_upgradable_reader(cf *f) {
    hf_hold *reader = CF_TAKE(f->a, f->name, CF_TRY(HF_READ, 0));
    cf_attempt *writer = cf_arrive(f, f->b, f->name, CF_WAIT(HF_WRITE));
    CF_REFUSED(HF_BUSY, f->a, f->name, CF_TRY(HF_UPGRADABLE, 1));
    cf_attempt *late = cf_arrive(f, cf_open(f), f->name, CF_WAIT(HF_UPGRADABLE));
    CF_FREE(reader);
    hf_hold *hold = cf_granted(writer);
    CF_STILL_WAITS(late);
    CF_FREE(hold);
    CF_FREE(cf_granted(late));
}

/* In order of arrival: later readers queue behind a waiting upgradable reader. */
static void B17_a_waiting_upgradable_reader_holds_back_later_ones(cf *f) {
    hf_hold *hold = take_upgradable(f, f->a);
    cf_attempt *next = cf_arrive(f, f->b, f->name, CF_WAIT(HF_UPGRADABLE));
    CF_REFUSED(HF_BUSY, f->a, f->name, CF_TRY(HF_READ, 1));
    cf_attempt *reader = cf_arrive(f, cf_open(f), f->name, CF_WAIT(HF_READ));
    CF_FREE(hold);
    hold = cf_granted(next);
    hf_hold *beside = cf_granted(reader);
    assert_true(hf_held(hold) && hf_held(beside));
    CF_FREE(hold);
    CF_FREE(beside);
}

/* ---- Upgrade --------------------------------------------------------------------------------- */

static void B17_an_upgrade_without_readers_is_done_at_once(cf *f) {
    static const int64_t waits[] = {0, 1000, HF_FOREVER, INT64_MAX};
    for (size_t i = 0; i < sizeof waits / sizeof *waits; i++) {
        hf_hold *hold = take_upgradable(f, f->a);
        uint64_t token = hf_fence(hold);
        int64_t started = t_now_ms();
        CF_IS(HF_OK, hf_upgrade(hold, waits[i]));
        CF_AT_ONCE(started);
        assert_true(hf_fence(hold) > token);
        check_writes(f, hold);
        token = hf_fence(hold);
        CF_IS(HF_OK, hf_upgrade(hold, waits[i])); /* it is a writer already */
        assert_true(hf_fence(hold) == token);
        CF_FREE(hold);
        hf_hold *next = CF_TAKE(f->b, f->name, CF_TRY(HF_READ, 0));
        assert_true(hf_fence(next) > token);
        CF_FREE(next);
    }
}

static void B17_an_upgrade_waits_for_the_readers(cf *f) {
    hf_hold *local = CF_TAKE(f->a, f->name, CF_TRY(HF_READ, 1));
    hf_hold *hold = take_upgradable(f, f->a);
    hf_hold *remote = CF_TAKE(f->b, f->name, CF_TRY(HF_READ, 0));
    uint64_t token = hf_fence(hold), highest = hf_fence(remote);
    upgrading *u = begin_upgrade(f, f->a, hold, HF_FOREVER);
    assert_int_equal(hf_held(hold), 1);
    assert_true(hf_fence(hold) == token);
    CF_KEPT_OUT(f->b, f->name, CF_TRY(HF_READ, 1));
    hf_hold *again = CF_TAKE(f->b, f->name, CF_TRY(HF_READ, 0)); /* the owner inside re-enters */
    CF_FREE(again);
    CF_FREE(local);
    assert_int_equal(atomic_load(&u->over), 0);
    CF_FREE(remote);
    UPGRADED(u);
    assert_true(hf_fence(hold) > highest && hf_fence(hold) > token);
    check_writes(f, hold);
    CF_FREE(hold);
    CF_FREE(CF_TAKE(f->b, f->name, CF_TRY(HF_WRITE, 0)));
}

/* Readers that arrive meanwhile wait until the writer has left. */
static void B17_readers_that_arrive_meanwhile_enter_after_the_upgraded_hold(cf *f) {
    hf_hold *reader = CF_TAKE(f->b, f->name, CF_TRY(HF_READ, 0));
    hf_hold *hold = take_upgradable(f, f->a);
    upgrading *u = begin_upgrade(f, f->a, hold, HF_FOREVER);
    cf_attempt *remote = cf_queue(f, cf_open(f), f->name, CF_WAIT(HF_READ));
    cf_attempt *local = cf_queue(f, f->a, f->name, CF_WAIT(HF_READ));
    CF_FREE(reader);
    UPGRADED(u);
    CF_STILL_WAITS(remote);
    CF_STILL_WAITS(local);
    uint64_t token = hf_fence(hold);
    CF_FREE(hold);
    hf_hold *one = cf_granted(remote), *two = cf_granted(local);
    assert_true(hf_fence(one) > token && hf_fence(two) > token);
    CF_FREE(one);
    CF_FREE(two);
}

static void B17_an_upgrade_goes_before_a_queued_writer(cf *f) {
    hf_client *const writing[] = {f->a, f->b};
    for (int i = 0; i < 2; i++) { /* in the same client, and in another */
        hf_client *third = cf_open(f);
        hf_hold *reader = CF_TAKE(third, f->name, CF_TRY(HF_READ, 0));
        hf_hold *hold = take_upgradable(f, f->a);
        cf_attempt *writer = cf_arrive(f, writing[i], f->name, CF_WAIT(HF_WRITE));
        cf_attempt *mutex = cf_arrive(f, cf_open(f), f->name, CF_WAIT(HF_MUTEX));
        uint64_t waiting = cf_stats(f->a).waiting;
        upgrading *u = cf_new(f, sizeof *u);
        u->hold = hold;
        u->wait_ms = HF_FOREVER;
        u->thread = cf_spawn(f, run_upgrade, u);
        CF_UNTIL(cf_stats(f->a).waiting == waiting + 1);
        CF_FREE(reader);
        UPGRADED(u);
        CF_STILL_WAITS(writer);
        CF_STILL_WAITS(mutex);
        check_writes(f, hold);
        uint64_t token = hf_fence(hold);
        CF_FREE(hold);
        hold = cf_granted(writer);
        assert_true(hf_fence(hold) > token);
        CF_STILL_WAITS(mutex);
        CF_FREE(hold);
        CF_FREE(cf_granted(mutex));
        cf_close(f, third);
    }
}

static void B17_an_upgrade_that_does_not_wait_is_busy_beside_a_reader(cf *f) {
    hf_hold *reader = CF_TAKE(f->b, f->name, CF_TRY(HF_READ, 0));
    hf_hold *hold = take_upgradable(f, f->a);
    uint64_t token = hf_fence(hold);
    int64_t started = t_now_ms();
    CF_IS(HF_BUSY, hf_upgrade(hold, 0));
    CF_AT_ONCE(started);
    assert_string_not_equal(hf_error_detail(), "");
    assert_true(hf_fence(hold) == token);
    check_upgradable(f, hold);
    assert_int_equal(cf_queued(f->b, f->name), 0);
    CF_FREE(reader);
    CF_IS(HF_OK, hf_upgrade(hold, 0));
    CF_FREE(hold);
}

/* With either result the hold does not change, and the queue advances. */
static void B17_an_upgrade_that_times_out_changes_nothing(cf *f) {
    hf_hold *reader = CF_TAKE(f->b, f->name, CF_TRY(HF_READ, 0));
    hf_hold *hold = take_upgradable(f, f->a);
    uint64_t token = hf_fence(hold);
    upgrading *u = begin_upgrade(f, f->a, hold, t_patience(400));
    cf_attempt *local = cf_queue(f, f->a, f->name, CF_WAIT(HF_READ));
    cf_attempt *remote = cf_queue(f, cf_open(f), f->name, CF_WAIT(HF_READ));
    ENDED(HF_TIMEOUT, u);
    assert_true(u->took_ms >= u->wait_ms);
    hf_hold *one = cf_granted(local), *two = cf_granted(remote);
    assert_true(hf_held(one) && hf_held(two) && hf_held(reader));
    CF_FREE(one);
    CF_FREE(two);
    assert_true(hf_fence(hold) == token);
    check_upgradable(f, hold);
    assert_int_equal(cf_queued(f->b, f->name), 0);
    CF_FREE(reader);
    CF_IS(HF_OK, hf_upgrade(hold, 0)); /* and it can still be upgraded */
    assert_true(hf_fence(hold) > token);
    check_writes(f, hold);
    CF_FREE(hold);
}

/* The upgrade precedes a writer only while it waits. */
static void B17_after_a_timeout_a_writer_still_waits_in_its_position(cf *f) {
    hf_hold *reader = CF_TAKE(f->b, f->name, CF_TRY(HF_READ, 0));
    hf_hold *hold = take_upgradable(f, f->a);
    cf_attempt *writer = cf_arrive(f, cf_open(f), f->name, CF_WAIT(HF_WRITE));
    CF_IS(HF_TIMEOUT, hf_upgrade(hold, 50));
    CF_FREE(reader);
    CF_STILL_WAITS(writer);
    assert_int_equal(hf_held(hold), 1);
    CF_REFUSED(HF_BUSY, f->b, f->name, CF_TRY(HF_READ, 0));
    CF_IS(HF_OK, hf_upgrade(hold, 0)); /* before the writer */
    CF_STILL_WAITS(writer);
    CF_FREE(hold);
    CF_FREE(cf_granted(writer));
}

/* ---- Holds that cannot be upgraded ----------------------------------------------------------- */

static void B17_an_upgrade_of_a_plain_reader_is_a_deadlock(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, CF_TRY(HF_READ, 0));
    uint64_t token = hf_fence(hold);
    int64_t started = t_now_ms();
    CF_IS(HF_DEADLOCK, hf_upgrade(hold, 0));
    assert_string_not_equal(hf_error_detail(), "");
    CF_IS(HF_DEADLOCK, hf_upgrade(hold, HF_FOREVER));
    hf_hold *beside = CF_TAKE(f->b, f->name, CF_TRY(HF_READ, 0));
    CF_IS(HF_DEADLOCK, hf_upgrade(hold, HF_FOREVER));
    CF_AT_ONCE(started);
    CF_FREE(beside);
    assert_true(hf_fence(hold) == token);
    assert_int_equal(hf_held(hold), 1);
    CF_FREE(hold);
}

static void B17_other_kinds_are_neither_upgraded_nor_downgraded(cf *f) {
    static const uint32_t kinds[] = {HF_MUTEX, HF_PERMITS};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        hf_hold *hold = CF_TAKE(f->a, f->name, CF_TRY(kinds[i], 0));
        uint64_t token = hf_fence(hold);
        CF_IS(HF_INVALID, hf_upgrade(hold, 0));
        CF_IS(HF_INVALID, hf_upgrade(hold, HF_FOREVER));
        assert_string_not_equal(hf_error_detail(), "");
        CF_IS(HF_INVALID, hf_downgrade(hold));
        assert_string_not_equal(hf_error_detail(), "");
        assert_true(hf_fence(hold) == token);
        CF_REFUSED(HF_BUSY, f->b, f->name, CF_TRY(HF_READ, 0));
        CF_FREE(hold);
    }
}

static void B17_a_change_to_the_present_kind_succeeds(cf *f) {
    hf_hold *writer = CF_TAKE(f->a, f->name, CF_TRY(HF_WRITE, 0));
    uint64_t token = hf_fence(writer);
    CF_IS(HF_OK, hf_upgrade(writer, 0));
    assert_true(hf_fence(writer) == token);
    check_writes(f, writer);
    CF_FREE(writer);

    hf_hold *reader = CF_TAKE(f->a, f->name, CF_TRY(HF_READ, 0));
    CF_IS(HF_OK, hf_downgrade(reader));
    CF_FREE(CF_TAKE(f->b, f->name, CF_TRY(HF_UPGRADABLE, 0)));
    CF_FREE(reader);
}

static void B17_bad_arguments_are_refused(cf *f) {
    static const int64_t bad[] = {-2, -1000, INT64_MIN};
    hf_hold *hold = take_upgradable(f, f->a);
    CF_IS(HF_INVALID, hf_upgrade(NULL, 0));
    CF_IS(HF_INVALID, hf_downgrade(NULL));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        CF_IS(HF_INVALID, hf_upgrade(hold, bad[i]));
    check_upgradable(f, hold);
    CF_FREE(hold);
}

static void B17_an_ended_hold_is_neither_upgraded_nor_downgraded(cf *f) {
    hf_hold *hold = take_upgradable(f, f->a);
    hf_hold *ref = hf_ref(hold);
    CF_FREE(hold);
    CF_IS(HF_NOT_HELD, hf_upgrade(ref, 0));
    CF_IS(HF_NOT_HELD, hf_downgrade(ref));
    hf_unref(ref);

    hold = take_upgradable(f, f->a);
    CF_IS(HF_OK, hf_break(f->b, f->name, 0));
    hf_hold *next = CF_TAKE(f->b, f->name, CF_TRY(HF_WRITE, 0));
    /* the store knows before the background thread does */
    CF_IS(HF_LOST, hf_upgrade(hold, HF_FOREVER));
    CF_IS(HF_LOST, hf_upgrade(hold, 0));
    CF_IS(HF_LOST, hf_downgrade(hold));
    CF_IS(HF_LOST, hf_release(hold));
    CF_IS(HF_OK, hf_downgrade(next));
    CF_FREE(next);

    hold = CF_TAKE(f->a, f->name, CF_TRY(HF_WRITE, 0));
    CF_IS(HF_OK, hf_break(f->b, f->name, 0));
    CF_IS(HF_LOST, hf_downgrade(hold));
    CF_IS(HF_LOST, hf_release(hold));

    hf_client *closing = cf_open(f);
    hold = take_upgradable(f, closing);
    cf_close(f, closing);
    CF_IS(HF_CLOSED, hf_upgrade(hold, 0));
    CF_IS(HF_CLOSED, hf_downgrade(hold));
    hf_unref(hold);
    CF_FREE(CF_TAKE(f->b, f->name, CF_TRY(HF_MUTEX, 0)));
}

/* ---- Holds that end during the wait ---------------------------------------------------------- */

static void B17_an_upgrade_of_a_hold_that_is_lost_meanwhile_returns_lost(cf *f) {
    cf_lost *lost = cf_new(f, sizeof *lost);
    hf_options with_on_lost = KEPT_UPGRADABLE;
    with_on_lost.on_lost = cf_on_lost;
    with_on_lost.arg = lost;
    hf_hold *reader = CF_TAKE(f->b, f->name, CF_TRY(HF_READ, 0));
    hf_hold *hold = CF_TAKE(f->a, f->name, &with_on_lost);
    upgrading *u = begin_upgrade(f, f->a, hold, HF_FOREVER);
    CF_IS(HF_OK, hf_break(f->b, f->name, hf_fence(hold)));
    ENDED(HF_LOST, u);
    CF_UNTIL(atomic_load(&lost->calls) == 1);
    assert_int_equal(hf_held(hold), 0);
    CF_FREE(CF_TAKE(f->b, f->name, CF_TRY(HF_UPGRADABLE, 1))); /* nothing of it is left */
    assert_int_equal(hf_held(reader), 1);
    CF_FREE(reader);
    CF_IS(HF_LOST, hf_release(hold));
}

static void B17_an_upgrade_of_a_hold_whose_lease_ends_returns_lost(cf *f) {
    hf_options dying = KEPT_UPGRADABLE;
    dying.flags = HF_NO_RENEW;
    dying.lease_ms = t_patience(2 * CF_SHORT_LEASE_MS);
    hf_hold *reader = CF_TAKE(f->b, f->name, CF_TRY(HF_READ, 0));
    hf_hold *hold = CF_TAKE(f->a, f->name, &dying);
    upgrading *u = begin_upgrade(f, f->a, hold, HF_FOREVER);
    ENDED(HF_LOST, u);
    CF_UNTIL(cf_can_acquire(f->b, f->name, CF_TRY(HF_UPGRADABLE, 1)));
    CF_FREE(reader);
    CF_IS(HF_LOST, hf_release(hold));
}

/* The queue entry that remains does not block the next operation: the reader's release, or an
   acquire. */
static void B17_the_upgrade_of_a_dead_hold_blocks_nobody(cf *f) {
    for (int both = 0; both < 2; both++) {
        hf_options dying = KEPT_UPGRADABLE, reading = {.kind = HF_READ};
        dying.flags = HF_NO_RENEW;
        if (both) reading.flags = HF_NO_RENEW;
        if (both) reading.lease_ms = t_patience(CF_SHORT_LEASE_MS);
        dying.lease_ms = t_patience(CF_SHORT_LEASE_MS);
        hf_hold *hold = CF_TAKE(f->a, f->name, &dying);
        hf_hold *reader = CF_TAKE(f->b, f->name, &reading);
        upgrading *u = begin_upgrade(f, f->a, hold, HF_FOREVER);
        ENDED(HF_LOST, u);
        t_sleep_ms(t_patience(CF_SHORT_LEASE_MS)); /* in the store, too */
        if (!both) CF_FREE(reader);
        hf_hold *next = CF_TAKE(f->b, f->name, CF_OPTIONS(HF_WRITE, .wait_ms = CF_GRANT_MS));
        check_writes(f, next);
        CF_IS(HF_LOST, hf_release(hold));
        assert_int_equal(hf_held(next), 1);
        CF_FREE(next);
        if (both) CF_IS(HF_LOST, hf_release(reader));
    }
}

static void B17_close_ends_an_upgrade_that_waits(cf *f) {
    hf_client *closing = cf_open(f);
    hf_hold *reader = CF_TAKE(f->b, f->name, CF_TRY(HF_READ, 0));
    hf_hold *hold = take_upgradable(f, closing);
    upgrading *u = begin_upgrade(f, closing, hold, HF_FOREVER);
    cf_attempt *waiter = cf_queue(f, f->b, f->name, CF_WAIT(HF_UPGRADABLE));
    cf_close(f, closing);
    ENDED(HF_CLOSED, u);
    CF_FREE(cf_granted(waiter)); /* beside the reader */
    CF_FREE(reader);
    hf_unref(hold);
}

static void B17_a_release_ends_an_upgrade_that_waits(cf *f) {
    hf_hold *reader = CF_TAKE(f->b, f->name, CF_TRY(HF_READ, 0));
    hf_hold *hold = take_upgradable(f, f->a), *ref = hf_ref(hold);
    upgrading *u = begin_upgrade(f, f->a, ref, HF_FOREVER);
    cf_attempt *waiter = cf_queue(f, cf_open(f), f->name, CF_WAIT(HF_READ));
    CF_FREE(hold);
    ENDED(HF_NOT_HELD, u);
    CF_FREE(cf_granted(waiter));
    CF_FREE(CF_TAKE(f->b, f->name, CF_TRY(HF_UPGRADABLE, 1)));
    assert_int_equal(cf_holders(f->b, f->name), 1);
    CF_FREE(reader);
    hf_unref(ref);
    CF_FREE(CF_TAKE(f->b, f->name, CF_TRY(HF_WRITE, 0)));
}

/* The wait is longer than the hold's lease, which is renewed during and after it. */
static void B15_renewal_keeps_a_hold_that_waits_for_its_upgrade(cf *f) {
    cf_lost *lost = cf_new(f, sizeof *lost);
    hf_options with_on_lost = KEPT_UPGRADABLE;
    with_on_lost.on_lost = cf_on_lost;
    with_on_lost.arg = lost;
    hf_hold *reader = CF_TAKE(f->b, f->name, CF_TRY(HF_READ, 0));
    hf_hold *hold = CF_TAKE(f->a, f->name, &with_on_lost);
    upgrading *u = begin_upgrade(f, f->a, hold, HF_FOREVER);
    uint64_t renewed = cf_stats(f->a).renewed;
    CF_UNTIL(cf_stats(f->a).renewed >= renewed + 4);
    assert_int_equal(hf_held(hold), 1);
    CF_REFUSED(HF_BUSY, f->b, f->name, CF_TRY(HF_READ, 1)); /* it still waits, renewed or not */
    assert_int_equal(atomic_load(&u->over), 0);
    CF_FREE(reader);
    UPGRADED(u);
    renewed = cf_stats(f->a).renewed;
    CF_UNTIL(cf_stats(f->a).renewed >= renewed + 4);
    check_writes(f, hold);
    CF_IS(HF_OK, hf_downgrade(hold));
    renewed = cf_stats(f->a).renewed;
    CF_UNTIL(cf_stats(f->a).renewed >= renewed + 4);
    check_upgradable(f, hold);
    CF_FREE(hold);
    assert_int_equal(atomic_load(&lost->calls), 0);
}

static void B17_an_upgrade_is_served_when_the_last_reader_has_died(cf *f) {
    hf_hold *hold = take_upgradable(f, f->a);
    hf_hold *dying = CF_TAKE(
        f->b, f->name,
        CF_OPTIONS(HF_READ, .lease_ms = t_patience(2 * CF_SHORT_LEASE_MS), .flags = HF_NO_RENEW));
    upgrading *u = begin_upgrade(f, f->a, hold, HF_FOREVER);
    UPGRADED(u);
    assert_int_equal(hf_held(dying), 0);
    CF_IS(HF_LOST, hf_release(dying));
    check_writes(f, hold);
    CF_FREE(hold);
}

static void B26_a_broken_upgraded_hold_is_reported(cf *f) {
    cf_lost *lost = cf_new(f, sizeof *lost);
    hf_options with_on_lost = KEPT_UPGRADABLE;
    with_on_lost.on_lost = cf_on_lost;
    with_on_lost.arg = lost;
    hf_hold *hold = CF_TAKE(f->a, f->name, &with_on_lost);
    uint64_t old = hf_fence(hold);
    CF_IS(HF_OK, hf_upgrade(hold, 0));
    CF_IS(HF_NOT_HELD, hf_break(f->b, f->name, old)); /* that token is no longer valid */
    CF_IS(HF_OK, hf_break(f->b, f->name, hf_fence(hold)));
    CF_UNTIL(atomic_load(&lost->calls) == 1);
    assert_true(atomic_load(&lost->token) == hf_fence(hold));
    CF_IS(HF_LOST, hf_release(hold));
}

/* ---- Downgrade ------------------------------------------------------------------------------- */

static void B17_a_downgraded_writer_is_a_reader(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, CF_TRY(HF_WRITE, 0));
    uint64_t token = hf_fence(hold);
    CF_IS(HF_OK, hf_downgrade(hold));
    assert_int_equal(hf_held(hold), 1);
    assert_true(hf_fence(hold) == token);
    CF_FREE(CF_TAKE(f->b, f->name, CF_TRY(HF_READ, 0)));
    CF_FREE(CF_TAKE(f->a, f->name, CF_TRY(HF_UPGRADABLE, 1)));
    CF_REFUSED(HF_BUSY, f->b, f->name, CF_TRY(HF_WRITE, 0));
    CF_REFUSED(HF_BUSY, f->b, f->name, CF_TRY(HF_MUTEX, 0));
    CF_IS(HF_DEADLOCK, hf_upgrade(hold, HF_FOREVER)); /* a plain reader */
    CF_REFUSED(HF_DEADLOCK, f->a, f->name, CF_WAIT(HF_WRITE));
    CF_IS(HF_OK, hf_downgrade(hold));
    CF_FREE(hold);
    CF_FREE(CF_TAKE(f->b, f->name, CF_TRY(HF_WRITE, 0)));
}

/* Readers are first, a writer behind them: the readers enter beside the downgraded hold, and the
   writer waits for all of them. */
static void B17_a_downgrade_lets_readers_in_and_no_writer(cf *f) {
    hf_client *const reading[] = {f->a, f->b};
    for (int i = 0; i < 2; i++) {
        hf_hold *hold = CF_TAKE(f->a, f->name, CF_TRY(HF_WRITE, 0));
        cf_attempt *reader = cf_arrive(f, reading[i], f->name, CF_WAIT(HF_READ));
        cf_attempt *writer = cf_arrive(f, cf_open(f), f->name, CF_WAIT(HF_WRITE));
        uint64_t token = hf_fence(hold);
        CF_IS(HF_OK, hf_downgrade(hold));
        hf_hold *beside = cf_granted(reader);
        assert_true(hf_fence(beside) > token);
        CF_STILL_WAITS(writer);
        assert_true(hf_held(hold) && hf_held(beside));
        assert_int_equal(cf_holders(f->b, f->name), 2);
        CF_REFUSED(HF_BUSY, f->b, f->name, CF_TRY(HF_READ, 9)); /* the writer was first */
        CF_FREE(hold);
        CF_STILL_WAITS(writer);
        CF_FREE(beside);
        CF_FREE(cf_granted(writer));
    }
}

/* A writer is first: it waits for the downgraded hold, and later arrivals wait for the writer. */
static void B17_a_downgrade_keeps_the_order_of_the_queue(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, CF_TRY(HF_WRITE, 0));
    cf_attempt *writer = cf_arrive(f, f->b, f->name, CF_WAIT(HF_WRITE));
    cf_attempt *reader = cf_arrive(f, cf_open(f), f->name, CF_WAIT(HF_READ));
    uint64_t token = hf_fence(hold);
    CF_IS(HF_OK, hf_downgrade(hold));
    CF_STILL_WAITS(writer);
    CF_STILL_WAITS(reader);
    assert_int_equal(cf_holders(f->b, f->name), 1);
    CF_FREE(hold);
    hold = cf_granted(writer);
    assert_true(hf_fence(hold) > token);
    CF_STILL_WAITS(reader);
    CF_FREE(hold);
    CF_FREE(cf_granted(reader));
}

static void B17_a_downgrade_of_the_upgraded_is_upgradable_again(cf *f) {
    hf_hold *hold = take_upgradable(f, f->a);
    for (int i = 0; i < 3; i++) {
        uint64_t token = hf_fence(hold);
        CF_IS(HF_OK, hf_upgrade(hold, 0));
        assert_true(hf_fence(hold) > token);
        token = hf_fence(hold);
        check_writes(f, hold);
        CF_IS(HF_OK, hf_downgrade(hold));
        assert_true(hf_fence(hold) == token);
        check_upgradable(f, hold);
        CF_IS(HF_OK, hf_downgrade(hold)); /* it is a reader */
        check_upgradable(f, hold);
    }
    CF_FREE(hold);
    CF_FREE(CF_TAKE(f->b, f->name, CF_TRY(HF_WRITE, 0)));
}

static void B17_a_downgrade_of_the_upgraded_lets_readers_in(cf *f) {
    hf_hold *hold = take_upgradable(f, f->a);
    CF_IS(HF_OK, hf_upgrade(hold, 0));
    cf_attempt *reader = cf_arrive(f, f->b, f->name, CF_WAIT(HF_READ));
    cf_attempt *upgradable = cf_arrive(f, cf_open(f), f->name, CF_WAIT(HF_UPGRADABLE));
    CF_IS(HF_OK, hf_downgrade(hold));
    hf_hold *beside = cf_granted(reader);
    CF_STILL_WAITS(upgradable);
    CF_FREE(hold);
    CF_FREE(cf_granted(upgradable));
    CF_FREE(beside);
}

/* ---- One owner ------------------------------------------------------------------------------- */

static void B17_all_handles_of_an_ownership_change_together(cf *f) {
    hf_hold *one = take_upgradable(f, f->a), *two = take_upgradable(f, f->a);
    hf_hold *reading = CF_TAKE(f->a, f->name, CF_TRY(HF_READ, 0));
    uint64_t token = hf_fence(one);
    assert_true(hf_fence(two) == token && hf_fence(reading) == token);
    assert_int_equal(cf_holders(f->b, f->name), 1);
    T_WAIT_UNTIL(cf_count(f->b, f->name) == 3, CF_GRANT_MS);
    CF_IS(HF_OK, hf_upgrade(two, 0));
    T_WAIT_UNTIL(cf_count(f->b, f->name) == 3, CF_GRANT_MS);
    assert_true(hf_fence(one) > token);
    assert_true(hf_fence(two) == hf_fence(one) && hf_fence(reading) == hf_fence(one));
    check_writes(f, one);
    CF_IS(HF_OK, hf_upgrade(one, 0));
    CF_FREE(two);
    check_writes(f, one);
    T_WAIT_UNTIL(cf_count(f->b, f->name) == 2, CF_GRANT_MS);
    CF_IS(HF_OK, hf_downgrade(reading));
    T_WAIT_UNTIL(cf_count(f->b, f->name) == 2, CF_GRANT_MS);
    CF_FREE(reading);
    check_upgradable(f, one);
    CF_FREE(one);
    CF_FREE(CF_TAKE(f->b, f->name, CF_TRY(HF_WRITE, 0)));
}

/* The held kind covers the requested kind: the owner re-enters. */
static void B17_an_owner_re_enters_what_its_hold_covers(cf *f) {
    static const struct {
        uint32_t held, wanted;
    } covered[] = {
        {HF_WRITE, HF_WRITE},           {HF_WRITE, HF_UPGRADABLE}, {HF_WRITE, HF_READ},
        {HF_UPGRADABLE, HF_UPGRADABLE}, {HF_UPGRADABLE, HF_READ},  {HF_READ, HF_READ},
    };
    for (size_t i = 0; i < sizeof covered / sizeof *covered; i++) {
        hf_hold *hold = CF_TAKE(f->a, f->name, CF_TRY(covered[i].held, 0));
        cf_attempt *writer = cf_arrive(f, f->b, f->name, CF_WAIT(HF_WRITE));
        hf_hold *again = CF_TAKE(f->a, f->name, CF_WAIT(covered[i].wanted));
        assert_true(hf_fence(again) == hf_fence(hold));
        CF_FREE(hold);
        CF_STILL_WAITS(writer);
        CF_FREE(again);
        CF_FREE(cf_granted(writer));
    }
}

/* The held kind does not cover the request, so it would wait for itself: hf_upgrade is the way. */
static void B17_a_request_beyond_the_held_kind_is_a_deadlock(cf *f) {
    static const struct {
        uint32_t held, wanted;
    } more[] = {
        {HF_READ, HF_WRITE},
        {HF_READ, HF_MUTEX},
        {HF_UPGRADABLE, HF_WRITE},
        {HF_UPGRADABLE, HF_MUTEX},
    };
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        hf_hold *hold = CF_TAKE(f->a, f->name, CF_TRY(more[i].held, 0));
        hf_hold *reader = CF_TAKE(f->b, f->name, CF_TRY(HF_READ, 0));
        int64_t started = t_now_ms();
        CF_REFUSED(HF_DEADLOCK, f->a, f->name, CF_TRY(more[i].wanted, 0));
        CF_REFUSED(HF_DEADLOCK, f->a, f->name, CF_WAIT(more[i].wanted));
        CF_AT_ONCE(started);
        assert_int_equal(hf_held(hold), 1);
        CF_FREE(reader);
        CF_FREE(hold);
    }
}

static void B17_re_entry_after_an_upgrade_is_as_a_writer(cf *f) {
    hf_hold *hold = take_upgradable(f, f->a);
    CF_IS(HF_OK, hf_upgrade(hold, 0));
    hf_hold *writing = CF_TAKE(f->a, f->name, CF_TRY(HF_WRITE, 0));
    assert_true(hf_fence(writing) == hf_fence(hold));
    CF_FREE(hold);
    check_writes(f, writing);
    CF_FREE(writing);
}

/* Any thread may upgrade, just as any thread may release. */
static void B24_any_thread_may_upgrade(cf *f) {
    hf_hold *hold = take_upgradable(f, f->a);
    upgrading *u = cf_new(f, sizeof *u);
    u->hold = hold;
    u->thread = cf_spawn(f, run_upgrade, u);
    UPGRADED(u);
    CF_FREE(CF_TAKE(f->a, f->name, CF_TRY(HF_WRITE, 0))); /* the owner is still this thread */
    check_writes(f, hold);
    CF_FREE(hold);
}

/* Two upgrades at once: both return HF_OK. */
static void B17_two_upgrades_of_one_ownership_are_both_done(cf *f) {
    hf_hold *reader = CF_TAKE(f->b, f->name, CF_TRY(HF_READ, 0));
    hf_hold *one = take_upgradable(f, f->a), *two = take_upgradable(f, f->a);
    upgrading *first = begin_upgrade(f, f->a, one, HF_FOREVER);
    upgrading *second = cf_new(f, sizeof *second);
    second->hold = two;
    second->wait_ms = HF_FOREVER;
    uint64_t waiting = cf_stats(f->a).waiting;
    second->thread = cf_spawn(f, run_upgrade, second);
    CF_UNTIL(cf_stats(f->a).waiting == waiting + 1);
    CF_FREE(reader);
    UPGRADED(first);
    UPGRADED(second);
    assert_true(hf_fence(one) == hf_fence(two));
    check_writes(f, one);
    CF_FREE(one);
    CF_FREE(two);
}

/* One of two upgrades gives up: the other still waits, before all other waiters. */
static void B17_an_upgrade_outlives_the_timeout_of_another(cf *f) {
    hf_hold *reader = CF_TAKE(f->b, f->name, CF_TRY(HF_READ, 0));
    hf_hold *hold = take_upgradable(f, f->a);
    upgrading *patient = begin_upgrade(f, f->a, hold, HF_FOREVER);
    CF_IS(HF_TIMEOUT, hf_upgrade(hold, 50));
    CF_IS(HF_BUSY, hf_upgrade(hold, 0));
    CF_KEPT_OUT(f->b, f->name, CF_TRY(HF_READ, 1));
    assert_int_equal(atomic_load(&patient->over), 0);
    CF_FREE(reader);
    UPGRADED(patient);
    CF_FREE(hold);
}

/* ---- Many threads ---------------------------------------------------------------------------- */

typedef struct upgrade_library {
    const char *name;
    atomic_int readers, writers, upgradables;
    atomic_int collisions, failures;
    atomic_long writes, timeouts;
} upgrade_library;

enum { ROUNDS = 20 };

static void note_result(upgrade_library *l, hf_result result) {
    if (result != HF_OK) atomic_fetch_add(&l->failures, 1);
}

static void write_alone(upgrade_library *l) {
    if (atomic_fetch_add(&l->writers, 1)) atomic_fetch_add(&l->collisions, 1);
    if (atomic_load(&l->readers)) atomic_fetch_add(&l->collisions, 1);
    sched_yield();
    if (atomic_load(&l->readers)) atomic_fetch_add(&l->collisions, 1);
    atomic_fetch_add(&l->writes, 1);
    atomic_fetch_sub(&l->writers, 1);
}

static void visit_upgrading(upgrade_library *l, hf_client *client, int round) {
    hf_hold *hold = NULL;
    hf_result result = hf_acquire(client, l->name, CF_WAIT(HF_UPGRADABLE), &hold);
    note_result(l, result);
    if (result != HF_OK) return;
    if (atomic_fetch_add(&l->upgradables, 1)) atomic_fetch_add(&l->collisions, 1);
    if (atomic_load(&l->writers)) atomic_fetch_add(&l->collisions, 1);
    uint64_t token = hf_fence(hold);
    result = hf_upgrade(hold, round % 3 ? HF_FOREVER : 1);
    if (result == HF_TIMEOUT) {
        atomic_fetch_add(&l->timeouts, 1);
        if (hf_fence(hold) != token || !hf_held(hold)) atomic_fetch_add(&l->failures, 1);
    } else {
        note_result(l, result);
        if (hf_fence(hold) <= token) atomic_fetch_add(&l->failures, 1);
        write_alone(l);
        if (round % 2) note_result(l, hf_downgrade(hold));
    }
    atomic_fetch_sub(&l->upgradables, 1);
    note_result(l, hf_release(hold));
}

static void visit_otherwise(upgrade_library *l, hf_client *client, uint32_t kind) {
    hf_hold *hold = NULL;
    hf_result result = hf_acquire(client, l->name, CF_WAIT(kind), &hold);
    note_result(l, result);
    if (result != HF_OK) return;
    if (kind == HF_WRITE) {
        write_alone(l);
        note_result(l, hf_downgrade(hold));
    }
    atomic_fetch_add(&l->readers, 1);
    if (atomic_load(&l->writers)) atomic_fetch_add(&l->collisions, 1);
    sched_yield();
    if (atomic_load(&l->writers)) atomic_fetch_add(&l->collisions, 1);
    atomic_fetch_sub(&l->readers, 1);
    note_result(l, hf_release(hold));
}

static void run_visitor(void *arg) {
    cf_visitor *v = arg;
    for (int i = 0; i < ROUNDS; i++) {
        switch ((v->index + i) % 4) {
        case 0: visit_upgrading(v->arg, v->client, i); break;
        case 1: visit_otherwise(v->arg, v->client, HF_WRITE); break;
        default: visit_otherwise(v->arg, v->client, HF_READ);
        }
    }
}

static void B17_many_upgrades_and_downgrades_keep_exclusion_and_all_finish(cf *f) {
    enum { CLIENTS = 3, THREADS = 5 };
    upgrade_library *l = cf_new(f, sizeof *l);
    l->name = f->name;
    cf_crowd(f, CLIENTS, THREADS, run_visitor, l);
    assert_int_equal(l->failures, 0);
    assert_int_equal(l->collisions, 0);
    assert_int_equal(l->writes + l->timeouts, CLIENTS * THREADS * ROUNDS / 2);
    assert_int_equal(cf_holders(f->a, f->name), 0);
    assert_int_equal(cf_queued(f->a, f->name), 0);
}

/* An upgrade granted just as its time ended is undone after the call returns; a waiting reader
   shows when that is done. */
static void wait_until_undone(cf *f) {
    CF_FREE(CF_TAKE(f->b, f->name, CF_OPTIONS(HF_READ, .wait_ms = CF_GRANT_MS)));
}

/* The reader leaves as the upgrade's time ends. Either result is correct, and the queue
   advances. */
static void B20_a_timeout_racing_the_last_reader_leaves_a_valid_hold(cf *f) {
    for (int i = 0; i < 25; i++) {
        hf_hold *reader = CF_TAKE(f->b, f->name, CF_TRY(HF_READ, 0));
        hf_hold *hold = take_upgradable(f, f->a);
        uint64_t token = hf_fence(hold);
        upgrading *u = cf_new(f, sizeof *u);
        u->hold = hold;
        u->wait_ms = 10;
        u->thread = cf_spawn(f, run_upgrade, u);
        for (int64_t end = t_now_us() + 9000 + i * 100; t_now_us() < end;) sched_yield();
        CF_FREE(reader);
        cf_join(u->thread);
        if (u->result == HF_OK) {
            assert_true(hf_fence(hold) > token);
            check_writes(f, hold);
        } else {
            ENDED(HF_TIMEOUT, u);
            assert_true(hf_fence(hold) == token);
            wait_until_undone(f);
            check_upgradable(f, hold);
        }
        CF_FREE(hold);
        CF_FREE(CF_TAKE(f->b, f->name, CF_TRY(HF_WRITE, 0)));
    }
}

/* ---- Processes ------------------------------------------------------------------------------- */

/* Two children in turn, both forked before any thread starts. */
typedef struct upgrade_stage {
    const char *name;
    atomic_int begin, ready, go;
} upgrade_stage;

static upgrade_stage *new_stages(cf *f, t_proc_fn *fn, t_proc *children[2]) {
    upgrade_stage *stages = t_shared_new(2 * sizeof *stages);
    for (int i = 0; i < 2; i++) {
        stages[i].name = f->name;
        children[i] = t_proc_start(fn, &stages[i]);
    }
    return stages;
}

static void begin_stage(upgrade_stage *s) {
    atomic_store(&s->begin, 1);
    CF_UNTIL(atomic_load(&s->ready));
}

static int read_in_child(void *arg) {
    upgrade_stage *s = arg;
    hf_client *client = NULL;
    CF_IS(HF_OK, hf_open(cf_url(), NULL, &client));
    CF_UNTIL(atomic_load(&s->begin));
    hf_hold *hold = CF_TAKE(client, s->name, CF_OPTIONS(HF_READ, .lease_ms = CF_KEPT_LEASE_MS));
    atomic_store(&s->ready, 1);
    CF_UNTIL(atomic_load(&s->go));
    CF_FREE(hold);
    hf_close(client);
    return 0;
}

static void B17_an_upgrade_waits_for_readers_of_other_processes(cf *f) {
    t_proc *children[2];
    upgrade_stage *stages = new_stages(f, read_in_child, children);
    for (int killed = 0; killed < 2; killed++) {
        upgrade_stage *s = &stages[killed];
        t_proc *child = children[killed];
        begin_stage(s);
        hf_hold *hold = take_upgradable(f, f->a);
        upgrading *u = begin_upgrade(f, f->a, hold, HF_FOREVER);
        if (killed)
            t_proc_kill(child, SIGKILL);
        else
            atomic_store(&s->go, 1);
        assert_int_equal(t_proc_wait(child, CF_WATCHDOG_MS), killed ? 128 + SIGKILL : 0);
        UPGRADED(u);
        check_writes(f, hold);
        CF_FREE(hold);
    }
    t_shared_free(stages, 2 * sizeof *stages);
}

/* The store keeps its promise to the holder: an upgrade that the holder does not notice must not
   shorten the hold. */
static int upgrade_in_child(void *arg) {
    upgrade_stage *s = arg;
    hf_client *client = NULL;
    CF_IS(HF_OK, hf_open(cf_url(), NULL, &client));
    hf_hold *hold = CF_TAKE(client, s->name, CF_TRY(HF_UPGRADABLE, 0));
    atomic_store(&s->ready, 1);
    CF_UNTIL(atomic_load(&s->go));
    CF_IS(HF_OK, hf_upgrade(hold, HF_FOREVER));
    CF_FREE(hold);
    hf_close(client);
    return 0;
}

static int64_t remaining_ms(cf *f) {
    hf_info *info = cf_inspect(f->b, f->name);
    int64_t ms = info->remaining_ms;
    hf_info_free(info);
    return ms;
}

static void F03_an_upgrade_of_a_stopped_process_shortens_nothing(cf *f) {
    upgrade_stage *s = t_shared_new(sizeof *s);
    s->name = f->name;
    t_proc *child = t_proc_start(upgrade_in_child, s);
    CF_UNTIL(atomic_load(&s->ready));
    hf_hold *reader = CF_TAKE(f->a, f->name, CF_TRY(HF_READ, 0));
    atomic_store(&s->go, 1);
    CF_UNTIL(cf_queued(f->b, f->name) == 1);
    t_proc_kill(child, SIGSTOP);
    CF_FREE(reader);
    assert_int_equal(cf_holders(f->b, f->name), 1);
    assert_in_range(remaining_ms(f), 15000, 30000); /* its holder relies on 30 s from before */
    t_proc_kill(child, SIGCONT);
    assert_int_equal(t_proc_wait(child, CF_WATCHDOG_MS), 0);
    CF_FREE(CF_TAKE(f->b, f->name, CF_TRY(HF_WRITE, 0)));
    t_shared_free(s, sizeof *s);
}

static int lose_in_child(void *arg) {
    upgrade_stage *s = arg;
    hf_client *client = NULL;
    CF_IS(HF_OK, hf_open(cf_url(), NULL, &client));
    CF_UNTIL(atomic_load(&s->begin));
    hf_hold *hold = CF_TAKE(client, s->name, &KEPT_UPGRADABLE);
    atomic_store(&s->ready, 1);
    CF_UNTIL(atomic_load(&s->go));
    CF_IS(HF_LOST, hf_upgrade(hold, HF_FOREVER));
    CF_IS(HF_LOST, hf_release(hold));
    hf_close(client);
    return 0;
}

static int read_upgradably_in_child(void *arg) {
    upgrade_stage *s = arg;
    hf_client *client = NULL;
    CF_IS(HF_OK, hf_open(cf_url(), NULL, &client));
    (void)CF_TAKE(client, s->name, &KEPT_UPGRADABLE);
    atomic_store(&s->ready, 1);
    t_sleep_ms(t_patience(CF_WATCHDOG_MS));
    return 1; /* not reached: the process is killed */
}

static uint32_t kind_seen(cf *f) {
    hf_info *info = cf_inspect(f->b, f->name);
    uint32_t kind = info->kind;
    hf_info_free(info);
    return kind;
}

static void B27_a_reader_beside_a_dead_upgradable_one_is_a_reader(cf *f) {
    upgrade_stage *s = t_shared_new(sizeof *s);
    s->name = f->name;
    t_proc *child = t_proc_start(read_upgradably_in_child, s);
    CF_UNTIL(atomic_load(&s->ready));
    assert_int_equal(kind_seen(f), HF_UPGRADABLE);
    hf_hold *reader = CF_TAKE(f->a, f->name, CF_TRY(HF_READ, 0));
    t_proc_kill(child, SIGKILL);
    assert_int_equal(t_proc_wait(child, CF_WATCHDOG_MS), 128 + SIGKILL);
    CF_UNTIL(cf_holders(f->b, f->name) == 1);
    assert_int_equal(kind_seen(f), HF_READ);
    CF_FREE(reader);
    t_shared_free(s, sizeof *s);
}

/* Its hold has ended, but its queue entry has not. Later arrivals are still served. */
static void F03_an_upgrade_of_a_stopped_process_blocks_nobody(cf *f) {
    t_proc *children[2];
    upgrade_stage *stages = new_stages(f, lose_in_child, children);
    for (int both = 0; both < 2; both++) {
        upgrade_stage *s = &stages[both];
        t_proc *child = children[both];
        begin_stage(s);
        hf_options reading = {.kind = HF_READ, .lease_ms = CF_KEPT_LEASE_MS};
        if (both) reading.flags = HF_NO_RENEW;
        hf_hold *reader = CF_TAKE(f->a, f->name, &reading);
        atomic_store(&s->go, 1);
        CF_UNTIL(cf_queued(f->b, f->name) == 1);
        t_proc_kill(child, SIGSTOP);
        t_sleep_ms(CF_PAST_LEASE_MS); /* leases that were not renewed have ended */
        CF_IS(both ? HF_LOST : HF_OK, hf_release(reader));
        if (cf_has(CF_OWN_CLOCK)) { /* a stopped holder keeps its lock until it continues */
            CF_REFUSED(HF_BUSY, f->b, f->name, CF_TRY(HF_WRITE, 0));
            t_proc_kill(child, SIGCONT);
        }
        hf_hold *next = CF_TAKE(f->b, f->name, CF_OPTIONS(HF_WRITE, .wait_ms = CF_GRANT_MS));
        check_writes(f, next);
        t_proc_kill(child, SIGCONT);
        assert_int_equal(t_proc_wait(child, CF_WATCHDOG_MS), 0);
        check_writes(f, next);
        CF_FREE(next);
    }
    t_shared_free(stages, 2 * sizeof *stages);
}

/* An upgrade granted as its wait ends must not shorten a hold without renewal. */
static void B20_a_timeout_racing_the_last_reader_shortens_nothing(cf *f) {
    for (int i = 0; i < 25; i++) {
        hf_hold *reader = CF_TAKE(f->b, f->name, CF_TRY(HF_READ, 0));
        hf_hold *hold = CF_TAKE(f->a, f->name, CF_OPTIONS(HF_UPGRADABLE, .flags = HF_NO_RENEW));
        upgrading *u = cf_new(f, sizeof *u);
        u->hold = hold;
        u->wait_ms = 10;
        u->thread = cf_spawn(f, run_upgrade, u);
        for (int64_t end = t_now_us() + 9000 + i * 100; t_now_us() < end;) sched_yield();
        CF_FREE(reader);
        cf_join(u->thread);
        if (u->result != HF_OK) {
            ENDED(HF_TIMEOUT, u);
            wait_until_undone(f);
        }
        CF_IS(HF_OK, hf_downgrade(hold));
        int64_t in_store = remaining_ms(f);
        assert_true(in_store >= hf_remaining_ms(hold));
        CF_FREE(hold);
    }
}

/* In a client without threads, the waiting call does the work. */
static void B17_an_upgrade_waits_in_a_client_without_threads(cf *f) {
    hf_client *client = cf_open_url(f, cf_url(), &(hf_client_options){.flags = HF_NO_THREAD});
    hf_hold *reader = CF_TAKE(f->b, f->name, CF_TRY(HF_READ, 0));
    hf_hold *hold =
        CF_TAKE(client, f->name, CF_OPTIONS(HF_UPGRADABLE, .lease_ms = CF_KEPT_LEASE_MS));
    CF_IS(HF_BUSY, hf_upgrade(hold, 0));
    CF_IS(HF_TIMEOUT, hf_upgrade(hold, CF_PAST_LEASE_MS)); /* renewed meanwhile */
    CF_UNTIL(hf_dispatch(client) == HF_OK && cf_can_acquire(f->a, f->name, CF_TRY(HF_READ, 0)));
    upgrading *u = cf_new(f, sizeof *u);
    u->hold = hold;
    u->wait_ms = HF_FOREVER;
    u->thread = cf_spawn(f, run_upgrade, u);
    CF_KEPT_OUT(f->a, f->name, CF_TRY(HF_READ, 0));
    CF_FREE(reader);
    UPGRADED(u);
    CF_IS(HF_OK, hf_downgrade(hold));
    CF_FREE(CF_TAKE(f->a, f->name, CF_TRY(HF_READ, 0)));
    CF_FREE(hold);
}

const cf_case cf_upgrade[] = {
    CF_CASE_NEEDS(B17_an_upgradable_reader_shares_with_readers_and_not_with_another, CF_KINDS),
    CF_CASE_NEEDS(B17_the_next_upgradable_reader_enters_after_it, CF_KINDS),
    CF_CASE_NEEDS(B17_a_waiting_writer_holds_back_an_upgradable_reader, CF_KINDS),
    CF_CASE_NEEDS(B17_a_waiting_upgradable_reader_holds_back_later_ones, CF_KINDS),
    CF_CASE_NEEDS(B17_an_upgrade_without_readers_is_done_at_once, CF_KINDS),
    CF_CASE_NEEDS(B17_an_upgrade_waits_for_the_readers, CF_KINDS),
    CF_CASE_NEEDS(B17_readers_that_arrive_meanwhile_enter_after_the_upgraded_hold, CF_KINDS),
    CF_CASE_NEEDS(B17_an_upgrade_goes_before_a_queued_writer, CF_KINDS),
    CF_CASE_NEEDS(B17_an_upgrade_that_does_not_wait_is_busy_beside_a_reader, CF_KINDS),
    CF_CASE_NEEDS(B17_an_upgrade_that_times_out_changes_nothing, CF_KINDS),
    CF_CASE_NEEDS(B17_after_a_timeout_a_writer_still_waits_in_its_position, CF_KINDS),
    CF_CASE_NEEDS(B17_an_upgrade_of_a_plain_reader_is_a_deadlock, CF_KINDS),
    CF_CASE_NEEDS(B17_other_kinds_are_neither_upgraded_nor_downgraded, CF_KINDS),
    CF_CASE_NEEDS(B17_a_change_to_the_present_kind_succeeds, CF_KINDS),
    CF_CASE_NEEDS(B17_bad_arguments_are_refused, CF_KINDS),
    CF_CASE_NEEDS(B17_an_ended_hold_is_neither_upgraded_nor_downgraded, CF_KINDS),
    CF_CASE_NEEDS(B17_an_upgrade_of_a_hold_that_is_lost_meanwhile_returns_lost, CF_KINDS),
    CF_CASE_NEEDS(B17_an_upgrade_of_a_hold_whose_lease_ends_returns_lost, CF_KINDS),
    CF_CASE_NEEDS(B17_the_upgrade_of_a_dead_hold_blocks_nobody, CF_KINDS),
    CF_CASE_NEEDS(B17_close_ends_an_upgrade_that_waits, CF_KINDS),
    CF_CASE_NEEDS(B17_a_release_ends_an_upgrade_that_waits, CF_KINDS),
    CF_CASE_NEEDS(B15_renewal_keeps_a_hold_that_waits_for_its_upgrade, CF_KINDS),
    CF_CASE_NEEDS(B17_an_upgrade_is_served_when_the_last_reader_has_died, CF_KINDS),
    CF_CASE_NEEDS(B26_a_broken_upgraded_hold_is_reported, CF_KINDS),
    CF_CASE_NEEDS(B17_a_downgraded_writer_is_a_reader, CF_KINDS),
    CF_CASE_NEEDS(B17_a_downgrade_lets_readers_in_and_no_writer, CF_KINDS),
    CF_CASE_NEEDS(B17_a_downgrade_keeps_the_order_of_the_queue, CF_KINDS),
    CF_CASE_NEEDS(B17_a_downgrade_of_the_upgraded_is_upgradable_again, CF_KINDS),
    CF_CASE_NEEDS(B17_a_downgrade_of_the_upgraded_lets_readers_in, CF_KINDS),
    CF_CASE_NEEDS(B17_all_handles_of_an_ownership_change_together, CF_KINDS),
    CF_CASE_NEEDS(B17_an_owner_re_enters_what_its_hold_covers, CF_KINDS),
    CF_CASE_NEEDS(B17_a_request_beyond_the_held_kind_is_a_deadlock, CF_KINDS),
    CF_CASE_NEEDS(B17_re_entry_after_an_upgrade_is_as_a_writer, CF_KINDS),
    CF_CASE_NEEDS(B24_any_thread_may_upgrade, CF_KINDS),
    CF_CASE_NEEDS(B17_two_upgrades_of_one_ownership_are_both_done, CF_KINDS),
    CF_CASE_NEEDS(B17_an_upgrade_outlives_the_timeout_of_another, CF_KINDS),
    CF_CASE_NEEDS(B17_many_upgrades_and_downgrades_keep_exclusion_and_all_finish, CF_KINDS),
    CF_CASE_NEEDS(B20_a_timeout_racing_the_last_reader_leaves_a_valid_hold, CF_KINDS),
    CF_CASE_NEEDS(B17_an_upgrade_waits_for_readers_of_other_processes, CF_KINDS | CF_PROCESSES),
    CF_CASE_NEEDS(F03_an_upgrade_of_a_stopped_process_shortens_nothing, CF_KINDS | CF_PROCESSES),
    CF_CASE_NEEDS(B27_a_reader_beside_a_dead_upgradable_one_is_a_reader, CF_KINDS | CF_PROCESSES),
    CF_CASE_NEEDS(F03_an_upgrade_of_a_stopped_process_blocks_nobody, CF_KINDS | CF_PROCESSES),
    CF_CASE_NEEDS(B20_a_timeout_racing_the_last_reader_shortens_nothing, CF_KINDS),
    CF_CASE_NEEDS(B17_an_upgrade_waits_in_a_client_without_threads, CF_KINDS),
    CF_CASES_END,
};
