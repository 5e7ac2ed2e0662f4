/* See waiters.h. */
#include "waiters.h"

#include <inttypes.h>

const hf_options FOREVER = {.wait_ms = HF_FOREVER};

/* ---- Clients --------------------------------------------------------------------------------- */

void run(bed *b, const char *command) {
    redisReply *reply = t_redis_cmd(b->redis, command);
    if (reply->type == REDIS_REPLY_ERROR) t_fail("`%s`: %s", command, reply->str);
    freeReplyObject(reply);
}

void hold_by_hand(bed *b, const char *name, int64_t ms) {
    freeReplyObject(t_redis_cmd(b->redis, "HSET hf:{%s} n nobody:1 t 1 nobody:t1 1", name));
    T_CHECK(t_redis_int(b->redis, "PEXPIRE hf:{%s} %lld", name, (long long)ms) == 1);
}

void drop_by_hand(bed *b, const char *name) {
    T_CHECK(t_redis_int(b->redis, "DEL hf:{%s}", name) == 1);
}

/* The client subscribes with its first wait. */
static hf_client *make_listen(bed *b, hf_client *client) {
    int64_t before = listening(b);
    hf_hold *hold = NULL;
    hold_by_hand(b, "other", t_patience(60000));
    const int64_t until = t_now_ms() + t_patience(SOON_MS);
    do { /* on a slow machine it may acquire too late, and not be queued */
        hf_result r = hf_acquire(client, "other", &(hf_options){.wait_ms = 20}, &hold);
        if (r != HF_TIMEOUT && r != HF_UNKNOWN_OUTCOME)
            t_fail("waiting for what is held: %s", hf_result_name(r));
    } while (listening(b) == before && t_now_ms() < until);
    UNTIL(listening(b) == before + 1 && t_redis_int(b->redis, "EXISTS hf:{other}:q") == 0);
    drop_by_hand(b, "other");
    return client;
}

hf_client *bed_listener(bed *b) {
    return make_listen(b, bed_direct(b));
}

hf_client *bed_listener_through(bed *b, const hf_client_options *options) {
    return make_listen(b, bed_through(b, options));
}

static void set_withheld(bed *b, uint64_t connection, t_dir dir, bool on) {
    t_proxy_select(b->proxy, connection);
    t_proxy_withhold(b->proxy, dir, on);
    t_proxy_select(b->proxy, 0);
}

void withhold(bed *b, uint64_t connection, t_dir dir) {
    set_withheld(b, connection, dir, true);
}

void withhold_no_more(bed *b, uint64_t connection, t_dir dir) {
    set_withheld(b, connection, dir, false);
}

void cut(bed *b, uint64_t connection) {
    t_proxy_select(b->proxy, connection);
    t_proxy_cut(b->proxy);
    t_proxy_select(b->proxy, 0);
}

/* ---- Waiting --------------------------------------------------------------------------------- */

attempt *stand_against(bed *b, hf_client *client, const hf_options *options, const hf_hold *rival) {
    int64_t before = in_line(b);
    attempt *a = attempt_against(b, client, options, rival);
    UNTIL(in_line(b) == before + 1);
    return a;
}

attempt *stand(bed *b, hf_client *client, const hf_options *options) {
    return stand_against(b, client, options, NULL);
}

hf_hold *served(attempt *a) {
    UNTIL(!waits(a));
    return attempt_end(a, HF_OK);
}

bool waits(attempt *a) {
    return t_threads_ended(a->thread) == 0;
}

void attempts_over(bed *b) {
    for (int i = 0; i < b->attempted; i++) T_CHECK(!b->attempts[i].thread);
    b->attempted = 0;
}

/* ---- The server's side ----------------------------------------------------------------------- */

int64_t in_line(bed *b) {
    return t_redis_int(b->redis, "LLEN " LINE);
}

int64_t listening(bed *b) {
    redisReply *reply = t_redis_cmd(b->redis, "PUBSUB CHANNELS hf:c:*");
    int64_t count = (int64_t)reply->elements;
    freeReplyObject(reply);
    return count;
}

/* Parses client:acquire_id; the rest is ignored. */
static ask read_ask(const char *text) {
    ask a = {.number = 0};
    if (text && sscanf(text, "%39[^:]:%" SCNu64, a.client, &a.number) != 2)
        t_fail("no ask: %s", text);
    return a;
}

ask ask_in_line(bed *b, int place) {
    return read_ask(t_redis_str(b->redis, "LINDEX " LINE " %d", place));
}

ask ask_that_holds(bed *b) {
    return read_ask(t_redis_str(b->redis, "HGET " KEY " n"));
}

bool same_ask(ask a, ask b) {
    return a.number == b.number && strcmp(a.client, b.client) == 0;
}

void grant_message(bed *b, char text[128]) {
    snprintf(text, 128, "%" PRIu64 " %s %s %lld", ask_that_holds(b).number,
             t_redis_str(b->redis, "HGET " KEY " t"), t_redis_str(b->redis, "HGET " KEY " s"),
             (long long)server_ttl_ms(b));
}

void publish(bed *b, const ask *to, const char *bytes, size_t length) {
    freeReplyObject(t_redis_cmd(b->redis, "PUBLISH hf:c:%s %b", to->client, bytes, length));
}

void publish_text(bed *b, const ask *to, const char *text) {
    publish(b, to, text, strlen(text));
}
