/* SPDX-License-Identifier: Apache-2.0 */
/* Commands on hashes. */
#include "base/text.h"
#include "model/command.h"

static void answer_field(rm_call *c, const rm_key *key, rm_bytes field) {
    int64_t at = rm_index(key, field);
    if (at < 0)
        rm_null(c->out);
    else
        rm_bulk(c->out, key->items[at].value);
}

static void c_hget(rm_call *c) {
    bool wrong;
    const rm_key *key = rm_lookup_as(c, 1, RM_HASH, &wrong);
    if (!wrong) answer_field(c, key, c->argv[2]);
}

static void c_hmget(rm_call *c) {
    bool wrong;
    const rm_key *key = rm_lookup_as(c, 1, RM_HASH, &wrong);
    if (wrong) return;
    rm_array(c->out, c->argc - 2);
    for (size_t i = 2; i < c->argc; i++) answer_field(c, key, c->argv[i]);
}

static void c_hexists(rm_call *c) {
    bool wrong;
    const rm_key *key = rm_lookup_as(c, 1, RM_HASH, &wrong);
    if (!wrong) rm_number(c->out, rm_index(key, c->argv[2]) >= 0);
}

static void c_hlen(rm_call *c) {
    bool wrong;
    const rm_key *key = rm_lookup_as(c, 1, RM_HASH, &wrong);
    if (!wrong) rm_number(c->out, key ? (int64_t)key->count : 0);
}

static void c_hgetall(rm_call *c) {
    bool wrong;
    const rm_key *key = rm_lookup_as(c, 1, RM_HASH, &wrong);
    if (wrong) return;
    size_t count = key ? key->count : 0;
    rm_array(c->out, 2 * count);
    for (size_t i = 0; i < count; i++) {
        rm_bulk(c->out, key->items[i].text);
        rm_bulk(c->out, key->items[i].value);
    }
}

/* Returns true if the field is new. */
static bool put_field(rm_key *key, rm_bytes field, rm_bytes value) {
    int64_t at = rm_index(key, field);
    bool is_new = at < 0;
    if (is_new) {
        at = (int64_t)key->count;
        rm_insert(key, key->count, field);
    }
    rm_set_value(key, (size_t)at, value);
    return is_new;
}

static void c_hset(rm_call *c) {
    bool wrong;
    if (c->argc % 2) {
        rm_error(c->out, "ERR wrong number of arguments for '%s' command", c->name);
        return;
    }
    rm_key *key = rm_lookup_or_make(c, 1, RM_HASH, &wrong);
    if (wrong) return;
    int64_t added = 0;
    for (size_t i = 2; i < c->argc; i += 2) added += put_field(key, c->argv[i], c->argv[i + 1]);
    rm_number(c->out, added);
}

static void c_hsetnx(rm_call *c) {
    bool wrong;
    rm_key *key = rm_lookup_or_make(c, 1, RM_HASH, &wrong);
    if (wrong) return;
    bool is_new = rm_index(key, c->argv[2]) < 0;
    if (is_new) put_field(key, c->argv[2], c->argv[3]);
    rm_number(c->out, is_new);
}

static void c_hdel(rm_call *c) {
    bool wrong;
    rm_key *key = rm_lookup_as(c, 1, RM_HASH, &wrong);
    if (wrong) return;
    int64_t gone = 0;
    for (size_t i = 2; key && i < c->argc; i++) {
        int64_t at = rm_index(key, c->argv[i]);
        if (at < 0) continue;
        rm_erase(key, (size_t)at);
        gone++;
    }
    rm_number(c->out, gone);
    if (key) rm_settle_empty(c, key);
}

static rm_bytes digits_of(char text[HF__DIGITS + 1], int64_t n) {
    char *end = text + HF__DIGITS + 1;
    char *at = hf__digits(end, n < 0 ? 0 - (uint64_t)n : (uint64_t)n);
    if (n < 0) *--at = '-';
    return (rm_bytes){at, (size_t)(end - at)};
}

static void c_hincrby(rm_call *c) {
    bool wrong;
    int64_t by, value = 0;
    char text[HF__DIGITS + 1];
    if (!rm_arg_integer(c, 3, &by)) return;
    rm_key *key = rm_lookup_or_make(c, 1, RM_HASH, &wrong);
    if (wrong) return;
    int64_t at = rm_index(key, c->argv[2]);
    if (at >= 0 && !rm_integer(key->items[at].value, &value)) {
        rm_error(c->out, "ERR hash value is not an integer");
    } else if (__builtin_add_overflow(value, by, &value)) {
        rm_error(c->out, "ERR increment or decrement would overflow");
    } else {
        put_field(key, c->argv[2], digits_of(text, value));
        rm_number(c->out, value);
    }
}

const rm_command rm_commands_hash[] = {
    {"hget", 3, 0, c_hget},
    {"hset", -4, RM_WRITES | RM_DENY_OOM, c_hset},
    {"hmget", -3, 0, c_hmget},
    {"hgetall", 2, 0, c_hgetall},
    {"hdel", -3, RM_WRITES, c_hdel},
    {"hincrby", 4, RM_WRITES | RM_DENY_OOM, c_hincrby},
    {"hexists", 3, 0, c_hexists},
    {"hlen", 2, 0, c_hlen},
    {"hsetnx", 4, RM_WRITES | RM_DENY_OOM, c_hsetnx},
    {0},
};
