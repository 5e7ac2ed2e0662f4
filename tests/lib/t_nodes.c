/* SPDX-License-Identifier: Apache-2.0 */
#include "t_nodes.h"

#include <stdio.h>
#include <stdlib.h>

#include "t_fail.h"
#include "t_time.h"

struct t_nodes {
    int count;
    t_redis *at[T_NODES_MAX];
    uint16_t ports[T_NODES_MAX];
    char url[64 + T_NODES_MAX * sizeof "127.0.0.1:65535,"];
};

t_nodes *t_nodes_start(int count, const t_redis_options *options) {
    T_CHECK(count > 0 && count <= T_NODES_MAX);
    t_nodes *n = calloc(1, sizeof *n);
    T_CHECK(n);
    n->count = count;
    for (int i = 0; i < count; i++) {
        n->at[i] = t_redis_start(options);
        n->ports[i] = t_redis_port(n->at[i]);
    }
    return n;
}

void t_nodes_free(t_nodes *n) {
    if (!n) return;
    for (int i = 0; i < n->count; i++) t_redis_free(n->at[i]);
    free(n);
}

t_redis *t_nodes_at(const t_nodes *n, int i) {
    return n->at[i];
}

const char *t_nodes_url(t_nodes *n, int count) {
    int used = snprintf(n->url, sizeof n->url, "redis+quorum://");
    T_CHECK(count <= n->count);
    for (int i = 0; i < count; i++)
        used += snprintf(n->url + used, sizeof n->url - (size_t)used, "%s127.0.0.1:%u",
                         i ? "," : "", n->ports[i]);
    return n->url;
}

void t_nodes_stand_in(t_nodes *n, int i, uint16_t port) {
    n->ports[i] = port ? port : t_redis_port(n->at[i]);
}

void t_nodes_grow_old(const t_nodes *n, int seconds) {
    for (int i = 0; i < n->count; i++)
        T_WAIT_UNTIL(t_redis_info(n->at[i], "uptime_in_seconds") >= seconds,
                     (seconds + 5) * INT64_C(1000));
}
