/* SPDX-License-Identifier: Apache-2.0 */
#include "store/redis/protocol/encode.h"

#include "store/redis/protocol/command.h"
#include "store/redis/protocol/latch_leader.h"
#include "store/redis/protocol/list.h"

#define FENCE_KEPT_MS INT64_C(90000000) /* 25 hours: a day after the last use, and FENCE_FRESH */
#define FENCE_FRESH   (3600 * HF__SEC)
#define REGISTERED_MS 90000

/* Our time t on the server's clock. The server's time was sampled between sampled_at and
   received_at. not_after rounds down, so that a limit is never too late. at_least_until rounds up,
   so that a minimum duration is never too short. */
static int64_t not_after(const hf__session *s, hf__time t) {
    return s->server_us + (t - s->received_at) / 1000;
}

/* The time of sending, early rather than late: see the tombstones in part/queue.lua. */
static int64_t sent_at(const hf__session *s, hf__time now) {
    return not_after(s, now);
}

static int64_t at_least_until(const hf__session *s, hf__time t) {
    return s->server_us + (t - s->sampled_at) / 1000;
}

/* Any kind but a mutex has an entry of its own for each acquire id. */
bool hf__uses_shared_scripts(const hf__op *op) {
    return op->kind != HF_MUTEX;
}

/* A hold goes from one client to another: see transfer.lua. */
bool hf__is_transfer(const hf__op *op) {
    return op->verb == HF__EXPORT || op->verb == HF__EXTEND_EXPORTED ||
           (op->verb == HF__ACQUIRE && op->exported);
}

static const hf__script *plain_script_of(const hf__op *op) {
    bool shared = hf__uses_shared_scripts(op);
    if (op->next_in_multi) return &hf__script_acquire_all;
    if (hf__is_transfer(op)) return &hf__script_transfer;
    switch (op->verb) {
    case HF__ACQUIRE: return shared ? &hf__script_shared_acquire : &hf__script_acquire;
    case HF__RENEW: return shared ? &hf__script_shared_renew : &hf__script_renew;
    case HF__RELEASE: return shared ? &hf__script_shared_release : &hf__script_release;
    case HF__BREAK: return &hf__script_break;
    case HF__INSPECT: return &hf__script_inspect;
    case HF__LIST: return &hf__script_list;
    case HF__REGISTER: return &hf__script_register_client;
    case HF__RAISE_TOKEN: return &hf__script_raise_token;
    case HF__UPTIME: return &hf__script_uptime;
    case HF__TOUCH: return &hf__script_touch_hold;
    default: return hf__latch_leader_script(op->verb);
    }
}

const hf__script *hf__script_of(const hf__session *s, const hf__op *op) {
    const hf__script *script = plain_script_of(op);
    return script && s->url->in_cluster && script->in_cluster ? script->in_cluster : script;
}

void hf__encode_client_key(hf__session *s, const char *client) {
    hf__command_text(&s->out, "%s:client:%s", s->url->prefix, client);
}

/* client:acquire_id or client#acquire_id identifies a hold, client:owner its owner. */
static void add_id(hf__session *s, const hf__op *op) {
    hf__command_id(&s->out, s->who->client, hf__uses_shared_scripts(op) ? "#" : ":",
                   op->acquire_id);
}

static void add_owner(hf__session *s, const hf__op *op) {
    hf__command_id(&s->out, s->who->client, op->owner.logical ? ":o" : ":t", op->owner.id);
}

static void add_exported(hf__session *s, const hf__op *op) {
    hf__command_id(&s->out, op->exported->client, ":", HF__EXPORTED_ACQUIRE_ID);
}

/* The client that receives the hold, and the one that gives it. An exported hold belongs to no
   client, but keeps the id of its owner for display. */
static void add_transfer(hf__session *s, const hf__op *op) {
    if (op->verb == HF__ACQUIRE) {
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

/* See part/holders.lua. */
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

static void add_acquire(hf__session *s, const hf__op *op, hf__time now) {
    add_id(s, op);
    add_owner(s, op);
    hf__command_number(&s->out, op->lease_ms);
    hf__command_number(&s->out, not_after(s, op->not_after));
    hf__command_number(&s->out, (int64_t)op->token);
    if (hf__uses_shared_scripts(op)) add_spec(s, op);
    hf__command_number(&s->out, sent_at(s, now));
    if (op->enqueue) hf__command_number(&s->out, op->inherits_position ? 2 : 1);
}

static int multi_length(const hf__op *op) {
    int n = 0;
    for (; op; op = op->next_in_multi) n++;
    return n;
}

/* Several names at once: see acquire_all.lua. */
static void add_multi(hf__session *s, const hf__op *op, hf__time now) {
    add_owner(s, op);
    hf__command_number(&s->out, op->lease_ms);
    hf__command_number(&s->out, not_after(s, op->not_after));
    hf__command_number(&s->out, (int64_t)op->token);
    hf__command_number(&s->out, sent_at(s, now));
    for (; op; op = op->next_in_multi) {
        add_id(s, op);
        if (hf__uses_shared_scripts(op))
            add_spec(s, op);
        else
            hf__command_string(&s->out, "m");
    }
}

static void add_next_acquire(hf__session *s, const hf__next_acquire *next) {
    const hf__op as_op = {.acquire_id = next->acquire_id, .owner = next->owner};
    add_id(s, &as_op);
    add_owner(s, &as_op);
    hf__command_number(&s->out, next->lease_ms);
    hf__command_number(&s->out, (int64_t)next->token);
    hf__command_number(&s->out, not_after(s, next->not_after));
}

static void add_renew(hf__session *s, const hf__op *op) {
    add_id(s, op);
    add_owner(s, op);
    hf__command_number(&s->out, op->count);
    hf__command_number(&s->out, op->lease_ms);
    hf__command_number(&s->out, (int64_t)op->token);
    if (!hf__uses_shared_scripts(op)) return;
    add_spec(s, op);
    hf__command_number(&s->out, op->upgrades);
}

/* A reader that waits for its upgrade is still a reader. */
static bool must_be_alone(const hf__op *op) {
    if (op->kind == HF_MUTEX) return true;
    return op->upgrade ? op->ack.verb == HF__ACQUIRE : op->kind == HF_WRITE;
}

/* An exported hold has another id than the client's. */
static void add_touch(hf__session *s, const hf__op *op) {
    if (op->ack.verb == HF__EXPORT || op->ack.verb == HF__EXTEND_EXPORTED)
        add_exported(s, op);
    else
        add_id(s, op);
    hf__command_number(&s->out, must_be_alone(op));
}

/* The acquire has set the expiry of the fence. After a long hold, the release must set it again, to
   a day from now. */
static bool keeps_fence(const hf__op *op, hf__time now) {
    return op->tombstone_until || now - op->held_since > FENCE_FRESH;
}

static bool sends_token(const hf__op *op) {
    return op->retried || op->exact_token;
}

static bool plain_release(const hf__op *op, hf__time now) {
    return !keeps_fence(op, now) && !op->leave_queue && !op->next_acquire && !op->next_acquire_op &&
           !sends_token(op);
}

static void add_release(hf__session *s, const hf__op *op, hf__time now) {
    add_id(s, op);
    if (plain_release(op, now)) return;
    hf__command_number(&s->out, op->tombstone_until ? at_least_until(s, op->tombstone_until) : 0);
    hf__command_number(&s->out, keeps_fence(op, now) ? FENCE_KEPT_MS : 0);
    hf__command_number(&s->out, op->leave_queue);
    if (sends_token(op)) hf__command_number(&s->out, (int64_t)op->token);
    if (sends_token(op)) hf__command_number(&s->out, op->retried);
    if (op->next_acquire) add_next_acquire(s, op->next_acquire);
    if (op->next_acquire_op) add_acquire(s, op->next_acquire_op, now);
}

static void add_register(hf__session *s, const hf__op *op) {
    hf__command_number(&s->out, op->exported ? op->lease_ms : REGISTERED_MS);
    hf__command_string(&s->out, s->who->host);
    hf__command_number(&s->out, s->who->pid);
    hf__command_string(&s->out, s->who->program);
    hf__command_string(&s->out, s->who->label);
}

static int key_count(const hf__op *op) {
    if (op->next_in_multi) return 4 * multi_length(op);
    if (hf__is_transfer(op)) return 1;
    switch (op->verb) {
    case HF__ACQUIRE:
    case HF__RELEASE:
    case HF__BREAK: return 4;
    case HF__RENEW: return hf__uses_shared_scripts(op) && !op->single_key ? 4 : 1;
    case HF__RAISE_TOKEN:
    case HF__INSPECT: return 2;
    case HF__UPTIME:
    case HF__LIST: return 0;
    default: return hf__latch_leader_script(op->verb) ? HF__LATCH_LEADER_KEYS : 1;
    }
}

/* A script with several keys must not start in a slot that is being moved. The server checks its
   commands one by one, and a key that the script itself has deleted counts as moved, so the script
   would stop half way. So it declares one more key, which never exists. A node that migrates or
   imports the slot then answers TRYAGAIN before the script starts. Scripts that only read do not
   need this. */
static bool needs_settled_slot(const hf__session *s, const hf__op *op) {
    return s->url->in_cluster && key_count(op) > 1 && op->verb != HF__INSPECT;
}

static void add_key(hf__session *s, const hf__op *op, const char *suffix) {
    hf__command_key(&s->out, s->url->prefix, op->name, op->name_length, suffix);
}

static void add_four_keys(hf__session *s, const hf__op *op) {
    static const char *const suffixes[] = {"", ":f", ":q", ":i"};
    for (int i = 0; i < 4; i++) add_key(s, op, suffixes[i]);
}

bool hf__is_latch_or_leader(const hf__op *op) {
    return hf__latch_leader_script(op->verb) != NULL;
}

static void add_keys(hf__session *s, const hf__op *op) {
    if (op->next_in_multi)
        for (const hf__op *each = op; each; each = each->next_in_multi) add_four_keys(s, each);
    else if (hf__is_latch_or_leader(op))
        hf__latch_leader_keys(&s->out, s->url->prefix, op);
    else if (op->verb == HF__REGISTER)
        hf__encode_client_key(s, op->exported ? op->exported->client : s->who->client);
    else if (key_count(op) == 4)
        add_four_keys(s, op);
    else if (key_count(op) > 0)
        add_key(s, op, "");
    if (op->verb == HF__INSPECT) add_key(s, op, ":q");
    if (op->verb == HF__RAISE_TOKEN) add_key(s, op, ":f");
    if (needs_settled_slot(s, op)) add_key(s, op, ":absent");
}

static void add_script_arguments(hf__session *s, const hf__op *op, hf__time now) {
    if (op->next_in_multi) {
        add_multi(s, op, now);
        return;
    }
    if (hf__is_transfer(op)) {
        add_transfer(s, op);
        return;
    }
    if (hf__is_latch_or_leader(op))
        hf__latch_leader_encode(&s->out, s->who->client, op, not_after(s, op->not_after));
    if (op->verb == HF__REGISTER) add_register(s, op);
    if (op->verb == HF__LIST) hf__list_encode(&s->out, s->url->prefix, op->list_walk);
    if (op->verb == HF__ACQUIRE) add_acquire(s, op, now);
    if (op->verb == HF__RENEW) add_renew(s, op);
    if (op->verb == HF__RELEASE) add_release(s, op, now);
    if (op->verb == HF__TOUCH) add_touch(s, op);
    if (op->verb == HF__RAISE_TOKEN) {
        add_id(s, op);
        hf__command_number(&s->out, (int64_t)op->token);
    }
    if (op->verb == HF__BREAK) {
        hf__command_number(&s->out, (int64_t)op->token);
        hf__command_number(&s->out, not_after(s, op->not_after));
    }
}

static int acquire_arguments(const hf__op *op) {
    return 6 + hf__uses_shared_scripts(op) + op->enqueue;
}

static int release_arguments(const hf__op *op, hf__time now) {
    if (plain_release(op, now)) return 1;
    return 4 + (sends_token(op) ? 2 : 0) + (op->next_acquire ? 5 : 0) +
           (op->next_acquire_op ? acquire_arguments(op->next_acquire_op) : 0);
}

static int argument_count(const hf__op *op, hf__time now) {
    if (op->next_in_multi) return 5 + 2 * multi_length(op);
    if (hf__is_transfer(op)) return 6;
    switch (op->verb) {
    case HF__ACQUIRE: return acquire_arguments(op);
    case HF__RELEASE: return release_arguments(op, now);
    case HF__RENEW: return hf__uses_shared_scripts(op) ? 7 : 5;
    case HF__REGISTER: return 5;
    case HF__TOUCH:
    case HF__RAISE_TOKEN:
    case HF__BREAK: return 2;
    case HF__LIST: return HF__LIST_ARGUMENTS;
    default: return hf__is_latch_or_leader(op) ? hf__latch_leader_arguments(op) : 0;
    }
}

static void encode_script(hf__session *s, const hf__op *op, bool whole, hf__time now) {
    const hf__script *script = hf__script_of(s, op);
    int keys = key_count(op) + needs_settled_slot(s, op);
    hf__command_begin(&s->out, 3 + keys + argument_count(op, now));
    hf__command_string(&s->out, whole ? "EVAL" : "EVALSHA");
    if (whole)
        hf__command_bytes(&s->out, script->text, script->length);
    else
        hf__command_string(&s->out, script->sha1);
    hf__command_number(&s->out, keys);
    add_keys(s, op);
    add_script_arguments(s, op, now);
}

static void encode_client_info(hf__session *s, const hf__op *op) {
    hf__command_begin(&s->out, 6);
    hf__command_string(&s->out, "HMGET");
    hf__encode_client_key(s, op->lock_info->identity.client);
    hf__command_string(&s->out, "host");
    hf__command_string(&s->out, "pid");
    hf__command_string(&s->out, "program");
    hf__command_string(&s->out, "label");
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

void hf__encode(hf__session *s, const hf__op *op, bool whole, hf__time now) {
    if (op->asking) encode_asking(s);
    switch (op->verb) {
    case HF__CLUSTER_SLOTS: encode_slots(s); break;
    case HF__CLIENT_INFO: encode_client_info(s, op); break;
    /* Never by EVALSHA: after a NOSCRIPT the touch would be sent again, after the WAIT that must
       follow it. */
    case HF__TOUCH: encode_script(s, op, true, now); break;
    case HF__CONFIRM: encode_confirm(s, op); break;
    default: encode_script(s, op, whole, now); break;
    }
}
