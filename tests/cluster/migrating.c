/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cluster_migrating [TEST [MOVES]]: calls on a name whose slot is marked as migrating. A script
 * that needs several keys must not begin there. The server checks each of its commands, and a key
 * that the script itself has deleted counts as moved. Each test uses slots of its own and leaves
 * none migrating.
 */
#include "crowd.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FROM = 0, TO = 1, INSIDE_MS = 3, PAUSE_MS = 15, END_MS = 60000 };

static int moves = 15;

/* ---- One call on a migrating slot ------------------------------------------------------------ */

/* Every key of the name exists on the source node, so the server itself refuses nothing at
   first. */
typedef struct migration {
    const char *name;
    int slot;
    hf_client *client, *other;
    hf_hold *hold;
    cluster_wait waiter;
    int64_t refused;
    char text[HF_EXPORT_MAX];
} migration;

static int64_t count_refusals(void) {
    return kit_errors(FROM, "TRYAGAIN") + kit_errors(TO, "TRYAGAIN");
}

static void open_slot(migration *s) {
    s->refused = count_refusals();
    t_cluster_begin_move(cluster, s->slot, FROM, TO);
}

static void close_slot(const migration *s) {
    t_cluster_move_keys(cluster, s->slot, FROM, TO, 1000);
    t_cluster_end_move(cluster, s->slot, FROM, TO);
}

static void begin_migration(migration *s) {
    *s = (migration){.name = kit_name(FROM),
                     .client = kit_open("command_timeout=60s"),
                     .other = kit_open("command_timeout=60s")};
    s->slot = t_cluster_slot(s->name);
}

/* The first client holds the lock, and the other one waits for it. */
static void begin_with_waiter(migration *s, uint32_t held, uint32_t wanted) {
    begin_migration(s);
    s->hold = kit_take(s->client, s->name, &(hf_options){.kind = held, .lease_ms = LEASE_MS});
    kit_begin(&s->waiter, s->other, s->name, &(hf_options){.kind = wanted, .lease_ms = LEASE_MS});
    kit_await_queued(FROM, s->name, 1);
    T_WAIT_UNTIL(kit_subscribers(FROM, s->name) == 1, SOON_MS);
}

static void end_migration(migration *s) {
    hf_close(s->other);
    hf_close(s->client);
}

/* Runs a call while the slot is migrating. It must change nothing until the slot has arrived. */
static void call_while_open(migration *s, t_thread_fn *fn) {
    open_slot(s);
    t_threads *thread = t_threads_start(1, fn, s);
    T_WAIT_UNTIL(t_threads_ended(thread) || count_refusals() > s->refused + 2, SOON_MS);
    assert_false(t_threads_ended(thread));
    if (s->hold) {
        assert_true(kit_has(FROM, s->name));
        kit_await_queued(FROM, s->name, 1);
    }
    close_slot(s);
    t_threads_join(thread, SOON_MS);
}

static void waiter_is_served(migration *s, uint64_t token) {
    T_HF(HF_OK, kit_end_wait(&s->waiter));
    assert_true(hf_fence(s->waiter.hold) > token);
    T_HF(HF_OK, hf_release(s->waiter.hold));
}

static void release_hold(int index, void *arg) {
    (void)index;
    T_HF(HF_OK, hf_release(((migration *)arg)->hold));
}

static void F37_a_release_hands_over_after_the_slot_has_arrived(void **state) {
    static const uint32_t kinds[][2] = {{HF_MUTEX, HF_MUTEX},
                                        {HF_MUTEX, HF_READ},
                                        {HF_WRITE, HF_MUTEX},
                                        {HF_WRITE, HF_READ},
                                        {HF_READ, HF_WRITE}};
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        migration s;
        begin_with_waiter(&s, kinds[i][0], kinds[i][1]);
        uint64_t token = hf_fence(s.hold);
        call_while_open(&s, release_hold);
        waiter_is_served(&s, token);
        end_migration(&s);
    }
}

/* In either order: a waiter that is not yet subscribed at the new node is passed over. */
static void both_are_served(cluster_wait *one, cluster_wait *two, uint64_t token) {
    T_WAIT_UNTIL(t_threads_ended(one->thread) || t_threads_ended(two->thread), SOON_MS);
    bool swap = !t_threads_ended(one->thread);
    cluster_wait *order[] = {swap ? two : one, swap ? one : two};
    for (int i = 0; i < 2; i++) {
        T_HF(HF_OK, kit_end_wait(order[i]));
        assert_true(hf_fence(order[i]->hold) > token);
        token = hf_fence(order[i]->hold);
        T_HF(HF_OK, hf_release(order[i]->hold));
    }
}

/* The same command puts the next acquire of the same client at the end of the queue. */
static void F37_a_release_with_a_next_acquire_hands_over_after_the_slot_has_arrived(void **state) {
    static const uint32_t kinds[] = {HF_MUTEX, HF_WRITE};
    (void)state;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        migration s;
        begin_with_waiter(&s, kinds[i], HF_MUTEX);
        uint64_t token = hf_fence(s.hold);
        cluster_wait next;
        hf_stats stats;
        kit_begin(&next, s.client, s.name, &(hf_options){.kind = kinds[i], .lease_ms = LEASE_MS});
        do T_HF(HF_OK, hf_stats_get(s.client, &stats));
        while (stats.waiting < 1);
        call_while_open(&s, release_hold);
        both_are_served(&s.waiter, &next, token);
        end_migration(&s);
    }
}

static void break_it(int index, void *arg) {
    const migration *s = arg;
    (void)index;
    T_HF(HF_OK, hf_break(s->client, s->name, hf_fence(s->hold)));
}

static void F37_a_break_hands_over_after_the_slot_has_arrived(void **state) {
    (void)state;
    migration s;
    begin_with_waiter(&s, HF_MUTEX, HF_MUTEX);
    uint64_t token = hf_fence(s.hold);
    call_while_open(&s, break_it);
    waiter_is_served(&s, token);
    T_HF(HF_LOST, hf_release(s.hold));
    end_migration(&s);
}

static void downgrade_hold(int index, void *arg) {
    (void)index;
    T_HF(HF_OK, hf_downgrade(((migration *)arg)->hold));
}

/* The waiting reader is alone in the queue, so the queue is gone after it was served. */
static void F37_a_downgrade_admits_readers_after_the_slot_has_arrived(void **state) {
    (void)state;
    migration s;
    begin_with_waiter(&s, HF_WRITE, HF_READ);
    call_while_open(&s, downgrade_hold);
    T_HF(HF_OK, kit_end_wait(&s.waiter));
    assert_int_equal(hf_held(s.hold), 1);
    T_HF(HF_OK, hf_release(s.waiter.hold));
    T_HF(HF_OK, hf_release(s.hold));
    end_migration(&s);
}

static bool queued_at_target(const migration *s) {
    redisReply *reply =
        t_redis_try(t_cluster_node(cluster, TO), "EXISTS hf:{%s}:q hf:{%s}:i", s->name, s->name);
    bool is = !reply || reply->type != REDIS_REPLY_INTEGER || reply->integer;
    if (reply) freeReplyObject(reply);
    return is;
}

/* The call ends immediately. Its queue position is removed later, when the slot has arrived. */
static void F37_a_waiter_leaves_the_queue_after_the_slot_has_arrived(void **state) {
    (void)state;
    migration s;
    begin_migration(&s);
    s.hold = kit_take(s.client, s.name, &(hf_options){.lease_ms = LEASE_MS});
    hf_cancel *cancel = hf_cancel_new();
    kit_begin(&s.waiter, s.other, s.name, &(hf_options){.lease_ms = LEASE_MS, .cancel = cancel});
    kit_await_queued(FROM, s.name, 1);
    open_slot(&s);
    hf_cancel_fire(cancel);
    T_HF(HF_CANCELLED, kit_end_wait(&s.waiter));
    T_WAIT_UNTIL(count_refusals() > s.refused + 2, SOON_MS);
    kit_await_queued(FROM, s.name, 1);
    close_slot(&s);
    T_WAIT_UNTIL(!queued_at_target(&s), SOON_MS);
    assert_int_equal(hf_held(s.hold), 1);
    T_HF(HF_OK, hf_release(s.hold));
    hf_cancel_free(cancel);
    end_migration(&s);
}

/* ---- Latches, leaders, exports --------------------------------------------------------------- */

static void await_latch(int index, void *arg) {
    const migration *s = arg;
    (void)index;
    T_HF(HF_OK, hf_latch_wait(s->other, s->name, &(hf_options){.wait_ms = HF_FOREVER}));
}

static void count_down(int index, void *arg) {
    const migration *s = arg;
    uint32_t left = 1;
    (void)index;
    T_HF(HF_OK, hf_latch_count_down(s->client, s->name, 1, &left));
    assert_int_equal(left, 0);
}

static bool key_exists(const migration *s, const char *suffix) {
    return t_redis_int(t_cluster_node(cluster, FROM), "EXISTS hf:{%s}%s", s->name, suffix) == 1;
}

static void F37_a_latch_opens_after_the_slot_has_arrived(void **state) {
    (void)state;
    migration s;
    begin_migration(&s);
    T_HF(HF_OK, hf_latch_set(s.client, s.name, 1));
    t_threads *waiter = t_threads_start(1, await_latch, &s);
    T_WAIT_UNTIL(key_exists(&s, ":lw"), SOON_MS);
    call_while_open(&s, count_down);
    t_threads_join(waiter, SOON_MS);
    end_migration(&s);
}

typedef struct leader_seen {
    pthread_mutex_t mutex;
    char value[16];
} leader_seen;

static void on_leader(const hf_leader_info *info, void *arg) {
    leader_seen *t = arg;
    pthread_mutex_lock(&t->mutex);
    snprintf(t->value, sizeof t->value, "%s", info ? info->value : "");
    pthread_mutex_unlock(&t->mutex);
}

static bool has_seen(leader_seen *t, const char *value) {
    pthread_mutex_lock(&t->mutex);
    bool is = !strcmp(t->value, value);
    pthread_mutex_unlock(&t->mutex);
    return is;
}

static void publish_value(int index, void *arg) {
    (void)index;
    T_HF(HF_OK, hf_proclaim(((migration *)arg)->hold, "new", 3));
}

static void F37_a_leader_publishes_after_the_slot_has_arrived(void **state) {
    (void)state;
    migration s;
    begin_migration(&s);
    leader_seen t = {.mutex = PTHREAD_MUTEX_INITIALIZER};
    hf_observer *observer;
    s.hold = kit_take(s.client, s.name, &(hf_options){.lease_ms = LEASE_MS});
    T_HF(HF_OK, hf_proclaim(s.hold, "old", 3));
    T_HF(HF_OK, hf_observe(s.other, s.name, on_leader, &t, &observer));
    T_WAIT_UNTIL(has_seen(&t, "old") && key_exists(&s, ":w"), SOON_MS);
    open_slot(&s);
    t_threads *thread = t_threads_start(1, publish_value, &s);
    T_WAIT_UNTIL(t_threads_ended(thread) || count_refusals() > s.refused + 2, SOON_MS);
    close_slot(&s);
    t_threads_join(thread, SOON_MS);
    T_WAIT_UNTIL(has_seen(&t, "new"), SOON_MS);
    T_HF(HF_OK, hf_release(s.hold));
    hf_unobserve(observer);
    end_migration(&s);
}

/* An export needs only the lock's key, and works wherever that key is. */
static void F37_a_hold_is_exported_and_adopted_while_its_slot_is_open(void **state) {
    (void)state;
    migration s;
    begin_with_waiter(&s, HF_MUTEX, HF_MUTEX);
    uint64_t token = hf_fence(s.hold);
    open_slot(&s);
    T_HF(HF_OK, hf_export(s.hold, s.text, sizeof s.text));
    t_cluster_move_keys(cluster, s.slot, FROM, TO, 2);
    hf_client *third = kit_open("");
    T_HF(HF_OK, hf_adopt(third, s.text, NULL, &s.hold));
    assert_int_equal(hf_fence(s.hold), token);
    close_slot(&s);
    T_HF(HF_OK, hf_release(s.hold));
    waiter_is_served(&s, token);
    hf_close(third);
    end_migration(&s);
}

/* ---- Under load ------------------------------------------------------------------------------ */

/* Moves a slot key by key, with calls in between. */
static void move_slowly(const char *name) {
    int slot = t_cluster_slot(name), from = t_cluster_owner(cluster, slot);
    int to = (from + 1 + rand() % (T_PRIMARIES - 1)) % T_PRIMARIES;
    t_cluster_begin_move(cluster, slot, from, to);
    do t_sleep_ms(rand() % PAUSE_MS);
    while (t_cluster_move_keys(cluster, slot, from, to, 1));
    t_cluster_end_move(cluster, slot, from, to);
}

/* The server moves all keys together: Valkey 9 and later. */
static void move_at_once(const char *name) {
    int slot = t_cluster_slot(name), from = t_cluster_owner(cluster, slot);
    int to = (from + 1 + rand() % (T_PRIMARIES - 1)) % T_PRIMARIES;
    const char *id = t_redis_str(t_cluster_node(cluster, to), "CLUSTER MYID");
    freeReplyObject(t_redis_cmd(t_cluster_node(cluster, from),
                                "CLUSTER MIGRATESLOTS SLOTSRANGE %d %d NODE %s", slot, slot, id));
    T_WAIT_UNTIL(t_cluster_owner(cluster, slot) == to, T_CLUSTER_MS);
}

static bool can_move_at_once(void) {
    redisReply *reply = t_redis_try(t_cluster_node(cluster, FROM), "CLUSTER GETSLOTMIGRATIONS");
    bool can = reply && reply->type == REDIS_REPLY_ARRAY;
    if (reply) freeReplyObject(reply);
    return can;
}

static void serve_while_slots_move(void (*move)(const char *name)) {
    static const uint32_t kinds[CROWD_LOCKS] = {HF_MUTEX, HF_WRITE, HF_MUTEX};
    cluster_crowd crowd;
    crowd_start(&crowd, "", kinds, INT_MAX, INSIDE_MS);
    for (int i = 0; i < moves; i++) {
        move(crowd.locks[i % CROWD_LOCKS].name);
        crowd_await(&crowd, atomic_load(&crowd.served) + CROWD_THREADS, SOON_MS);
    }
    crowd_stop(&crowd);
    crowd_end(&crowd, END_MS);
    printf("           %d slots moved, %d answers unknown\n", moves, atomic_load(&crowd.unknown));
    assert_int_equal(atomic_load(&crowd.troubled), 0);
    assert_int_equal(atomic_load(&crowd.lost), 0);
    assert_int_equal(atomic_load(&crowd.unknown), 0);
}

static void F35_every_call_is_served_while_slots_move(void **state) {
    (void)state;
    serve_while_slots_move(move_slowly);
}

static void F35_every_call_is_served_while_slots_move_at_once(void **state) {
    (void)state;
    if (can_move_at_once())
        serve_while_slots_move(move_at_once);
    else
        printf("left out: %s: the server has no CLUSTER MIGRATESLOTS\n", __func__);
}

int main(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 1) cmocka_set_test_filter(argv[1]);
    if (argc > 2) moves = atoi(argv[2]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(F37_a_release_hands_over_after_the_slot_has_arrived),
        cmocka_unit_test(F37_a_release_with_a_next_acquire_hands_over_after_the_slot_has_arrived),
        cmocka_unit_test(F37_a_break_hands_over_after_the_slot_has_arrived),
        cmocka_unit_test(F37_a_downgrade_admits_readers_after_the_slot_has_arrived),
        cmocka_unit_test(F37_a_waiter_leaves_the_queue_after_the_slot_has_arrived),
        cmocka_unit_test(F37_a_latch_opens_after_the_slot_has_arrived),
        cmocka_unit_test(F37_a_leader_publishes_after_the_slot_has_arrived),
        cmocka_unit_test(F37_a_hold_is_exported_and_adopted_while_its_slot_is_open),
        cmocka_unit_test(F35_every_call_is_served_while_slots_move),
        cmocka_unit_test(F35_every_call_is_served_while_slots_move_at_once),
    };
    return cmocka_run_group_tests(tests, kit_start, kit_end);
}
