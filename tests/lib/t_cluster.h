/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cluster of three primaries with one replica each: six real processes on this machine. Slots are
 * divided evenly, and node 0 has the first third. Node 3 is at first the replica of node 0, node 4
 * that of node 1, and so on.
 *
 * By default the nodes take very long to agree that one of them has failed, so that a busy machine
 * causes no failover. t_cluster_take_over makes a replica the primary when a test needs it.
 */
#ifndef T_CLUSTER_H
#define T_CLUSTER_H

#include "t_redis.h"

enum { T_PRIMARIES = 3, T_MEMBERS = 6, T_SLOTS = 16384, T_CLUSTER_MS = 60000 };

typedef struct t_cluster t_cluster;

/* Zero is the default of every field. */
typedef struct t_cluster_options {
    int node_timeout_ms;       /* after this time nodes fail over by themselves; 0: never */
    bool alone;                /* without replicas */
    const char *password;      /* of the nodes */
    const char *certificates;  /* a directory with good.crt, good.key, ca.crt: use TLS */
    const char *const *config; /* additional lines of the nodes' configuration */
} t_cluster_options;

/* When this returns, all nodes agree and replicas are in sync. */
t_cluster *t_cluster_start(const t_cluster_options *options);
void t_cluster_free(t_cluster *c); /* NULL is allowed */

/* "redis+cluster://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", or "rediss+…" with TLS; without
   password. */
const char *t_cluster_url(const t_cluster *c);

int t_cluster_size(const t_cluster *c);
t_redis *t_cluster_node(const t_cluster *c, int i);
uint16_t t_cluster_port(const t_cluster *c, int i); /* for clients */

/* The slot of a name. And the node that owns it, according to itself and to most others; -1:
   none at the moment. */
int t_cluster_slot(const char *name);
int t_cluster_owner(t_cluster *c, int slot);

/* A name that begins with `stem` and whose slot belongs to this node. */
const char *t_cluster_name(t_cluster *c, int node, const char *stem, char out[64]);

/* The replica of a primary; it is in sync. */
int t_cluster_replica(t_cluster *c, int primary);

/* Make that replica the primary of its primary's slots. The old primary may be down. */
void t_cluster_take_over(t_cluster *c, int replica);

/* Wait until a node that was restarted or resumed is a replica in sync, or a primary, and all
   nodes agree. */
void t_cluster_settled(t_cluster *c);

/* Move a slot: begin, move its keys, end. In between both nodes serve the slot. */
void t_cluster_begin_move(t_cluster *c, int slot, int from, int to);
int t_cluster_move_keys(t_cluster *c, int slot, int from, int to, int most);
void t_cluster_end_move(t_cluster *c, int slot, int from, int to);
void t_cluster_move(t_cluster *c, int slot, int to);

#endif
