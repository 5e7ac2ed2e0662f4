/*
 * A primary with two replicas, and three Sentinels that watch it: six real processes of this machine.
 * They fail over within two or three seconds of a primary that is killed or stopped; but on a busy machine
 * they may disagree, or know of no replica that is fit, and then begin anew after some seconds.
 */
#ifndef T_SENTINEL_H
#define T_SENTINEL_H

#include "t_redis.h"

enum { T_NODES = 3, T_SENTINELS = 3, T_FAILOVER_MS = 60000 };

#define T_PRIMARY "mymaster"

typedef struct t_sentinel t_sentinel;

/* Zero is the default everywhere. */
typedef struct t_sentinel_options {
    const char *password;          /* of the nodes */
    const char *sentinel_password; /* of the Sentinels */
    const char *certificates;      /* a directory with good.crt, good.key, ca.crt: TLS to all */
    const char *const *config;     /* of the nodes, besides */
} t_sentinel_options;

/* All know of each other when this returns. */
t_sentinel *t_sentinel_start(const t_sentinel_options *options);
void t_sentinel_free(t_sentinel *s); /* NULL is allowed */

/* "redis+sentinel://127.0.0.1:1,127.0.0.1:2,127.0.0.1:3/mymaster", or with TLS "rediss+…": without
   passwords. */
const char *t_sentinel_url(const t_sentinel *s);

t_redis *t_sentinel_node(const t_sentinel *s, int i);
t_redis *t_sentinel_watcher(const t_sentinel *s, int i);

/* The node that most of the Sentinels name, and which says so itself; -1: there is none just now. */
int t_sentinel_primary(t_sentinel *s);

/* All Sentinels know of each other, and of the same primary with its replicas, which are in sync with it:
   a failover would find one that is fit. */
void t_sentinel_settled(t_sentinel *s);

/* Wait until it is another node than this, which was killed or stopped; that other. */
int t_sentinel_failed_over(t_sentinel *s, int from);

/* A node that was killed or stopped runs again: make it a replica of the primary, which the Sentinels take
   their time for, and wait until it is in sync. */
void t_sentinel_rejoined(t_sentinel *s, int i);

#endif
