/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Callers that acquire and release several names together. It does what hf_acquire_all and
 * hf_release do around the core. The invariants of check.h apply to each name, also while the
 * others are waited for. In addition:
 *
 *  1. When the call returns HF_OK, each name is held by its own deadline. With any other result
 *     it leaves no handle. Invariant 4 of check.h finds what is left in the server.
 *  2. A cancelled call ends at once.
 *  3. The script that acquires all names in one step acquires all or none of them.
 *
 * Names are acquired in the order in which src/client/acquire_all.c sorts them. So every waiter is
 * served in the end.
 */
#ifndef SIM_WORLD_MANY_H
#define SIM_WORLD_MANY_H

#include "world/world.h"

struct sim_caller;
struct sim_hold;

/* Starts to acquire two or three names. */
void sim_many_acquire(struct sim_caller *caller, hf__time now);

/* Releases all names that were acquired together with this hold and that no other call uses. */
void sim_many_release(struct sim_caller *caller, struct sim_hold *hold, hf__time now);

/* Continue either call; return true if the core was touched. */
bool sim_many_acquiring(struct sim_caller *caller, hf__time now);
bool sim_many_releasing(struct sim_caller *caller, hf__time now);
hf__time sim_many_taken_by(const struct sim_caller *caller);
void sim_many_discard(struct sim_caller *caller);

/* Runs after every script, before the other checks update their view of the server. */
void sim_many_ran(sim_world *w, const rm_ran *ran);

#endif
