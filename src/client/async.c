/* SPDX-License-Identifier: Apache-2.0 */
/* Async calls and their callbacks: see async.h. */
#include "client/async.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>

#include "client/acquire.h"
#include "client/hold.h"
#include "client/options.h"

/* Requests per write. One write for each request would be too expensive. With one write for all,
   client and server would work in turns instead of in parallel. */
enum { SEND_BATCH = 16 };

/* One call. An acquire uses `wait`; a release uses only `wait.call`. */
struct hf__async {
    hf__wait wait;
    hf__timer deadline;
    HF__LINK(hf__async) link; /* among those in progress, or those whose callback is due */
    hf__callback callback;
    hf_acquired_fn *acquired;
    hf_released_fn *released;
    void *arg;
    hf_cancel *cancel;
    hf_hold *hold; /* of a release */
};

static hf__async *async_of(hf__call *call) {
    return (hf__async *)((char *)call - offsetof(hf__async, wait.call));
}

static hf__async *async_new(void *arg) {
    hf__async *a = calloc(1, sizeof *a);
    if (a) a->arg = arg;
    return a;
}

/* ---- In progress ---- */

static void link_async(hf_client *c, hf__async *a, hf__time until) {
    a->wait.call.async = true;
    /* the newest first: a cancel of many then ends each waiter before the one ahead of it, so that
       none of them acquires in between */
    hf__list_prepend(&c->asyncs, a, link);
    if (until != HF__NEVER) hf__heap_set(&c->async_deadlines, &a->deadline, until);
}

static void unlink_async(hf_client *c, hf__async *a) {
    hf__list_remove(&c->asyncs, a, link);
    hf__heap_remove(&c->async_deadlines, &a->deadline);
}

/* Once the callback runs, the user may free the cancel. So the cancel is unwatched when the last
   call that uses it has ended. */
static void unwatch_cancel(hf_client *c, const hf_cancel *cancel) {
    for (const hf__async *a = c->asyncs.first; a; a = a->link.next)
        if (a->cancel == cancel) return;
    epoll_ctl(c->cancel_epoll, EPOLL_CTL_DEL, cancel->fd, NULL);
}

static void free_failed(hf_client *c, hf__wait *w) {
    if (w->handle) {
        free(hf__hold_of(w->handle));
        hf__client_unref(c);
    }
    hf__wait_discard(w);
}

/* A hold may be over before its callback runs, because the client was closed or earlier callbacks
   took long. Until the hold is handed to the user, its loss is not reported. */
static bool claim_hold(hf_hold *hold) {
    bool valid = hf__hold_valid(hold, hf__now());
    if (valid) hold->lost_reported = false;
    return valid;
}

static hf_result release_late_grant(hf_hold *hold) {
    hf_result r = hf_release(hold);
    return r == HF_CLOSED ? r
                          : hf__fail(HF_LOST, "it was granted, but ended before its callback ran");
}

static void report_acquired(hf_client *c, hf__async *a, hf_result r) {
    hf_hold *hold = r == HF_OK ? hf__hold_of(a->wait.handle) : NULL;
    bool claimed = hold && claim_hold(hold);
    pthread_mutex_unlock(&c->mutex);
    if (hold && !claimed) {
        r = release_late_grant(hold);
        hold = NULL;
    } else if (!hold) {
        free_failed(c, &a->wait);
    }
    a->acquired(r, hold, a->arg);
}

/* The result is also this thread's last failure. */
static void run_callback(hf_client *c, hf__callback *self) {
    hf__async *a = (hf__async *)((char *)self - offsetof(hf__async, callback));
    hf__list_remove(&c->finished_asyncs, a, link);
    hf_result r = hf__call_result(&a->wait.call);
    if (a->released) {
        pthread_mutex_unlock(&c->mutex);
        a->released(r, a->arg);
        hf_unref(a->hold);
    } else {
        report_acquired(c, a, r);
    }
    free(a);
    pthread_mutex_lock(&c->mutex);
}

void hf__async_done(hf_client *c, hf__call *call) {
    hf__async *a = async_of(call);
    unlink_async(c, a);
    if (a->cancel) unwatch_cancel(c, a->cancel);
    hf__list_append(&c->finished_asyncs, a, link);
    a->callback.run = run_callback;
    hf__callback_add(c, &a->callback);
}

static void give_up_async(hf_client *c, hf__async *a, hf_result why, hf__time now) {
    if (a->released)
        hf__hold_release_unwait(c, a->hold, &a->wait.call);
    else
        hf__core_give_up(&a->wait, why, now);
}

void hf__async_expire(hf_client *c, hf__time now) {
    for (hf__timer *t; (t = hf__heap_pop(&c->async_deadlines, now));) {
        hf__async *a = (hf__async *)((char *)t - offsetof(hf__async, deadline));
        if (!a->wait.call.done) give_up_async(c, a, HF_TIMEOUT, now);
    }
}

/* A fired cancel stays readable. It is no longer watched once all calls that use it have been
   cancelled. If it cannot be removed from the epoll set, the loop ends. Otherwise it would be found
   forever, and other threads could not get the mutex. */
void hf__async_cancelled(hf_client *c) {
    struct epoll_event event;
    bool removed = true;
    while (removed && c->cancel_epoll >= 0 && epoll_wait(c->cancel_epoll, &event, 1, 0) == 1) {
        hf_cancel *cancel = event.data.ptr;
        removed = epoll_ctl(c->cancel_epoll, EPOLL_CTL_DEL, cancel->fd, NULL) == 0;
        for (hf__async *a = c->asyncs.first, *next; a; a = next) {
            next = a->link.next;
            if (a->cancel == cancel && !a->wait.call.done)
                give_up_async(c, a, HF_CANCELLED, hf__now());
        }
    }
}

static hf_result watch_cancel(hf_client *c, hf_cancel *cancel) {
    if (!cancel) return HF_OK;
    if (atomic_load(&cancel->fired))
        return hf__fail(HF_CANCELLED, "the cancel was fired before the call began");
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = cancel};
    if (epoll_ctl(c->cancel_epoll, EPOLL_CTL_ADD, cancel->fd, &event) == 0 || errno == EEXIST)
        return HF_OK;
    return hf__fail(HF_NOMEM, "no descriptor or memory is available to watch the cancel");
}

/* ---- Closing ---- */

void hf__async_close(hf_client *c) {
    for (hf__async *a = c->asyncs.first, *next; a; a = next) {
        next = a->link.next;
        if (!a->wait.call.done) give_up_async(c, a, HF_CLOSED, hf__now());
    }
}

static void free_async(hf_client *c, hf__async *a) {
    hf__callback_cancel(c, &a->callback);
    if (a->released)
        hf_unref(a->hold);
    else if (a->wait.call.done && a->wait.call.result == HF_OK)
        hf_unref(hf__hold_of(a->wait.handle));
    else
        free_failed(c, &a->wait);
    free(a);
}

void hf__async_forget(hf_client *c) {
    if (pthread_mutex_trylock(&c->mutex) != 0) return; /* not safe to walk: see hf__client_unref */
    pthread_mutex_unlock(&c->mutex);
    for (hf__async *a; (a = c->asyncs.first);) {
        hf__list_remove(&c->asyncs, a, link);
        free_async(c, a);
    }
    for (hf__async *a; (a = c->finished_asyncs.first);) {
        hf__list_remove(&c->finished_asyncs, a, link);
        free_async(c, a);
    }
}

/* ---- Starting ---- */

/*
 * Requests that callbacks begin are sent a few at a time, so that the server works on them while
 * the next callbacks run. The rest is sent when all callbacks have run. If they take long, another
 * thread sends it soon.
 */
static void send_soon(hf_client *c) {
    if (!hf__in_callback(c) || ++c->unsent == SEND_BATCH) {
        hf__run_once(c, NULL);
        return;
    }
    hf__process(c);
    if (!c->send_by) c->send_by = hf__now() + HF__MS;
}

static hf_result start_acquire(hf_client *c, const char *name, size_t length, hf__async *a,
                               const hf_options *o) {
    hf_result r = hf__acquire_check(c, o);
    if (!r) r = hf__lease_fits_by_now(c, hf__lease_of(c, o));
    if (!r) r = hf__callbacks_start(c);
    if (!r) r = watch_cancel(c, o->cancel);
    if (r) return r;
    r = hf__acquire_prepare(c, &a->wait, o);
    if (r) {
        if (o->cancel) unwatch_cancel(c, o->cancel);
        return r;
    }
    hf__hold_of(a->wait.handle)->lost_reported = true; /* until the user gets it */
    hf__time now = hf__now();
    hf__acquire_fill(&a->wait, c, o, o->owner ? hf__owner_of(o) : hf__owner_fresh(), now);
    a->cancel = o->cancel;
    link_async(c, a, hf__wait_until(c->core, &a->wait));
    hf__core_acquire(c->core, &a->wait, name, length, now);
    send_soon(c);
    return HF_OK;
}

hf_result hf_acquire_async_v(hf_client *c, const char *name, const hf_options *options, size_t size,
                             hf_acquired_fn *fn, void *arg) {
    size_t length;
    hf_options o;
    if (!fn) return hf__fail(HF_INVALID, "hf_acquire_async needs a callback");
    hf_result r = hf__options_copy("hf_options", &o, sizeof o, options, size);
    if (!r) r = hf__name_check(name, &length);
    if (!r) r = hf__call_begin(c);
    if (r) return r;
    hf__async *a = async_new(arg);
    if (a) a->acquired = fn;
    r = a ? start_acquire(c, name, length, a, &o)
          : hf__fail(HF_NOMEM, "out of memory; nothing was acquired");
    hf__call_end(c);
    if (r && a) {
        free_failed(c, &a->wait);
        free(a);
    }
    return r;
}

static hf_result start_release(hf_client *c, hf_hold *hold, hf_released_fn *fn, void *arg) {
    if (hf__handle_released(&hold->handle))
        return hf__fail(HF_NOT_HELD, "the hold was already released");
    /* no thread is left to run its callback */
    if (c->callback_thread_stop && !hf__in_callback(c)) {
        hf__call call = {0};
        hf__hold_release(c, hold, &call, hf__now());
        hf__process(c);
        return hf__call_result(&call);
    }
    hf_result r = hf__callbacks_start(c);
    if (r) return r;
    hf__async *a = async_new(arg);
    if (!a) return hf__fail(HF_NOMEM, "out of memory; the hold is still yours to release");
    hf__time now = hf__now();
    a->released = fn;
    a->hold = hold;
    link_async(c, a, hf__command_until(c, now));
    hf__hold_release(c, a->hold, &a->wait.call, now);
    send_soon(c);
    return HF_OK;
}

hf_result hf_release_async(hf_hold *hold, hf_released_fn *fn, void *arg) {
    if (!hold) return hf__fail(HF_INVALID, "hold is NULL");
    if (!fn) return hf__fail(HF_INVALID, "hf_release_async needs a callback");
    hf_client *c = hold->client;
    if (hf__hold_forked(hold)) {
        hf_unref(hold);
        return hf__fail(HF_FORKED,
                        "the hold belongs to the parent process, and is still held there");
    }
    pthread_mutex_lock(&c->mutex);
    c->active_calls++;
    hf_result r = start_release(c, hold, fn, arg);
    hf__call_end(c);
    if (r == HF_NOT_HELD || r == HF_CLOSED || r == HF_LOST) hf_unref(hold);
    return r;
}
