/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Readers and writers (B16): which kinds share a lock, which exclude each other, and in what order
 * they enter. Each reader ends by itself.
 *
 * A case sees a waiter in the store's queue before the next one arrives. Exclusion is checked by a
 * try, never by a wait.
 */
#include "conformance.h"

#include <sched.h>

#include "t_proc.h"

static const uint32_t ALONE[] = {HF_WRITE, HF_MUTEX};
enum { ALONES = 2 };

/* ---- Sharing --------------------------------------------------------------------------------- */

enum { READERS = 4 };

/* All are held, each with its own handle. */
static void check_readers(hf_hold *const *holds, size_t count) {
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(hf_held(holds[i]), 1);
        for (size_t k = 0; k < i; k++) assert_ptr_not_equal(holds[i], holds[k]);
    }
}

/* Release them one by one. No writer enters before the last one, and the writer has a higher token
   than all of them. */
static void free_readers(cf *f, hf_hold *const *holds, size_t count) {
    uint64_t highest = 0;
    for (size_t i = 0; i < count; i++) {
        if (hf_fence(holds[i]) > highest) highest = hf_fence(holds[i]);
        CF_REFUSED(HF_BUSY, f->a, f->name, CF_TRY(HF_WRITE, 99));
        CF_REFUSED(HF_BUSY, f->b, f->name, CF_TRY(HF_WRITE, 99));
        CF_REFUSED(HF_BUSY, f->b, f->name, CF_TRY(HF_MUTEX, 99));
        CF_FREE(holds[i]);
    }
    hf_hold *writer = CF_TAKE(f->b, f->name, CF_TRY(HF_WRITE, 0));
    assert_true(hf_fence(writer) > highest);
    CF_FREE(writer);
}

static void B16_readers_of_a_client_share(cf *f) {
    hf_hold *holds[READERS];
    holds[0] = CF_TAKE(f->a, f->name, CF_TRY(HF_READ, 0));
    for (uint64_t i = 1; i < READERS - 1; i++)
        holds[i] = CF_TAKE(f->a, f->name, CF_TRY(HF_READ, i));
    CF_IS(HF_OK, cf_acquire_in_thread(f, f->a, f->name, CF_TRY(HF_READ, 0), &holds[READERS - 1]));
    check_readers(holds, READERS);
    hf_info *info = cf_inspect(f->b, f->name);
    assert_int_equal(info->kind, HF_READ);
    assert_in_range(info->holders, 1, READERS); /* readers of one client may share one */
    hf_info_free(info);
    free_readers(f, holds, READERS);
}

static void B16_readers_of_many_clients_share(cf *f) {
    hf_hold *holds[2 * READERS];
    for (size_t i = 0; i < READERS; i++) {
        hf_client *client = cf_open(f);
        holds[i] = CF_TAKE(client, f->name, CF_TRY(HF_READ, 0));
        holds[READERS + i] = CF_TAKE(client, f->name, CF_TRY(HF_READ, 1));
    }
    check_readers(holds, READERS * 2);
    for (size_t i = 0; i < READERS; i++) /* clients have different tokens */
        for (size_t k = 0; k < i; k++) assert_true(hf_fence(holds[i]) != hf_fence(holds[k]));
    assert_in_range(cf_holders(f->b, f->name), READERS, READERS * 2);
    free_readers(f, holds, READERS * 2);
}

static void B16_a_thousand_readers_share(cf *f) {
    enum { MANY = 1000 };
    hf_hold **holds = cf_new(f, MANY * sizeof *holds);
    for (uint64_t i = 0; i < MANY; i++)
        holds[i] = CF_TAKE(i % 2 ? f->a : f->b, f->name, CF_TRY(HF_READ, i + 1));
    CF_REFUSED(HF_BUSY, f->b, f->name, CF_TRY(HF_WRITE, 0));
    cf_attempt *writer = cf_arrive(f, cf_open(f), f->name, CF_WAIT(HF_WRITE));
    for (size_t i = 0; i < MANY; i++) {
        CF_STILL_WAITS(writer);
        CF_FREE(holds[i]);
    }
    CF_FREE(cf_granted(writer));
}

/* Only readers share a name with readers. */
static void B16_readers_keep_all_others_out(cf *f) {
    static const uint32_t kinds[] = {HF_MUTEX, HF_WRITE, HF_PERMITS};
    hf_hold *hold = CF_TAKE(f->a, f->name, CF_TRY(HF_READ, 0));
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        CF_REFUSED(HF_BUSY, f->a, f->name, CF_TRY(kinds[i], 1));
        CF_REFUSED(HF_BUSY, f->b, f->name, CF_TRY(kinds[i], 0));
    }
    assert_int_equal(hf_held(hold), 1);
    CF_FREE(hold);
}

static void B16_a_writer_keeps_everybody_out(cf *f) {
    static const uint32_t kinds[] = {HF_MUTEX, HF_READ, HF_WRITE, HF_UPGRADABLE, HF_PERMITS};
    for (int w = 0; w < ALONES; w++) {
        hf_hold *hold = CF_TAKE(f->a, f->name, CF_TRY(ALONE[w], 0));
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
            CF_REFUSED(HF_BUSY, f->a, f->name, CF_TRY(kinds[i], 1));
            CF_REFUSED(HF_BUSY, f->b, f->name, CF_TRY(kinds[i], 0));
        }
        CF_FREE(hold);
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
            CF_FREE(CF_TAKE(f->b, f->name, CF_TRY(kinds[i], 0)));
    }
}

/* ---- A writer waits for the readers ---------------------------------------------------------- */

/* Readers of two clients, and a writer of `client` that waits for the last of them. */
static void check_enters_last(cf *f, hf_client *client, uint32_t kind) {
    hf_hold *one = CF_TAKE(f->a, f->name, CF_TRY(HF_READ, 0));
    hf_hold *two = CF_TAKE(f->a, f->name, CF_TRY(HF_READ, 1));
    hf_hold *three = CF_TAKE(f->b, f->name, CF_TRY(HF_READ, 0));
    uint64_t token = hf_fence(three);
    cf_attempt *writer = cf_arrive(f, client, f->name, CF_WAIT(kind));
    CF_FREE(one);
    CF_STILL_WAITS(writer);
    CF_FREE(three);
    CF_STILL_WAITS(writer);
    assert_int_equal(hf_held(two), 1);
    assert_int_equal(cf_holders(f->b, f->name), 1);
    CF_FREE(two);
    hf_hold *hold = cf_granted(writer);
    assert_true(hf_fence(hold) > token);
    CF_REFUSED(HF_BUSY, f->b, f->name, CF_TRY(HF_READ, 0));
    CF_FREE(hold);
}

static void B16_the_writer_enters_after_the_last_reader(cf *f) {
    hf_client *third = cf_open(f);
    for (int w = 0; w < ALONES; w++) {
        check_enters_last(f, third, ALONE[w]);
        check_enters_last(f, f->b, ALONE[w]);
        check_enters_last(f, f->a, ALONE[w]);
    }
}

static void B16_readers_wait_for_the_writer(cf *f) {
    for (int w = 0; w < ALONES; w++) {
        hf_hold *hold = CF_TAKE(f->a, f->name, CF_TRY(ALONE[w], 0));
        cf_attempt *local = cf_queue(f, f->a, f->name, CF_WAIT(HF_READ));
        cf_attempt *remote = cf_queue(f, f->b, f->name, CF_WAIT(HF_READ));
        uint64_t token = hf_fence(hold);
        CF_FREE(hold);
        hf_hold *one = cf_granted(local), *two = cf_granted(remote); /* both at once */
        assert_true(hf_fence(one) > token && hf_fence(two) > token);
        assert_true(hf_held(one) && hf_held(two));
        CF_FREE(one);
        CF_FREE(two);
    }
}

/* ---- A waiting writer keeps out later readers ------------------------------------------------ */

/* A reads, and a writer of `writing` waits. Readers that arrive now come after it. */
static void check_holds_back(cf *f, hf_client *writing, hf_client *reading, uint32_t kind) {
    hf_hold *reader = CF_TAKE(f->a, f->name, CF_TRY(HF_READ, 0));
    cf_attempt *writer = cf_arrive(f, writing, f->name, CF_WAIT(kind));
    if (reading == f->a && writing != f->a) CF_KEPT_OUT(reading, f->name, CF_TRY(HF_READ, 5));
    CF_REFUSED(HF_BUSY, reading, f->name, CF_TRY(HF_READ, 5));
    CF_REFUSED(HF_TIMEOUT, reading, f->name, CF_OPTIONS(HF_READ, .owner = 5, .wait_ms = 300));
    cf_attempt *late = cf_queue(f, reading, f->name, CF_WAIT(HF_READ));
    CF_FREE(reader);
    hf_hold *hold = cf_granted(writer);
    CF_STILL_WAITS(late);
    CF_REFUSED(HF_BUSY, f->a, f->name, CF_TRY(HF_READ, 6));
    uint64_t token = hf_fence(hold);
    CF_FREE(hold);
    hold = cf_granted(late);
    assert_true(hf_fence(hold) > token);
    CF_FREE(hold);
}

static void B16_a_waiting_writer_holds_back_new_readers(cf *f) {
    hf_client *third = cf_open(f), *fourth = cf_open(f);
    for (int w = 0; w < ALONES; w++) {
        check_holds_back(f, third, fourth, ALONE[w]);
        check_holds_back(f, third, third, ALONE[w]); /* in the writer's client */
        check_holds_back(f, third, f->a, ALONE[w]);  /* in the reader's client */
        check_holds_back(f, f->a, fourth, ALONE[w]);
        check_holds_back(f, f->a, f->a, ALONE[w]);
    }
}

static void B16_a_reader_re_enters_past_a_waiting_writer(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, CF_TRY(HF_READ, 0));
    hf_hold *other = CF_TAKE(f->a, f->name, CF_TRY(HF_READ, 7));
    cf_attempt *local = cf_arrive(f, f->a, f->name, CF_WAIT(HF_WRITE));
    cf_attempt *remote = cf_arrive(f, f->b, f->name, CF_WAIT(HF_WRITE));
    int64_t started = t_now_ms();
    hf_hold *again = CF_TAKE(f->a, f->name, CF_WAIT(HF_READ));
    hf_hold *other_again = CF_TAKE(f->a, f->name, CF_TRY(HF_READ, 7));
    CF_AT_ONCE(started);
    assert_true(hf_fence(again) == hf_fence(hold));
    assert_true(hf_fence(other_again) == hf_fence(other));
    CF_FREE(hold);
    CF_FREE(other);
    CF_FREE(other_again);
    CF_STILL_WAITS(local);
    CF_STILL_WAITS(remote);
    assert_int_equal(hf_held(again), 1);
    CF_FREE(again);
    CF_FREE(cf_granted(local));
    CF_FREE(cf_granted(remote));
}

/* ---- Order of arrival ------------------------------------------------------------------------ */

enum { LINE_MAX_LENGTH = 10 };

/* Wait for all that may be inside together, check that all behind them wait, release them;
   repeat. */
static void check_served_in_order(cf_attempt *const *line, size_t count, bool own_clients) {
    uint64_t highest = 0;
    for (size_t i = 0, end; i < count; i = end) {
        uint64_t before = highest;
        hf_hold *holds[LINE_MAX_LENGTH];
        for (end = i + 1;
             end < count && line[i]->options.kind == HF_READ && line[end]->options.kind == HF_READ;)
            end++;
        for (size_t k = i; k < end; k++) {
            holds[k] = cf_granted(line[k]);
            assert_true(hf_fence(holds[k]) > before);
            if (hf_fence(holds[k]) > highest) highest = hf_fence(holds[k]);
        }
        if (own_clients)
            for (size_t k = end; k < count; k++) CF_STILL_WAITS(line[k]);
        else
            assert_int_equal(cf_stats(line[0]->client).waiting, count - end);
        for (size_t k = i; k < end; k++) {
            assert_int_equal(hf_held(holds[k]), 1);
            CF_FREE(holds[k]);
        }
    }
}

static void B16_a_run_of_readers_at_the_head_enters_together(cf *f) {
    enum { COUNT = 6 };
    cf_attempt *line[COUNT];
    hf_hold *hold = CF_TAKE(f->a, f->name, CF_TRY(HF_WRITE, 0));
    for (int i = 0; i < COUNT; i++) line[i] = cf_arrive(f, cf_open(f), f->name, CF_WAIT(HF_READ));
    CF_FREE(hold);
    check_served_in_order(line, COUNT, true);
}

static void B16_all_local_readers_of_a_run_enter_together(cf *f) {
    enum { COUNT = 8 };
    cf_attempt *line[COUNT];
    hf_hold *hold = CF_TAKE(f->a, f->name, CF_TRY(HF_WRITE, 0));
    line[0] = cf_arrive(f, f->b, f->name, CF_WAIT(HF_READ));
    for (int i = 1; i < COUNT; i++) line[i] = cf_queue(f, f->b, f->name, CF_WAIT(HF_READ));
    CF_FREE(hold);
    check_served_in_order(line, COUNT, false);
}

/* The first readers of a group share a client, and one has another: all enter at once. */
static void B16_runs_of_several_clients_enter_together(cf *f) {
    enum { CLIENTS = 3, THREADS = 3 };
    cf_attempt *waiters[CLIENTS][THREADS];
    hf_hold *hold = CF_TAKE(f->a, f->name, CF_TRY(HF_WRITE, 0));
    for (int i = 0; i < CLIENTS; i++) {
        hf_client *client = cf_open(f);
        waiters[i][0] = cf_arrive(f, client, f->name, CF_WAIT(HF_READ));
        for (int k = 1; k < THREADS; k++)
            waiters[i][k] = cf_queue(f, client, f->name, CF_WAIT(HF_READ));
    }
    CF_FREE(hold);
    for (int i = 0; i < CLIENTS; i++)
        for (int k = 0; k < THREADS; k++) (void)cf_granted(waiters[i][k]);
    assert_in_range(cf_holders(f->a, f->name), CLIENTS, CLIENTS * THREADS);
    for (int i = 0; i < CLIENTS; i++)
        for (int k = 0; k < THREADS; k++) CF_FREE(waiters[i][k]->hold);
}

static const uint32_t MIXED[] = {HF_READ,  HF_READ, HF_WRITE, HF_READ, HF_WRITE,
                                 HF_MUTEX, HF_READ, HF_READ,  HF_READ, HF_WRITE};
enum { MIXED_COUNT = sizeof MIXED / sizeof *MIXED };

static void B16_readers_and_writers_of_clients_are_served_in_order_of_arrival(cf *f) {
    cf_attempt *line[MIXED_COUNT];
    hf_hold *hold = CF_TAKE(f->a, f->name, CF_TRY(HF_WRITE, 0));
    for (int i = 0; i < MIXED_COUNT; i++)
        line[i] = cf_arrive(f, cf_open(f), f->name, CF_WAIT(MIXED[i]));
    CF_FREE(hold);
    check_served_in_order(line, MIXED_COUNT, true);
}

static void B16_readers_and_writers_of_a_client_are_served_in_order_of_arrival(cf *f) {
    hf_client *const clients[] = {f->a, f->b}; /* the holder's client, and another */
    for (int c = 0; c < 2; c++) {
        cf_attempt *line[MIXED_COUNT];
        hf_hold *hold = CF_TAKE(f->a, f->name, CF_TRY(HF_WRITE, 0));
        /* behind a writer of its own client the first may be deferred too */
        line[0] = c ? cf_arrive(f, f->b, f->name, CF_WAIT(MIXED[0]))
                    : cf_queue(f, f->a, f->name, CF_WAIT(MIXED[0]));
        for (int i = 1; i < MIXED_COUNT; i++)
            line[i] = cf_queue(f, clients[c], f->name, CF_WAIT(MIXED[i]));
        CF_FREE(hold);
        check_served_in_order(line, MIXED_COUNT, false);
    }
}

/* The same behind readers, where the first writer waits for them. */
static void B16_the_queue_behind_readers_is_served_in_order_of_arrival(cf *f) {
    cf_attempt *line[MIXED_COUNT - 2];
    hf_hold *one = CF_TAKE(f->a, f->name, CF_TRY(HF_READ, 0));
    hf_hold *two = CF_TAKE(f->b, f->name, CF_TRY(HF_READ, 0));
    for (int i = 0; i < MIXED_COUNT - 2; i++)
        line[i] = cf_arrive(f, cf_open(f), f->name, CF_WAIT(MIXED[i + 2]));
    CF_FREE(one);
    for (int i = 0; i < MIXED_COUNT - 2; i++) CF_STILL_WAITS(line[i]);
    CF_FREE(two);
    check_served_in_order(line, MIXED_COUNT - 2, true);
}

/* ---- A writer that gives up ------------------------------------------------------------------ */

/* A reads, a writer waits, and readers wait behind it. Each case decides how the writer leaves. */
typedef struct reader_scene {
    hf_hold *reader;
    hf_client *writing;
    cf_attempt *writer, *same, *other;
} reader_scene;

static reader_scene set_scene(cf *f, const hf_options *writer) {
    reader_scene s = {.writing = cf_open(f)};
    s.reader = CF_TAKE(f->a, f->name, CF_TRY(HF_READ, 0));
    s.writer = cf_arrive(f, s.writing, f->name, writer);
    s.other = cf_arrive(f, f->b, f->name, CF_WAIT(HF_READ));
    return s;
}

/* The readers behind the writer now read beside the first reader. */
static void end_scene(cf *f, reader_scene *s) {
    CF_FREE(cf_granted(s->other));
    if (s->same) CF_FREE(cf_granted(s->same));
    CF_FREE(CF_TAKE(f->b, f->name, CF_TRY(HF_READ, 0)));
    CF_FREE(CF_TAKE(f->a, f->name, CF_TRY(HF_READ, 1)));
    assert_int_equal(hf_held(s->reader), 1);
    CF_FREE(s->reader);
}

static void B16_a_writer_that_times_out_lets_the_readers_in(cf *f) {
    for (int w = 0; w < ALONES; w++) {
        reader_scene s = set_scene(f, CF_OPTIONS(ALONE[w], .wait_ms = t_patience(500)));
        s.same = cf_queue(f, s.writing, f->name, CF_WAIT(HF_READ));
        CF_ENDED(HF_TIMEOUT, s.writer);
        end_scene(f, &s);
    }
}

static void B16_a_writer_that_is_cancelled_lets_the_readers_in(cf *f) {
    for (int w = 0; w < ALONES; w++) {
        hf_cancel *cancel = cf_cancel();
        reader_scene s =
            set_scene(f, CF_OPTIONS(ALONE[w], .wait_ms = HF_FOREVER, .cancel = cancel));
        s.same = cf_queue(f, s.writing, f->name, CF_WAIT(HF_READ));
        hf_cancel_fire(cancel);
        CF_ENDED(HF_CANCELLED, s.writer);
        end_scene(f, &s);
        hf_cancel_free(cancel);
    }
}

static void B16_a_writer_whose_client_closes_lets_the_readers_in(cf *f) {
    for (int w = 0; w < ALONES; w++) {
        reader_scene s = set_scene(f, CF_WAIT(ALONE[w]));
        cf_close(f, s.writing);
        CF_ENDED(HF_CLOSED, s.writer);
        end_scene(f, &s);
    }
}

/* A writer of the reader's own client: the client's other threads continue. */
static void B16_a_writer_of_the_reading_client_that_gives_up_lets_readers_in(cf *f) {
    hf_cancel *cancel = cf_cancel();
    hf_hold *reader = CF_TAKE(f->a, f->name, CF_TRY(HF_READ, 0));
    cf_attempt *writer =
        cf_arrive(f, f->a, f->name, CF_OPTIONS(HF_WRITE, .wait_ms = HF_FOREVER, .cancel = cancel));
    cf_attempt *local = cf_queue(f, f->a, f->name, CF_WAIT(HF_READ));
    cf_attempt *remote = cf_queue(f, f->b, f->name, CF_WAIT(HF_READ));
    hf_cancel_fire(cancel);
    CF_ENDED(HF_CANCELLED, writer);
    CF_FREE(cf_granted(local));
    CF_FREE(cf_granted(remote));
    CF_FREE(reader);
    hf_cancel_free(cancel);
}

/* A reader in the middle of the queue gives up; the others keep their order. */
static void B16_a_reader_that_gives_up_does_not_change_the_order_of_the_others(cf *f) {
    hf_cancel *cancel = cf_cancel();
    hf_hold *hold = CF_TAKE(f->a, f->name, CF_TRY(HF_WRITE, 0));
    cf_attempt *line[3];
    line[0] = cf_arrive(f, cf_open(f), f->name, CF_WAIT(HF_WRITE));
    cf_attempt *leaver =
        cf_arrive(f, f->b, f->name, CF_OPTIONS(HF_READ, .wait_ms = HF_FOREVER, .cancel = cancel));
    line[1] = cf_arrive(f, cf_open(f), f->name, CF_WAIT(HF_WRITE));
    line[2] = cf_arrive(f, cf_open(f), f->name, CF_WAIT(HF_READ));
    hf_cancel_fire(cancel);
    CF_ENDED(HF_CANCELLED, leaver);
    CF_FREE(hold);
    check_served_in_order(line, 3, true);
    hf_cancel_free(cancel);
}

/* Readers of a client wait together: when the one that is queued for them leaves, another takes
   over its position. */
static void check_position_taken_over(cf *f, hf_cancel *cancel, const hf_options *leaving,
                                      hf_result how) {
    cf_attempt *line[3];
    hf_hold *hold = CF_TAKE(f->a, f->name, CF_TRY(HF_WRITE, 0));
    cf_attempt *leaver = cf_arrive(f, f->b, f->name, leaving);
    line[0] = cf_queue(f, f->b, f->name, CF_WAIT(HF_READ));
    line[1] = cf_arrive(f, cf_open(f), f->name, CF_WAIT(HF_WRITE));
    line[2] = cf_arrive(f, cf_open(f), f->name, CF_WAIT(HF_READ));
    hf_cancel_fire(cancel);
    CF_ENDED(how, leaver);
    CF_FREE(hold);
    check_served_in_order(line, 3, true);
}

static void B16_a_reader_takes_over_the_position_of_one_that_is_cancelled(cf *f) {
    hf_cancel *cancel = cf_cancel();
    check_position_taken_over(
        f, cancel, CF_OPTIONS(HF_READ, .wait_ms = HF_FOREVER, .cancel = cancel), HF_CANCELLED);
    hf_cancel_free(cancel);
}

static void B16_a_reader_takes_over_the_position_of_one_that_times_out(cf *f) {
    check_position_taken_over(f, NULL, CF_OPTIONS(HF_READ, .wait_ms = t_patience(500)), HF_TIMEOUT);
}

/* ---- Each reader ends by itself -------------------------------------------------------------- */

static const hf_options KEPT_READ = {.kind = HF_READ, .lease_ms = CF_KEPT_LEASE_MS};
static const hf_options ONE_SHORT_READ = {
    .kind = HF_READ, .lease_ms = CF_SHORT_LEASE_MS, .flags = HF_NO_RENEW};

static void B16_a_dead_reader_expires_while_others_renew(cf *f) {
    cf_lost *lost = cf_new(f, sizeof *lost);
    hf_options with_on_lost = KEPT_READ;
    with_on_lost.on_lost = cf_on_lost;
    with_on_lost.arg = lost;
    hf_hold *alive = CF_TAKE(f->b, f->name, &with_on_lost);
    hf_hold *dead = CF_TAKE(f->a, f->name, &ONE_SHORT_READ);
    assert_int_equal(cf_holders(f->b, f->name), 2);
    cf_attempt *writer = cf_arrive(f, cf_open(f), f->name, CF_WAIT(HF_WRITE));
    CF_UNTIL(!hf_held(dead));
    CF_UNTIL(cf_holders(f->b, f->name) == 1);
    uint64_t renewed = cf_stats(f->b).renewed;
    CF_UNTIL(cf_stats(f->b).renewed >= renewed + 4);
    assert_int_equal(hf_held(alive), 1);
    CF_STILL_WAITS(writer);
    CF_IS(HF_LOST, hf_release(dead));
    CF_FREE(alive);
    CF_FREE(cf_granted(writer));
    assert_int_equal(atomic_load(&lost->calls), 0);
}

static void B16_a_dead_reader_of_the_same_client_expires_too(cf *f) {
    hf_options dying = ONE_SHORT_READ;
    dying.owner = 3;
    hf_hold *alive = CF_TAKE(f->a, f->name, &KEPT_READ);
    hf_hold *dead = CF_TAKE(f->a, f->name, &dying);
    CF_UNTIL(!hf_held(dead));
    CF_UNTIL(cf_holders(f->b, f->name) == 1);
    assert_int_equal(hf_held(alive), 1);
    CF_IS(HF_LOST, hf_release(dead));
    CF_REFUSED(HF_BUSY, f->b, f->name, CF_TRY(HF_WRITE, 0));
    CF_FREE(alive);
    CF_FREE(CF_TAKE(f->b, f->name, CF_TRY(HF_WRITE, 0)));
}

/* Nothing is released: the queue moves on when the last lease has ended. */
static void B16_a_writer_enters_when_the_last_reader_has_died(cf *f) {
    hf_hold *first = CF_TAKE(f->a, f->name, &ONE_SHORT_READ);
    hf_hold *second = CF_TAKE(f->b, f->name, &ONE_SHORT_READ);
    cf_attempt *writer = cf_arrive(f, cf_open(f), f->name, CF_WAIT(HF_WRITE));
    cf_attempt *reader = cf_arrive(f, cf_open(f), f->name, CF_WAIT(HF_READ));
    hf_hold *hold = cf_granted(writer);
    assert_int_equal(hf_held(first), 0);
    assert_int_equal(hf_held(second), 0);
    assert_true(hf_fence(hold) > hf_fence(first) && hf_fence(hold) > hf_fence(second));
    CF_STILL_WAITS(reader);
    CF_IS(HF_LOST, hf_release(first));
    CF_IS(HF_LOST, hf_release(second));
    assert_int_equal(hf_held(hold), 1);
    CF_FREE(hold);
    CF_FREE(cf_granted(reader));
}

/* ---- One owner ------------------------------------------------------------------------------- */

static void B16_a_reader_re_enters(cf *f) {
    hf_hold *one = CF_TAKE(f->a, f->name, CF_TRY(HF_READ, 0));
    hf_hold *two = CF_TAKE(f->a, f->name, CF_TRY(HF_READ, 0));
    assert_true(hf_fence(one) == hf_fence(two));
    assert_int_equal(cf_stats(f->a).held, 1);
    CF_UNTIL(cf_count(f->b, f->name) == 2);
    assert_int_equal(cf_holders(f->b, f->name), 1);
    CF_FREE(one);
    CF_REFUSED(HF_BUSY, f->b, f->name, CF_TRY(HF_WRITE, 0));
    assert_int_equal(hf_held(two), 1);
    CF_FREE(two);
    CF_FREE(CF_TAKE(f->b, f->name, CF_TRY(HF_WRITE, 0)));
}

/* Readers of a client may share a hold, but the client knows each reader that is inside. */
static void B16_a_reader_that_left_may_write_after_the_others(cf *f) {
    hf_hold *one = CF_TAKE(f->a, f->name, CF_TRY(HF_READ, 0));
    hf_hold *two = CF_TAKE(f->a, f->name, CF_TRY(HF_READ, 7));
    CF_FREE(one);
    CF_REFUSED(HF_BUSY, f->a, f->name, CF_TRY(HF_WRITE, 0));
    CF_REFUSED(HF_TIMEOUT, f->a, f->name, CF_OPTIONS(HF_WRITE, .wait_ms = 300));
    CF_REFUSED(HF_DEADLOCK, f->a, f->name, CF_TRY(HF_WRITE, 7));
    one = CF_TAKE(f->a, f->name, CF_TRY(HF_READ, 0));
    CF_REFUSED(HF_DEADLOCK, f->a, f->name, CF_TRY(HF_WRITE, 0));
    CF_FREE(two);
    CF_REFUSED(HF_BUSY, f->a, f->name, CF_TRY(HF_WRITE, 7));
    CF_FREE(one);
    CF_FREE(CF_TAKE(f->a, f->name, CF_TRY(HF_WRITE, 7)));
}

/* One owner in two threads (B25): when one is granted the lock, the other re-enters. */
static void B25_an_owner_that_waits_in_two_threads_enters_in_both(cf *f) {
    static const uint32_t kinds[] = {HF_MUTEX, HF_READ, HF_WRITE, HF_UPGRADABLE};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
        cf_attempt *one =
            cf_queue(f, f->b, f->name, CF_OPTIONS(kinds[i], .owner = 7, .wait_ms = HF_FOREVER));
        cf_attempt *two =
            cf_queue(f, f->b, f->name, CF_OPTIONS(kinds[i], .owner = 7, .wait_ms = HF_FOREVER));
        CF_FREE(hold);
        hold = cf_granted(one);
        hf_hold *again = cf_granted(two);
        assert_true(hf_fence(hold) == hf_fence(again));
        CF_FREE(hold);
        CF_REFUSED(HF_BUSY, f->a, f->name, NULL);
        CF_FREE(again);
    }
}

/* The owner reads now, and its other thread could only wait for itself. */
static void B25_an_owner_that_waits_to_read_and_to_write_is_a_deadlock(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, NULL);
    cf_attempt *reader =
        cf_arrive(f, f->b, f->name, CF_OPTIONS(HF_READ, .owner = 7, .wait_ms = HF_FOREVER));
    cf_attempt *writer =
        cf_queue(f, f->b, f->name, CF_OPTIONS(HF_WRITE, .owner = 7, .wait_ms = HF_FOREVER));
    CF_FREE(hold);
    hold = cf_granted(reader);
    CF_ENDED(HF_DEADLOCK, writer); /* and it keeps out no readers any more */
    CF_FREE(CF_TAKE(f->a, f->name, CF_OPTIONS(HF_READ, .wait_ms = CF_GRANT_MS)));
    CF_FREE(hold);
}

/* One handle's owner leaves, the others stay. Each of them is notified when the shared hold is
   lost. */
static void B12_readers_that_share_are_all_notified(cf *f) {
    enum { COUNT = 4 };
    cf_lost *lost = cf_new(f, COUNT * sizeof *lost);
    hf_hold *holds[COUNT];
    for (uint64_t i = 0; i < COUNT; i++)
        holds[i] = CF_TAKE(f->a, f->name,
                           CF_OPTIONS(HF_READ, .owner = i + 1, .lease_ms = CF_KEPT_LEASE_MS,
                                      .on_lost = cf_on_lost, .arg = &lost[i]));
    CF_FREE(holds[0]); /* the shared hold may be stored under its acquire id */
    uint64_t renewed = cf_stats(f->a).renewed;
    CF_UNTIL(cf_stats(f->a).renewed >= renewed + 4);
    for (int i = 1; i < COUNT; i++) assert_int_equal(hf_held(holds[i]), 1);
    CF_REFUSED(HF_BUSY, f->b, f->name, CF_TRY(HF_WRITE, 0));
    CF_IS(HF_OK, hf_break(f->b, f->name, 0));
    for (int i = 1; i < COUNT; i++) {
        CF_UNTIL(atomic_load(&lost[i].calls) == 1);
        CF_IS(HF_LOST, hf_release(holds[i]));
    }
    assert_int_equal(atomic_load(&lost[0].calls), 0);
}

static void B02_a_reader_that_may_not_re_enter_is_a_deadlock(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, CF_TRY(HF_READ, 0));
    CF_REFUSED(HF_DEADLOCK, f->a, f->name, CF_OPTIONS(HF_READ, .flags = HF_NOT_REENTRANT));
    CF_FREE(CF_TAKE(f->a, f->name, CF_OPTIONS(HF_READ, .owner = 4, .flags = HF_NOT_REENTRANT)));
    assert_int_equal(hf_held(hold), 1);
    CF_FREE(hold);
}

/* A writer may also read: it is one ownership, until its last release. */
static void B16_an_owner_reads_while_it_writes(cf *f) {
    for (int w = 0; w < ALONES; w++) {
        hf_hold *hold = CF_TAKE(f->a, f->name, CF_TRY(ALONE[w], 0));
        cf_attempt *waiter = cf_arrive(f, f->b, f->name, CF_WAIT(HF_WRITE));
        cf_attempt *local = cf_queue(f, f->a, f->name, CF_WAIT(HF_READ));
        hf_hold *reading = CF_TAKE(f->a, f->name, CF_WAIT(HF_READ));
        hf_hold *again = CF_TAKE(f->a, f->name, CF_TRY(ALONE[w], 0));
        assert_true(hf_fence(reading) == hf_fence(hold));
        assert_true(hf_fence(again) == hf_fence(hold));
        assert_int_equal(cf_holders(f->b, f->name), 1);
        CF_FREE(reading);
        CF_FREE(hold);
        CF_REFUSED(HF_BUSY, f->a, f->name, CF_TRY(HF_READ, 1));
        reading = CF_TAKE(f->a, f->name, CF_TRY(HF_READ, 0));
        CF_FREE(again);
        CF_STILL_WAITS(waiter); /* the last reader keeps the writers out */
        CF_FREE(reading);
        CF_FREE(cf_granted(waiter));
        CF_FREE(cf_granted(local));
    }
}

static void B16_a_write_request_of_a_reader_is_a_deadlock_at_once(cf *f) {
    hf_hold *hold = CF_TAKE(f->a, f->name, CF_TRY(HF_READ, 0));
    int64_t started = t_now_ms();
    for (int other = 0; other < 2; other++) { /* alone, and beside another reader */
        hf_hold *beside = other ? CF_TAKE(f->b, f->name, CF_TRY(HF_READ, 0)) : NULL;
        for (int w = 0; w < ALONES; w++) {
            CF_REFUSED(HF_DEADLOCK, f->a, f->name, CF_TRY(ALONE[w], 0));
            CF_REFUSED(HF_DEADLOCK, f->a, f->name, CF_WAIT(ALONE[w]));
            CF_REFUSED(HF_DEADLOCK, f->a, f->name, CF_OPTIONS(ALONE[w], .wait_ms = 60000));
        }
        if (beside) CF_FREE(beside);
    }
    CF_AT_ONCE(started);
    assert_int_equal(cf_queued(f->b, f->name), 0); /* and it delayed nobody */
    CF_FREE(CF_TAKE(f->b, f->name, CF_TRY(HF_READ, 0)));
    assert_int_equal(hf_held(hold), 1);
    CF_FREE(hold);
    CF_FREE(CF_TAKE(f->a, f->name, CF_TRY(HF_WRITE, 0)));
}

/* ---- Losing ---------------------------------------------------------------------------------- */

typedef struct reader_victim {
    hf_client *client;
    hf_hold *hold;
    int fd;
    cf_lost lost;
} reader_victim;

/* Each has its own token: readers with different leases do not share a hold. */
static reader_victim *take_victim(cf *f, hf_client *client, uint64_t owner) {
    reader_victim *v = cf_new(f, sizeof *v);
    hf_options with_on_lost = KEPT_READ;
    with_on_lost.owner = owner;
    with_on_lost.lease_ms += (int64_t)owner;
    with_on_lost.on_lost = cf_on_lost;
    with_on_lost.arg = &v->lost;
    v->client = client;
    v->hold = CF_TAKE(client, f->name, &with_on_lost);
    v->fd = hf_lost_fd(v->hold);
    return v;
}

static void check_loss_reported(reader_victim *v) {
    CF_UNTIL(!hf_held(v->hold));
    CF_UNTIL(cf_readable(v->fd));
    CF_UNTIL(atomic_load(&v->lost.calls) == 1);
    assert_true(atomic_load(&v->lost.token) == hf_fence(v->hold));
    assert_non_null(hf_why_lost(v->hold));
    CF_IS(HF_LOST, hf_release(v->hold));
    assert_int_equal(atomic_load(&v->lost.calls), 1);
}

static void check_untouched(reader_victim *v) {
    uint64_t renewed = cf_stats(v->client).renewed;
    CF_UNTIL(cf_stats(v->client).renewed >= renewed + 4);
    assert_int_equal(hf_held(v->hold), 1);
    assert_int_equal(cf_readable(v->fd), 0);
    assert_int_equal(atomic_load(&v->lost.calls), 0);
    assert_null(hf_why_lost(v->hold));
    CF_FREE(v->hold);
}

static void B26_a_broken_reader_is_notified_and_the_others_are_not(cf *f) {
    reader_victim *broken = take_victim(f, f->a, 0);
    reader_victim *same = take_victim(f, f->a, 1), *other = take_victim(f, f->b, 0);
    CF_IS(HF_NOT_HELD, hf_break(f->b, f->name, hf_fence(other->hold) + 1));
    CF_IS(HF_OK, hf_break(f->b, f->name, hf_fence(broken->hold)));
    CF_IS(HF_NOT_HELD, hf_break(f->b, f->name, hf_fence(broken->hold)));
    check_loss_reported(broken);
    assert_int_equal(cf_holders(f->b, f->name), 2);
    CF_REFUSED(HF_BUSY, f->b, f->name, CF_TRY(HF_WRITE, 5));
    check_untouched(same);
    check_untouched(other);
    CF_FREE(CF_TAKE(f->b, f->name, CF_TRY(HF_WRITE, 0)));
}

static void B26_a_break_of_all_notifies_every_reader(cf *f) {
    reader_victim *victims[] = {take_victim(f, f->a, 0), take_victim(f, f->a, 1),
                                take_victim(f, f->b, 0)};
    CF_IS(HF_OK, hf_break(f->b, f->name, 0));
    CF_FREE(CF_TAKE(cf_open(f), f->name, CF_TRY(HF_WRITE, 0)));
    for (int i = 0; i < 3; i++) check_loss_reported(victims[i]);
    assert_int_equal(cf_holders(f->b, f->name), 0);
}

static void B26_a_break_of_the_last_reader_serves_the_writer(cf *f) {
    hf_hold *one = CF_TAKE(f->a, f->name, CF_TRY(HF_READ, 0));
    hf_hold *two = CF_TAKE(f->b, f->name, CF_TRY(HF_READ, 0));
    cf_attempt *writer = cf_arrive(f, cf_open(f), f->name, CF_WAIT(HF_WRITE));
    CF_IS(HF_OK, hf_break(f->b, f->name, hf_fence(one)));
    CF_STILL_WAITS(writer);
    CF_IS(HF_OK, hf_break(f->a, f->name, hf_fence(two)));
    hf_hold *hold = cf_granted(writer);
    CF_IS(HF_LOST, hf_release(one));
    CF_IS(HF_LOST, hf_release(two));
    assert_int_equal(hf_held(hold), 1);
    CF_FREE(hold);
}

/* ---- Many threads ---------------------------------------------------------------------------- */

/* Guarded by the lock alone, and free of data races itself: processes share it too. */
typedef struct reader_library {
    const char *name;
    atomic_int readers, writers;
    atomic_int collisions, failures;
    atomic_int together; /* the most readers inside at once */
    atomic_long pages;   /* read and written separately */
    atomic_long visits;
} reader_library;

static void read_it(reader_library *l) {
    int readers = atomic_fetch_add(&l->readers, 1) + 1;
    if (atomic_load(&l->writers)) atomic_fetch_add(&l->collisions, 1);
    if (readers > atomic_load(&l->together)) atomic_store(&l->together, readers);
    long pages = atomic_load(&l->pages);
    sched_yield();
    if (atomic_load(&l->pages) != pages) atomic_fetch_add(&l->collisions, 1);
    atomic_fetch_sub(&l->readers, 1);
}

static void write_it(reader_library *l) {
    if (atomic_fetch_add(&l->writers, 1)) atomic_fetch_add(&l->collisions, 1);
    if (atomic_load(&l->readers)) atomic_fetch_add(&l->collisions, 1);
    long pages = atomic_load(&l->pages);
    sched_yield();
    atomic_store(&l->pages, pages + 1);
    atomic_fetch_sub(&l->writers, 1);
}

static void visit_library(reader_library *l, hf_client *client, int rounds, int first) {
    for (int i = 0; i < rounds; i++) {
        int turn = first + i;
        uint32_t kind = turn % 4 ? HF_READ : turn % 8 ? HF_WRITE : HF_MUTEX;
        hf_hold *hold = NULL;
        if (hf_acquire(client, l->name, CF_WAIT(kind), &hold) != HF_OK) {
            atomic_fetch_add(&l->failures, 1);
            continue;
        }
        (kind == HF_READ ? read_it : write_it)(l);
        atomic_fetch_add(&l->visits, 1);
        if (hf_release(hold) != HF_OK) atomic_fetch_add(&l->failures, 1);
    }
}

enum { ROUNDS = 24 };

static void run_visitor(void *arg) {
    cf_visitor *v = arg;
    visit_library(v->arg, v->client, ROUNDS, v->index);
}

static void check_library(reader_library *l, int visitors) {
    assert_int_equal(l->failures, 0);
    assert_int_equal(l->collisions, 0);
    assert_int_equal(l->visits, visitors * ROUNDS);
    assert_int_equal(l->pages, visitors * ROUNDS / 4);
}

static void B16_many_readers_and_writers_exclude_each_other_and_all_finish(cf *f) {
    enum { CLIENTS = 4, THREADS = 6 };
    reader_library *l = cf_new(f, sizeof *l);
    l->name = f->name;
    cf_crowd(f, CLIENTS, THREADS, run_visitor, l);
    check_library(l, CLIENTS * THREADS);
    assert_int_equal(cf_holders(f->a, f->name), 0);
    assert_int_equal(cf_queued(f->a, f->name), 0);
}

static void B16_many_threads_of_a_client_exclude_each_other_and_all_finish(cf *f) {
    enum { THREADS = 24 };
    reader_library *l = cf_new(f, sizeof *l);
    cf_thread *threads[THREADS];
    l->name = f->name;
    for (int k = 0; k < THREADS; k++) {
        cf_visitor *v = cf_new(f, sizeof *v);
        *v = (cf_visitor){l, f->a, k};
        threads[k] = cf_spawn(f, run_visitor, v);
    }
    for (int i = 0; i < THREADS; i++) cf_join(threads[i]);
    check_library(l, THREADS);
    assert_int_equal(cf_queued(f->a, f->name), 0);
}

/* A waiting writer is served although readers arrive all the time. */
typedef struct reader_stream {
    hf_client *client;
    const char *name;
    atomic_int *over;
    atomic_long *read;
    hf_result failed;
} reader_stream;

static void keep_reading(void *arg) {
    reader_stream *s = arg;
    while (!atomic_load(s->over) && !cf_over()) {
        hf_hold *hold = NULL;
        hf_result result = hf_acquire(s->client, s->name, CF_WAIT(HF_READ), &hold);
        if (result == HF_OK) atomic_fetch_add(s->read, 1);
        if (result == HF_OK) result = hf_release(hold);
        if (result != HF_OK) s->failed = result;
        if (result != HF_OK) return;
    }
}

static void B16_a_writer_is_not_starved_by_readers(cf *f) {
    enum { STREAMS = 6, WRITES = 5 };
    reader_stream *streams = cf_new(f, STREAMS * sizeof *streams);
    atomic_int *over = cf_new(f, sizeof *over);
    atomic_long *read = cf_new(f, sizeof *read);
    cf_thread *threads[STREAMS];
    for (int i = 0; i < STREAMS; i++) {
        streams[i] = (reader_stream){i % 2 ? f->a : f->b, f->name, over, read, HF_OK};
        threads[i] = cf_spawn(f, keep_reading, &streams[i]);
    }
    hf_client *const writing[] = {f->a, cf_open(f)};
    for (int i = 0; i < WRITES; i++) {
        long before = atomic_load(read);
        CF_UNTIL(atomic_load(read) > before); /* and they are not stopped by it */
        CF_FREE(CF_TAKE(writing[i % 2], f->name, CF_OPTIONS(HF_WRITE, .wait_ms = CF_WATCHDOG_MS)));
    }
    atomic_store(over, 1);
    for (int i = 0; i < STREAMS; i++) {
        cf_join(threads[i]);
        CF_IS(HF_OK, streams[i].failed);
    }
}

/* ---- Processes ------------------------------------------------------------------------------- */

/* Exchanged between a case and its child, in shared memory. */
typedef struct reader_stage {
    const char *name;
    reader_library library;
    int first;
    _Atomic uint64_t token;
    atomic_int ready, go;
} reader_stage;

static reader_stage *new_stage(cf *f) {
    reader_stage *s = t_shared_new(sizeof *s);
    s->name = f->name;
    s->library.name = f->name;
    return s;
}

static hf_client *open_in_child(void) {
    hf_client *client = NULL;
    CF_IS(HF_OK, hf_open(cf_url(), NULL, &client));
    return client;
}

static int read_in_child(void *arg) {
    reader_stage *s = arg;
    hf_client *client = open_in_child();
    hf_hold *hold = CF_TAKE(client, s->name, CF_OPTIONS(HF_READ, .lease_ms = CF_KEPT_LEASE_MS));
    atomic_store(&s->token, hf_fence(hold));
    atomic_store(&s->ready, 1);
    CF_UNTIL(atomic_load(&s->go));
    CF_FREE(hold);
    hf_close(client);
    return 0;
}

static void B16_readers_share_across_processes(cf *f) {
    reader_stage *s = new_stage(f);
    t_proc *child = t_proc_start(read_in_child, s);
    CF_UNTIL(atomic_load(&s->ready));
    hf_hold *hold = CF_TAKE(f->a, f->name, CF_TRY(HF_READ, 0));
    CF_REFUSED(HF_BUSY, f->b, f->name, CF_TRY(HF_WRITE, 0));
    CF_FREE(hold);
    CF_REFUSED(HF_BUSY, f->b, f->name, CF_TRY(HF_MUTEX, 0));
    cf_attempt *writer = cf_arrive(f, f->b, f->name, CF_WAIT(HF_WRITE));
    atomic_store(&s->go, 1);
    assert_int_equal(t_proc_wait(child, CF_WATCHDOG_MS), 0);
    hold = cf_granted(writer);
    assert_true(hf_fence(hold) > atomic_load(&s->token));
    CF_FREE(hold);
    t_shared_free(s, sizeof *s);
}

static void B16_a_reader_that_is_killed_expires_while_others_renew(cf *f) {
    reader_stage *s = new_stage(f);
    t_proc *child = t_proc_start(read_in_child, s);
    CF_UNTIL(atomic_load(&s->ready));
    hf_hold *hold = CF_TAKE(f->a, f->name, &KEPT_READ);
    t_sleep_ms(CF_PAST_LEASE_MS); /* the child renews */
    assert_int_equal(cf_holders(f->b, f->name), 2);
    t_proc_kill(child, SIGKILL);
    assert_int_equal(t_proc_wait(child, CF_WATCHDOG_MS), 128 + SIGKILL);
    CF_UNTIL(cf_holders(f->b, f->name) == 1);
    assert_int_equal(hf_held(hold), 1);
    CF_REFUSED(HF_BUSY, f->b, f->name, CF_TRY(HF_WRITE, 0));
    CF_FREE(hold);
    CF_FREE(CF_TAKE(f->b, f->name, CF_TRY(HF_WRITE, 0)));
    t_shared_free(s, sizeof *s);
}

static int visit_in_child(void *arg) {
    reader_stage *s = arg;
    hf_client *client = open_in_child();
    visit_library(&s->library, client, ROUNDS, 0);
    hf_close(client);
    return 0;
}

static void B16_readers_and_writers_of_processes_exclude_each_other_and_all_finish(cf *f) {
    enum { PROCESSES = 5 };
    reader_stage *s = new_stage(f);
    t_proc *children[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) children[i] = t_proc_start(visit_in_child, s);
    for (int i = 0; i < PROCESSES; i++)
        assert_int_equal(t_proc_wait(children[i], CF_WATCHDOG_MS), 0);
    check_library(&s->library, PROCESSES);
    t_shared_free(s, sizeof *s);
}

/* A waiting writer that is killed does not block the others forever. */
static int wait_in_child(void *arg) {
    reader_stage *s = arg;
    hf_client *client = open_in_child();
    CF_UNTIL(atomic_load(&s->go));
    (void)CF_TAKE(client, s->name, CF_WAIT(HF_WRITE));
    return 1; /* not reached: the process is killed */
}

static void B14_a_waiting_writer_that_is_killed_lets_the_readers_in(cf *f) {
    reader_stage *s = new_stage(f);
    t_proc *child = t_proc_start(wait_in_child, s);
    hf_hold *hold = CF_TAKE(f->a, f->name, CF_TRY(HF_READ, 0));
    atomic_store(&s->go, 1);
    CF_UNTIL(cf_are_queued(f->a, f->name, 1));
    cf_attempt *reader = cf_arrive(f, f->b, f->name, CF_WAIT(HF_READ));
    t_proc_kill(child, SIGKILL);
    assert_int_equal(t_proc_wait(child, CF_WATCHDOG_MS), 128 + SIGKILL);
    CF_UNTIL(cf_stats(f->b).waiting == 0);
    CF_FREE(cf_granted(reader));
    CF_FREE(hold);
    t_shared_free(s, sizeof *s);
}

const cf_case cf_readers[] = {
    CF_CASE_NEEDS(B16_readers_of_a_client_share, CF_KINDS),
    CF_CASE_NEEDS(B16_readers_of_many_clients_share, CF_KINDS),
    CF_CASE_NEEDS(B16_a_thousand_readers_share, CF_KINDS),
    CF_CASE_NEEDS(B16_readers_keep_all_others_out, CF_KINDS),
    CF_CASE_NEEDS(B16_a_writer_keeps_everybody_out, CF_KINDS),
    CF_CASE_NEEDS(B16_the_writer_enters_after_the_last_reader, CF_KINDS),
    CF_CASE_NEEDS(B16_readers_wait_for_the_writer, CF_KINDS),
    CF_CASE_NEEDS(B16_a_waiting_writer_holds_back_new_readers, CF_KINDS),
    CF_CASE_NEEDS(B16_a_reader_re_enters_past_a_waiting_writer, CF_KINDS),
    CF_CASE_NEEDS(B16_a_run_of_readers_at_the_head_enters_together, CF_KINDS),
    CF_CASE_NEEDS(B16_all_local_readers_of_a_run_enter_together, CF_KINDS),
    CF_CASE_NEEDS(B16_runs_of_several_clients_enter_together, CF_KINDS),
    CF_CASE_NEEDS(B16_readers_and_writers_of_clients_are_served_in_order_of_arrival, CF_KINDS),
    CF_CASE_NEEDS(B16_readers_and_writers_of_a_client_are_served_in_order_of_arrival, CF_KINDS),
    CF_CASE_NEEDS(B16_the_queue_behind_readers_is_served_in_order_of_arrival, CF_KINDS),
    CF_CASE_NEEDS(B16_a_writer_that_times_out_lets_the_readers_in, CF_KINDS),
    CF_CASE_NEEDS(B16_a_writer_that_is_cancelled_lets_the_readers_in, CF_KINDS),
    CF_CASE_NEEDS(B16_a_writer_whose_client_closes_lets_the_readers_in, CF_KINDS),
    CF_CASE_NEEDS(B16_a_writer_of_the_reading_client_that_gives_up_lets_readers_in, CF_KINDS),
    CF_CASE_NEEDS(B16_a_reader_that_gives_up_does_not_change_the_order_of_the_others, CF_KINDS),
    CF_CASE_NEEDS(B16_a_reader_takes_over_the_position_of_one_that_is_cancelled, CF_KINDS),
    CF_CASE_NEEDS(B16_a_reader_takes_over_the_position_of_one_that_times_out, CF_KINDS),
    CF_CASE_NEEDS(B16_a_dead_reader_expires_while_others_renew, CF_KINDS),
    CF_CASE_NEEDS(B16_a_dead_reader_of_the_same_client_expires_too, CF_KINDS),
    CF_CASE_NEEDS(B16_a_writer_enters_when_the_last_reader_has_died, CF_KINDS),
    CF_CASE_NEEDS(B16_a_reader_re_enters, CF_KINDS),
    CF_CASE_NEEDS(B16_a_reader_that_left_may_write_after_the_others, CF_KINDS),
    CF_CASE_NEEDS(B25_an_owner_that_waits_in_two_threads_enters_in_both, CF_KINDS),
    CF_CASE_NEEDS(B25_an_owner_that_waits_to_read_and_to_write_is_a_deadlock, CF_KINDS),
    CF_CASE_NEEDS(B12_readers_that_share_are_all_notified, CF_KINDS),
    CF_CASE_NEEDS(B02_a_reader_that_may_not_re_enter_is_a_deadlock, CF_KINDS),
    CF_CASE_NEEDS(B16_an_owner_reads_while_it_writes, CF_KINDS),
    CF_CASE_NEEDS(B16_a_write_request_of_a_reader_is_a_deadlock_at_once, CF_KINDS),
    CF_CASE_NEEDS(B26_a_broken_reader_is_notified_and_the_others_are_not, CF_KINDS),
    CF_CASE_NEEDS(B26_a_break_of_all_notifies_every_reader, CF_KINDS),
    CF_CASE_NEEDS(B26_a_break_of_the_last_reader_serves_the_writer, CF_KINDS),
    CF_CASE_NEEDS(B16_many_readers_and_writers_exclude_each_other_and_all_finish, CF_KINDS),
    CF_CASE_NEEDS(B16_many_threads_of_a_client_exclude_each_other_and_all_finish, CF_KINDS),
    CF_CASE_NEEDS(B16_a_writer_is_not_starved_by_readers, CF_KINDS),
    CF_CASE_NEEDS(B16_readers_share_across_processes, CF_KINDS | CF_PROCESSES),
    CF_CASE_NEEDS(B16_a_reader_that_is_killed_expires_while_others_renew, CF_KINDS | CF_PROCESSES),
    CF_CASE_NEEDS(B16_readers_and_writers_of_processes_exclude_each_other_and_all_finish,
                  CF_KINDS | CF_PROCESSES),
    CF_CASE_NEEDS(B14_a_waiting_writer_that_is_killed_lets_the_readers_in, CF_KINDS | CF_PROCESSES),
    CF_CASES_END,
};
