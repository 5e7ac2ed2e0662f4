/*
 * Many who want one lock while nodes fail: who was inside with whom, and under which token. Nobody may be
 * inside while another's hold is good by its own deadline, tokens grow, and all are served.
 */
#ifndef HF_TOPOLOGY_CROWD_H
#define HF_TOPOLOGY_CROWD_H

#include <pthread.h>
#include <stdatomic.h>

#include "t.h"

enum { CROWD_CLIENTS = 4, CROWD_THREADS = 8 };

typedef struct crowd {
    hf_client *clients[CROWD_CLIENTS];
    t_threads *threads;
    int wanted; /* acquisitions, of all together */
    int inside_ms;
    atomic_int begun, served, lost, troubled;
    atomic_int overlaps, backwards; /* what must not be */
    pthread_mutex_t mutex;
    hf_hold *inside;
    uint64_t token;
} crowd;

void crowd_start(crowd *c, const char *url, int wanted, int inside_ms);

/* So many were served, or more. */
void crowd_await(crowd *c, int served, int64_t deadline_ms);

/* All were; and as it must be. */
void crowd_end(crowd *c, int64_t deadline_ms);

#endif
