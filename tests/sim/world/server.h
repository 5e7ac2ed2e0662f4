/* SPDX-License-Identifier: Apache-2.0 */
/* The server's side of the world: its clock and its faults. */
#ifndef SIM_WORLD_SERVER_H
#define SIM_WORLD_SERVER_H

#include "world/world.h"

/* Sets the model's clock to the reading of the server's clock now. */
void sim_server_clock(sim_world *w);
int64_t sim_server_ms(const sim_world *w);

void sim_server_restart(sim_world *w, bool keep_keys, hf__time away);
void sim_server_stall(sim_world *w, hf__time span);
void sim_server_step(sim_world *w, int64_t by_us);
void sim_server_memory(sim_world *w, hf__time full_for);

/* Deletes all keys, or those of one name, without any notice. */
void sim_server_flush(sim_world *w);
void sim_server_delete(sim_world *w, int name);
void sim_server_forget_scripts(sim_world *w);

/* Replaces a fence with other data for a while, and then deletes it. */
void sim_server_spoil(sim_world *w, int name, hf__time span);

/* An old server, reached by an earlier connection, also knows the waiters and hands over to
   them. */
void sim_server_old_grants(sim_world *w);

/* The first repeats a recent message. The second forbids publishing for a while. */
void sim_server_echo(sim_world *w);
void sim_server_no_messages(sim_world *w, hf__time span);

void sim_server_init(sim_world *w);
void sim_server_calm(sim_world *w);

#endif
