/*
 * The client: a core, a store and the threads that turn them.
 *
 * Everything below is guarded by `mutex`, but for what is atomic. Nobody waits for another or runs a
 * callback while holding it: see scheduler.c.
 */
#ifndef HF_CLIENT_CLIENT_H
#define HF_CLIENT_CLIENT_H

#include "base/error.h"
#include "base/event.h"
#include "base/log.h"
#include "base/url.h"
#include "client/waker.h"
#include "core/core.h"

typedef struct hf__async hf__async;
typedef struct hf__watch hf__watch;
typedef struct hf__change hf__change;

struct hf_client {
    pthread_mutex_t mutex;
    atomic_uint refs;         /* the user's, one per handle */
    uint64_t fork_generation; /* fork generation: see fork.c */
    hf__url url;
    hf__url *node_urls; /* of a quorum: its nodes', with strings of `url` */
    hf__store *store;
    hf__core core;
    hf__log log;
    bool closed;
    bool opening;       /* hf_open waits for its first connection */
    hf__call *up_calls; /* calls that wait for a connection */
    hf__call
        *round_trip_calls; /* calls that wait for another round trip than `known_round_trips` */
    uint64_t known_round_trips;

    /* calls under way, for hf_close to wait for */
    unsigned active_calls;
    pthread_cond_t calls_finished;

    /* the pump */
    unsigned awaiting;  /* threads in hf__await: one of them leads, or is about to */
    bool has_leader;    /* a thread waits for the store's answers */
    bool blocking_read; /* and for nothing else: timers are the keeper's meanwhile */
    struct {
        int fd;         /* wakes it; -1: it is awake */
        uint64_t polls; /* the store's, when it began to sleep */
        hf__time armed; /* it wakes by itself then */
    } leader;
    hf__wakers wakers;
    hf__waker *followers;

    /* the keeper: started with the first acquire */
    pthread_t background_thread;
    bool background_runs, background_stop;
    int background_wake_fd, background_timer_fd;
    hf__time background_armed;   /* it wakes by itself then; 0: it is awake */
    uint64_t background_pollset; /* the store's, when it began to sleep */

    /* calls that do not block: async.c */
    hf__async *asyncs;                           /* under way */
    hf__async *callbacks_first, *callbacks_last; /* finished, not told yet */
    hf__heap async_deadlines;
    int cancel_epoll; /* epoll: the cancels they carry; -1: none yet */
    hf__time send_by; /* something that callbacks have begun; 0: nothing */
    unsigned unsent;  /* how many of these there are */

    /* latches and leaders: watch.c, latch.c, observe.c */
    hf__watch *watches;
    hf__change *changes;      /* under way or waiting for their turn, in order */
    hf__heap observer_timers; /* of observers */
    hf_observer *observers;
    hf_observer *changed_first, *changed_last; /* have something to tell */

    /* the user's own event loop: loop.c */
    struct {
        int fd, timer; /* -1: it has none */
        int store;     /* epoll: the store's descriptors, in `fd` */
        hf__time armed;
        uint64_t polls;
        bool watched;
    } loop;

    /* telling of losses: callback_thread.c */
    pthread_t callback_thread;
    bool callback_thread_runs, callback_thread_stop;
    pthread_cond_t callback_work, callback_done;
    hf__ownership *lost_to_report; /* lost, on_lost not called yet */
};

struct hf_cancel {
    atomic_bool fired;
    int fd;
};

/* ---- scheduler.c ---- */

typedef enum hf__awaited { HF__DONE, HF__TIME_UP, HF__FIRED } hf__awaited;

/* Carry things between store and core until nothing moves, and send. Lets go of the mutex while it
   sends. `self` is woken by nobody: it is awake. Returns what time it was. */
hf__time hf__run_once(hf_client *client, const hf__waker *self);

/* The same without sending. */
void hf__process(hf_client *client);

/* When to look again. */
hf__time hf__next_due(const hf_client *client);

/* Let go of the mutex; then wake whom it concerns and hand over log lines. */
void hf__unlock(hf_client *client);

/* The same now, if there is anybody to wake or anything to hand over, for others need not wait for what comes next.
   True: there was, and the mutex was let go meanwhile. */
bool hf__flush_wakeups(hf_client *client);

/* Wait until the call is finished, time is up or cancel was fired. Mutex held before and after. */
hf__awaited hf__await(hf_client *client, hf__call *call, hf__time until, const hf_cancel *cancel);

/* Wait until the store is up: HF_OK. Else why it is not: when the time is up, or for hf_open when the
   first attempt failed. Mutex held before and after; the failure is set as this thread's. */
hf_result hf__await_up(hf_client *client, hf__time until);

/* Measure a round trip. False: none came until then, or before the cancel was fired. */
bool hf__await_round_trip(hf_client *client, hf__time until, const hf_cancel *cancel);

hf_result hf__background_start(hf_client *client);
void hf__background_join(hf_client *client);

/* ---- callback_thread.c ---- */

/* Tell of what the core has found lost. Mutex held. */
void hf__report_lost(hf_client *client);

/* Wait until on_lost of this handle does not run, unless this is the thread that runs it. */
void hf__report_lost_wait(hf_client *client, const hf_hold *hold);
hf_result hf__callbacks_start(hf_client *client);

/* Call on_lost where it is due. Mutex held before and after. */
void hf__report_lost_run(hf_client *client);
void hf__callbacks_join(hf_client *client);

/* ---- client.c ---- */

/* Begin a call: HF_FORKED, HF_CLOSED or HF_INVALID, else the mutex is held. And end it. */
hf_result hf__call_begin(hf_client *client);
hf_result hf__call_begin_latch_leader(
    hf_client *client); /* also HF_UNSUPPORTED: no latches, no leaders */
void hf__call_end(hf_client *client);

void hf__client_unref(hf_client *client);

/* A result and what the call knows of it become this thread's last failure. */
hf_result hf__call_result(hf__call *call);

/* Names: HF_INVALID with a line, or the length. */
hf_result hf__name_check(const char *name, size_t *length);

/* HF_INVALID with a line if out of range. */
hf_result hf__lease_check(int64_t lease_ms);

/*
 * HF_INVALID with a line if it is too near the shortest round trip. What was measured may be one login while the store
 * stood still: before anybody is refused it is measured again, several times, and by a wait for as long as it would
 * ride out an outage. That comes off its wait_ms. With `cancel`, or if the store goes away: HF_OK, for the acquire to
 * find.
 */
hf_result hf__lease_fits(hf_client *client, int64_t lease_ms, int64_t *wait_ms,
                         const hf_cancel *cancel);

/* The same without waiting: refused is what several exchanges have shown to be too near. */
hf_result hf__lease_fits_by_now(hf_client *client, int64_t lease_ms);

/* ---- fork.c ---- */

/* Counts the forks between the first process and this one. */
uint64_t hf__fork_generation(void);

/* This thread's number: never reused, in this process. And one that is no thread's. */
uint64_t hf__thread_id(void);
uint64_t hf__fresh_owner_id(void);

#endif
