/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the tests of a cluster: one cluster for the whole program, clients of it, and waits in
   threads of their own. */
#ifndef HF_CLUSTER_KIT_H
#define HF_CLUSTER_KIT_H

#include <stdbool.h>

#include "t.h"

enum { SOON_MS = 20000, LEASE_MS = 180000, NAME = 64 };

extern t_cluster *cluster;

/* For cmocka: start a cluster without automatic failovers, and end it. */
int kit_start(void **state);
int kit_end(void **state);

hf_client *kit_open(const char *options); /* "" or "lease=1s&…" */

/* A name whose slot is on this node. Each call returns a new one. */
const char *kit_name(int node);

hf_hold *kit_take(hf_client *client, const char *name, const hf_options *options);

/* An acquire in a thread of its own. */
typedef struct cluster_wait {
    hf_client *client;
    const char *name;
    hf_options options;
    hf_hold *hold;
    hf_result result;
    char detail[256];
    t_threads *thread;
} cluster_wait;

/* Begins it; waits until it is in the node's queue, at this position. */
void kit_begin(cluster_wait *w, hf_client *client, const char *name, const hf_options *options);
void kit_await_queued(int node, const char *name, int place);
hf_result kit_end_wait(cluster_wait *w);

/* Whether the node has the lock's key; the number of subscribers there for this name. */
bool kit_has(int node, const char *name);
int kit_subscribers(int node, const char *name);

/* How many errors of this kind ("MOVED") a node has returned. */
int64_t kit_errors(int node, const char *kind);

#endif
