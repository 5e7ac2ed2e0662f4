/*
 * Order among clients. While one stands in the store's line (its core says so: placed_until), no other
 * may get the name more than once: whoever was ahead of it, and then it is its turn. Where a store keeps
 * no line nobody stands, and nothing is checked.
 */
#ifndef SIM_WORLD_ORDER_H
#define SIM_WORLD_ORDER_H

#include "world/world.h"

struct sim_client;

/* After every event: who stands now. */
void sim_order_look(sim_world *w);
void sim_order_entered(sim_world *w, const struct sim_client *client, int name);

#endif
