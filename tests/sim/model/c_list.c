/* SPDX-License-Identifier: Apache-2.0 */
/* Commands on lists. */
#include "model/command.h"

static void push_items(rm_call *c, bool left) {
    bool wrong;
    rm_key *key = rm_lookup_or_make(c, 1, RM_LIST, &wrong);
    if (wrong) return;
    for (size_t i = 2; i < c->argc; i++) rm_insert(key, left ? 0 : key->count, c->argv[i]);
    rm_number(c->out, (int64_t)key->count);
}

static void c_lpush(rm_call *c) {
    push_items(c, true);
}

static void c_rpush(rm_call *c) {
    push_items(c, false);
}

static void pop_one(rm_call *c, rm_key *key, bool left) {
    size_t at = left ? 0 : key->count - 1;
    rm_bulk(c->out, key->items[at].text);
    rm_erase(key, at);
}

static void pop_items(rm_call *c, bool left) {
    int64_t count = 1;
    bool counted = c->argc > 2, wrong;
    if (c->argc > 3) {
        rm_error(c->out, "ERR wrong number of arguments for '%s' command", c->name);
        return;
    }
    if (counted && (!rm_integer(c->argv[2], &count) || count < 0)) {
        rm_error(c->out, RM_OUT_OF_RANGE);
        return;
    }
    rm_key *key = rm_lookup_as(c, 1, RM_LIST, &wrong);
    if (wrong) return;
    if (!key) {
        if (counted)
            rm_null_array(c->out);
        else
            rm_null(c->out);
        return;
    }
    if (count > (int64_t)key->count) count = (int64_t)key->count;
    if (counted) rm_array(c->out, (size_t)count);
    while (count--) pop_one(c, key, left);
    rm_settle_empty(c, key);
}

static void c_lpop(rm_call *c) {
    pop_items(c, true);
}

static void c_rpop(rm_call *c) {
    pop_items(c, false);
}

static void c_llen(rm_call *c) {
    bool wrong;
    const rm_key *key = rm_lookup_as(c, 1, RM_LIST, &wrong);
    if (!wrong) rm_number(c->out, key ? (int64_t)key->count : 0);
}

static void c_lindex(rm_call *c) {
    bool wrong;
    int64_t at;
    const rm_key *key = rm_lookup_as(c, 1, RM_LIST, &wrong);
    if (wrong) return;
    if (!key) {
        rm_null(c->out);
        return;
    }
    if (!rm_arg_integer(c, 2, &at)) return;
    if (at < 0) at += (int64_t)key->count;
    if (at < 0 || at >= (int64_t)key->count)
        rm_null(c->out);
    else
        rm_bulk(c->out, key->items[at].text);
}

static void c_lset(rm_call *c) {
    bool wrong;
    int64_t at;
    rm_key *key = rm_lookup_as(c, 1, RM_LIST, &wrong);
    if (wrong) return;
    if (!key) {
        rm_error(c->out, "ERR no such key");
        return;
    }
    if (!rm_arg_integer(c, 2, &at)) return;
    if (at < 0) at += (int64_t)key->count;
    if (at < 0 || at >= (int64_t)key->count) {
        rm_error(c->out, "ERR index out of range");
        return;
    }
    rm_erase(key, (size_t)at);
    rm_insert(key, (size_t)at, c->argv[3]);
    rm_status(c->out, "OK");
}

static void c_lrange(rm_call *c) {
    bool wrong;
    int64_t start, stop;
    if (!rm_arg_integer(c, 2, &start) || !rm_arg_integer(c, 3, &stop)) return;
    const rm_key *key = rm_lookup_as(c, 1, RM_LIST, &wrong);
    if (wrong) return;
    if (!key || !rm_clip(&start, &stop, key->count)) {
        rm_array(c->out, 0);
        return;
    }
    rm_array(c->out, (size_t)(stop - start + 1));
    for (int64_t i = start; i <= stop; i++) rm_bulk(c->out, key->items[i].text);
}

static void c_lrem(rm_call *c) {
    bool wrong;
    int64_t wanted, gone = 0;
    if (!rm_arg_integer(c, 2, &wanted)) return;
    rm_key *key = rm_lookup_as(c, 1, RM_LIST, &wrong);
    if (wrong) return;
    int64_t most = wanted == 0 || wanted == INT64_MIN ? INT64_MAX : wanted < 0 ? -wanted : wanted;
    size_t length = key ? key->count : 0;
    for (size_t n = 0, at = 0; n < length && gone < most; n++) {
        size_t i = wanted < 0 ? length - 1 - n : at;
        bool same = rm_same(key->items[i].text, c->argv[3]);
        if (same) rm_erase(key, i);
        gone += same;
        at += !same;
    }
    rm_number(c->out, gone);
    if (key) rm_settle_empty(c, key);
}

static void c_linsert(rm_call *c) {
    bool wrong, after = rm_is(c->argv[2], "after");
    if (!after && !rm_is(c->argv[2], "before")) {
        rm_error(c->out, RM_SYNTAX);
        return;
    }
    rm_key *key = rm_lookup_as(c, 1, RM_LIST, &wrong);
    if (wrong) return;
    int64_t at = rm_index(key, c->argv[3]);
    if (at >= 0) rm_insert(key, (size_t)at + after, c->argv[4]);
    rm_number(c->out, !key ? 0 : at < 0 ? -1 : (int64_t)key->count);
}

/* ---- LPOS ---- */

typedef struct position {
    int64_t rank, count, most; /* count -1: answer one position, not a list */
} position;

static bool position_option(rm_call *c, size_t i, position *p) {
    rm_bytes word = c->argv[i];
    bool more = i + 1 < c->argc;
    if (rm_is(word, "rank") && more) {
        if (!rm_arg_integer(c, i + 1, &p->rank)) return false;
        if (p->rank) return true;
        rm_error(c->out, "ERR RANK can't be zero: use 1 to start from the first match, 2 from the "
                         "second ... or use negative to start from the end of the list");
    } else if (rm_is(word, "count") && more) {
        if (rm_integer(c->argv[i + 1], &p->count) && p->count >= 0) return true;
        rm_error(c->out, "ERR COUNT can't be negative");
    } else if (rm_is(word, "maxlen") && more) {
        if (rm_integer(c->argv[i + 1], &p->most) && p->most >= 0) return true;
        rm_error(c->out, "ERR MAXLEN can't be negative");
    } else {
        rm_error(c->out, RM_SYNTAX);
    }
    return false;
}

/* Finds matches from one end and skips the first `rank - 1`. Stores at most `most_found`
   positions. */
static size_t find_matches(const rm_key *key, rm_bytes text, const position *p, int64_t *found,
                           size_t most_found) {
    int64_t skip = p->rank == INT64_MIN ? 0 : (p->rank < 0 ? -p->rank : p->rank) - 1;
    size_t length = key->count, count = 0;
    size_t looks = p->most && p->most < (int64_t)length ? (size_t)p->most : length;
    for (size_t n = 0; n < looks && count < most_found; n++) {
        size_t i = p->rank < 0 ? length - 1 - n : n;
        if (!rm_same(key->items[i].text, text) || skip-- > 0) continue;
        found[count++] = (int64_t)i;
    }
    return count;
}

static void c_lpos(rm_call *c) {
    bool wrong;
    position p = {.rank = 1, .count = -1};
    int64_t found[RM_ARGS_MAX];
    for (size_t i = 3; i < c->argc; i += 2)
        if (!position_option(c, i, &p)) return;
    const rm_key *key = rm_lookup_as(c, 1, RM_LIST, &wrong);
    if (wrong) return;
    size_t most = p.count < 0 ? 1 : p.count ? (size_t)p.count : RM_ARGS_MAX;
    if (most > RM_ARGS_MAX) most = RM_ARGS_MAX;
    size_t count = key ? find_matches(key, c->argv[2], &p, found, most) : 0;
    if (p.count >= 0)
        rm_array(c->out, count);
    else if (!count)
        rm_null(c->out);
    for (size_t i = 0; i < count; i++) rm_number(c->out, found[i]);
}

const rm_command rm_commands_list[] = {
    {"lpush", -3, RM_WRITES | RM_DENY_OOM, c_lpush},
    {"rpush", -3, RM_WRITES | RM_DENY_OOM, c_rpush},
    {"lpop", -2, RM_WRITES, c_lpop},
    {"rpop", -2, RM_WRITES, c_rpop},
    {"llen", 2, 0, c_llen},
    {"lindex", 3, 0, c_lindex},
    {"lrange", 4, 0, c_lrange},
    {"lrem", 4, RM_WRITES, c_lrem},
    {"lset", 4, RM_WRITES | RM_DENY_OOM, c_lset},
    {"linsert", 5, RM_WRITES | RM_DENY_OOM, c_linsert},
    {"lpos", -3, 0, c_lpos},
    {0},
};
