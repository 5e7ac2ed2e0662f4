/*
 * Many who want a few locks, each on a node of its own, while nodes fail: who was inside with whom, and under which token.
 * Nobody may be inside while another's hold is good by its own deadline, tokens grow, and all are served.
 */
#ifndef HF_CLUSTER_CROWD_H
#define HF_CLUSTER_CROWD_H

#include <pthread.h>
#include <stdatomic.h>

#include "kit.h"

enum { CROWD_CLIENTS = 4, CROWD_THREADS = 9, CROWD_ROOMS = 3 };

typedef struct crowd_room {
    char name[NAME];
    uint32_t kind; /* of every hold there: one that excludes all others */
    pthread_mutex_t mutex;
    hf_hold *inside;
    uint64_t token;
} crowd_room;

typedef struct crowd {
    hf_client *clients[CROWD_CLIENTS];
    crowd_room rooms[CROWD_ROOMS];
    t_threads *threads;
    atomic_int wanted; /* acquisitions, of all together */
    int inside_ms;
    atomic_int begun, served, lost, troubled, unknown;
    atomic_int overlaps, backwards; /* what must not be */
} crowd;

/* `kinds`: of each room, or NULL for mutexes. */
void crowd_start(crowd *c, const char *options, const uint32_t *kinds, int wanted, int inside_ms);

/* So many were served, or more. */
void crowd_await(crowd *c, int served, int64_t deadline_ms);

/* Begin no more acquisitions: those that have begun are the ones that are wanted. */
void crowd_stop(crowd *c);

/* All were; and as it must be. */
void crowd_end(crowd *c, int64_t deadline_ms);

#endif
