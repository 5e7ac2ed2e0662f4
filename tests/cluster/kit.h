/* What tests of a cluster share: one that lasts for the program, clients of it, and waits on threads of their own. */
#ifndef HF_CLUSTER_KIT_H
#define HF_CLUSTER_KIT_H

#include <stdbool.h>

#include "t.h"

enum { SOON_MS = 20000, LEASE_MS = 180000, NAME = 64 };

extern t_cluster *cluster;

/* For cmocka: start it without failovers of its own, and end it. */
int kit_start(void **state);
int kit_end(void **state);

hf_client *kit_open(const char *options); /* "" or "lease=1s&…" */

/* A name of a node's, and one that is free: each call gives another. */
const char *kit_name(int node);

hf_hold *kit_take(hf_client *client, const char *name, const hf_options *options);

/* An acquire on a thread of its own. */
typedef struct cluster_wait {
    hf_client *client;
    const char *name;
    hf_options options;
    hf_hold *hold;
    hf_result result;
    char detail[256];
    t_threads *thread;
} cluster_wait;

/* Begun, and standing in the line of the node, as the `place`th. */
void kit_begin(cluster_wait *w, hf_client *client, const char *name, const hf_options *options);
void kit_in_line(int node, const char *name, int place);
hf_result kit_end_wait(cluster_wait *w);

/* A key of a name at a node: whether it is there. And how many listen there to what is said of a name. */
bool kit_has(int node, const char *name);
int kit_listeners(int node, const char *name);

/* How many errors of this kind ("MOVED") a node has given. */
int64_t kit_errors(int node, const char *kind);

#endif
