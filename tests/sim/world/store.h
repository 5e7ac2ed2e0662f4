/* The store of a simulated client: hf__session over a link, in place of src/store/redis/redis.c. */
#ifndef SIM_WORLD_STORE_H
#define SIM_WORLD_STORE_H

#include "store/redis/protocol/notifications.h"
#include "world/link.h"

/* Which link is which; each carries a session. */
enum { SIM_COMMANDS, SIM_MESSAGES, SIM_LINKS };

typedef struct sim_store {
    hf__store store; /* first */
    struct sim_client *client;
    hf__session session, subscriber;
    hf__notifications notifications;
    sim_link links[SIM_LINKS];
} sim_store;

void sim_store_init(sim_store *s, struct sim_client *client, const hf__url *url,
                    const hf__identity *who, hf__log *log, uint64_t seed);
void sim_store_fini(sim_store *s);

/* What has arrived is read. */
void sim_store_read(sim_store *s, hf__time now);

/* Something is there to be read, a break-up too. */
bool sim_store_readable(const sim_store *s);

#endif
