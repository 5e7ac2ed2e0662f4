/* SPDX-License-Identifier: Apache-2.0 */
/* Reads locks as the scripts store them. No other part of the simulator knows their keys, fields
   and answers. */
#ifndef SIM_WORLD_PROBE_H
#define SIM_WORLD_PROBE_H

#include "store/redis/protocol/script.h"
#include "world/world.h"

/* Returns the holder in the server's data. */
sim_seen sim_probe(sim_world *w, int name);

/* Returns how often its owner has entered, by the server; -1: the server does not record it. */
int64_t sim_probe_count(sim_world *w, int name, const char *client, const char *owner);

/* Reads the holders of a lock that is not a mutex, and fails if the record is inconsistent. */
void sim_probe_holding(sim_world *w, int name, sim_holding *holding);

/* Reads the queue of a lock. */
void sim_probe_queue(sim_world *w, int name, sim_queue *queue);

/* Returns true if a subscriber listens on the client's channel. */
bool sim_probe_listens(const sim_world *w, int slot, int number);

/* Finds the client and acquire id that a script acts for on this name; false: none. */
bool sim_probe_actor(const rm_ran *ran, int name, int *slot, int *number, uint64_t *acquire_id);

/* Returns the id of the next acquire that the script makes in one step with the release; 0:
   none. */
uint64_t sim_probe_next(const rm_ran *ran);

/* Returns true if the script is a release by this holder of a mutex and did release it. */
bool sim_probe_released(const rm_ran *ran, const sim_seen *holder);

/* The first returns true for the script that acquires several names at once, the second if it
   succeeded. */
bool sim_probe_of_many(const rm_ran *ran);
bool sim_probe_acquired_all(const rm_ran *ran);

/* Returns true if both are the same position in the queue. */
bool sim_probe_same_position(const sim_waiter *a, const sim_waiter *b);

/* Returns true if the script may use the turn of an earlier acquire of the same client, which
   gave up. */
bool sim_probe_succeeds(const rm_ran *ran);

/* Returns true if the script is an acquire. Its own acquire is served; other waiters retry by
   themselves. */
bool sim_probe_is_acquire(const rm_ran *ran);

/* Returns true if it ended with an error. */
bool sim_probe_failed(const rm_ran *ran);

/* Replaces a fence with other data for a while; the queue is deleted. */
void sim_probe_spoil(sim_world *w, int name, int64_t span_ms);

/* The message and channel of a grant that is handed over. */
void sim_probe_grant(char *out, size_t size, uint64_t acquire_id, int64_t server_us,
                     int64_t lease_ms);
void sim_probe_channel(char *out, size_t size, int slot, int number);

/* An effect of a script that the keys alone do not show. */
typedef enum sim_effect { SIM_NO_EFFECT, SIM_BUSY, SIM_KEPT, SIM_DENIED, SIM_BROKE } sim_effect;

/*
 * Returns the effect of a script:
 *
 *   SIM_BUSY    it answered to the acquire `wanted` that another client holds the lock
 *   SIM_KEPT    it said how often a holder has entered
 *   SIM_DENIED  it told the holder under `token` that it does not hold the lock
 *   SIM_BROKE   it ended the hold under `token`, when asked to end `wanted`; 0: any
 */
sim_effect sim_probe_effect(const rm_ran *ran, uint64_t *token, uint64_t *wanted);

/* Returns the name that a key belongs to, or SIM_ANY; and whether the key is the lock itself. */
int sim_probe_name(rm_bytes key, bool *is_lock);

/* Returns the shipped script with this SHA-1, or NULL. */
const hf__script *sim_probe_script(const char *sha1);

/* All shipped scripts; ends with NULL. Generated. */
extern const hf__script *const sim_scripts[];

#endif
