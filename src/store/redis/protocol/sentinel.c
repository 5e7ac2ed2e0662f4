/* SPDX-License-Identifier: Apache-2.0 */
#include "store/redis/protocol/sentinel.h"

#include <hiredis/hiredis.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "store/redis/protocol/command.h"
#include "store/redis/protocol/error_line.h"

void hf__sentinel_init(hf__sentinel *s, const hf__url *url) {
    *s = (hf__sentinel){.url = url};
    while (s->count < HF__HOSTS_MAX && url->hosts[s->count].name) s->count++;
}

void hf__sentinel_next(hf__sentinel *s) {
    s->at = (s->at + 1) % s->count;
}

/* ---- Requests ---- */

/* The epoch and the address come in two replies. If a failover happens in between, only the second
   reply shows it, so the address is never older than the epoch. Subscribing comes last, because no
   other command is allowed after it. */
void hf__sentinel_request(hf__sentinel *s, hf__buffer *out) {
    s->reported = (hf__address){.port = 0};
    s->reported_epoch = 0;
    s->switched = false;
    hf__command_begin(out, 3);
    hf__command_string(out, "SENTINEL");
    hf__command_string(out, "MASTER");
    hf__command_string(out, s->url->primary);
    hf__command_begin(out, 3);
    hf__command_string(out, "SENTINEL");
    hf__command_string(out, "GET-MASTER-ADDR-BY-NAME");
    hf__command_string(out, s->url->primary);
    hf__command_begin(out, 2);
    hf__command_string(out, "SUBSCRIBE");
    hf__command_string(out, "+switch-master");
}

/* ---- Answers ---- */

static hf_result report_no_sentinel(const char *where, char **detail) {
    *detail = hf__line("%s does not answer as a Sentinel does; is it one?", where);
    return HF_PROTOCOL;
}

static hf_result report_unknown_name(const hf__sentinel *s, const char *where, char **detail) {
    *detail =
        hf__line("the Sentinel at %s knows no primary named '%.100s'; check the name in the URL",
                 where, s->url->primary);
    return HF_REFUSED;
}

static hf_result explain_refusal(const hf__sentinel *s, const char *error, const char *where,
                                 char **detail) {
    if (strstr(error, "No such master")) return report_unknown_name(s, where, detail);
    if (strstr(error, "unknown command")) return report_no_sentinel(where, detail);
    bool password = !strncmp(error, "NOAUTH", 6);
    *detail = hf__line("the Sentinel at %s refused: %.160s%s", where, error,
                       password ? " (set sentinel_password_file)" : "");
    return HF_REFUSED;
}

/* The reply is a list of fields and values. */
static bool read_epoch(hf__sentinel *s, const hf__reply *r) {
    for (size_t i = 0; i + 1 < r->count; i += 2) {
        const char *field = hf__reply_text(r, i);
        if (field && !strcmp(field, "config-epoch"))
            return hf__reply_number(r, i + 1, &s->reported_epoch);
    }
    return false;
}

static bool read_address(hf__address *address, const hf__reply *r) {
    int64_t port;
    const char *host = hf__reply_text(r, 0);
    if (!host || !*host || strlen(host) >= sizeof address->host || !hf__reply_number(r, 1, &port) ||
        port < 1 || port > 65535)
        return false;
    hf__text_copy(address->host, sizeof address->host, host);
    address->port = (int32_t)port;
    return true;
}

static void accept_answer(hf__sentinel *s) {
    s->older |= 1u << s->at;
    if (s->primary.port && s->reported_epoch < s->epoch &&
        (unsigned)__builtin_popcount(s->older) <= s->count / 2)
        return;
    s->primary = s->reported;
    s->epoch = s->reported_epoch;
    s->older = 0;
}

static bool is_push(const hf__reply *r, const char *kind) {
    const char *said = r->type == REDIS_REPLY_ARRAY ? hf__reply_text(r, 0) : NULL;
    return said && !strcmp(said, kind);
}

hf_result hf__sentinel_answer(hf__sentinel *s, unsigned i, const hf__reply *r, const char *where,
                              char **detail) {
    if (r->type == REDIS_REPLY_ERROR) return explain_refusal(s, r->item[0].text, where, detail);
    if (i == 1 && r->type == REDIS_REPLY_NIL) return report_unknown_name(s, where, detail);
    bool array = r->type == REDIS_REPLY_ARRAY;
    bool good = i == 0   ? array && read_epoch(s, r)
                : i == 1 ? array && read_address(&s->reported, r)
                         : is_push(r, "subscribe");
    if (!good) return report_no_sentinel(where, detail);
    if (i == HF__SENTINEL_REPLIES - 1) accept_answer(s);
    return HF_OK;
}

/* The message is "name old-host old-port new-host new-port". Only the name is used. */
hf_result hf__sentinel_push(hf__sentinel *s, const hf__reply *r, const char *where, char **detail) {
    if (!is_push(r, "message")) return report_no_sentinel(where, detail);
    const char *text = hf__reply_text(r, 2);
    size_t length = strlen(s->url->primary);
    if (text && !strncmp(text, s->url->primary, length) && text[length] == ' ') s->switched = true;
    return HF_OK;
}

/* ---- Roles ---- */

void hf__role_request(hf__buffer *out) {
    hf__command_begin(out, 1);
    hf__command_string(out, "ROLE");
}

hf_result hf__role_answer(const hf__reply *r, const char *where, char **detail) {
    const char *role = r->type == REDIS_REPLY_ARRAY ? hf__reply_text(r, 0) : NULL;
    if (role && !strcmp(role, "master")) return HF_OK;
    *detail = hf__line("%s is not the primary: it says that it is a %.20s", where,
                       role && !strcmp(role, "slave") ? "replica"
                       : role                         ? role
                                                      : "?");
    return HF_UNREACHABLE;
}

bool hf__role_lost(const char *line) {
    hf__error_line error = hf__error_unwrap(line);
    return hf__error_has_code(&error, "READONLY") || hf__error_has_code(&error, "MASTERDOWN");
}
