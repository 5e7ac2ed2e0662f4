/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thousand clients wait for one lock (F20). Each needs a few commands to enqueue, and a release
 * concerns only one of them. No client has a thread: one loop runs them all.
 */
#include "waiters.h"

#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

enum {
    CROWD = 1000,
    SMALL_CROWD = 200,
    DESCRIPTORS = 8 /* per client, with some to spare */,
    EVENTS = 256
};

typedef struct crowd_member {
    hf_client *client;
    struct loop_crowd *crowd;
    int entered; /* order of entry, from 1 */
    hf_hold *hold;
} crowd_member;

typedef struct loop_crowd {
    int size, loop;
    crowd_member *members;
    bool stay; /* clients that enter do not leave by themselves */
    int entered, left, inside, most_inside;
} loop_crowd;

/* ---- One loop -------------------------------------------------------------------------------- */

static void run_crowd_once(loop_crowd *c, int ms) {
    struct epoll_event events[EVENTS];
    int n = epoll_wait(c->loop, events, EVENTS, ms);
    for (int i = 0; i < n; i++)
        T_HF(HF_OK, hf_dispatch(((crowd_member *)events[i].data.ptr)->client));
}

/* Like T_WAIT_UNTIL, and runs the loop meanwhile. */
#define RUN_LOOP_UNTIL(crowd, condition)                                                          \
    do {                                                                                          \
        const int64_t until_ = t_now_ms() + t_patience(4 * SOON_MS);                              \
        while (run_crowd_once(crowd, 1), !(condition))                                            \
            if (t_now_ms() > until_) t_fail("the clients did not reach in time: %s", #condition); \
    } while (0)

/* Raises the descriptor limit for `wanted` clients. Returns the number of clients that are
   possible. */
static int clients_possible(int wanted) {
    struct rlimit limit;
    T_CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = limit.rlim_max;
    T_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    int64_t size = wanted * INT64_C(1000) / t_patience(1000); /* fewer on a slow machine */
    int64_t most = limit.rlim_cur == RLIM_INFINITY ? size : (int64_t)limit.rlim_cur / DESCRIPTORS;
    return (int)(size < most ? size : most);
}

static void open_member(bed *b, loop_crowd *c, crowd_member *m) {
    m->crowd = c;
    T_HF(HF_OK, hf_open(front_url(t_redis_url(b->redis)),
                        &(hf_client_options){.flags = HF_NO_THREAD}, &m->client));
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = m};
    T_CHECK(epoll_ctl(c->loop, EPOLL_CTL_ADD, hf_fd(m->client), &event) == 0);
}

static loop_crowd *crowd_open(bed *b, int wanted) {
    loop_crowd *c = calloc(1, sizeof *c);
    c->size = clients_possible(wanted);
    c->loop = epoll_create1(EPOLL_CLOEXEC);
    c->members = calloc((size_t)c->size, sizeof *c->members);
    for (int i = 0; i < c->size; i++) open_member(b, c, &c->members[i]);
    return c;
}

static void crowd_close(loop_crowd *c) {
    for (int i = 0; i < c->size; i++) hf_close(c->members[i].client);
    close(c->loop);
    free(c->members);
    free(c);
}

/* ---- Entering and leaving -------------------------------------------------------------------- */

static void on_left(hf_result result, void *arg) {
    T_CHECK(result == HF_OK);
    ((loop_crowd *)arg)->left++;
}

static void begin_leave(crowd_member *m) {
    m->crowd->inside--;
    T_HF(HF_OK, hf_release_async(m->hold, on_left, m->crowd));
}

static void on_entered(hf_result result, hf_hold *hold, void *arg) {
    crowd_member *m = arg;
    loop_crowd *c = m->crowd;
    if (result != HF_OK) t_fail("%s (%s)", hf_result_name(result), hf_error_detail());
    m->hold = hold;
    m->entered = ++c->entered;
    if (++c->inside > c->most_inside) c->most_inside = c->inside;
    if (!c->stay) begin_leave(m);
}

static int64_t command_count(bed *b) {
    return call_count(b, "evalsha") + call_count(b, "eval");
}

/* Runs the loop until no client has anything left to do. */
static void run_until_idle(bed *b, loop_crowd *c) {
    for (int64_t before = -1; before != command_count(b);) {
        before = command_count(b);
        for (int i = 0; i < 50; i++) run_crowd_once(c, 1);
    }
}

/* Queues all clients, in index order. They also subscribe, which makes each acquire once more. */
static void enqueue_crowd(bed *b, loop_crowd *c) {
    calls_reset(b);
    for (int i = 0; i < c->size; i++) {
        crowd_member *m = &c->members[i];
        T_HF(HF_OK, hf_acquire_async(m->client, LOCK, &FOREVER, on_entered, m));
        RUN_LOOP_UNTIL(c, queue_length(b) == i + 1);
    }
    RUN_LOOP_UNTIL(c, subscriber_count(b) == c->size);
    run_until_idle(b, c);
}

static void F20_a_thousand_waiters_are_served_in_order_with_few_commands(void **state) {
    bed *b = *state;
    hf_hold *hold = TAKE(bed_direct(b));
    loop_crowd *c = crowd_open(b, CROWD);
    enqueue_crowd(b, c);
    assert_true(command_count(b) <= 3 * c->size);

    /* One waiter is notified. The others only check whether the holder is alive. */
    c->stay = true;
    calls_reset(b);
    FREE(hold);
    RUN_LOOP_UNTIL(c, c->entered == 1);
    assert_int_equal(call_count(b, "publish"), 1);
    assert_in_range(command_count(b), 1, 2 + c->size / 20);

    /* Each release notifies the next waiter. */
    c->stay = false;
    calls_reset(b);
    begin_leave(&c->members[0]);
    RUN_LOOP_UNTIL(c, c->left == c->size);
    assert_int_equal(c->most_inside, 1);
    for (int i = 0; i < c->size; i++) assert_int_equal(c->members[i].entered, i + 1);
    assert_in_range(command_count(b), c->size, 2 * c->size);
    assert_int_equal(call_count(b, "publish"), c->size - 1);
    assert_int_equal(t_redis_int(b->redis, "EXISTS " KEY " " QUEUE), 0);
    crowd_close(c);
}

/* The holder dies. The waiters find out by themselves, one by one and not all at once. */
static void F20_waiters_of_a_dead_holder_do_not_all_acquire_at_once(void **state) {
    bed *b = *state;
    loop_crowd *c = crowd_open(b, SMALL_CROWD);
    hold_by_hand(b, LOCK, t_patience(2000));
    enqueue_crowd(b, c);
    RUN_LOOP_UNTIL(c, !on_server(b) || c->entered > 0);
    calls_reset(b);
    RUN_LOOP_UNTIL(c, c->left == c->size);
    assert_int_equal(c->most_inside, 1);
    assert_in_range(command_count(b), c->size - 1, 3 * c->size);
    crowd_close(c);
}

/* ---- Many waiters of one client -------------------------------------------------------------- */

typedef struct party_guest {
    struct thread_party *party;
    int came;
} party_guest;

typedef struct thread_party {
    atomic_int entered, left, out_of_turn;
    party_guest guests[SMALL_CROWD];
} thread_party;

static void guest_left(hf_result result, void *arg) {
    T_CHECK(result == HF_OK);
    atomic_fetch_add(&((thread_party *)arg)->left, 1);
}

static void guest_entered(hf_result result, hf_hold *hold, void *arg) {
    const party_guest *g = arg;
    T_CHECK(result == HF_OK);
    if (atomic_fetch_add(&g->party->entered, 1) != g->came) atomic_store(&g->party->out_of_turn, 1);
    T_HF(HF_OK, hf_release_async(hold, guest_left, g->party));
}

/* A release carries the acquire of the client's next thread, so serving one thread costs one
   command. */
static void check_threads(bed *b, hf_client *client, const hf_options *options) {
    static thread_party p;
    hf_client *other = bed_direct(b);
    hf_hold *hold = TAKE(other);
    atomic_store(&p.entered, 0);
    atomic_store(&p.left, 0);
    for (int i = 0; i < SMALL_CROWD; i++) {
        p.guests[i] = (party_guest){&p, i};
        T_HF(HF_OK, hf_acquire_async(client, LOCK, options, guest_entered, &p.guests[i]));
    }
    UNTIL(stats_of(client).waiting == SMALL_CROWD && queue_length(b) > 0 &&
          subscriber_count(b) > 0);
    calls_reset(b);
    FREE(hold);
    UNTIL(atomic_load(&p.left) == SMALL_CROWD);
    assert_in_range(command_count(b), SMALL_CROWD, SMALL_CROWD * 5 / 4);
    assert_false(atomic_load(&p.out_of_turn));
}

static void F20_many_threads_of_a_client_cost_one_command_each(void **state) {
    bed *b = *state;
    hf_client *client = bed_direct(b);
    check_threads(b, client, &FOREVER);
    check_threads(b, client, &(hf_options){.wait_ms = HF_FOREVER, .kind = HF_WRITE});
    check_threads(b, client,
                  &(hf_options){.wait_ms = HF_FOREVER, .kind = HF_PERMITS, .capacity = 1});
}

static const struct CMUnitTest tests[] = {
    FAULT_TEST(F20_many_threads_of_a_client_cost_one_command_each),
    FAULT_TEST(F20_a_thousand_waiters_are_served_in_order_with_few_commands),
    FAULT_TEST(F20_waiters_of_a_dead_holder_do_not_all_acquire_at_once),
};

FAULT_MAIN(tests)
