/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wakers: what wakes a thread that waits.
 *
 * Most threads sleep on a condition, which needs neither a descriptor nor a read of it. A thread
 * that also watches other descriptors (a leader, or a call with a cancel) polls a descriptor of its
 * own, which is created when first needed.
 *
 * Everything is guarded by the client's mutex, except in hf__wakes_run. An unused waker is in the
 * pool of its client, and lives as long as the client, so a late wake-up does no harm.
 */
#ifndef HF_CLIENT_WAKER_H
#define HF_CLIENT_WAKER_H

#include <pthread.h>
#include <stdbool.h>

#include "base/list.h"
#include "base/time.h"

typedef struct hf__waker {
    HF__LINK(struct hf__waker) link; /* in the pool, or among the followers */
    struct hf__waker *next_made;     /* among all of the client */
    struct hf__waker *next_wake;     /* among those to wake, while `queued` */
    pthread_cond_t cond;
    int fd;      /* -1: none yet */
    bool polls;  /* its thread sleeps, or last slept, by polling the descriptor */
    bool queued; /* to be woken when the mutex is unlocked */
    bool set;    /* it was woken, or will be, since its thread last checked for work */
} hf__waker;

typedef struct hf__wakers {
    HF__LIST(hf__waker) pool; /* unused */
    hf__waker *made, *wake;   /* all; to be woken */
} hf__wakers;

/* What to wake once the mutex is unlocked. */
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

/* Call it before checking for work. Any wake-up after that prevents the next sleep. */
void hf__waker_reset(hf__waker *waker);

/* The descriptor to poll, unless `set`. Clear it when it is readable, which may also happen without
   a reason. -1: no descriptor is available, or `waker` is NULL. */
int hf__waker_fd(hf__waker *waker);

/* Sleep on the condition until woken or `until`; may also return without a reason. */
void hf__waker_sleep(hf__waker *waker, pthread_mutex_t *mutex, hf__time until);

/* Note that it must be woken when the mutex is unlocked. hf__wakes_take collects what was noted,
   under the mutex. hf__wakes_run wakes the threads, without the mutex. */
void hf__wake_later(hf__wakers *all, hf__waker *waker);
void hf__wakes_take(hf__wakers *all, hf__wakes *wakes);
void hf__wakes_run(const hf__wakes *wakes);

#endif
