/*
 * What the processes of a soak share: see soak.c for the whole.
 *
 * Three stores are used at once. KEPT is a Redis that loses nothing, so that nobody may ever be inside
 * with another, whatever is done to it; WIPED is one that is flushed and that comes back without its
 * data, so that losses must be told; FILE is a directory, of which processes die.
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

/* Leases are short, so that what ends with one does so many times. */
#define SOAK_LEASE_MS INT64_C(5000)

/* No wait, with all its attempts, may take longer: it is many times what the worst fault costs. */
#define SOAK_WAIT_MAX_MS INT64_C(60000)

enum { SOAK_KEPT, SOAK_WIPED, SOAK_FILE, SOAK_STORES };

/* Families of names; how many of each a store has. */
enum { SOAK_MUTEX, SOAK_ROOM, SOAK_PERMIT, SOAK_MANY, SOAK_LEAD, SOAK_LONE, SOAK_FAMILIES };
enum { SOAK_CAPACITY = 5, SOAK_NAME_ROOM = 32, SOAK_WAIT_ROOM = SOAK_NAME_ROOM + 8 };

/* What a run is to do wrong, to see that it is found out. */
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
    atomic_llong busy, away, lost, told, reopened, changes;
    atomic_llong longest_ms;
    atomic_llong waits[SOAK_BUCKETS]; /* up to 2^i ms */
} soak_counts;

/* A latch and its rounds, as its only counter has them. */
typedef struct soak_gate {
    atomic_llong set;    /* rounds that were set and confirmed */
    atomic_llong ending; /* the last round of which the last count-down was begun */
} soak_gate;

typedef struct soak_process {
    atomic_llong heap;    /* bytes in use, as malloc has it, beyond those it began with */
    atomic_llong beat_ms; /* when it said so */
    atomic_bool
        closed; /* it has closed all of its clients, and this is what it has more than before: */
    atomic_llong heap_left, fds_left;
} soak_process;

typedef struct soak {
    ledger ledger;
    soak_counts counts;
    soak_gate gates[SOAK_GATES];
    soak_process processes[SOAK_PROCESSES];
    atomic_llong waiting_since_ms[SOAK_PROCESSES * SOAK_THREADS]; /* 0: it does not wait */
    char waiting_for[SOAK_PROCESSES * SOAK_THREADS][SOAK_WAIT_ROOM], longest_for[SOAK_WAIT_ROOM];
    atomic_uint wipes[SOAK_STORES]; /* odd while it happens */
    atomic_bool stopping;
    int plant;
    unsigned seed;
    char urls[SOAK_STORES][SOAK_URL_ROOM];
    atomic_int violations;
    char notes[SOAK_NOTES][SOAK_NOTE_ROOM];
} soak;

/* What must not be: counted, and the first of them kept to be printed. */
T_PRINTF(2, 3) void soak_violated(soak *s, const char *format, ...);

/* A name's place in the ledger, and its text, of SOAK_NAME_ROOM bytes. */
int soak_name(int store, int family, int number, char *text);
int soak_names_of(int family);

#endif
