/* SPDX-License-Identifier: Apache-2.0 */
/* See crowd.h. */
#include "crowd.h"

#include <stdio.h>

/* The hold of the previous client must be over, by its own clock. */
static void enter_lock(cluster_crowd *c, crowd_lock *lock, hf_hold *hold) {
    pthread_mutex_lock(&lock->mutex);
    if (lock->inside && hf_held(hold) && hf_held(lock->inside)) atomic_fetch_add(&c->overlaps, 1);
    if (hf_fence(hold) <= lock->token) atomic_fetch_add(&c->backwards, 1);
    if (lock->inside) hf_unref(lock->inside);
    lock->inside = hf_ref(hold);
    lock->token = hf_fence(hold);
    pthread_mutex_unlock(&lock->mutex);
}

/* No longer inside before the release. */
static void leave_lock(crowd_lock *lock, hf_hold *hold) {
    pthread_mutex_lock(&lock->mutex);
    if (lock->inside == hold) {
        hf_unref(lock->inside);
        lock->inside = NULL;
    }
    pthread_mutex_unlock(&lock->mutex);
}

/* One acquire. False: try again, as a user would after a message that the store was away. */
static bool visit_lock(cluster_crowd *c, crowd_lock *lock, hf_client *client) {
    hf_hold *hold = NULL;
    const hf_options options = {.kind = lock->kind, .wait_ms = HF_FOREVER};
    hf_result result = hf_acquire(client, lock->name, &options, &hold);
    if (result == HF_UNREACHABLE || result == HF_UNKNOWN_OUTCOME) {
        atomic_fetch_add(&c->troubled, 1);
        return false;
    }
    T_HF(HF_OK, result);
    enter_lock(c, lock, hold);
    for (int ms = 0; ms < c->inside_ms && hf_held(hold); ms++) t_sleep_ms(1);
    leave_lock(lock, hold);
    result = hf_release(hold);
    if (result == HF_LOST) {
        atomic_fetch_add(&c->lost, 1);
        printf("           lost: %s\n", hf_error_detail());
    }
    if (result == HF_UNKNOWN_OUTCOME) atomic_fetch_add(&c->unknown, 1);
    if (result != HF_OK && result != HF_LOST && result != HF_UNKNOWN_OUTCOME) T_HF(HF_OK, result);
    return true;
}

static void contend_for_lock(int index, void *arg) {
    cluster_crowd *c = arg;
    for (int nth; (nth = atomic_fetch_add(&c->begun, 1)) < atomic_load(&c->wanted);) {
        while (!visit_lock(c, &c->locks[nth % CROWD_LOCKS], c->clients[index % CROWD_CLIENTS]))
            continue;
        atomic_fetch_add(&c->served, 1);
    }
}

void crowd_start(cluster_crowd *c, const char *options, const uint32_t *kinds, int wanted,
                 int inside_ms) {
    *c = (cluster_crowd){.wanted = wanted, .inside_ms = inside_ms};
    for (int i = 0; i < CROWD_LOCKS; i++) {
        int node;
        T_WAIT_UNTIL((node = t_cluster_owner(cluster, (2 * i + 1) * T_SLOTS / (2 * CROWD_LOCKS))) >=
                         0,
                     T_CLUSTER_MS);
        t_cluster_name(cluster, node, "crowd", c->locks[i].name);
        c->locks[i].kind = kinds ? kinds[i] : HF_MUTEX;
        pthread_mutex_init(&c->locks[i].mutex, NULL);
    }
    for (int i = 0; i < CROWD_CLIENTS; i++) c->clients[i] = kit_open(options);
    c->threads = t_threads_start(CROWD_THREADS, contend_for_lock, c);
}

void crowd_await(cluster_crowd *c, int served, int64_t deadline_ms) {
    T_WAIT_UNTIL(atomic_load(&c->served) >= served, deadline_ms);
}

void crowd_stop(cluster_crowd *c) {
    atomic_store(&c->wanted, atomic_load(&c->begun));
}

void crowd_end(cluster_crowd *c, int64_t deadline_ms) {
    t_threads_join(c->threads, deadline_ms);
    printf("           served %d, lost %d, store away %d\n", atomic_load(&c->served),
           atomic_load(&c->lost), atomic_load(&c->troubled));
    for (int i = 0; i < CROWD_CLIENTS; i++) hf_close(c->clients[i]);
    for (int i = 0; i < CROWD_LOCKS; i++) pthread_mutex_destroy(&c->locks[i].mutex);
    assert_int_equal(atomic_load(&c->served), atomic_load(&c->wanted));
    assert_int_equal(atomic_load(&c->overlaps), 0);
    assert_int_equal(atomic_load(&c->backwards), 0);
}
