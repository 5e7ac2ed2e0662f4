/* SPDX-License-Identifier: Apache-2.0 */
/* Interprets the server's answers: what each means for its operation. */
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "store/redis/protocol/encode.h"
#include "store/redis/protocol/error_line.h"
#include "store/redis/protocol/latch_leader.h"
#include "store/redis/protocol/list.h"
#include "store/redis/protocol/redirect.h"
#include "store/redis/protocol/session_internal.h"

#define RETRY_FIRST_MS    10
#define RETRY_DOUBLINGS   3
#define RETRY_MOST_MS     100
#define RETRY_NOTIFIED_MS 10000
#define POSITION_APART_MS 20
/* the year 2001: tokens that are times are later */
#define TIME_MIN_US     INT64_C(1000000000000000)
#define LATE_TRIES      3
#define STATUS_NO       0
#define STATUS_YES      1
#define STATUS_LATE     2
#define STATUS_CAPACITY 3
#define STATUS_NONE     4
#define LATE_BY_MERGING 2 /* the optional third value of STATUS_LATE */

/* When to try again. A queued waiter with a subscription gets a message. In case the message is
   lost, it also rechecks when the holder's lease ends, in queue order. Other waiters recheck at
   short intervals at first, then ten times a second, and when the holder's lease ends. */
static int64_t choose_retry_ms(bool subscribed, uint32_t attempt, int64_t expires_ms,
                               int64_t position) {
    if (subscribed && position) {
        int64_t left = (expires_ms > 0 ? expires_ms : 0) + position * POSITION_APART_MS;
        return left < RETRY_NOTIFIED_MS ? left : RETRY_NOTIFIED_MS;
    }
    int64_t wait = attempt < RETRY_DOUBLINGS ? (int64_t)RETRY_FIRST_MS << attempt : RETRY_MOST_MS;
    return expires_ms >= 0 && expires_ms < wait ? expires_ms + 1 : wait;
}

static bool is_subscribed(const hf__session *s, const hf__op *op) {
    return s->url->in_cluster ? op->subscribed : s->subscribed;
}

static hf_result reject_answer(hf__session *s, hf__op *op, char **detail) {
    *detail = hf__line("%s sent an unexpected answer, and the connection was closed; is it a Redis "
                       "or Valkey server?",
                       s->where);
    hf__session_complete(s, op, HF_PROTOCOL, true, *detail ? strdup(*detail) : NULL);
    return HF_PROTOCOL;
}

/* The part after the last colon of client:owner. */
static void read_owner(char out[HF__OWNER_TEXT], const char *owner) {
    const char *colon = strrchr(owner, ':');
    if (colon) hf__text_sanitize(out, HF__OWNER_TEXT, colon + 1, strlen(colon + 1));
}

static bool read_holder(hf__lock_info *lock_info, const hf__reply *r) {
    int64_t left, token, since, kind, count, holders, used, capacity;
    const char *id = hf__reply_text(r, 4), *owner = hf__reply_text(r, 8);
    if (!hf__reply_number(r, 3, &left) || !id || !owner || !hf__reply_number(r, 5, &token) ||
        !hf__reply_number(r, 6, &since) || !hf__reply_number(r, 7, &kind) ||
        !hf__reply_number(r, 9, &count) || !hf__reply_number(r, 10, &holders) ||
        !hf__reply_number(r, 11, &used) || !hf__reply_number(r, 12, &capacity))
        return false;
    lock_info->held = true;
    lock_info->remaining_ms = left > 0 ? left : 0;
    lock_info->token = (uint64_t)token;
    lock_info->since_unix_ms = since;
    lock_info->kind = (uint32_t)kind;
    lock_info->count = (uint32_t)count;
    lock_info->holders = (uint32_t)holders;
    lock_info->used = (uint32_t)used;
    lock_info->capacity = (uint32_t)capacity;
    hf__text_sanitize(lock_info->identity.client, sizeof lock_info->identity.client, id,
                      strcspn(id, ":#"));
    read_owner(lock_info->owner, owner);
    return true;
}

static bool read_waiters(hf__lock_info *lock_info, const hf__reply *r, size_t from) {
    int64_t waiting;
    if (!hf__reply_number(r, 2, &waiting) || waiting < 0 || waiting > UINT32_MAX) return false;
    lock_info->waiter_count = (uint32_t)waiting;
    for (size_t i = from; i < r->count && i - from < HF__WAITERS_MAX; i++) {
        const char *id = hf__reply_text(r, i);
        hf__waiter_info *waiter = &lock_info->waiters[i - from];
        if (!id) return false;
        hf__text_sanitize(waiter->client, sizeof waiter->client, id, strcspn(id, ":"));
        read_owner(waiter->owner, id);
    }
    return r->count - from == (waiting < HF__WAITERS_MAX ? (size_t)waiting : HF__WAITERS_MAX);
}

static void read_text(char *to, const hf__reply *r, size_t i) {
    const char *text = hf__reply_text(r, i);
    hf__text_sanitize(to, HF__IDENTITY_TEXT, text ? text : "", text ? strlen(text) : 0);
}

static hf_result handle_client_info_answer(hf__session *s, hf__op *op, char **detail) {
    const hf__reply *r = &s->parser.reply;
    hf__identity *who = &op->lock_info->identity;
    if (r->type != REDIS_REPLY_ARRAY || r->count != 4) return reject_answer(s, op, detail);
    read_text(who->host, r, 0);
    if (!hf__reply_number(r, 1, &who->pid)) who->pid = 0;
    read_text(who->program, r, 2);
    read_text(who->label, r, 3);
    hf__session_complete(s, op, HF_OK, false, NULL);
    return HF_OK;
}

/* The server's clock is ahead of our estimate, or the command took long: send it again, with the
   server's new time. An acquire that was in flight while tombstones were merged may be sent again
   without a limit, because releases of other clients caused the merge. */
static void handle_late_answer(hf__session *s, hf__op *op, hf__time now) {
    int64_t why = 0;
    bool merging = s->parser.reply.count > 2 && hf__reply_number(&s->parser.reply, 2, &why) &&
                   why == LATE_BY_MERGING;
    if ((merging || op->late_count++ < LATE_TRIES) && now < op->not_after)
        hf__session_send(s, op, false, now);
    else
        hf__session_complete(s, op, HF_TIMEOUT, false,
                             hf__line("%s executed the request too late, or its clock was stepped; "
                                      "check its load and its clock",
                                      s->where));
}

/* Another client holds the lock: reads the position in the queue and that client's token. */
static bool read_busy(const hf__reply *r, int64_t *position, uint64_t *token) {
    int64_t n;
    if (!hf__reply_number(r, 3, position) || !hf__reply_number(r, 4, &n) || n < 0) return false;
    *token = (uint64_t)n;
    return true;
}

static bool read_has_waiters(const hf__reply *r, hf__op *op) {
    int64_t has_waiters;
    if (!hf__reply_number(r, 3, &has_waiters)) return false;
    op->has_waiters = has_waiters != 0;
    return true;
}

static hf_result handle_grant_answer(hf__session *s, hf__op *op, int64_t value, bool yes,
                                     char **detail) {
    int64_t position = 0;
    if (yes ? value <= 0 : !read_busy(&s->parser.reply, &position, &op->holder_token))
        return reject_answer(s, op, detail);
    if (yes)
        op->token = (uint64_t)value;
    else
        op->retry_ms = choose_retry_ms(is_subscribed(s, op), op->attempt, value, position);
    if (yes && hf__uses_shared_scripts(op) && !read_has_waiters(&s->parser.reply, op))
        return reject_answer(s, op, detail);
    op->queued = position > 0;
    hf__session_complete(s, op, yes ? HF_OK : HF_BUSY, false, NULL);
    return HF_OK;
}

/* The answer for several names at once: a token for each, or nothing. */
static hf_result handle_multi_answer(hf__session *s, hf__op *op, bool yes, char **detail) {
    const hf__reply *r = &s->parser.reply;
    size_t i = 2;
    for (hf__op *each = op; yes && each; each = each->next_in_multi, i++) {
        int64_t token;
        if (!hf__reply_number(r, i, &token) || token <= 0) return reject_answer(s, op, detail);
        each->token = (uint64_t)token;
    }
    hf__session_complete(s, op, yes ? HF_OK : HF_BUSY, false, NULL);
    return HF_OK;
}

/* The answer to a release with a next acquire, if it is an array: the result of that acquire. */
static hf_result handle_next_acquire_answer(hf__session *s, hf__op *op, int64_t status,
                                            int64_t value, char **detail) {
    int64_t position = 0;
    if (!op->next_acquire || (status == STATUS_YES && value <= 0) ||
        (status == STATUS_NO &&
         !read_busy(&s->parser.reply, &position, &op->next_acquire->holder_token)))
        return reject_answer(s, op, detail);
    op->next_acquire->result = status == STATUS_YES  ? HF_OK
                               : status == STATUS_NO ? HF_BUSY
                                                     : HF_NOT_HELD;
    if (status == STATUS_YES) op->next_acquire->token = (uint64_t)value;
    if (status == STATUS_NO)
        op->next_acquire->retry_ms = choose_retry_ms(is_subscribed(s, op), 0, value, position);
    hf__session_complete(s, op, HF_OK, false, NULL);
    return HF_OK;
}

static bool is_good_time(int64_t server_us) {
    return server_us > 0 && server_us <= TIME_MAX_US;
}

/* The server's uptime in seconds; -1 if it may not be read. */
static hf_result handle_uptime_answer(hf__session *s, hf__op *op, int64_t seconds, char **detail) {
    if (seconds < -1 || seconds > TIME_MAX_US / 1000000) return reject_answer(s, op, detail);
    op->uptime_ms = seconds < 0 ? -1 : seconds * 1000;
    hf__session_complete(s, op, HF_OK, false, NULL);
    return HF_OK;
}

/* A single number for yes or no: 1 or 0, or µs and -µs where the server's time is included. */
static hf_result handle_number_answer(hf__session *s, hf__op *op, hf__time now, char **detail) {
    int64_t n = s->parser.reply.item[0].integer;
    int64_t server_us = n > -TIME_MAX_US && n < 0 ? -n : n;
    if (op->verb == HF__RELEASE) {
        if ((n != 0 && n != 1) || op->next_acquire_op) return reject_answer(s, op, detail);
        if (op->next_acquire)
            op->next_acquire->result = HF_NOT_HELD; /* the script did nothing for it */
        hf__session_complete(s, op, n ? HF_OK : HF_LOST, false, NULL);
        return HF_OK;
    }
    if (op->verb == HF__UPTIME) return handle_uptime_answer(s, op, n, detail);
    bool may_be = op->verb == HF__RENEW || op->verb == HF__REGISTER ||
                  op->verb == HF__RAISE_TOKEN ||
                  (op->verb == HF__ACQUIRE && !op->next_in_multi && n >= TIME_MIN_US);
    if (!may_be || !is_good_time(server_us)) return reject_answer(s, op, detail);
    hf__session_note_time(s, server_us, op->sent_at, now);
    if (op->verb == HF__ACQUIRE) op->token = (uint64_t)n;
    if (op->verb == HF__REGISTER) s->registered = true;
    hf__session_complete(s, op, n > 0 ? HF_OK : HF_LOST, false, NULL);
    return HF_OK;
}

/* The answer to a renewal of any kind but a mutex. */
static hf_result handle_shared_renew_answer(hf__session *s, hf__op *op, bool yes, int64_t server_us,
                                            hf__time now, char **detail) {
    int64_t has_waiters = 0;
    if (!hf__uses_shared_scripts(op) ||
        (yes && !hf__reply_number(&s->parser.reply, 2, &has_waiters)))
        return reject_answer(s, op, detail);
    hf__session_note_time(s, server_us, op->sent_at, now);
    op->has_waiters = has_waiters != 0;
    hf__session_complete(s, op, yes ? HF_OK : HF_LOST, false, NULL);
    return HF_OK;
}

static hf_result handle_shared_refusal(hf__session *s, hf__op *op, int64_t status, char **detail) {
    int64_t capacity = 0;
    bool other = status == STATUS_CAPACITY;
    if (hf__is_transfer(op) && !other) {
        hf__session_complete(s, op, HF_LOST, false, NULL);
        return HF_OK;
    }
    if (op->verb != HF__ACQUIRE || op->next_in_multi || !hf__uses_shared_scripts(op) ||
        (other && !hf__reply_number(&s->parser.reply, 2, &capacity)))
        return reject_answer(s, op, detail);
    if (other) op->capacity = (uint32_t)capacity; /* the one in use */
    hf__session_complete(s, op, other ? HF_INVALID : HF_LOST, false, NULL);
    return HF_OK;
}

/* An array {status, µs, …}, for answers with more values. */
static hf_result handle_list_answer(hf__session *s, hf__op *op, hf__time now, char **detail) {
    const hf__reply *r = &s->parser.reply;
    int64_t status, server_us, value = 0;
    if (!hf__reply_number(r, 0, &status) || status < STATUS_NO || status > STATUS_NONE ||
        !hf__reply_number(r, 1, &server_us) || !is_good_time(server_us))
        return reject_answer(s, op, detail);
    if (status > STATUS_LATE) return handle_shared_refusal(s, op, status, detail);
    bool yes = status == STATUS_YES, late = status == STATUS_LATE;
    if (op->verb == HF__RENEW)
        return handle_shared_renew_answer(s, op, yes, server_us, now, detail);
    bool third = hf__is_transfer(op) || op->verb == HF__ACQUIRE || op->verb == HF__BREAK ||
                 op->verb == HF__RELEASE;
    if (op->next_in_multi) third = late;
    if ((late && !third) || (!late && third && !hf__reply_number(r, 2, &value)))
        return reject_answer(s, op, detail);
    hf__session_note_time(s, server_us, op->sent_at, now);
    op->server_us = server_us;
    if (op->verb == HF__RELEASE) return handle_next_acquire_answer(s, op, status, value, detail);
    if (late) {
        handle_late_answer(s, op, now);
        return HF_OK;
    }
    if (hf__is_transfer(op) && !yes) return reject_answer(s, op, detail);
    if (op->next_in_multi) return handle_multi_answer(s, op, yes, detail);
    if (op->verb == HF__ACQUIRE) return handle_grant_answer(s, op, value, yes, detail);
    if (op->verb == HF__LIST) {
        if (!yes || !hf__list_answer(r, s->url->prefix, op->list_walk))
            return reject_answer(s, op, detail);
    } else if (op->verb == HF__BREAK)
        op->token = (uint64_t)value;
    else if (hf__is_transfer(op))
        op->result = HF_OK;
    else if ((yes && !read_holder(op->lock_info, r)) ||
             !read_waiters(op->lock_info, r, yes ? 13 : 3))
        return reject_answer(s, op, detail);
    hf_result no = op->verb == HF__BREAK ? HF_NOT_HELD : HF_OK;
    hf__session_complete(s, op, yes ? HF_OK : no, false, NULL);
    return HF_OK;
}

/* The answer to a release, and to the acquire that was sent with it. The time is negative if there
   was no hold to release. */
static hf_result handle_next_acquire_op_answer(hf__session *s, hf__op *op, hf__time now,
                                               char **detail) {
    hf__reply *r = &s->parser.reply;
    int64_t status, server_us;
    if (!hf__reply_number(r, 0, &status) || status < STATUS_NO || status > STATUS_CAPACITY ||
        !hf__reply_number(r, 1, &server_us) || server_us == INT64_MIN)
        return reject_answer(s, op, detail);
    bool held = server_us > 0;
    if (!held) r->item[1].integer = -server_us;
    hf__op *next = hf__session_take_next(op);
    hf__session_complete(s, op, held ? HF_OK : HF_LOST, false, NULL);
    return handle_list_answer(s, next, now, detail);
}

static hf_result handle_latch_leader_answer(hf__session *s, hf__op *op, hf__time now,
                                            char **detail) {
    const hf__reply *r = &s->parser.reply;
    int64_t status, server_us;
    bool changes = op->verb == HF__LATCH_SET || op->verb == HF__LATCH_COUNT_DOWN;
    if (r->type != REDIS_REPLY_ARRAY || !hf__reply_number(r, 0, &status) || status < STATUS_NO ||
        status > (changes ? STATUS_LATE : STATUS_YES) || !hf__reply_number(r, 1, &server_us) ||
        !is_good_time(server_us))
        return reject_answer(s, op, detail);
    hf__session_note_time(s, server_us, op->sent_at, now);
    if (status == STATUS_LATE)
        handle_late_answer(s, op, now);
    else if (hf__latch_leader_answer(r, op, status == STATUS_YES, is_subscribed(s, op)))
        hf__session_complete(s, op, op->result, false, NULL);
    else
        return reject_answer(s, op, detail);
    return HF_OK;
}

static hf_result handle_script_answer(hf__session *s, hf__op *op, hf__time now, char **detail) {
    int type = s->parser.reply.type;
    if (hf__is_latch_or_leader(op)) return handle_latch_leader_answer(s, op, now, detail);
    bool lists = hf__is_transfer(op) || op->verb == HF__ACQUIRE ||
                 (op->verb == HF__RENEW && hf__uses_shared_scripts(op)) || op->verb == HF__BREAK ||
                 op->verb == HF__INSPECT || op->verb == HF__RELEASE || op->verb == HF__LIST;
    if (type == REDIS_REPLY_INTEGER) return handle_number_answer(s, op, now, detail);
    if (type == REDIS_REPLY_ARRAY && op->next_acquire_op)
        return handle_next_acquire_op_answer(s, op, now, detail);
    if (type == REDIS_REPLY_ARRAY && lists) return handle_list_answer(s, op, now, detail);
    return reject_answer(s, op, detail);
}

/* The answer to TOUCH: how long the hold lasts on that server. To CONFIRM: how many replicas have
   it. */
static hf_result handle_replicas_answer(hf__session *s, hf__op *op, char **detail) {
    const hf__reply *r = &s->parser.reply;
    if (r->type != REDIS_REPLY_INTEGER) return reject_answer(s, op, detail);
    int64_t n = r->item[0].integer;
    bool yes = op->verb == HF__CONFIRM ? n >= 0 : n > 0;
    if (op->verb == HF__CONFIRM)
        op->token = (uint64_t)n;
    else
        op->ack.left_ms = n < HF_LEASE_MAX_MS ? n : HF_LEASE_MAX_MS;
    hf__session_complete(s, op, yes ? HF_OK : HF_LOST, false, NULL);
    return HF_OK;
}

/* After a failover: nothing was done, and another node must be asked. */
static hf_result complete_demoted(hf__session *s, hf__op *op, char **detail) {
    *detail = hf__line("%s is no longer the primary", s->where);
    hf__session_complete(s, op, HF_UNREACHABLE, false, *detail ? strdup(*detail) : NULL);
    return HF_UNREACHABLE;
}

/* The answer to ASKING, which is sent before a command. If ASKING is refused, the command is
   refused too. */
static hf_result handle_asking_answer(hf__session *s, hf__op *op) {
    const hf__reply *r = &s->parser.reply;
    op->asking_sent = false;
    free(op->detail);
    op->detail = NULL;
    if (r->type == REDIS_REPLY_ERROR) hf__session_error(s, op, r->item[0].text, &op->detail);
    return HF_OK;
}

static void forget_asking(hf__op *op) {
    if (!op->asking) return;
    free(op->detail);
    op->detail = NULL;
}

/* If the error is a redirect: nothing was done, and the operation must be sent to another node, or
   later. */
static bool take_redirect(hf__session *s, hf__op *op, const char *error) {
    if (!s->url->in_cluster || s->role != HF__COMMANDS || !hf__redirect_parse(error, &op->redirect))
        return false;
    hf_result result = op->asking && op->detail ? HF_REFUSED : HF_UNREACHABLE;
    char *line = result == HF_REFUSED ? op->detail : hf__line("%s: %.200s", s->where, error);
    hf__session_complete(s, op, result, false, line);
    return true;
}

static hf_result handle_slots_answer(hf__session *s, hf__op *op, char **detail) {
    if (s->parser.reply.type != REDIS_REPLY_ARRAY) return reject_answer(s, op, detail);
    hf__session_complete(s, op, HF_OK, false, NULL);
    return HF_OK;
}

static hf_result handle_error_answer(hf__session *s, hf__op *op, hf__time now, char **detail) {
    const char *error = s->parser.reply.item[0].text;
    if (take_redirect(s, op, error)) return HF_OK;
    forget_asking(op);
    if (!strncmp(error, "NOSCRIPT", 8) && hf__script_of(s, op)) {
        hf__session_send(s, op, true, now);
        return HF_OK;
    }
    if (s->url->primary && hf__role_lost(error)) return complete_demoted(s, op, detail);
    char *line = NULL;
    hf_result result = hf__session_error(s, op, error, &line);
    /* If the key has another type, our hold is gone. But a release that had to write a tombstone
       has not written it, so it must be sent again. */
    bool ours = op->verb == HF__RENEW || (op->verb == HF__RELEASE && !op->tombstone_until) ||
                op->verb == HF__RAISE_TOKEN || op->verb == HF__EXPORT;
    hf__error_line unwrapped = hf__error_unwrap(error);
    bool gone = ours && hf__error_has_code(&unwrapped, "WRONGTYPE");
    if (gone && op->next_acquire_op)
        hf__session_complete(s, hf__session_take_next(op), result, false,
                             line ? strdup(line) : NULL);
    hf__session_complete(s, op, gone ? HF_LOST : result, false, line);
    return HF_OK;
}

hf_result hf__session_answer(hf__session *s, hf__time now, char **detail) {
    const hf__reply *r = &s->parser.reply;
    if (s->state == HF__LOGIN) return hf__login_answer(s, now, detail);
    if (s->role == HF__MESSAGES) return hf__messages_push(s, now, detail);
    if (s->role == HF__SENTINEL) return hf__sentinel_push(s->sentinel, r, s->where, detail);
    if (s->in_flight == s->unsent) {
        *detail = hf__line(
            "%s sent an answer that was not requested, and the connection was closed", s->where);
        return HF_PROTOCOL;
    }
    hf__op *op = hf__fifo_first(&s->sent);
    if (op->asking_sent) return handle_asking_answer(s, op);
    (void)hf__session_take_first(s);
    if (r->type == REDIS_REPLY_ERROR) return handle_error_answer(s, op, now, detail);
    forget_asking(op);
    if (s->role == HF__REPLICAS) return handle_replicas_answer(s, op, detail);
    if (op->verb == HF__CLUSTER_SLOTS) return handle_slots_answer(s, op, detail);
    return op->verb == HF__CLIENT_INFO ? handle_client_info_answer(s, op, detail)
                                       : handle_script_answer(s, op, now, detail);
}
