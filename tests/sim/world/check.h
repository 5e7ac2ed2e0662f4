/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The invariants, checked after every event.
 *
 *  1. At most one client holds a name, each judged by its own deadline on its own clock.
 *  2. A client that holds by its own deadline also holds by the server's record. So a violation
 *     of 1 is found before there is a second holder.
 *  3. Tokens of a name grow: from grant to grant in the server, and from entry to entry.
 *  4. A client knows every lock that the server has it down for: as a hold, a wait, or a pending
 *     release.
 *  5. Every key expires. A lock's key expires no later than the longest lease.
 *  6. A release that reports success has released. A mutex was granted to nobody else before.
 *     An extension that reports success lasts.
 *  7. A loss is reported once, never after a release, and at once when the server denies the hold.
 *  8. A client that was told that another one holds the lock does not enter on an older grant.
 *  9. Callers of one client are served in order of arrival. So are clients, if the store keeps a
 *     queue and there are no faults (order.c).
 * 10. The queue in the store is correct (queue.c).
 *
 * At the end of a run (world.c): all waits end once the faults have ended, every lock can be
 * acquired again, and nothing is left in the clients' memory or in the store.
 *
 * Violations that docs/GUARANTEES.md excludes are excused. These are ownerships that existed when
 * data was lost or their lock was broken, and ownerships whose lease was shortened by a step of the
 * server's clock.
 */
#ifndef SIM_WORLD_CHECK_H
#define SIM_WORLD_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/time.h"
#include "model/model.h"
#include "world/event.h"
#include "world/sizes.h"

struct sim_client;
struct sim_caller;
struct hf__ownership;

enum { SIM_BROKEN = 16, SIM_TAKEN = 32 };

/* An ownership that a caller has entered. */
typedef struct sim_claim {
    struct sim_claim *next;
    struct sim_client *client;
    struct hf__ownership *own; /* holds a reference */
    int name;
    uint32_t weight, capacity; /* permits only */
    hf__time requested_at;     /* true time; the grant is not older */
    hf__time deadline;         /* on the client's clock, as last seen */
    hf__time basis;            /* true time; the request behind the deadline is not older */
    bool empty;                /* broken, or its data was lost: it protects nothing any more */
    bool loss_reported;
    bool upgraded;      /* it excluded others under its last token, and may continue to */
    uint64_t denied_on; /* the link on which the server denied the hold; 0: no denial */
} sim_claim;

/* The holder of a lock in the server's data. */
typedef struct sim_seen {
    bool held;
    int slot, number; /* which client */
    uint64_t acquire_id, token;
    int64_t expires_ms;
} sim_seen;

/* The last busy answer that a client got for a name. */
typedef struct sim_busy_answer {
    int number; /* which client */
    uint64_t acquire_id, link;
    uint64_t token; /* token of the last grant at that time */
} sim_busy_answer;

/* A waiter in the store's queue. */
typedef struct sim_waiter {
    int slot, number; /* which client */
    uint64_t acquire_id;
    bool side; /* queued for this acquire id alone; never for a mutex */
    char kind; /* the kind wanted, as in holders.lua; `m` for a mutex */
    uint32_t weight, capacity;
    bool stray;                /* queued by a delayed request that its client cannot know of */
    int64_t seen_us, since_us; /* last and first acquire, by the server's clock */
} sim_waiter;

enum { SIM_QUEUE = 256, SIM_HOLDERS = 128 };

typedef struct sim_queue {
    size_t count;
    sim_waiter at[SIM_QUEUE];
    bool fence_says, lock_says; /* set if fence or lock record that there may be a queue */
} sim_queue;

/* A holder of a lock that is not a mutex, in the server's data. */
typedef struct sim_holder {
    int slot, number; /* which client */
    uint64_t acquire_id, token;
    uint64_t before; /* the token before its upgrade; 0: not upgraded */
    bool side;
    char kind; /* the kind held: `r`, `u`, `p`; exclusive: `m`, `w`, `g` */
    uint32_t weight;
    int64_t ends_us, count;
    bool stray, miscounted; /* as in sim_name */
    hf__time since;         /* when it got this kind */
} sim_holder;

typedef struct sim_holding {
    size_t count; /* without expired holders */
    uint32_t capacity;
    sim_holder at[SIM_HOLDERS];
} sim_holding;

typedef struct sim_name {
    sim_seen seen;
    hf__time since; /* when it got this holder */
    sim_busy_answer busy_answers[SIM_SLOTS],
        refused[SIM_SLOTS];    /* `refused`: by an unavailable store */
    uint64_t granted, entered; /* the last tokens */
    uint64_t excluded;         /* kinds only: the last token that was entered to exclude others */
    bool stray;                /* held by a delayed request that its client cannot know of */
    sim_seen stray_acquire; /* a delayed acquire that is queued in the same way; not `held`: none */
    bool miscounted;        /* a delayed renewal may have restored an old count */
    bool exposed;           /* broken or lost: an old acquire may get the lock */
    hf__time lost_at;       /* when its data was lost; 0: never */
    uint64_t broken[SIM_BROKEN];
    unsigned broken_count;
    sim_seen gone; /* the last holder, if it ended without its own release; else not `held` */
    sim_seen taken[SIM_TAKEN]; /* such holders, if another client was granted the lock after them */
    unsigned taken_count;
} sim_name;

typedef struct sim_counts {
    long entered, reentered, lost, refused, scripts, late_scripts, excused;
} sim_counts;

/* Whether a client waits in the store's queue, and how often each other client passed it since. */
typedef struct sim_passed {
    bool queued;
    int passed[SIM_SLOTS];
} sim_passed;

typedef struct sim_checks {
    sim_passed passed[SIM_SLOTS][SIM_NAMES];
    sim_claim *claims;
    sim_name names[SIM_NAMES];
    sim_queue queues[SIM_NAMES];     /* after the last script */
    sim_holding holdings[SIM_NAMES]; /* names with kinds; after the last script */
    bool stale;                      /* the server may have changed since `seen` */
    bool stepped;                    /* the server's clock was stepped at least once */
    bool set_back, data_lost;
    hf__time step_at;    /* the last forward step larger than the margin */
    int64_t small_steps; /* µs of smaller forward steps since then */
    uint64_t arrivals;
    sim_counts counts;
} sim_checks;

void sim_checks_init(sim_world *w);
void sim_checks_fini(sim_world *w);

/* Runs after every event. */
void sim_checks_look(sim_world *w);

/* ---- Reports of what happened ---- */

void sim_checks_ran(void *world, const rm_ran *ran);
void sim_checks_data_lost(sim_world *w, int name); /* SIM_ANY: all names */
void sim_checks_stepped(sim_world *w, int64_t by_us);
uint64_t sim_checks_arrival(sim_world *w);
void sim_checks_entered(sim_world *w, const struct sim_caller *caller);
void sim_checks_refused(sim_world *w, const struct sim_caller *caller);
void sim_checks_released(sim_world *w, const struct sim_caller *caller);
void sim_checks_extended(sim_world *w, const struct sim_caller *caller);
void sim_checks_lost(sim_world *w, const struct sim_client *client,
                     const struct hf__ownership *ownership);
/* The first returns true if the claim may fail checks; the second if it is valid by its own
   deadline. */
bool sim_checks_excused(const sim_world *w, const sim_claim *claim);
bool sim_checks_good(const sim_claim *claim);
void sim_checks_note_broken(sim_world *w, int name, uint64_t token);
void sim_checks_client_gone(sim_world *w, const struct sim_client *client);

/* Returns true if the client knows that this acquire of a mutex may be held or queued. */
bool sim_check_known(const struct sim_client *c, int name, uint64_t acquire_id);

#endif
