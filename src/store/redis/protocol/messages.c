/* SPDX-License-Identifier: Apache-2.0 */
/* Messages that a subscribed connection receives. */
#include <errno.h>
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "store/redis/protocol/command.h"
#include "store/redis/protocol/session_internal.h"

#define PING_EVERY (10 * HF__SEC)

static bool is_push(const hf__reply *r, const char *kind) {
    const char *said = r->type == REDIS_REPLY_ARRAY ? hf__reply_text(r, 0) : NULL;
    return said && !strcmp(said, kind);
}

hf_result hf__messages_begin(hf__session *s, hf__time now, char **detail) {
    const hf__reply *r = &s->parser.reply;
    bool ponged = s->channels && r->type == REDIS_REPLY_STATUS;
    if (!ponged && !is_push(r, "subscribe")) return hf__session_not_redis(s, detail);
    s->state = HF__READY;
    s->link++;
    s->pinged_at = 0;
    s->ping_at = now + PING_EVERY;
    return HF_OK;
}

/* "acquire_id token µs lease", all decimal: the message that part/queue.lua publishes. */
static bool read_message(hf__message *m, const char *text) {
    int64_t values[4];
    for (int i = 0; i < 4; i++) {
        char *end;
        errno = 0;
        values[i] = strtoll(text, &end, 10);
        if (errno || end == text || values[i] <= 0 || *end != (i < 3 ? ' ' : '\0')) return false;
        text = end + 1;
    }
    *m = (hf__message){.acquire_id = (uint64_t)values[0],
                       .token = (uint64_t)values[1],
                       .server_us = values[2],
                       .lease_ms = values[3]};
    return values[1] <= TIME_MAX_US && values[2] <= TIME_MAX_US && values[3] <= HF_LEASE_MAX_MS;
}

/* Any client may publish on our channel. A message that is not a grant is ignored. */
static void take_message(hf__session *s, hf__time now) {
    hf__message m;
    const char *text = hf__reply_text(&s->parser.reply, 2);
    if (!text || !read_message(&m, text)) return;
    m.arrived_at = now;
    if (s->message_count == HF__MESSAGES_MAX) {
        s->missed = true;
        return;
    }
    s->messages[(s->message_first + s->message_count++) % HF__MESSAGES_MAX] = m;
}

bool hf__session_message(hf__session *s, hf__message *m) {
    if (!s->message_count) return false;
    *m = s->messages[s->message_first];
    s->message_first = (s->message_first + 1) % HF__MESSAGES_MAX;
    s->message_count--;
    return true;
}

/* Other messages of a cluster node: about subscriptions, or the answer to a ping. */
static hf_result take_channel_push(hf__session *s, char **detail) {
    const hf__reply *r = &s->parser.reply;
    bool good = r->type == REDIS_REPLY_ERROR
                    ? hf__channels_error(s->channels, r->item[0].text, s->log)
                    : r->type == REDIS_REPLY_STATUS || is_push(r, "pong") ||
                          hf__channels_push(s->channels, r);
    return good ? HF_OK : hf__session_not_redis(s, detail);
}

hf_result hf__messages_push(hf__session *s, hf__time now, char **detail) {
    const hf__reply *r = &s->parser.reply;
    s->pinged_at = 0;
    s->ping_at = now + PING_EVERY;
    if (is_push(r, "message") || is_push(r, "smessage")) {
        take_message(s, now);
    } else if (s->channels) {
        return take_channel_push(s, detail);
    } else if (!is_push(r, "pong") && !is_push(r, "subscribe")) {
        return hf__session_not_redis(s, detail);
    }
    return HF_OK;
}

void hf__messages_ping(hf__session *s, hf__time now) {
    if (s->state != HF__READY || s->pinged_at || now < s->ping_at) return;
    hf__command_begin(&s->out, 1);
    hf__command_string(&s->out, "PING");
    s->pinged_at = now;
}
