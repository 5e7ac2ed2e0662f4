/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A client process: a core over a simulated store, with its callers and its faults.
 *
 *   RUNNING --hf_close--> CLOSING --all calls have ended--> GONE --later--> RUNNING, another
 *      +------crash-----------------------------------------^
 *
 * It runs when it is woken: when bytes have arrived, or when something is due by its own clock. A
 * paused client is woken at the end of its pause, and then finds everything that arrived meanwhile.
 */
#ifndef SIM_WORLD_CLIENT_H
#define SIM_WORLD_CLIENT_H

#include "core/core_internal.h"
#include "world/caller.h"
#include "world/clock.h"
#include "world/store.h"
#include "world/world.h"

typedef enum sim_life { SIM_RUNNING, SIM_CLOSING, SIM_GONE } sim_life;

/* A handle, as a user has it. */
typedef struct sim_hold {
    hf__handle *hold; /* NULL: the slot is free */
    int name, caller;
    int group; /* handles of one multi-acquire share a group; 0: acquired alone */
    bool busy; /* a call with it is in progress */
} sim_hold;

typedef struct sim_client {
    sim_world *world;
    int slot, number; /* its slot, and its serial number among all clients of the run */
    sim_life life;
    sim_clock clock;
    hf__time paused_until; /* true time */
    hf__time ran_at;       /* when it last ran */
    hf__time turns_at;
    sim_event event;

    hf__url url;
    hf__identity who;
    hf__log log;
    sim_store store;
    hf__core core;
    bool was_up;            /* hf_open has returned */
    hf__time listens_since; /* true time since both connections are up; HF__NEVER: they are not */
    hf__time up_since;      /* on its own clock: connected and not paused since then */
    sim_caller callers[SIM_CALLERS];
    int caller_count;
    sim_hold holds[SIM_HOLDS];

    hf__call closer;
    hf__time close_until;
    bool shut, unhindered;
} sim_client;

sim_client *sim_client_new(sim_world *w, int slot, int callers);
void sim_client_free(sim_client *c); /* it must be GONE */

/* Returns the time on its own clock. */
hf__time sim_client_now(const sim_client *c);
void sim_client_wake(sim_client *c);

void sim_client_pause(sim_client *c, hf__time span);
void sim_client_crash(sim_client *c);
void sim_client_close(sim_client *c);

/* Returns true if no caller waits, holds or calls. */
bool sim_client_idle(const sim_client *c);

hf__entry *sim_client_entry(const sim_client *c, int name);
hf__entry *sim_client_side(const sim_client *c, int name, uint64_t acquire_id);

/* Makes the client's id in the store, "<slot>-…", which keeps traces readable. */
void sim_client_uuid(char out[HF__UUID_LENGTH + 1], int slot, int number);

#endif
