/* SPDX-License-Identifier: Apache-2.0 */
/* See front.h. */
#include "front.h"

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "t_fail.h"
#include "t_net.h"
#include "t_sentinel.h"
#include "t_time.h"

enum { FRONTS = 8, URL_ROOM = 2048, LINES = 16, CLUSTER_UP_MS = 10000 };

typedef struct front {
    int back, port; /* the server's port, and our own */
    int pid;
    FILE *process;
} front;

static front fronts[FRONTS];
static int count;

static const char *front_mode(void) {
    return getenv("HOLDFAST_FAULT_FRONT");
}

static bool is_mode(const char *name) {
    return front_mode() && !strcmp(front_mode(), name);
}

/* ---- Servers --------------------------------------------------------------------------------- */

static bool says_ok(t_redis *redis, const char *command, const char *part) {
    redisReply *reply = t_redis_cmd(redis, command);
    bool ok = (reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS) &&
              strstr(reply->str, part);
    freeReplyObject(reply);
    return ok;
}

/* A node accepts clients only about two seconds after its start. */
t_redis *front_server(const t_redis_options *options) {
    t_redis_options o = options ? *options : (t_redis_options){0};
    char bus[32];
    const char *lines[LINES] = {"cluster-enabled yes", "cluster-node-timeout 60000",
                                "cluster-announce-ip 127.0.0.1", bus};
    if (!is_mode("cluster")) return t_redis_start(options);
    snprintf(bus, sizeof bus, "cluster-port %u", t_net_free_port());
    for (int i = 0; o.config && o.config[i] && i + 5 < LINES; i++) lines[i + 4] = o.config[i];
    o.config = lines;
    t_redis *redis = t_redis_start(&o);
    T_CHECK(says_ok(redis, "CLUSTER ADDSLOTSRANGE 0 16383", "OK"));
    T_WAIT_UNTIL(says_ok(redis, "CLUSTER INFO", "cluster_state:ok"), CLUSTER_UP_MS);
    return redis;
}

/* ---- URLs ------------------------------------------------------------------------------------ */

static const char *certificate_dir(void) {
    const char *directory = getenv("HOLDFAST_FAULT_CERTIFICATES");
    return directory ? directory : "";
}

static front *start_front(int back) {
    char command[1024];
    if (count == FRONTS) t_fail("too many fronts: raise FRONTS");
    front *f = &fronts[count++];
    snprintf(command, sizeof command, "exec python3 -B %s %s %d %s", FRONT_PY, front_mode(), back,
             certificate_dir());
    f->back = back;
    f->process = popen(command, "r");
    if (!f->process || fscanf(f->process, "%d %d", &f->port, &f->pid) != 2)
        t_fail("the front did not start: %s", command);
    return f;
}

static int front_of(int back) {
    for (int i = 0; i < count; i++)
        if (fronts[i].back == back) return fronts[i].port;
    return start_front(back)->port;
}

const char *front_url(const char *url) {
    static char text[URL_ROOM];
    static const char scheme[] = "redis://";
    if (!front_mode() || strncmp(url, scheme, sizeof scheme - 1) != 0) return url;
    const char *user = url + sizeof scheme - 1, *at = strchr(user, '@');
    const char *host = at ? at + 1 : user, *colon = strchr(host, ':');
    char *rest;
    if (!colon) return url;
    int port = front_of((int)strtol(colon + 1, &rest, 10)), users = (int)(host - user);
    if (is_mode("cluster"))
        snprintf(text, sizeof text, "redis+cluster://%.*s127.0.0.1:%d%s", users, user, port, rest);
    else if (is_mode("tls"))
        snprintf(text, sizeof text, "rediss://%.*slocalhost:%d%s%stls_ca=%s/ca.crt", users, user,
                 port, rest, strchr(rest, '?') ? "&" : "?", certificate_dir());
    else
        snprintf(text, sizeof text, "redis+sentinel://%.*s127.0.0.1:%d/" T_PRIMARY "%s", users,
                 user, port, rest);
    printf("through: %s\n", front_mode());
    return text;
}

void front_end(void) {
    while (count > 0) {
        front *f = &fronts[--count];
        if (f->pid) kill(f->pid, SIGKILL);
        if (f->process) pclose(f->process);
        *f = (front){0};
    }
}
