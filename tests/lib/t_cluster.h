/*
 * A cluster of three primaries, each with a replica: six real processes of this machine. Slots are shared out evenly,
 * the first third to node 0; node 3 is the replica of node 0 at first, and so on.
 *
 * Unless asked for otherwise its nodes take very long to agree that one of them is gone, so that on a busy machine nothing
 * happens by itself: t_cluster_take_over makes a replica the primary when a test wants it.
 */
#ifndef T_CLUSTER_H
#define T_CLUSTER_H

#include "t_redis.h"

enum { T_PRIMARIES = 3, T_MEMBERS = 6, T_SLOTS = 16384, T_CLUSTER_MS = 60000 };

typedef struct t_cluster t_cluster;

/* Zero is the default everywhere. */
typedef struct t_cluster_options {
    int node_timeout_ms;       /* after which nodes fail over by themselves; 0: they do not */
    bool alone;                /* without replicas */
    const char *password;      /* of the nodes */
    const char *certificates;  /* a directory with good.crt, good.key, ca.crt: TLS to all */
    const char *const *config; /* of the nodes, besides */
} t_cluster_options;

/* All agree, and replicas are in sync, when this returns. */
t_cluster *t_cluster_start(const t_cluster_options *options);
void t_cluster_free(t_cluster *c); /* NULL is allowed */

/* "redis+cluster://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", or with TLS "rediss+…": without password. */
const char *t_cluster_url(const t_cluster *c);

int t_cluster_size(const t_cluster *c);
t_redis *t_cluster_node(const t_cluster *c, int i);
uint16_t t_cluster_port(const t_cluster *c, int i); /* that clients use */

/* The slot of a name; and the node that has it by its own word and that of most others, -1: none just now. */
int t_cluster_slot(const char *name);
int t_cluster_owner(t_cluster *c, int slot);

/* A name whose slot a node has, made of `stem`. */
const char *t_cluster_name(t_cluster *c, int node, const char *stem, char out[64]);

/* The replica of a primary, which is in sync. */
int t_cluster_replica(t_cluster *c, int primary);

/* That replica has the slots of its primary from now on, which may be gone. */
void t_cluster_take_over(t_cluster *c, int replica);

/* A node that was killed and restarted, or stopped, is a replica in sync, or a primary, and all agree. */
void t_cluster_settled(t_cluster *c);

/* Move a slot: begin, move the keys that are there, end. In between a slot is in both nodes. */
void t_cluster_begin_move(t_cluster *c, int slot, int from, int to);
int t_cluster_move_keys(t_cluster *c, int slot, int from, int to, int most);
void t_cluster_end_move(t_cluster *c, int slot, int from, int to);
void t_cluster_move(t_cluster *c, int slot, int to);

#endif
