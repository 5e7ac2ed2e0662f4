/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Callbacks, the thread that runs them, and the reporting of losses.
 *
 * A loss makes its descriptor readable at once. Callbacks run on a thread of their own, which is
 * started when first needed. So a slow callback, or one that takes other locks, does not keep other
 * holds from being renewed. A client in the user's event loop has no such thread: hf_dispatch runs
 * the callbacks.
 */
#include "client/callbacks.h"

#include <sys/epoll.h>

#include "base/thread.h"
#include "client/hold.h"

/* ---- The queue ---- */

static _Thread_local const hf_client *calling;

bool hf__in_callback(const hf_client *c) {
    return calling == c;
}

void hf__callback_add(hf_client *c, hf__callback *callback) {
    hf__list_append(&c->callbacks, callback, link);
    c->callback_count++;
    pthread_cond_signal(&c->callback_work);
}

/* The report of a loss does not wait for the callbacks of other holds. */
static void add_loss(hf_client *c, hf__callback *callback) {
    if (c->last_loss)
        hf__list_insert_after(&c->callbacks, c->last_loss, callback, link);
    else
        hf__list_prepend(&c->callbacks, callback, link);
    c->last_loss = callback;
    c->callback_count++;
    pthread_cond_signal(&c->callback_work);
}

static void remove_callback(hf_client *c, hf__callback *callback) {
    if (c->last_loss == callback) c->last_loss = hf__list_prev(&c->callbacks, callback, link);
    hf__list_remove(&c->callbacks, callback, link);
    c->callback_count--;
}

void hf__callback_cancel(hf_client *c, hf__callback *callback) {
    if (hf__list_linked(callback, link)) remove_callback(c, callback);
}

void hf__callback_await(hf_client *c, const bool *running) {
    while (*running && !hf__in_callback(c))
        if (!hf__flush_wakeups(c)) pthread_cond_wait(&c->callback_done, &c->mutex);
}

bool hf__callbacks_due(const hf_client *c) {
    return c->callbacks.first != NULL;
}

/* No more than are due now: callbacks may cause new ones without end. */
void hf__callbacks_run(hf_client *c) {
    const hf_client *before = calling;
    calling = c;
    size_t left = c->callback_count;
    for (hf__callback *first; left && (first = c->callbacks.first); left--) {
        remove_callback(c, first);
        first->run(c, first);
    }
    calling = before;
}

/* ---- Losses ---- */

/* The handle is kept alive meanwhile. */
static void run_on_lost(hf_client *c, hf__callback *self) {
    hf_hold *hold = hf_ref((hf_hold *)((char *)self - offsetof(hf_hold, lost)));
    hold->in_on_lost = true;
    hf_lost_fn *fn = hold->on_lost;
    void *arg = hold->arg;
    pthread_mutex_unlock(&c->mutex);
    fn(hold, arg);
    pthread_mutex_lock(&c->mutex);
    hold->in_on_lost = false;
    pthread_cond_broadcast(&c->callback_done);
    pthread_mutex_unlock(&c->mutex);
    hf_unref(hold);
    pthread_mutex_lock(&c->mutex);
}

static void report_hold(hf_client *c, hf_hold *hold) {
    if (hold->bundle) hf__event_set(hold->bundle->lost_fd);
    if (hold->lost_reported || !hold->on_lost) return;
    hold->lost_reported = true;
    hold->lost.run = run_on_lost;
    add_loss(c, &hold->lost);
}

void hf__report_lost(hf_client *c) {
    for (hf__ownership *ownership; (ownership = hf__core_next_lost(c->core));) {
        const hf__loss loss = hf__ownership_loss(ownership);
        hf__event_set(loss.fd);
        hf__log_add(&c->log, HF_LOG_WARNING, "lost %s (token %" PRIu64 "): %s",
                    loss.name ? loss.name : "a lock", loss.token, loss.reason);
        for (hf__handle *each = loss.handles; each; each = each->link.next)
            report_hold(c, hf__user_hold(each));
        hf__ownership_unref(ownership);
    }
}

/* ---- The thread ---- */

static void *callback_main(void *arg) {
    hf_client *c = arg;
    pthread_mutex_lock(&c->mutex);
    for (;;) {
        if (hf__callbacks_due(c)) {
            hf__callbacks_run(c);
            hf__run_once(c, NULL); /* sends what the callbacks have begun */
            (void)hf__flush_wakeups(c);
        } else if (c->callback_thread_stop) {
            break;
        } else {
            pthread_cond_wait(&c->callback_work, &c->mutex);
        }
    }
    pthread_mutex_unlock(&c->mutex);
    return NULL;
}

hf_result hf__callbacks_start(hf_client *c) {
    if (c->cancel_epoll < 0) {
        c->cancel_epoll = epoll_create1(EPOLL_CLOEXEC);
        /* it polls cancel_epoll from now on */
        if (c->background_runs) hf__event_set(c->background_wake_fd);
    }
    /* If it is stopping, this is the callback thread itself. It processes what its callback has
       begun. */
    if (c->callback_thread_runs || c->callback_thread_stop || c->loop.fd >= 0) return HF_OK;
    if (c->cancel_epoll < 0 || !hf__thread_start(&c->callback_thread, callback_main, c))
        return hf__fail(HF_NOMEM,
                        "no thread or descriptor is available for callbacks; nothing was started");
    c->callback_thread_runs = true;
    return HF_OK;
}

void hf__callbacks_join(hf_client *c) {
    pthread_mutex_lock(&c->mutex);
    bool runs = c->callback_thread_runs;
    c->callback_thread_stop = true;
    c->callback_thread_runs = false;
    pthread_cond_signal(&c->callback_work);
    pthread_mutex_unlock(&c->mutex);
    if (runs) pthread_join(c->callback_thread, NULL);
}
