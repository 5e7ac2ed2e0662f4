/*
 * What must hold, looked at after every event.
 *
 *  1. Never two hold a name, each by its own deadline on its own clock.
 *  2. Who holds by its own deadline, holds by the server: so 1 is found before there is a second.
 *  3. Tokens of a name grow, from grant to grant in the server, and from entry to entry.
 *  4. Whom the server has as holder, its client knows of: as a hold, a wait, or one to be released.
 *  5. Every key has an end, and a lock's is no further off than the longest lease.
 *  6. A release that says so has released, and of a mutex nobody else was granted it before; an
 *     extension that says so lasts.
 *  7. Losses are told once, and never of what was released; and at once when the server denies it.
 *  8. Who was told that another has it does not enter on an older grant.
 *  9. Callers of one client are served in order of arrival; so are clients, where the store keeps a
 *     line and nothing goes wrong (order.c).
 * 10. The line in the store is as it should be (line.c).
 *
 * And at the end (world.c): all waits end once faults have, every lock can be taken again, and nothing
 * is left in the clients' memory and in the store.
 *
 * Excused is what docs/GUARANTEES.md excludes: an ownership that was there when data was lost or its
 * lock was broken, and one whose lease a step of the server's clock has shortened.
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

/* An ownership that somebody has entered. */
typedef struct sim_claim {
    struct sim_claim *next;
    struct sim_client *client;
    struct hf__ownership *own; /* with a reference */
    int name;
    uint32_t weight, capacity; /* of permits */
    hf__time asked_at;         /* true time before which it was not granted */
    hf__time deadline;         /* on the client's clock, as last seen */
    hf__time basis;            /* true time before which what it stands on was not asked for */
    bool empty;                /* broken, or its data lost: it holds nothing any more */
    bool told;
    bool upgraded;      /* it excluded others under its last token: it may go on to */
    uint64_t denied_on; /* the link on which the server said that it is not held; 0: it did not */
} sim_claim;

/* A lock, as the server has it. */
typedef struct sim_seen {
    bool held;
    int slot, number; /* of the client */
    uint64_t ask, token;
    int64_t expires_ms;
} sim_seen;

/* That another has a lock, as a client was told last. */
typedef struct sim_told {
    int number; /* of the client */
    uint64_t ask, link;
    uint64_t token; /* of the last grant then */
} sim_told;

/* The line of a lock, the first first. */
typedef struct sim_standing {
    int slot, number; /* of the client */
    uint64_t ask;
    bool lane; /* for this number alone: not for a mutex */
    char kind; /* of what is wanted: see holders.lua; `m` for a mutex */
    uint32_t weight, capacity;
    bool stray;                /* came late, in a way that its client cannot know of */
    int64_t seen_us, since_us; /* when it last asked, and first, by the server's clock */
} sim_standing;

enum { SIM_QUEUE = 256, SIM_HOLDERS = 128 };

typedef struct sim_queue {
    size_t count;
    sim_standing at[SIM_QUEUE];
    bool fence_says, lock_says; /* that there may be one */
} sim_queue;

/* One that holds a lock of another kind, by the server. */
typedef struct sim_holder {
    int slot, number; /* of the client */
    uint64_t ask, token;
    uint64_t before; /* the token it had before it was upgraded; 0: it was not */
    bool lane;
    char kind; /* of what it has: `r`, `u`, `p`; alone `m`, `w`, `g` */
    uint32_t weight;
    int64_t ends_us, count;
    bool stray, miscounted; /* as of a name */
    hf__time since;         /* that it has this */
} sim_holder;

typedef struct sim_holding {
    size_t count; /* those whose time is over are not counted */
    uint32_t capacity;
    sim_holder at[SIM_HOLDERS];
} sim_holding;

typedef struct sim_name {
    sim_seen seen;
    hf__time since;                               /* that it has this holder */
    sim_told told[SIM_SLOTS], refused[SIM_SLOTS]; /* by a store that is away */
    uint64_t granted, entered;                    /* the last tokens */
    uint64_t excluded; /* kinds: the last that was entered to exclude others */
    bool stray;        /* held through what came late, in a way that its client cannot know of */
    sim_seen stood;   /* what so came late, and stands in line: whose ask it is; not `held`: none */
    bool miscounted;  /* a late renewal may have put an old count back */
    bool exposed;     /* was broken or lost: an old ask may take it */
    hf__time lost_at; /* when its data was lost; 0: never */
    uint64_t broken[SIM_BROKEN];
    unsigned broken_count;
    sim_seen gone; /* the last holder, which ended without its own release; not `held`: none such */
    sim_seen taken[SIM_TAKEN]; /* such holders, after whom another was granted it */
    unsigned taken_count;
} sim_name;

typedef struct sim_counts {
    long entered, reentered, lost, refused, scripts, late_scripts, excused;
} sim_counts;

/* A client that stands in the store's line: who has passed it since, how often. */
typedef struct sim_stand {
    bool stands;
    int passed[SIM_SLOTS];
} sim_stand;

typedef struct sim_checks {
    sim_stand stands[SIM_SLOTS][SIM_NAMES];
    sim_claim *claims;
    sim_name names[SIM_NAMES];
    sim_queue queues[SIM_NAMES];     /* after the last script */
    sim_holding holdings[SIM_NAMES]; /* of names with kinds, the same */
    bool stale;                      /* the server may have changed since `seen` */
    bool stepped;                    /* its clock was, at all */
    bool set_back, data_lost;
    hf__time step_at;    /* the last step forward, beyond the margin */
    int64_t small_steps; /* µs forward since, within it */
    uint64_t arrivals;
    sim_counts counts;
} sim_checks;

void sim_checks_init(sim_world *w);
void sim_checks_fini(sim_world *w);

/* After every event. */
void sim_checks_look(sim_world *w);

/* ---- What happened ---- */

void sim_checks_ran(void *world, const rm_ran *ran);
void sim_checks_data_lost(sim_world *w, int name); /* SIM_ANY: of all */
void sim_checks_stepped(sim_world *w, int64_t by_us);
uint64_t sim_checks_arrival(sim_world *w);
void sim_checks_entered(sim_world *w, const struct sim_caller *caller);
void sim_checks_refused(sim_world *w, const struct sim_caller *caller);
void sim_checks_released(sim_world *w, const struct sim_caller *caller);
void sim_checks_extended(sim_world *w, const struct sim_caller *caller);
void sim_checks_lost(sim_world *w, const struct sim_client *client,
                     const struct hf__ownership *ownership);
/* Excused from holding by the server; held by its own deadline. */
bool sim_checks_excused(const sim_world *w, const sim_claim *claim);
bool sim_checks_good(const sim_claim *claim);
void sim_checks_note_broken(sim_world *w, int name, uint64_t token);
void sim_checks_client_gone(sim_world *w, const struct sim_client *client);

/* Somebody of the client knows that this number of a mutex may be held, or stand in line. */
bool sim_check_known(const struct sim_client *c, int name, uint64_t ask);

#endif
