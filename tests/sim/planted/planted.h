/* The bugs that can be planted: see bugs.py. */
#ifndef SIM_PLANTED_PLANTED_H
#define SIM_PLANTED_PLANTED_H

#include "model/lua.h"

typedef struct sim_bug {
    const char *name;
    rm_rewrite lua; /* all NULL: it is in C */
    uint64_t first; /* the seed to begin with */
} sim_bug;

extern const sim_bug sim_bugs[]; /* ends with a NULL name */

/* Which one is planted: 1 for the first, 0 for none. */
extern int sim_planted;

#endif
