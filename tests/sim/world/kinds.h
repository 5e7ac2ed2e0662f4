/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of names with locks other than the mutex. SIM_SHARES names have readers, writers,
 * upgradable readers and a few mutexes; SIM_PERMITS names have permits. The invariants of check.h
 * and queue.h apply. Here they are checked for several holders at once:
 *
 *  1. A client that holds by its own deadline also holds by the server's record, with at least
 *     the kind and weight it assumes.
 *  2. By their own deadlines, no reader meets a writer, no two holders are upgradable, and permits
 *     never exceed the capacity.
 *  3. The server's record of several holders is consistent. No holder outlasts the key.
 *  4. No client enters before an earlier waiter that listens and whose wait is not futile. When a
 *     script ends a hold or a wait, every waiter that now fits is granted.
 *  5. A client knows every hold and wait that the server has it down for.
 */
#ifndef SIM_WORLD_KINDS_H
#define SIM_WORLD_KINDS_H

#include "world/world.h"

struct sim_client;
struct sim_caller;

static inline bool sim_kinds_name(const sim_world *w, int name) {
    return w->plan.sorts[name] != SIM_MUTEXES;
}

/* Run after a script, and when keys may have changed in another way. */
void sim_kinds_ran(sim_world *w, const rm_ran *ran, int name, bool late, bool kept);
void sim_kinds_reread(sim_world *w, int name);

/* Runs after an event. */
void sim_kinds_look(sim_world *w, int name);
void sim_kinds_claim(sim_world *w, const sim_claim *claim, bool looked);
bool sim_kinds_agree(const sim_claim *a, const sim_claim *b);

/* The first returns true if the server has the lock for this acquire id of a client, the second
   if it has it for anybody. */
bool sim_kinds_has(sim_world *w, const struct sim_client *client, int name, uint64_t acquire_id);
bool sim_kinds_held(sim_world *w, int name);

/* Run when a call has ended. */
void sim_kinds_entered(sim_world *w, sim_claim *claim);
void sim_kinds_joined(sim_world *w, const struct sim_caller *caller);
void sim_kinds_upgraded(sim_world *w, const struct sim_caller *caller);
void sim_kinds_downgraded(sim_world *w, const struct sim_caller *caller);

/* Marks the claims of holders that a break has ended: they protect nothing. */
void sim_kinds_broken(sim_world *w, int name);

#endif
