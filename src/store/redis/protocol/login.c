/* SPDX-License-Identifier: Apache-2.0 */
/* The first commands on a connection: authenticate, select the database, check the role, read the
   time. */
#include <hiredis/hiredis.h>
#include <stdlib.h>

#include "base/error.h"
#include "store/redis/protocol/command.h"
#include "store/redis/protocol/session_internal.h"

void hf__login_send(hf__session *s, const char *password) {
    if (password) {
        hf__command_begin(&s->out, s->url->user ? 3 : 2);
        hf__command_string(&s->out, "AUTH");
        if (s->url->user) hf__command_string(&s->out, s->url->user);
        hf__command_string(&s->out, password);
        s->login_left++;
    }
    if (s->url->db) {
        hf__command_begin(&s->out, 2);
        hf__command_string(&s->out, "SELECT");
        hf__command_number(&s->out, s->url->db);
        s->login_left++;
    }
    if (s->role == HF__SENTINEL) {
        hf__sentinel_request(s->sentinel, &s->out);
        s->login_left += HF__SENTINEL_REPLIES;
        return;
    }
    if (s->url->primary) {
        hf__role_request(&s->out);
        s->parser.reply.nested = true;
        s->login_left++;
    }
    if (s->channels) {
        hf__command_begin(&s->out, 1);
        hf__command_string(&s->out, "PING");
    } else if (s->role == HF__MESSAGES) {
        hf__command_begin(&s->out, 2);
        hf__command_string(&s->out, "SUBSCRIBE");
        hf__command_text(&s->out, "%s:c:%s", s->url->prefix, s->who->client);
    } else {
        hf__command_begin(&s->out, 1);
        hf__command_string(&s->out, "TIME");
    }
    s->login_left++;
}

/* ---- Answers ---- */

/* An unknown error text may repeat the password, so it is not shown. */
static hf_result report_login_refused(const hf__session *s, const char *error, char **detail) {
    hf_result result = hf__session_error(s, NULL, error, detail);
    if (result != HF_PROTOCOL) return result;
    free(*detail);
    *detail = hf__line(
        "%s refused the login; its error text is not shown, because it may contain the password",
        s->where);
    return HF_REFUSED;
}

static hf_result handle_sentinel_answer(hf__session *s, char **detail) {
    unsigned part = HF__SENTINEL_REPLIES - s->login_left--;
    hf_result r = hf__sentinel_answer(s->sentinel, part, &s->parser.reply, s->where, detail);
    if (r || s->login_left) return r;
    s->state = HF__READY;
    s->link++;
    return HF_OK;
}

hf_result hf__login_answer(hf__session *s, hf__time now, char **detail) {
    const hf__reply *r = &s->parser.reply;
    if (s->role == HF__SENTINEL && s->login_left <= HF__SENTINEL_REPLIES)
        return handle_sentinel_answer(s, detail);
    if (r->type == REDIS_REPLY_ERROR) return report_login_refused(s, r->item[0].text, detail);
    s->login_left--;
    if (s->parser.reply.nested && s->login_left == 1) {
        s->parser.reply.nested = false;
        return hf__role_answer(r, s->where, detail);
    }
    if (s->login_left)
        return r->type == REDIS_REPLY_STATUS ? HF_OK : hf__session_not_redis(s, detail);
    if (s->role == HF__MESSAGES) return hf__messages_begin(s, now, detail);
    int64_t seconds, micros;
    if (r->type != REDIS_REPLY_ARRAY || !hf__reply_number(r, 0, &seconds) ||
        !hf__reply_number(r, 1, &micros) || seconds < 0 || seconds > TIME_MAX_US / 1000000 ||
        micros < 0 || micros >= 1000000)
        return hf__session_not_redis(s, detail);
    hf__session_note_time(s, seconds * 1000000 + micros, s->began, now);
    s->state = HF__READY;
    s->link++;
    s->register_at = now;
    hf__session_tick(s, now);
    return HF_OK;
}
