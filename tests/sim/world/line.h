/*
 * The line in the store, looked at after every script:
 *
 *  1. While somebody stands in it, fence and lock say so.
 *  2. A client stands in it once, and not while it holds; its number there does not fall.
 *     Nobody loses a place, but to leave, or for the lock.
 *  3. Nobody gets the lock past one that stands before it and listens; and nobody is handed it who cannot
 *     be told.
 *  4. A lock whose hold a script has ended is not free while somebody in line listens.
 *
 * And after every event: who was granted the lock notices, in time (5). A client that was closed and had all
 * its answers stands in no line (6).
 */
#ifndef SIM_WORLD_LINE_H
#define SIM_WORLD_LINE_H

#include "world/world.h"

struct sim_client;

/* `before`: who had it when the script began. */
void sim_line_ran(sim_world *w, const rm_ran *ran, int name, const sim_seen *before);
void sim_line_copy(sim_queue *to, const sim_queue *from);
void sim_line_look(sim_world *w);
void sim_line_lost(sim_world *w, int name);
/* By when a client must know of its grant; HF__NEVER where too much may be the matter. */
hf__time sim_line_notice_by(const sim_world *w, const struct sim_client *client,
                            hf__time granted_at);

/* It listens, and has asked not long ago by the server's clock, which may have been set. */
bool sim_line_reachable(const sim_world *w, const sim_standing *standing);
void sim_line_closed(sim_world *w, const struct sim_client *client);

#endif
