/*
 * Ways to run servers, and what can be done to each while a crowd wants one lock: see torture.c. Another
 * one is a file and a row in the table there.
 */
#ifndef HF_TOPOLOGY_H
#define HF_TOPOLOGY_H

#include "t.h"

/* Something is done to a server, or several; all is complete again when it returns. */
typedef void topology_deed(void);

typedef struct topology {
    const char *name;
    const char *options;        /* of its URL, unless others are given */
    const char *(*start)(void); /* its URL, without options */
    topology_deed *const
        *deeds; /* ends with NULL; what stands there twice is done twice as often */
    void (*end)(void);
} topology;

extern const topology topology_single, topology_tls, topology_sentinel, topology_quorum;

/* Print what was done to whom, and when. */
T_PRINTF(1, 2) void say(const char *format, ...);

/* Chance, by the run's seed. */
int chance(int below);

#endif
