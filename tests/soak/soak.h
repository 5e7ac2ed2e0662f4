/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data that the processes of a soak share: see soak.c for an overview.
 *
 * Three stores are used at once. KEPT is a Redis that loses no data, so two may never be inside at
 * once, whatever fault hits it. WIPED is a Redis that is flushed and restarted without its data, so
 * losses must be reported. FILE is a directory whose processes are killed.
 */
#ifndef HF_SOAK_H
#define HF_SOAK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "ledger.h"
#include "t_fail.h"

enum { SOAK_PROCESSES = 20, SOAK_MORTAL = 6, SOAK_CLIENTS = 12, SOAK_THREADS = 16 };
enum { SOAK_URL_ROOM = 512, SOAK_NOTES = 40, SOAK_NOTE_ROOM = 240, SOAK_GATES = 2 };

/* Leases are short, so that many end during a run. */
#define SOAK_LEASE_MS INT64_C(5000)

/* No wait, with all its attempts, may take longer: it is many times the cost of the worst fault. */
#define SOAK_WAIT_MAX_MS INT64_C(60000)

enum { SOAK_KEPT, SOAK_WIPED, SOAK_FILE, SOAK_STORES };

/* Families of names, and how many of each a store has. */
enum { SOAK_MUTEX, SOAK_SHARED, SOAK_PERMIT, SOAK_MANY, SOAK_LEAD, SOAK_LONE, SOAK_FAMILIES };
enum { SOAK_CAPACITY = 5, SOAK_NAME_ROOM = 32, SOAK_WAIT_ROOM = SOAK_NAME_ROOM + 8 };

/* A bug that the run plants, to show that the checks find it. */
enum {
    SOAK_PLANT_NOTHING,
    SOAK_PLANT_LEAK,
    SOAK_PLANT_DESCRIPTOR,
    SOAK_PLANT_GATHER,
    SOAK_PLANT_DOUBLE
};

enum { SOAK_BUCKETS = 20 };

typedef struct soak_counts {
    atomic_llong visits, entered, reentered, upgraded, led, latched;
    atomic_llong busy, away, lost, lost_calls, reopened, changes;
    atomic_llong longest_ms;
    atomic_llong waits[SOAK_BUCKETS]; /* up to 2^i ms */
} soak_counts;

/* A latch and its rounds, as seen by its only counting thread. */
typedef struct soak_gate {
    atomic_llong set;    /* rounds that were set and confirmed */
    atomic_llong ending; /* the last round whose last count-down was sent */
} soak_gate;

typedef struct soak_process {
    atomic_llong heap;    /* bytes in use as malloc counts them, above the baseline */
    atomic_llong beat_ms; /* time of the last report */
    atomic_bool closed;   /* it has closed all of its clients, and these are its leftovers: */
    atomic_llong heap_left, fds_left;
} soak_process;

typedef struct soak {
    soak_ledger ledger;
    soak_counts counts;
    soak_gate gates[SOAK_GATES];
    soak_process processes[SOAK_PROCESSES];
    atomic_llong waiting_since_ms[SOAK_PROCESSES * SOAK_THREADS]; /* 0: it does not wait */
    char waiting_for[SOAK_PROCESSES * SOAK_THREADS][SOAK_WAIT_ROOM], longest_for[SOAK_WAIT_ROOM];
    atomic_uint wipes[SOAK_STORES]; /* odd while a wipe happens */
    atomic_bool stopping;
    int plant;
    unsigned seed;
    char urls[SOAK_STORES][SOAK_URL_ROOM];
    atomic_int violations;
    char notes[SOAK_NOTES][SOAK_NOTE_ROOM];
} soak;

/* A violation: counted, and the first ones kept for printing. */
T_PRINTF(2, 3) void soak_violated(soak *s, const char *format, ...);

/* A name's index in the ledger, and its text in SOAK_NAME_ROOM bytes. */
int soak_name(int store, int family, int number, char *text);
int soak_names_of(int family);

#endif
