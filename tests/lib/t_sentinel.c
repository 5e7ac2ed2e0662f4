/* SPDX-License-Identifier: Apache-2.0 */
/* See t_sentinel.h. */
#include "t_sentinel.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "t_net.h"
#include "t_time.h"

#define LINE 512

struct t_sentinel {
    t_redis *nodes[T_NODES], *watchers[T_SENTINELS];
    uint16_t ports[T_NODES]; /* for clients; with TLS they differ from t_redis_port */
    char url[LINE];
};

/* ---- Starting -------------------------------------------------------------------------------- */

enum { LINES = 24 };

typedef struct sentinel_config {
    char text[LINES][LINE];
    const char *list[LINES + 1];
    int count;
} sentinel_config;

T_PRINTF(2, 3) static void add_config_line(sentinel_config *l, const char *format, ...) {
    va_list args;
    if (l->count == LINES) t_fail("too many lines of configuration");
    va_start(args, format);
    vsnprintf(l->text[l->count], LINE, format, args);
    va_end(args);
    l->list[l->count] = l->text[l->count];
    l->count++;
}

static void add_tls_config(sentinel_config *l, const t_sentinel_options *o, uint16_t port) {
    if (!o->certificates) return;
    add_config_line(l, "tls-port %u", port);
    add_config_line(l, "tls-cert-file %s/good.crt", o->certificates);
    add_config_line(l, "tls-key-file %s/good.key", o->certificates);
    add_config_line(l, "tls-ca-cert-file %s/ca.crt", o->certificates);
    add_config_line(l, "tls-auth-clients no");
    add_config_line(l, "tls-replication yes");
}

static void start_node(t_sentinel *s, int i, const t_sentinel_options *o) {
    sentinel_config l = {.count = 0};
    s->ports[i] = t_net_free_port();
    add_tls_config(&l, o, s->ports[i]);
    add_config_line(&l, "repl-diskless-sync-delay 0");
    add_config_line(&l, "repl-backlog-size 4mb");
    if (o->password) add_config_line(&l, "masterauth %s", o->password);
    if (i) add_config_line(&l, "replicaof " T_HOST " %u", s->ports[0]);
    for (int k = 0; o->config && o->config[k]; k++) add_config_line(&l, "%s", o->config[k]);
    t_redis_options options = {.requirepass = o->password, .config = l.list};
    if (!o->certificates) options.port = s->ports[i];
    s->nodes[i] = t_redis_start(&options);
}

static void start_watcher(t_sentinel *s, int i, const t_sentinel_options *o) {
    sentinel_config l = {.count = 0};
    uint16_t port = t_net_free_port();
    add_tls_config(&l, o, port);
    add_config_line(&l, "sentinel monitor " T_PRIMARY " " T_HOST " %u 2", s->ports[0]);
    add_config_line(&l, "sentinel down-after-milliseconds " T_PRIMARY " 1200");
    add_config_line(&l, "sentinel failover-timeout " T_PRIMARY " 2000");
    add_config_line(&l, "sentinel parallel-syncs " T_PRIMARY " 2");
    if (o->password) add_config_line(&l, "sentinel auth-pass " T_PRIMARY " %s", o->password);
    if (o->sentinel_password)
        add_config_line(&l, "sentinel sentinel-pass %s", o->sentinel_password);
    t_redis_options options = {
        .sentinel = true, .requirepass = o->sentinel_password, .config = l.list};
    if (!o->certificates) options.port = port;
    s->watchers[i] = t_redis_start(&options);
    size_t used = strlen(s->url);
    snprintf(s->url + used, sizeof s->url - used, "%s" T_HOST ":%u", i ? "," : "", port);
}

/* ---- Inspecting ------------------------------------------------------------------------------ */

/* A field of a Sentinel's report on the primary; NULL if there is no valid answer. */
static const char *field_of(t_redis *watcher, const char *name, char value[LINE]) {
    redisReply *reply = t_redis_try(watcher, "SENTINEL MASTER " T_PRIMARY);
    const char *found = NULL;
    for (size_t i = 0; reply && reply->type == REDIS_REPLY_ARRAY && i + 1 < reply->elements;
         i += 2) {
        if (strcmp(reply->element[i]->str, name) != 0) continue;
        snprintf(value, LINE, "%s", reply->element[i + 1]->str);
        found = value;
    }
    if (reply) freeReplyObject(reply);
    return found;
}

static bool has_field(t_redis *watcher, const char *name, const char *expected) {
    char value[LINE];
    const char *said = field_of(watcher, name, value);
    return said && !strcmp(said, expected);
}

static bool all_known(t_sentinel *s) {
    for (int i = 0; i < T_SENTINELS; i++) {
        if (!has_field(s->watchers[i], "num-slaves", "2")) return false;
        if (!has_field(s->watchers[i], "num-other-sentinels", "2")) return false;
    }
    return true;
}

static bool is_primary(t_redis *node) {
    redisReply *reply = t_redis_try(node, "ROLE");
    bool said = reply && reply->type == REDIS_REPLY_ARRAY;
    bool primary = said && !strcmp(reply->element[0]->str, "master");
    if (reply) freeReplyObject(reply);
    return primary;
}

static const char *text_of(const redisReply *pairs, const char *name) {
    for (size_t i = 0; i + 1 < pairs->elements; i += 2)
        if (!strcmp(pairs->element[i]->str, name)) return pairs->element[i + 1]->str;
    return "";
}

/* Whether it considers every replica fit for promotion. */
static bool has_replicas(t_redis *watcher) {
    redisReply *reply = t_redis_try(watcher, "SENTINEL REPLICAS " T_PRIMARY);
    size_t fit = 0;
    for (size_t i = 0; reply && reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++)
        fit += !strcmp(text_of(reply->element[i], "flags"), "slave") &&
               !strcmp(text_of(reply->element[i], "master-link-status"), "ok");
    if (reply) freeReplyObject(reply);
    return fit == T_NODES - 1;
}

static int node_at(const t_sentinel *s, const char *port) {
    for (int i = 0; i < T_NODES; i++)
        if (s->ports[i] == (uint16_t)strtoul(port, NULL, 10)) return i;
    return -1;
}

int t_sentinel_primary(t_sentinel *s) {
    int votes[T_NODES] = {0};
    for (int i = 0; i < T_SENTINELS; i++) {
        char port[LINE];
        if (!t_redis_pid(s->watchers[i])) continue;
        const char *said = field_of(s->watchers[i], "port", port);
        int node = said ? node_at(s, said) : -1;
        if (node >= 0 && ++votes[node] > T_SENTINELS / 2) return node;
    }
    return -1;
}

static bool is_settled(t_sentinel *s) {
    int primary = t_sentinel_primary(s);
    bool all = primary >= 0 && all_known(s);
    for (int i = 0; all && i < T_SENTINELS; i++) {
        char port[LINE];
        const char *said = field_of(s->watchers[i], "port", port);
        all = said && node_at(s, said) == primary && has_field(s->watchers[i], "flags", "master") &&
              has_replicas(s->watchers[i]);
    }
    return all;
}

void t_sentinel_settled(t_sentinel *s) {
    T_WAIT_UNTIL(is_settled(s), 2 * T_FAILOVER_MS);
}

int t_sentinel_failed_over(t_sentinel *s, int from) {
    int to;
    T_WAIT_UNTIL((to = t_sentinel_primary(s)) >= 0 && to != from && is_primary(s->nodes[to]),
                 T_FAILOVER_MS);
    return to;
}

static bool in_sync(t_sentinel *s, int i) {
    int primary = t_sentinel_primary(s);
    if (primary >= 0 && primary != i && is_primary(s->nodes[i]))
        freeReplyObject(t_redis_cmd(s->nodes[i], "REPLICAOF " T_HOST " %d", s->ports[primary]));
    redisReply *reply = t_redis_try(s->nodes[i], "ROLE");
    bool synced = reply && reply->type == REDIS_REPLY_ARRAY && reply->elements > 3 &&
                  !strcmp(reply->element[0]->str, "slave") &&
                  !strcmp(reply->element[3]->str, "connected");
    if (reply) freeReplyObject(reply);
    return synced && i != primary;
}

void t_sentinel_rejoined(t_sentinel *s, int i) {
    T_WAIT_UNTIL(in_sync(s, i), 2 * T_FAILOVER_MS);
}

/* ---- Start and end --------------------------------------------------------------------------- */

t_sentinel *t_sentinel_start(const t_sentinel_options *options) {
    (void)signal(SIGPIPE, SIG_IGN); /* hiredis writes to connections that a node has closed */
    t_sentinel *s = calloc(1, sizeof *s);
    const t_sentinel_options none = {0}, *o = options ? options : &none;
    if (!s) t_fail("out of memory");
    for (int i = 0; i < T_NODES; i++) start_node(s, i, o);
    for (int i = 1; i < T_NODES; i++) T_WAIT_UNTIL(!is_primary(s->nodes[i]), 5000);
    T_WAIT_UNTIL(t_redis_info(s->nodes[0], "connected_slaves") == T_NODES - 1, 10000);
    snprintf(s->url, sizeof s->url, "redis%s+sentinel://", o->certificates ? "s" : "");
    for (int i = 0; i < T_SENTINELS; i++) start_watcher(s, i, o);
    strncat(s->url, "/" T_PRIMARY, sizeof s->url - strlen(s->url) - 1);
    T_WAIT_UNTIL(all_known(s), T_FAILOVER_MS);
    return s;
}

void t_sentinel_free(t_sentinel *s) {
    if (!s) return;
    for (int i = 0; i < T_SENTINELS; i++) t_redis_free(s->watchers[i]);
    for (int i = 0; i < T_NODES; i++) t_redis_free(s->nodes[i]);
    free(s);
}

const char *t_sentinel_url(const t_sentinel *s) {
    return s->url;
}

t_redis *t_sentinel_node(const t_sentinel *s, int i) {
    return s->nodes[i];
}

t_redis *t_sentinel_watcher(const t_sentinel *s, int i) {
    return s->watchers[i];
}
