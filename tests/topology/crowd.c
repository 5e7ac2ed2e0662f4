/* SPDX-License-Identifier: Apache-2.0 */
/* See crowd.h. */
#include "crowd.h"

#include <stdio.h>

/* The hold of the previous client must be over, by its own clock. */
static void enter_lock(topology_crowd *c, hf_hold *hold) {
    pthread_mutex_lock(&c->mutex);
    if (c->inside && hf_held(hold) && hf_held(c->inside)) atomic_fetch_add(&c->overlaps, 1);
    if (hf_fence(hold) <= c->token) atomic_fetch_add(&c->backwards, 1);
    if (c->inside) hf_unref(c->inside);
    c->inside = hf_ref(hold);
    c->token = hf_fence(hold);
    pthread_mutex_unlock(&c->mutex);
}

/* No longer inside before the release. */
static void leave_lock(topology_crowd *c, hf_hold *hold) {
    pthread_mutex_lock(&c->mutex);
    if (c->inside == hold) {
        hf_unref(c->inside);
        c->inside = NULL;
    }
    pthread_mutex_unlock(&c->mutex);
}

/* HF_REFUSED: another server answers at the address and cannot prove its identity. */
static bool is_away(hf_result result) {
    return result == HF_UNREACHABLE || result == HF_UNKNOWN_OUTCOME || result == HF_NO_QUORUM ||
           result == HF_REFUSED;
}

/* One acquire. False: try again, as a user would after a message that the store was away. */
static bool visit_lock(topology_crowd *c, hf_client *client) {
    hf_hold *hold = NULL;
    hf_result result = hf_acquire(client, "crowd", &(hf_options){.wait_ms = HF_FOREVER}, &hold);
    if (is_away(result)) {
        atomic_fetch_add(&c->troubled, 1);
        return false;
    }
    T_HF(HF_OK, result);
    enter_lock(c, hold);
    for (int ms = 0; ms < c->inside_ms && hf_held(hold); ms++) t_sleep_ms(1);
    leave_lock(c, hold);
    result = hf_release(hold);
    if (result == HF_LOST) {
        atomic_fetch_add(&c->lost, 1);
        printf("           lost: %s\n", hf_error_detail());
    }
    if (result != HF_OK && result != HF_LOST && result != HF_UNKNOWN_OUTCOME) T_HF(HF_OK, result);
    return true;
}

static void contend_for_lock(int index, void *arg) {
    topology_crowd *c = arg;
    while (atomic_fetch_add(&c->begun, 1) < c->wanted) {
        while (!visit_lock(c, c->clients[index % CROWD_CLIENTS])) continue;
        atomic_fetch_add(&c->served, 1);
    }
}

void crowd_start(topology_crowd *c, const char *url, int wanted, int inside_ms) {
    *c = (topology_crowd){.wanted = wanted, .inside_ms = inside_ms};
    pthread_mutex_init(&c->mutex, NULL);
    for (int i = 0; i < CROWD_CLIENTS; i++) T_HF(HF_OK, hf_open(url, NULL, &c->clients[i]));
    c->threads = t_threads_start(CROWD_THREADS, contend_for_lock, c);
}

void crowd_await(topology_crowd *c, int served, int64_t deadline_ms) {
    T_WAIT_UNTIL(atomic_load(&c->served) >= served, deadline_ms);
}

void crowd_end(topology_crowd *c, int64_t deadline_ms) {
    t_threads_join(c->threads, deadline_ms);
    printf("           served %d, lost %d, store away %d\n", atomic_load(&c->served),
           atomic_load(&c->lost), atomic_load(&c->troubled));
    for (int i = 0; i < CROWD_CLIENTS; i++) hf_close(c->clients[i]);
    pthread_mutex_destroy(&c->mutex);
    assert_int_equal(atomic_load(&c->served), c->wanted);
    assert_int_equal(atomic_load(&c->overlaps), 0);
    assert_int_equal(atomic_load(&c->backwards), 0);
}
