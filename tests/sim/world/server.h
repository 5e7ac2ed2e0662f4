/* The server's place in the world: its clock, and what befalls it. */
#ifndef SIM_WORLD_SERVER_H
#define SIM_WORLD_SERVER_H

#include "world/world.h"

/* The model's clock is set to what the server's clock shows now. */
void sim_server_clock(sim_world *w);
int64_t sim_server_ms(const sim_world *w);

void sim_server_restart(sim_world *w, bool keep_keys, hf__time away);
void sim_server_stall(sim_world *w, hf__time span);
void sim_server_step(sim_world *w, int64_t by_us);
void sim_server_memory(sim_world *w, hf__time full_for);

/* Keys are gone, and nobody was told: all of them, or those of one name. */
void sim_server_flush(sim_world *w);
void sim_server_delete(sim_world *w, int name);
void sim_server_forget_scripts(sim_world *w);

/* What is no fence stands in the place of one, and then nothing. */
void sim_server_spoil(sim_world *w, int name, hf__time span);

/* Whoever waits, and has asked on two connections: the server that the first one led to hands over, too. */
void sim_server_old_grants(sim_world *w);

/* A message of late comes once more. And for a while nobody may send one. */
void sim_server_echo(sim_world *w);
void sim_server_no_messages(sim_world *w, hf__time span);

void sim_server_init(sim_world *w);
void sim_server_calm(sim_world *w);

#endif
