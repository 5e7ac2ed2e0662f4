/* SPDX-License-Identifier: Apache-2.0 */
/* Wakers: see waker.h. */
#include "client/waker.h"

#include <stdlib.h>

#include "base/event.h"
#include "base/thread.h"

hf__waker *hf__waker_take(hf__wakers *all) {
    hf__waker *w = all->pool.first;
    if (w) {
        hf__list_remove(&all->pool, w, link);
        return w;
    }
    w = calloc(1, sizeof *w);
    if (!w) return NULL;
    w->fd = -1;
    hf__cond_init(&w->cond);
    w->next_made = all->made;
    all->made = w;
    return w;
}

void hf__waker_put(hf__wakers *all, hf__waker *w) {
    hf__list_prepend(&all->pool, w, link);
}

/* Conditions are not destroyed: in a forked child, destroying one would wait for threads of the
   parent. */
void hf__wakers_free(hf__wakers *all) {
    while (all->made) {
        hf__waker *w = all->made;
        all->made = w->next_made;
        hf__event_free(w->fd);
        free(w);
    }
}

void hf__waker_reset(hf__waker *w) {
    w->set = false;
}

int hf__waker_fd(hf__waker *w) {
    if (!w) return -1;
    w->polls = true;
    if (w->fd < 0) w->fd = hf__event_new();
    return w->fd;
}

void hf__waker_sleep(hf__waker *w, pthread_mutex_t *mutex, hf__time until) {
    w->polls = false;
    if (!w->set) hf__cond_wait(&w->cond, mutex, until);
}

void hf__wake_later(hf__wakers *all, hf__waker *w) {
    w->set = true;
    if (w->queued) return;
    w->queued = true;
    w->next_wake = all->wake;
    all->wake = w;
}

void hf__wakes_take(hf__wakers *all, hf__wakes *wakes) {
    wakes->fd_count = wakes->cond_count = 0;
    for (; all->wake; all->wake = all->wake->next_wake) {
        hf__waker *w = all->wake;
        w->queued = false;
        if (w->polls && wakes->fd_count < HF__WAKES)
            wakes->fds[wakes->fd_count++] = w->fd;
        else if (!w->polls && wakes->cond_count < HF__WAKES)
            wakes->conds[wakes->cond_count++] = &w->cond;
        else if (w->polls) /* more than HF__WAKES: wake it now */
            hf__event_set(w->fd);
        else
            pthread_cond_signal(&w->cond);
    }
}

void hf__wakes_run(const hf__wakes *wakes) {
    for (int i = 0; i < wakes->fd_count; i++) hf__event_set(wakes->fds[i]);
    for (int i = 0; i < wakes->cond_count; i++) pthread_cond_signal(wakes->conds[i]);
}
