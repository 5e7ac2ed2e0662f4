/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See t_redis.h.
 *
 * The unix socket shows whether the port is ours. The server creates it after it has bound the
 * port, and ends if it cannot bind. An answer on the port itself might come from the server of
 * another test.
 */
#include "t_redis.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "t_exempt.h"
#include "t_net.h"
#include "t_proc.h"
#include "t_time.h"

#define START_MS   10000
#define COMMAND_MS 5000
#define PORTS_MAX  20 /* ports to try before the cause must be something else */
#define KEPT       16
#define PATH_MAX_  200
#define URL_MAX    1024
#define ARGS_MAX   64

#define ADMIN "t_admin"

struct t_redis {
    t_redis *next;
    pid_t owner, pid; /* pid 0: not running */
    uint16_t port;
    bool unix_only, port_given, appendonly, has_admin, sentinel, ran;
    char *binary, *password, *extra; /* extra: lines of the configuration */
    char dir[PATH_MAX_], socket[PATH_MAX_ + 32], password_file[PATH_MAX_ + 32];
    char url[URL_MAX], unix_url[URL_MAX], url_as[URL_MAX];

    pthread_mutex_t mutex; /* guards the connection and the fields after it */
    redisContext *connection;
    pid_t connection_of; /* a forked child must not use its parent's connection */
    char *kept[KEPT];
    unsigned kept_next;
};

/* All servers, so that those of a failed test are ended too when the process ends. */
static pthread_mutex_t list_mutex = PTHREAD_MUTEX_INITIALIZER;
static t_redis *list;

/* ---- Directory and configuration ------------------------------------------------------------- */

static char *copy_text(const char *text) {
    char *made = text ? strdup(text) : NULL;
    if (text && !made) t_fail("out of memory");
    return made;
}

static void append_line(char **to, const char *name, const char *line) {
    char *longer;
    if (strncmp(line, "--", 2) == 0) line += 2;
    if (asprintf(&longer, "%s%s%s\n", *to ? *to : "", name, line) < 0) t_fail("out of memory");
    free(*to);
    *to = longer;
}

static void append_all(char **to, const char *name, const char *const *lines) {
    for (size_t i = 0; lines && lines[i]; i++) append_line(to, name, lines[i]);
}

static void write_file(const char *path, const char *text) {
    FILE *file = fopen(path, "we");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0) {
        t_fail("cannot write %s: %s", path, strerror(errno));
    }
}

static void write_config(t_redis *r) {
    char path[PATH_MAX_ + 32], text[4096], password[URL_MAX] = "";
    if (r->password) snprintf(password, sizeof password, "requirepass \"%s\"\n", r->password);
    int n = snprintf(text, sizeof text,
                     "bind " T_HOST "\nport %u\nunixsocket %s\ndir %s\nsave \"\"\n"
                     "appendonly %s\nappendfsync always\n%s%s",
                     r->unix_only ? 0U : r->port, r->socket, r->dir, r->appendonly ? "yes" : "no",
                     password, r->extra ? r->extra : "");
    if (n < 0 || (size_t)n >= sizeof text) t_fail("configuration too long");
    snprintf(path, sizeof path, "%s/redis.conf", r->dir);
    write_file(path, text);
}

static void make_dir(t_redis *r) {
    const char *base = getenv("TMPDIR");
    /* The path of a unix socket must fit in 108 bytes. */
    if (!base || !*base || strlen(base) > 70) base = "/tmp";
    snprintf(r->dir, sizeof r->dir, "%s/hf-redis-XXXXXX", base);
    if (!mkdtemp(r->dir)) t_fail("cannot make %s: %s", r->dir, strerror(errno));
    snprintf(r->socket, sizeof r->socket, "%s/redis.sock", r->dir);
    snprintf(r->unix_url, sizeof r->unix_url, "redis+unix://%s", r->socket);
    snprintf(r->password_file, sizeof r->password_file, "%s/password", r->dir);
    write_file(r->password_file, r->password ? r->password : "");
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *walk) {
    (void)status, (void)type, (void)walk;
    return remove(path);
}

static void remove_dir(const t_redis *r) {
    (void)nftw(r->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void percent_encode(const char *text, char *out, size_t size) {
    size_t used = 0;
    for (; *text && used + 4 < size; text++) {
        unsigned char c = (unsigned char)*text;
        bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                     c == '-' || c == '_' || c == '.';
        used += (size_t)snprintf(out + used, size - used, plain ? "%c" : "%%%02X", c);
    }
    out[used] = '\0';
}

static void make_url(const t_redis *r, const char *user, const char *password, char *url) {
    char user_code[URL_MAX / 3] = "", code[URL_MAX / 3] = "";
    if (user) percent_encode(user, user_code, sizeof user_code);
    if (password) percent_encode(password, code, sizeof code);
    bool login = user || password;
    snprintf(url, URL_MAX, "redis://%s%s%s%s" T_HOST ":%u", user_code, password ? ":" : "", code,
             login ? "@" : "", r->port);
}

/* ---- The process ----------------------------------------------------------------------------- */

static void show_log(const t_redis *r) {
    char path[PATH_MAX_ + 32], text[2048];
    snprintf(path, sizeof path, "%s/log", r->dir);
    FILE *file = fopen(path, "re");
    if (!file) return;
    if (fseek(file, -(long)sizeof text, SEEK_END) != 0) rewind(file);
    size_t n = fread(text, 1, sizeof text, file);
    fprintf(stderr, "%.*s", (int)n, text);
    fclose(file);
}

/* Between fork and exec only async-signal-safe calls: other threads may hold locks. */
_Noreturn static void exec_server(const t_redis *r, const char *config, int log, pid_t parent) {
    sigset_t none;
    sigemptyset(&none);
    if (!t_proc_die_with(parent)) _exit(127);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
    (void)dup2(log, STDOUT_FILENO);
    (void)dup2(log, STDERR_FILENO);
    execlp(r->binary, r->binary, config, r->sentinel ? "--sentinel" : NULL, (char *)NULL);
    _exit(127);
}

static void spawn_server(t_redis *r) {
    char config[PATH_MAX_ + 32], log_path[PATH_MAX_ + 32];
    snprintf(config, sizeof config, "%s/redis.conf", r->dir);
    snprintf(log_path, sizeof log_path, "%s/log", r->dir);
    int log = open(log_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (log < 0) t_fail("cannot write %s: %s", log_path, strerror(errno));
    (void)unlink(r->socket); /* of the previous server, which does not answer */
    pid_t parent = getpid();
    pid_t pid = fork();
    if (pid < 0) t_fail("fork: %s", strerror(errno));
    if (pid == 0) exec_server(r, config, log, parent);
    close(log);
    r->pid = pid;
}

static bool has_ended(t_redis *r) {
    int status;
    if (waitpid(r->pid, &status, WNOHANG) != r->pid) return false;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127) {
        t_fail("cannot run a server as `%s`", r->binary);
    }
    r->pid = 0;
    return true;
}

static void drop_connection(t_redis *r) {
    if (r->connection) redisFree(r->connection);
    r->connection = NULL;
}

static bool is_status(redisReply *reply, const char *expected) {
    bool same = reply && reply->type == REDIS_REPLY_STATUS && strcmp(reply->str, expected) == 0;
    if (reply) freeReplyObject(reply);
    return same;
}

static bool log_in(t_redis *r, redisContext *c) {
    if (r->has_admin) return is_status(redisCommand(c, "AUTH " ADMIN " " ADMIN), "OK");
    if (r->password) return is_status(redisCommand(c, "AUTH %s", r->password), "OK");
    return true;
}

/* A server closes its connections when its role changes. */
static bool hung_up(const t_redis *r) {
    char byte;
    return recv(r->connection->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

/* One attempt to connect and log in to a server that has loaded its data. NULL: not yet. */
static bool try_connect(t_redis *r) {
    int64_t limit_ms = t_patience(COMMAND_MS);
    struct timeval limit = {.tv_sec = (time_t)(limit_ms / 1000)};
    if (r->connection && (r->connection_of != getpid() || hung_up(r))) drop_connection(r);
    if (r->connection) return true;
    redisContext *c = redisConnectUnixWithTimeout(r->socket, limit);
    if (!c) t_fail("out of memory");
    if (!c->err) (void)redisSetTimeout(c, limit);
    if (!c->err && log_in(r, c) && is_status(redisCommand(c, "PING"), "PONG")) {
        r->connection = c;
        r->connection_of = getpid();
        return true;
    }
    redisFree(c);
    return false;
}

/* False if the server ended instead, as it does if its port is taken. */
static bool await_answer(t_redis *r) {
    int64_t until = t_now_ms() + t_patience(START_MS);
    while (!try_connect(r)) {
        if (has_ended(r)) return false;
        if (t_now_ms() > until) {
            show_log(r);
            t_fail("the server did not answer in time");
        }
        t_sleep_ms(2);
    }
    return true;
}

static bool run_server(t_redis *r) {
    if (!r->sentinel || !r->ran) write_config(r);
    t_net_unreserve(r->port);
    spawn_server(r);
    bool answers = await_answer(r);
    r->ran = r->ran || answers;
    return answers;
}

static void run_on_some_port(t_redis *r) {
    for (int i = 0; i < PORTS_MAX; i++) {
        if (!r->port_given && !r->unix_only) r->port = t_net_free_port();
        if (run_server(r)) return;
        if (r->port_given || r->unix_only) break;
    }
    show_log(r);
    t_fail("the server did not start");
}

static void kill_and_reap(t_redis *r) {
    if (!r->pid) return;
    (void)kill(r->pid, SIGKILL);
    (void)waitpid(r->pid, NULL, 0); /* nothing survives SIGKILL, so this wait is short */
    r->pid = 0;
}

/* ---- Start, stop, restart -------------------------------------------------------------------- */

static void end_all(void) {
    for (t_redis *r = list; r; r = r->next) {
        if (r->owner != getpid()) continue;
        kill_and_reap(r);
        remove_dir(r);
    }
}

static void add_to_list(t_redis *r) {
    t_at_end(end_all);
    pthread_mutex_lock(&list_mutex);
    r->next = list;
    list = r;
    pthread_mutex_unlock(&list_mutex);
}

static void remove_from_list(t_redis *r) {
    pthread_mutex_lock(&list_mutex);
    t_redis **at = &list;
    while (*at && *at != r) at = &(*at)->next;
    if (*at) *at = r->next;
    pthread_mutex_unlock(&list_mutex);
}

static const char *binary_of(const t_redis_options *options) {
    const char *named = getenv("HOLDFAST_TEST_SERVER");
    if (options->binary) return options->binary;
    return named && *named ? named : "redis-server";
}

static t_redis *redis_new(const t_redis_options *options) {
    t_redis *r = calloc(1, sizeof *r);
    if (!r) t_fail("out of memory");
    pthread_mutex_init(&r->mutex, NULL);
    r->owner = getpid();
    r->port = options->port;
    r->port_given = options->port != 0;
    r->unix_only = options->unix_only;
    r->appendonly = options->appendonly;
    r->sentinel = options->sentinel;
    r->binary = copy_text(binary_of(options));
    r->password = copy_text(options->requirepass);
    r->has_admin = options->acl != NULL;
    if (r->has_admin) append_line(&r->extra, "user ", ADMIN " on >" ADMIN " ~* &* +@all");
    append_all(&r->extra, "user ", options->acl);
    append_all(&r->extra, "", options->config);
    return r;
}

t_redis *t_redis_start(const t_redis_options *options) {
    t_proc_require_main_thread("t_redis_start");
    t_exempt_begin();
    t_redis *r = redis_new(options ? options : &(t_redis_options){0});
    make_dir(r);
    add_to_list(r);
    run_on_some_port(r);
    make_url(r, NULL, r->password, r->url);
    t_exempt_end();
    return r;
}

void t_redis_free(t_redis *redis) {
    if (!redis) return;
    remove_from_list(redis);
    drop_connection(redis);
    if (redis->owner == getpid()) {
        kill_and_reap(redis);
        t_net_unreserve(redis->port);
        remove_dir(redis);
    }
    for (int i = 0; i < KEPT; i++) free(redis->kept[i]);
    pthread_mutex_destroy(&redis->mutex);
    free(redis->binary);
    free(redis->password);
    free(redis->extra);
    free(redis);
}

void t_redis_kill9(t_redis *redis) {
    pthread_mutex_lock(&redis->mutex);
    drop_connection(redis);
    kill_and_reap(redis);
    if (!redis->unix_only) t_net_reserve(redis->port);
    pthread_mutex_unlock(&redis->mutex);
}

void t_redis_restart(t_redis *redis) {
    t_proc_require_main_thread("t_redis_restart");
    t_exempt_begin();
    int64_t until = t_now_ms() + t_patience(START_MS);
    t_redis_kill9(redis);
    /* The port must stay the same, so wait while another process uses it. */
    while (!run_server(redis)) {
        if (t_now_ms() > until) {
            show_log(redis);
            t_fail("the server did not restart");
        }
        t_sleep_ms(10);
    }
    t_exempt_end();
}

void t_redis_stop(t_redis *redis) {
    t_proc_signal(redis->pid, SIGSTOP);
}

void t_redis_cont(t_redis *redis) {
    t_proc_signal(redis->pid, SIGCONT);
}

const char *t_redis_url(const t_redis *redis) {
    return redis->url;
}

const char *t_redis_unix_url(const t_redis *redis) {
    return redis->unix_url;
}

const char *t_redis_url_as(t_redis *redis, const char *user, const char *password) {
    make_url(redis, user, password, redis->url_as);
    return redis->url_as;
}

const char *t_redis_password_file(const t_redis *redis) {
    return redis->password_file;
}

const char *t_redis_socket(const t_redis *redis) {
    return redis->socket;
}

const char *t_redis_dir(const t_redis *redis) {
    return redis->dir;
}

uint16_t t_redis_port(const t_redis *redis) {
    return redis->port;
}

pid_t t_redis_pid(const t_redis *redis) {
    return redis->pid;
}

/* ---- Commands -------------------------------------------------------------------------------- */

/* Begins a command: connects if needed, and keeps the mutex until unlock_connection(). */
static void lock_connection(t_redis *r) {
    t_exempt_begin();
    pthread_mutex_lock(&r->mutex);
    if (try_connect(r)) return;
    pthread_mutex_unlock(&r->mutex);
    t_fail("the server on port %u does not answer", r->port);
}

static redisReply *unlock_connection(t_redis *r, redisReply *reply, const char *command) {
    char why[128] = "";
    if (!reply) {
        snprintf(why, sizeof why, "%s", r->connection->errstr);
        drop_connection(r);
    }
    pthread_mutex_unlock(&r->mutex);
    t_exempt_end();
    if (!reply) t_fail("no answer to `%s`: %s", command, why);
    return reply;
}

static redisReply *run_command(t_redis *r, const char *format, va_list args) {
    lock_connection(r);
    return unlock_connection(r, redisvCommand(r->connection, format, args), format);
}

redisReply *t_redis_cmd(t_redis *redis, const char *format, ...) {
    va_list args;
    va_start(args, format);
    redisReply *reply = run_command(redis, format, args);
    va_end(args);
    return reply;
}

redisReply *t_redis_try(t_redis *redis, const char *format, ...) {
    va_list args;
    redisReply *reply = NULL;
    t_exempt_begin();
    pthread_mutex_lock(&redis->mutex);
    if (try_connect(redis)) {
        va_start(args, format);
        reply = redisvCommand(redis->connection, format, args);
        va_end(args);
        if (!reply) drop_connection(redis);
    }
    pthread_mutex_unlock(&redis->mutex);
    t_exempt_end();
    return reply;
}

redisReply *t_redis_eval(t_redis *redis, const char *script, int keys, ...) {
    const char *argv[ARGS_MAX] = {"EVAL", script};
    char count[16];
    int argc = 3;
    va_list args;
    snprintf(count, sizeof count, "%d", keys);
    argv[2] = count;
    va_start(args, keys);
    for (const char *arg; (arg = va_arg(args, const char *)) != NULL;) {
        if (argc == ARGS_MAX) t_fail("more than %d arguments of EVAL", ARGS_MAX);
        argv[argc++] = arg;
    }
    va_end(args);
    lock_connection(redis);
    return unlock_connection(redis, redisCommandArgv(redis->connection, argc, argv, NULL), "EVAL");
}

static void refuse_error(redisReply *reply, const char *command) {
    if (reply->type != REDIS_REPLY_ERROR) return;
    char why[256];
    snprintf(why, sizeof why, "%s", reply->str);
    freeReplyObject(reply);
    t_fail("the answer to `%s` is: %s", command, why);
}

int64_t t_redis_int(t_redis *redis, const char *format, ...) {
    va_list args;
    va_start(args, format);
    redisReply *reply = run_command(redis, format, args);
    va_end(args);
    refuse_error(reply, format);
    bool text = reply->type == REDIS_REPLY_STRING && reply->len > 0;
    char *end = text ? reply->str + reply->len : NULL, *stop = NULL;
    int64_t value = text ? strtoll(reply->str, &stop, 10) : reply->integer;
    bool good = reply->type == REDIS_REPLY_INTEGER || (text && stop == end);
    freeReplyObject(reply);
    if (!good) t_fail("the answer to `%s` is not an integer", format);
    return value;
}

/* Keeps a copy in place of the oldest one. */
static const char *keep_text(t_redis *r, const char *text, size_t length) {
    char *made = malloc(length + 1);
    if (!made) t_fail("out of memory");
    memcpy(made, text, length);
    made[length] = '\0';
    pthread_mutex_lock(&r->mutex);
    unsigned at = r->kept_next++ % KEPT;
    free(r->kept[at]);
    r->kept[at] = made;
    pthread_mutex_unlock(&r->mutex);
    return made;
}

static const char *text_of(t_redis *r, const redisReply *reply, const char *command) {
    char digits[32];
    switch (reply->type) {
    case REDIS_REPLY_NIL: return NULL;
    case REDIS_REPLY_STRING:
    case REDIS_REPLY_STATUS: return keep_text(r, reply->str, (size_t)reply->len);
    case REDIS_REPLY_INTEGER:
        snprintf(digits, sizeof digits, "%lld", reply->integer);
        return keep_text(r, digits, strlen(digits));
    default: t_fail("the answer to `%s` is not a string", command);
    }
}

const char *t_redis_str(t_redis *redis, const char *format, ...) {
    va_list args;
    va_start(args, format);
    redisReply *reply = run_command(redis, format, args);
    va_end(args);
    refuse_error(reply, format);
    t_exempt_begin();
    const char *text = text_of(redis, reply, format);
    t_exempt_end();
    freeReplyObject(reply);
    return text;
}

int64_t t_redis_info(t_redis *redis, const char *field) {
    char line[128];
    redisReply *reply = t_redis_cmd(redis, "INFO everything");
    refuse_error(reply, "INFO");
    snprintf(line, sizeof line, "\n%s:", field);
    const char *at = strstr(reply->str, line);
    int64_t value = at ? strtoll(at + strlen(line), NULL, 10) : 0;
    freeReplyObject(reply);
    if (!at) t_fail("INFO has no `%s`", field);
    return value;
}

/* ---- Abilities of the server ----------------------------------------------------------------- */

bool t_redis_knows(t_redis *redis, const char *command) {
    redisReply *reply = t_redis_cmd(redis, "COMMAND INFO %s", command);
    bool known = reply->elements && reply->element[0]->type == REDIS_REPLY_ARRAY;
    freeReplyObject(reply);
    return known;
}
