/* SPDX-License-Identifier: Apache-2.0 */
/* See kit.h. */
#include "kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

t_cluster *cluster;

int kit_start(void **state) {
    (void)state;
    cluster = t_cluster_start(NULL);
    return 0;
}

int kit_end(void **state) {
    (void)state;
    t_cluster_free(cluster);
    return 0;
}

hf_client *kit_open(const char *options) {
    char url[512];
    hf_client *client;
    snprintf(url, sizeof url, "%s%s%s", t_cluster_url(cluster), *options ? "?" : "", options);
    T_HF(HF_OK, hf_open(url, NULL, &client));
    return client;
}

const char *kit_name(int node) {
    static char names[64][NAME];
    static int count;
    char stem[32];
    snprintf(stem, sizeof stem, "lock%d", count);
    return t_cluster_name(cluster, node, stem, names[count++ % 64]);
}

hf_hold *kit_take(hf_client *client, const char *name, const hf_options *options) {
    hf_hold *hold = NULL;
    hf_options o = options ? *options : (hf_options){0};
    if (!o.wait_ms) o.wait_ms = t_patience(SOON_MS);
    T_HF(HF_OK, hf_acquire(client, name, &o, &hold));
    return hold;
}

static void run_wait(int index, void *arg) {
    cluster_wait *w = arg;
    (void)index;
    w->result = hf_acquire(w->client, w->name, &w->options, &w->hold);
    snprintf(w->detail, sizeof w->detail, "%s", w->result ? hf_error_detail() : "");
}

void kit_begin(cluster_wait *w, hf_client *client, const char *name, const hf_options *options) {
    *w = (cluster_wait){.client = client, .name = name};
    if (options) w->options = *options;
    if (!w->options.wait_ms) w->options.wait_ms = HF_FOREVER;
    w->thread = t_threads_start(1, run_wait, w);
}

hf_result kit_end_wait(cluster_wait *w) {
    t_threads_join(w->thread, SOON_MS);
    return w->result;
}

static int64_t read_number(int node, const char *format, const char *name) {
    redisReply *reply = t_redis_try(t_cluster_node(cluster, node), format, name);
    int64_t n = reply && reply->type == REDIS_REPLY_INTEGER ? reply->integer : -1;
    if (reply) freeReplyObject(reply);
    return n;
}

void kit_await_queued(int node, const char *name, int place) {
    T_WAIT_UNTIL(read_number(node, "LLEN hf:{%s}:q", name) == place, SOON_MS);
}

/* READONLY, because a replica would redirect to its primary otherwise. */
bool kit_has(int node, const char *name) {
    t_redis *redis = t_cluster_node(cluster, node);
    redisReply *reply = t_redis_try(redis, "READONLY");
    if (reply) freeReplyObject(reply);
    return read_number(node, "EXISTS hf:{%s}", name) == 1;
}

int kit_subscribers(int node, const char *name) {
    t_redis *redis = t_cluster_node(cluster, node);
    redisReply *reply = t_redis_try(redis, "PUBSUB SHARDCHANNELS hf:{%s}:c:*", name);
    if (reply && reply->type == REDIS_REPLY_ERROR) { /* before Redis 7 */
        freeReplyObject(reply);
        reply = t_redis_try(redis, "PUBSUB CHANNELS hf:{%s}:c:*", name);
    }
    int n = reply && reply->type == REDIS_REPLY_ARRAY ? (int)reply->elements : -1;
    if (reply) freeReplyObject(reply);
    return n;
}

int64_t kit_errors(int node, const char *kind) {
    char field[64];
    redisReply *reply = t_redis_cmd(t_cluster_node(cluster, node), "INFO errorstats");
    snprintf(field, sizeof field, "errorstat_%s:count=", kind);
    const char *at = strstr(reply->str, field);
    int64_t n = at ? strtoll(at + strlen(field), NULL, 10) : 0;
    freeReplyObject(reply);
    return n;
}
