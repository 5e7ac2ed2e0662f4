/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several private servers that know nothing of each other: the nodes of a quorum. Each is a
 * t_redis, so a test can kill, stop and inspect it as one.
 */
#ifndef T_NODES_H
#define T_NODES_H

#include "t_redis.h"

enum { T_NODES_MAX = 9 };

typedef struct t_nodes t_nodes;

/* All answer when this returns. NULL options: see t_redis_start. */
t_nodes *t_nodes_start(int count, const t_redis_options *options);
void t_nodes_free(t_nodes *nodes); /* NULL is allowed */

t_redis *t_nodes_at(const t_nodes *nodes, int i);

/* "redis+quorum://127.0.0.1:PORT,…" with the first `count` nodes. Lives until the next call. */
const char *t_nodes_url(t_nodes *nodes, int count);

/* From now on the URL has this port for a node, for example that of a proxy. 0: its own port
   again. */
void t_nodes_stand_in(t_nodes *nodes, int i, uint16_t port);

/* Wait until every node reports this uptime. The library does not count the last second of it. */
void t_nodes_grow_old(const t_nodes *nodes, int seconds);

#endif
