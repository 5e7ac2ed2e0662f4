/* SPDX-License-Identifier: Apache-2.0 */
/* Limits of the simulated world. */
#ifndef SIM_WORLD_SIZES_H
#define SIM_WORLD_SIZES_H

enum {
    SIM_CLIENTS = 5,
    SIM_SLOTS = SIM_CLIENTS + 1, /* with the newcomer at the end: see world.c */
    SIM_CALLERS = 4,             /* per client */
    SIM_HOLDS = 12,              /* per client */
    SIM_NAMES = 3,
    SIM_LEASES = 3
};

#endif
