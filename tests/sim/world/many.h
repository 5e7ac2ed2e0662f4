/*
 * Callers that take several names together, and let go of them together: what hf_acquire_all and hf_release do around
 * the core is done here. What check.h says goes for each of the names, also while the others are waited for. Besides:
 *
 *  1. When the call says HF_OK, each of them is held by its own deadline. When it says anything else, nothing of it
 *     has a handle; that nothing stays in the server is seen there: whom it has as holder, its client knows of.
 *  2. A call that is given up is over at once.
 *  3. The script that takes all in one step takes all or none of them.
 *
 * Names are asked for in the order in which src/client/acquire_all.c sorts them; so all that wait are served in the end.
 */
#ifndef SIM_WORLD_MANY_H
#define SIM_WORLD_MANY_H

#include "world/world.h"

struct sim_caller;
struct sim_hold;

/* Begin to take two or three names. */
void sim_many_take(struct sim_caller *caller, hf__time now);

/* Let go of all that was taken together with this hold, and is at hand. */
void sim_many_let_go(struct sim_caller *caller, struct sim_hold *hold, hf__time now);

/* Go on with either; true if the core was touched. */
bool sim_many_taking(struct sim_caller *caller, hf__time now);
bool sim_many_letting_go(struct sim_caller *caller, hf__time now);
hf__time sim_many_taken_by(const struct sim_caller *caller);
void sim_many_discard(struct sim_caller *caller);

/* A script has run, whichever it was: what was in the server before is not looked at again yet. */
void sim_many_ran(sim_world *w, const rm_ran *ran);

#endif
