/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cost of a cluster: an uncontended acquire and release on one of its nodes, compared with one
 * server. This cluster has one node with all slots. With more nodes the slot of the name selects
 * the node, and each name uses one node only.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <holdfast.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "b_redis.h"
#include "b_rounds.h"
#include "b_time.h"

#define ROUNDS   40
#define PAIRS    300
#define START_NS INT64_C(10000000000)
#define SLOTS    16384

static char directory[] = "/tmp/hf-bench-cluster-XXXXXX";

static void remove_directory(void) {
    char path[sizeof directory + 16];
    snprintf(path, sizeof path, "%s/nodes.conf", directory);
    (void)unlink(path);
    (void)rmdir(directory);
}

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

static void run_node(int port, int bus) {
    const char *binary = getenv("HOLDFAST_TEST_SERVER");
    char text[16], bus_text[16];
    snprintf(text, sizeof text, "%d", port);
    snprintf(bus_text, sizeof bus_text, "%d", bus);
    pid_t pid = fork();
    if (pid < 0) b_fail("fork: %s", strerror(errno));
    if (pid > 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!binary || !*binary) binary = "redis-server";
    execlp(binary, binary, "--port", text, "--cluster-port", bus_text, "--cluster-enabled", "yes",
           "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", directory,
           "--logfile", "/dev/null", (char *)NULL);
    _exit(127);
}

static bool has_answer(int port, const char *command, const char *expected) {
    redisContext *c = redisConnect("127.0.0.1", port);
    redisReply *reply = c && !c->err ? redisCommand(c, command) : NULL;
    bool good = reply && reply->str && strstr(reply->str, expected);
    if (reply) freeReplyObject(reply);
    if (c) redisFree(c);
    return good;
}

static void await_answer(int port, const char *command, const char *expected) {
    int64_t until = b_now() + START_NS;
    while (!has_answer(port, command, expected)) {
        if (b_now() > until) b_fail("the node does not answer \"%s\" to %s", expected, command);
        usleep(10000);
    }
}

static const char *start_cluster(void) {
    static char url[64], line[SLOTS * sizeof " 12345"];
    int port = free_port(), used = snprintf(line, sizeof line, "CLUSTER ADDSLOTS");
    if (!mkdtemp(directory)) b_fail("cannot make a directory: %s", strerror(errno));
    atexit(remove_directory);
    run_node(port, free_port());
    for (int i = 0; i < SLOTS; i++)
        used += snprintf(line + used, sizeof line - (size_t)used, " %d", i);
    await_answer(port, "PING", "PONG");
    await_answer(port, line, "OK");
    await_answer(port, "CLUSTER INFO", "cluster_state:ok");
    snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%d", port);
    return url;
}

static void run_pair(void *arg) {
    hf_hold *hold;
    if (hf_acquire(arg, "bench:cluster", NULL, &hold) != HF_OK || hf_release(hold) != HF_OK)
        b_fail("%s", hf_error_detail());
}

static double round_of_pairs(void *arg, b_series *each) {
    return b_repeat(run_pair, arg, PAIRS, each);
}

static hf_client *open_client(const char *url) {
    hf_client *client;
    if (hf_open(url, NULL, &client) != HF_OK) b_fail("%s", hf_error_detail());
    return client;
}

int main(int argc, char **argv) {
    b_report_begin("cluster", argc, argv);
    b_redis_start();
    hf_client *one = open_client(b_redis_url(B_TCP)), *cluster = open_client(start_cluster());
    b_section("Uncontended pair, one thread, TCP loopback", "cluster", "one Redis");
    b_side sides[] = {{.round = round_of_pairs, .arg = cluster},
                      {.round = round_of_pairs, .arg = one}};
    b_rounds_run(sides, 2, ROUNDS);
    b_ratio row = b_rounds_ratio(&sides[0], &sides[1]);
    row.name = "a node of a cluster";
    b_report_ratio(&row);
    b_rounds_fini(sides, 2);
    hf_close(cluster);
    hf_close(one);
    return 0;
}
