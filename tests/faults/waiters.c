/* SPDX-License-Identifier: Apache-2.0 */
/* See waiters.h. */
#include "waiters.h"

#include <inttypes.h>

const hf_options FOREVER = {.wait_ms = HF_FOREVER};

/* ---- Clients --------------------------------------------------------------------------------- */

void run_command(bed *b, const char *command) {
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
static hf_client *make_subscriber(bed *b, hf_client *client) {
    int64_t before = subscriber_count(b);
    hf_hold *hold = NULL;
    hold_by_hand(b, "other", t_patience(60000));
    const int64_t until = t_now_ms() + t_patience(SOON_MS);
    do { /* on a slow machine it may acquire too late, and not be queued */
        hf_result r = hf_acquire(client, "other", &(hf_options){.wait_ms = 20}, &hold);
        if (r != HF_TIMEOUT && r != HF_UNKNOWN_OUTCOME)
            t_fail("a wait for a held lock returned %s", hf_result_name(r));
    } while (subscriber_count(b) == before && t_now_ms() < until);
    UNTIL(subscriber_count(b) == before + 1 && t_redis_int(b->redis, "EXISTS hf:{other}:q") == 0);
    drop_by_hand(b, "other");
    return client;
}

hf_client *bed_subscriber(bed *b) {
    return make_subscriber(b, bed_direct(b));
}

hf_client *bed_subscriber_through(bed *b, const hf_client_options *options) {
    return make_subscriber(b, bed_through(b, options));
}

static void set_withheld(bed *b, uint64_t connection, t_dir dir, bool on) {
    t_proxy_select(b->proxy, connection);
    t_proxy_withhold(b->proxy, dir, on);
    t_proxy_select(b->proxy, 0);
}

void withhold_bytes(bed *b, uint64_t connection, t_dir dir) {
    set_withheld(b, connection, dir, true);
}

void stop_withholding(bed *b, uint64_t connection, t_dir dir) {
    set_withheld(b, connection, dir, false);
}

void cut_connection(bed *b, uint64_t connection) {
    t_proxy_select(b->proxy, connection);
    t_proxy_cut(b->proxy);
    t_proxy_select(b->proxy, 0);
}

/* ---- Waiting --------------------------------------------------------------------------------- */

attempt *enqueue_against(bed *b, hf_client *client, const hf_options *options,
                         const hf_hold *rival) {
    int64_t before = queue_length(b);
    attempt *a = attempt_against(b, client, options, rival);
    UNTIL(queue_length(b) == before + 1);
    return a;
}

attempt *enqueue(bed *b, hf_client *client, const hf_options *options) {
    return enqueue_against(b, client, options, NULL);
}

hf_hold *await_grant(attempt *a) {
    UNTIL(!is_waiting(a));
    return attempt_end(a, HF_OK);
}

bool is_waiting(attempt *a) {
    return t_threads_ended(a->thread) == 0;
}

void attempts_over(bed *b) {
    for (int i = 0; i < b->attempted; i++) T_CHECK(!b->attempts[i].thread);
    b->attempted = 0;
}

/* ---- The server's side ----------------------------------------------------------------------- */

int64_t queue_length(bed *b) {
    return t_redis_int(b->redis, "LLEN " QUEUE);
}

int64_t subscriber_count(bed *b) {
    redisReply *reply = t_redis_cmd(b->redis, "PUBSUB CHANNELS hf:c:*");
    int64_t count = (int64_t)reply->elements;
    freeReplyObject(reply);
    return count;
}

/* Parses client:acquire_id; the rest is ignored. */
static queued_id parse_id(const char *text) {
    queued_id a = {.acquire_id = 0};
    if (text && sscanf(text, "%39[^:]:%" SCNu64, a.client, &a.acquire_id) != 2)
        t_fail("not a queue entry: %s", text);
    return a;
}

queued_id queued_at(bed *b, int place) {
    return parse_id(t_redis_str(b->redis, "LINDEX " QUEUE " %d", place));
}

queued_id id_of_holder(bed *b) {
    return parse_id(t_redis_str(b->redis, "HGET " KEY " n"));
}

bool same_id(queued_id a, queued_id b) {
    return a.acquire_id == b.acquire_id && strcmp(a.client, b.client) == 0;
}

void grant_message(bed *b, char text[128]) {
    snprintf(text, 128, "%" PRIu64 " %s %s %lld", id_of_holder(b).acquire_id,
             t_redis_str(b->redis, "HGET " KEY " t"), t_redis_str(b->redis, "HGET " KEY " s"),
             (long long)server_ttl_ms(b));
}

void publish_bytes(bed *b, const queued_id *to, const char *bytes, size_t length) {
    freeReplyObject(t_redis_cmd(b->redis, "PUBLISH hf:c:%s %b", to->client, bytes, length));
}

void publish_text(bed *b, const queued_id *to, const char *text) {
    publish_bytes(b, to, text, strlen(text));
}
