/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A primary with two replicas, and three Sentinels that watch it: six real processes on this
 * machine. They fail over two or three seconds after a primary is killed or stopped. On a busy
 * machine they may disagree, or find no fit replica, and then start again after some seconds.
 */
#ifndef T_SENTINEL_H
#define T_SENTINEL_H

#include "t_redis.h"

enum { T_NODES = 3, T_SENTINELS = 3, T_FAILOVER_MS = 60000 };

#define T_PRIMARY "mymaster"

typedef struct t_sentinel t_sentinel;

/* Zero is the default of every field. */
typedef struct t_sentinel_options {
    const char *password;          /* of the nodes */
    const char *sentinel_password; /* of the Sentinels */
    const char
        *certificates; /* a directory with good.crt, good.key, ca.crt: all connections use TLS */
    const char *const *config; /* additional lines of the nodes' configuration */
} t_sentinel_options;

/* When this returns, all know each other. */
t_sentinel *t_sentinel_start(const t_sentinel_options *options);
void t_sentinel_free(t_sentinel *s); /* NULL is allowed */

/* "redis+sentinel://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3/mymaster", or "rediss+…" with TLS;
   without passwords. */
const char *t_sentinel_url(const t_sentinel *s);

t_redis *t_sentinel_node(const t_sentinel *s, int i);
t_redis *t_sentinel_watcher(const t_sentinel *s, int i);

/* The node that most Sentinels name and that says itself that it is primary; -1: none at the
   moment. */
int t_sentinel_primary(t_sentinel *s);

/* Wait until all Sentinels know each other and the same primary with its replicas, and the
   replicas are in sync with it. A failover would then find a fit replica. */
void t_sentinel_settled(t_sentinel *s);

/* Wait until the primary is another node than this one, which was killed or stopped. Returns it. */
int t_sentinel_failed_over(t_sentinel *s, int from);

/* After a killed or stopped node runs again: make it a replica of the primary, and wait until it
   is in sync. Sentinels would take long to do so. */
void t_sentinel_rejoined(t_sentinel *s, int i);

#endif
