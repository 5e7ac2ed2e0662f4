/*
 * Names that are locks of other kinds than the mutex: SIM_SHARES, for readers, writers, those who may upgrade
 * and now and then a mutex; SIM_PERMITS. What check.h and line.h say goes for them, too; here it is looked at
 * for several who hold at once:
 *
 *  1. Who holds by its own deadline, holds by the server, and no less than it thinks.
 *  2. By their own deadlines no reader and writer meet, no two may upgrade, permits are not above capacity.
 *  3. What the server keeps of several agrees with itself; and no holder outlasts the key.
 *  4. Nobody enters past one in line who listens and could be waited for; who can be let in beside those
 *     who are left when a script ends a hold or a place, is.
 *  5. Whom the server has as holder or in line, its client knows of.
 */
#ifndef SIM_WORLD_KINDS_H
#define SIM_WORLD_KINDS_H

#include "world/world.h"

struct sim_client;
struct sim_caller;

static inline bool sim_kinds_name(const sim_world *w, int name) {
    return w->plan.sorts[name] != SIM_MUTEXES;
}

/* After a script; and when keys may have changed otherwise. */
void sim_kinds_ran(sim_world *w, const rm_ran *ran, int name, bool late, bool kept);
void sim_kinds_reread(sim_world *w, int name);

/* After an event. */
void sim_kinds_look(sim_world *w, int name);
void sim_kinds_claim(sim_world *w, const sim_claim *claim, bool looked);
bool sim_kinds_agree(const sim_claim *a, const sim_claim *b);

/* The server has it, for this number of a client or at all. */
bool sim_kinds_has(sim_world *w, const struct sim_client *client, int name, uint64_t number);
bool sim_kinds_held(sim_world *w, int name);

/* Calls that ended. */
void sim_kinds_entered(sim_world *w, sim_claim *claim);
void sim_kinds_joined(sim_world *w, const struct sim_caller *caller);
void sim_kinds_upgraded(sim_world *w, const struct sim_caller *caller);
void sim_kinds_downgraded(sim_world *w, const struct sim_caller *caller);

/* Holders that a break has ended: their claims hold nothing. */
void sim_kinds_broken(sim_world *w, int name);

#endif
