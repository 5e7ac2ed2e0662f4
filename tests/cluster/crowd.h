/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many clients want a few locks, each on a node of its own, while nodes fail. Records who was
 * inside with whom, and under which token. Nobody may be inside while another hold is valid by its
 * own deadline. Tokens grow, and all clients are served.
 */
#ifndef HF_CLUSTER_CROWD_H
#define HF_CLUSTER_CROWD_H

#include <pthread.h>
#include <stdatomic.h>

#include "kit.h"

enum { CROWD_CLIENTS = 4, CROWD_THREADS = 9, CROWD_LOCKS = 3 };

typedef struct crowd_lock {
    char name[NAME];
    uint32_t kind; /* of every hold of this lock: a kind that excludes all others */
    pthread_mutex_t mutex;
    hf_hold *inside;
    uint64_t token;
} crowd_lock;

typedef struct cluster_crowd {
    hf_client *clients[CROWD_CLIENTS];
    crowd_lock locks[CROWD_LOCKS];
    t_threads *threads;
    atomic_int wanted; /* number of acquires, of all clients together */
    int inside_ms;
    atomic_int begun, served, lost, troubled, unknown;
    atomic_int overlaps, backwards; /* violations: both must stay 0 */
} cluster_crowd;

/* `kinds`: one per lock, or NULL for mutexes. */
void crowd_start(cluster_crowd *c, const char *options, const uint32_t *kinds, int wanted,
                 int inside_ms);

/* Waits until at least `served` acquires were served. */
void crowd_await(cluster_crowd *c, int served, int64_t deadline_ms);

/* Begins no more acquires. Those that have begun must still be served. */
void crowd_stop(cluster_crowd *c);

/* Waits until all were served, and checks the rules. */
void crowd_end(cluster_crowd *c, int64_t deadline_ms);

#endif
