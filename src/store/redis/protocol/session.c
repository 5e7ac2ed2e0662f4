/* SPDX-License-Identifier: Apache-2.0 */
#include "store/redis/protocol/session.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/redis/protocol/command.h"
#include "store/redis/protocol/encode.h"
#include "store/redis/protocol/permission.h"
#include "store/redis/protocol/server_error.h"
#include "store/redis/protocol/session_internal.h"

#define REGISTER_EVERY (30 * HF__SEC)
#define REGISTER_AGAIN (2 * HF__SEC)

bool hf__session_init(hf__session *s, hf__session_role role, const hf__url *url,
                      const hf__identity *who, hf__log *log, const char *where) {
    *s = (hf__session){.role = role, .url = url, .who = who, .log = log, .where = where};
    hf__buffer_init(&s->out, HF__OUT_MAX);
    return hf__parser_init(&s->parser);
}

void hf__session_fini(hf__session *s) {
    hf__buffer_fini(&s->out);
    hf__parser_fini(&s->parser);
}

/* ---- Completing ---- */

static void push_completed(hf__session *s, hf__op *op, hf_result result, bool maybe, char *detail) {
    op->result = result;
    op->outcome_unknown = maybe;
    op->detail = detail;
    hf__ops_push(&s->completed, op);
}

static void copy_sent_fields(hf__op *op, const hf__op *sent) {
    op->subscribed = sent->subscribed;
    op->sent_at = sent->sent_at;
    op->link = sent->link;
}

/* Detaches the acquire that was sent with a release, to be completed by itself. */
hf__op *hf__session_take_next(hf__op *op) {
    hf__op *next = op->next_acquire_op;
    op->next_acquire_op = NULL;
    next->late_count = 0;
    copy_sent_fields(next, op);
    return next;
}

/* Also completes the operations that were sent together with it. */
void hf__session_complete(hf__session *s, hf__op *op, hf_result result, bool maybe, char *detail) {
    if (op == &s->registration) {
        s->registering = false;
        if (result == HF_UNREACHABLE)
            s->register_at = op->sent_at + REGISTER_AGAIN;
        else if (detail)
            hf__log_add(s->log, HF_LOG_WARNING, "others cannot see who holds our locks: %s",
                        detail);
        free(detail);
        return;
    }
    for (hf__op *next = op->next_in_multi; next; next = next->next_in_multi) {
        copy_sent_fields(next, op);
        push_completed(s, next, result, maybe, detail ? strdup(detail) : NULL);
    }
    if (op->next_acquire_op) {
        hf__op *next = hf__session_take_next(op);
        push_completed(s, next, result, maybe, detail ? strdup(detail) : NULL);
    }
    push_completed(s, op, result, maybe, detail);
}

hf__op *hf__session_completed(hf__session *s) {
    return hf__ops_pop(&s->completed);
}

hf__op *hf__session_take_first(hf__session *s) {
    s->in_flight--;
    return hf__ops_pop(&s->sent);
}

/* ---- Sending ---- */

/* Appends to the operations in flight. Half a command is never left in the buffer. */
void hf__session_send(hf__session *s, hf__op *op, bool whole, hf__time now) {
    size_t before = s->out.length;
    hf__encode(s, op, whole, now);
    if (s->out.failed) {
        hf__buffer_cut(&s->out, before);
        hf__session_complete(s, op, HF_NOMEM, false,
                             hf__line("out of memory while writing a command to %s", s->where));
        return;
    }
    op->asking_sent = op->asking;
    op->sent_at = now;
    op->link = s->link;
    hf__ops_push(&s->sent, op);
    s->in_flight++;
    s->unsent++;
    s->commands++;
}

void hf__session_submit(hf__session *s, hf__op *op, hf__time now) {
    op->late_count = 0;
    if (s->state == HF__READY)
        hf__session_send(s, op, false, now);
    else
        hf__session_complete(s, op, HF_UNREACHABLE, false, NULL);
}

/* ---- Connections ---- */

hf_result hf__session_begin(hf__session *s, const char *password, hf__time now) {
    hf__parser_fini(&s->parser);
    if (!hf__parser_init(&s->parser)) return HF_NOMEM;
    hf__buffer_cut(&s->out, 0);
    s->login_left = 0;
    s->parser.reply.nested = false;
    hf__login_send(s, password);
    if (s->out.failed) {
        hf__buffer_cut(&s->out, 0);
        return HF_NOMEM;
    }
    s->state = HF__LOGIN;
    s->began = now;
    return HF_OK;
}

void hf__session_note_time(hf__session *s, int64_t server_us, hf__time sent_at, hf__time now) {
    s->server_us = server_us;
    s->sampled_at = sent_at;
    s->received_at = now;
    int64_t trip = (now - sent_at) / 1000;
    s->round_trips++;
    if (!s->round_trip_us || trip < s->round_trip_us) s->round_trip_us = trip;
}

hf_result hf__session_not_redis(const hf__session *s, char **detail) {
    *detail = hf__line("%s does not answer as a Redis server does; is it one?", s->where);
    return HF_PROTOCOL;
}

hf_result hf__session_error(const hf__session *s, const hf__op *op, const char *error,
                            char **detail) {
    hf__attempt attempt = {.prefix = s->url->prefix, .client = s->who->client};
    if (op) attempt.script = hf__script_of(s, op);
    if (op && op->verb == HF__CLIENT_INFO) attempt.client = op->lock_info->identity.client;
    if (op && op->name) {
        attempt.name = op->name;
        attempt.name_length = (int)op->name_length;
    }
    *detail = hf__permission_missing(error, &attempt, s->where);
    return *detail ? HF_REFUSED : hf__server_error(error, s->where, detail);
}

hf_result hf__session_feed(hf__session *s, const char *bytes, size_t length, hf__time now,
                           char **detail) {
    switch (hf__parser_feed(&s->parser, bytes, length)) {
    case HF_OK: break;
    case HF_NOMEM: return HF_NOMEM;
    default: return hf__session_not_redis(s, detail);
    }
    for (;;) {
        const hf__op *first = s->in_flight > s->unsent ? hf__fifo_first(&s->sent) : NULL;
        bool slots = first && first->verb == HF__CLUSTER_SLOTS;
        s->parser.reply.slots = slots ? first->slots : NULL;
        hf__parsed parsed = hf__parser_next(&s->parser);
        if (parsed == HF__PARSE_MORE) return HF_OK;
        hf_result r = parsed == HF__PARSED ? hf__session_answer(s, now, detail)
                                           : hf__session_not_redis(s, detail);
        if (r) return r;
    }
}

void hf__session_break(hf__session *s) {
    s->state = HF__AWAY;
    s->pinged_at = 0;
    s->registered = false;
    if (s->channels) hf__channels_disconnected(s->channels);
    hf__buffer_cut(&s->out, 0);
    while (s->sent.last) {
        bool sent = s->in_flight > s->unsent;
        if (!sent) s->unsent--;
        hf__session_complete(s, hf__session_take_first(s), HF_UNREACHABLE, sent,
                             hf__line("the connection to %s broke before it answered", s->where));
    }
}

/* ---- Upkeep ---- */

void hf__session_tick(hf__session *s, hf__time now) {
    if (s->role == HF__MESSAGES) {
        hf__messages_ping(s, now);
        if (s->channels && s->state == HF__READY) hf__channels_send(s->channels, &s->out, now);
        return;
    }
    if (s->role != HF__COMMANDS || s->url->in_cluster) return;
    if (s->state != HF__READY || s->registering || now < s->register_at) return;
    s->registering = true;
    s->register_at = now + REGISTER_EVERY;
    s->registration = (hf__op){.verb = HF__REGISTER};
    hf__session_send(s, &s->registration, false, now);
}

hf__time hf__session_due(const hf__session *s) {
    if (s->role == HF__MESSAGES) {
        if (s->state != HF__READY) return HF__NEVER;
        hf__time due = s->pinged_at ? HF__NEVER : s->ping_at;
        return s->channels ? hf__sooner(due, hf__channels_due(s->channels)) : due;
    }
    if (s->role != HF__COMMANDS || s->url->in_cluster) return HF__NEVER;
    return s->state == HF__READY && !s->registering ? s->register_at : HF__NEVER;
}

hf__time hf__session_waits_since(const hf__session *s) {
    if (s->state == HF__LOGIN) return s->began;
    if (s->pinged_at) return s->pinged_at;
    return s->sent.last ? hf__fifo_first(&s->sent)->sent_at : HF__NEVER;
}

void hf__session_unregister(hf__session *s) {
    if (s->state != HF__READY || s->role != HF__COMMANDS) return;
    if (s->url->in_cluster && !s->registered) return;
    hf__command_begin(&s->out, 2);
    hf__command_string(&s->out, "DEL");
    hf__encode_client_key(s, s->who->client);
}
