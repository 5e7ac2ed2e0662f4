/* One thread of a soak, and what it does again and again: a visit. */
#ifndef HF_SOAK_MATE_H
#define HF_SOAK_MATE_H

#include "holdfast.h"
#include "soak.h"

typedef struct mate {
    soak *s;
    hf_client *client; /* its own, or one that two share */
    int store, slot, process, index;
    unsigned chance;
    atomic_int told;           /* how often on_lost has been called in this visit */
    struct gathered *gathered; /* what a planted bug keeps until the end */
} mate;

/* Chance, by the run's seed: 0 to below - 1. */
int mate_chance(mate *m, int below);

/* One visit of some kind, with all that is checked about it. */
void mate_visit(mate *m);

/* A round of the latch that this one counts down, and waiting for one. */
void mate_count_round(mate *m, int gate);
void mate_await_round(mate *m, int gate);

/* Whether a result says no more than that the store was away. */
bool mate_is_away(mate *m, hf_result result);

/* A wait begins, and is over; it goes on over attempts that fail. */
void mate_waits(mate *m, const char *name);
void mate_served(mate *m);

/* See stay.c. */
enum { STAY_NAMES = LEDGER_RECORDS };

typedef struct stay {
    hf_hold *hold;
    int count; /* of the names */
    ledger_stay at[STAY_NAMES];
    unsigned wipes_granted; /* of the store, when it was granted */
    int64_t wiped_ms;       /* when a wipe was first seen, 0: not yet */
} stay;

/* Options of a visit that waits, with on_lost of this mate. */
hf_options stay_options(mate *m, uint32_t kind);

/* Ask again until it is granted; false: it was not to be had within wait_ms. */
bool stay_acquire(mate *m, stay *st, const char *const *names, const hf_options *options);

/* Inside for so long, or until it is lost; what must not be is noticed. */
void stay_inside(mate *m, stay *st, int64_t ms);

/* It has become another kind, with another token. */
void stay_becomes(mate *m, stay *st, uint32_t kind);

void stay_release(mate *m, stay *st);

/* What a planted bug has gathered is given back: only its growth can be seen. */
void stay_forget(mate *m);

#endif
