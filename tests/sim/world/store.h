/* SPDX-License-Identifier: Apache-2.0 */
/* The store of a simulated client: hf__session over a link, in place of src/store/redis/redis.c. */
#ifndef SIM_WORLD_STORE_H
#define SIM_WORLD_STORE_H

#include "store/redis/protocol/notifications.h"
#include "world/link.h"

/* The links of a client; each carries a session. */
enum { SIM_COMMANDS, SIM_MESSAGES, SIM_LINKS };

typedef struct sim_store {
    hf__store store; /* must be first */
    struct sim_client *client;
    hf__session session, subscriber;
    hf__notifications notifications;
    sim_link links[SIM_LINKS];
} sim_store;

void sim_store_init(sim_store *s, struct sim_client *client, const hf__url *url,
                    const hf__identity *who, hf__log *log, uint64_t seed);
void sim_store_fini(sim_store *s);

/* Reads what has arrived. */
void sim_store_read(sim_store *s, hf__time now);

/* Returns true if there are bytes to read, or a closed connection. */
bool sim_store_readable(const sim_store *s);

#endif
