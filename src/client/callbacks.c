/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reporting of losses, and the thread that runs callbacks.
 *
 * A loss makes its descriptor readable at once. on_lost and the callbacks of async calls run on a
 * thread of their own, which is started when first needed. So a slow callback, or one that takes
 * other locks, does not keep other holds from being renewed. A client in the user's event loop has
 * no such thread: hf_dispatch runs the callbacks.
 */
#include <sys/epoll.h>

#include "base/thread.h"
#include "client/async.h"
#include "client/hold.h"

/* The handle that the user has; in a hold of many names, the first one. */
static hf_hold *user_handle(hf_hold *hold) {
    return hold->head ? hold->head : hold;
}

static hf_hold *find_unreported(hf__ownership *ownership) {
    for (hf_hold *each = ownership->handles; each; each = each->next) {
        hf_hold *hold = user_handle(each);
        if (!hold->lost_reported && hold->on_lost) return hold;
    }
    return NULL;
}

static void set_lost_fds(const hf__ownership *ownership) {
    hf__event_set(ownership->lost_fd);
    for (hf_hold *each = ownership->handles; each; each = each->next) {
        const hf__bundle *bundle = user_handle(each)->bundle;
        if (bundle) hf__event_set(bundle->lost_fd);
    }
}

void hf__report_lost(hf_client *c) {
    while (c->core.lost) {
        hf__ownership *ownership = c->core.lost;
        c->core.lost = ownership->next_lost;
        set_lost_fds(ownership);
        hf__log_add(&c->log, HF_LOG_WARNING, "lost %s (token %" PRIu64 "): %s",
                    ownership->name ? ownership->name : "a lock", ownership->token,
                    atomic_load(&ownership->lost_reason));
        if (find_unreported(ownership)) {
            ownership->next_lost = c->lost_to_report;
            c->lost_to_report = ownership;
            pthread_cond_signal(&c->callback_work);
        } else {
            hf__ownership_unref(ownership);
        }
    }
}

/* Run one callback, without the mutex. The handle is kept alive meanwhile. */
static void run_on_lost(hf_client *c, hf_hold *hold) {
    hf_ref(hold);
    hold->lost_reported = hold->in_on_lost = true;
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

void hf__report_lost_run(hf_client *c) {
    for (hf__ownership *ownership; (ownership = c->lost_to_report);) {
        c->lost_to_report = ownership->next_lost;
        for (hf_hold *hold; (hold = find_unreported(ownership));) run_on_lost(c, hold);
        hf__ownership_unref(ownership);
    }
}

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

void hf__report_lost_wait(hf_client *c, const hf_hold *hold) {
    while (hold->in_on_lost && !hf__in_callback(c))
        if (!hf__flush_wakeups(c)) pthread_cond_wait(&c->callback_done, &c->mutex);
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
