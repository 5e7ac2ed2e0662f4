/* SPDX-License-Identifier: Apache-2.0 */
/* See fault.h. */
#include "fault.h"

#include <poll.h>
#include <unistd.h>

/* SIGALRM ends a test that hangs. cmocka has printed its name by then. */
enum { HANG_MS = 40000, URL_MAX = 1024 };

const t_redis_options BED_BARE;

/* ---- Around a test --------------------------------------------------------------------------- */

void fault_begin(int argc, char **argv) {
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 1) cmocka_set_test_filter(argv[1]);
}

/* The pattern has selected the tests. It must not also filter the tests that children run as
   (t_proc.h). */
int fault_chosen(void **state) {
    (void)state;
    cmocka_set_test_filter(NULL);
    return 0;
}

int bed_up(void **state) {
    const t_redis_options *options = *state;
    bed *b = calloc(1, sizeof *b);
    if (!b) return -1;
    *state = b;
    alarm((unsigned)(t_patience(HANG_MS) / 1000));
    if (options != &BED_BARE) b->redis = front_server(options);
    return 0;
}

/* A failed test may have left threads inside calls. Closing the clients ends their waits. */
int bed_down(void **state) {
    bed *b = *state;
    for (int i = 0; i < BED_CLIENTS; i++) hf_close(b->clients[i]);
    for (int i = 0; i < b->attempted; i++) {
        if (b->attempts[i].thread) t_threads_join(b->attempts[i].thread, SOON_MS);
    }
    t_proxy_free(b->proxy);
    t_fake_free(b->fake);
    t_redis_free(b->redis);
    front_end();
    alarm(0);
    free(b);
    return 0;
}

/* ---- Clients --------------------------------------------------------------------------------- */

hf_client *bed_open(bed *b, const char *url, const hf_client_options *options) {
    int slot = 0;
    while (slot < BED_CLIENTS && b->clients[slot]) slot++;
    assert_in_range(slot, 0, BED_CLIENTS - 1);
    T_HF(HF_OK, hf_open(front_url(url), options, &b->clients[slot]));
    return b->clients[slot];
}

hf_client *bed_direct(bed *b) {
    return bed_open(b, t_redis_url(b->redis), NULL);
}

void bed_close(bed *b, hf_client *client) {
    for (int i = 0; i < BED_CLIENTS; i++) {
        if (b->clients[i] == client) b->clients[i] = NULL;
    }
    hf_close(client);
}

/* Renewal, extension and release each have a script. The answer to the inspection arrives last. */
static void warm_up(hf_client *client) {
    hf_info *info = NULL;
    hf_hold *hold = acquire_or_fail(client, "warm", NULL, __FILE__, __LINE__);
    T_HF(HF_OK, hf_extend(hold, t_patience(60000)));
    FREE(hold);
    T_HF(HF_NOT_HELD, hf_break(client, "warm", 0));
    T_HF(HF_OK, hf_inspect(client, "warm", &info));
    hf_info_free(info);
}

hf_client *bed_through(bed *b, const hf_client_options *options) {
    if (!b->proxy) b->proxy = t_proxy_start(t_redis_port(b->redis));
    hf_client *client = bed_open(b, t_proxy_url(b->proxy), options);
    warm_up(client);
    return client;
}

const char *with_option(const char *url, const char *format, ...) {
    static char text[2 * URL_MAX];
    char option[URL_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(option, sizeof option, format, args);
    va_end(args);
    int n = snprintf(text, sizeof text, "%s?%s", url, option);
    T_CHECK(n > 0 && (size_t)n < sizeof text);
    return text;
}

void count_loss(hf_hold *hold, void *arg) {
    loss *l = arg;
    (void)hold;
    atomic_fetch_add(&l->calls, 1);
}

/* ---- The server's state ---------------------------------------------------------------------- */

static bool is_ok(redisReply *reply) {
    bool ok = reply->type == REDIS_REPLY_STATUS;
    freeReplyObject(reply);
    return ok;
}

void set_config(bed *b, const char *name, const char *value) {
    T_CHECK(is_ok(t_redis_cmd(b->redis, "CONFIG SET %s %s", name, value)));
}

/* Uses its own connection: t_redis_cmd needs the other one to kill the script. */
static void run_slow_script(int index, void *arg) {
    bed *b = arg;
    (void)index;
    redisContext *c = redisConnectUnix(t_redis_socket(b->redis));
    T_CHECK(c && !c->err);
    redisReply *reply = redisCommand(c, "EVAL %s 0", "while true do end");
    T_CHECK(reply != NULL);
    freeReplyObject(reply);
    redisFree(c);
}

t_threads *slow_script_start(bed *b, int64_t silent_ms) {
    char ms[24];
    snprintf(ms, sizeof ms, "%lld", (long long)silent_ms);
    set_config(b, "lua-time-limit", ms);
    return t_threads_start(1, run_slow_script, b);
}

void slow_script_kill(bed *b, t_threads *script) {
    UNTIL(is_ok(t_redis_cmd(b->redis, "SCRIPT KILL")));
    t_threads_join(script, SOON_MS);
}

/* ---- Acquiring ------------------------------------------------------------------------------- */

hf_hold *acquire_or_fail(hf_client *client, const char *name, const hf_options *options,
                         const char *file, int line) {
    hf_hold *hold = NULL;
    hf_result r = hf_acquire(client, name, options, &hold);
    if (r != HF_OK)
        t_fail_at(file, line, "the acquire returned %s (%s)", hf_result_name(r), hf_error_detail());
    return hold;
}

static void attempt_main(int index, void *arg) {
    attempt *a = arg;
    int64_t began = t_now_ms();
    (void)index;
    a->result = hf_acquire(a->client, a->name, &a->options, &a->hold);
    a->rival_held = a->rival ? hf_held(a->rival) : 0;
    a->took_ms = t_now_ms() - began;
    snprintf(a->detail, sizeof a->detail, "%s", a->result ? hf_error_detail() : "");
}

attempt *attempt_against(bed *b, hf_client *client, const hf_options *options,
                         const hf_hold *rival) {
    assert_in_range(b->attempted, 0, BED_ATTEMPTS - 1);
    attempt *a = &b->attempts[b->attempted++];
    *a = (attempt){.client = client, .name = LOCK, .rival = rival};
    if (options) a->options = *options;
    a->thread = t_threads_start(1, attempt_main, a);
    return a;
}

attempt *attempt_start(bed *b, hf_client *client, const hf_options *options) {
    return attempt_against(b, client, options, NULL);
}

attempt *attempt_sent(bed *b, hf_client *client, const hf_options *options) {
    uint64_t before = t_proxy_bytes(b->proxy, T_TO_SERVER);
    attempt *a = attempt_start(b, client, options);
    t_proxy_wait_bytes(b->proxy, T_TO_SERVER, before + 1, SOON_MS);
    return a;
}

hf_hold *attempt_end(attempt *a, hf_result expected) {
    t_threads_join(a->thread, 2 * SOON_MS);
    a->thread = NULL;
    if (a->result != expected)
        t_fail("the acquire returned %s (%s), not %s", hf_result_name(a->result), a->detail,
               hf_result_name(expected));
    if (expected != HF_OK) assert_null(a->hold);
    return a->hold;
}

/* ---- Observing ------------------------------------------------------------------------------- */

hf_stats stats_of(hf_client *client) {
    hf_stats stats;
    T_HF(HF_OK, hf_stats_get(client, &stats));
    return stats;
}

bool on_server(bed *b) {
    return t_redis_int(b->redis, "EXISTS " KEY) == 1;
}

uint64_t server_token(bed *b) {
    const char *token = t_redis_str(b->redis, "HGET " KEY " t");
    return token ? strtoull(token, NULL, 10) : 0;
}

int64_t server_ttl_ms(bed *b) {
    return t_redis_int(b->redis, "PTTL " KEY);
}

bool ttl_grew(bed *b, int64_t *last_ms) {
    int64_t before = *last_ms;
    *last_ms = server_ttl_ms(b);
    return *last_ms > before;
}

int64_t call_count(bed *b, const char *command) {
    char line[64];
    redisReply *reply = t_redis_cmd(b->redis, "INFO commandstats");
    snprintf(line, sizeof line, "cmdstat_%s:calls=", command);
    const char *at = reply->type == REDIS_REPLY_STRING ? strstr(reply->str, line) : NULL;
    int64_t count = at ? strtoll(at + strlen(line), NULL, 10) : 0;
    freeReplyObject(reply);
    return count;
}

void calls_reset(bed *b) {
    freeReplyObject(t_redis_cmd(b->redis, "CONFIG RESETSTAT"));
}

static bool polls_readable(int fd, int64_t ms) {
    struct pollfd pfd = {.fd = fd, .events = POLLIN};
    return poll(&pfd, 1, (int)ms) == 1 && pfd.revents & POLLIN;
}

bool becomes_readable(int fd) {
    return polls_readable(fd, t_patience(SOON_MS));
}

bool is_readable(int fd) {
    return polls_readable(fd, 0);
}

void check_held(bed *b, const hf_hold *hold) {
    assert_int_equal(hf_held(hold), 1);
    assert_null(hf_why_lost(hold));
    assert_true(hf_fence(hold) == server_token(b));
}

void check_lost(bed *b, hf_hold *hold, const char *why) {
    assert_true(becomes_readable(hf_lost_fd(hold)));
    UNTIL(atomic_load(&b->loss.calls) > 0);
    assert_int_equal(hf_held(hold), 0);
    assert_int_equal(hf_remaining_ms(hold), 0);
    if (!strstr(hf_why_lost(hold), why))
        t_fail("the hold was lost for another reason: %s", hf_why_lost(hold));
    T_HF(HF_LOST, hf_release(hold));
    assert_int_equal(atomic_load(&b->loss.calls), 1);
}

void check_detail(const char *part) {
    if (!strstr(hf_error_detail(), part))
        t_fail("the error detail does not contain `%s`: %s", part, hf_error_detail());
}
