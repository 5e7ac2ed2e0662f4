/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the model of Redis with a real server. Both get the same requests, and the answers must
 * be the same bytes. Commands, malformed commands and small scripts are drawn at random from a
 * seed.
 *
 *     sim_model_check            a fixed number of commands from seed 1
 *     sim_model_check SEED       the same from another seed
 *
 * The model's clock is set to the server's before each command. Remaining times may differ by the
 * time that passes in between.
 */
#include "t.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rand.h"
#include "base/text.h"
#include "model/answer.h"
#include "model/lua.h"
#include "model/model.h"

enum { CONNECTIONS = 3, COMMANDS = 25000, ARGS = 32, READ_SIZE = 65536 };

/* Allowed difference of remaining times, in ms. It covers a busy machine. */
#define SLACK 2000

/* ---- Both servers ---- */

struct check_side {
    redisContext *real; /* only its socket is used */
    rm_conn *model;
    hf__buffer answer; /* bytes from the real server that are not compared yet */
};

struct both {
    t_redis *redis;
    rm_server model;
    struct check_side side[CONNECTIONS];
    hf__rand rand;
    uint64_t seed;
    char said[4096]; /* the command, for messages */
};

static uint64_t first_seed = 1;

static int set_up(void **state) {
    struct both *b = calloc(1, sizeof *b);
    T_CHECK(b);
    b->redis = t_redis_start(NULL);
    rm_init(&b->model);
    for (int i = 0; i < CONNECTIONS; i++) {
        b->side[i].real = redisConnect("127.0.0.1", t_redis_port(b->redis));
        T_CHECK(b->side[i].real && !b->side[i].real->err);
        b->side[i].model = rm_connect(&b->model, NULL);
        hf__buffer_init(&b->side[i].answer, RM_BYTES_MAX);
    }
    b->rand.state = b->seed = first_seed;
    *state = b;
    return 0;
}

static int tear_down(void **state) {
    struct both *b = *state;
    for (int i = 0; i < CONNECTIONS; i++) {
        redisFree(b->side[i].real);
        hf__buffer_fini(&b->side[i].answer);
    }
    rm_fini(&b->model);
    rm_lua_fini();
    t_redis_free(b->redis);
    free(b);
    return 0;
}

static int64_t draw_below(struct both *b, int64_t below) {
    return (int64_t)(hf__rand_next(&b->rand) % (uint64_t)below);
}

static bool draw_chance(struct both *b, int64_t in) {
    return draw_below(b, in) == 0;
}

/* ---- The real server's bytes ---- */

static void write_real(struct check_side *s, const char *bytes, size_t length) {
    while (length) {
        ssize_t n = write(s->real->fd, bytes, length);
        T_CHECK(n > 0);
        bytes += n;
        length -= (size_t)n;
    }
}

static void read_more(struct check_side *s) {
    char bytes[READ_SIZE];
    ssize_t n = read(s->real->fd, bytes, sizeof bytes);
    if (n <= 0) t_fail("the server closed the connection");
    hf__buffer_add(&s->answer, bytes, (size_t)n);
}

/* Returns the end of the value that begins at `at`; 0 if it is incomplete. */
static size_t value_end(const hf__buffer *a, size_t at) {
    const char *line = at < a->length ? memchr(a->data + at, '\n', a->length - at) : NULL;
    if (!line) return 0;
    size_t end = (size_t)(line - a->data) + 1;
    int64_t n = 0;
    (void)rm_integer((rm_bytes){a->data + at + 1, end - at - 3}, &n);
    switch (a->data[at]) {
    case '$': end += n < 0 ? 0 : (size_t)n + 2; return end <= a->length ? end : 0;
    case '*':
        for (; n > 0 && end; n--) end = value_end(a, end);
        return end;
    default: return end;
    }
}

static void drop_front(hf__buffer *a, size_t length) {
    memmove(a->data, a->data + length, a->length - length);
    hf__buffer_cut(a, a->length - length);
}

static size_t await_value(struct check_side *s) {
    size_t end;
    while (!(end = value_end(&s->answer, 0))) read_more(s);
    return end;
}

/* ---- Comparing ---- */

static const char *number_at(const char *at, const char *end, long long *n) {
    const char *from = at;
    *n = 0;
    for (; at < end && *at >= '0' && *at <= '9' && at - from < 17; at++) *n = *n * 10 + (*at - '0');
    return at;
}

/* Returns true if both are the same except for small differences of numbers. */
static bool nearly_same(rm_bytes a, rm_bytes b) {
    const char *x = a.at, *y = b.at, *x_end = x + a.length, *y_end = y + b.length;
    while (x < x_end && y < y_end) {
        long long m, n;
        const char *x_next = number_at(x, x_end, &m), *y_next = number_at(y, y_end, &n);
        if (x_next == x || y_next == y) {
            if (*x++ != *y++) return false;
            continue;
        }
        if (llabs(m - n) > SLACK) return false;
        x = x_next;
        y = y_next;
    }
    return x == x_end && y == y_end;
}

static void compare_answers(struct both *b, struct check_side *s, bool timed) {
    hf__buffer *model = &s->model->out;
    T_CHECK(!s->model->failed);
    while (model->length) {
        size_t end = await_value(s), model_end = value_end(model, 0);
        rm_bytes real = {s->answer.data, end}, ours = {model->data, model_end};
        if (!rm_same(real, ours) && !(timed && nearly_same(real, ours)))
            t_fail("seed %llu: to\n    %s\nthe server answers\n%.*s\nand the model\n%.*s",
                   (unsigned long long)b->seed, b->said, (int)end, real.at, (int)model_end,
                   ours.at);
        drop_front(&s->answer, end);
        drop_front(model, model_end);
    }
    if (s->answer.length)
        t_fail("seed %llu: to\n    %s\nthe server also answers\n%.*s", (unsigned long long)b->seed,
               b->said, (int)s->answer.length, s->answer.data);
}

/* ---- Sending ---- */

struct check_request {
    rm_bytes argv[ARGS];
    size_t argc;
};

static void encode_request(hf__buffer *out, const struct check_request *r) {
    rm_array(out, r->argc);
    for (size_t i = 0; i < r->argc; i++) rm_bulk(out, r->argv[i]);
}

static void describe_request(struct both *b, const struct check_request *r) {
    size_t used = 0;
    b->said[0] = '\0';
    for (size_t i = 0; i < r->argc && used < sizeof b->said; i++)
        used += (size_t)snprintf(b->said + used, sizeof b->said - used, "'%.*s' ",
                                 (int)r->argv[i].length, r->argv[i].at);
}

/* Sets the model's clock to the server's before a command, except on a subscribed connection,
   which allows few commands. */
static void set_clock(struct both *b, struct check_side *s) {
    long long seconds, micros;
    size_t end = await_value(s);
    T_CHECK(s->answer.data[0] == '*');
    hf__buffer_add(&s->answer, "", 1);
    T_CHECK(sscanf(s->answer.data, "*2 $%*d %lld $%*d %lld", &seconds, &micros) == 2);
    hf__buffer_cut(&s->answer, s->answer.length - 1);
    b->model.now_us = seconds * 1000000 + micros;
    drop_front(&s->answer, end);
}

static void exchange_both(struct both *b, int which, const struct check_request *r, bool timed) {
    struct check_side *s = &b->side[which];
    static const char ask_time[] = "*1\r\n$4\r\nTIME\r\n";
    hf__buffer out;
    hf__buffer_init(&out, RM_BYTES_MAX);
    encode_request(&out, r);
    describe_request(b, r);
    bool clock = s->model->subscribed == 0;
    if (clock) write_real(s, ask_time, sizeof ask_time - 1);
    write_real(s, out.data, out.length);
    if (clock) set_clock(b, s);
    rm_feed(s->model, out.data, out.length);
    hf__buffer_fini(&out);
    (void)await_value(s);
    compare_answers(b, s, timed);
    for (int i = 0; i < CONNECTIONS; i++) compare_answers(b, &b->side[i], timed);
}

/*
 * ---- Commands at random ----
 *
 * Lower-case letters are placeholders for drawn words:
 *
 *   k a key             f a field            v a value         c a channel
 *   n a small number    x any number, or a word that is none
 *   s a score           b a bound of scores
 *   t a duration        z a duration that is invalid or past
 *
 * Durations are long enough that no key expires on one side only.
 */

static const char *const templates[] = {
    "GET k",
    "SET k v",
    "SET k v PX t",
    "SET k v PX t GET",
    "SET k v EX z NX",
    "SET k v XX GET",
    "SET k v NX GET",
    "SET k v KEEPTTL",
    "SET k v GET KEEPTTL XX",
    "SET k v PX z",
    "SET k v PX t KEEPTTL",
    "SET k v PXAT z",
    "DEL k",
    "DEL k k",
    "UNLINK k",
    "EXISTS k k k",
    "TYPE k",
    "HGET k f",
    "HSET k f v",
    "HSET k f v f v",
    "HSET k f x",
    "HSETNX k f v",
    "HMGET k f f f",
    "HGETALL k",
    "HDEL k f f",
    "HEXISTS k f",
    "HLEN k",
    "HINCRBY k f x",
    "PEXPIRE k t",
    "PEXPIRE k z",
    "PEXPIRE k t NX",
    "PEXPIRE k t XX",
    "PEXPIRE k t GT",
    "PEXPIRE k t LT",
    "PEXPIRE k t LT GT",
    "PEXPIRE k t NX GT",
    "EXPIRE k t",
    "PERSIST k",
    "LPUSH k v v",
    "RPUSH k v v v",
    "LPOP k",
    "RPOP k",
    "LPOP k x",
    "RPOP k n",
    "LINDEX k x",
    "LRANGE k x x",
    "LSET k x v",
    "LREM k n v",
    "LREM k x v",
    "LLEN k",
    "LPOS k v",
    "LPOS k v RANK x",
    "LPOS k v COUNT n",
    "LPOS k v RANK x COUNT x",
    "LPOS k v MAXLEN n COUNT n",
    "LINSERT k BEFORE v v",
    "LINSERT k AFTER v v",
    "PUBLISH c v",
    "PUBSUB NUMSUB c c",
    "PUBSUB NUMSUB",
    "SCRIPT EXISTS v",
    "SCRIPT NONSENSE",
    "PING",
    "PING v",
    "ROLE",
    "SELECT x",
    "SELECT 0",
    "AUTH v",
    "NOSUCH k v",
    "EVALSHA v 0",
    "EVALSHA 0123456789012345678901234567890123456789 0",
};

static const char *const timed_templates[] = {"PTTL k", "TTL k"};

static const char *const keys[] = {"a", "b", "c", "list", "hf:{name}", ""};
static const char *const fields[] = {"f", "g", "n", "t", "a field", "f2"};
static const char *const values[] = {"v",   "w",         "0",    "17", "-3",
                                     "1.5", "two words", "a\tb", "",   "v2"};
static const char *const numbers[] = {"0",
                                      "1",
                                      "-1",
                                      "2",
                                      "7",
                                      "100",
                                      "-2",
                                      "x",
                                      "1000",
                                      "",
                                      "1.5",
                                      "01",
                                      "+1",
                                      "9223372036854775807",
                                      "-9223372036854775808",
                                      "9223372036854775808"};
static const char *const small[] = {"0", "1", "2", "-1", "-2", "3"};
static const char *const scores[] = {"0",   "1",    "2",   "-1",  "1.5", "0.1", "3",
                                     "inf", "-inf", "1e3", "nan", "x",   "",    "1794777709466788"};
static const char *const bounds[] = {"0", "(0", "1", "(1.5", "-inf", "+inf", "2", "x", "(", "100"};
static const char *const odd_spans[] = {
    "0", "-1", "x", "", "1.5", "9223372036854775807", "-9223372036854775808", "100000"};
static const char *const channels[] = {"hf:c:1", "hf:c:2", "news"};

#define PICK(b, list) ((list)[draw_below(b, (int64_t)(sizeof(list) / sizeof *(list)))])

/* Durations differ by seconds, so both servers agree on which one is longer. */
static const char *draw_duration(struct both *b) {
    static char text[ARGS][24];
    static size_t next;
    char *made = text[next++ % ARGS];
    snprintf(made, sizeof text[0], "%lld", 100000 + 5000 * (long long)draw_below(b, 2000));
    return made;
}

static const char *fill_placeholder(struct both *b, const char *word) {
    if (word[1]) return word;
    switch (word[0]) {
    case 'k': return PICK(b, keys);
    case 'f': return PICK(b, fields);
    case 'v': return PICK(b, values);
    case 'x': return PICK(b, numbers);
    case 'n': return PICK(b, small);
    case 's': return PICK(b, scores);
    case 'b': return PICK(b, bounds);
    case 't': return draw_duration(b);
    case 'z': return PICK(b, odd_spans);
    case 'c': return PICK(b, channels);
    default: return word;
    }
}

/* The words live in `memory` while the request is in use. */
static void make_request(struct both *b, struct check_request *r, const char *template,
                         char *memory) {
    strcpy(memory, template);
    for (char *word = strtok(memory, " "); word; word = strtok(NULL, " "))
        r->argv[r->argc++] = rm_text(fill_placeholder(b, word));
    if (draw_chance(b, 25)) r->argc--;
    if (draw_chance(b, 25)) r->argv[r->argc++] = rm_text(PICK(b, values));
    if (draw_chance(b, 25) && r->argc)
        r->argv[draw_below(b, (int64_t)r->argc)] = rm_text(PICK(b, values));
    if (!r->argc || !r->argv[0].length) *r = (struct check_request){{rm_text("GET")}, 1};
}

/* The same command through Lua: its answer passes both conversions. */
static const char *const wrappers[] = {
    "return redis.call(unpack(ARGV))",
    "return redis.pcall(unpack(ARGV))",
    "local r = redis.pcall(unpack(ARGV)) if type(r) == 'table' and r.err then return r.err end "
    "return {type(r), r}",
    "local r = redis.pcall(unpack(ARGV))\nif type(r) == 'table' and r.ok then return r.ok end\n"
    "if r == false then return 'none' end return r",
    "redis.call(unpack(ARGV)) return redis.call('EXISTS', 'a', 'b', 'c')",
};

static void wrap_in_lua(struct both *b, struct check_request *r) {
    struct check_request inner = *r;
    r->argc = 0;
    r->argv[r->argc++] = rm_text("EVAL");
    r->argv[r->argc++] = rm_text(PICK(b, wrappers));
    r->argv[r->argc++] = rm_text("0");
    for (size_t i = 0; i < inner.argc && r->argc < ARGS; i++) r->argv[r->argc++] = inner.argv[i];
}

static void random_command(struct both *b) {
    struct check_request r = {.argc = 0};
    char memory[256];
    bool timed = draw_chance(b, 20);
    int which = (int)draw_below(b, CONNECTIONS - 1); /* the last one is for subscriptions */
    make_request(b, &r, timed ? PICK(b, timed_templates) : PICK(b, templates), memory);
    if (draw_chance(b, 4) && !rm_is(r.argv[0], "select")) wrap_in_lua(b, &r);
    exchange_both(b, which, &r, timed);
}

static void send_words(struct both *b, int which, const char *words) {
    struct check_request r = {.argc = 0};
    char memory[256];
    strcpy(memory, words);
    for (char *word = strtok(memory, " "); word; word = strtok(NULL, " "))
        r.argv[r.argc++] = rm_text(fill_placeholder(b, word));
    exchange_both(b, which, &r, false);
}

/* Waits until a key has expired on both sides. */
static void let_one_expire(struct both *b) {
    char words[64];
    snprintf(words, sizeof words, "PEXPIRE %s 1", PICK(b, fields)[0] == 'f' ? "a" : "b");
    send_words(b, 0, words);
    usleep(4000);
    send_words(b, 0, "EXISTS a b");
}

static void random_subscription(struct both *b) {
    static const char *const said[] = {
        "SUBSCRIBE c", "SUBSCRIBE c c",   "UNSUBSCRIBE c",     "UNSUBSCRIBE",
        "PING",        "PING v",          "UNSUBSCRIBE c c",   "GET a",
        "SUBSCRIBE",   "PSUBSCRIBE hf:*", "PUNSUBSCRIBE hf:*", "PUNSUBSCRIBE"};
    const char *words = PICK(b, said);
    /* With several subscriptions the server's order is arbitrary. */
    if (!strcmp(words, "UNSUBSCRIBE") && b->side[CONNECTIONS - 1].model->subscribed > 1) return;
    send_words(b, CONNECTIONS - 1, words);
}

static void set_memory(struct both *b, bool full) {
    freeReplyObject(t_redis_cmd(b->redis, "CONFIG SET maxmemory %s", full ? "1" : "0"));
    b->model.memory_full = full;
}

/* Withdraws the right to publish, as for a user whose ACL forgot messages. */
static void set_refused(struct both *b, bool refused) {
    freeReplyObject(
        t_redis_cmd(b->redis, "ACL SETUSER default %s", refused ? "-publish" : "+publish"));
    b->model.refused = refused ? "publish" : NULL;
}

static void test_random_commands(void **state) {
    struct both *b = *state;
    for (int i = 0; i < COMMANDS; i++) {
        if (draw_chance(b, 15)) random_subscription(b);
        if (draw_chance(b, 300)) let_one_expire(b);
        if (draw_chance(b, 100)) send_words(b, 0, "FLUSHALL");
        if (draw_chance(b, 100)) set_memory(b, !b->model.memory_full && draw_chance(b, 2));
        if (draw_chance(b, 100)) set_refused(b, draw_chance(b, 2));
        random_command(b);
    }
}

/* ---- Scripts ---- */

/* Each runs with KEYS[1] 'a', KEYS[2] 'b' and ARGV 'x', '17', ''. */
static const char *const scripts[] = {
    "return 1",
    "return 3.99",
    "return -3.99",
    "return 1e15",
    "return 1794777709466788",
    "return 'text'",
    "return ''",
    "return true",
    "return false",
    "return nil",
    "return",
    "",
    "return {}",
    "return {1, 2, nil, 4}",
    "return {1, 'two', false, true, {3, {4}}, 5.5}",
    "return {1, {err = 'MY error'}, {ok = 'fine'}, 2}",
    "return {err = 'MY error'}",
    "return {err = 'one'}",
    "return {ok = 'fine'}",
    "return {err = 'with\\nline'}",
    "return redis.error_reply('MY error')",
    "return redis.error_reply('-MY error')",
    "return redis.error_reply('single')",
    "return redis.error_reply('HFFENCE the fence holds no token')",
    "return redis.error_reply(1, 2)",
    "return redis.status_reply('FINE')",
    "return redis.status_reply()",
    "return redis.sha1hex('')",
    "return redis.sha1hex('abc')",
    "return redis.sha1hex(string.rep('x', 1000))",
    "return redis.sha1hex(string.rep('y', 55))",
    "return redis.sha1hex(string.rep('z', 64))",
    "return redis.sha1hex()",
    "return KEYS",
    "return ARGV",
    "return {#KEYS, #ARGV, KEYS[1], ARGV[3], ARGV[4]}",
    "return tonumber(ARGV[2]) + 1",
    "return ARGV[2] + 1",
    "return ARGV[1] + 1",
    "return tostring(1794777709466788)",
    "return tostring(2^53)",
    "return string.format('%.0f', 1794777709466788)",
    "return string.format('%.17g', 0.1)",
    "return tostring(0.1)",
    "return nosuch",
    "nosuch = 1 return nosuch",
    "local x = nil return x.y",
    "return x..y",
    "error('boom')",
    "error({err = 'MY table'})",
    "error({err = 'single'})",
    "error()",
    "local f = function() error('deep') end\n\nf()",
    "this is no lua",
    "return (",
    "return redis.call()",
    "return redis.call('NOSUCH')",
    "return redis.call('GET')",
    "return redis.call('GET', 'a', 'b')",
    "return redis.call('GET', {})",
    "return redis.call('GET', nil)",
    "return redis.call('GET', true)",
    "return redis.call('EVAL', 'return 1', 0)",
    "return redis.call('SUBSCRIBE', 'c')",
    "return redis.call('SCRIPT', 'FLUSH')",
    "return redis.call('AUTH', 'x')",
    "return redis.pcall('NOSUCH')",
    "return redis.pcall('NOSUCH').err",
    "return redis.pcall('GET').err",
    "return redis.pcall().err",
    "return redis.pcall('GET', {}).err",
    "local ok, e = pcall(redis.call, 'NOSUCH') return {ok, type(e), e.err}",
    "local ok, e = pcall(error, 'text') return {ok, type(e), e}",
    "return redis.call('SET', KEYS[1], 1.5)",
    "return redis.call('SET', KEYS[1], 1794777709466788) and redis.call('GET', KEYS[1])",
    "return redis.call('SET', KEYS[1], 0.1) and redis.call('GET', KEYS[1])",
    "return redis.call('SET', KEYS[1], 1e300) and redis.call('GET', KEYS[1])",
    "return redis.call('SET', KEYS[1], -0.5) and redis.call('GET', KEYS[1])",
    "return redis.call('SET', KEYS[1], 'x', 'PX', 100000).ok",
    "return redis.call('SET', KEYS[1], 'y', 'PX', 100000, 'GET')",
    "return redis.call('SET', KEYS[1], 'y', 'NX')",
    "return redis.call('SET', KEYS[1], 'y', 'NX') == false",
    "return type(redis.call('GET', 'none'))",
    "return redis.call('HSET', KEYS[1], 'f', 1)",
    "return redis.pcall('HSET', KEYS[1], 'f', 1)",
    "return redis.pcall('HSET', KEYS[1], 'f', 1).err",
    "redis.call('DEL', KEYS[1]) redis.call('HSET', KEYS[1], 'n', 'x:1', 't', 5) "
    "return redis.call('HMGET', KEYS[1], 'n', 'none', 't')",
    "redis.call('DEL', KEYS[1])\nredis.call('HSET', KEYS[1], 'n', 1)\n"
    "return redis.call('HGETALL', KEYS[1])",
    "redis.call('DEL', KEYS[2]) redis.call('RPUSH', KEYS[2], 'a', 'b', 'c') "
    "return redis.call('LPOP', KEYS[2], 2)",
    "return redis.call('LPOP', 'none', 2)",
    "return redis.call('LPOP', 'none')",
    "return #redis.call('TIME')",
    "return type(redis.call('TIME')[1])",
    "return redis.call('TYPE', KEYS[2])",
    "return redis.call('TYPE', KEYS[2]).ok",
    "return redis.call('PING')",
    "return redis.call('PING').ok",
    "return redis.call('PUBLISH', 'news', 'x')",
    "return redis.call('PUBSUB', 'NUMSUB', 'news', 'none')",
    "return redis.call('PTTL', 'none')",
    "return redis.call('SELECT', 1)",
    "redis.call('SELECT', 1) redis.call('SET', 'other', 'db') return redis.call('GET', 'other')",
    "return redis.call('GET', 'other')",
    "return {string.match('3941:12', '^(.*):(%d+)$')}",
    "local t = {} for a, b in string.gmatch('x 1 y 2', '(%S) (%d)') do t[#t + 1] = a .. b end "
    "return t",
    "local t = {3, 1, 2} table.sort(t) return t",
    "return table.concat({'a', 'b'}, ',')",
    "return {unpack({1, 2, 3})}",
    "return math.max(1, '5' + 1)",
    "return math.floor(7.9)",
    "return select('#', 1, 2, 3)",
    "for i = 1, 3 do redis.call('RPUSH', 'loop', i) end return redis.call('LRANGE', 'loop', 0, -1)",
    "return redis.call('FLUSHALL')",
    "redis.call('DEL', KEYS[1]) redis.call('SET', KEYS[1], 'after DEL') "
    "return redis.call('GET', KEYS[1])",
    "return redis.call('GET', KEYS[1])",
};

static void eval_script(struct both *b, const char *text) {
    struct check_request r = {.argc = 0};
    const char *words[] = {"EVAL", text, "2", "a", "b", "x", "17", ""};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) r.argv[r.argc++] = rm_text(words[i]);
    exchange_both(b, 0, &r, false);
}

static void eval_all(struct both *b) {
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) eval_script(b, scripts[i]);
}

static void test_scripts(void **state) {
    struct both *b = *state;
    eval_all(b);
    send_words(b, CONNECTIONS - 1, "SUBSCRIBE news");
    eval_all(b);
    send_words(b, 0, "FLUSHALL");
    set_memory(b, true);
    eval_all(b);
    set_memory(b, false);
    eval_all(b);
}

static void test_script_cache(void **state) {
    struct both *b = *state;
    static const char *const sequence[] = {
        "EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 0", /* "return 1" */
        "SCRIPT EXISTS e0e1f9fabfc9d4800c877a703b823ac0578ff8db",
        "SCRIPT LOAD nonsense(",
        "SCRIPT LOAD return",
        "EVALSHA 63143b6f8007b98c53ca2149822777b3566f9241 0",
        "EVALSHA 63143B6F8007B98C53CA2149822777B3566F9241 0",
        "EVALSHA 63143b6f8007b98c53ca2149822777b3566f9241 1",
        "EVALSHA 63143b6f8007b98c53ca2149822777b3566f9241 -1",
        "EVALSHA 63143b6f8007b98c53ca2149822777b3566f9241 x",
        "EVALSHA e0e1f9fabfc9d4800c877a703b823ac0578ff8db 1",
        "EVALSHA tooshort 1",
        "EVAL return 1",
        "EVAL return -1",
        "SCRIPT FLUSH SYNC",
        "SCRIPT FLUSH",
        "SCRIPT FLUSH NOW",
        "SCRIPT EXISTS 63143b6f8007b98c53ca2149822777b3566f9241",
        "EVALSHA 63143b6f8007b98c53ca2149822777b3566f9241 0",
        "SCRIPT LOAD",
        "SCRIPT EXISTS",
        "SCRIPT",
    };
    for (size_t i = 0; i < sizeof sequence / sizeof *sequence; i++) send_words(b, 0, sequence[i]);
}

int main(int argc, char **argv) {
    if (argc > 1) first_seed = strtoull(argv[1], NULL, 10);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_scripts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_script_cache, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_random_commands, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
