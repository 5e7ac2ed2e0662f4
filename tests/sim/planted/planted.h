/* SPDX-License-Identifier: Apache-2.0 */
/* The bugs that can be planted: see bugs.py. */
#ifndef SIM_PLANTED_PLANTED_H
#define SIM_PLANTED_PLANTED_H

#include "model/lua.h"

typedef struct sim_bug {
    const char *name;
    rm_rewrite lua; /* all NULL: the bug is in C */
    uint64_t first; /* the seed to start with */
} sim_bug;

extern const sim_bug sim_bugs[]; /* ends with a NULL name */

/* The planted bug: 1 is the first, 0 is none. */
extern int sim_planted;

#endif
