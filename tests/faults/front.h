/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the tests of faults over another kind of connection. $HOLDFAST_FAULT_FRONT is `sentinel`,
 * `cluster` or `tls`. Clients that would use redis:// then go through a Sentinel that names the
 * server, or to a cluster of one node with all slots, or over TLS. TLS needs
 * $HOLDFAST_FAULT_CERTIFICATES, a directory as made by tests/tls/certificates. `make faults` runs
 * all of them.
 */
#ifndef HF_FRONT_H
#define HF_FRONT_H

#include "t_redis.h"

/* Starts a server for a test. With `cluster` it is the only node of a cluster. */
t_redis *front_server(const t_redis_options *options);

/* The URL to use instead; unchanged if there is no front. Valid until the next call. Main thread
   only. */
const char *front_url(const char *url);

/* Ends all fronts. */
void front_end(void);

#endif
