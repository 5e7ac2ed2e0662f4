/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread of a client that calls the library: one call at a time, with pauses in between. It does
 * what hf_acquire, hf_release, hf_extend, hf_upgrade, hf_downgrade, hf_break and hf_inspect do
 * around the core.
 */
#ifndef SIM_WORLD_CALLER_H
#define SIM_WORLD_CALLER_H

#include "core/core_internal.h"
#include "world/sizes.h"

struct sim_client;
struct sim_hold;

typedef enum sim_doing {
    SIM_IDLE,
    SIM_ACQUIRING,
    SIM_RELEASING,
    SIM_EXTENDING,
    SIM_UPGRADING,
    SIM_DOWNGRADING,
    SIM_LOOKING,
    SIM_MULTI_ACQUIRING, /* several names: see many.c */
    SIM_MULTI_RELEASING  /* several names: see many.c */
} sim_doing;

typedef struct sim_caller {
    struct sim_client *client;
    int index;
    sim_doing doing;
    int name;
    hf__time next;             /* idle: when to act next */
    hf__time until, cancel_at; /* for the call in progress */
    hf__time began;
    uint64_t arrived; /* order of arrival among waiting callers */
    hf__wait wait;
    uint64_t last_acquire_id; /* its acquire id, as last seen */
    hf__call call;
    hf__op op;
    bool op_done;
    hf__lock_info sight;
    struct sim_hold *hold;
    uint64_t released_id; /* acquire id of the hold in its final release; 0: entered more often */
    int64_t lease_ms;

    /* Several names: see many.c. */
    struct hf__multi_acquire *all;
    int names[SIM_NAMES];
    const hf__ownership *entered[SIM_NAMES];
    struct hf__multi_release *multi_release;
    struct sim_hold *gone[SIM_NAMES];
    hf__handle *handles[SIM_NAMES];
    uint64_t released_ids[SIM_NAMES];
} sim_caller;

void sim_caller_init(sim_caller *caller, struct sim_client *client, int index);

/* The process is gone: free the memory of the call in progress. */
void sim_caller_discard(sim_caller *caller);

/* Does what is due by the client's clock. Returns true if the core was touched. */
bool sim_caller_step(sim_caller *caller, hf__time now);
hf__time sim_caller_due(const sim_caller *caller);

/* Handles a completed operation that a caller had submitted. Returns false if it belongs to an
   entry. */
bool sim_caller_completed(struct sim_client *client, hf__op *op);

/* Releases a hold that a closed client still has. */
void sim_caller_release_closed(struct sim_client *client, struct sim_hold *hold, hf__time now);

/* For many.c: draw a wait, draw the kind of t->wait, end a call, find a free handle. */
int64_t sim_caller_draw_wait(sim_caller *caller);
void sim_caller_draw_kind(sim_caller *caller);
void sim_caller_think(sim_caller *caller, hf__time now);
struct sim_hold *sim_caller_free_hold(struct sim_client *client);
void sim_caller_drop_hold(struct sim_hold *hold);

/* Waits for a name until it is granted, starting now. For the newcomer at the end of a run. */
void sim_caller_want(sim_caller *caller, int name, hf__time now);

#endif
