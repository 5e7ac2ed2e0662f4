/* SPDX-License-Identifier: Apache-2.0 */
/*
 * valgrind_threads URL: threads of two clients use a little of everything at once. Helgrind knows
 * mutexes, conditions and joins, but not atomics, which the other tests use between threads. So
 * this test uses none. Helgrind reports nothing in the library, where threads share data under the
 * mutex.
 */
#include <pthread.h>
#include <stdlib.h>

#include "t.h"

enum { THREADS = 6, CLIENTS = 2, ROUNDS = 40, NAMES = 3, CAPACITY = 3, END_MS = 60000 };

static const char *url;

static struct {
    hf_client *clients[CLIENTS];
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int pending; /* async acquires whose release callback has not run yet */
    int entered;
} all = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void add_to(int *what, int by) {
    pthread_mutex_lock(&all.mutex);
    *what += by;
    pthread_cond_broadcast(&all.changed);
    pthread_mutex_unlock(&all.mutex);
}

static void on_released(hf_result result, void *arg) {
    (void)arg;
    T_HF(HF_OK, result);
    add_to(&all.pending, -1);
}

static void on_acquired(hf_result result, hf_hold *hold, void *arg) {
    (void)arg;
    T_HF(HF_OK, result);
    add_to(&all.entered, 1);
    T_HF(HF_OK, hf_release_async(hold, on_released, NULL));
}

static void visit_lock(hf_client *client, const char *name, const hf_options *options) {
    hf_hold *hold, *again = NULL;
    T_HF(HF_OK, hf_acquire(client, name, options, &hold));
    T_CHECK(hf_held(hold) && hf_fence(hold) && hf_remaining_ms(hold) > 0);
    if (options->kind == HF_MUTEX) T_HF(HF_OK, hf_try_lock(client, name, &again));
    if (again) T_HF(HF_OK, hf_release(again));
    if (options->kind == HF_UPGRADABLE) T_HF(HF_OK, hf_upgrade(hold, END_MS));
    add_to(&all.entered, 1);
    T_HF(HF_OK, hf_release(hold));
}

/* Another client holds the lock and does not release it: the wait ends by timeout. */
static void give_up(hf_client *client, hf_client *other) {
    hf_hold *held, *none;
    T_HF(HF_OK, hf_acquire(client, "kept", &(hf_options){.wait_ms = END_MS, .owner = 77}, &held));
    T_HF(HF_TIMEOUT, hf_acquire(other, "kept", &(hf_options){.wait_ms = 5}, &none));
    T_HF(HF_OK, hf_release(held));
}

static void *run_thread(void *arg) {
    static const uint32_t kinds[] = {HF_MUTEX, HF_READ, HF_WRITE, HF_UPGRADABLE};
    static const char *const names[NAMES] = {"one", "two", "three"};
    long index = (long)arg;
    hf_client *client = all.clients[index % CLIENTS];
    for (int i = 0; i < ROUNDS; i++) {
        const hf_options options = {.wait_ms = END_MS, .kind = kinds[(index + i) % 4]};
        visit_lock(client, names[i % NAMES], &options);
        visit_lock(client, "permits",
                   &(hf_options){.wait_ms = END_MS, .kind = HF_PERMITS, .capacity = CAPACITY});
        add_to(&all.pending, 1);
        T_HF(HF_OK, hf_acquire_async(client, names[i % NAMES], &(hf_options){.wait_ms = END_MS},
                                     on_acquired, NULL));
    }
    if (index == 0) give_up(client, all.clients[1]);
    return NULL;
}

static void await_pending(void) {
    pthread_mutex_lock(&all.mutex);
    while (all.pending) pthread_cond_wait(&all.changed, &all.mutex);
    assert_int_equal(all.entered, 3 * THREADS * ROUNDS);
    pthread_mutex_unlock(&all.mutex);
}

static void test_threads_do_everything_at_once(void **state) {
    pthread_t threads[THREADS];
    (void)state;
    for (int i = 0; i < CLIENTS; i++) T_HF(HF_OK, hf_open(url, NULL, &all.clients[i]));
    for (long i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_thread, (void *)i), 0);
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
    await_pending();
    for (int i = 0; i < CLIENTS; i++) hf_close(all.clients[i]);
}

int main(int argc, char **argv) {
    url = argc > 1 ? argv[1] : "memory:";
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads_do_everything_at_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
