/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Server time of a pair, by INFO commandstats: our two scripts compared with the simplest
 * re-entrant lock on Redis, which has no token, no acquire id and no server time. Plain hiredis
 * sends both, so that only the scripts differ.
 */
#include <stdlib.h>

#include "b_plain.h"
#include "b_rounds.h"

#define ROUNDS 26
#define PAIRS  2000
#define TARGET 1.60
#define OWNER  "01234567-89ab-4cde-8f01-23456789abcd:1"

static const char TRY_LOCK[] =
    "local function TryLock(key, field, leaseTime)\n"
    "    if (redis.call('EXISTS', key) == 0) or (redis.call('HEXISTS', key, field) == 1) then\n"
    "        redis.call('HINCRBY', key, field, 1)\n"
    "        redis.call('PEXPIRE', key, leaseTime)\n"
    "        return redis.call('PTTL', key)\n"
    "    end\n"
    "    return -2\n"
    "end\n"
    "\n"
    "return TryLock(KEYS[1], ARGV[1], ARGV[2])\n";

static const char UNLOCK[] = "local function Unlock(key, field)\n"
                             "    if (redis.call('HEXISTS', key, field) == 0) then\n"
                             "        return 0\n"
                             "    end\n"
                             "\n"
                             "    local counter = redis.call('HINCRBY', key, field, -1)\n"
                             "\n"
                             "    if (counter < 1) then\n"
                             "        redis.call('DEL', key)\n"
                             "    end\n"
                             "\n"
                             "    return 1\n"
                             "end\n"
                             "\n"
                             "return Unlock(KEYS[1], ARGV[1])\n";

/* Our scripts if `ours` is set, otherwise the two commands. */
typedef struct script_side {
    redisContext *c;
    b_plain *ours;
    b_command lock, unlock;
} script_side;

static void run_pair(const script_side *s) {
    if (s->ours) {
        b_plain_pair(s->ours);
        return;
    }
    if (b_command_run(s->c, &s->lock) <= 0) b_fail("the simple lock was not taken");
    if (b_command_run(s->c, &s->unlock) != 1) b_fail("the simple lock was not released");
}

static double round_of(void *arg, b_series *each) {
    const script_side *s = arg;
    (void)each;
    b_usage_reset(s->c);
    for (int i = 0; i < PAIRS; i++) run_pair(s);
    b_usage usage = b_usage_of(s->c, "evalsha");
    if (usage.calls != 2 * PAIRS) b_fail("another client used the server");
    return (double)usage.usec * 1000 / PAIRS;
}

static void measure_sides(b_plain *plain, const char *try_lock, const char *unlock) {
    const char *key = "distributedLock:bench", *owner = OWNER;
    script_side ours = {.c = plain->c, .ours = plain}, seed = {.c = plain->c};
    seed.lock =
        b_command_make((const char *[]){"EVALSHA", try_lock, "1", key, owner, "30000", NULL});
    seed.unlock = b_command_make((const char *[]){"EVALSHA", unlock, "1", key, owner, NULL});

    b_side sides[] = {{.round = round_of, .arg = &ours}, {.round = round_of, .arg = &seed}};
    b_rounds_run(sides, 2, ROUNDS);
    b_ratio row = b_rounds_ratio(&sides[0], &sides[1]);
    row.name = "acquire and release";
    row.target = TARGET;
    b_report_ratio(&row);

    b_rounds_fini(sides, 2);
    b_command_fini(&seed.lock);
    b_command_fini(&seed.unlock);
}

int main(int argc, char **argv) {
    b_report_begin("server_cost", argc, argv);
    b_redis_start();
    b_redis_share_core();
    b_plain plain;
    b_plain_init(&plain, B_UNIX, "bench:plain");
    char *try_lock = b_script_load(plain.c, TRY_LOCK), *unlock = b_script_load(plain.c, UNLOCK);

    b_section("Server time of a pair", "our scripts", "simplest lock");
    measure_sides(&plain, try_lock, unlock);

    free(try_lock);
    free(unlock);
    b_plain_fini(&plain);
    return 0;
}
