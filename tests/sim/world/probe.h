/* How the scripts keep a lock: the one place of the simulator that knows. */
#ifndef SIM_WORLD_PROBE_H
#define SIM_WORLD_PROBE_H

#include "store/redis/protocol/script.h"
#include "world/world.h"

/* Who has it, by the server. */
sim_seen sim_probe(sim_world *w, int name);

/* How often its owner has entered, by the server; -1: it does not say. */
int64_t sim_probe_count(sim_world *w, int name, const char *client, const char *owner);

/* Who has a lock of another kind; it is seen to that what is kept of them agrees. */
void sim_probe_holding(sim_world *w, int name, sim_holding *holding);

/* The line of a lock. */
void sim_probe_queue(sim_world *w, int name, sim_queue *queue);

/* Somebody listens on the channel of a client. */
bool sim_probe_listens(const sim_world *w, int slot, int number);

/* The client, and the number of it, that a script acts for with this name; false: none in particular. */
bool sim_probe_actor(const rm_ran *ran, int name, int *slot, int *number, uint64_t *ask);

/* The number of the same client that asks in one step with its release, by a lane; 0: none. */
uint64_t sim_probe_next(const rm_ran *ran);

/* It is a release by this holder of a mutex, and did release it. */
bool sim_probe_released(const rm_ran *ran, const sim_seen *holder);

/* It is the script that takes several names at once; and did. */
bool sim_probe_of_many(const rm_ran *ran);
bool sim_probe_took_all(const rm_ran *ran);

/* They are the same place in line. */
bool sim_probe_same_place(const sim_standing *a, const sim_standing *b);

/* It may take the lock in another's turn: that of a number of the same client that gave up. */
bool sim_probe_succeeds(const rm_ran *ran);

/* It is an ask: who is let in by it is served, and others ask in their time. */
bool sim_probe_asks(const rm_ran *ran);

/* It ended with an error. */
bool sim_probe_failed(const rm_ran *ran);

/* Put something that is no fence in the place of a fence, for a while; the line is gone. */
void sim_probe_spoil(sim_world *w, int name, int64_t span_ms);

/* What is published when a lock is handed over. */
void sim_probe_grant(char *out, size_t size, uint64_t number, int64_t server_us, int64_t lease_ms);
void sim_probe_channel(char *out, size_t size, int slot, int number);

/* What a script has done, where others cannot see it in the keys. */
typedef enum sim_effect { SIM_NO_EFFECT, SIM_BUSY, SIM_KEPT, SIM_DENIED, SIM_BROKE } sim_effect;

/* BUSY: it told the number `wanted` of a client that another holds. KEPT: it said how often a holder has entered. DENIED: it told the holder under `token` that it is none. BROKE: it ended the hold under `token`,
   where that under `wanted` was to be ended; 0: any. */
sim_effect sim_probe_effect(const rm_ran *ran, uint64_t *token, uint64_t *wanted);

/* The name a key is of, or SIM_ANY; and whether it is the lock itself. */
int sim_probe_name(rm_bytes key, bool *is_lock);

/* What a script that has run is; NULL: none of ours. */
const hf__script *sim_probe_script(const char *sha1);

/* All scripts that are shipped; ends with NULL. Generated. */
extern const hf__script *const sim_scripts[];

#endif
