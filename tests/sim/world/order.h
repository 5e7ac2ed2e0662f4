/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Order among clients. While a client waits in the store's queue, no other client may get the name
 * more than once. The client's core knows that it is queued: see queued_until. A store without a
 * queue has no queued clients, so nothing is checked.
 */
#ifndef SIM_WORLD_ORDER_H
#define SIM_WORLD_ORDER_H

#include "world/world.h"

struct sim_client;

/* Runs after every event: note which clients are queued now. */
void sim_order_look(sim_world *w);
void sim_order_entered(sim_world *w, const struct sim_client *client, int name);

#endif
