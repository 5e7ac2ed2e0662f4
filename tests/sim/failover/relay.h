/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A primary with its replicas, in the world of quorum/ring.h. Writes reach the replicas later. A
 * replica may be promoted before it has the last writes, and the old primary grants locks until it
 * learns of it. Clients switch to the new primary when they are notified, or when they find the old
 * one gone.
 *
 * With replicas= nothing is excused: a promoted replica has every confirmed write. Without it,
 * holders and waiters at a promotion are in doubt, and so are grants by an old primary.
 */
#ifndef SIM_FAILOVER_RELAY_H
#define SIM_FAILOVER_RELAY_H

#include "quorum/ring.h"

enum { RELAY_NODES = 3 };

/* All keys of a server after a write; shared by the replicas that it is sent to. */
typedef struct relay_copy {
    int refs;
    uint64_t offset;
    rm_keys keys;
} relay_copy;

typedef struct relay_batch {
    struct relay_batch *next;
    hf__time at;
    relay_copy *copy;
} relay_batch;

typedef struct relay_node {
    struct relay *relay;
    ring_node *node;
    int follows; /* the node it replicates; -1: it is the primary, or believes it is */
    bool synced; /* it has everything from its primary */
    hf__time lags_until;
    relay_batch *first, *last; /* in flight to it */
    ring_event arrives;
    ring_event acks;             /* its acknowledgement in flight: */
    uint64_t says;               /* the offset that it has */
    uint64_t acked[RELAY_NODES]; /* a primary: the offsets that it knows its replicas have */
    ring_event follows_next;     /* it learns which node to follow */
} relay_node;

typedef struct relay {
    ring *ring;
    int primary;  /* as Sentinels say */
    int replicas; /* how many must confirm; 0: none */
    bool failing; /* a promotion is scheduled */
    ring_event promotes;
    relay_node at[RELAY_NODES];
} relay;

/* ---- replica.c ---- */

void relay_init(ring *r, int replicas);
void relay_free(relay *y);

/* Sends a node's write to its replicas. */
void relay_wrote(ring_node *n);

/* The node is back, or has closed its connections: its replicas resynchronise. */
void relay_resync(relay *y, int number);

/* Drops some writes in flight to the replicas of a primary. */
void relay_lose_some(relay *y, int number);

/* Promotes a replica after this time. */
void relay_fail_over(relay *y, hf__time in);
/* There is one primary, and all others follow it and have caught up. */
bool relay_sound(const relay *y);

/* Delivers all pending notifications at once. */
void relay_calm(relay *y);

/* ---- store.c ---- */

hf__store *relay_store_new(ring_client *c);
void relay_store_gone(ring_client *c); /* it crashed */
/* The node that the client takes for the primary. */
const ring_node *relay_store_node(const ring_client *c);

#endif
