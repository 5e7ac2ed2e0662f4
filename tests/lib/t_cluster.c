/* SPDX-License-Identifier: Apache-2.0 */
/* See t_cluster.h. */
#include "t_cluster.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "t_net.h"
#include "t_time.h"

enum { LINE = 512, LINES = 24, ID = 41, NEVER_MS = 600000 };

struct t_cluster {
    t_redis *nodes[T_MEMBERS];
    uint16_t ports[T_MEMBERS]; /* for clients; with TLS they differ from t_redis_port */
    uint16_t buses[T_MEMBERS]; /* for the cluster bus */
    bool old;                  /* Redis 6 and older */
    char ids[T_MEMBERS][ID];
    int count;
    char url[LINE];
};

/* ---- Starting -------------------------------------------------------------------------------- */

typedef struct cluster_config {
    char text[LINES][LINE];
    const char *list[LINES + 1];
    int count;
} cluster_config;

T_PRINTF(2, 3) static void add_config_line(cluster_config *l, const char *format, ...) {
    va_list args;
    if (l->count == LINES) t_fail("too many lines of configuration");
    va_start(args, format);
    vsnprintf(l->text[l->count], LINE, format, args);
    va_end(args);
    l->list[l->count] = l->text[l->count];
    l->count++;
}

static void add_tls_config(cluster_config *l, const char *certificates, uint16_t port) {
    add_config_line(l, "tls-port %u", port);
    add_config_line(l, "tls-cert-file %s/good.crt", certificates);
    add_config_line(l, "tls-key-file %s/good.key", certificates);
    add_config_line(l, "tls-ca-cert-file %s/ca.crt", certificates);
    add_config_line(l, "tls-auth-clients no");
    add_config_line(l, "tls-replication yes");
    add_config_line(l, "tls-cluster yes");
}

static bool is_old(void) {
    t_redis *redis = t_redis_start(NULL);
    bool old = !t_redis_knows(redis, "ssubscribe");
    t_redis_free(redis);
    return old;
}

static void start_node(t_cluster *c, int i, const t_cluster_options *o) {
    cluster_config l = {.count = 0};
    uint16_t tls_port = o->certificates ? t_net_free_port() : 0;
    if (tls_port) add_tls_config(&l, o->certificates, tls_port);
    /* Chosen here: the port that the server would choose may be in use by an outgoing
       connection. */
    c->buses[i] = c->old ? 0 : t_net_free_port();
    if (c->buses[i]) add_config_line(&l, "cluster-port %u", c->buses[i]);
    add_config_line(&l, "cluster-enabled yes");
    add_config_line(&l, "cluster-node-timeout %d",
                    o->node_timeout_ms ? o->node_timeout_ms : NEVER_MS);
    add_config_line(&l, "repl-diskless-sync-delay 0");
    add_config_line(&l, "repl-backlog-size 4mb");
    if (o->password) add_config_line(&l, "masterauth %s", o->password);
    for (int k = 0; o->config && o->config[k]; k++) add_config_line(&l, "%s", o->config[k]);
    c->nodes[i] = t_redis_start(&(t_redis_options){.requirepass = o->password, .config = l.list});
    c->ports[i] = tls_port ? tls_port : t_redis_port(c->nodes[i]);
    if (c->old) c->buses[i] = (uint16_t)(c->ports[i] + 10000);
    snprintf(c->ids[i], ID, "%s", t_redis_str(c->nodes[i], "CLUSTER MYID"));
}

T_PRINTF(2, 3) static void run(t_redis *node, const char *format, ...) {
    char line[LINE];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    redisReply *reply = t_redis_cmd(node, line);
    if (reply->type == REDIS_REPLY_ERROR) t_fail("`%s`: %s", line, reply->str);
    freeReplyObject(reply);
}

/* ---- Looking --------------------------------------------------------------------------------- */

/* Whether a field of CLUSTER INFO has this value. */
static bool has_info(t_redis *node, const char *expected) {
    redisReply *reply = t_redis_try(node, "CLUSTER INFO");
    bool found = reply && reply->type == REDIS_REPLY_STRING && strstr(reply->str, expected);
    if (reply) freeReplyObject(reply);
    return found;
}

static int node_at(const t_cluster *c, const char *id) {
    for (int i = 0; i < c->count; i++)
        if (!strncmp(c->ids[i], id, ID - 1)) return i;
    return -1;
}

/* The owner of a slot, according to one node. */
static int owner_by(t_cluster *c, int node, int slot) {
    redisReply *reply = t_redis_try(c->nodes[node], "CLUSTER SLOTS");
    int owner = -1;
    for (size_t i = 0; reply && reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++) {
        const redisReply *range = reply->element[i];
        if (slot >= range->element[0]->integer && slot <= range->element[1]->integer)
            owner = node_at(c, range->element[2]->element[2]->str);
    }
    if (reply) freeReplyObject(reply);
    return owner;
}

/* Whether the role is "slave" and the link "connected", or the role is "master". */
static bool has_role(t_redis *node, const char *role) {
    redisReply *reply = t_redis_try(node, "ROLE");
    bool good = reply && reply->type == REDIS_REPLY_ARRAY && !strcmp(reply->element[0]->str, role);
    if (good && !strcmp(role, "slave")) good = !strcmp(reply->element[3]->str, "connected");
    if (reply) freeReplyObject(reply);
    return good;
}

int t_cluster_owner(t_cluster *c, int slot) {
    int votes[T_MEMBERS] = {0}, alive = 0, best = -1;
    for (int i = 0; i < c->count; i++) {
        if (!t_redis_pid(c->nodes[i])) continue;
        int owner = owner_by(c, i, slot);
        alive++;
        if (owner >= 0 && ++votes[owner] && (best < 0 || votes[owner] > votes[best])) best = owner;
    }
    bool agreed = best >= 0 && votes[best] > alive / 2 && t_redis_pid(c->nodes[best]);
    return agreed && owner_by(c, best, slot) == best && has_role(c->nodes[best], "master") ? best
                                                                                           : -1;
}

static bool all_agree(t_cluster *c) {
    static const int slots[] = {0, T_SLOTS / 2, T_SLOTS - 1};
    for (int i = 0; i < c->count; i++) {
        if (!has_info(c->nodes[i], "cluster_state:ok")) return false;
        if (!has_role(c->nodes[i], "master") && !has_role(c->nodes[i], "slave")) return false;
        for (int k = 0; k < 3; k++)
            if (owner_by(c, i, slots[k]) != owner_by(c, 0, slots[k])) return false;
    }
    return true;
}

void t_cluster_settled(t_cluster *c) {
    T_WAIT_UNTIL(all_agree(c), T_CLUSTER_MS);
}

/* ---- Its life -------------------------------------------------------------------------------- */

static bool all_met(t_cluster *c) {
    char expected[64];
    snprintf(expected, sizeof expected, "cluster_known_nodes:%d\r", c->count);
    for (int i = 0; i < c->count; i++)
        if (!has_info(c->nodes[i], expected)) return false;
    return true;
}

/* Introduce every node to every other node: gossip would take seconds. */
static void introduce_nodes(t_cluster *c) {
    for (int i = 0; i < c->count; i++) run(c->nodes[i], "CLUSTER SET-CONFIG-EPOCH %d", i + 1);
    for (int i = 0; i < c->count; i++) {
        for (int k = 0; k < c->count; k++)
            if (k != i) run(c->nodes[i], "CLUSTER MEET " T_HOST " %u %u", c->ports[k], c->buses[k]);
    }
    T_WAIT_UNTIL(all_met(c), T_CLUSTER_MS);
}

/* A new node has a temporary id at first, and is known by it for a moment. */
static bool try_replicate(t_cluster *c, int replica, int primary) {
    redisReply *reply = t_redis_cmd(c->nodes[replica], "CLUSTER REPLICATE %s", c->ids[primary]);
    bool done = reply->type == REDIS_REPLY_STATUS;
    freeReplyObject(reply);
    return done;
}

static void share_out(t_cluster *c) {
    static char line[T_SLOTS * sizeof " 12345"];
    for (int i = 0; i < T_PRIMARIES; i++) {
        int used = snprintf(line, sizeof line, "CLUSTER ADDSLOTS");
        for (int k = i * T_SLOTS / T_PRIMARIES; k < (i + 1) * T_SLOTS / T_PRIMARIES; k++)
            used += snprintf(line + used, sizeof line - (size_t)used, " %d", k);
        redisReply *reply = t_redis_cmd(c->nodes[i], line);
        if (reply->type == REDIS_REPLY_ERROR) t_fail("CLUSTER ADDSLOTS: %s", reply->str);
        freeReplyObject(reply);
    }
}

t_cluster *t_cluster_start(const t_cluster_options *options) {
    (void)signal(SIGPIPE, SIG_IGN); /* hiredis writes to connections that a node has closed */
    const t_cluster_options none = {0}, *o = options ? options : &none;
    t_cluster *c = calloc(1, sizeof *c);
    if (!c) t_fail("out of memory");
    c->count = o->alone ? T_PRIMARIES : T_MEMBERS;
    c->old = is_old();
    for (int i = 0; i < c->count; i++) start_node(c, i, o);
    share_out(c);
    introduce_nodes(c);
    for (int i = T_PRIMARIES; i < c->count; i++)
        T_WAIT_UNTIL(try_replicate(c, i, i - T_PRIMARIES), T_CLUSTER_MS);
    snprintf(c->url, sizeof c->url, "redis%s+cluster://" T_HOST ":%u," T_HOST ":%u," T_HOST ":%u",
             o->certificates ? "s" : "", c->ports[0], c->ports[1], c->ports[2]);
    t_cluster_settled(c);
    return c;
}

void t_cluster_free(t_cluster *c) {
    if (!c) return;
    for (int i = 0; i < c->count; i++) t_redis_free(c->nodes[i]);
    free(c);
}

const char *t_cluster_url(const t_cluster *c) {
    return c->url;
}

int t_cluster_size(const t_cluster *c) {
    return c->count;
}

t_redis *t_cluster_node(const t_cluster *c, int i) {
    return c->nodes[i];
}

uint16_t t_cluster_port(const t_cluster *c, int i) {
    return c->ports[i];
}

/* ---- Names and slots ------------------------------------------------------------------------- */

/* Bit by bit, so that the code differs from the library's. */
int t_cluster_slot(const char *name) {
    unsigned crc = 0;
    for (; *name; name++) {
        crc ^= (unsigned)(unsigned char)*name << 8;
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 0x8000 ? (crc << 1 ^ 0x1021) & 0xffff : crc << 1;
    }
    return (int)(crc % T_SLOTS);
}

const char *t_cluster_name(t_cluster *c, int node, const char *stem, char out[64]) {
    for (int i = 0; i < 1000; i++) {
        snprintf(out, 64, "%s-%d", stem, i);
        if (owner_by(c, node, t_cluster_slot(out)) == node) return out;
    }
    t_fail("node %d has no slot", node);
}

/* ---- Failing over ---------------------------------------------------------------------------- */

static bool is_replica_of(t_cluster *c, int i, int primary) {
    redisReply *reply = t_redis_try(c->nodes[i], "ROLE");
    bool good = reply && reply->type == REDIS_REPLY_ARRAY && reply->elements > 3 &&
                !strcmp(reply->element[0]->str, "slave") &&
                reply->element[2]->integer == c->ports[primary] &&
                !strcmp(reply->element[3]->str, "connected");
    if (reply) freeReplyObject(reply);
    return good;
}

static int find_replica(t_cluster *c, int primary) {
    for (int i = 0; i < c->count; i++)
        if (i != primary && t_redis_pid(c->nodes[i]) && is_replica_of(c, i, primary)) return i;
    return -1;
}

int t_cluster_replica(t_cluster *c, int primary) {
    int replica;
    T_WAIT_UNTIL((replica = find_replica(c, primary)) >= 0, T_CLUSTER_MS);
    return replica;
}

static bool took_over(t_cluster *c, int replica, int from) {
    for (int i = 0; i < c->count; i++) {
        if (i == from || !t_redis_pid(c->nodes[i])) continue; /* which may be stopped */
        redisReply *reply = t_redis_try(c->nodes[i], "CLUSTER SLOTS");
        bool new = false;
        for (size_t k = 0; reply && reply->type == REDIS_REPLY_ARRAY && k < reply->elements; k++)
            new |= node_at(c, reply->element[k]->element[2]->element[2]->str) == replica;
        if (reply) freeReplyObject(reply);
        if (!new) return false;
    }
    return true;
}

void t_cluster_take_over(t_cluster *c, int replica) {
    redisReply *reply = t_redis_cmd(c->nodes[replica], "ROLE");
    int from = -1;
    for (int i = 0; i < c->count && reply->elements > 2; i++)
        if (c->ports[i] == reply->element[2]->integer) from = i;
    freeReplyObject(reply);
    run(c->nodes[replica], "CLUSTER FAILOVER TAKEOVER");
    T_WAIT_UNTIL(took_over(c, replica, from), T_CLUSTER_MS);
}

/* ---- Moving slots ---------------------------------------------------------------------------- */

void t_cluster_begin_move(t_cluster *c, int slot, int from, int to) {
    run(c->nodes[to], "CLUSTER SETSLOT %d IMPORTING %s", slot, c->ids[from]);
    run(c->nodes[from], "CLUSTER SETSLOT %d MIGRATING %s", slot, c->ids[to]);
}

int t_cluster_move_keys(t_cluster *c, int slot, int from, int to, int most) {
    int moved = 0;
    while (moved < most) {
        redisReply *keys = t_redis_cmd(c->nodes[from], "CLUSTER GETKEYSINSLOT %d 1", slot);
        if (keys->type != REDIS_REPLY_ARRAY || !keys->elements) {
            freeReplyObject(keys);
            break;
        }
        redisReply *done = t_redis_cmd(c->nodes[from], "MIGRATE " T_HOST " %d %b 0 5000",
                                       c->ports[to], keys->element[0]->str, keys->element[0]->len);
        if (done->type == REDIS_REPLY_ERROR) t_fail("MIGRATE: %s", done->str);
        freeReplyObject(done);
        freeReplyObject(keys);
        moved++;
    }
    return moved;
}

void t_cluster_end_move(t_cluster *c, int slot, int from, int to) {
    run(c->nodes[to], "CLUSTER SETSLOT %d NODE %s", slot, c->ids[to]);
    run(c->nodes[from], "CLUSTER SETSLOT %d NODE %s", slot, c->ids[to]);
    T_WAIT_UNTIL(t_cluster_owner(c, slot) == to, T_CLUSTER_MS);
}

void t_cluster_move(t_cluster *c, int slot, int to) {
    int from = t_cluster_owner(c, slot);
    t_cluster_begin_move(c, slot, from, to);
    t_cluster_move_keys(c, slot, from, to, 1000);
    t_cluster_end_move(c, slot, from, to);
}
