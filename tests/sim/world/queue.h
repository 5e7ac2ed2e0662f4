/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks of the queue in the store. After every script:
 *
 *  1. While there is a queue, fence and lock record it.
 *  2. A client is in the queue once, and not while it holds. Its acquire id there never falls.
 *     It stays until it leaves or gets the lock.
 *  3. No client gets the lock before an earlier waiter that listens. The lock is handed only to
 *     clients that can be notified.
 *  4. When a script ends a hold, the lock does not stay free while a waiter listens.
 *
 * After every event:
 *
 *  5. A client that was granted the lock notices in time.
 *  6. A client that was closed and got all its answers is in no queue.
 */
#ifndef SIM_WORLD_QUEUE_H
#define SIM_WORLD_QUEUE_H

#include "world/world.h"

struct sim_client;

/* `before` is the holder when the script began. */
void sim_queue_ran(sim_world *w, const rm_ran *ran, int name, const sim_seen *before);
void sim_queue_copy(sim_queue *to, const sim_queue *from);
void sim_queue_look(sim_world *w);
void sim_queue_lost(sim_world *w, int name);
/* Returns when a client must know of its grant, or HF__NEVER if faults may delay it. */
hf__time sim_queue_notice_by(const sim_world *w, const struct sim_client *client,
                             hf__time granted_at);

/* Returns true if the waiter listens and has retried recently. The server's clock decides, and
   it may have been stepped. */
bool sim_queue_reachable(const sim_world *w, const sim_waiter *waiter);
void sim_queue_closed(sim_world *w, const struct sim_client *client);

#endif
