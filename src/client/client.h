/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The client: a core, a store and the threads that run them.
 *
 * Everything below is guarded by `mutex`, except what is atomic. No thread waits for another one,
 * or runs a callback, while it holds the mutex: see scheduler.c.
 */
#ifndef HF_CLIENT_CLIENT_H
#define HF_CLIENT_CLIENT_H

#include "base/error.h"
#include "base/event.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/url.h"
#include "client/waker.h"
#include "core/core.h"

typedef struct hf__async hf__async;
typedef struct hf__watch hf__watch;
typedef struct hf__change hf__change;

/* A callback that may become due: part of the object that it is about. Zero at first. See
   callbacks.h. */
typedef struct hf__callback {
    HF__LINK(struct hf__callback) link; /* among the client's, while it is due */
    /* Calls the user's function, and unlocks the mutex meanwhile. May free this. */
    void (*run)(hf_client *client, struct hf__callback *self);
} hf__callback;

struct hf_client {
    pthread_mutex_t mutex;
    atomic_uint refs;         /* one of the user, one per handle */
    uint64_t fork_generation; /* see fork.c */
    hf__url url;
    hf__url *node_urls; /* of a quorum: the URLs of its nodes, which share the strings of `url` */
    hf__store *store;
    hf__core *core;
    hf__rand rand;
    hf__log log;
    bool closed;
    bool opening;       /* hf_open is waiting for the first connection */
    hf__calls up_calls; /* calls that wait for a connection */
    /* calls that wait until round trips differ from `known_round_trips` */
    hf__calls round_trip_calls;
    uint64_t known_round_trips;

    /* calls in progress; hf_close waits for them */
    unsigned active_calls;
    pthread_cond_t calls_finished;

    /* the scheduler */
    unsigned awaiting; /* threads in hf__await; one of them leads, or is about to */
    bool has_leader;   /* a thread is waiting for the store's answers */
    /* the leader waits for nothing else: the background thread serves the timers meanwhile */
    bool blocking_read;
    struct {
        int fd;           /* wakes the leader; -1: it is awake */
        uint64_t pollset; /* pollset_version of the store when it went to sleep */
        hf__time armed;   /* when it wakes by itself */
    } leader;
    hf__wakers wakers;
    HF__LIST(hf__waker) followers;

    /* the background thread: started with the first acquire */
    pthread_t background_thread;
    bool background_runs, background_stop;
    int background_wake_fd, background_timer_fd;
    hf__time background_armed;   /* when it wakes by itself; 0: it is awake */
    uint64_t background_pollset; /* pollset_version of the store when it went to sleep */

    /* async calls: async.c */
    HF__LIST(hf__async) asyncs, finished_asyncs; /* in progress; the callback has not run yet */
    hf__heap async_deadlines;
    int cancel_epoll; /* epoll: the cancels of async calls; -1: none yet */
    /* by when to send the requests that callbacks have begun; 0: there are none */
    hf__time send_by;
    unsigned unsent; /* how many of these requests there are */

    /* latches and leaders: watch.c, latch.c, observe.c */
    HF__LIST(hf__watch) watches;
    HF__LIST(hf__change) changes; /* in progress or waiting for their turn, in order */
    hf__heap observer_timers;
    HF__LIST(hf_observer) observers;

    /* the user's own event loop: loop.c */
    struct {
        int fd, timer; /* -1: no such loop */
        int store;     /* epoll, added to `fd`: the store's descriptors */
        hf__time armed;
        uint64_t pollset;
        bool watched;
    } loop;

    /* callbacks.c */
    HF__LIST(hf__callback) callbacks; /* due, in order; losses are first */
    size_t callback_count;
    hf__callback *last_loss; /* among them; NULL: none */
    pthread_t callback_thread;
    bool callback_thread_runs, callback_thread_stop;
    pthread_cond_t callback_work, callback_done;
};

struct hf_cancel {
    atomic_bool fired;
    int fd;
};

/* ---- scheduler.c ---- */

typedef enum hf__awaited { HF__DONE, HF__TIME_UP, HF__FIRED } hf__awaited;

/* Process events of store and core until there are none left, and send. Unlocks the mutex while it
   sends. `self` is not woken, because it is awake. Returns the time that was used. */
hf__time hf__run_once(hf_client *client, const hf__waker *self);

/* The same without sending. */
void hf__process(hf_client *client);

/* When to run again. */
hf__time hf__next_due(const hf_client *client);

/* Unlock the mutex. Then wake the threads that were noted, and deliver log lines. */
void hf__unlock(hf_client *client);

/* Call it before something that takes long, so that other threads need not wait for that. If there
   is a thread to wake or a line to deliver: does what hf__unlock does, locks the mutex again, and
   returns true. */
bool hf__flush_wakeups(hf_client *client);

/* Wait until the call is finished, the time is up, or `cancel` was fired. Mutex held before and
   after. */
hf__awaited hf__await(hf_client *client, hf__call *call, hf__time until, const hf_cancel *cancel);

/* Wait until the store is up: HF_OK. When the time is up, returns the reason why the store is down;
   in hf_open, already when the first attempt has failed. Mutex held before and after. Sets this
   thread's error detail. */
hf_result hf__await_up(hf_client *client, hf__time until);

/* Measure a round trip. False: none was completed in time, or before `cancel` was fired. */
bool hf__await_round_trip(hf_client *client, hf__time until, const hf_cancel *cancel);

hf_result hf__background_start(hf_client *client);
void hf__background_join(hf_client *client);

/* ---- client.c ---- */

/* Until when an operation that is sent `now` may take. */
static inline hf__time hf__command_until(const hf_client *client, hf__time now) {
    return hf__after_ms(now, client->url.command_timeout_ms);
}

/* Begin a call: HF_FORKED, HF_CLOSED or HF_INVALID; otherwise the mutex is held. */
hf_result hf__call_begin(hf_client *client);
/* The same, and HF_UNSUPPORTED if the store has no latches and leaders. */
hf_result hf__call_begin_latch_leader(hf_client *client);
/* End a call, and unlock the mutex. */
void hf__call_end(hf_client *client);

void hf__client_unref(hf_client *client);

/* Make the result and the detail of the call this thread's last failure. */
hf_result hf__call_result(hf__call *call);

/* Check a name: its length, or HF_INVALID with a detail. */
hf_result hf__name_check(const char *name, size_t *length);

/* HF_INVALID with a detail if the lease is out of range. */
hf_result hf__lease_check(int64_t lease_ms);

/*
 * HF_INVALID with a detail if the lease is too close to the shortest round trip.
 *
 * The only measurement so far may be a login during a stall of the store. So before a lease is
 * refused, the round trip is measured several times more. A call that may wait goes on measuring
 * for as long as it would tolerate an outage. The time used is subtracted from `wait_ms`. If
 * `cancel` is fired or the store goes away, the result is HF_OK, and the acquire finds that out.
 */
hf_result hf__lease_fits(hf_client *client, int64_t lease_ms, int64_t *wait_ms,
                         const hf_cancel *cancel);

/* The same without waiting: refuses a lease only if several exchanges have shown that it is too
   close. */
hf_result hf__lease_fits_by_now(hf_client *client, int64_t lease_ms);

/* ---- fork.c ---- */

/* The number of forks between the first process and this one. */
uint64_t hf__fork_generation(void);

/* This thread's id, which is never reused in this process. And a new id that belongs to no
   thread. */
uint64_t hf__thread_id(void);
uint64_t hf__fresh_owner_id(void);

#endif
