/* SPDX-License-Identifier: Apache-2.0 */
/* Commands on keys of any type, and on strings. */
#include "model/command.h"

/* ---- Any type ---- */

static void c_del(rm_call *c) {
    int64_t count = 0;
    for (size_t i = 1; i < c->argc; i++) {
        rm_key *key = rm_lookup(c, i);
        if (!key) continue;
        rm_keys_remove(rm_db(c), key);
        count++;
    }
    rm_number(c->out, count);
}

static void c_exists(rm_call *c) {
    int64_t count = 0;
    for (size_t i = 1; i < c->argc; i++) count += rm_lookup(c, i) != NULL;
    rm_number(c->out, count);
}

static void c_type(rm_call *c) {
    static const char *const names[] = {
        [RM_STRING] = "string", [RM_LIST] = "list", [RM_HASH] = "hash"};
    const rm_key *key = rm_lookup(c, 1);
    rm_status(c->out, key ? names[key->type] : "none");
}

static void answer_left(rm_call *c, int64_t unit) {
    const rm_key *key = rm_lookup(c, 1);
    if (!key || key->expires_ms == RM_FOREVER) {
        rm_number(c->out, key ? -1 : -2);
        return;
    }
    int64_t left = key->expires_ms - rm_now_ms(c->server);
    if (left < 0) left = 0;
    rm_number(c->out, (left + unit / 2) / unit);
}

static void c_pttl(rm_call *c) {
    answer_left(c, 1);
}

static void c_ttl(rm_call *c) {
    answer_left(c, 1000);
}

static void c_persist(rm_call *c) {
    rm_key *key = rm_lookup(c, 1);
    bool had = key && key->expires_ms != RM_FOREVER;
    if (had) key->expires_ms = RM_FOREVER;
    rm_number(c->out, had);
}

enum { IF_NONE = 1, IF_SOME = 2, IF_LATER = 4, IF_SOONER = 8 };

static bool expire_conditions(rm_call *c, unsigned *flags) {
    *flags = 0;
    for (size_t i = 3; i < c->argc; i++) {
        unsigned flag = rm_is(c->argv[i], "nx")   ? IF_NONE
                        : rm_is(c->argv[i], "xx") ? IF_SOME
                        : rm_is(c->argv[i], "gt") ? IF_LATER
                        : rm_is(c->argv[i], "lt") ? IF_SOONER
                                                  : 0;
        if (!flag) {
            rm_error(c->out, "ERR Unsupported option %s", c->argv[i].at);
            return false;
        }
        *flags |= flag;
    }
    if ((*flags & IF_NONE) && (*flags & ~(unsigned)IF_NONE))
        rm_error(c->out, "ERR NX and XX, GT or LT options at the same time are not compatible");
    else if ((*flags & IF_LATER) && (*flags & IF_SOONER))
        rm_error(c->out, "ERR GT and LT options at the same time are not compatible");
    else
        return true;
    return false;
}

/* A key that never expires counts as later than any time. */
static bool expire_wanted(const rm_key *key, int64_t when, unsigned flags) {
    bool ends = key->expires_ms != RM_FOREVER;
    if ((flags & IF_NONE) && ends) return false;
    if ((flags & IF_SOME) && !ends) return false;
    if ((flags & IF_LATER) && (!ends || when <= key->expires_ms)) return false;
    return !((flags & IF_SOONER) && ends && when >= key->expires_ms);
}

static void set_expire(rm_call *c, int64_t base, int64_t unit) {
    int64_t span, when;
    unsigned flags;
    if (!expire_conditions(c, &flags) || !rm_arg_integer(c, 2, &span)) return;
    if (__builtin_mul_overflow(span, unit, &span) || (__builtin_add_overflow(span, base, &when))) {
        rm_error(c->out, "ERR invalid expire time in '%s' command", c->name);
        return;
    }
    rm_key *key = rm_lookup(c, 1);
    if (!key || !expire_wanted(key, when, flags)) {
        rm_number(c->out, 0);
        return;
    }
    if (when <= rm_now_ms(c->server))
        rm_keys_remove(rm_db(c), key);
    else
        key->expires_ms = when;
    rm_number(c->out, 1);
}

static void c_pexpire(rm_call *c) {
    set_expire(c, rm_now_ms(c->server), 1);
}

static void c_expire(rm_call *c) {
    set_expire(c, rm_now_ms(c->server), 1000);
}

static void c_pexpireat(rm_call *c) {
    set_expire(c, 0, 1);
}

/* ---- Strings ---- */

static void answer_string(rm_call *c, const rm_key *key) {
    if (!key)
        rm_null(c->out);
    else
        rm_bulk(c->out, key->items[0].text);
}

static void c_get(rm_call *c) {
    bool wrong;
    const rm_key *key = rm_lookup_as(c, 1, RM_STRING, &wrong);
    if (!wrong) answer_string(c, key);
}

typedef struct set_options {
    bool if_none, if_some, get, keep;
    char unit; /* unit of `expire`: 0 none, 'e' seconds, 'p' milliseconds */
    bool at;   /* `expire` is a point in time, not a duration */
    int64_t expire;
} set_options;

static bool set_expiry_option(rm_call *c, size_t *i, set_options *o, rm_bytes *span) {
    rm_bytes word = c->argv[*i];
    bool at = rm_is(word, "exat") || rm_is(word, "pxat");
    if (!at && !rm_is(word, "ex") && !rm_is(word, "px")) return false;
    if (o->unit || o->keep || *i + 1 >= c->argc) return false;
    o->unit = word.at[0] == 'e' || word.at[0] == 'E' ? 'e' : 'p';
    o->at = at;
    *span = c->argv[++*i];
    return true;
}

static bool set_parse(rm_call *c, set_options *o, rm_bytes *span) {
    *o = (set_options){0};
    for (size_t i = 3; i < c->argc; i++) {
        rm_bytes word = c->argv[i];
        if (rm_is(word, "nx") && !o->if_some)
            o->if_none = true;
        else if (rm_is(word, "xx") && !o->if_none)
            o->if_some = true;
        else if (rm_is(word, "get"))
            o->get = true;
        else if (rm_is(word, "keepttl") && !o->unit)
            o->keep = true;
        else if (!set_expiry_option(c, &i, o, span)) {
            rm_error(c->out, RM_SYNTAX);
            return false;
        }
    }
    return true;
}

/* Sets `when` to the time of expiry on the server's clock. */
static bool set_expiry(rm_call *c, const set_options *o, rm_bytes span, int64_t *when) {
    *when = RM_FOREVER;
    if (!o->unit) return true;
    if (!rm_integer(span, when)) {
        rm_error(c->out, RM_NOT_INTEGER);
        return false;
    }
    bool bad = *when <= 0;
    if (o->unit == 'e') bad |= __builtin_mul_overflow(*when, 1000, when);
    if (!o->at) bad |= __builtin_add_overflow(*when, rm_now_ms(c->server), when);
    if (bad) rm_error(c->out, "ERR invalid expire time in 'set' command");
    return !bad;
}

static void put_string(rm_call *c, rm_key *key, bool keep, int64_t when) {
    int64_t kept = key && keep ? key->expires_ms : when;
    if (key && key->type == RM_STRING) {
        rm_set_text(key, 0, c->argv[2]);
    } else {
        if (key) rm_keys_remove(rm_db(c), key);
        key = rm_keys_make(rm_db(c), c->argv[1], RM_STRING);
        rm_insert(key, 0, c->argv[2]);
    }
    key->expires_ms = kept;
}

static void c_set(rm_call *c) {
    set_options o;
    rm_bytes span = {0};
    int64_t when;
    bool wrong = false;
    if (!set_parse(c, &o, &span) || !set_expiry(c, &o, span, &when)) return;
    rm_key *key = o.get ? rm_lookup_as(c, 1, RM_STRING, &wrong) : rm_lookup(c, 1);
    if (wrong) return;
    bool refused = (o.if_none && key) || (o.if_some && !key);
    if (o.get)
        answer_string(c, key);
    else if (refused)
        rm_null(c->out);
    else
        rm_status(c->out, "OK");
    if (!refused) put_string(c, key, o.keep, when);
}

const rm_command rm_commands_keys[] = {
    {"get", 2, 0, c_get},
    {"set", -3, RM_WRITES | RM_DENY_OOM, c_set},
    {"del", -2, RM_WRITES, c_del},
    {"unlink", -2, RM_WRITES, c_del},
    {"pttl", 2, 0, c_pttl},
    {"pexpire", -3, RM_WRITES, c_pexpire},
    {"exists", -2, 0, c_exists},
    {"type", 2, 0, c_type},
    {"ttl", 2, 0, c_ttl},
    {"expire", -3, RM_WRITES, c_expire},
    {"pexpireat", -3, RM_WRITES, c_pexpireat},
    {"persist", 2, RM_WRITES, c_persist},
    {0},
};
