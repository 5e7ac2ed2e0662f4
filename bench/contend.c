/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many processes want one lock: commands per acquisition, acquisitions per second, and whether each
 * process gets its share. This is compared with the design that the library replaced: one thread of
 * each process polls, and sleeps between two tries.
 */
#include <holdfast.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "b_crew.h"
#include "b_redis.h"
#include "b_rounds.h"
#include "b_time.h"

#define THREADS         4
#define POLL_MS         10 /* the old design specifies no value */
#define ROUNDS          5
#define WARM_UP_S       0.1
#define WATCH_S         0.4
#define FAIR_PROCESSES  24
#define FAIR_TURNS      25 /* of each process, on average */
#define HOLD_MS         10
#define COMMANDS_TARGET 1.3
#define GROWTH_TARGET   1.1
#define FAIR_TARGET     0.95

/* ---- Ours ---- */

static void *open_client(void *hold_ms, int process) {
    hf_client *client;
    (void)hold_ms;
    (void)process;
    if (hf_open(b_redis_url(B_TCP), NULL, &client) != HF_OK) b_fail("%s", hf_error_detail());
    return client;
}

static void lock_for(hf_client *client, unsigned ms) {
    hf_hold *hold;
    if (hf_lock(client, "bench:contend", &hold) != HF_OK) b_fail("%s", hf_error_detail());
    if (ms) usleep(ms * 1000);
    if (hf_release(hold) != HF_OK) b_fail("%s", hf_error_detail());
}

static void lock_shortly(void *client, int thread) {
    (void)thread;
    lock_for(client, 0);
}

static void lock_for_a_while(void *client, int thread) {
    (void)thread;
    lock_for(client, HOLD_MS);
}

static void close_client(void *client, int threads) {
    (void)threads;
    hf_close(client);
}

/* ---- The poller ---- */

static const char UNLOCK[] = "if redis.call('GET', KEYS[1]) == ARGV[1] then\n"
                             "    return redis.call('DEL', KEYS[1])\n"
                             "end\n"
                             "return 0\n";

/* State of one process: which thread may poll, and the connection and commands of each thread. */
typedef struct poller {
    pthread_mutex_t local;
    struct {
        redisContext *c;
        b_command lock, unlock;
    } threads[THREADS];
} poller;

static void *enter_poller(void *arg, int process) {
    poller *p = calloc(1, sizeof *p);
    (void)arg;
    if (!p) b_fail("out of memory");
    pthread_mutex_init(&p->local, NULL);
    for (int i = 0; i < THREADS; i++) {
        char owner[64];
        snprintf(owner, sizeof owner, "01234567-89ab-4cde-8f01-%012d:%d", process, i);
        redisContext *c = b_redis_connect(B_TCP);
        char *sha1 = b_script_load(c, UNLOCK);
        p->threads[i].c = c;
        p->threads[i].lock = b_command_make(
            (const char *[]){"SET", "bench:polled", owner, "NX", "PX", "30000", NULL});
        p->threads[i].unlock =
            b_command_make((const char *[]){"EVALSHA", sha1, "1", "bench:polled", owner, NULL});
        free(sha1);
    }
    return p;
}

static bool try_polled(poller *p, int thread) {
    redisContext *c = p->threads[thread].c;
    const b_command *lock = &p->threads[thread].lock;
    redisReply *reply = redisCommandArgv(c, lock->count, (const char **)lock->args, lock->lengths);
    if (!reply || reply->type == REDIS_REPLY_ERROR) b_fail("hiredis: SET failed");
    bool locked = reply->type == REDIS_REPLY_STATUS;
    freeReplyObject(reply);
    return locked;
}

/* As in the old design: one try without the local lock, all others with it. */
static void poll_for(poller *p, int thread, unsigned hold_ms) {
    if (!try_polled(p, thread)) {
        pthread_mutex_lock(&p->local);
        while (!try_polled(p, thread)) usleep(POLL_MS * 1000);
        pthread_mutex_unlock(&p->local);
    }
    if (hold_ms) usleep(hold_ms * 1000);
    if (b_command_run(p->threads[thread].c, &p->threads[thread].unlock) != 1)
        b_fail("a polled lock was lost");
}

static void poll_shortly(void *p, int thread) {
    poll_for(p, thread, 0);
}

static void poll_for_a_while(void *p, int thread) {
    poll_for(p, thread, HOLD_MS);
}

static void leave_poller(void *arg, int threads) {
    poller *p = arg;
    for (int i = 0; i < THREADS; i++) {
        b_command_fini(&p->threads[i].lock);
        b_command_fini(&p->threads[i].unlock);
        redisFree(p->threads[i].c);
    }
    (void)threads;
    free(p);
}

static b_work our_work(int processes, int threads, void (*turn)(void *, int)) {
    return (b_work){.processes = processes,
                    .threads = threads,
                    .enter = open_client,
                    .turn = turn,
                    .leave = close_client};
}

static b_work polling_work(int processes, int threads, void (*turn)(void *, int)) {
    return (b_work){.processes = processes,
                    .threads = threads,
                    .enter = enter_poller,
                    .turn = turn,
                    .leave = leave_poller};
}

/* ---- Commands of an acquisition ---- */

typedef struct contenders {
    b_work work;
    redisContext *c;
    bool plain_set; /* SET is sent by clients; otherwise by scripts, and does not count */
} contenders;

static int64_t count_sent(const contenders *w) {
    int64_t calls = b_usage_of(w->c, "evalsha").calls + b_usage_of(w->c, "eval").calls;
    return w->plain_set ? calls + b_usage_of(w->c, "set").calls : calls;
}

/* Returns commands per acquisition; adds acquisitions per second to `each`. */
static double crowd_round(void *arg, b_series *each) {
    const contenders *w = arg;
    b_crew *crew = b_crew_start(&w->work);
    b_sleep(WARM_UP_S);
    b_usage_reset(w->c);
    uint64_t before = b_crew_turns(crew);
    double seconds = b_sleep(WATCH_S);
    double turns = (double)(b_crew_turns(crew) - before), commands = (double)count_sent(w);
    b_crew_end(crew);
    if (turns <= 0) b_fail("no process got the lock");
    b_series_add(each, turns / seconds);
    return commands / turns;
}

static void report_row(const char *name, const char *unit, const b_side *a, const b_side *b,
                       double target) {
    b_ratio row = b_rounds_ratio(a, b);
    row.name = name;
    row.unit = unit;
    row.target = target;
    b_report_ratio(&row);
}

static void measure_crowds(redisContext *c) {
    contenders many = {.work = our_work(32, THREADS, lock_shortly), .c = c};
    contenders few = {.work = our_work(4, THREADS, lock_shortly), .c = c};
    contenders many_poll = {
        .work = polling_work(32, THREADS, poll_shortly), .c = c, .plain_set = true};
    contenders few_poll = {
        .work = polling_work(4, THREADS, poll_shortly), .c = c, .plain_set = true};
    b_side commands[] = {{.round = crowd_round, .arg = &many},
                         {.round = crowd_round, .arg = &many_poll},
                         {.round = crowd_round, .arg = &few},
                         {.round = crowd_round, .arg = &few_poll}};
    b_side rates[4];
    b_rounds_run(commands, 4, ROUNDS);
    for (int i = 0; i < 4; i++) {
        rates[i] = (b_side){.rounds = commands[i].each};
        commands[i].each = (b_series){0};
    }

    b_section("One lock, no hold time, 4 threads", "holdfast", "polled, 10 ms");
    report_row("32 processes: commands", "", &commands[0], &commands[1], 0);
    report_row("32 processes: acquisitions", "/s", &rates[0], &rates[1], 0);
    report_row("4 processes: commands", "", &commands[2], &commands[3], 0);
    report_row("4 processes: acquisitions", "/s", &rates[2], &rates[3], 0);
    b_section("Commands of an acquisition", "32 processes", "4 processes");
    report_row("32 processes against 4", "", &commands[0], &commands[2], GROWTH_TARGET);
    b_report_bound("32 processes, on average", b_series_median(&commands[0].rounds), "", B_AT_MOST,
                   COMMANDS_TARGET);
    b_rounds_fini(commands, 4);
    b_rounds_fini(rates, 4);
}

/* ---- Shares ---- */

/* Acquisitions of the process that got the fewest, divided by those of the one that got the
   most. */
static void measure_fairness(const char *name, const b_work *work, double target) {
    uint64_t before[FAIR_PROCESSES], least = UINT64_MAX, most = 0;
    b_crew *crew = b_crew_start(work);
    b_sleep(0.5);
    for (int i = 0; i < FAIR_PROCESSES; i++) before[i] = b_crew_turns_of(crew, i);
    uint64_t until = b_crew_turns(crew) + (uint64_t)FAIR_PROCESSES * FAIR_TURNS;
    while (b_crew_turns(crew) < until) b_sleep(0.01);
    for (int i = 0; i < FAIR_PROCESSES; i++) {
        uint64_t turns = b_crew_turns_of(crew, i) - before[i];
        if (turns < least) least = turns;
        if (turns > most) most = turns;
    }
    b_crew_end(crew);
    double share = most ? (double)least / (double)most : 0;
    char note[64];
    snprintf(note, sizeof note, "%s, %d to %d", name, (int)least, (int)most);
    if (target > 0)
        b_report_bound(note, share, "", B_AT_LEAST, target);
    else
        b_report_value(note, share, "", NULL);
}

static void report_shares(void) {
    b_work lock = our_work(FAIR_PROCESSES, 1, lock_for_a_while);
    b_work poll = polling_work(FAIR_PROCESSES, 1, poll_for_a_while);
    b_section("24 processes, 10 ms holds", "least/most", "");
    measure_fairness("holdfast", &lock, FAIR_TARGET);
    measure_fairness("polled, 10 ms", &poll, 0);
}

int main(int argc, char **argv) {
    b_report_begin("contend", argc, argv);
    b_redis_start();
    redisContext *c = b_redis_connect(B_UNIX);
    measure_crowds(c);
    report_shares();
    redisFree(c);
    return 0;
}
