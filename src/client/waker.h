/*
 * What wakes a thread that waits. Most sleep on a condition, which costs neither a descriptor nor a read of it; one
 * that has descriptors to watch as well (who leads, who can be cancelled) polls one of its own, made when it is
 * first needed.
 *
 * All of it is guarded by the client's mutex, but for what hf__wakes_run does. A waker is in its client's pool when
 * nobody uses it, and lives as long as the client: a late wake does no harm.
 */
#ifndef HF_CLIENT_WAKER_H
#define HF_CLIENT_WAKER_H

#include <pthread.h>
#include <stdbool.h>

#include "base/time.h"

typedef struct hf__waker {
    struct hf__waker *next;      /* in the pool, or among the followers */
    struct hf__waker **link;     /* what points to it there, among the followers */
    struct hf__waker *next_made; /* among all of the client's */
    struct hf__waker *next_wake; /* among those to be woken, while `queued` */
    pthread_cond_t cond;
    int fd;      /* -1: none yet */
    bool polls;  /* it sleeps, or did last, until its descriptor is readable */
    bool queued; /* to be woken when the mutex is let go */
    bool set;    /* it was or will be woken, since its thread last began to look */
} hf__waker;

typedef struct hf__wakers {
    hf__waker *pool, *made, *wake; /* unused, all of them, to be woken */
} hf__wakers;

/* Whom to wake once the mutex is let go. */
#define HF__WAKES 32
typedef struct hf__wakes {
    int fds[HF__WAKES];
    pthread_cond_t *conds[HF__WAKES];
    int fd_count, cond_count;
} hf__wakes;

/* NULL: out of memory. */
hf__waker *hf__waker_take(hf__wakers *all);
void hf__waker_put(hf__wakers *all, hf__waker *waker);
void hf__wakers_free(hf__wakers *all);

/* Its thread begins to look at what there is to do. Whatever wakes it from here on keeps it from falling asleep. */
void hf__waker_reset(hf__waker *waker);

/* The descriptor to poll, unless `set`; to be cleared when it is readable, which it may be for no reason. -1: none is
   to be had, or there is no waker. */
int hf__waker_fd(hf__waker *waker);

/* Sleep on its condition until it is woken, the time has come, or for no reason. */
void hf__waker_sleep(hf__waker *waker, pthread_mutex_t *mutex, hf__time until);

/* Wake it when the mutex is let go: what was noted so is taken under the mutex, and done without it. */
void hf__wake_later(hf__wakers *all, hf__waker *waker);
void hf__wakes_take(hf__wakers *all, hf__wakes *wakes);
void hf__wakes_run(const hf__wakes *wakes);

#endif
