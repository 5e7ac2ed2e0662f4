/* SPDX-License-Identifier: Apache-2.0 */
/* Threads and conditions: see thread.h. */
#include "base/thread.h"

#include <signal.h>
#include <time.h>

bool hf__thread_start(pthread_t *thread, void *(*run)(void *), void *arg) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(thread, NULL, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return !error;
}

/* Of the clocks that a condition can use, this one is closest to hf__now. It stops while the
   machine is suspended, as the clock of poll does. A thread that sleeps during a suspend therefore
   wakes later by the length of the suspend. */
void hf__cond_init(pthread_cond_t *cond) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attributes);
    pthread_condattr_destroy(&attributes);
}

void hf__cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, hf__time until) {
    if (until == HF__NEVER) {
        pthread_cond_wait(cond, mutex);
        return;
    }
    /* read first: time that passes between the two reads only makes the wake-up early */
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    hf__time left = until - hf__now();
    if (left <= 0) return;
    hf__time then = (hf__time)at.tv_sec * HF__SEC + at.tv_nsec + left;
    at = (struct timespec){.tv_sec = then / HF__SEC, .tv_nsec = then % HF__SEC};
    pthread_cond_timedwait(cond, mutex, &at);
}
