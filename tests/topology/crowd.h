/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many clients want one lock while nodes fail. Records who was inside with whom, and under which
 * token. Nobody may be inside while another hold is valid by its own deadline. Tokens grow, and all
 * clients are served.
 */
#ifndef HF_TOPOLOGY_CROWD_H
#define HF_TOPOLOGY_CROWD_H

#include <pthread.h>
#include <stdatomic.h>

#include "t.h"

enum { CROWD_CLIENTS = 4, CROWD_THREADS = 8 };

typedef struct topology_crowd {
    hf_client *clients[CROWD_CLIENTS];
    t_threads *threads;
    int wanted; /* number of acquires, of all clients together */
    int inside_ms;
    atomic_int begun, served, lost, troubled;
    atomic_int overlaps, backwards; /* violations: both must stay 0 */
    pthread_mutex_t mutex;
    hf_hold *inside;
    uint64_t token;
} topology_crowd;

void crowd_start(topology_crowd *c, const char *url, int wanted, int inside_ms);

/* Waits until at least `served` acquires were served. */
void crowd_await(topology_crowd *c, int served, int64_t deadline_ms);

/* Waits until all were served, and checks the rules. */
void crowd_end(topology_crowd *c, int64_t deadline_ms);

#endif
