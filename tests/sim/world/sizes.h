/* How much there is of everything, at most. */
#ifndef SIM_WORLD_SIZES_H
#define SIM_WORLD_SIZES_H

enum {
    SIM_CLIENTS = 5,
    SIM_SLOTS = SIM_CLIENTS + 1, /* with the one that comes last: see world.c */
    SIM_CALLERS = 4,             /* of a client */
    SIM_HOLDS = 12,              /* of a client */
    SIM_NAMES = 3,
    SIM_LEASES = 3
};

#endif
