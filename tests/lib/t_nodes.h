/*
 * Several private servers that know nothing of each other: the nodes of a quorum. Each is a t_redis, to be
 * killed, stopped and looked at as such.
 */
#ifndef T_NODES_H
#define T_NODES_H

#include "t_redis.h"

enum { T_NODES_MAX = 9 };

typedef struct t_nodes t_nodes;

/* They answer when this returns. NULL options: see t_redis_start. */
t_nodes *t_nodes_start(int count, const t_redis_options *options);
void t_nodes_free(t_nodes *nodes); /* NULL is allowed */

t_redis *t_nodes_at(const t_nodes *nodes, int i);

/* "redis+quorum://127.0.0.1:PORT,…" of the first so many of them. Lives until the next call. */
const char *t_nodes_url(t_nodes *nodes, int count);

/* In the URL from now on: another port, such as a proxy's, in place of a node's. 0: its own again. */
void t_nodes_stand_in(t_nodes *nodes, int i, uint16_t port);

/* All of them say that they have been up for so long: what asks does not count the last second. */
void t_nodes_grow_old(const t_nodes *nodes, int seconds);

#endif
