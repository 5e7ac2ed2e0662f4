/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a lock takes to pass to the next holder: from the call that releases it to the return of
 * the acquire in another process, which is already queued. This is compared with the minimum that
 * Redis allows: a script makes another process the holder and notifies it, while that process
 * blocks in a read. Then the same with longer and longer queues, and without hold time.
 */
#include <holdfast.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "b_crew.h"
#include "b_redis.h"
#include "b_rounds.h"
#include "b_time.h"

#define ROUNDS        7
#define WATCH_S       0.25
#define HOLD_US       200 /* at least, and until the next client is queued */
#define GOING_US      2000
#define QUEUE_WAIT_NS INT64_C(30000000000)
#define TOOK_MAX      65536
#define CLIENTS_MAX   16 /* of one process */
#define PAIR_TARGET   1.3
#define CROWD_TARGET  1.2
#define LOCK          "bench:handover"
#define QUEUE         "hf:{" LOCK "}:q"

/* Shared by the processes. The lock itself guards it, except for `watched`. */
typedef struct handover_log {
    int64_t released_at; /* 0: not yet */
    atomic_bool watched;
    atomic_size_t count;
    double took[TOOK_MAX];
} handover_log;

/* The processes that pass the lock around, with the same number of clients each. */
typedef struct handover_ring {
    b_work work;
    handover_log *log;
    bool holds;  /* with hold times; otherwise none */
    int waiting; /* clients that must be queued before the measurement; 0: none */
    redisContext *c;
} handover_ring;

/* ---- One turn of the lock ---- */

static long long queue_length(redisContext *c) {
    static const char *const args[] = {"LLEN", QUEUE, NULL};
    b_command length = b_command_make(args);
    long long n = b_command_run(c, &length);
    b_command_fini(&length);
    return n;
}

static void record_handover(handover_log *l) {
    int64_t now = b_now();
    if (!l->released_at || !atomic_load(&l->watched)) return;
    size_t count = atomic_load(&l->count);
    if (count == TOOK_MAX) return;
    l->took[count] = (double)(now - l->released_at);
    atomic_store(&l->count, count + 1);
}

/* The hold, with the same commands and sleeps on both sides. After the measurement, do not wait
   for another waiter: there may be none. */
static void work_under(redisContext *c, const handover_ring *r) {
    long long length;
    do {
        usleep(HOLD_US);
        length = queue_length(c);
    } while (r->waiting && length == 0 && atomic_load(&r->log->watched));
    usleep(HOLD_US);
}

/* ---- Ours ---- */

typedef struct holder {
    const handover_ring *ring;
    redisContext *look;
    hf_client *clients[CLIENTS_MAX]; /* one for each thread */
} holder;

static void *enter_ours(void *arg, int process) {
    const handover_ring *r = arg;
    holder *h = calloc(1, sizeof *h);
    (void)process;
    if (!h) b_fail("out of memory");
    h->ring = r;
    h->look = b_redis_connect(B_UNIX);
    for (int i = 0; i < r->work.threads; i++)
        if (hf_open(b_redis_url(B_TCP), NULL, &h->clients[i]) != HF_OK)
            b_fail("%s", hf_error_detail());
    return h;
}

static void turn_ours(void *arg, int thread) {
    const holder *h = arg;
    handover_log *l = h->ring->log;
    hf_hold *hold;
    if (hf_lock(h->clients[thread], LOCK, &hold) != HF_OK) b_fail("%s", hf_error_detail());
    record_handover(l);
    if (h->ring->holds) work_under(h->look, h->ring);
    l->released_at = b_now();
    if (hf_release(hold) != HF_OK) b_fail("%s", hf_error_detail());
}

static void leave_ours(void *arg, int threads) {
    holder *h = arg;
    for (int i = 0; i < threads; i++) hf_close(h->clients[i]);
    redisFree(h->look);
    free(h);
}

/* ---- The minimum ---- */

static const char HAND_OVER[] = "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end\n"
                                "redis.call('SET', KEYS[1], ARGV[2], 'PX', 30000)\n"
                                "redis.call('PUBLISH', ARGV[2], '')\n"
                                "return 1\n";

typedef struct least {
    const handover_ring *ring;
    redisContext *look;
    struct {
        redisContext *c, *ears;
        b_command release;
    } hands[CLIENTS_MAX]; /* one for each thread */
} least;

static void name_of(char out[32], int number) {
    snprintf(out, 32, "bench:least:%d", number);
}

/* Each hands over to the next, the last to the first. */
static void *enter_least(void *arg, int process) {
    const handover_ring *r = arg;
    least *p = calloc(1, sizeof *p);
    if (!p) b_fail("out of memory");
    p->ring = r;
    p->look = b_redis_connect(B_UNIX);
    for (int i = 0; i < r->work.threads; i++) {
        char self[32], next[32];
        int number = process * r->work.threads + i;
        name_of(self, number);
        name_of(next, (number + 1) % (r->work.processes * r->work.threads));
        redisContext *c = p->hands[i].c = b_redis_connect(B_TCP);
        p->hands[i].ears = b_redis_connect(B_TCP);
        freeReplyObject(redisCommand(p->hands[i].ears, "SUBSCRIBE %s", self));
        char *sha1 = b_script_load(c, HAND_OVER);
        p->hands[i].release =
            b_command_make((const char *[]){"EVALSHA", sha1, "1", "bench:least", self, next, NULL});
        free(sha1);
    }
    return p;
}

static void turn_least(void *arg, int thread) {
    least *p = arg;
    handover_log *l = p->ring->log;
    redisContext *ears = p->hands[thread].ears;
    redisReply *message;
    if (redisGetReply(ears, (void **)&message) != REDIS_OK) b_fail("%s", ears->errstr);
    record_handover(l);
    freeReplyObject(message);
    work_under(p->look, p->ring);
    l->released_at = b_now();
    if (b_command_run(p->hands[thread].c, &p->hands[thread].release) != 1)
        b_fail("a process that does not hold the lock tried to hand it over");
}

static void leave_least(void *arg, int threads) {
    least *p = arg;
    for (int i = 0; i < threads; i++) {
        b_command_fini(&p->hands[i].release);
        redisFree(p->hands[i].ears);
        redisFree(p->hands[i].c);
    }
    redisFree(p->look);
    free(p);
}

/* ---- Rounds ---- */

/* Wait until every client has been queued and has subscribed; or give the lock to the first. */
static void get_going(const handover_ring *r) {
    if (!r->waiting) {
        char first[32];
        name_of(first, 0);
        freeReplyObject(redisCommand(r->c, "SET bench:least %s", first));
        freeReplyObject(redisCommand(r->c, "PUBLISH %s go", first));
    }
    size_t listen = 0, all = r->waiting ? (size_t)r->waiting + 1 : 0;
    for (int64_t until = b_now() + QUEUE_WAIT_NS; listen < all; usleep(GOING_US)) {
        redisReply *channels = redisCommand(r->c, "PUBSUB CHANNELS hf:c:*");
        if (!channels) b_fail("hiredis: %s", r->c->errstr);
        listen = channels->elements;
        freeReplyObject(channels);
        if (b_now() > until) b_fail("%zu of %zu are queued", listen, all);
    }
    b_sleep(0.03);
}

/* The mean time of hand-overs; without hold times, the time per acquisition. */
static double ring_round(void *arg, b_series *each) {
    const handover_ring *r = arg;
    handover_log *l = r->log;
    l->released_at = 0;
    atomic_store(&l->count, 0);
    b_crew *crew = b_crew_start(&r->work);
    get_going(r);
    b_usage_reset(r->c);
    atomic_store(&l->watched, r->holds);
    uint64_t before = b_crew_turns(crew);
    double seconds = b_sleep(WATCH_S);
    double turns = (double)(b_crew_turns(crew) - before);
    double notified = (double)b_usage_of(r->c, "publish").calls;
    atomic_store(&l->watched, false);
    b_crew_end(crew);
    if (turns <= 0) b_fail("no hand-over happened among %d processes", r->work.processes);
    if (!r->holds) {
        b_series_add(each, notified / turns);
        return seconds * 1e9 / turns;
    }
    double sum = 0;
    size_t count = atomic_load(&l->count);
    for (size_t i = 0; i < count; i++) {
        b_series_add(each, l->took[i]);
        sum += l->took[i];
    }
    return count ? sum / (double)count : 0;
}

static void report_row(const char *name, const b_side *a, const b_side *b, double target) {
    b_ratio row = b_rounds_ratio(a, b);
    row.name = name;
    row.target = target;
    b_report_ratio(&row);
}

static handover_ring our_ring(handover_log *l, redisContext *c, int processes, int clients,
                              bool holds) {
    return (handover_ring){.work = {.processes = processes,
                                    .threads = clients,
                                    .enter = enter_ours,
                                    .turn = turn_ours,
                                    .leave = leave_ours},
                           .log = l,
                           .holds = holds,
                           .waiting = processes * clients - 1,
                           .c = c};
}

static handover_ring plain_ring(handover_log *l, redisContext *c, int processes, int clients) {
    return (handover_ring){.work = {.processes = processes,
                                    .threads = clients,
                                    .enter = enter_least,
                                    .turn = turn_least,
                                    .leave = leave_least},
                           .log = l,
                           .holds = true,
                           .c = c};
}

static void hand_overs(handover_log *l, redisContext *c) {
    handover_ring rings[] = {plain_ring(l, c, 2, 1),      plain_ring(l, c, 67, 3),
                             our_ring(l, c, 2, 1, true),  our_ring(l, c, 3, 1, true),
                             our_ring(l, c, 21, 1, true), our_ring(l, c, 67, 3, true)};
    b_side sides[6];
    for (int i = 0; i < 6; i++) {
        rings[i].work.arg = &rings[i];
        sides[i] = (b_side){.round = ring_round, .arg = &rings[i]};
    }
    b_rounds_run(sides, 6, ROUNDS);
    b_section("Hand-over, process to process", "holdfast", "least possible");
    report_row("two processes, mean", &sides[2], &sides[0], PAIR_TARGET);
    report_row("200 clients wait, mean", &sides[5], &sides[1], 0);
    b_section("The same, with a queue, mean", "holdfast", "two processes");
    report_row("2 clients wait, against 1", &sides[3], &sides[2], CROWD_TARGET);
    report_row("20 clients wait, against 1", &sides[4], &sides[2], CROWD_TARGET);
    report_row("200 clients wait, against 1", &sides[5], &sides[2], CROWD_TARGET);
    b_rounds_fini(sides, 6);
}

/* With a queue every acquisition is a hand-over; between two processes only some are. */
static void without_holds(handover_log *l, redisContext *c) {
    handover_ring rings[] = {our_ring(l, c, 3, 1, false), our_ring(l, c, 21, 1, false),
                             our_ring(l, c, 67, 3, false)};
    b_side sides[3];
    for (int i = 0; i < 3; i++) {
        rings[i].work.arg = &rings[i];
        sides[i] = (b_side){.round = ring_round, .arg = &rings[i]};
    }
    b_rounds_run(sides, 3, ROUNDS);
    b_series notified[3];
    for (int i = 0; i < 3; i++) {
        notified[i] = sides[i].each;
        sides[i].each = (b_series){0};
    }
    b_section("Time of an acquisition, no holds", "holdfast", "2 clients wait");
    report_row("20 clients wait, against 2", &sides[1], &sides[0], CROWD_TARGET);
    report_row("200 clients wait, against 2", &sides[2], &sides[0], CROWD_TARGET);
    b_report_value("  handed over, 2 wait", b_series_median(&notified[0]), "", NULL);
    b_report_value("  handed over, 200 wait", b_series_median(&notified[2]), "", NULL);
    for (int i = 0; i < 3; i++) b_series_fini(&notified[i]);
    b_rounds_fini(sides, 3);
}

int main(int argc, char **argv) {
    b_report_begin("handover", argc, argv);
    b_redis_start();
    redisContext *c = b_redis_connect(B_UNIX);
    handover_log *l = b_shared(sizeof *l);
    hand_overs(l, c);
    without_holds(l, c);
    redisFree(c);
    return 0;
}
