/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Acquires and releases 64 locks at once with async calls. This is compared with the server's own
 * benchmark, which sends the same scripts in pipelines of 32 over its 50 connections.
 */
#include <holdfast.h>
#include <poll.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "b_plain.h"
#include "b_rounds.h"
#include "b_time.h"

#define FLIGHTS  64
#define PAIRS    150 /* on each side */
#define ROUNDS   7
#define PIPELINE "32"
#define REQUESTS 16000
#define NAMES    80000 /* names that the benchmark chooses from */
#define TARGET   0.7

/* ---- Ours ---- */

typedef struct fleet {
    hf_client *client;
    bool threads;
    atomic_int flying;
    sem_t landed;
} fleet;

typedef struct flight {
    fleet *of;
    char name[32];
    int left;
} flight;

static void on_acquired(hf_result result, hf_hold *hold, void *arg);

static void acquire_lock(flight *f) {
    if (hf_acquire_async(f->of->client, f->name, NULL, on_acquired, f) != HF_OK)
        b_fail("%s", hf_error_detail());
}

static void on_released(hf_result result, void *arg) {
    flight *f = arg;
    if (result != HF_OK) b_fail("not released: %s", hf_error_detail());
    if (--f->left)
        acquire_lock(f);
    else if (atomic_fetch_sub(&f->of->flying, 1) == 1)
        sem_post(&f->of->landed);
}

static void on_acquired(hf_result result, hf_hold *hold, void *arg) {
    if (result != HF_OK) b_fail("not acquired: %s", hf_error_detail());
    if (hf_release_async(hold, on_released, arg) != HF_OK) b_fail("%s", hf_error_detail());
}

static void drive_loop(fleet *fl) {
    while (atomic_load(&fl->flying)) {
        struct pollfd fd = {.fd = hf_fd(fl->client), .events = POLLIN};
        if (poll(&fd, 1, -1) > 0 && hf_dispatch(fl->client) != HF_OK)
            b_fail("%s", hf_error_detail());
    }
    sem_wait(&fl->landed);
}

/* Commands per second. */
static double our_round(void *arg, b_series *each) {
    fleet *fl = arg;
    flight flights[FLIGHTS];
    (void)each;
    atomic_store(&fl->flying, FLIGHTS);
    int64_t began = b_now();
    for (int i = 0; i < FLIGHTS; i++) {
        flights[i] = (flight){.of = fl, .left = PAIRS};
        snprintf(flights[i].name, sizeof flights[i].name, "bench:flight:%012d", i);
        acquire_lock(&flights[i]);
    }
    if (fl->threads)
        sem_wait(&fl->landed);
    else
        drive_loop(fl);
    return 2.0 * FLIGHTS * PAIRS * 1e9 / (double)(b_now() - began);
}

static void fleet_init(fleet *fl, bool threads) {
    hf_client_options options = {.flags = threads ? 0 : HF_NO_THREAD};
    *fl = (fleet){.threads = threads};
    sem_init(&fl->landed, 0, 0);
    if (hf_open(b_redis_url(B_TCP), &options, &fl->client) != HF_OK)
        b_fail("%s", hf_error_detail());
}

static void fleet_fini(fleet *fl) {
    hf_close(fl->client);
    sem_destroy(&fl->landed);
}

/* ---- The server's own benchmark ---- */

/* Prepares every name that the server's benchmark may choose: free and with a token key, or held by
   the owner in the recorded command. The benchmark replaces twelve digits of the name at random. */
static const char FILL[] = "for i = ARGV[1], ARGV[2] do\n"
                           "    local key = string.format('hf:{bench:async:%012d}', i)\n"
                           "    if ARGV[3] == '' then\n"
                           "        if redis.call('DEL', key) == 0 then\n"
                           "            redis.call('SET', key .. ':f', '1', 'PX', 90000000)\n"
                           "        end\n"
                           "    else\n"
                           "        redis.call('HSET', key, 'owner', 1, 'n', ARGV[3], 't', '1')\n"
                           "        redis.call('PEXPIRE', key, 90000000)\n"
                           "    end\n"
                           "end\n"
                           "return 1\n";

typedef struct theirs {
    b_plain plain;
    char *prepare_sha1;
    char commands[2][1024]; /* acquire, release */
} theirs;

static void prepare_names(const theirs *t, const char *holder) {
    enum { STEP = 10000 };
    for (int i = 0; i < NAMES; i += STEP) {
        char from[16], to[16];
        snprintf(from, sizeof from, "%d", i);
        snprintf(to, sizeof to, "%d", i + STEP - 1);
        b_command command = b_command_make(
            (const char *[]){"EVALSHA", t->prepare_sha1, "0", from, to, holder, NULL});
        (void)b_command_run(t->plain.c, &command);
        b_command_fini(&command);
    }
}

/* The second field of the line `"EVALSHA …","123456.78","0.1",…`, which follows a line of
   headings. */
static double rate_of(const char *command) {
    char line[2048];
    double rate = 0;
    FILE *out = popen(command, "r");
    if (!out) b_fail("cannot run %s", command);
    while (fgets(line, sizeof line, out)) {
        const char *field = strstr(line, "\",\"");
        if (field && strncmp(line, "\"EVALSHA", 8) == 0) rate = atof(field + 3);
    }
    if (pclose(out) != 0 || rate <= 0) b_fail("the server's benchmark failed: %s", command);
    return rate;
}

static double rate_checked(const theirs *t, const char *command) {
    b_usage_reset(t->plain.c);
    double rate = rate_of(command);
    if (b_usage_of(t->plain.c, "evalsha").calls < REQUESTS)
        b_fail("the server's benchmark ran fewer commands than requested");
    return rate;
}

/* There are as many acquires as releases, so the rate is the harmonic mean of both. */
static double their_round(void *arg, b_series *each) {
    const theirs *t = arg;
    (void)each;
    prepare_names(t, "");
    double acquires = rate_checked(t, t->commands[0]);
    prepare_names(t, t->plain.release.args[6]);
    double releases = rate_checked(t, t->commands[1]);
    return 2 / (1 / acquires + 1 / releases);
}

/* The benchmark is part of the server's package: redis-server, redis-benchmark. */
static void benchmark_program(char *out, size_t size) {
    const char *server = getenv("HOLDFAST_TEST_SERVER");
    size_t length = server ? strlen(server) : 0;
    if (length > 7 && strcmp(server + length - 7, "-server") == 0)
        snprintf(out, size, "%.*s-benchmark", (int)(length - 7), server);
    else
        snprintf(out, size, "redis-benchmark");
}

/* The command as the library sent it, with placeholders in place of the name. */
static void make_command(char out[1024], const b_command *command, const char *name) {
    char program[256];
    const char *port = strrchr(b_redis_url(B_TCP), ':') + 1;
    benchmark_program(program, sizeof program);
    int used = snprintf(out, 1024, "%s -p %s -P " PIPELINE " -n %d -r %d --csv", program, port,
                        REQUESTS, NAMES);
    for (int i = 0; i < command->count; i++) {
        const char *arg = command->args[i], *at = strstr(arg, name);
        int before = at ? (int)(at - arg) : (int)strlen(arg);
        used += snprintf(out + used, 1024 - (size_t)used, " '%.*s%s%s'", before, arg,
                         at ? "bench:async:__rand_int__" : "", at ? at + strlen(name) : "");
        if (used >= 1024) b_fail("the command is too long for the server's benchmark");
    }
}

static void theirs_init(theirs *t) {
    const char *name = "bench:async:plain";
    b_plain_init(&t->plain, B_TCP, name);
    t->prepare_sha1 = b_script_load(t->plain.c, FILL);
    make_command(t->commands[0], &t->plain.acquire, name);
    make_command(t->commands[1], &t->plain.release, name);
}

static void theirs_fini(theirs *t) {
    free(t->prepare_sha1);
    b_plain_fini(&t->plain);
}

/* ---- The same over one connection ---- */

static void check_next(redisContext *c) {
    redisReply *reply;
    if (redisGetReply(c, (void **)&reply) != REDIS_OK) b_fail("%s", c->errstr);
    if (reply->type == REDIS_REPLY_ERROR) b_fail("the server says: %s", reply->str);
    freeReplyObject(reply);
}

static void append_command(redisContext *c, const b_command *command) {
    redisAppendCommandArgv(c, command->count, (const char **)command->args, command->lengths);
}

typedef struct piped {
    b_plain names[FLIGHTS];
} piped;

/* Plain hiredis: all acquires in one write, then all releases in one write. */
static double piped_round(void *arg, b_series *each) {
    piped *p = arg;
    redisContext *c = p->names[0].c;
    (void)each;
    int64_t began = b_now();
    for (int pair = 0; pair < PAIRS; pair++) {
        for (int i = 0; i < FLIGHTS; i++) append_command(c, &p->names[i].acquire);
        for (int i = 0; i < FLIGHTS; i++) check_next(c);
        for (int i = 0; i < FLIGHTS; i++) append_command(c, &p->names[i].release);
        for (int i = 0; i < FLIGHTS; i++) check_next(c);
    }
    return 2.0 * FLIGHTS * PAIRS * 1e9 / (double)(b_now() - began);
}

/* ---- Rows ---- */

static void report_row(const char *name, const b_side *a, const b_side *b, double target) {
    b_ratio row = b_rounds_ratio(a, b);
    row.name = name;
    row.unit = "/s";
    row.target = target;
    row.at_least = true;
    b_report_ratio(&row);
}

int main(int argc, char **argv) {
    static fleet loop, threads;
    static theirs their;
    static piped pipe;
    b_report_begin("async", argc, argv);
    b_redis_start();
    theirs_init(&their);
    for (int i = 0; i < FLIGHTS; i++) {
        char name[32];
        snprintf(name, sizeof name, "bench:piped:%012d", i);
        b_plain_init(&pipe.names[i], B_TCP, name);
    }
    fleet_init(&loop, false);
    fleet_init(&threads, true);

    b_side sides[] = {{.round = our_round, .arg = &loop},
                      {.round = our_round, .arg = &threads},
                      {.round = their_round, .arg = &their},
                      {.round = piped_round, .arg = &pipe}};
    b_rounds_run(sides, 4, ROUNDS);
    b_section("64 locks in flight, commands", "holdfast", "its benchmark");
    report_row("in the caller's loop", &sides[0], &sides[2], TARGET);
    report_row("with threads", &sides[1], &sides[2], TARGET);
    b_section("The same, over one connection", "holdfast", "hiredis, piped");
    report_row("in a loop, against hiredis", &sides[0], &sides[3], 0);
    report_row("with threads, against hiredis", &sides[1], &sides[3], 0);

    b_rounds_fini(sides, 4);
    fleet_fini(&loop);
    fleet_fini(&threads);
    theirs_fini(&their);
    for (int i = 0; i < FLIGHTS; i++) b_plain_fini(&pipe.names[i]);
    return 0;
}
