/* SPDX-License-Identifier: Apache-2.0 */
/* A scheduled event: a function that is called at a moment of true time. */
#ifndef SIM_WORLD_EVENT_H
#define SIM_WORLD_EVENT_H

#include "base/heap.h"

typedef struct sim_world sim_world;

typedef struct sim_event {
    hf__timer timer; /* must be first */
    void (*fn)(void *arg);
    void *arg;
} sim_event;

/* Schedules the event, or reschedules it. HF__NEVER cancels it. */
void sim_at(sim_world *world, sim_event *event, hf__time at);

#endif
