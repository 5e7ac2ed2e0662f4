/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store of stores: one for each primary in use, created when the first operation goes there. This
 * header is shared by the files of this folder:
 *
 *   slot.c      the slot of a name
 *   map.c       which node has it
 *   nodes.c     the connected nodes
 *   refresh.c   when to request the map, and from which node
 *   route.c     where an operation goes, and what follows a redirect
 *   list.c      hf_list over all nodes
 *   cluster.c   the store table, and the state for the client and its core
 *
 * Invariants
 *   1. A submitted operation is in exactly one place: at a node, in `waiting`, or in `done`.
 *   2. An operation that may have taken effect is completed as it is (`outcome_unknown`). Only an
 *      operation that a node refused to execute is sent again, and not after redirect.until.
 *   3. A notification of a grant is never enough: the core must acquire to claim it. The grant may
 *      come from a node that is no longer the primary, or through another node.
 *   4. A node is freed only when no thread uses it and it has no operation.
 *
 * Not thread-safe: used under the client's mutex.
 */
#ifndef HF_STORE_CLUSTER_CLUSTER_INTERNAL_H
#define HF_STORE_CLUSTER_CLUSTER_INTERNAL_H

#include "store/cluster/cluster.h"
#include "store/cluster/map.h"
#include "store/redis/topology/release_log.h"

#define HF__CLUSTER_NODES_MAX 32 /* primaries that a client is connected to at once */

typedef struct hf__cluster_node {
    char where[HF__WHERE_TEXT]; /* "host:port", as the cluster or the URL says */
    char host[HF__WHERE_TEXT];
    hf__url url; /* borrows parts of the client's URL, with its own address */
    hf__store *store;
    uint64_t link;        /* of its store, as last seen */
    unsigned busy;        /* threads that do its I/O without the mutex */
    hf__time used;        /* when something was last sent there */
    hf__time waits_since; /* since when it has not answered anything; 0: nothing is in flight */
    bool silent;          /* it has not answered for a long time */
    bool owns;            /* the map says that it has slots */
    bool given_up;        /* shut for good, and to be freed */
    bool map_pending;     /* it has a request for the map */
    bool map_failed;      /* it was asked for the map and did not give one */
    hf__op map_op;
} hf__cluster_node;

typedef struct hf__cluster {
    hf__store store;
    const hf__url *url;
    hf__identity who;
    hf__log *log;
    hf__rand rand;
    hf__cluster_node *nodes[HF__CLUSTER_NODES_MAX];
    uint64_t freed_pollset_versions, freed_commands; /* of nodes that were freed */
    bool must_tidy; /* there may be nodes that the map does not name */
    hf__slot_map map;
    hf__ops waiting; /* for a connection, for the map, or for a pause to end */
    hf__ops done;
    hf__release_log releases;

    /* opening */
    hf__time began, open_until;
    bool opened, shut;
    int seeds;        /* nodes of the URL that were connected to so far */
    hf__time seed_at; /* when to connect to the next one as well */

    /* requests for the map */
    bool doubted;
    /* Maps received. An operation that waits for a newer map compares with this. */
    uint64_t maps;
    bool woken;                   /* a map was just received: waiting operations may continue */
    unsigned doubts;              /* requests in a row that changed nothing */
    hf__time refresh_at;          /* no request before this */
    hf__time refreshed;           /* when it was last requested or received */
    int last_asked;               /* index of the node that got the last request */
    hf__cluster_node *map_source; /* that node, until it answers or another is asked */

    hf__op registration;
    bool registering;
    hf__time register_at;

    hf_result last_error; /* of the last node that could not give the map */
    char last_error_text[512], down_text[512];
} hf__cluster;

/* ---- nodes.c ---- */

hf__cluster_node *hf__cluster_node_find(const hf__cluster *c, const char *where);

/* Find a node or create it. NULL: out of memory, or all places are in use. */
hf__cluster_node *hf__cluster_node_at(hf__cluster *c, const char *where, hf__time now);

/* Update `silent` of the node. And when to do so again. */
void hf__cluster_node_update(hf__cluster_node *m, hf__time now);
hf__time hf__cluster_node_due(const hf__cluster *c, const hf__cluster_node *m);

/* Whether the node has slots, but cannot be reached or does not answer. */
bool hf__cluster_node_missed(const hf__cluster_node *m);

/* Call after a new map. */
void hf__cluster_nodes_mapped(hf__cluster *c);

/* Free nodes without slots that are idle or do not answer. */
void hf__cluster_nodes_tidy(hf__cluster *c, hf__time now);
void hf__cluster_node_drop(hf__cluster *c, int i, hf__time now);

/* ---- refresh.c ---- */

/* The map may be out of date: request it soon. */
void hf__cluster_doubt_map(hf__cluster *c, hf__time now);

/* Connect to nodes that may know the map, and request it. */
void hf__cluster_refresh(hf__cluster *c, hf__time now);
hf__time hf__cluster_refresh_due(const hf__cluster *c);

/* A node answered the request. */
void hf__cluster_take_map(hf__cluster *c, hf__cluster_node *m, hf__time now);

/* ---- route.c ---- */

/* Begin an operation, after resetting what an earlier submit left in it. */
void hf__cluster_submit(hf__cluster *c, hf__op *op, hf__time now);

/* A node answered an operation: redirect it, or complete it. */
void hf__cluster_answered(hf__cluster *c, hf__cluster_node *m, hf__op *op, hf__time now);

/* Continue with waiting operations. And when to do so. */
void hf__cluster_resume_waiting(hf__cluster *c, hf__time now);
hf__time hf__cluster_waiting_due(const hf__cluster *c);

/* Complete all of them with HF_UNREACHABLE. */
void hf__cluster_end_waiting(hf__cluster *c);

/* ---- list.c ---- */

/* Begin a step of a walk over all names. HF_OK: hf__cluster_list_at names the node; HF_NOMEM;
   HF_UNREACHABLE: no node is known. */
hf_result hf__cluster_list_begin(const hf__cluster *c, hf__list_walk *listing);
const char *hf__cluster_list_at(const hf__list_walk *listing);

/* The step was answered: the next one continues at this node, or at the next node. */
void hf__cluster_listed(const hf__cluster *c, hf__list_walk *listing);

#endif
