/*
 * A store of stores: one for each primary in use, made when something is first to go there. Between the files of
 * this folder:
 *
 *   slot.c      the slot of a name
 *   map.c       which node has it
 *   nodes.c   the nodes that are connected to
 *   refresh.c   asking for the map: whom, and when
 *   route.c     where an operation goes, and what becomes of one that was turned away
 *   list.c      going to all of them, for hf_list
 *   cluster.c   the store's table, and what the client and its core may know
 *
 * Invariants
 *  1. An operation that was submitted is in one place: with a member, among `waiting`, or among `done`.
 *  2. What may have been done is handed up as it is (`maybe`); only what a node said it did not do is sent again from
 *     here, and not after redirect.until.
 *  3. A grant that was heard of is never entered upon: it is asked for. It may be of a node that is
 *     the primary no more, or have come by way of another.
 *  4. A member is freed only when no thread is at work in it and it has no operation.
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
    hf__url url; /* parts of the client's, and where it is */
    hf__store *store;
    uint64_t link;        /* of its store, as last seen */
    unsigned busy;        /* threads that do its I/O, without the mutex */
    hf__time used;        /* when something was last sent there */
    hf__time waits_since; /* for an answer, of any: 0: it is not */
    bool silent;          /* that has taken long */
    bool owns;            /* the map says that it has slots */
    bool given_up;        /* shut for good, and to be freed */
    bool asking;          /* for the map */
    bool useless;         /* it was asked, and did not say */
    hf__op ask;
} hf__cluster_node;

typedef struct hf__ops {
    hf__op *first, *last;
} hf__ops;

typedef struct hf__cluster {
    hf__store store;
    const hf__url *url;
    hf__identity who;
    hf__log *log;
    hf__rand rand;
    hf__cluster_node *nodes[HF__CLUSTER_NODES_MAX];
    uint64_t polls_gone, commands_gone; /* of members that are no more */
    bool untidy;                        /* there may be members that the map does not name */
    hf__slot_map map;
    hf__ops waiting; /* for a connection, the map, or a moment */
    hf__ops done;
    hf__release_log releases;

    /* opening */
    hf__time began, open_until;
    bool opened, shut;
    int seeds;        /* of the URL that were gone to */
    hf__time seed_at; /* when to go to the next one as well */

    /* the map is asked for */
    bool doubted;
    uint64_t maps;            /* that were told */
    bool woken;               /* one was just now: those that wait may go on */
    unsigned doubts;          /* in a row, that changed nothing */
    hf__time refresh_at;      /* not before */
    hf__time refreshed;       /* when it last was */
    int asked;                /* the member that was asked last */
    hf__cluster_node *asking; /* it, until it has answered or somebody else is asked */

    hf__op registration;
    bool registering;
    hf__time register_at;

    hf_result last_error; /* of the last that could not say where the slots are */
    char last_error_text[512], down_text[512];
} hf__cluster;

void hf__ops_push(hf__ops *ops, hf__op *op);
hf__op *hf__ops_pop(hf__ops *ops);

/* ---- nodes.c ---- */

hf__cluster_node *hf__cluster_node_find(const hf__cluster *c, const char *where);

/* The same, and made if there is none; NULL: no memory, or as many as may be are in use. */
hf__cluster_node *hf__cluster_node_at(hf__cluster *c, const char *where, hf__time now);

/* Look whether it answers; and when to look again. */
void hf__cluster_node_update(hf__cluster_node *m, hf__time now);
hf__time hf__cluster_node_due(const hf__cluster *c, const hf__cluster_node *m);

/* It has slots, and cannot be reached or does not answer. */
bool hf__cluster_node_missed(const hf__cluster_node *m);

/* There is another map. */
void hf__cluster_nodes_mapped(hf__cluster *c);

/* Give up members that have no slot, and nothing to do or no word to say. */
void hf__cluster_nodes_tidy(hf__cluster *c, hf__time now);
void hf__cluster_node_drop(hf__cluster *c, int i, hf__time now);

/* ---- refresh.c ---- */

/* What the map says may not be so: ask soon. */
void hf__cluster_doubt_map(hf__cluster *c, hf__time now);

/* Connect to whoever may know, and ask. */
void hf__cluster_refresh(hf__cluster *c, hf__time now);
hf__time hf__cluster_refresh_due(const hf__cluster *c);

/* A member answered. */
void hf__cluster_take_map(hf__cluster *c, hf__cluster_node *m, hf__time now);

/* ---- route.c ---- */

/* Begin, with what was not submitted by the cluster itself before. */
void hf__cluster_submit(hf__cluster *c, hf__op *op, hf__time now);

/* A member answered an operation: it goes elsewhere, or is done. */
void hf__cluster_answered(hf__cluster *c, hf__cluster_node *m, hf__op *op, hf__time now);

/* Go on with those that wait, and when. */
void hf__cluster_resume_waiting(hf__cluster *c, hf__time now);
hf__time hf__cluster_waiting_due(const hf__cluster *c);

/* End them all. */
void hf__cluster_end_waiting(hf__cluster *c);

/* ---- list.c ---- */

/* A step of a walk over all names: HF_OK, and the node to ask; HF_NOMEM, or HF_UNREACHABLE: no node is known. */
hf_result hf__cluster_list_begin(const hf__cluster *c, hf__list_walk *listing);
const char *hf__cluster_list_at(const hf__list_walk *listing);

/* It was answered: the next goes on there, or elsewhere. */
void hf__cluster_listed(const hf__cluster *c, hf__list_walk *listing);

#endif
