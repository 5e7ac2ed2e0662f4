/*
 * A primary with its replicas, in the world of quorum/ring.h: what is written to the one comes to the others
 * later, one of them is promoted while it may lack the last of it, and the old primary goes on granting
 * until it is told. Clients follow the primary as they are told, or when they find it gone.
 *
 * With replicas= nothing is excused: a promoted replica has all that was confirmed. Without it, who held or
 * waited when another was promoted is in doubt, and so is whoever is granted something by one that is the
 * primary no more.
 */
#ifndef SIM_FAILOVER_RELAY_H
#define SIM_FAILOVER_RELAY_H

#include "quorum/ring.h"

enum { RELAY_NODES = 3 };

/* All keys of a server as they were after a write; shared by those that it is on its way to. */
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
    int follows; /* whose replica it is; -1: it is, or takes itself for, the primary */
    bool synced; /* it has had all from whom it follows */
    hf__time lags_until;
    relay_batch *first, *last; /* under way to it */
    ring_event arrives;
    ring_event acks;             /* and what it says on the way back: */
    uint64_t says;               /* that it has so much */
    uint64_t acked[RELAY_NODES]; /* a primary: what it knows the others to have */
    ring_event follows_next;     /* it is told whom to follow */
} relay_node;

typedef struct relay {
    ring *ring;
    int primary;  /* as Sentinels say */
    int replicas; /* that must confirm; 0: none */
    bool failing; /* another is about to be promoted */
    ring_event promotes;
    relay_node at[RELAY_NODES];
} relay;

/* ---- replica.c ---- */

void relay_init(ring *r, int replicas);
void relay_free(relay *y);

/* A node has written: on to those who follow it. */
void relay_wrote(ring_node *n);

/* It is back, or has ended its connections: who follows it begins anew. */
void relay_resync(relay *y, int number);

/* What is under way to its replicas may be lost with a primary. */
void relay_lose_some(relay *y, int number);

/* In so long another is promoted. */
void relay_fail_over(relay *y, hf__time in);
bool relay_sound(const relay *y); /* one primary, which all others follow and have caught up with */

/* At once: whatever is to be heard is. */
void relay_calm(relay *y);

/* ---- store.c ---- */

hf__store *relay_store_new(ring_client *c);
void relay_store_gone(ring_client *c);                   /* it crashed */
const ring_node *relay_store_node(const ring_client *c); /* that it takes for the primary */

#endif
