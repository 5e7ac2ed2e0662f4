/* SPDX-License-Identifier: Apache-2.0 */
#include "b_nodes.h"

#include <arpa/inet.h>
#include <errno.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "b_report.h"
#include "b_time.h"

#define START_NS INT64_C(10000000000)
#define AGE_S    2 /* a node counts as up after this, because clients subtract a second */

static int ports[B_NODES_MAX], count;

static int free_port(void) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, length) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &length) != 0)
        b_fail("cannot find a free port: %s", strerror(errno));
    close(fd);
    return ntohs(address.sin_port);
}

static void start_node(int port) {
    const char *binary = getenv("HOLDFAST_TEST_SERVER");
    char text[16];
    snprintf(text, sizeof text, "%d", port);
    pid_t pid = fork();
    if (pid < 0) b_fail("fork: %s", strerror(errno));
    if (pid > 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!binary || !*binary) binary = "redis-server";
    execlp(binary, binary, "--port", text, "--bind", "127.0.0.1", "--save", "", "--appendonly",
           "no", "--dir", "/tmp", "--logfile", "/dev/null", (char *)NULL);
    _exit(127);
}

/* Uptime in seconds; -1: it does not answer. */
static int node_uptime(int port) {
    redisContext *c = redisConnect("127.0.0.1", port);
    redisReply *reply = c && !c->err ? redisCommand(c, "INFO server") : NULL;
    const char *found = reply && reply->str ? strstr(reply->str, "uptime_in_seconds:") : NULL;
    int seconds = found ? (int)strtol(strchr(found, ':') + 1, NULL, 10) : -1;
    if (reply) freeReplyObject(reply);
    if (c) redisFree(c);
    return seconds;
}

void b_nodes_start(int wanted) {
    for (count = 0; count < wanted; count++) start_node(ports[count] = free_port());
    for (int i = 0; i < count; i++) {
        int64_t until = b_now() + START_NS;
        while (node_uptime(ports[i]) < AGE_S) {
            if (b_now() > until) b_fail("a node does not answer on port %d", ports[i]);
            usleep(10000);
        }
    }
}

const char *b_nodes_url(int wanted) {
    static char url[64 + B_NODES_MAX * sizeof "127.0.0.1:65535,"];
    int used = snprintf(url, sizeof url, "redis+quorum://");
    for (int i = 0; i < wanted; i++)
        used += snprintf(url + used, sizeof url - (size_t)used, "%s127.0.0.1:%d", i ? "," : "",
                         ports[i]);
    snprintf(url + used, sizeof url - (size_t)used, "?rejoin_delay=1ms");
    return url;
}
