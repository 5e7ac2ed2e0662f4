/* SPDX-License-Identifier: Apache-2.0 */
#include "b_set.h"

#include <arpa/inet.h>
#include <errno.h>
#include <hiredis/hiredis.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "b_report.h"
#include "b_time.h"

#define START_NS INT64_C(20000000000)

static char dir[] = "/tmp/hf-bench-set-XXXXXX";
static char tls_url[160], sentinel_url[96], replica_url[64];

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

/* The number after a name in a server's answer to a command; -1 if the name is missing. */
static int read_number(int port, const char *command, const char *name) {
    redisContext *c = redisConnect("127.0.0.1", port);
    redisReply *reply = c && !c->err ? redisCommand(c, command) : NULL;
    const char *found = reply && reply->str ? strstr(reply->str, name) : NULL;
    int number = found ? (int)strtol(found + strlen(name), NULL, 10) : -1;
    if (reply) freeReplyObject(reply);
    if (c) redisFree(c);
    return number;
}

static void await_number(int port, const char *command, const char *name, int at_least) {
    for (int64_t until = b_now() + START_NS; read_number(port, command, name) < at_least;
         usleep(10000))
        if (b_now() > until) b_fail("the server on port %d does not report %s", port, name);
}

/* Starts a server with a configuration file of this name in `dir`, and a port. */
__attribute__((format(printf, 2, 3))) static int start(const char *name, const char *format, ...) {
    const char *binary = getenv("HOLDFAST_TEST_SERVER");
    int port = free_port();
    char path[96];
    va_list args;
    snprintf(path, sizeof path, "%s/%s.conf", dir, name);
    FILE *file = fopen(path, "w");
    if (!file) b_fail("cannot write %s", path);
    fprintf(file, "port %d\nbind 127.0.0.1\nsave \"\"\ndir %s\nlogfile /dev/null\n", port, dir);
    va_start(args, format);
    vfprintf(file, format, args);
    va_end(args);
    fclose(file);
    bool sentinel = !strcmp(name, "sentinel");
    pid_t pid = fork();
    if (pid < 0) b_fail("fork: %s", strerror(errno));
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (!binary || !*binary) binary = "redis-server";
        execlp(binary, binary, path, sentinel ? "--sentinel" : (char *)NULL, (char *)NULL);
        _exit(127);
    }
    await_number(port, "INFO server", "uptime_in_seconds:", 0);
    return port;
}

static void start_tls(const char *certificates) {
    char command[256];
    int port = free_port();
    snprintf(command, sizeof command, "%s %s >/dev/null 2>&1", certificates, dir);
    if (system(command) != 0) b_fail("cannot make certificates");
    start("tls",
          "tls-port %d\ntls-cert-file %s/good.crt\ntls-key-file %s/good.key\n"
          "tls-ca-cert-file %s/ca.crt\ntls-auth-clients no\n",
          port, dir, dir, dir);
    snprintf(tls_url, sizeof tls_url, "rediss://localhost:%d?tls_ca=%s/ca.crt", port, dir);
}

void b_set_start(const char *certificates) {
    if (!mkdtemp(dir)) b_fail("cannot make %s: %s", dir, strerror(errno));
    start_tls(certificates);
    int primary = start("primary", "repl-diskless-sync-delay 0\n");
    start("replica", "replicaof 127.0.0.1 %d\n", primary);
    await_number(primary, "INFO replication", "connected_slaves:", 1);
    int sentinel = start("sentinel", "sentinel monitor mymaster 127.0.0.1 %d 1\n", primary);
    snprintf(sentinel_url, sizeof sentinel_url, "redis+sentinel://127.0.0.1:%d/mymaster", sentinel);
    snprintf(replica_url, sizeof replica_url, "redis://127.0.0.1:%d?replicas=1", primary);
}

void b_set_end(void) {
    char command[64];
    snprintf(command, sizeof command, "rm -rf %s", dir);
    if (system(command) != 0) b_fail("cannot: %s", command);
}

const char *b_set_tls_url(void) {
    return tls_url;
}

const char *b_set_sentinel_url(void) {
    return sentinel_url;
}

const char *b_set_replica_url(void) {
    return replica_url;
}
