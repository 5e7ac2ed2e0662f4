/* SPDX-License-Identifier: Apache-2.0 */
/* Wakers: no wake-up is lost, whichever way threads sleep and however many there are. */
#include "t.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>

#include "base/event.h"
#include "client/waker.h"

enum { CROWD = 3 * HF__WAKES, GIVE_UP_MS = 20000 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static hf__wakers all;

/* Creates one waker and takes the mutex; the second function ends both. */
static hf__waker *create_waker(void) {
    pthread_mutex_lock(&mutex);
    return hf__waker_take(&all);
}

static void free_waker(hf__waker *w) {
    hf__waker_put(&all, w);
    pthread_mutex_unlock(&mutex);
    hf__wakers_free(&all);
    all = (hf__wakers){0};
}

static void run_wakes(hf__wakers *wakers) {
    hf__wakes wakes;
    hf__wakes_take(wakers, &wakes);
    pthread_mutex_unlock(&mutex);
    hf__wakes_run(&wakes);
    pthread_mutex_lock(&mutex);
}

static void test_a_wake_before_the_sleep_is_not_lost(void **state) {
    (void)state;
    hf__waker *w = create_waker();
    hf__waker_reset(w);
    hf__wake_later(&all, w);
    run_wakes(&all);
    int64_t before = t_now_ms();
    hf__waker_sleep(w, &mutex, hf__after_ms(hf__now(), t_patience(GIVE_UP_MS)));
    assert_true(t_now_ms() - before < t_patience(GIVE_UP_MS));
    free_waker(w);
}

static void test_a_sleep_ends_in_its_time(void **state) {
    (void)state;
    hf__waker *w = create_waker();
    hf__time until = hf__after_ms(hf__now(), 30);
    int rounds = 0;
    hf__waker_reset(w);
    for (; hf__now() < until; rounds++) hf__waker_sleep(w, &mutex, until);
    assert_in_range(rounds, 1, 3);     /* a sleep may end for no reason, but it does sleep */
    hf__waker_sleep(w, &mutex, until); /* the time is over: returns at once */
    free_waker(w);
}

static void test_only_pollers_have_a_descriptor(void **state) {
    (void)state;
    hf__waker *w = create_waker();
    hf__waker_reset(w);
    hf__waker_sleep(w, &mutex, hf__now());
    assert_int_equal(w->fd, -1);
    int fd = hf__waker_fd(w);
    assert_true(fd >= 0);
    hf__waker_put(&all, w);
    assert_ptr_equal(hf__waker_take(&all), w);
    assert_int_equal(hf__waker_fd(w), fd);
    assert_int_equal(hf__waker_fd(NULL), -1);
    free_waker(w);
}

static bool is_readable(int fd) {
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

static void test_pollers_are_woken_by_their_descriptor(void **state) {
    (void)state;
    hf__waker *w = create_waker();
    hf__waker_reset(w);
    hf__waker_sleep(w, &mutex, hf__now());
    int fd = hf__waker_fd(w);
    assert_false(is_readable(fd));
    hf__wake_later(&all, w);
    hf__wake_later(&all, w);
    run_wakes(&all);
    assert_true(w->set && is_readable(fd));
    hf__event_clear(fd);
    hf__waker_reset(w);
    hf__waker_sleep(w, &mutex, hf__now()); /* and then the other way */
    hf__wake_later(&all, w);
    run_wakes(&all);
    assert_true(w->set && !is_readable(fd));
    free_waker(w);
}

/* ---- Many threads ---- */

typedef struct sleepers {
    hf__wakers all;
    hf__waker *sleepers[CROWD];
    int asleep, woken;
} sleepers;

/* Every second thread polls. */
static void sleep_once(int index, void *arg) {
    sleepers *c = arg;
    pthread_mutex_lock(&mutex);
    hf__waker *w = c->sleepers[index] = hf__waker_take(&c->all);
    hf__waker_reset(w);
    c->asleep++;
    if (index % 2) {
        int fd = hf__waker_fd(w);
        pthread_mutex_unlock(&mutex);
        struct pollfd p = {.fd = fd, .events = POLLIN};
        (void)poll(&p, 1, -1);
        pthread_mutex_lock(&mutex);
    } else {
        while (!w->set) hf__waker_sleep(w, &mutex, HF__NEVER);
    }
    c->woken++;
    hf__waker_put(&c->all, w);
    pthread_mutex_unlock(&mutex);
}

static int read_locked(const int *count) {
    pthread_mutex_lock(&mutex);
    int now = *count;
    pthread_mutex_unlock(&mutex);
    return now;
}

static void test_all_of_many_sleepers_are_woken(void **state) {
    (void)state;
    static sleepers c;
    t_threads *threads = t_threads_start(CROWD, sleep_once, &c);
    T_WAIT_UNTIL(read_locked(&c.asleep) == CROWD, t_patience(GIVE_UP_MS));
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < CROWD; i++) hf__wake_later(&c.all, c.sleepers[i]);
    run_wakes(&c.all);
    pthread_mutex_unlock(&mutex);
    t_threads_join(threads, t_patience(GIVE_UP_MS));
    assert_int_equal(c.woken, CROWD);
    hf__wakers_free(&c.all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_wake_before_the_sleep_is_not_lost),
        cmocka_unit_test(test_a_sleep_ends_in_its_time),
        cmocka_unit_test(test_only_pollers_have_a_descriptor),
        cmocka_unit_test(test_pollers_are_woken_by_their_descriptor),
        cmocka_unit_test(test_all_of_many_sleepers_are_woken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
