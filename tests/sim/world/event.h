/* What is going to happen: a function of the world, at a moment of true time. */
#ifndef SIM_WORLD_EVENT_H
#define SIM_WORLD_EVENT_H

#include "base/heap.h"

typedef struct sim_world sim_world;

typedef struct sim_event {
    hf__timer timer; /* first */
    void (*fn)(void *arg);
    void *arg;
} sim_event;

/* Plan it; anew, if it is planned. HF__NEVER: not at all. */
void sim_at(sim_world *world, sim_event *event, hf__time at);

#endif
