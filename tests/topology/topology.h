/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kinds of deployments, and the faults of each, while many clients want one lock: see torture.c. A
 * new deployment is one file and one row in the table there.
 */
#ifndef HF_TOPOLOGY_H
#define HF_TOPOLOGY_H

#include "t.h"

/* Causes one fault. The servers are complete again when it returns. */
typedef void topology_fault(void);

typedef struct topology {
    const char *name;
    const char *options;           /* of its URL, unless others are given */
    const char *(*start)(void);    /* its URL, without options */
    topology_fault *const *faults; /* ends with NULL; an entry listed twice runs twice as often */
    void (*end)(void);
} topology;

extern const topology topology_single, topology_tls, topology_sentinel, topology_quorum;

/* Prints which fault happened where, with the time. */
T_PRINTF(1, 2) void print_fault(const char *format, ...);

/* A random number from the run's seed, below `below`. */
int random_below(int below);

#endif
