/*
 * The conformance suite: what every store must do, written against holdfast.h alone.
 *
 * A case is a function that takes a fixture with two open clients (`a` and `b`) and a lock name of
 * its own. Cases live in one file per theme, each with a table; main.c runs the cases of all tables
 * whose needs the store under test meets, so a new store is one more row in its table of stores.
 *
 * Assertions belong to the thread that runs the case. Threads and processes record what they saw,
 * in memory from cf_new (it outlives a failed assertion), and the case looks at it afterwards.
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

/* What a store has beyond what all have, and the build; what a case needs beyond that. */
enum {
    CF_PROCESSES = 1, /* its locks reach across processes */
    CF_REDIS = 2,     /* it is a Redis, and its keys can be looked at */
    CF_FORK_WITH_THREADS =
        4,             /* a child forked beside threads may make its own: any build but tsan's */
    CF_LINE = 8,       /* it keeps a line of waiters: order of arrival among clients */
    CF_OWN_CLOCK = 16, /* leases are kept by the holder: one that is stopped keeps its lock */
    CF_KINDS = 32,     /* it has readers, writers, upgradable readers and permits */
    CF_BESIDE = 64,    /* it has latches and leaders */
    CF_LEAVES = 128,   /* a hold may leave its process */
    CF_LISTS = 256     /* it says which names are in use */
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
    cf_options[], cf_errors[], cf_closing[], cf_async[], cf_keys[], cf_line[], cf_kinds[],
    cf_readers[], cf_upgrade[], cf_permits[], cf_many[], cf_latch[], cf_leader[], cf_listing[],
    cf_counting[], cf_exporting[];

/* The URL of the store under test, and of a second space in the same store. */
const char *cf_url(void);
const char *cf_other_url(void);

/* The same with options behind it ("label=x"); valid until the case ends. */
const char *cf_url_with(cf *f, const char *options);

/* ---- The fixture ----------------------------------------------------------------------------- */

enum {
    CF_WATCHDOG_MS = 15000,  /* whatever must happen has happened by then */
    CF_GRANT_MS = 4000,      /* a grant that is due is made: below the command timeout of 5 s */
    CF_AT_ONCE_MS = 3000,    /* "at once": far below the default lease, far above a slow machine */
    CF_SHORT_LEASE_MS = 300, /* a lease that a case outlives */
    /* One that it keeps, also where a machine is slow or stands still for a moment; and what is longer than either. */
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

/* The case is over, and may have failed: a thread that waits for a word of it waits in vain. */
bool cf_over(void);

/* It is over. Its threads have ended, or do within this time. */
bool cf_threads_end(cf *f, int64_t ms);

/* The store under test has all of these. */
bool cf_has(unsigned needs);

/* CF_LINE: how many clients stand in the line of a lock, as the store has it. */
int cf_in_line(const char *name);

/* Those who wait can all be reached by a message, where the store sends them. */
bool cf_all_listen(const hf_info *info, const char *name);

/* Zeroed memory that is freed when the case has ended and its threads too. */
void *cf_new(cf *f, size_t size);

/* A lock name of this case's own: its name with a suffix. */
const char *cf_name(cf *f, const char *suffix);

/* A further client, closed at the end of the case unless cf_close did it before. */
hf_client *cf_open(cf *f);
hf_client *cf_open_url(cf *f, const char *url, const hf_client_options *options);
void cf_close(cf *f, hf_client *client);

/* A new cancel, the case's to free. */
hf_cancel *cf_cancel(void);

/* ---- Assertions ------------------------------------------------------------------------------ */

/* The call's result, named in the message when it is another. */
#define CF_IS(expected, ...) cf_is((expected), (__VA_ARGS__), #__VA_ARGS__, __FILE__, __LINE__)
void cf_is(hf_result expected, hf_result got, const char *what, const char *file, int line);

/* Acquire, which must succeed; the last argument is the options (or NULL). */
#define CF_TAKE(client, name, ...) cf_take((client), (name), __VA_ARGS__, __FILE__, __LINE__)
hf_hold *cf_take(hf_client *client, const char *name, const hf_options *options, const char *file,
                 int line);

/* Acquire, which must fail just so, with no hold and a detail. */
#define CF_REFUSED(expected, client, name, ...) \
    cf_refused((expected), (client), (name), __VA_ARGS__, __FILE__, __LINE__)
void cf_refused(hf_result expected, hf_client *client, const char *name, const hf_options *options,
                const char *file, int line);

/* Release, which must succeed. */
#define CF_FREE(hold) CF_IS(HF_OK, hf_release(hold))

/* Wait until a condition holds; fail if it does not in time. */
#define CF_UNTIL(condition) T_WAIT_UNTIL(condition, CF_WATCHDOG_MS)

/* What began at `started_ms` did not wait for anything. */
#define CF_AT_ONCE(started_ms) \
    assert_in_range(t_now_ms() - (started_ms), 0, t_patience(CF_AT_ONCE_MS))

/* ---- Looking --------------------------------------------------------------------------------- */

hf_stats cf_stats(hf_client *client);

/* What the store says of a lock; freed with hf_info_free. */
hf_info *cf_inspect(hf_client *client, const char *name);

/* Fields of it, for waiting on what is posted to the store. */
uint32_t cf_count(hf_client *client, const char *name);
uint64_t cf_token(hf_client *client, const char *name);

/* Whether a descriptor polls readable now. */
int cf_readable(int fd);

/* Records what on_lost was told; give cf_on_lost and a cf_lost to the options. */
typedef struct cf_lost {
    atomic_int calls;
    _Atomic uint64_t token; /* of the hold it was told of */
} cf_lost;
void cf_on_lost(hf_hold *hold, void *arg);

/* ---- Threads --------------------------------------------------------------------------------- */

typedef struct cf_thread cf_thread;

/* Run fn(arg) in a thread; cf_join fails the case if it does not end in time. */
cf_thread *cf_spawn(cf *f, void (*fn)(void *), void *arg);
void cf_join(cf_thread *thread);
pthread_t cf_thread_id(const cf_thread *thread);

/* One of a crowd. */
typedef struct cf_visitor {
    void *arg; /* what all of them share */
    hf_client *client;
    int index;
} cf_visitor;

/* Threads of several clients, each of which runs fn(a cf_visitor); returns when all have ended. */
void cf_crowd(cf *f, int clients, int threads, void (*fn)(void *), void *arg);

/* An acquire that runs in a thread, and thereby under an owner, of its own. */
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

/* Start one; cf_queue also waits until it stands in its client's queue. */
cf_attempt *cf_start(cf *f, hf_client *client, const char *name, const hf_options *options);
cf_attempt *cf_queue(cf *f, hf_client *client, const char *name, const hf_options *options);

/* It ended, with this result. cf_granted returns its hold, which the caller then has: nothing is in
   the way of the grant any more, so it comes before any timeout of the library could help. */
#define CF_ENDED(expected, attempt) \
    (cf_join((attempt)->thread),    \
     cf_is((expected), (attempt)->result, (attempt)->detail, __FILE__, __LINE__))
hf_hold *cf_granted(cf_attempt *attempt);

/* Acquire once in a fresh thread and report: the result, and the hold if `hold` is not NULL. */
hf_result cf_elsewhere(cf *f, hf_client *client, const char *name, const hf_options *options,
                       hf_hold **hold);

/* Release in a fresh thread. */
hf_result cf_release_elsewhere(cf *f, hf_hold *hold);

/* ---- Kinds ----------------------------------------------------------------------------------- */

/* Options of a kind: tried once, for a logical owner (0: this thread), or waited for. Permits are one
   of one. */
#define CF_OPTIONS(kind_, ...) \
    (&(hf_options){.kind = (kind_), .capacity = (kind_) == HF_PERMITS, __VA_ARGS__})
#define CF_TRY(kind, owner_) CF_OPTIONS(kind, .owner = (owner_))
#define CF_WAIT(kind)        CF_OPTIONS(kind, .wait_ms = HF_FOREVER)

/* What the store says of a name: how many clients stand in line, how many hold it, how many of its
   permits are taken. */
uint32_t cf_standing(hf_client *client, const char *name);
uint32_t cf_holders(hf_client *client, const char *name);
uint32_t cf_used(hf_client *client, const char *name);

/* So many clients stand in line, and nobody passes them: they can all be reached. */
bool cf_stand(hf_client *client, const char *name, uint32_t count);

/* cf_queue of a client that stood in no line, and until it does. */
cf_attempt *cf_arrive(cf *f, hf_client *client, const char *name, const hf_options *options);

/* It still waits: the only one of its client that does. */
#define CF_STILL_WAITS(attempt) assert_int_equal(cf_stats((attempt)->client).waiting, 1)

/* Whether it is to be had: acquired, and released at once. Anything but HF_OK and HF_BUSY fails. */
bool cf_could(hf_client *client, const char *name, const hf_options *options);

/* Somebody waits whom it must not pass. Readers of one client may share a hold for a moment, so the
   client that reads may let one more in before it knows. */
#define CF_HELD_BACK(client, name, options) CF_UNTIL(!cf_could((client), (name), (options)))

/* ---- Exclusion ------------------------------------------------------------------------------- */

/* A room that only one may be in. Its own accesses race with nobody, so that it can be shared by
   clients and processes that have nothing but the lock in common. */
typedef struct cf_room {
    atomic_int inside;
    atomic_int collisions; /* somebody met another */
    atomic_long visits;    /* read and written apart: a visit is lost if two overlap */
    atomic_int failures;   /* acquires and releases that did not say HF_OK */
} cf_room;

/* Lock, stay a moment, release; `rounds` times. */
void cf_visit(cf_room *room, hf_client *client, const char *name, int rounds);
void cf_room_check(cf_room *room, long visits);

#endif
