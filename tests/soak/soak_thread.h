/* SPDX-License-Identifier: Apache-2.0 */
/* One thread of a soak. It makes one visit after another. */
#ifndef HF_SOAK_THREAD_H
#define HF_SOAK_THREAD_H

#include "holdfast.h"
#include "soak.h"

typedef struct soak_thread {
    soak *s;
    hf_client *client; /* its own, or shared by two threads */
    int store, slot, process, index;
    unsigned chance;
    atomic_int lost_calls;     /* calls of on_lost during this visit */
    struct gathered *gathered; /* memory that a planted bug keeps until the end */
} soak_thread;

/* A random number from the run's seed: 0 to below - 1. */
int thread_chance(soak_thread *m, int below);

/* One visit of a random kind, with all its checks. */
void thread_visit(soak_thread *m);

/* Count down one round of a latch, and wait for one. */
void thread_count_round(soak_thread *m, int gate);
void thread_await_round(soak_thread *m, int gate);

/* Whether a result only means that the store was away. */
bool thread_is_away(soak_thread *m, hf_result result);

/* A wait begins, and ends; it continues over attempts that fail. */
void thread_waits(soak_thread *m, const char *name);
void mate_served(soak_thread *m);

/* See stay.c. */
enum { STAY_NAMES = LEDGER_RECORDS };

typedef struct stay {
    hf_hold *hold;
    int count; /* number of names */
    ledger_stay at[STAY_NAMES];
    unsigned wipes_granted; /* of the store, at the time of the grant */
    int64_t wiped_ms;       /* when a wipe was first seen, 0: not yet */
} stay;

/* Options of a visit that waits, with this thread's on_lost. */
hf_options stay_options(soak_thread *m, uint32_t kind);

/* Try until it is granted; false: it was not granted within wait_ms. */
bool stay_acquire(soak_thread *m, stay *st, const char *const *names, const hf_options *options);

/* Stay inside for `ms`, or until the lock is lost; reports violations. */
void stay_inside(soak_thread *m, stay *st, int64_t ms);

/* The hold has changed to another kind, with another token. */
void stay_becomes(soak_thread *m, stay *st, uint32_t kind);

void stay_release(soak_thread *m, stay *st);

/* Free what a planted bug has collected: only its growth can be seen. */
void stay_forget(soak_thread *m);

#endif
