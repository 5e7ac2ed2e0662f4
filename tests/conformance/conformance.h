/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The conformance suite: what every store must do, written against holdfast.h alone.
 *
 * A case is a function that takes a fixture with two open clients (`a` and `b`) and a lock name of
 * its own. Cases live in one file per theme, each with a table. main.c runs all cases whose needs
 * the store under test meets, so a new store is one more row in its table of stores.
 *
 * Only the thread that runs the case may assert. Other threads and processes record their results
 * in memory from cf_new, which outlives a failed assertion, and the case checks them afterwards.
 */
#ifndef HF_CONFORMANCE_H
#define HF_CONFORMANCE_H

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "holdfast.h"
#include "t_time.h"

/* ---- Stores and cases ------------------------------------------------------------------------ */

/* Features that only some stores or builds have. A case lists the features that it needs. */
enum {
    CF_PROCESSES = 1, /* locks reach across processes */
    CF_REDIS = 2,     /* the store is a Redis whose keys can be inspected */
    CF_FORK_WITH_THREADS =
        4,             /* a child forked beside threads may start its own: any build but tsan's */
    CF_QUEUE = 8,      /* the store queues waiters: clients are served in order of arrival */
    CF_OWN_CLOCK = 16, /* the holder keeps the lease: a stopped holder keeps its lock */
    CF_KINDS = 32,     /* readers, writers, upgradable readers and permits */
    CF_LATCH_LEADER = 64, /* latches and leaders */
    CF_EXPORTS = 128,     /* a hold can be exported to another process */
    CF_LISTS = 256        /* hf_list works */
};

typedef struct cf cf;

typedef struct cf_case {
    const char *name;
    void (*run)(cf *f);
    unsigned needs;
} cf_case;

#define CF_CASE(run) \
    { #run, run, 0 }
#define CF_CASE_NEEDS(run, needs) \
    { #run, run, needs }
#define CF_CASES_END \
    { NULL, NULL, 0 }

extern const cf_case cf_basics[], cf_waiting[], cf_contention[], cf_reentry[], cf_owners[],
    cf_leases[], cf_loss[], cf_breaking[], cf_inspecting[], cf_processes[], cf_misuse[], cf_names[],
    cf_options[], cf_errors[], cf_closing[], cf_async[], cf_keys[], cf_queue_order[], cf_kinds[],
    cf_readers[], cf_upgrade[], cf_permits[], cf_multi_acquire[], cf_latch[], cf_leader[],
    cf_listing[], cf_counting[], cf_exporting[];

/* The URL of the store under test, and of a second space in the same store. */
const char *cf_url(void);
const char *cf_other_url(void);

/* The same with options appended ("label=x"); valid until the case ends. */
const char *cf_url_with(cf *f, const char *options);

/* ---- The fixture ----------------------------------------------------------------------------- */

enum {
    CF_WATCHDOG_MS = 15000,  /* limit for anything that must happen */
    CF_GRANT_MS = 4000,      /* limit for a grant that is due: below the command timeout of 5 s */
    CF_AT_ONCE_MS = 3000,    /* "at once": far below the default lease, far above a slow machine */
    CF_SHORT_LEASE_MS = 300, /* a lease that ends during the case */
    /* A lease that lasts even if the machine is slow or pauses for a moment; and a time that is
       longer than either lease. */
    CF_KEPT_LEASE_MS = T_SANITIZED ? 3000 : 1500,
    CF_PAST_LEASE_MS = CF_KEPT_LEASE_MS + 500,
    CF_CLIENTS_MAX = 16
};

struct cf {
    const cf_case *test;
    const char *name; /* a lock name that no other case uses */
    hf_client *a, *b;
    hf_client *clients[CF_CLIENTS_MAX];
    struct cf_thread *threads;
    struct cf_block *blocks;
};

/* For main.c: around each case. */
int cf_setup(void **state);
int cf_teardown(void **state);

/* The case is over and may have failed: threads that wait for a signal from it must stop
   waiting. */
bool cf_over(void);

/* The case is over. True: all its threads end within `ms`. */
bool cf_threads_end(cf *f, int64_t ms);

/* Whether the store under test has all of these features. */
bool cf_has(unsigned needs);

/* CF_QUEUE: how many clients the store has in the queue of a lock. */
int cf_queue_length(const char *name);

/* Whether notifications reach all waiters of the lock, if the store sends notifications. */
bool cf_all_subscribed(const hf_info *info, const char *name);

/* Zeroed memory, freed when the case and its threads have ended. */
void *cf_new(cf *f, size_t size);

/* A lock name of this case: its name with a suffix. */
const char *cf_name(cf *f, const char *suffix);

/* Another client, closed at the end of the case unless cf_close closed it before. */
hf_client *cf_open(cf *f);
hf_client *cf_open_url(cf *f, const char *url, const hf_client_options *options);
void cf_close(cf *f, hf_client *client);

/* A new cancel, freed by the case. */
hf_cancel *cf_cancel(void);

/* ---- Assertions ------------------------------------------------------------------------------ */

/* Checks the result of a call. The failure message names both results. */
#define CF_IS(expected, ...) cf_is((expected), (__VA_ARGS__), #__VA_ARGS__, __FILE__, __LINE__)
void cf_is(hf_result expected, hf_result got, const char *what, const char *file, int line);

/* Acquire, which must succeed; the last argument is the options (or NULL). */
#define CF_TAKE(client, name, ...) cf_take((client), (name), __VA_ARGS__, __FILE__, __LINE__)
hf_hold *cf_take(hf_client *client, const char *name, const hf_options *options, const char *file,
                 int line);

/* Acquire, which must fail with this result, without a hold and with a detail. */
#define CF_REFUSED(expected, client, name, ...) \
    cf_refused((expected), (client), (name), __VA_ARGS__, __FILE__, __LINE__)
void cf_refused(hf_result expected, hf_client *client, const char *name, const hf_options *options,
                const char *file, int line);

/* Release, which must succeed. */
#define CF_FREE(hold) CF_IS(HF_OK, hf_release(hold))

/* Wait until a condition holds; fail if it does not in time. */
#define CF_UNTIL(condition) T_WAIT_UNTIL(condition, CF_WATCHDOG_MS)

/* Nothing has blocked since `started_ms`. */
#define CF_AT_ONCE(started_ms) \
    assert_in_range(t_now_ms() - (started_ms), 0, t_patience(CF_AT_ONCE_MS))

/* ---- Inspecting ------------------------------------------------------------------------------ */

hf_stats cf_stats(hf_client *client);

/* What the store reports about a lock; free it with hf_info_free. */
hf_info *cf_inspect(hf_client *client, const char *name);

/* Single fields of that, for waiting on changes that reach the store later. */
uint32_t cf_count(hf_client *client, const char *name);
uint64_t cf_token(hf_client *client, const char *name);

/* Whether a descriptor polls readable now. */
int cf_readable(int fd);

/* Records the calls of on_lost; pass cf_on_lost and a cf_lost in the options. */
typedef struct cf_lost {
    atomic_int calls;
    _Atomic uint64_t token; /* of the hold that was lost */
} cf_lost;
void cf_on_lost(hf_hold *hold, void *arg);

/* ---- Threads --------------------------------------------------------------------------------- */

typedef struct cf_thread cf_thread;

/* Run fn(arg) in a thread. cf_join fails the case if the thread does not end in time. */
cf_thread *cf_spawn(cf *f, void (*fn)(void *), void *arg);
void cf_join(cf_thread *thread);
pthread_t cf_thread_id(const cf_thread *thread);

/* One thread of a crowd. */
typedef struct cf_visitor {
    void *arg; /* shared by all of them */
    hf_client *client;
    int index;
} cf_visitor;

/* Run fn(a cf_visitor) in threads of several clients; returns when all have ended. */
void cf_crowd(cf *f, int clients, int threads, void (*fn)(void *), void *arg);

/* An acquire that runs in its own thread, and so under its own owner. */
typedef struct cf_attempt {
    hf_client *client;
    const char *name;
    hf_options options;
    hf_result result; /* after cf_join(thread) */
    hf_hold *hold;
    int64_t took_ms;
    char detail[256];
    cf_thread *thread;
} cf_attempt;

/* Start an attempt. cf_queue also waits until it is in its client's queue. */
cf_attempt *cf_start(cf *f, hf_client *client, const char *name, const hf_options *options);
cf_attempt *cf_queue(cf *f, hf_client *client, const char *name, const hf_options *options);

/* The attempt ended with this result. cf_granted returns its hold, which the caller then owns. The
   grant must come sooner than any timeout of the library could cause it. */
#define CF_ENDED(expected, attempt) \
    (cf_join((attempt)->thread),    \
     cf_is((expected), (attempt)->result, (attempt)->detail, __FILE__, __LINE__))
hf_hold *cf_granted(cf_attempt *attempt);

/* Acquire in a new thread, and return the result. `*hold` receives the hold unless it is NULL. */
hf_result cf_acquire_in_thread(cf *f, hf_client *client, const char *name,
                               const hf_options *options, hf_hold **hold);

/* Release in a new thread. */
hf_result cf_release_in_thread(cf *f, hf_hold *hold);

/* ---- Kinds ----------------------------------------------------------------------------------- */

/* Options for a kind: one try, for a logical owner (0: this thread), or a wait. Permits are one of
   one. */
#define CF_OPTIONS(kind_, ...) \
    (&(hf_options){.kind = (kind_), .capacity = (kind_) == HF_PERMITS, __VA_ARGS__})
#define CF_TRY(kind, owner_) CF_OPTIONS(kind, .owner = (owner_))
#define CF_WAIT(kind)        CF_OPTIONS(kind, .wait_ms = HF_FOREVER)

/* What the store reports about a name: queued clients, holders, and permits in use. */
uint32_t cf_queued(hf_client *client, const char *name);
uint32_t cf_holders(hf_client *client, const char *name);
uint32_t cf_used(hf_client *client, const char *name);

/* Whether `count` clients are queued and notifications reach all of them, so none is passed. */
bool cf_are_queued(hf_client *client, const char *name, uint32_t count);

/* cf_queue for a client that was not queued, and wait until the store has queued it. */
cf_attempt *cf_arrive(cf *f, hf_client *client, const char *name, const hf_options *options);

/* The attempt still waits, as the only one of its client. */
#define CF_STILL_WAITS(attempt) assert_int_equal(cf_stats((attempt)->client).waiting, 1)

/* Whether an acquire succeeds; the hold is released at once. Results other than HF_OK and HF_BUSY
   fail the case. */
bool cf_can_acquire(hf_client *client, const char *name, const hf_options *options);

/* An earlier waiter keeps it out. Readers of one client may share a hold for a moment, so a reading
   client may admit one more before it knows of the waiter. */
#define CF_KEPT_OUT(client, name, options) CF_UNTIL(!cf_can_acquire((client), (name), (options)))

/* ---- Exclusion ------------------------------------------------------------------------------- */

/* A critical section. Its own accesses are free of data races, so that clients and processes that
   have only the lock in common can share it. */
typedef struct cf_section {
    atomic_int inside;
    atomic_int collisions; /* two were inside at once */
    atomic_long visits;    /* read and written separately: a visit is lost if two overlap */
    atomic_int failures;   /* acquires and releases that did not return HF_OK */
} cf_section;

/* Lock, stay inside for a moment, release; `rounds` times. */
void cf_visit(cf_section *section, hf_client *client, const char *name, int rounds);
void cf_section_check(cf_section *section, long visits);

#endif
