/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The scheduler: which thread does the work of a client.
 *
 * Any thread that waits for an answer may read the store's socket itself. The first such thread is
 * the leader, and passes the others their answers. The others are followers, each sleeping on its
 * own waker. So a thread that is alone with its client needs no other thread.
 *
 * The background thread does the work that no call waits for: renewals, timeouts, reconnection. It
 * watches the socket for a broken connection. It reads the socket only to receive answers that no
 * other thread waits for.
 *
 * hf__run_once passes completed operations to the core, and submitted ones to the socket. The mutex
 * is unlocked while sending, reading, polling and sleeping. Wake-ups and log lines are noted under
 * the mutex, and delivered after it is unlocked (hf__unlock).
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <time.h>

#include "base/thread.h"
#include "client/async.h"
#include "client/callbacks.h"
#include "client/exchange.h"
#include "client/loop.h"
#include "client/observe.h"
#include "client/watch.h"

/* While another thread leads, that thread serves the timers. The background thread serves a timer
   only if the leader is this late. */
#define BACKSTOP (100 * HF__MS)

/* A blocking read may return this late if no answer comes. */
#define SLACK (50 * HF__MS)

/* ---- Running once ---- */

static void finish_up_calls(hf_client *c) {
    const hf__store *store = c->store;
    if (store->up)
        hf__calls_finish(c->core, &c->up_calls, HF_OK, NULL);
    else if (c->opening && store->down_result)
        hf__calls_finish(c->core, &c->up_calls, store->down_result, store->down_detail);
}

static void finish_round_trip_calls(hf_client *c) {
    if (c->store->round_trips == c->known_round_trips && c->store->up && !c->closed) return;
    hf__calls_finish(c->core, &c->round_trip_calls, HF_OK, NULL);
}

static void take_notifications(hf_client *c, hf__time now) {
    hf__notification notification;
    if (!c->store->table->next_notification) return;
    while (c->store->table->next_notification(c->store, &notification)) {
        hf__watch_notify(c, &notification);
        hf__core_notify(c->core, &notification, now);
    }
}

/* Wake the threads that wait; queue the callbacks of async calls, in the order of finishing. */
static void wake_finished(hf_client *c, const hf__waker *self) {
    for (hf__call *call; (call = hf__core_next_finished(c->core));) {
        if (call->async)
            hf__async_done(c, call);
        else if (call->waker && call->waker != self)
            hf__wake_later(&c->wakers, call->waker);
    }
}

static void process_events(hf_client *c, hf__time now, const hf__waker *self) {
    hf__core_tick(c->core, now);
    hf__async_expire(c, now);
    hf__observe_tick(c, now);
    c->store->table->tick(c->store, now);
    hf__core_link_changed(c->core, now);
    take_notifications(c, now);
    now = hf__now(); /* a store may have answered within `submit`, and slowly */
    do {
        for (hf__op *op; (op = c->store->table->completed(c->store));)
            if (!hf__exchange_complete(c, op, now)) hf__core_complete(c->core, op, now);
    } while (hf__core_advance_multi(c->core, now));
    if (c->up_calls.last) finish_up_calls(c);
    if (c->round_trip_calls.last) finish_round_trip_calls(c);
    wake_finished(c, self);
    hf__report_lost(c);
}

void hf__process(hf_client *c) {
    process_events(c, hf__now(), NULL);
}

hf__time hf__run_once(hf_client *c, const hf__waker *self) {
    hf__time now;
    do {
        now = hf__now();
        c->send_by = c->unsent = 0;
        process_events(c, now, self);
    } while (c->store->table->flush(c->store, &c->mutex));
    return now;
}

hf__time hf__next_due(const hf_client *c) {
    hf__time due = hf__sooner(hf__core_due(c->core), c->store->table->due(c->store));
    if (c->send_by) due = hf__sooner(due, c->send_by);
    due = hf__sooner(due, hf__heap_due(&c->observer_timers));
    return hf__sooner(due, hf__heap_due(&c->async_deadlines));
}

/* Whether answers or notifications may arrive that no thread would read. */
static bool has_unread_answers(const hf_client *c) {
    return !c->has_leader && !c->awaiting &&
           (c->asyncs.first || c->watches.first || c->store->table->in_flight(c->store));
}

/* The background thread must wake sooner than planned, or read answers that no other thread
   reads. */
static bool background_needed(const hf_client *c) {
    if (!c->background_runs || !c->background_armed || (c->has_leader && !c->blocking_read))
        return false;
    bool stale = c->blocking_read && c->background_pollset != c->store->pollset_version;
    return has_unread_answers(c) || stale || hf__next_due(c) < c->background_armed;
}

/* What the leader sleeps on is outdated: another thread has connected or disconnected the store, or
   has set an earlier timer. */
static bool leader_stale(const hf_client *c) {
    return c->has_leader && c->leader.fd >= 0 &&
           (c->leader.pollset != c->store->pollset_version || hf__next_due(c) < c->leader.armed);
}

void hf__unlock(hf_client *c) {
    hf__wakes wakes;
    int leader = -1, background = -1;
    /* Otherwise a woken thread could return while its call is still in the list. */
    assert(!hf__core_has_finished(c->core));
    hf__loop_refresh(c);
    hf__wakes_take(&c->wakers, &wakes);
    if (leader_stale(c)) {
        leader = c->leader.fd;
        c->leader.fd = -1;
    }
    if (background_needed(c)) {
        background = c->background_wake_fd;
        c->background_armed = 0;
    }
    hf__log_line *lines = hf__log_take(&c->log);
    hf_log_fn *fn = c->log.fn;
    void *arg = c->log.arg;
    pthread_mutex_unlock(&c->mutex);
    hf__wakes_run(&wakes);
    hf__event_set(leader);
    hf__event_set(background);
    hf__log_run(lines, fn, arg);
}

bool hf__flush_wakeups(hf_client *c) {
    if (!c->wakers.wake && !c->log.first && !background_needed(c) && !leader_stale(c)) return false;
    hf__unlock(c);
    pthread_mutex_lock(&c->mutex);
    return true;
}

/* ---- Leading and following ---- */

/* If even poll runs out of memory, try everything once per millisecond, since none of that blocks.
   Otherwise an answer that has arrived would never be read. */
static void mark_all_ready(struct pollfd *fds, int count) {
    static const struct timespec a_moment = {.tv_nsec = HF__MS};
    nanosleep(&a_moment, NULL);
    for (int i = 0; i < count; i++) fds[i].revents = fds[i].fd < 0 ? 0 : fds[i].events;
}

static void poll_unlocked(hf_client *c, struct pollfd *fds, int count, hf__time until) {
    hf__unlock(c);
    int ready = poll(fds, (nfds_t)count, hf__poll_ms(hf__now(), until));
    if (ready < 0 && errno != EINTR) mark_all_ready(fds, count);
    pthread_mutex_lock(&c->mutex);
}

static void arm_leader(hf_client *c, int fd, hf__time until) {
    c->leader.fd = fd;
    c->leader.pollset = c->store->pollset_version;
    c->leader.armed = until;
}

static bool expects_notifications(const hf_client *c) {
    return hf__core_queued(c->core) || c->watches.first;
}

/* Most threads wait only for an answer, and can read without poll. While waits are queued that is
   not possible, because their notifications arrive on another descriptor. */
static bool lead_blocking_read(hf_client *c, const hf__waker *w, hf__time now, hf__time until) {
    hf__time answered = hf__command_until(c, now);
    bool background = c->background_runs && !pthread_equal(c->background_thread, pthread_self());
    if (!background || expects_notifications(c) || until < answered - SLACK) return false;
    c->has_leader = c->blocking_read = true;
    (void)hf__flush_wakeups(c);
    bool done = (w && w->set) || c->store->table->read_blocking(c->store, &c->mutex);
    c->has_leader = c->blocking_read = false;
    return done;
}

static void lead_polling(hf_client *c, int fd, struct pollfd *fds, int own, hf__time until) {
    c->has_leader = true;
    int count = c->store->table->pollset(c->store, fds + own, true);
    until = hf__sooner(until, hf__next_due(c));
    arm_leader(c, fd, until);
    poll_unlocked(c, fds, own + count, until);
    c->leader.fd = -1;
    /* If another thread has changed the pollset meanwhile, it has also handled the old
       descriptors. */
    if (c->leader.pollset == c->store->pollset_version)
        c->store->table->ready(c->store, fds + own, count, &c->mutex);
    c->has_leader = false;
}

static void join_followers(hf_client *c, hf__waker *w) {
    hf__list_prepend(&c->followers, w, link);
}

static void leave_followers(hf_client *c, hf__waker *w) {
    hf__list_remove(&c->followers, w, link);
}

/* The one that fell asleep last is the first to lead: its memory is still in the cache. */
static void wake_follower(hf_client *c) {
    if (c->followers.first) hf__wake_later(&c->wakers, c->followers.first);
}

/* Sleep until another thread wakes this one, because its answer has arrived, or because it must
   lead. */
static void follow_leader(hf_client *c, hf__waker *w, hf__time until) {
    join_followers(c, w);
    (void)hf__flush_wakeups(c);
    hf__loop_refresh(c);
    hf__waker_sleep(w, &c->mutex, until);
    leave_followers(c, w);
}

/* Lead, or follow while watching a cancel. Without a descriptor for wake-ups, check every
   millisecond: slow, but correct. */
static void lead_or_poll(hf_client *c, hf__waker *w, const hf_cancel *cancel, hf__time until) {
    struct pollfd fds[2 + HF__STORE_FDS];
    if (w && w->set) return;
    int own = 0, fd = hf__waker_fd(w);
    if (fd >= 0) fds[own++] = (struct pollfd){.fd = fd, .events = POLLIN};
    if (fd < 0) until = hf__sooner(until, hf__now() + HF__MS);
    if (cancel) fds[own++] = (struct pollfd){.fd = cancel->fd, .events = POLLIN};
    if (!c->has_leader) {
        lead_polling(c, fd, fds, own, until);
    } else if (w && fd >= 0) {
        join_followers(c, w);
        poll_unlocked(c, fds, own, until);
        leave_followers(c, w);
    } else {
        poll_unlocked(c, fds, own, until);
    }
    if (fd >= 0 && fds[0].revents) hf__event_clear(fd);
}

/* Whenever the mutex is free, a finished call is no longer in any list of the core. So a follower
   whose call is finished may return without running the scheduler once more. */
static hf__awaited await_call(hf_client *c, hf__call *call, hf__waker *w, hf__time until,
                              const hf_cancel *cancel) {
    for (;;) {
        if (w) hf__waker_reset(w);
        hf__time now = hf__run_once(c, w);
        if (call->done) return HF__DONE;
        if (cancel && atomic_load(&cancel->fired)) return HF__FIRED;
        if (now >= until) return HF__TIME_UP;
        if (!cancel && !c->has_leader && lead_blocking_read(c, w, now, until)) continue;
        if (!w || cancel || !c->has_leader) {
            lead_or_poll(c, w, cancel, until);
        } else {
            follow_leader(c, w, until);
            if (call->done) return HF__DONE;
        }
    }
}

hf__awaited hf__await(hf_client *c, hf__call *call, hf__time until, const hf_cancel *cancel) {
    hf__waker *w = call->done ? NULL : hf__waker_take(&c->wakers);
    call->waker = w;
    c->awaiting++;
    hf__awaited how = await_call(c, call, w, until, cancel);
    c->awaiting--;
    call->waker = NULL;
    if (w) hf__waker_put(&c->wakers, w);
    /* Another thread must become the leader for the calls that still wait. */
    if (!c->has_leader) wake_follower(c);
    return how;
}

hf_result hf__await_up(hf_client *c, hf__time until) {
    if (c->closed) return hf__fail_line(HF_CLOSED, NULL);
    hf__call call = {0};
    hf__calls_push(&c->up_calls, &call);
    if (hf__await(c, &call, until, NULL) == HF__DONE) return hf__call_result(&call);
    hf__calls_remove(&c->up_calls, &call);
    const hf__store *store = c->store;
    hf_result r = c->closed ? HF_CLOSED : store->down_result ? store->down_result : HF_UNREACHABLE;
    return hf__fail_line(r, c->closed ? NULL : store->down_detail);
}

bool hf__await_round_trip(hf_client *c, hf__time until, const hf_cancel *cancel) {
    if (!c->store->up || c->closed) return false;
    hf__call call = {0};
    uint64_t before = c->store->round_trips;
    if (!c->round_trip_calls.last) c->known_round_trips = before;
    c->store->wants_round_trip = true;
    hf__calls_push(&c->round_trip_calls, &call);
    if (hf__await(c, &call, until, cancel) != HF__DONE)
        hf__calls_remove(&c->round_trip_calls, &call);
    return c->store->round_trips != before;
}

/* ---- The background thread ---- */

static void set_background_timer(hf_client *c, hf__time due) {
    if (c->background_timer_fd < 0) return;
    struct itimerspec at = {0};
    if (due != HF__NEVER) {
        at.it_value.tv_sec = due / HF__SEC;
        at.it_value.tv_nsec = due % HF__SEC + (due <= 0);
    }
    timerfd_settime(c->background_timer_fd, TFD_TIMER_ABSTIME, &at, NULL);
}

static void background_step(hf_client *c) {
    /* Do not lead while another thread is between sending and reading: that thread would then have
       to wait until this one wakes it. */
    bool reads = has_unread_answers(c);
    if (reads) c->has_leader = true;
    struct pollfd fds[3 + HF__STORE_FDS] = {{.fd = c->background_wake_fd, .events = POLLIN},
                                            {.fd = c->background_timer_fd, .events = POLLIN},
                                            {.fd = c->cancel_epoll, .events = POLLIN}};
    int count = c->store->table->pollset(c->store, fds + 3, reads);
    hf__time due = hf__next_due(c);
    if (c->has_leader && !c->blocking_read && !reads && due != HF__NEVER) due += BACKSTOP;
    set_background_timer(c, due);
    c->background_armed = due;
    uint64_t pollset = c->background_pollset = c->store->pollset_version;
    if (reads) arm_leader(c, c->background_wake_fd, due);
    poll_unlocked(c, fds, 3 + count, c->background_timer_fd < 0 ? due : HF__NEVER);
    c->background_armed = 0;
    if (reads) c->leader.fd = -1;
    if (fds[0].revents) hf__event_clear(c->background_wake_fd);
    if (fds[2].revents) {
        hf__async_cancelled(c);
        /* take finished calls from the core before the mutex is unlocked: see await_call */
        hf__process(c);
    }
    if (pollset == c->store->pollset_version)
        c->store->table->ready(c->store, fds + 3, count, &c->mutex);
    if (!reads) return;
    c->has_leader = false;
    wake_follower(c);
}

static void *background_main(void *arg) {
    hf_client *c = arg;
    pthread_mutex_lock(&c->mutex);
    while (!c->background_stop) {
        hf__run_once(c, NULL);
        if (!c->background_stop) background_step(c);
    }
    hf__unlock(c);
    return NULL;
}

hf_result hf__background_start(hf_client *c) {
    if (c->background_runs || c->loop.fd >= 0) return HF_OK;
    if (c->background_wake_fd < 0) c->background_wake_fd = hf__event_new();
    if (c->background_timer_fd < 0)
        c->background_timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (c->background_wake_fd < 0 || !hf__thread_start(&c->background_thread, background_main, c))
        return hf__fail(HF_NOMEM, "no thread or descriptor is available for the background thread, "
                                  "which renews holds; nothing was acquired");
    c->background_runs = true;
    return HF_OK;
}

void hf__background_join(hf_client *c) {
    pthread_mutex_lock(&c->mutex);
    bool runs = c->background_runs;
    c->background_stop = true;
    c->background_runs = false;
    hf__event_set(c->background_wake_fd);
    pthread_mutex_unlock(&c->mutex);
    if (runs) pthread_join(c->background_thread, NULL);
}
