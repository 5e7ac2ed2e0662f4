#include "store/redis/session.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "store/redis/beside.h"
#include "store/redis/command.h"
#include "store/redis/detour.h"
#include "store/redis/list.h"
#include "store/redis/rights.h"
#include "store/redis/script.h"
#include "store/redis/trouble.h"

#define FENCE_KEPT_MS   INT64_C(90000000) /* 25 hours: a day past the last use, and FENCE_FRESH */
#define FENCE_FRESH     (3600 * HF__SEC)
#define REGISTERED_MS   90000
#define REGISTER_EVERY  (30 * HF__SEC)
#define REGISTER_AGAIN  (2 * HF__SEC)
#define RETRY_FIRST_MS  10
#define RETRY_DOUBLINGS 3
#define RETRY_MOST_MS   100
#define RETRY_TOLD_MS   10000
#define PLACE_APART_MS  20
#define PING_EVERY      (10 * HF__SEC)
#define TIME_MIN_US     INT64_C(1000000000000000) /* 2001: no token of this kind is from before */
#define TIME_MAX_US     (INT64_C(1) << 53) /* what a script's numbers hold exactly; the year 2255 */
#define LATE_TRIES      3
#define STATUS_NO       0
#define STATUS_YES      1
#define STATUS_LATE     2
#define STATUS_CAPACITY 3
#define STATUS_NONE     4

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

static void completed(hf__session *s, hf__op *op, hf_result result, bool maybe, char *detail) {
    op->result = result;
    op->maybe = maybe;
    op->detail = detail;
    op->next = NULL;
    if (s->done_last)
        s->done_last->next = op;
    else
        s->done_first = op;
    s->done_last = op;
}

static void went_with(hf__op *op, const hf__op *sent) {
    op->heard = sent->heard;
    op->asked_at = sent->asked_at;
    op->link = sent->link;
}

/* What was asked with a release is told apart from it. */
static hf__op *take_next_ask(hf__op *op) {
    hf__op *next = op->next_ask;
    op->next_ask = NULL;
    next->late = 0;
    went_with(next, op);
    return next;
}

/* And those that were asked together with it. */
static void complete(hf__session *s, hf__op *op, hf_result result, bool maybe, char *detail) {
    if (op == &s->registration) {
        s->registering = false;
        if (result == HF_UNREACHABLE)
            s->register_at = op->asked_at + REGISTER_AGAIN;
        else if (detail)
            hf__log_add(s->log, HF_LOG_WARNING, "others cannot see who holds our locks: %s",
                        detail);
        free(detail);
        return;
    }
    for (hf__op *next = op->together; next; next = next->together) {
        went_with(next, op);
        completed(s, next, result, maybe, detail ? strdup(detail) : NULL);
    }
    if (op->next_ask) {
        hf__op *next = take_next_ask(op);
        completed(s, next, result, maybe, detail ? strdup(detail) : NULL);
    }
    completed(s, op, result, maybe, detail);
}

hf__op *hf__session_completed(hf__session *s) {
    hf__op *op = s->done_first;
    if (!op) return NULL;
    s->done_first = op->next;
    if (!s->done_first) s->done_last = NULL;
    return op;
}

static hf__op *take_first(hf__session *s) {
    hf__op *op = s->first;
    s->first = op->next;
    if (!s->first) s->last = NULL;
    s->in_flight--;
    return op;
}

/* ---- Sending ---- */

/* A moment of ours on the server's clock: the sample was taken between sampled_at and received_at. What
   must not happen after it is cut off early, what must last until it lasts a little longer. */
static int64_t not_after(const hf__session *s, hf__time t) {
    return s->server_us + (t - s->received_at) / 1000;
}

static int64_t at_least_until(const hf__session *s, hf__time t) {
    return s->server_us + (t - s->sampled_at) / 1000;
}

/* What is not a mutex is known by a number of its own. */
static bool in_lane(const hf__op *op) {
    return op->kind != HF_MUTEX;
}

/* A hold goes from one client to another: see hand.lua. */
static bool is_handed(const hf__op *op) {
    return op->verb == HF__EXPORT || op->verb == HF__PROLONG ||
           (op->verb == HF__ASK && op->exported);
}

static const hf__script *plain_script_of(const hf__op *op) {
    bool lane = in_lane(op);
    if (op->together) return &hf__script_all;
    if (is_handed(op)) return &hf__script_hand;
    switch (op->verb) {
    case HF__ASK: return lane ? &hf__script_enter : &hf__script_acquire;
    case HF__RENEW: return lane ? &hf__script_keep : &hf__script_renew;
    case HF__RELEASE: return lane ? &hf__script_leave : &hf__script_release;
    case HF__BREAK: return &hf__script_break;
    case HF__INSPECT: return &hf__script_inspect;
    case HF__LIST: return &hf__script_list;
    case HF__REGISTER: return &hf__script_register;
    case HF__RAISE: return &hf__script_raise;
    case HF__AGE: return &hf__script_age;
    default: return hf__beside_script(op->verb);
    }
}

static const hf__script *script_of(const hf__session *s, const hf__op *op) {
    const hf__script *script = plain_script_of(op);
    return script && s->url->in_cluster && script->in_cluster ? script->in_cluster : script;
}

static void add_client_key(hf__session *s, const char *client) {
    hf__command_text(&s->out, "%s:client:%s", s->url->prefix, client);
}

/* client:number or client#number, which is a hold; and client:owner, its owner. */
static void add_id(hf__session *s, const hf__op *op) {
    hf__command_id(&s->out, s->who->client, in_lane(op) ? "#" : ":", op->number);
}

static void add_owner(hf__session *s, const hf__op *op) {
    hf__command_id(&s->out, s->who->client, op->owner.logical ? ":o" : ":t", op->owner.id);
}

static void add_exported(hf__session *s, const hf__op *op) {
    hf__command_id(&s->out, op->exported->client, ":", HF__EXPORTED_NUMBER);
}

/* To whom and from whom; nobody's hold keeps its owner's number, to be shown. */
static void add_hand(hf__session *s, const hf__op *op) {
    if (op->verb == HF__ASK) {
        add_id(s, op);
        add_owner(s, op);
    } else {
        add_exported(s, op);
        hf__command_id(&s->out, op->exported->client, op->owner.logical ? ":o" : ":t",
                       op->owner.id);
    }
    hf__command_number(&s->out, op->lease_ms);
    hf__command_number(&s->out, not_after(s, op->not_after));
    if (op->verb == HF__EXPORT)
        add_id(s, op);
    else
        add_exported(s, op);
    hf__command_number(&s->out, (int64_t)op->exported->token);
}

/* See part/hold.lua. */
static void add_spec(hf__session *s, const hf__op *op) {
    if (op->kind == HF_PERMITS)
        hf__command_text(&s->out, "p%" PRIu32 "/%" PRIu32, op->permits, op->capacity);
    else if (op->upgrade)
        hf__command_text(&s->out, "g%" PRIu32, op->upgrades);
    else
        hf__command_string(&s->out, op->kind == HF_READ         ? "r"
                                    : op->kind == HF_UPGRADABLE ? "u"
                                                                : "w");
}

static void add_ask(hf__session *s, const hf__op *op) {
    add_id(s, op);
    add_owner(s, op);
    hf__command_number(&s->out, op->lease_ms);
    hf__command_number(&s->out, not_after(s, op->not_after));
    hf__command_number(&s->out, (int64_t)op->token);
    if (in_lane(op)) add_spec(s, op);
    if (op->stand) hf__command_number(&s->out, op->succeeds ? 2 : 1);
}

static int chain_length(const hf__op *op) {
    int n = 0;
    for (; op; op = op->together) n++;
    return n;
}

/* Several names at once: see all.lua. */
static void add_chain(hf__session *s, const hf__op *op) {
    add_owner(s, op);
    hf__command_number(&s->out, op->lease_ms);
    hf__command_number(&s->out, not_after(s, op->not_after));
    hf__command_number(&s->out, (int64_t)op->token);
    for (; op; op = op->together) {
        add_id(s, op);
        if (in_lane(op))
            add_spec(s, op);
        else
            hf__command_string(&s->out, "m");
    }
}

static void add_heir(hf__session *s, const hf__heir *heir) {
    const hf__op as_op = {.number = heir->number, .owner = heir->owner};
    add_id(s, &as_op);
    add_owner(s, &as_op);
    hf__command_number(&s->out, heir->lease_ms);
    hf__command_number(&s->out, (int64_t)heir->token);
    hf__command_number(&s->out, not_after(s, heir->not_after));
}

static void add_renew(hf__session *s, const hf__op *op) {
    add_id(s, op);
    add_owner(s, op);
    hf__command_number(&s->out, op->count);
    hf__command_number(&s->out, op->lease_ms);
    hf__command_number(&s->out, (int64_t)op->token);
    if (!in_lane(op)) return;
    add_spec(s, op);
    hf__command_number(&s->out, op->upgrades);
}

static void add_raise(hf__session *s, const hf__op *op) {
    hf__command_key(&s->out, s->url->prefix, op->name, op->name_length, ":f");
    add_id(s, op);
    hf__command_number(&s->out, (int64_t)op->token);
}

/* The acquire has written the fence; after a long hold it is kept a day from now. */
static bool keeps_fence(const hf__op *op, hf__time now) {
    return op->bury_until || now - op->held_since > FENCE_FRESH;
}

static bool plain_release(const hf__op *op, hf__time now) {
    return !keeps_fence(op, now) && !op->leave && !op->heir && !op->next_ask;
}

static void add_release(hf__session *s, const hf__op *op, hf__time now) {
    add_id(s, op);
    if (plain_release(op, now)) return;
    hf__command_number(&s->out, op->bury_until ? at_least_until(s, op->bury_until) : 0);
    hf__command_number(&s->out, keeps_fence(op, now) ? FENCE_KEPT_MS : 0);
    hf__command_number(&s->out, op->leave);
    if (op->heir) add_heir(s, op->heir);
    if (op->next_ask) add_ask(s, op->next_ask);
}

static void add_register(hf__session *s, const hf__op *op) {
    hf__command_number(&s->out, op->exported ? op->lease_ms : REGISTERED_MS);
    hf__command_string(&s->out, s->who->host);
    hf__command_number(&s->out, s->who->pid);
    hf__command_string(&s->out, s->who->program);
    hf__command_string(&s->out, s->who->label);
}

static int key_count(const hf__op *op) {
    if (op->together) return 4 * chain_length(op);
    if (is_handed(op)) return 1;
    switch (op->verb) {
    case HF__ASK:
    case HF__RELEASE:
    case HF__BREAK: return 4;
    case HF__RENEW: return in_lane(op) && !op->brief ? 4 : 1;
    case HF__RAISE:
    case HF__INSPECT: return 2;
    case HF__AGE:
    case HF__LIST: return 0;
    default: return hf__beside_script(op->verb) ? HF__BESIDE_KEYS : 1;
    }
}

static void add_four_keys(hf__session *s, const hf__op *op) {
    static const char *const suffixes[] = {"", ":f", ":q", ":i"};
    for (int i = 0; i < 4; i++)
        hf__command_key(&s->out, s->url->prefix, op->name, op->name_length, suffixes[i]);
}

/* A latch, or what a leader says. */
static bool is_beside(const hf__op *op) {
    return hf__beside_script(op->verb) != NULL;
}

/* Keys, then arguments. */
static void add_script_arguments(hf__session *s, const hf__op *op, hf__time now) {
    if (op->together) {
        for (const hf__op *each = op; each; each = each->together) add_four_keys(s, each);
        add_chain(s, op);
        return;
    }
    if (is_beside(op)) {
        hf__beside_encode(&s->out, s->url->prefix, s->who->client, op, not_after(s, op->not_after));
        return;
    }
    if (op->verb == HF__REGISTER) {
        add_client_key(s, op->exported ? op->exported->client : s->who->client);
        add_register(s, op);
        return;
    }
    if (op->verb == HF__LIST) {
        hf__list_encode(&s->out, s->url->prefix, op->listing);
        return;
    }
    if (op->verb == HF__AGE) return;
    if (key_count(op) == 4)
        add_four_keys(s, op);
    else
        hf__command_key(&s->out, s->url->prefix, op->name, op->name_length, "");
    if (op->verb == HF__INSPECT)
        hf__command_key(&s->out, s->url->prefix, op->name, op->name_length, ":q");
    if (op->verb == HF__RAISE) add_raise(s, op);
    if (is_handed(op)) {
        add_hand(s, op);
        return;
    }
    if (op->verb == HF__ASK) add_ask(s, op);
    if (op->verb == HF__RENEW) add_renew(s, op);
    if (op->verb == HF__RELEASE) add_release(s, op, now);
    if (op->verb == HF__BREAK) {
        hf__command_number(&s->out, (int64_t)op->token);
        hf__command_number(&s->out, not_after(s, op->not_after));
    }
}

static int ask_arguments(const hf__op *op) {
    return 5 + in_lane(op) + op->stand;
}

static int release_arguments(const hf__op *op, hf__time now) {
    if (plain_release(op, now)) return 1;
    return 4 + (op->heir ? 5 : 0) + (op->next_ask ? ask_arguments(op->next_ask) : 0);
}

static int argument_count(const hf__op *op, hf__time now) {
    if (op->together) return 4 + 2 * chain_length(op);
    if (is_handed(op)) return 6;
    switch (op->verb) {
    case HF__ASK: return ask_arguments(op);
    case HF__RELEASE: return release_arguments(op, now);
    case HF__RENEW: return in_lane(op) ? 7 : 5;
    case HF__REGISTER: return 5;
    case HF__RAISE:
    case HF__BREAK: return 2;
    case HF__LIST: return HF__LIST_ARGUMENTS;
    default: return is_beside(op) ? hf__beside_arguments(op) : 0;
    }
}

static void encode_script(hf__session *s, const hf__op *op, bool whole, hf__time now) {
    const hf__script *script = script_of(s, op);
    int keys = key_count(op);
    hf__command_begin(&s->out, 3 + keys + argument_count(op, now));
    hf__command_string(&s->out, whole ? "EVAL" : "EVALSHA");
    if (whole)
        hf__command_bytes(&s->out, script->text, script->length);
    else
        hf__command_string(&s->out, script->sha1);
    hf__command_number(&s->out, keys);
    add_script_arguments(s, op, now);
}

static void encode_who(hf__session *s, const hf__op *op) {
    hf__command_begin(&s->out, 6);
    hf__command_string(&s->out, "HMGET");
    add_client_key(s, op->sight->who.client);
    hf__command_string(&s->out, "host");
    hf__command_string(&s->out, "pid");
    hf__command_string(&s->out, "program");
    hf__command_string(&s->out, "label");
}

static void encode_present(hf__session *s, const hf__op *op) {
    hf__command_begin(&s->out, 2);
    hf__command_string(&s->out, "PTTL");
    hf__command_key(&s->out, s->url->prefix, op->name, op->name_length, "");
}

static void encode_confirm(hf__session *s, const hf__op *op) {
    hf__command_begin(&s->out, 3);
    hf__command_string(&s->out, "WAIT");
    hf__command_number(&s->out, op->count);
    hf__command_number(&s->out, op->lease_ms);
}

static void encode_slots(hf__session *s) {
    hf__command_begin(&s->out, 2);
    hf__command_string(&s->out, "CLUSTER");
    hf__command_string(&s->out, "SLOTS");
}

static void encode_asking(hf__session *s) {
    hf__command_begin(&s->out, 1);
    hf__command_string(&s->out, "ASKING");
}

static void encode(hf__session *s, const hf__op *op, bool whole, hf__time now) {
    if (op->asking) encode_asking(s);
    switch (op->verb) {
    case HF__SLOTS_OF: encode_slots(s); break;
    case HF__WHO: encode_who(s, op); break;
    case HF__PRESENT: encode_present(s, op); break;
    case HF__CONFIRM: encode_confirm(s, op); break;
    default: encode_script(s, op, whole, now); break;
    }
}

/* To the end of the line. Half a command is never left in the buffer. */
static void send(hf__session *s, hf__op *op, bool whole, hf__time now) {
    size_t before = s->out.length;
    encode(s, op, whole, now);
    if (s->out.failed) {
        hf__buffer_cut(&s->out, before);
        complete(s, op, HF_NOMEM, false, hf__line("no memory for a command to %s", s->where));
        return;
    }
    op->asking_said = op->asking;
    op->asked_at = now;
    op->link = s->link;
    op->next = NULL;
    if (s->last)
        s->last->next = op;
    else
        s->first = op;
    s->last = op;
    s->in_flight++;
    s->unsent++;
    s->commands++;
}

void hf__session_submit(hf__session *s, hf__op *op, hf__time now) {
    op->late = 0;
    if (s->state == HF__READY)
        send(s, op, false, now);
    else
        complete(s, op, HF_UNREACHABLE, false, NULL);
}

/* ---- Logging in ---- */

static void add_login(hf__session *s, const char *password) {
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
        hf__sentinel_ask(s->sentinel, &s->out);
        s->login_left += HF__SENTINEL_ASKS;
        return;
    }
    if (s->url->primary) {
        hf__role_ask(&s->out);
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

hf_result hf__session_begin(hf__session *s, const char *password, hf__time now) {
    hf__parser_fini(&s->parser);
    if (!hf__parser_init(&s->parser)) return HF_NOMEM;
    hf__buffer_cut(&s->out, 0);
    s->login_left = 0;
    s->parser.reply.nested = false;
    add_login(s, password);
    if (s->out.failed) {
        hf__buffer_cut(&s->out, 0);
        return HF_NOMEM;
    }
    s->state = HF__LOGIN;
    s->began = now;
    return HF_OK;
}

static void note_time(hf__session *s, int64_t server_us, hf__time asked_at, hf__time now) {
    s->server_us = server_us;
    s->sampled_at = asked_at;
    s->received_at = now;
    int64_t trip = (now - asked_at) / 1000;
    if (!s->round_trip_us || trip < s->round_trip_us) s->round_trip_us = trip;
}

static hf_result not_redis(const hf__session *s, char **detail) {
    *detail = hf__line("%s does not answer as a Redis server does; is it one?", s->where);
    return HF_PROTOCOL;
}

/* What an error means, of an operation (NULL: of the login), and a line for a person. */
static hf_result trouble(const hf__session *s, const hf__op *op, const char *error, char **detail) {
    hf__tried tried = {.prefix = s->url->prefix, .client = s->who->client};
    if (op) tried.script = script_of(s, op);
    if (op && op->verb == HF__WHO) tried.client = op->sight->who.client;
    if (op && op->name) {
        tried.name = op->name;
        tried.name_length = (int)op->name_length;
    }
    *detail = hf__rights_lacking(error, &tried, s->where);
    return *detail ? HF_REFUSED : hf__trouble(error, s->where, detail);
}

/* Words that we do not know may repeat the password: they are not shown. */
static hf_result login_refused(const hf__session *s, const char *error, char **detail) {
    hf_result result = trouble(s, NULL, error, detail);
    if (result != HF_PROTOCOL) return result;
    free(*detail);
    *detail = hf__line("%s does not let us log in; its words are not shown, they may hold the "
                       "password",
                       s->where);
    return HF_REFUSED;
}

/* ---- Messages ---- */

static bool is_push(const hf__reply *r, const char *kind) {
    const char *said = r->type == REDIS_REPLY_ARRAY ? hf__reply_text(r, 0) : NULL;
    return said && !strcmp(said, kind);
}

static hf_result listening(hf__session *s, hf__time now, char **detail) {
    const hf__reply *r = &s->parser.reply;
    bool ponged = s->channels && r->type == REDIS_REPLY_STATUS;
    if (!ponged && !is_push(r, "subscribe")) return not_redis(s, detail);
    s->state = HF__READY;
    s->link++;
    s->pinged_at = 0;
    s->ping_at = now + PING_EVERY;
    return HF_OK;
}

/* number token µs lease, each a decimal number: what part/line.lua publishes. */
static bool read_message(hf__message *m, const char *text) {
    int64_t values[4];
    for (int i = 0; i < 4; i++) {
        char *end;
        errno = 0;
        values[i] = strtoll(text, &end, 10);
        if (errno || end == text || values[i] <= 0 || *end != (i < 3 ? ' ' : '\0')) return false;
        text = end + 1;
    }
    *m = (hf__message){.number = (uint64_t)values[0],
                       .token = (uint64_t)values[1],
                       .server_us = values[2],
                       .lease_ms = values[3]};
    return values[1] <= TIME_MAX_US && values[2] <= TIME_MAX_US && values[3] <= HF_LEASE_MAX_MS;
}

/* Anybody may publish on our channel. What is no grant is nothing to us. */
static void take_message(hf__session *s, hf__time now) {
    hf__message m;
    const char *text = hf__reply_text(&s->parser.reply, 2);
    if (!text || !read_message(&m, text)) return;
    m.came_at = now;
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

/* What else a node of a cluster says to who listens: of its channels, or an answer to a ping. */
static hf_result of_channels(hf__session *s, char **detail) {
    const hf__reply *r = &s->parser.reply;
    bool good = r->type == REDIS_REPLY_ERROR
                    ? hf__channels_refused(s->channels, r->item[0].text, s->log)
                    : r->type == REDIS_REPLY_STATUS || is_push(r, "pong") ||
                          hf__channels_push(s->channels, r);
    return good ? HF_OK : not_redis(s, detail);
}

static hf_result push(hf__session *s, hf__time now, char **detail) {
    const hf__reply *r = &s->parser.reply;
    s->pinged_at = 0;
    s->ping_at = now + PING_EVERY;
    if (is_push(r, "message") || is_push(r, "smessage")) {
        take_message(s, now);
    } else if (s->channels) {
        return of_channels(s, detail);
    } else if (!is_push(r, "pong") && !is_push(r, "subscribe")) {
        return not_redis(s, detail);
    }
    return HF_OK;
}

static void ping(hf__session *s, hf__time now) {
    if (s->state != HF__READY || s->pinged_at || now < s->ping_at) return;
    hf__command_begin(&s->out, 1);
    hf__command_string(&s->out, "PING");
    s->pinged_at = now;
}

static hf_result sentinel_answer(hf__session *s, char **detail) {
    unsigned part = HF__SENTINEL_ASKS - s->login_left--;
    hf_result r = hf__sentinel_answer(s->sentinel, part, &s->parser.reply, s->where, detail);
    if (r || s->login_left) return r;
    s->state = HF__READY;
    s->link++;
    return HF_OK;
}

static hf_result login_answer(hf__session *s, hf__time now, char **detail) {
    const hf__reply *r = &s->parser.reply;
    if (s->role == HF__SENTINEL && s->login_left <= HF__SENTINEL_ASKS)
        return sentinel_answer(s, detail);
    if (r->type == REDIS_REPLY_ERROR) return login_refused(s, r->item[0].text, detail);
    s->login_left--;
    if (s->parser.reply.nested && s->login_left == 1) {
        s->parser.reply.nested = false;
        return hf__role_answer(r, s->where, detail);
    }
    if (s->login_left) return r->type == REDIS_REPLY_STATUS ? HF_OK : not_redis(s, detail);
    if (s->role == HF__MESSAGES) return listening(s, now, detail);
    int64_t seconds, micros;
    if (r->type != REDIS_REPLY_ARRAY || !hf__reply_number(r, 0, &seconds) ||
        !hf__reply_number(r, 1, &micros) || seconds < 0 || seconds > TIME_MAX_US / 1000000 ||
        micros < 0 || micros >= 1000000)
        return not_redis(s, detail);
    note_time(s, seconds * 1000000 + micros, s->began, now);
    s->state = HF__READY;
    s->link++;
    s->register_at = now;
    hf__session_tick(s, now);
    return HF_OK;
}

/* ---- Answers ---- */

/* When to ask again. Who stands in line and listens will be told; it asks when the holder expires, the
   first first, in case that it is not told. Who does not asks soon at first, ten times a second later,
   and when the holder expires. */
static int64_t retry_ms(bool heard, uint32_t attempt, int64_t expires_ms, int64_t place) {
    if (heard && place) {
        int64_t left = (expires_ms > 0 ? expires_ms : 0) + place * PLACE_APART_MS;
        return left < RETRY_TOLD_MS ? left : RETRY_TOLD_MS;
    }
    int64_t wait = attempt < RETRY_DOUBLINGS ? (int64_t)RETRY_FIRST_MS << attempt : RETRY_MOST_MS;
    return expires_ms >= 0 && expires_ms < wait ? expires_ms + 1 : wait;
}

static bool is_heard(const hf__session *s, const hf__op *op) {
    return s->url->in_cluster ? op->heard : s->heard;
}

static hf_result bad_answer(hf__session *s, hf__op *op, char **detail) {
    *detail = hf__line("%s gave an answer that is none to what was asked; the connection is closed",
                       s->where);
    complete(s, op, HF_PROTOCOL, true, *detail ? strdup(*detail) : NULL);
    return HF_PROTOCOL;
}

/* What follows the last colon of client:owner. */
static void read_owner(char out[HF__OWNER_TEXT], const char *owner) {
    const char *colon = strrchr(owner, ':');
    if (colon) hf__text_tame(out, HF__OWNER_TEXT, colon + 1, strlen(colon + 1));
}

static bool read_sight(hf__sight *sight, const hf__reply *r) {
    int64_t left, token, since, kind, count, holders, used, capacity;
    const char *id = hf__reply_text(r, 4), *owner = hf__reply_text(r, 8);
    if (!hf__reply_number(r, 3, &left) || !id || !owner || !hf__reply_number(r, 5, &token) ||
        !hf__reply_number(r, 6, &since) || !hf__reply_number(r, 7, &kind) ||
        !hf__reply_number(r, 9, &count) || !hf__reply_number(r, 10, &holders) ||
        !hf__reply_number(r, 11, &used) || !hf__reply_number(r, 12, &capacity))
        return false;
    sight->held = true;
    sight->remaining_ms = left > 0 ? left : 0;
    sight->token = (uint64_t)token;
    sight->since_unix_ms = since;
    sight->kind = (uint32_t)kind;
    sight->count = (uint32_t)count;
    sight->holders = (uint32_t)holders;
    sight->used = (uint32_t)used;
    sight->capacity = (uint32_t)capacity;
    hf__text_tame(sight->who.client, sizeof sight->who.client, id, strcspn(id, ":#"));
    read_owner(sight->owner, owner);
    return true;
}

static bool read_line(hf__sight *sight, const hf__reply *r, size_t from) {
    int64_t waiting;
    if (!hf__reply_number(r, 2, &waiting) || waiting < 0 || waiting > UINT32_MAX) return false;
    sight->waiting = (uint32_t)waiting;
    for (size_t i = from; i < r->count && i - from < HF__LINE_SEEN; i++) {
        const char *id = hf__reply_text(r, i);
        hf__standing *standing = &sight->line[i - from];
        if (!id) return false;
        hf__text_tame(standing->client, sizeof standing->client, id, strcspn(id, ":"));
        read_owner(standing->owner, id);
    }
    return r->count - from == (waiting < HF__LINE_SEEN ? (size_t)waiting : HF__LINE_SEEN);
}

static void read_text(char *to, const hf__reply *r, size_t i) {
    const char *text = hf__reply_text(r, i);
    hf__text_tame(to, HF__WHO_TEXT, text ? text : "", text ? strlen(text) : 0);
}

static hf_result who_answer(hf__session *s, hf__op *op, char **detail) {
    const hf__reply *r = &s->parser.reply;
    hf__identity *who = &op->sight->who;
    if (r->type != REDIS_REPLY_ARRAY || r->count != 4) return bad_answer(s, op, detail);
    read_text(who->host, r, 0);
    if (!hf__reply_number(r, 1, &who->pid)) who->pid = 0;
    read_text(who->program, r, 2);
    read_text(who->label, r, 3);
    complete(s, op, HF_OK, false, NULL);
    return HF_OK;
}

/* The server's clock is ahead of what we thought, or the command took long: ask again by its clock. */
static void late_answer(hf__session *s, hf__op *op, hf__time now) {
    if (op->late++ < LATE_TRIES && now < op->not_after)
        send(s, op, false, now);
    else
        complete(s, op, HF_TIMEOUT, false,
                 hf__line("%s executed the request too late, or its clock jumps", s->where));
}

/* Another has it: the place in line, and that one's token. */
static bool read_busy(const hf__reply *r, int64_t *place, uint64_t *token) {
    int64_t n;
    if (!hf__reply_number(r, 3, place) || !hf__reply_number(r, 4, &n) || n < 0) return false;
    *token = (uint64_t)n;
    return true;
}

static bool read_crowded(const hf__reply *r, hf__op *op) {
    int64_t crowded;
    if (!hf__reply_number(r, 3, &crowded)) return false;
    op->crowded = crowded != 0;
    return true;
}

static hf_result grant_answer(hf__session *s, hf__op *op, int64_t value, bool yes, char **detail) {
    int64_t place = 0;
    if (yes ? value <= 0 : !read_busy(&s->parser.reply, &place, &op->told_token))
        return bad_answer(s, op, detail);
    if (yes)
        op->token = (uint64_t)value;
    else
        op->retry_ms = retry_ms(is_heard(s, op), op->attempt, value, place);
    if (yes && in_lane(op) && !read_crowded(&s->parser.reply, op)) return bad_answer(s, op, detail);
    op->placed = place > 0;
    complete(s, op, yes ? HF_OK : HF_BUSY, false, NULL);
    return HF_OK;
}

/* To several names at once: a token for each, or nothing. */
static hf_result chain_answer(hf__session *s, hf__op *op, bool yes, char **detail) {
    const hf__reply *r = &s->parser.reply;
    size_t i = 2;
    for (hf__op *each = op; yes && each; each = each->together, i++) {
        int64_t token;
        if (!hf__reply_number(r, i, &token) || token <= 0) return bad_answer(s, op, detail);
        each->token = (uint64_t)token;
    }
    complete(s, op, yes ? HF_OK : HF_BUSY, false, NULL);
    return HF_OK;
}

/* A list is the answer to a release with an heir: what became of the heir. */
static hf_result heir_answer(hf__session *s, hf__op *op, int64_t status, int64_t value,
                             char **detail) {
    int64_t place = 0;
    if (!op->heir || (status == STATUS_YES && value <= 0) ||
        (status == STATUS_NO && !read_busy(&s->parser.reply, &place, &op->heir->told_token)))
        return bad_answer(s, op, detail);
    op->heir->result = status == STATUS_YES ? HF_OK : status == STATUS_NO ? HF_BUSY : HF_NOT_HELD;
    if (status == STATUS_YES) op->heir->token = (uint64_t)value;
    if (status == STATUS_NO) op->heir->retry_ms = retry_ms(is_heard(s, op), 0, value, place);
    complete(s, op, HF_OK, false, NULL);
    return HF_OK;
}

static bool good_time(int64_t server_us) {
    return server_us > 0 && server_us <= TIME_MAX_US;
}

/* Seconds that it has been up, by its own count; -1: it may not say. */
static hf_result age_answer(hf__session *s, hf__op *op, int64_t seconds, char **detail) {
    if (seconds < -1 || seconds > TIME_MAX_US / 1000000) return bad_answer(s, op, detail);
    op->age_ms = seconds < 0 ? -1 : seconds * 1000;
    complete(s, op, HF_OK, false, NULL);
    return HF_OK;
}

/* One number for yes or no: 1 or 0, or where the server's time goes with it µs or -µs. */
static hf_result number_answer(hf__session *s, hf__op *op, hf__time now, char **detail) {
    int64_t n = s->parser.reply.item[0].integer;
    int64_t server_us = n > -TIME_MAX_US && n < 0 ? -n : n;
    if (op->verb == HF__RELEASE) {
        if ((n != 0 && n != 1) || op->next_ask) return bad_answer(s, op, detail);
        if (op->heir) op->heir->result = HF_NOT_HELD; /* the script did nothing for it */
        complete(s, op, n ? HF_OK : HF_LOST, false, NULL);
        return HF_OK;
    }
    if (op->verb == HF__AGE) return age_answer(s, op, n, detail);
    bool may_be = op->verb == HF__RENEW || op->verb == HF__REGISTER || op->verb == HF__RAISE ||
                  (op->verb == HF__ASK && !op->together && n >= TIME_MIN_US);
    if (!may_be || !good_time(server_us)) return bad_answer(s, op, detail);
    note_time(s, server_us, op->asked_at, now);
    if (op->verb == HF__ASK) op->token = (uint64_t)n;
    if (op->verb == HF__REGISTER) s->registered = true;
    complete(s, op, n > 0 ? HF_OK : HF_LOST, false, NULL);
    return HF_OK;
}

/* Of what is not a mutex. */
static hf_result kept_answer(hf__session *s, hf__op *op, bool yes, int64_t server_us, hf__time now,
                             char **detail) {
    int64_t crowded = 0;
    if (!in_lane(op) || (yes && !hf__reply_number(&s->parser.reply, 2, &crowded)))
        return bad_answer(s, op, detail);
    note_time(s, server_us, op->asked_at, now);
    op->crowded = crowded != 0;
    complete(s, op, yes ? HF_OK : HF_LOST, false, NULL);
    return HF_OK;
}

static hf_result other_answer(hf__session *s, hf__op *op, int64_t status, char **detail) {
    int64_t capacity = 0;
    bool other = status == STATUS_CAPACITY;
    if (is_handed(op) && !other) {
        complete(s, op, HF_LOST, false, NULL);
        return HF_OK;
    }
    if (op->verb != HF__ASK || op->together || !in_lane(op) ||
        (other && !hf__reply_number(&s->parser.reply, 2, &capacity)))
        return bad_answer(s, op, detail);
    if (other) op->capacity = (uint32_t)capacity; /* the one in force */
    complete(s, op, other ? HF_INVALID : HF_LOST, false, NULL);
    return HF_OK;
}

/* {status, µs, …} for what has more to say. */
static hf_result list_answer(hf__session *s, hf__op *op, hf__time now, char **detail) {
    const hf__reply *r = &s->parser.reply;
    int64_t status, server_us, value = 0;
    if (!hf__reply_number(r, 0, &status) || status < STATUS_NO || status > STATUS_NONE ||
        !hf__reply_number(r, 1, &server_us) || !good_time(server_us))
        return bad_answer(s, op, detail);
    if (status > STATUS_LATE) return other_answer(s, op, status, detail);
    bool yes = status == STATUS_YES, late = status == STATUS_LATE;
    if (op->verb == HF__RENEW) return kept_answer(s, op, yes, server_us, now, detail);
    bool third =
        is_handed(op) || op->verb == HF__ASK || op->verb == HF__BREAK || op->verb == HF__RELEASE;
    if (op->together) third = late;
    if ((late && !third) || (!late && third && !hf__reply_number(r, 2, &value)))
        return bad_answer(s, op, detail);
    note_time(s, server_us, op->asked_at, now);
    op->server_us = server_us;
    if (op->verb == HF__RELEASE) return heir_answer(s, op, status, value, detail);
    if (late) {
        late_answer(s, op, now);
        return HF_OK;
    }
    if (is_handed(op) && !yes) return bad_answer(s, op, detail);
    if (op->together) return chain_answer(s, op, yes, detail);
    if (op->verb == HF__ASK) return grant_answer(s, op, value, yes, detail);
    if (op->verb == HF__LIST) {
        if (!yes || !hf__list_answer(r, s->url->prefix, op->listing))
            return bad_answer(s, op, detail);
    } else if (op->verb == HF__BREAK)
        op->token = (uint64_t)value;
    else if (is_handed(op))
        op->result = HF_OK;
    else if ((yes && !read_sight(op->sight, r)) || !read_line(op->sight, r, yes ? 13 : 3))
        return bad_answer(s, op, detail);
    hf_result no = op->verb == HF__BREAK ? HF_NOT_HELD : HF_OK;
    complete(s, op, yes ? HF_OK : no, false, NULL);
    return HF_OK;
}

/* That to the ask which went with a release; the time is below 0 if there was nothing to release. */
static hf_result next_answer(hf__session *s, hf__op *op, hf__time now, char **detail) {
    hf__reply *r = &s->parser.reply;
    int64_t status, server_us;
    if (!hf__reply_number(r, 0, &status) || status < STATUS_NO || status > STATUS_CAPACITY ||
        !hf__reply_number(r, 1, &server_us) || server_us == INT64_MIN)
        return bad_answer(s, op, detail);
    bool held = server_us > 0;
    if (!held) r->item[1].integer = -server_us;
    hf__op *next = take_next_ask(op);
    complete(s, op, held ? HF_OK : HF_LOST, false, NULL);
    return list_answer(s, next, now, detail);
}

static hf_result beside_answer(hf__session *s, hf__op *op, hf__time now, char **detail) {
    const hf__reply *r = &s->parser.reply;
    int64_t status, server_us;
    bool changes = op->verb == HF__LATCH_SET || op->verb == HF__LATCH_DOWN;
    if (r->type != REDIS_REPLY_ARRAY || !hf__reply_number(r, 0, &status) || status < STATUS_NO ||
        status > (changes ? STATUS_LATE : STATUS_YES) || !hf__reply_number(r, 1, &server_us) ||
        !good_time(server_us))
        return bad_answer(s, op, detail);
    note_time(s, server_us, op->asked_at, now);
    if (status == STATUS_LATE)
        late_answer(s, op, now);
    else if (hf__beside_answer(r, op, status == STATUS_YES, is_heard(s, op)))
        complete(s, op, op->result, false, NULL);
    else
        return bad_answer(s, op, detail);
    return HF_OK;
}

static hf_result script_answer(hf__session *s, hf__op *op, hf__time now, char **detail) {
    int type = s->parser.reply.type;
    if (is_beside(op)) return beside_answer(s, op, now, detail);
    bool lists = is_handed(op) || op->verb == HF__ASK || (op->verb == HF__RENEW && in_lane(op)) ||
                 op->verb == HF__BREAK || op->verb == HF__INSPECT || op->verb == HF__RELEASE ||
                 op->verb == HF__LIST;
    if (type == REDIS_REPLY_INTEGER) return number_answer(s, op, now, detail);
    if (type == REDIS_REPLY_ARRAY && op->next_ask) return next_answer(s, op, now, detail);
    if (type == REDIS_REPLY_ARRAY && lists) return list_answer(s, op, now, detail);
    return bad_answer(s, op, detail);
}

/* How long it still is there; or how many replicas have it. */
static hf_result replicas_answer(hf__session *s, hf__op *op, char **detail) {
    const hf__reply *r = &s->parser.reply;
    if (r->type != REDIS_REPLY_INTEGER) return bad_answer(s, op, detail);
    int64_t n = r->item[0].integer;
    bool yes = op->verb == HF__CONFIRM ? n >= 0 : n > 0;
    if (op->verb == HF__CONFIRM) op->token = (uint64_t)n;
    complete(s, op, yes ? HF_OK : HF_LOST, false, NULL);
    return HF_OK;
}

/* There was a failover: nothing was done, and another node is to be asked. */
static hf_result demoted(hf__session *s, hf__op *op, char **detail) {
    *detail = hf__line("%s is not the primary any more", s->where);
    complete(s, op, HF_UNREACHABLE, false, *detail ? strdup(*detail) : NULL);
    return HF_UNREACHABLE;
}

/* The answer to ASKING, which goes before what it is for. Where it is refused, so is that. */
static hf_result asking_answer(hf__session *s, hf__op *op) {
    const hf__reply *r = &s->parser.reply;
    op->asking_said = false;
    free(op->detail);
    op->detail = NULL;
    if (r->type == REDIS_REPLY_ERROR) trouble(s, op, r->item[0].text, &op->detail);
    return HF_OK;
}

static void forget_asking(hf__op *op) {
    if (!op->asking) return;
    free(op->detail);
    op->detail = NULL;
}

/* Nothing was done, and another node is to be asked, or later. */
static bool turned_away(hf__session *s, hf__op *op, const char *error) {
    if (!s->url->in_cluster || s->role != HF__COMMANDS || !hf__turned(error, &op->detour))
        return false;
    hf_result result = op->asking && op->detail ? HF_REFUSED : HF_UNREACHABLE;
    char *line = result == HF_REFUSED ? op->detail : hf__line("%s: %.200s", s->where, error);
    complete(s, op, result, false, line);
    return true;
}

static hf_result slots_answer(hf__session *s, hf__op *op, char **detail) {
    if (s->parser.reply.type != REDIS_REPLY_ARRAY) return bad_answer(s, op, detail);
    complete(s, op, HF_OK, false, NULL);
    return HF_OK;
}

static hf_result answer(hf__session *s, hf__time now, char **detail) {
    const hf__reply *r = &s->parser.reply;
    if (s->state == HF__LOGIN) return login_answer(s, now, detail);
    if (s->role == HF__MESSAGES) return push(s, now, detail);
    if (s->role == HF__SENTINEL) return hf__sentinel_push(s->sentinel, r, s->where, detail);
    if (s->in_flight == s->unsent) {
        *detail = hf__line("%s sent what nobody asked for; the connection is closed", s->where);
        return HF_PROTOCOL;
    }
    if (s->first->asking_said) return asking_answer(s, s->first);
    hf__op *op = take_first(s);
    if (r->type == REDIS_REPLY_ERROR) {
        if (turned_away(s, op, r->item[0].text)) return HF_OK;
        forget_asking(op);
        if (!strncmp(r->item[0].text, "NOSCRIPT", 8) && script_of(s, op)) {
            send(s, op, true, now);
            return HF_OK;
        }
        if (s->url->primary && hf__role_lost(r->item[0].text)) return demoted(s, op, detail);
        char *line = NULL;
        hf_result result = trouble(s, op, r->item[0].text, &line);
        /* Where something else stands in its place, our hold is gone. */
        bool ours = op->verb == HF__RENEW || op->verb == HF__RELEASE || op->verb == HF__RAISE ||
                    op->verb == HF__EXPORT;
        bool gone = ours && !strncmp(r->item[0].text, "WRONGTYPE", 9);
        if (gone && op->next_ask)
            complete(s, take_next_ask(op), result, false, line ? strdup(line) : NULL);
        complete(s, op, gone ? HF_LOST : result, false, line);
        return HF_OK;
    }
    forget_asking(op);
    if (s->role == HF__REPLICAS) return replicas_answer(s, op, detail);
    if (op->verb == HF__SLOTS_OF) return slots_answer(s, op, detail);
    return op->verb == HF__WHO ? who_answer(s, op, detail) : script_answer(s, op, now, detail);
}

hf_result hf__session_feed(hf__session *s, const char *bytes, size_t length, hf__time now,
                           char **detail) {
    switch (hf__parser_feed(&s->parser, bytes, length)) {
    case HF_OK: break;
    case HF_NOMEM: return HF_NOMEM;
    default: return not_redis(s, detail);
    }
    for (;;) {
        bool slots = s->in_flight > s->unsent && s->first->verb == HF__SLOTS_OF;
        s->parser.reply.slots = slots ? s->first->slots : NULL;
        hf__parsed parsed = hf__parser_next(&s->parser);
        if (parsed == HF__PARSE_MORE) return HF_OK;
        hf_result r = parsed == HF__PARSED ? answer(s, now, detail) : not_redis(s, detail);
        if (r) return r;
    }
}

void hf__session_break(hf__session *s) {
    s->state = HF__AWAY;
    s->pinged_at = 0;
    s->registered = false;
    if (s->channels) hf__channels_broke(s->channels);
    hf__buffer_cut(&s->out, 0);
    while (s->first) {
        bool sent = s->in_flight > s->unsent;
        if (!sent) s->unsent--;
        complete(s, take_first(s), HF_UNREACHABLE, sent,
                 hf__line("the connection to %s broke before it answered", s->where));
    }
}

/* ---- Upkeep ---- */

void hf__session_tick(hf__session *s, hf__time now) {
    if (s->role == HF__MESSAGES) {
        ping(s, now);
        if (s->channels && s->state == HF__READY) hf__channels_send(s->channels, &s->out, now);
        return;
    }
    if (s->role != HF__COMMANDS || s->url->in_cluster) return;
    if (s->state != HF__READY || s->registering || now < s->register_at) return;
    s->registering = true;
    s->register_at = now + REGISTER_EVERY;
    s->registration = (hf__op){.verb = HF__REGISTER};
    send(s, &s->registration, false, now);
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
    return s->first ? s->first->asked_at : HF__NEVER;
}

void hf__session_goodbye(hf__session *s) {
    if (s->state != HF__READY || s->role != HF__COMMANDS) return;
    if (s->url->in_cluster && !s->registered) return;
    hf__command_begin(&s->out, 2);
    hf__command_string(&s->out, "DEL");
    add_client_key(s, s->who->client);
}
