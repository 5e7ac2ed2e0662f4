/* SPDX-License-Identifier: Apache-2.0 */
/* hf_fd and hf_dispatch: see loop.h. */
#include "client/loop.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "client/async.h"
#include "client/callbacks.h"

/* How often to check the store, if no descriptor is available to watch it. */
#define POLL_INTERVAL (10 * HF__MS)

static bool add_to_epoll(int epoll, int fd, uint32_t events) {
    struct epoll_event event = {.events = events, .data.fd = fd};
    return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) == 0;
}

hf_result hf__loop_init(hf_client *c) {
    c->loop.fd = epoll_create1(EPOLL_CLOEXEC);
    c->loop.timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    c->loop.armed = HF__NEVER;
    bool made = c->loop.fd >= 0 && c->loop.timer >= 0 &&
                add_to_epoll(c->loop.fd, c->loop.timer, EPOLLIN) &&
                add_to_epoll(c->loop.fd, c->cancel_epoll, EPOLLIN);
    return made ? HF_OK : hf__fail(HF_NOMEM, "no descriptor is available for the event loop");
}

void hf__loop_fini(hf_client *c) {
    hf__event_free(c->loop.fd);
    hf__event_free(c->loop.store);
    hf__event_free(c->loop.timer);
}

static void arm_timer(hf_client *c, hf__time due) {
    if (due == c->loop.armed) return;
    c->loop.armed = due;
    struct itimerspec at = {0};
    if (due != HF__NEVER) {
        at.it_value.tv_sec = due / HF__SEC;
        at.it_value.tv_nsec = due % HF__SEC + (due <= 0);
    }
    timerfd_settime(c->loop.timer, TFD_TIMER_ABSTIME, &at, NULL);
}

/* The store's descriptors have changed. They are in an epoll set of their own, which is removed as
   a whole. A descriptor that was closed here may still be open in a forked child, and epoll would
   report it forever. */
static bool watch_store(hf_client *c) {
    struct pollfd fds[HF__STORE_FDS];
    if (c->loop.store >= 0) {
        epoll_ctl(c->loop.fd, EPOLL_CTL_DEL, c->loop.store, NULL);
        close(c->loop.store);
    }
    c->loop.store = epoll_create1(EPOLL_CLOEXEC);
    if (c->loop.store < 0) return false;
    int count = c->store->table->pollset(c->store, fds, true);
    for (int i = 0; i < count; i++) {
        if (fds[i].fd < 0) continue;
        uint32_t events =
            (fds[i].events & POLLIN ? EPOLLIN : 0u) | (fds[i].events & POLLOUT ? EPOLLOUT : 0u);
        if (!add_to_epoll(c->loop.store, fds[i].fd, events)) return false;
    }
    return add_to_epoll(c->loop.fd, c->loop.store, EPOLLIN);
}

void hf__loop_refresh(hf_client *c) {
    if (c->loop.fd < 0) return;
    if (c->loop.pollset != c->store->pollset_version || !c->loop.watched) {
        c->loop.pollset = c->store->pollset_version;
        c->loop.watched = watch_store(c);
    }
    hf__time due = hf__callbacks_due(c) ? 1 : hf__next_due(c);
    arm_timer(c, c->loop.watched ? due : hf__sooner(due, hf__now() + POLL_INTERVAL));
}

int32_t hf_fd(hf_client *c) {
    return c && c->fork_generation == hf__fork_generation() ? c->loop.fd : -1;
}

static void poll_store(hf_client *c) {
    struct pollfd fds[HF__STORE_FDS];
    int count = c->store->table->pollset(c->store, fds, true);
    if (poll(fds, (nfds_t)count, 0) > 0) c->store->table->ready(c->store, fds, count, &c->mutex);
    hf__async_cancelled(c);
}

/* An expired timer stays readable until it is set again. */
hf_result hf_dispatch(hf_client *c) {
    hf_result r = hf__call_begin(c);
    if (r) return r;
    if (c->loop.fd < 0) {
        r = hf__fail(HF_INVALID, "the client was not opened with HF_NO_THREAD; it has its own "
                                 "threads, and nothing to dispatch");
    } else {
        poll_store(c);
        hf__run_once(c, NULL);
        if (hf__callbacks_due(c)) {
            /* a callback may take long, or wait for a thread that this wakes */
            (void)hf__flush_wakeups(c);
            hf__callbacks_run(c);
            hf__run_once(c, NULL);
        }
        c->loop.armed = -1; /* differs from every time, so the timer is set */
    }
    hf__call_end(c);
    return r;
}
