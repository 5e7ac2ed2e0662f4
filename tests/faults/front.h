/*
 * Another way to the server of a test: $HOLDFAST_FAULT_FRONT is `sentinel`, `cluster` or `tls`, and then clients reach
 * what they were to reach at redis:// through a Sentinel that names it, as a cluster of one node that has all slots, or over
 * TLS (with $HOLDFAST_FAULT_CERTIFICATES, a directory as of tests/tls/certificates). So the tests of faults are tests of these,
 * too: `make faults` runs them.
 */
#ifndef HF_FRONT_H
#define HF_FRONT_H

#include "t_redis.h"

/* A server for a test: with `cluster` a node of one. */
t_redis *front_server(const t_redis_options *options);

/* The URL that leads there; the same where there is no front. Lives until the next call. From the main thread. */
const char *front_url(const char *url);

/* All fronts are gone. */
void front_end(void);

#endif
