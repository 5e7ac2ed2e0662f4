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

/* Of the clocks that a condition may go by this is the nearest to hf__now's. It stands while the machine sleeps, as
   poll's does: who slept before that looks later by so much. */
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
    struct timespec at; /* is read first: what passes between the two only makes it early */
    clock_gettime(CLOCK_MONOTONIC, &at);
    hf__time left = until - hf__now();
    if (left <= 0) return;
    hf__time then = (hf__time)at.tv_sec * HF__SEC + at.tv_nsec + left;
    at = (struct timespec){.tv_sec = then / HF__SEC, .tv_nsec = then % HF__SEC};
    pthread_cond_timedwait(cond, mutex, &at);
}
