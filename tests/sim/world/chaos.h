/* What goes wrong, and when: drawn from the seed, within its plan. */
#ifndef SIM_WORLD_CHAOS_H
#define SIM_WORLD_CHAOS_H

#include "world/world.h"

void sim_plan_draw(sim_world *w);
void sim_chaos_begin(sim_world *w);

/* From now on nothing goes wrong, and what went wrong is over. */
void sim_chaos_end(sim_world *w);

#endif
