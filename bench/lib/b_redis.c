/* SPDX-License-Identifier: Apache-2.0 */
#include "b_redis.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "b_report.h"
#include "b_time.h"

#define START_NS INT64_C(10000000000)
#define NOT_RUN  127
#define PORTS    5 /* ports to try: another process may take a free one before the server does */

static struct {
    pid_t pid, owner;
    int port;
    char dir[64], socket[80], log[80], url[2][128];
} server;

/* ---- The server ---- */

static void end_server(void) {
    if (!server.pid || server.owner != getpid()) return;
    kill(server.pid, SIGKILL);
    waitpid(server.pid, NULL, 0);
    unlink(server.socket);
    unlink(server.log);
    rmdir(server.dir);
}

static void end_by_signal(int number) {
    end_server();
    signal(number, SIG_DFL);
    raise(number);
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

static _Noreturn void exec_server(const char *binary) {
    char port[16];
    snprintf(port, sizeof port, "%d", server.port);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    execlp(binary, binary, "--port", port, "--bind", "127.0.0.1", "--unixsocket", server.socket,
           "--save", "", "--appendonly", "no", "--dir", server.dir, "--logfile", server.log,
           (char *)NULL);
    _exit(NOT_RUN);
}

static bool server_answers(void) {
    redisContext *c = redisConnect("127.0.0.1", server.port);
    redisReply *reply = c && !c->err ? redisCommand(c, "PING") : NULL;
    bool well = reply && reply->type == REDIS_REPLY_STATUS;
    if (reply) freeReplyObject(reply);
    if (c) redisFree(c);
    return well;
}

/* False if it ended instead. */
static bool await_answer(const char *binary) {
    for (int64_t until = b_now() + START_NS; b_now() < until; usleep(2000)) {
        int status;
        if (waitpid(server.pid, &status, WNOHANG) != server.pid) {
            if (server_answers()) return true;
            continue;
        }
        server.pid = 0;
        if (!WIFEXITED(status) || WEXITSTATUS(status) != NOT_RUN) return false;
        rmdir(server.dir);
        b_fail("cannot run a server as `%s`", binary);
    }
    b_fail("the server does not answer");
}

static void make_dir(void) {
    const char *base = getenv("TMPDIR");
    if (!base || strlen(base) > 32) base = "/tmp"; /* the path of a socket must be short */
    snprintf(server.dir, sizeof server.dir, "%s/hf-bench.XXXXXX", base);
    if (!mkdtemp(server.dir)) b_fail("cannot make %s: %s", server.dir, strerror(errno));
    snprintf(server.socket, sizeof server.socket, "%s/socket", server.dir);
    snprintf(server.log, sizeof server.log, "%s/log", server.dir);
}

static void start_on_some_port(const char *binary) {
    for (int i = 0; i < PORTS; i++) {
        server.port = free_port();
        pid_t pid = fork();
        if (pid < 0) b_fail("fork: %s", strerror(errno));
        if (pid == 0) exec_server(binary);
        server.pid = pid;
        if (await_answer(binary)) return;
    }
    b_fail("%s did not start; its log is %s", binary, server.log);
}

void b_redis_start(void) {
    const char *binary = getenv("HOLDFAST_TEST_SERVER");
    server.owner = getpid();
    make_dir();
    atexit(end_server);
    signal(SIGINT, end_by_signal);
    signal(SIGTERM, end_by_signal);
    start_on_some_port(binary && *binary ? binary : "redis-server");
    snprintf(server.url[B_TCP], sizeof server.url[B_TCP], "redis://127.0.0.1:%d", server.port);
    snprintf(server.url[B_UNIX], sizeof server.url[B_UNIX], "redis+unix://%s", server.socket);
}

const char *b_redis_url(b_transport transport) {
    return server.url[transport];
}

void b_redis_share_core(void) {
    cpu_set_t allowed, one;
    CPU_ZERO(&one);
    size_t last = CPU_SETSIZE - 1;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        b_fail("cannot read the list of cores");
    while (last > 0 && !CPU_ISSET(last, &allowed)) last--;
    CPU_SET(last, &one);
    if (sched_setaffinity(server.pid, sizeof one, &one) != 0 ||
        sched_setaffinity(0, sizeof one, &one) != 0)
        b_fail("cannot choose a core: %s", strerror(errno));
}

/* ---- Plain hiredis ---- */

redisContext *b_redis_connect(b_transport transport) {
    redisContext *c = transport == B_UNIX ? redisConnectUnix(server.socket)
                                          : redisConnect("127.0.0.1", server.port);
    if (!c || c->err) b_fail("hiredis cannot connect: %s", c ? c->errstr : "out of memory");
    return c;
}

static char *copy_text(const char *text) {
    char *made = strdup(text);
    if (!made) b_fail("out of memory");
    return made;
}

b_command b_command_make(const char *const *args) {
    b_command command = {0};
    for (; *args; args++) {
        if (command.count == B_ARGS_MAX) b_fail("more than %d arguments", B_ARGS_MAX);
        command.args[command.count] = copy_text(*args);
        command.lengths[command.count++] = strlen(*args);
    }
    return command;
}

void b_command_fini(b_command *command) {
    for (int i = 0; i < command->count; i++) free(command->args[i]);
    command->count = 0;
}

static redisReply *check_reply(redisContext *c, redisReply *reply) {
    if (!reply) b_fail("hiredis: %s", c->errstr);
    if (reply->type == REDIS_REPLY_ERROR) b_fail("the server says: %s", reply->str);
    return reply;
}

long long b_command_run(redisContext *c, const b_command *command) {
    redisReply *reply = check_reply(
        c, redisCommandArgv(c, command->count, (const char **)command->args, command->lengths));
    const redisReply *first =
        reply->type == REDIS_REPLY_ARRAY && reply->elements ? reply->element[0] : reply;
    if (first->type != REDIS_REPLY_INTEGER) b_fail("no valid answer to %s", command->args[0]);
    long long number = first->integer;
    freeReplyObject(reply);
    return number;
}

char *b_script_load(redisContext *c, const char *text) {
    redisReply *reply = check_reply(c, redisCommand(c, "SCRIPT LOAD %s", text));
    char *sha1 = copy_text(reply->str);
    freeReplyObject(reply);
    return sha1;
}

/* ---- Counters of the server ---- */

void b_usage_reset(redisContext *c) {
    freeReplyObject(check_reply(c, redisCommand(c, "CONFIG RESETSTAT")));
}

b_usage b_usage_of(redisContext *c, const char *command) {
    char line[64];
    b_usage usage = {0};
    redisReply *reply = check_reply(c, redisCommand(c, "INFO commandstats"));
    snprintf(line, sizeof line, "cmdstat_%s:calls=", command);
    const char *at = strstr(reply->str, line);
    if (at &&
        sscanf(at + strlen(line), "%" SCNd64 ",usec=%" SCNd64, &usage.calls, &usage.usec) != 2)
        b_fail("cannot parse INFO commandstats");
    freeReplyObject(reply);
    return usage;
}
