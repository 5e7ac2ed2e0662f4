/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clocks that run too fast or too slow. The world has true time. A client's CLOCK_BOOTTIME and the
 * server's wall clock are linear functions of it.
 */
#ifndef SIM_WORLD_CLOCK_H
#define SIM_WORLD_CLOCK_H

#include "base/time.h"

typedef struct sim_clock {
    hf__time base; /* reading at the beginning of the world */
    int64_t ppm;   /* drift in millionths */
} sim_clock;

static inline hf__time sim_shows(const sim_clock *clock, hf__time t) {
    return clock->base + t + t * clock->ppm / 1000000;
}

/* Returns the first true time at which the clock shows `reading` or more; HF__NEVER stays
   HF__NEVER. */
static inline hf__time sim_moment(const sim_clock *clock, hf__time reading) {
    if (reading == HF__NEVER) return HF__NEVER;
    hf__time x = reading - clock->base;
    hf__time t = x - x * clock->ppm / (1000000 + clock->ppm);
    while (sim_shows(clock, t) < reading) t++;
    while (t > 0 && sim_shows(clock, t - 1) >= reading) t--;
    return t;
}

#endif
