/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every kind of lock on the memory store: which holders fit together, in what order waiters are
 * served, and what acquire ids mean. The store is driven directly, in virtual time.
 */
#include "t.h"

#include <stdlib.h>

#include "store/memory/memory.h"

enum { CLIENTS = 5 };

#define LEASE_MS 10000
/* Retry interval of a waiter that is notified, unless a lease ends sooner. */
#define NOTIFIED_MS 400

/* Clients of one memory space that use one name. */
typedef struct kinds_world {
    hf__store *clients[CLIENTS];
    hf__time now;
} kinds_world;

/* ---- Actions --------------------------------------------------------------------------------- */

static void write_client_id(char out[HF__UUID_LENGTH + 1], int index) {
    snprintf(out, HF__UUID_LENGTH + 1, "00000000-0000-4000-8000-%012u", (unsigned)index % 1000);
}

static hf__store *open_client(int index) {
    hf__identity who = {.pid = index};
    write_client_id(who.client, index);
    hf__store *made = hf__memory_new("kinds", "hf", &who);
    assert_non_null(made);
    return made;
}

static int set_up(void **state) {
    kinds_world *w = calloc(1, sizeof *w);
    w->now = 1000 * HF__SEC;
    for (int i = 0; i < CLIENTS; i++) w->clients[i] = open_client(i);
    *state = w;
    return 0;
}

static void close_client(kinds_world *w, int client) {
    hf__store *store = w->clients[client];
    if (store) store->table->free(store, false);
    w->clients[client] = NULL;
}

static int tear_down(void **state) {
    kinds_world *w = *state;
    for (int i = 0; i < CLIENTS; i++) close_client(w, i);
    free(w);
    return 0;
}

static void pass_ms(kinds_world *w, int64_t ms) {
    w->now += ms * HF__MS;
}

static hf__op submit_op(kinds_world *w, int client, hf__op op) {
    hf__store *store = w->clients[client];
    op.name = "door";
    op.name_length = 4;
    op.owner = (hf__owner){.id = op.acquire_id, .logical = true};
    if (!op.not_after) op.not_after = HF__NEVER;
    if (!op.lease_ms && op.verb == HF__ACQUIRE) op.lease_ms = LEASE_MS;
    if (!op.count) op.count = 1;
    op.has_waiters = op.queued = true; /* the store must overwrite both */
    store->table->submit(store, &op, w->now);
    assert_ptr_equal(store->table->completed(store), &op);
    assert_null(store->table->completed(store));
    return op;
}

/* The first acquires now or not at all; the second waits. */
static hf__op try_acquire(kinds_world *w, int client, uint64_t acquire_id, uint32_t kind) {
    return submit_op(w, client,
                     (hf__op){.verb = HF__ACQUIRE, .acquire_id = acquire_id, .kind = kind});
}

static hf__op join_queue(kinds_world *w, int client, uint64_t acquire_id, uint32_t kind) {
    return submit_op(
        w, client,
        (hf__op){.verb = HF__ACQUIRE, .acquire_id = acquire_id, .kind = kind, .enqueue = true});
}

static hf__op try_permits(kinds_world *w, int client, uint64_t acquire_id, uint32_t permits,
                          uint32_t capacity) {
    return submit_op(w, client,
                     (hf__op){.verb = HF__ACQUIRE,
                              .acquire_id = acquire_id,
                              .kind = HF_PERMITS,
                              .permits = permits,
                              .capacity = capacity});
}

static hf__op join_queue_for_permits(kinds_world *w, int client, uint64_t acquire_id,
                                     uint32_t permits, uint32_t capacity) {
    return submit_op(w, client,
                     (hf__op){.verb = HF__ACQUIRE,
                              .acquire_id = acquire_id,
                              .kind = HF_PERMITS,
                              .permits = permits,
                              .capacity = capacity,
                              .enqueue = true});
}

static hf__op upgrade_hold(kinds_world *w, int client, uint64_t acquire_id, bool waits) {
    return submit_op(w, client,
                     (hf__op){.verb = HF__ACQUIRE,
                              .acquire_id = acquire_id,
                              .kind = HF_UPGRADABLE,
                              .upgrade = true,
                              .enqueue = waits});
}

static hf__op renew_hold(kinds_world *w, int client, uint64_t acquire_id, uint32_t kind,
                         uint64_t token) {
    return submit_op(w, client,
                     (hf__op){.verb = HF__RENEW,
                              .acquire_id = acquire_id,
                              .kind = kind,
                              .token = token,
                              .lease_ms = LEASE_MS});
}

static hf_result release_hold(kinds_world *w, int client, uint64_t acquire_id, uint32_t kind) {
    return submit_op(w, client,
                     (hf__op){.verb = HF__RELEASE, .acquire_id = acquire_id, .kind = kind})
        .result;
}

static hf__op break_token(kinds_world *w, uint64_t token) {
    return submit_op(w, 0, (hf__op){.verb = HF__BREAK, .token = token});
}

static hf__lock_info inspect_lock(kinds_world *w) {
    hf__lock_info lock_info = {0};
    assert_int_equal(submit_op(w, 0, (hf__op){.verb = HF__INSPECT, .lock_info = &lock_info}).result,
                     HF_OK);
    return lock_info;
}

/* ---- Results --------------------------------------------------------------------------------- */

/* Macros, so that a failure names the line of the test. */
#define GRANTED(op)  assert_int_equal(token_of(op), HF_OK)
#define REFUSED(op)  assert_int_equal(result_of_refusal(op), HF_BUSY)
#define QUEUED(op)   assert_true(is_queued(op))
#define RELEASED(op) assert_int_equal(op, HF_OK)
#define KEPT(op)     assert_int_equal((op).result, HF_OK)
#define LOST(op)     assert_int_equal((op).result, HF_LOST)

static hf_result token_of(hf__op op) {
    return op.result == HF_OK && !op.token ? HF_PROTOCOL : op.result;
}

static hf_result result_of_refusal(hf__op op) {
    return op.queued ? HF_PROTOCOL : op.result;
}

static bool is_queued(hf__op op) {
    return op.result == HF_BUSY && op.queued && op.retry_ms > 0 && op.retry_ms <= NOTIFIED_MS;
}

/* Returns the token of a hold that must be granted. */
static uint64_t granted_token(hf__op op) {
    GRANTED(op);
    return op.token;
}

static void check_queue(kinds_world *w, const int *clients, uint32_t count) {
    hf__lock_info lock_info = inspect_lock(w);
    assert_int_equal(lock_info.waiter_count, count);
    for (uint32_t i = 0; i < count; i++) {
        char client[HF__UUID_LENGTH + 1];
        write_client_id(client, clients[i]);
        assert_string_equal(lock_info.waiters[i].client, client);
    }
}

#define QUEUE(w, ...)                          \
    check_queue(w, (const int[]){__VA_ARGS__}, \
                (uint32_t)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int)))

#define NO_QUEUE(w) check_queue(w, NULL, 0)

/* ---- Which holders fit together -------------------------------------------------------------- */

static void test_readers_share(void **state) {
    kinds_world *w = *state;
    for (int i = 0; i < CLIENTS; i++) GRANTED(try_acquire(w, i, 1, HF_READ));
    GRANTED(try_acquire(w, 0, 2, HF_READ)); /* of one client, too */
    assert_int_equal(inspect_lock(w).holders, CLIENTS + 1);
}

static void test_a_writer_excludes_every_kind(void **state) {
    kinds_world *w = *state;
    GRANTED(try_acquire(w, 0, 1, HF_WRITE));
    for (uint32_t kind = HF_MUTEX; kind <= HF_UPGRADABLE; kind++) {
        REFUSED(try_acquire(w, 1, 1, kind));
        REFUSED(try_acquire(w, 0, 2, kind)); /* another hold of its own client counts as another */
    }
    REFUSED(try_permits(w, 1, 1, 1, 9));
}

static void test_every_kind_keeps_a_writer_and_a_mutex_out(void **state) {
    kinds_world *w = *state;
    for (uint32_t kind = HF_MUTEX; kind <= HF_PERMITS; kind++) {
        GRANTED(kind == HF_PERMITS ? try_permits(w, 0, kind + 1, 1, 9)
                                   : try_acquire(w, 0, kind + 1, kind));
        REFUSED(try_acquire(w, 1, 1, HF_WRITE));
        REFUSED(try_acquire(w, 1, 2, HF_MUTEX));
        RELEASED(release_hold(w, 0, kind + 1, kind));
    }
    GRANTED(try_acquire(w, 1, 3, HF_WRITE));
}

static void test_permits_and_readers_do_not_mix(void **state) {
    kinds_world *w = *state;
    GRANTED(try_acquire(w, 0, 1, HF_READ));
    REFUSED(try_permits(w, 1, 1, 1, 9));
    RELEASED(release_hold(w, 0, 1, HF_READ));
    GRANTED(try_permits(w, 1, 2, 1, 9));
    REFUSED(try_acquire(w, 0, 2, HF_READ));
    REFUSED(try_acquire(w, 0, 3, HF_UPGRADABLE));
}

static void test_one_upgradable_fits_with_readers_in_any_order(void **state) {
    kinds_world *w = *state;
    GRANTED(try_acquire(w, 0, 1, HF_READ));
    GRANTED(try_acquire(w, 1, 1, HF_UPGRADABLE));
    GRANTED(try_acquire(w, 2, 1, HF_READ));
    REFUSED(try_acquire(w, 3, 1, HF_UPGRADABLE));
}

static void test_a_dead_reader_expires_while_others_renew(void **state) {
    kinds_world *w = *state;
    GRANTED(try_acquire(w, 0, 1, HF_READ)); /* this client dies */
    uint64_t token = granted_token(try_acquire(w, 1, 1, HF_READ));
    pass_ms(w, LEASE_MS / 2);
    KEPT(renew_hold(w, 1, 1, HF_READ, token));
    pass_ms(w, LEASE_MS / 2);
    hf__lock_info lock_info = inspect_lock(w);
    assert_int_equal(lock_info.holders, 1);
    assert_string_equal(lock_info.identity.client, "00000000-0000-4000-8000-000000000001");
    REFUSED(try_acquire(w, 2, 1, HF_WRITE));
    pass_ms(w, LEASE_MS / 2);
    GRANTED(try_acquire(w, 2, 2, HF_WRITE));
    LOST(renew_hold(w, 1, 1, HF_READ, token));
    assert_int_equal(release_hold(w, 0, 1, HF_READ), HF_LOST);
}

/* ---- Tokens ---------------------------------------------------------------------------------- */

static void test_every_grant_has_a_higher_token(void **state) {
    kinds_world *w = *state;
    uint64_t first = granted_token(try_acquire(w, 0, 1, HF_READ)),
             second = granted_token(try_acquire(w, 1, 1, HF_READ));
    assert_true(second > first);
    hf__op above = submit_op(
        w, 2,
        (hf__op){
            .verb = HF__ACQUIRE, .acquire_id = 1, .kind = HF_READ, .token = second + 1000000000});
    assert_int_equal(granted_token(above), second + 1000000001);
    assert_true(granted_token(try_acquire(w, 3, 1, HF_READ)) > above.token);
}

static void test_a_retry_is_granted_once_under_its_token(void **state) {
    kinds_world *w = *state;
    for (uint32_t kind = HF_MUTEX; kind <= HF_UPGRADABLE; kind++) {
        uint64_t token = granted_token(try_acquire(w, 0, kind + 1, kind));
        assert_int_equal(granted_token(join_queue(w, 0, kind + 1, kind)), token);
        assert_int_equal(inspect_lock(w).holders, 1);
        RELEASED(release_hold(w, 0, kind + 1, kind));
    }
    granted_token(try_permits(w, 0, 9, 3, 5));
    GRANTED(try_permits(w, 0, 9, 3, 5));
    assert_int_equal(inspect_lock(w).used, 3);
}

static void test_busy_reports_the_highest_token(void **state) {
    kinds_world *w = *state;
    granted_token(try_acquire(w, 0, 1, HF_READ));
    uint64_t token = granted_token(try_acquire(w, 1, 1, HF_READ));
    assert_int_equal(join_queue(w, 2, 1, HF_WRITE).holder_token, token);
    RELEASED(release_hold(w, 0, 1, HF_READ));
    RELEASED(release_hold(w, 1, 1, HF_READ));
    assert_int_equal(try_acquire(w, 3, 1, HF_READ).holder_token,
                     0); /* no holder: the queue is in the way */
}

static void test_a_renewal_needs_id_and_token(void **state) {
    kinds_world *w = *state;
    uint64_t token = granted_token(try_acquire(w, 0, 5, HF_READ));
    LOST(renew_hold(w, 0, 5, HF_READ, token + 1));
    LOST(renew_hold(w, 0, 4, HF_READ, token));
    LOST(renew_hold(w, 1, 5, HF_READ, token));
    KEPT(renew_hold(w, 0, 5, HF_READ, token));
}

static void test_a_renewal_sets_the_count_and_never_shortens(void **state) {
    kinds_world *w = *state;
    hf__op op = {.verb = HF__RENEW, .acquire_id = 1, .kind = HF_READ, .count = 3};
    op.token = granted_token(try_acquire(w, 0, 1, HF_READ));
    KEPT(submit_op(w, 0, op)); /* without a lease the expiry stays */
    assert_int_equal(inspect_lock(w).count, 3);
    assert_int_equal(inspect_lock(w).remaining_ms, LEASE_MS);
    op.lease_ms = LEASE_MS + 5;
    KEPT(submit_op(w, 0, op));
    assert_int_equal(inspect_lock(w).remaining_ms, LEASE_MS + 5);
    op.lease_ms = LEASE_MS - 5;
    KEPT(submit_op(w, 0, op));
    assert_int_equal(inspect_lock(w).remaining_ms, LEASE_MS + 5);
}

/* ---- The queue ------------------------------------------------------------------------------- */

static void test_a_waiting_writer_holds_back_later_readers(void **state) {
    kinds_world *w = *state;
    GRANTED(try_acquire(w, 0, 1, HF_READ));
    QUEUED(join_queue(w, 1, 1, HF_WRITE));
    REFUSED(try_acquire(w, 2, 1, HF_READ));
    QUEUED(join_queue(w, 3, 1, HF_READ));
    QUEUE(w, 1, 3);
    RELEASED(release_hold(w, 0, 1, HF_READ));
    REFUSED(try_acquire(w, 2, 2, HF_READ)); /* free now, but not for readers behind the writer */
    QUEUED(join_queue(w, 3, 1, HF_READ));
    GRANTED(join_queue(w, 1, 1, HF_WRITE));
    QUEUE(w, 3);
}

static void test_a_run_of_readers_enters_together(void **state) {
    kinds_world *w = *state;
    GRANTED(try_acquire(w, 0, 1, HF_WRITE));
    QUEUED(join_queue(w, 1, 1, HF_READ));
    QUEUED(join_queue(w, 2, 1, HF_READ));
    QUEUED(join_queue(w, 3, 1, HF_WRITE));
    QUEUED(join_queue(w, 4, 1, HF_READ));
    RELEASED(release_hold(w, 0, 1, HF_WRITE));
    QUEUED(join_queue(w, 4, 1, HF_READ)); /* behind the second writer */
    /* Adjacent readers need not wait for the first of them. */
    GRANTED(join_queue(w, 2, 1, HF_READ));
    QUEUED(join_queue(w, 3, 1, HF_WRITE));
    GRANTED(join_queue(w, 1, 1, HF_READ));
    RELEASED(release_hold(w, 1, 1, HF_READ));
    QUEUED(join_queue(w, 3, 1, HF_WRITE));
    RELEASED(release_hold(w, 2, 1, HF_READ));
    GRANTED(join_queue(w, 3, 1, HF_WRITE));
    QUEUE(w, 4);
}

/* This also holds between the release and the writer's next retry. */
static void test_nobody_passes_a_waiting_writer(void **state) {
    kinds_world *w = *state;
    GRANTED(try_acquire(w, 0, 1, HF_MUTEX));
    QUEUED(join_queue(w, 1, 1, HF_WRITE));
    RELEASED(release_hold(w, 0, 1, HF_MUTEX));
    for (uint32_t kind = HF_MUTEX; kind <= HF_UPGRADABLE; kind++)
        REFUSED(try_acquire(w, 2, kind + 1, kind));
    REFUSED(try_permits(w, 2, 9, 1, 9));
    GRANTED(join_queue(w, 1, 1, HF_WRITE));
}

/* The reader would fit, but it came after a waiter that is still blocked. */
static void test_readers_queue_behind_a_second_upgradable(void **state) {
    kinds_world *w = *state;
    GRANTED(try_acquire(w, 0, 1, HF_UPGRADABLE));
    QUEUED(join_queue(w, 1, 1, HF_UPGRADABLE));
    REFUSED(try_acquire(w, 2, 1, HF_READ));
    RELEASED(release_hold(w, 0, 1, HF_UPGRADABLE));
    GRANTED(try_acquire(w, 2, 2, HF_READ)); /* now both fit */
    GRANTED(join_queue(w, 1, 1, HF_UPGRADABLE));
}

static void test_mutexes_of_clients_are_served_in_order(void **state) {
    kinds_world *w = *state;
    GRANTED(try_acquire(w, 0, 1, HF_MUTEX));
    for (int i = 1; i < CLIENTS; i++) QUEUED(join_queue(w, i, 1, HF_MUTEX));
    RELEASED(release_hold(w, 0, 1, HF_MUTEX));
    QUEUED(join_queue(w, 0, 2, HF_MUTEX));
    for (int i = 1; i < CLIENTS; i++) {
        QUEUED(join_queue(w, 0, 2, HF_MUTEX));
        GRANTED(join_queue(w, i, 1, HF_MUTEX));
        RELEASED(release_hold(w, i, 1, HF_MUTEX));
    }
    GRANTED(join_queue(w, 0, 2, HF_MUTEX));
    NO_QUEUE(w);
}

static void test_a_position_is_kept_by_retrying(void **state) {
    kinds_world *w = *state;
    uint64_t token = granted_token(try_acquire(w, 0, 1, HF_WRITE));
    QUEUED(join_queue(w, 1, 1, HF_WRITE));
    QUEUED(join_queue(w, 2, 1, HF_WRITE));
    for (int i = 0; i < 20; i++) { /* they retry at different times */
        pass_ms(w, 400);
        QUEUED(join_queue(w, 2 - i % 2, 1, HF_WRITE));
        KEPT(renew_hold(w, 0, 1, HF_WRITE, token));
        QUEUE(w, 1, 2);
    }
}

static void test_a_position_is_lost_after_a_second_without_retry(void **state) {
    kinds_world *w = *state;
    GRANTED(try_acquire(w, 0, 1, HF_READ));
    QUEUED(join_queue(w, 1, 1, HF_WRITE));
    pass_ms(w, 999);
    REFUSED(try_acquire(w, 2, 1, HF_READ));
    QUEUED(join_queue(w, 2, 2, HF_WRITE));
    QUEUE(w, 1, 2);
    pass_ms(w, 1);
    QUEUE(w, 2);
    QUEUED(join_queue(w, 1, 1, HF_WRITE)); /* comes back at the end of the queue */
    QUEUE(w, 2, 1);
    pass_ms(w, 1000);
    GRANTED(try_acquire(w, 3, 1, HF_READ));
}

static void test_a_release_gives_up_the_position(void **state) {
    kinds_world *w = *state;
    GRANTED(try_acquire(w, 0, 1, HF_READ));
    QUEUED(join_queue(w, 1, 7, HF_WRITE));
    QUEUED(join_queue(w, 1, 8, HF_READ));
    assert_int_equal(release_hold(w, 1, 6, HF_WRITE), HF_LOST); /* another acquire id */
    assert_int_equal(release_hold(w, 1, 9, HF_WRITE), HF_LOST);
    assert_int_equal(release_hold(w, 2, 7, HF_WRITE), HF_LOST); /* another client */
    QUEUE(w, 1, 1);
    assert_int_equal(release_hold(w, 1, 7, HF_WRITE), HF_LOST); /* it did not hold */
    QUEUE(w, 1);
    GRANTED(join_queue(w, 1, 8, HF_READ));
}

static void test_leaving_the_space_ends_waits_and_holds(void **state) {
    kinds_world *w = *state;
    GRANTED(try_acquire(w, 1, 1, HF_READ));
    GRANTED(try_acquire(w, 1, 2, HF_READ));
    GRANTED(try_acquire(w, 2, 1, HF_READ));
    QUEUED(join_queue(w, 3, 1, HF_WRITE));
    QUEUED(join_queue(w, 3, 2, HF_MUTEX));
    QUEUED(join_queue(w, 4, 1, HF_WRITE));
    close_client(w, 1);
    assert_int_equal(inspect_lock(w).holders, 1);
    close_client(w, 3);
    QUEUE(w, 4);
    RELEASED(release_hold(w, 2, 1, HF_READ));
    GRANTED(join_queue(w, 4, 1, HF_WRITE));
}

/* The client is woken: it need not wait until its retry is due. */
static bool is_woken(kinds_world *w, int client) {
    struct pollfd fds[HF__STORE_FDS];
    hf__store *store = w->clients[client];
    int count = store->table->pollset(store, fds, true);
    bool woken = poll(fds, (nfds_t)count, 0) > 0;
    if (woken) store->table->ready(store, fds, count, NULL);
    return woken;
}

static void test_leaving_the_space_wakes_the_next_waiter(void **state) {
    kinds_world *w = *state;
    GRANTED(try_acquire(w, 1, 1, HF_WRITE));
    QUEUED(join_queue(w, 2, 1, HF_READ));
    QUEUED(join_queue(w, 3, 1, HF_MUTEX));
    assert_false(is_woken(w, 2));
    close_client(w, 1);
    assert_true(is_woken(w, 2));
    assert_false(is_woken(w, 2)); /* once */
    assert_false(is_woken(w, 3));
}

static void test_a_try_neither_takes_nor_loses_a_position(void **state) {
    kinds_world *w = *state;
    GRANTED(try_acquire(w, 0, 1, HF_WRITE));
    REFUSED(try_acquire(w, 1, 1, HF_WRITE));
    NO_QUEUE(w);
    QUEUED(join_queue(w, 2, 1, HF_WRITE));
    REFUSED(try_acquire(w, 1, 2, HF_WRITE));
    QUEUE(w, 2);
}

static void test_a_try_passes_readers_that_fit_with_it(void **state) {
    kinds_world *w = *state;
    GRANTED(try_acquire(w, 0, 1, HF_WRITE));
    QUEUED(join_queue(w, 1, 1, HF_READ));
    RELEASED(release_hold(w, 0, 1, HF_WRITE));
    REFUSED(try_acquire(w, 2, 1, HF_WRITE));
    REFUSED(try_acquire(w, 2, 2, HF_MUTEX));
    GRANTED(try_acquire(w, 2, 3, HF_READ));
    QUEUE(w, 1);
}

static void test_a_waiter_retries_when_a_lease_ends(void **state) {
    kinds_world *w = *state;
    GRANTED(submit_op(
        w, 0, (hf__op){.verb = HF__ACQUIRE, .acquire_id = 1, .kind = HF_READ, .lease_ms = 100}));
    GRANTED(try_acquire(w, 1, 1, HF_READ));
    assert_int_equal(join_queue(w, 2, 1, HF_WRITE).retry_ms, 101);
    pass_ms(w, 93);
    assert_int_equal(join_queue(w, 2, 1, HF_WRITE).retry_ms, 8);
    assert_int_equal(try_acquire(w, 3, 1, HF_WRITE).retry_ms, 8);
}

static void test_too_late_is_not_done(void **state) {
    kinds_world *w = *state;
    hf__op op = {.verb = HF__ACQUIRE, .acquire_id = 1, .kind = HF_READ, .enqueue = true};
    op.not_after = w->now - 1;
    assert_int_equal(submit_op(w, 0, op).result, HF_TIMEOUT);
    assert_false(inspect_lock(w).held);
    op.not_after = w->now;
    GRANTED(submit_op(w, 0, op));
    hf__op broken = {.verb = HF__BREAK, .not_after = w->now - 1};
    assert_int_equal(submit_op(w, 0, broken).result, HF_TIMEOUT);
    assert_true(inspect_lock(w).held);
}

static void test_has_waiters_is_set_while_anybody_waits(void **state) {
    kinds_world *w = *state;
    hf__op op = try_acquire(w, 0, 1, HF_READ);
    GRANTED(op);
    assert_false(op.has_waiters);
    assert_false(renew_hold(w, 0, 1, HF_READ, op.token).has_waiters);
    QUEUED(join_queue(w, 1, 1, HF_WRITE));
    assert_true(renew_hold(w, 0, 1, HF_READ, op.token).has_waiters);
    assert_true(try_acquire(w, 0, 1, HF_READ).has_waiters);
    pass_ms(w, 1000); /* it has stopped retrying */
    assert_false(renew_hold(w, 0, 1, HF_READ, op.token).has_waiters);
    QUEUED(join_queue(w, 1, 1, HF_WRITE));
    QUEUED(join_queue(w, 2, 1, HF_WRITE));
    RELEASED(release_hold(w, 0, 1, HF_READ));
    assert_true(join_queue(w, 1, 1, HF_WRITE).has_waiters);
    RELEASED(release_hold(w, 1, 1, HF_WRITE));
    assert_false(join_queue(w, 2, 1, HF_WRITE).has_waiters); /* it was the last waiter itself */
}

/* ---- Upgrading and downgrading --------------------------------------------------------------- */

static void test_a_second_upgradable_waits_for_the_first(void **state) {
    kinds_world *w = *state;
    GRANTED(try_acquire(w, 0, 1, HF_UPGRADABLE));
    QUEUED(join_queue(w, 1, 1, HF_UPGRADABLE));
    GRANTED(upgrade_hold(w, 0, 1, true));
    QUEUED(join_queue(w, 1, 1, HF_UPGRADABLE));
    RELEASED(release_hold(w, 0, 1, HF_WRITE));
    GRANTED(join_queue(w, 1, 1, HF_UPGRADABLE));
}

static void test_an_upgrade_waits_for_readers_and_goes_first(void **state) {
    kinds_world *w = *state;
    uint64_t before = granted_token(try_acquire(w, 0, 1, HF_UPGRADABLE));
    uint64_t reader = granted_token(try_acquire(w, 1, 1, HF_READ));
    QUEUED(join_queue(w, 2, 1, HF_WRITE)); /* came before it, but is still served after it */
    QUEUED(upgrade_hold(w, 0, 1, true));
    QUEUE(w, 0, 2);
    REFUSED(try_acquire(w, 3, 1, HF_READ));
    assert_true(renew_hold(w, 1, 1, HF_READ, reader).has_waiters);
    RELEASED(release_hold(w, 1, 1, HF_READ));
    QUEUED(join_queue(w, 2, 1, HF_WRITE));
    hf__op op = upgrade_hold(w, 0, 1, true);
    GRANTED(op);
    assert_true(op.token > before && op.token > reader);
    assert_true(op.has_waiters);
    QUEUE(w, 2);
    assert_int_equal(inspect_lock(w).kind, HF_WRITE);
    LOST(renew_hold(w, 0, 1, HF_WRITE, before));
    KEPT(renew_hold(w, 0, 1, HF_WRITE, op.token));
}

static void test_readers_are_held_back_until_an_upgrade_is_done(void **state) {
    kinds_world *w = *state;
    GRANTED(try_acquire(w, 0, 1, HF_UPGRADABLE));
    GRANTED(try_acquire(w, 1, 1, HF_READ));
    QUEUED(upgrade_hold(w, 0, 1, true));
    QUEUED(join_queue(w, 2, 1, HF_READ));
    RELEASED(release_hold(w, 1, 1, HF_READ));
    QUEUED(join_queue(w, 2, 1, HF_READ)); /* between its becoming the only holder and its retry */
    GRANTED(upgrade_hold(w, 0, 1, true));
    QUEUED(join_queue(w, 2, 1, HF_READ));
}

static void test_a_retried_upgrade_is_done_once(void **state) {
    kinds_world *w = *state;
    granted_token(try_acquire(w, 0, 1, HF_UPGRADABLE));
    uint64_t token = granted_token(upgrade_hold(w, 0, 1, false));
    assert_int_equal(granted_token(upgrade_hold(w, 0, 1, true)), token);
    assert_int_equal(inspect_lock(w).holders, 1);
}

static void test_an_upgrade_that_is_not_queued_blocks_nobody(void **state) {
    kinds_world *w = *state;
    GRANTED(try_acquire(w, 0, 1, HF_UPGRADABLE));
    GRANTED(try_acquire(w, 1, 1, HF_READ));
    REFUSED(upgrade_hold(w, 0, 1, false));
    NO_QUEUE(w);
    GRANTED(try_acquire(w, 2, 1, HF_READ));
}

static void test_an_abandoned_upgrade_lets_the_queue_proceed(void **state) {
    kinds_world *w = *state;
    uint64_t token = granted_token(try_acquire(w, 0, 1, HF_UPGRADABLE));
    GRANTED(try_acquire(w, 1, 1, HF_READ));
    QUEUED(upgrade_hold(w, 0, 1, true));
    hf__op more = renew_hold(w, 0, 1, HF_WRITE, token); /* renewed while it waits for its upgrade */
    KEPT(more);
    assert_false(more.has_waiters); /* only itself */
    QUEUED(join_queue(w, 2, 1, HF_READ));
    assert_true(renew_hold(w, 0, 1, HF_WRITE, token).has_waiters);
    QUEUE(w, 0, 2);
    hf__op op = renew_hold(w, 0, 1, HF_UPGRADABLE, token);
    KEPT(op);
    assert_true(op.has_waiters);
    QUEUE(w, 2);
    GRANTED(join_queue(w, 2, 1, HF_READ));
    REFUSED(try_acquire(w, 3, 1, HF_UPGRADABLE)); /* it is still upgradable */
}

static void test_an_upgrade_that_stopped_retrying_lets_the_queue_proceed(void **state) {
    kinds_world *w = *state;
    GRANTED(try_acquire(w, 0, 1, HF_UPGRADABLE));
    GRANTED(try_acquire(w, 1, 1, HF_READ));
    QUEUED(upgrade_hold(w, 0, 1, true));
    pass_ms(w, 999);
    REFUSED(try_acquire(w, 2, 1, HF_READ));
    pass_ms(w, 1);
    GRANTED(try_acquire(w, 2, 1, HF_READ));
}

static void test_an_upgrade_ends_with_its_hold(void **state) {
    kinds_world *w = *state;
    uint64_t token = granted_token(try_acquire(w, 0, 1, HF_UPGRADABLE));
    GRANTED(try_acquire(w, 1, 1, HF_READ));
    QUEUED(upgrade_hold(w, 0, 1, true));
    KEPT(break_token(w, token));
    NO_QUEUE(w);
    LOST(upgrade_hold(w, 0, 1, true));
    GRANTED(try_acquire(w, 2, 1, HF_UPGRADABLE));
    QUEUED(upgrade_hold(w, 2, 1, true));
    RELEASED(release_hold(w, 2, 1, HF_UPGRADABLE));
    NO_QUEUE(w);
    hf__op brief = {.verb = HF__ACQUIRE, .acquire_id = 2, .kind = HF_UPGRADABLE, .lease_ms = 100};
    GRANTED(submit_op(w, 2, brief));
    brief.upgrade = brief.enqueue = true;
    QUEUED(submit_op(w, 2, brief));
    pass_ms(w, 100);
    NO_QUEUE(w);
}

static void test_only_an_upgradable_is_upgraded(void **state) {
    kinds_world *w = *state;
    LOST(upgrade_hold(w, 0, 1, true));
    GRANTED(try_acquire(w, 0, 1, HF_READ));
    assert_int_equal(upgrade_hold(w, 0, 1, true).result, HF_INVALID);
    LOST(upgrade_hold(w, 0, 2, true));
    LOST(upgrade_hold(w, 1, 1, true));
    NO_QUEUE(w);
}

static void test_a_downgrade_lets_readers_in_and_no_writer(void **state) {
    kinds_world *w = *state;
    uint64_t token = granted_token(try_acquire(w, 0, 1, HF_WRITE));
    QUEUED(join_queue(w, 1, 1, HF_READ));
    QUEUED(join_queue(w, 2, 1, HF_WRITE));
    KEPT(renew_hold(w, 0, 1, HF_WRITE, token)); /* not a downgrade */
    QUEUED(join_queue(w, 1, 1, HF_READ));
    hf__op op = renew_hold(w, 0, 1, HF_READ, token);
    KEPT(op);
    assert_true(op.has_waiters);
    GRANTED(join_queue(w, 1, 1, HF_READ));
    QUEUED(join_queue(w, 2, 1, HF_WRITE));
    assert_int_equal(inspect_lock(w).kind, HF_READ);
    RELEASED(release_hold(w, 0, 1, HF_READ));
    RELEASED(release_hold(w, 1, 1, HF_READ));
    GRANTED(join_queue(w, 2, 1, HF_WRITE));
}

static void test_a_downgrade_to_upgradable_may_go_up_again(void **state) {
    kinds_world *w = *state;
    granted_token(try_acquire(w, 0, 1, HF_UPGRADABLE));
    uint64_t token = granted_token(upgrade_hold(w, 0, 1, true));
    KEPT(renew_hold(w, 0, 1, HF_UPGRADABLE, token));
    GRANTED(try_acquire(w, 1, 1, HF_READ));
    REFUSED(try_acquire(w, 2, 1, HF_UPGRADABLE));
    QUEUED(upgrade_hold(w, 0, 1, true));
    RELEASED(release_hold(w, 1, 1, HF_READ));
    assert_true(granted_token(upgrade_hold(w, 0, 1, true)) > token);
}

/* A renewal states the most that the hold may be. */
static void test_a_renewal_never_upgrades_a_hold(void **state) {
    kinds_world *w = *state;
    uint64_t token = granted_token(try_acquire(w, 0, 1, HF_READ));
    KEPT(renew_hold(w, 0, 1, HF_WRITE, token));
    KEPT(renew_hold(w, 0, 1, HF_UPGRADABLE, token));
    GRANTED(try_acquire(w, 1, 1, HF_READ));
    token = granted_token(try_acquire(w, 2, 1, HF_UPGRADABLE)); /* so the first is not upgradable */
    KEPT(renew_hold(w, 2, 1, HF_READ, token));
    GRANTED(try_acquire(w, 3, 1, HF_UPGRADABLE));
}

/* ---- Permits --------------------------------------------------------------------------------- */

static void test_permits_never_go_above_capacity(void **state) {
    kinds_world *w = *state;
    hf__rand rand = {7};
    uint32_t held[64] = {0}, used = 0;
    for (int n = 0; n < 20000; n++) {
        uint64_t slot = hf__rand_next(&rand) % 64;
        uint32_t permits = (uint32_t)(hf__rand_next(&rand) % 10) + 1;
        int client = (int)(slot % CLIENTS);
        if (held[slot]) {
            RELEASED(release_hold(w, client, slot + 1, HF_PERMITS));
            used -= held[slot];
            held[slot] = 0;
            continue;
        }
        hf__op op = try_permits(w, client, slot + 1, permits, 10);
        assert_int_equal(op.result, used + permits <= 10 ? HF_OK : HF_BUSY);
        if (op.result == HF_OK) used += held[slot] = permits;
        assert_true(used <= 10);
        assert_int_equal(inspect_lock(w).used, used);
    }
}

static void test_a_large_taker_is_not_starved(void **state) {
    kinds_world *w = *state;
    GRANTED(try_permits(w, 0, 1, 2, 4));
    GRANTED(try_permits(w, 1, 1, 1, 4));
    QUEUED(join_queue_for_permits(w, 2, 1, 4, 4));
    REFUSED(try_permits(w, 3, 1, 1, 4)); /* one is left, but reserved for the waiter */
    QUEUED(join_queue_for_permits(w, 3, 2, 1, 4));
    RELEASED(release_hold(w, 0, 1, HF_PERMITS));
    QUEUED(join_queue_for_permits(w, 3, 2, 1, 4));
    RELEASED(release_hold(w, 1, 1, HF_PERMITS));
    QUEUED(join_queue_for_permits(w, 3, 2, 1, 4));
    GRANTED(join_queue_for_permits(w, 2, 1, 4, 4));
    RELEASED(release_hold(w, 2, 1, HF_PERMITS));
    GRANTED(join_queue_for_permits(w, 3, 2, 1, 4));
}

static void test_queued_permits_enter_together_as_far_as_they_fit(void **state) {
    kinds_world *w = *state;
    GRANTED(try_acquire(w, 0, 1, HF_WRITE));
    QUEUED(join_queue_for_permits(w, 1, 1, 2, 4));
    QUEUED(join_queue_for_permits(w, 2, 1, 1, 4));
    QUEUED(join_queue_for_permits(w, 3, 1, 2, 4));
    RELEASED(release_hold(w, 0, 1, HF_WRITE));
    QUEUED(join_queue_for_permits(w, 3, 1, 2, 4)); /* three are reserved */
    REFUSED(try_permits(w, 4, 1, 1, 4));
    GRANTED(join_queue_for_permits(w, 2, 1, 1, 4));
    GRANTED(join_queue_for_permits(w, 1, 1, 2, 4));
    RELEASED(release_hold(w, 2, 1, HF_PERMITS));
    GRANTED(join_queue_for_permits(w, 3, 1, 2, 4));
}

static void test_another_capacity_is_reported(void **state) {
    kinds_world *w = *state;
    GRANTED(try_permits(w, 0, 1, 1, 4));
    hf__op op = join_queue_for_permits(w, 1, 1, 1, 5);
    assert_int_equal(op.result, HF_INVALID);
    assert_int_equal(op.capacity, 4);
    NO_QUEUE(w);
    GRANTED(try_permits(w, 0, 1, 1, 5)); /* it holds already */
    RELEASED(release_hold(w, 0, 1, HF_PERMITS));
    GRANTED(try_permits(w, 1, 1, 1, 5)); /* fixed by the first holder, while there is any */
}

static void test_another_capacity_leaves_the_queue(void **state) {
    kinds_world *w = *state;
    GRANTED(try_acquire(w, 0, 1, HF_WRITE));
    QUEUED(join_queue_for_permits(w, 1, 1, 1, 4));
    QUEUED(join_queue_for_permits(w, 2, 1, 1, 5));
    QUEUED(join_queue_for_permits(w, 3, 1, 1, 4));
    RELEASED(release_hold(w, 0, 1, HF_WRITE));
    GRANTED(join_queue_for_permits(w, 1, 1, 1, 4));
    QUEUED(join_queue_for_permits(w, 3, 1, 1, 4));
    assert_int_equal(join_queue_for_permits(w, 2, 1, 1, 5).result, HF_INVALID);
    GRANTED(join_queue_for_permits(w, 3, 1, 1, 4));
    NO_QUEUE(w);
}

static void test_permits_come_back_one_by_one(void **state) {
    kinds_world *w = *state;
    hf__op brief = {
        .verb = HF__ACQUIRE, .acquire_id = 1, .kind = HF_PERMITS, .permits = 2, .capacity = 3};
    brief.lease_ms = 100;
    GRANTED(submit_op(w, 0, brief));
    GRANTED(try_permits(w, 0, 2, 1, 3));
    pass_ms(w, 99);
    REFUSED(try_permits(w, 1, 1, 1, 3));
    pass_ms(w, 1);
    GRANTED(try_permits(w, 1, 1, 2, 3));
    REFUSED(try_permits(w, 2, 1, 1, 3));
}

/* ---- Acquire ids ----------------------------------------------------------------------------- */

static void test_a_mutex_replaces_a_lower_id_of_its_client(void **state) {
    kinds_world *w = *state;
    uint64_t lower = granted_token(try_acquire(w, 0, 5, HF_MUTEX)),
             higher = granted_token(try_acquire(w, 0, 7, HF_MUTEX));
    assert_true(higher > lower);
    LOST(renew_hold(w, 0, 5, HF_MUTEX, lower));
    REFUSED(join_queue(w, 0, 6, HF_MUTEX)); /* arrives late: it is not even queued */
    NO_QUEUE(w);
    assert_int_equal(release_hold(w, 0, 6, HF_MUTEX), HF_LOST);
    KEPT(renew_hold(w, 0, 7, HF_MUTEX, higher));
    RELEASED(release_hold(w, 0, 9, HF_MUTEX)); /* releases any acquire id up to this one */
    assert_false(inspect_lock(w).held);
}

static void test_other_kinds_match_the_exact_id(void **state) {
    kinds_world *w = *state;
    GRANTED(try_acquire(w, 0, 5, HF_READ));
    GRANTED(try_acquire(w, 0, 7, HF_READ));
    assert_int_equal(release_hold(w, 0, 9, HF_READ), HF_LOST);
    assert_int_equal(release_hold(w, 0, 9, HF_MUTEX), HF_LOST); /* a mutex is a different kind */
    assert_int_equal(inspect_lock(w).holders, 2);
    RELEASED(release_hold(w, 0, 7, HF_READ));
    assert_int_equal(inspect_lock(w).holders, 1);
    REFUSED(try_acquire(w, 0, 8, HF_WRITE)); /* replaces nothing */
    REFUSED(try_acquire(w, 0, 9, HF_MUTEX));
}

static void test_a_mutex_keeps_the_position_of_a_lower_id_of_its_client(void **state) {
    kinds_world *w = *state;
    GRANTED(try_acquire(w, 0, 1, HF_MUTEX));
    QUEUED(join_queue(w, 1, 1, HF_MUTEX));
    QUEUED(join_queue(w, 2, 1, HF_MUTEX));
    QUEUED(join_queue(w, 1, 2, HF_MUTEX));
    QUEUE(w, 1, 2);
    assert_string_equal(inspect_lock(w).waiters[0].owner, "o2");
    REFUSED(join_queue(w, 1, 1, HF_MUTEX)); /* arrives late */
    assert_int_equal(release_hold(w, 1, 1, HF_MUTEX), HF_LOST);
    QUEUE(w, 1, 2);
    RELEASED(release_hold(w, 0, 1, HF_MUTEX));
    REFUSED(try_acquire(w, 2, 2, HF_MUTEX));
    GRANTED(try_acquire(w, 1, 3, HF_MUTEX)); /* a try uses the queue position of its client, too */
    QUEUE(w, 2);
}

static void test_other_kinds_take_over_no_position(void **state) {
    kinds_world *w = *state;
    GRANTED(try_acquire(w, 0, 1, HF_WRITE));
    QUEUED(join_queue(w, 1, 1, HF_WRITE));
    QUEUED(join_queue(w, 2, 1, HF_WRITE));
    QUEUED(join_queue(w, 1, 2, HF_WRITE));
    QUEUE(w, 1, 2, 1);
    RELEASED(release_hold(w, 0, 1, HF_WRITE));
    QUEUED(
        join_queue(w, 1, 2, HF_WRITE)); /* behind an acquire of its own client and one of another */
    assert_int_equal(release_hold(w, 1, 1, HF_WRITE), HF_LOST);
    QUEUED(join_queue(w, 1, 2, HF_WRITE));
    GRANTED(join_queue(w, 2, 1, HF_WRITE));
}

/* A hold that its caller gave up is replaced. Only the next acquire of that client goes before
   the queue. */
static void test_a_next_acquire_takes_over_the_turn(void **state) {
    kinds_world *w = *state;
    hf__op next = {.verb = HF__ACQUIRE, .acquire_id = 2, .kind = HF_MUTEX, .enqueue = true};
    GRANTED(try_acquire(w, 0, 1, HF_MUTEX));
    QUEUED(join_queue(w, 1, 1, HF_MUTEX));
    next.inherits_position = true;
    GRANTED(submit_op(w, 0, next));
    next.inherits_position = false;
    next.acquire_id = 3;
    QUEUED(submit_op(w, 0, next));
    assert_false(inspect_lock(w).held);
    QUEUE(w, 1, 0);
    GRANTED(join_queue(w, 1, 1, HF_MUTEX));
}

/* ---- Break and inspect ----------------------------------------------------------------------- */

static void test_breaking_a_token_ends_that_hold(void **state) {
    kinds_world *w = *state;
    uint64_t first = granted_token(try_acquire(w, 1, 1, HF_READ)),
             second = granted_token(try_acquire(w, 2, 1, HF_READ));
    hf__op op = break_token(w, second + 1);
    assert_int_equal(op.result, HF_NOT_HELD);
    assert_int_equal(op.token, first);
    op = break_token(w, second);
    KEPT(op);
    assert_int_equal(op.token, second);
    LOST(renew_hold(w, 2, 1, HF_READ, second));
    KEPT(renew_hold(w, 1, 1, HF_READ, first));
}

static void test_breaking_any_ends_all_holds(void **state) {
    kinds_world *w = *state;
    uint64_t first = granted_token(try_acquire(w, 1, 1, HF_READ));
    GRANTED(try_acquire(w, 2, 1, HF_READ));
    GRANTED(try_acquire(w, 3, 1, HF_UPGRADABLE));
    QUEUED(join_queue(w, 4, 1, HF_WRITE));
    hf__op op = break_token(w, 0);
    KEPT(op);
    assert_int_equal(op.token, first);
    assert_false(inspect_lock(w).held);
    QUEUE(w, 4);
    op = break_token(w, 0);
    assert_int_equal(op.result, HF_NOT_HELD);
    assert_int_equal(op.token, 0);
}

static void test_inspect_reports_the_holders(void **state) {
    kinds_world *w = *state;
    assert_false(inspect_lock(w).held);
    uint64_t first = granted_token(try_acquire(w, 1, 3, HF_UPGRADABLE));
    assert_int_equal(inspect_lock(w).kind, HF_UPGRADABLE);
    GRANTED(try_acquire(w, 2, 1, HF_READ));
    pass_ms(w, 1000);
    hf__lock_info lock_info = inspect_lock(w);
    assert_true(lock_info.held);
    assert_int_equal(lock_info.kind, HF_READ); /* of several */
    assert_int_equal(lock_info.holders, 2);
    assert_int_equal(lock_info.used + lock_info.capacity, 0);
    assert_int_equal(lock_info.token, first);
    assert_int_equal(lock_info.count, 1);
    assert_int_equal(lock_info.remaining_ms, LEASE_MS - 1000);
    assert_string_equal(lock_info.owner, "o3");
    assert_string_equal(lock_info.identity.client, "00000000-0000-4000-8000-000000000001");
}

static void test_inspect_reports_permits(void **state) {
    kinds_world *w = *state;
    GRANTED(try_permits(w, 1, 1, 2, 9));
    GRANTED(try_permits(w, 1, 2, 3, 9));
    hf__lock_info lock_info = inspect_lock(w);
    assert_int_equal(lock_info.kind, HF_PERMITS);
    assert_int_equal(lock_info.holders, 2);
    assert_int_equal(lock_info.used, 5);
    assert_int_equal(lock_info.capacity, 9);
}

static void test_inspect_reports_the_first_of_many_waiters(void **state) {
    kinds_world *w = *state;
    GRANTED(try_acquire(w, 0, 1, HF_WRITE));
    for (uint64_t i = 1; i <= HF__WAITERS_MAX + 5; i++) QUEUED(join_queue(w, 1, i, HF_WRITE));
    RELEASED(release_hold(w, 0, 1, HF_WRITE));
    hf__lock_info lock_info = inspect_lock(w);
    assert_false(lock_info.held); /* and there is still a waiter */
    assert_int_equal(lock_info.waiter_count, HF__WAITERS_MAX + 5);
    assert_string_equal(lock_info.waiters[0].owner, "o1");
    assert_string_equal(lock_info.waiters[HF__WAITERS_MAX - 1].owner, "o64");
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_readers_share),
        TEST(test_a_writer_excludes_every_kind),
        TEST(test_every_kind_keeps_a_writer_and_a_mutex_out),
        TEST(test_permits_and_readers_do_not_mix),
        TEST(test_one_upgradable_fits_with_readers_in_any_order),
        TEST(test_a_dead_reader_expires_while_others_renew),
        TEST(test_every_grant_has_a_higher_token),
        TEST(test_a_retry_is_granted_once_under_its_token),
        TEST(test_busy_reports_the_highest_token),
        TEST(test_a_renewal_needs_id_and_token),
        TEST(test_a_renewal_sets_the_count_and_never_shortens),
        TEST(test_a_waiting_writer_holds_back_later_readers),
        TEST(test_a_run_of_readers_enters_together),
        TEST(test_nobody_passes_a_waiting_writer),
        TEST(test_readers_queue_behind_a_second_upgradable),
        TEST(test_mutexes_of_clients_are_served_in_order),
        TEST(test_a_position_is_kept_by_retrying),
        TEST(test_a_position_is_lost_after_a_second_without_retry),
        TEST(test_a_release_gives_up_the_position),
        TEST(test_leaving_the_space_ends_waits_and_holds),
        TEST(test_leaving_the_space_wakes_the_next_waiter),
        TEST(test_a_try_neither_takes_nor_loses_a_position),
        TEST(test_a_try_passes_readers_that_fit_with_it),
        TEST(test_a_waiter_retries_when_a_lease_ends),
        TEST(test_too_late_is_not_done),
        TEST(test_has_waiters_is_set_while_anybody_waits),
        TEST(test_a_second_upgradable_waits_for_the_first),
        TEST(test_an_upgrade_waits_for_readers_and_goes_first),
        TEST(test_readers_are_held_back_until_an_upgrade_is_done),
        TEST(test_a_retried_upgrade_is_done_once),
        TEST(test_an_upgrade_that_is_not_queued_blocks_nobody),
        TEST(test_an_abandoned_upgrade_lets_the_queue_proceed),
        TEST(test_an_upgrade_that_stopped_retrying_lets_the_queue_proceed),
        TEST(test_an_upgrade_ends_with_its_hold),
        TEST(test_only_an_upgradable_is_upgraded),
        TEST(test_a_downgrade_lets_readers_in_and_no_writer),
        TEST(test_a_downgrade_to_upgradable_may_go_up_again),
        TEST(test_a_renewal_never_upgrades_a_hold),
        TEST(test_permits_never_go_above_capacity),
        TEST(test_a_large_taker_is_not_starved),
        TEST(test_queued_permits_enter_together_as_far_as_they_fit),
        TEST(test_another_capacity_is_reported),
        TEST(test_another_capacity_leaves_the_queue),
        TEST(test_permits_come_back_one_by_one),
        TEST(test_a_mutex_replaces_a_lower_id_of_its_client),
        TEST(test_other_kinds_match_the_exact_id),
        TEST(test_a_mutex_keeps_the_position_of_a_lower_id_of_its_client),
        TEST(test_other_kinds_take_over_no_position),
        TEST(test_a_next_acquire_takes_over_the_turn),
        TEST(test_breaking_a_token_ends_that_hold),
        TEST(test_breaking_any_ends_all_holds),
        TEST(test_inspect_reports_the_holders),
        TEST(test_inspect_reports_permits),
        TEST(test_inspect_reports_the_first_of_many_waiters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
