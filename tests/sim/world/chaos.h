/* SPDX-License-Identifier: Apache-2.0 */
/* Decides what goes wrong and when. Everything is drawn from the seed, within its plan. */
#ifndef SIM_WORLD_CHAOS_H
#define SIM_WORLD_CHAOS_H

#include "world/world.h"

void sim_plan_draw(sim_world *w);
void sim_chaos_begin(sim_world *w);

/* Ends all faults; none begin after this. */
void sim_chaos_end(sim_world *w);

#endif
