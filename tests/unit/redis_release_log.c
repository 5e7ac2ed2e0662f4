/* SPDX-License-Identifier: Apache-2.0 */
/* The log of recent releases, which are repeated to a new server after a failover (F38). */
#include "t.h"

#include <stdlib.h>
#include <string.h>

#include "store/redis/topology/release_log.h"

#define NOW      (1000 * HF__SEC)
#define LEASE_MS 10000

static hf__url url = {.prefix = "hf"};
static const hf__identity who = {.client = "c"};

typedef struct log_fixture {
    hf__release_log releases;
    hf__session session;
} log_fixture;

static int set_up(void **state) {
    log_fixture *f = calloc(1, sizeof *f);
    hf__release_log_init(&f->releases, 1);
    if (!f || !hf__session_init(&f->session, HF__COMMANDS, &url, &who, NULL, "w:1")) return -1;
    f->session.state = HF__READY;
    *state = f;
    return 0;
}

static void take_back(log_fixture *f) {
    for (hf__op *op; (op = hf__session_completed(&f->session));)
        assert_true(hf__release_log_reclaim(op));
}

static int tear_down(void **state) {
    log_fixture *f = *state;
    hf__session_break(&f->session);
    take_back(f);
    hf__release_log_fini(&f->releases);
    hf__session_fini(&f->session);
    free(f);
    return 0;
}

static void note_release(log_fixture *f, hf__verb verb, const char *name, uint64_t acquire_id,
                         hf_result result, bool leave, hf__time now) {
    hf__op op = {.verb = verb,
                 .name = name,
                 .name_length = strlen(name),
                 .acquire_id = acquire_id,
                 .lease_ms = LEASE_MS,
                 .leave_queue = leave,
                 .result = result};
    hf__release_log_note(&f->releases, &op, now);
}

/* Returns how many releases are repeated. They end when the connection breaks. */
static size_t count_repeated(log_fixture *f, hf__time now) {
    hf__release_log_repeat(&f->releases, &f->session, now);
    size_t count = f->session.in_flight;
    hf__session_break(&f->session);
    take_back(f);
    f->session.state = HF__READY;
    return count;
}

static void test_a_release_is_repeated_for_a_lease(void **state) {
    log_fixture *f = *state;
    note_release(f, HF__RELEASE, "a", 7, HF_OK, false, NOW);
    hf__release_log_repeat(&f->releases, &f->session, NOW);
    assert_int_equal(f->session.in_flight, 1);
    const hf__op *op = hf__fifo_first(&f->session.sent);
    assert_int_equal(op->verb, HF__RELEASE);
    assert_int_equal(op->acquire_id, 7);
    assert_int_equal(op->name_length, 1);
    assert_memory_equal(op->name, "a", 1);
    hf__release_log_repeat(&f->releases, &f->session, NOW); /* it is in flight */
    assert_int_equal(f->session.in_flight, 1);
    hf__session_break(&f->session);
    take_back(f);
    f->session.state = HF__READY;
    assert_int_equal(count_repeated(f, NOW + (LEASE_MS - 1) * HF__MS), 1);
    assert_int_equal(count_repeated(f, NOW + LEASE_MS * HF__MS), 0);
    assert_int_equal(f->releases.count, 0);
}

static void test_only_releases_are_logged(void **state) {
    log_fixture *f = *state;
    note_release(f, HF__ACQUIRE, "a", 1, HF_OK, false, NOW);
    note_release(f, HF__RENEW, "a", 1, HF_OK, false, NOW);
    note_release(f, HF__RELEASE, "a", 1, HF_UNREACHABLE, false, NOW);
    assert_int_equal(count_repeated(f, NOW), 0);
    note_release(f, HF__RELEASE, "a", 1, HF_LOST, false, NOW); /* another server may have it */
    assert_int_equal(count_repeated(f, NOW + (LEASE_MS - 1) * HF__MS), 1);
    assert_int_equal(count_repeated(f, NOW + LEASE_MS * HF__MS), 0);
    /* A waiter that left the queue held nothing. */
    note_release(f, HF__RELEASE, "a", 1, HF_LOST, true, NOW);
    assert_int_equal(count_repeated(f, NOW), 1);
    assert_int_equal(count_repeated(f, NOW + (HF__QUEUE_ENTRY_MS - 1) * HF__MS), 1);
    assert_int_equal(count_repeated(f, NOW + HF__QUEUE_ENTRY_MS * HF__MS), 0);
}

static void test_a_later_release_of_a_name_replaces_earlier_ones(void **state) {
    log_fixture *f = *state;
    for (uint64_t i = 1; i <= 5; i++) note_release(f, HF__RELEASE, "a", i, HF_OK, false, NOW);
    note_release(f, HF__RELEASE, "b", 9, HF_OK, false, NOW);
    assert_int_equal(f->releases.count, 2);
    hf__release_log_repeat(&f->releases, &f->session, NOW);
    assert_int_equal(hf__fifo_first(&f->session.sent)->acquire_id, 5);
    note_release(f, HF__RELEASE, "a", 6, HF_OK, false, NOW); /* while that is in flight */
    hf__session_break(&f->session);
    take_back(f);
    f->session.state = HF__READY;
    hf__release_log_repeat(&f->releases, &f->session, NOW);
    assert_int_equal(f->session.in_flight, 2);
    uint64_t a = hf__fifo_first(&f->session.sent)->name[0] == 'a'
                     ? hf__fifo_first(&f->session.sent)->acquire_id
                     : f->session.sent.last->acquire_id;
    assert_int_equal(a, 6);
}

/* Another server may still have the waiter in its queue, and would grant the lock to nobody. */
static void test_a_queued_waiter_leaves_the_queue(void **state) {
    log_fixture *f = *state;
    hf__op placed = {
        .verb = HF__ACQUIRE, .name = "b", .name_length = 1, .acquire_id = 1, .queued = true};
    note_release(f, HF__RELEASE, "a", 1, HF_OK, false, NOW);
    hf__release_log_note(&f->releases, &placed, NOW);
    note_release(f, HF__RELEASE, "b", 1, HF_OK, false, NOW);
    hf__release_log_repeat(&f->releases, &f->session, NOW);
    assert_int_equal(f->session.in_flight, 2);
    assert_false(hf__fifo_first(&f->session.sent)->leave_queue);
    assert_true(f->session.sent.last->leave_queue);
}

static void test_a_lost_hold_leaves_the_queue_at_once(void **state) {
    log_fixture *f = *state;
    note_release(f, HF__RENEW, "a", 3, HF_LOST, false, NOW);
    assert_false(f->releases.repeat_now);
    f->releases.has_queued = true;
    note_release(f, HF__RENEW, "a", 3, HF_LOST, false, NOW);
    assert_true(f->releases.repeat_now);
    hf__release_log_repeat(&f->releases, &f->session, NOW);
    assert_false(f->releases.repeat_now);
    assert_int_equal(f->session.in_flight, 1);
    assert_int_equal(hf__fifo_first(&f->session.sent)->acquire_id, 3);
    assert_true(hf__fifo_first(&f->session.sent)->leave_queue);
    note_release(f, HF__RELEASE, "b", 4, HF_LOST, false, NOW);
    assert_true(f->releases.repeat_now);
}

static void test_releases_of_other_kinds_are_logged_separately(void **state) {
    log_fixture *f = *state;
    for (uint64_t i = 1; i <= 3; i++) {
        hf__op op = {.verb = HF__RELEASE,
                     .kind = HF_READ,
                     .name = "a",
                     .name_length = 1,
                     .acquire_id = i,
                     .lease_ms = LEASE_MS};
        hf__release_log_note(&f->releases, &op, NOW);
    }
    hf__release_log_repeat(&f->releases, &f->session, NOW);
    assert_int_equal(f->session.in_flight, 3);
    assert_int_equal(hf__fifo_first(&f->session.sent)->name_length, 1);
    assert_int_equal(hf__fifo_first(&f->session.sent)->kind, HF_READ);
}

static void test_the_log_has_a_maximum_size(void **state) {
    log_fixture *f = *state;
    char name[16];
    for (int i = 0; i < HF__RELEASE_LOG_MAX + 100; i++) {
        snprintf(name, sizeof name, "n%d", i);
        note_release(f, HF__RELEASE, name, (uint64_t)i + 1, HF_OK, false, NOW + i);
    }
    assert_int_equal(f->releases.count, HF__RELEASE_LOG_MAX);
    hf__release_log_repeat(&f->releases, &f->session, NOW);
    /* The oldest was dropped. */
    assert_int_equal(f->session.sent.last->acquire_id, HF__RELEASE_LOG_MAX + 100);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void) {
    const struct CMUnitTest tests[] = {
        TEST(test_a_release_is_repeated_for_a_lease),
        TEST(test_only_releases_are_logged),
        TEST(test_a_later_release_of_a_name_replaces_earlier_ones),
        TEST(test_a_queued_waiter_leaves_the_queue),
        TEST(test_a_lost_hold_leaves_the_queue_at_once),
        TEST(test_releases_of_other_kinds_are_logged_separately),
        TEST(test_the_log_has_a_maximum_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
