/* SPDX-License-Identifier: Apache-2.0 */
/* The servers or directories that the lock is in: see run.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"
#include "t.h"

#define OPTIONS "?lease=2s&outage=30s"

enum { NODES = 3, YOUNG_S = 4 /* the lease, a second that is not counted, and one for rounding */ };

static char url[2048];
static t_redis *redis;
static t_sentinel *sentinels;
static t_cluster *cluster;
static t_nodes *nodes;
static char directory[] = "/tmp/hf-lostupdate-XXXXXX";

static const char *with_options(const char *base) {
    snprintf(url, sizeof url, "%s" OPTIONS, base);
    return url;
}

static const char *start_single(void) {
    redis = t_redis_start(NULL);
    return with_options(t_redis_url(redis));
}

static void end_single(void) {
    t_redis_free(redis);
}

static const char *start_sentinel(void) {
    sentinels = t_sentinel_start(NULL);
    return with_options(t_sentinel_url(sentinels));
}

static void end_sentinel(void) {
    t_sentinel_free(sentinels);
}

static const char *start_cluster(void) {
    cluster = t_cluster_start(NULL);
    return with_options(t_cluster_url(cluster));
}

static void end_cluster(void) {
    t_cluster_free(cluster);
}

static const char *start_quorum(void) {
    nodes = t_nodes_start(NODES, NULL);
    t_nodes_grow_old(nodes, YOUNG_S);
    with_options(t_nodes_url(nodes, NODES));
    return strcat(url, "&rejoin_delay=2s"); /* the lease */
}

static void end_quorum(void) {
    t_nodes_free(nodes);
}

static const char *start_file(void) {
    char base[64];
    if (!mkdtemp(directory)) t_fail("cannot create a directory");
    snprintf(base, sizeof base, "file://%s", directory);
    snprintf(url, sizeof url, "%s?lease=2s", base);
    return url;
}

static void end_file(void) {
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", directory);
    if (system(command) != 0) t_fail("cannot run: %s", command);
}

const place places[] = {
    {"single", start_single, end_single},    {"sentinel", start_sentinel, end_sentinel},
    {"cluster", start_cluster, end_cluster}, {"quorum", start_quorum, end_quorum},
    {"file", start_file, end_file},          {NULL, NULL, NULL}};
