/* Commands about sorted sets: items in the order of their scores, and of their bytes. */
#include <math.h>
#include <stdlib.h>

#include "model/command.h"

/* ---- Order ---- */

static int compare(const rm_item *item, double score, rm_bytes member) {
    if (item->score != score) return item->score < score ? -1 : 1;
    size_t common = item->text.length < member.length ? item->text.length : member.length;
    int by_bytes = common ? memcmp(item->text.at, member.at, common) : 0;
    if (by_bytes) return by_bytes;
    return item->text.length < member.length ? -1 : item->text.length > member.length;
}

static void put_member(rm_key *key, double score, rm_bytes member) {
    size_t at = 0;
    while (at < key->count && compare(&key->items[at], score, member) < 0) at++;
    rm_insert(key, at, member);
    key->items[at].score = score;
}

/* ---- ZADD ---- */

typedef struct add_options {
    bool if_none, if_some, if_greater, if_less, changed, increment;
} add_options;

static size_t add_parse(const rm_call *c, add_options *o) {
    *o = (add_options){0};
    size_t i = 2;
    for (; i < c->argc; i++) {
        rm_bytes word = c->argv[i];
        bool *flag = rm_is(word, "nx")     ? &o->if_none
                     : rm_is(word, "xx")   ? &o->if_some
                     : rm_is(word, "gt")   ? &o->if_greater
                     : rm_is(word, "lt")   ? &o->if_less
                     : rm_is(word, "ch")   ? &o->changed
                     : rm_is(word, "incr") ? &o->increment
                                           : NULL;
        if (!flag) break;
        *flag = true;
    }
    return i;
}

static const char *add_wrong(const rm_call *c, const add_options *o, size_t first) {
    size_t rest = c->argc - first;
    double score;
    if (!rest || rest % 2) return RM_SYNTAX;
    if (o->if_none && o->if_some)
        return "ERR XX and NX options at the same time are not compatible";
    if ((o->if_greater && o->if_less) || (o->if_none && (o->if_greater || o->if_less)))
        return "ERR GT, LT, and/or NX options at the same time are not compatible";
    if (o->increment && rest > 2) return "ERR INCR option supports a single increment-element pair";
    for (size_t i = first; i < c->argc; i += 2)
        if (!rm_float(c->argv[i], &score)) return RM_NOT_FLOAT;
    return NULL;
}

typedef enum added { UNTOUCHED, NEW, UPDATED, NOT_A_NUMBER } added;

static added add_one(rm_key *key, const add_options *o, double *score, rm_bytes member) {
    int64_t at = rm_index(key, member);
    if (at < 0) {
        if (o->if_some) return UNTOUCHED;
        put_member(key, *score, member);
        return NEW;
    }
    double old = key->items[at].score;
    if (o->if_none) return UNTOUCHED;
    if (o->increment) *score += old;
    if (isnan(*score)) return NOT_A_NUMBER;
    if ((o->if_greater && *score <= old) || (o->if_less && *score >= old) || *score == old)
        return *score == old && !o->if_greater && !o->if_less ? UPDATED : UNTOUCHED;
    rm_erase(key, (size_t)at);
    put_member(key, *score, member);
    return UPDATED;
}

static void c_zadd(rm_call *c) {
    bool wrong;
    add_options o;
    size_t first = add_parse(c, &o);
    const char *error = add_wrong(c, &o, first);
    if (error) {
        rm_error(c->out, "%s", error);
        return;
    }
    rm_key *key = rm_lookup_or_make(c, 1, RM_ZSET, &wrong);
    if (wrong) return;
    int64_t is_new = 0, changed = 0;
    added last = UNTOUCHED;
    double score = 0;
    for (size_t i = first; i < c->argc; i += 2) {
        int64_t at = rm_index(key, c->argv[i + 1]);
        double old = at < 0 ? 0 : key->items[at].score;
        rm_float(c->argv[i], &score);
        last = add_one(key, &o, &score, c->argv[i + 1]);
        is_new += last == NEW;
        changed += last == NEW || (last == UPDATED && score != old);
    }
    if (last == NOT_A_NUMBER)
        rm_error(c->out, "ERR resulting score is not a number (NaN)");
    else if (o.increment && last == UNTOUCHED)
        rm_null(c->out);
    else if (o.increment)
        rm_double(c->out, score);
    else
        rm_number(c->out, o.changed ? changed : is_new);
    rm_settle_empty(c, key);
}

/* ---- Small ones ---- */

static void c_zrem(rm_call *c) {
    bool wrong;
    rm_key *key = rm_lookup_as(c, 1, RM_ZSET, &wrong);
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

static void c_zcard(rm_call *c) {
    bool wrong;
    const rm_key *key = rm_lookup_as(c, 1, RM_ZSET, &wrong);
    if (!wrong) rm_number(c->out, key ? (int64_t)key->count : 0);
}

static void c_zscore(rm_call *c) {
    bool wrong;
    const rm_key *key = rm_lookup_as(c, 1, RM_ZSET, &wrong);
    if (wrong) return;
    int64_t at = rm_index(key, c->argv[2]);
    if (at < 0)
        rm_null(c->out);
    else
        rm_double(c->out, key->items[at].score);
}

static void c_zrank(rm_call *c) {
    bool wrong;
    const rm_key *key = rm_lookup_as(c, 1, RM_ZSET, &wrong);
    if (wrong) return;
    int64_t at = rm_index(key, c->argv[2]);
    if (at < 0)
        rm_null(c->out);
    else
        rm_number(c->out, at);
}

/* ---- Ranges ---- */

typedef struct range {
    bool by_score, reversed, scores, limited;
    int64_t offset, count; /* of the limit; count negative: all */
    int64_t start, stop;
    double min, max;
    bool min_open, max_open;
} range;

/* Less strict than a score: nothing at all is 0. */
static bool bound(rm_bytes b, double *value, bool *open) {
    *open = b.length && b.at[0] == '(';
    char *end;
    *value = strtod(b.at + *open, &end);
    return !*end && !isnan(*value);
}

static bool range_options(rm_call *c, range *r, bool any) {
    for (size_t i = 4; i < c->argc; i++) {
        rm_bytes word = c->argv[i];
        if (rm_is(word, "withscores")) {
            r->scores = true;
        } else if (rm_is(word, "limit") && i + 2 < c->argc) {
            r->limited = true;
            if (!rm_arg_integer(c, i + 1, &r->offset) || !rm_arg_integer(c, i + 2, &r->count))
                return false;
            i += 2;
        } else if (any && rm_is(word, "rev")) {
            r->reversed = true;
        } else if (any && rm_is(word, "byscore")) {
            r->by_score = true;
        } else {
            rm_error(c->out, RM_SYNTAX);
            return false;
        }
    }
    if (r->by_score) return true;
    r->limited &= r->count != -1; /* which says nothing, and is let pass */
    if (!r->limited) return true;
    rm_error(c->out, "ERR syntax error, LIMIT is only supported in combination with either "
                     "BYSCORE or BYLEX");
    return false;
}

/* In a reversed range the greater bound is said first. */
static bool range_bounds(rm_call *c, range *r) {
    size_t low = r->reversed ? 3 : 2, high = r->reversed ? 2 : 3;
    if (!r->by_score) return rm_arg_integer(c, 2, &r->start) && rm_arg_integer(c, 3, &r->stop);
    if (bound(c->argv[low], &r->min, &r->min_open) && bound(c->argv[high], &r->max, &r->max_open))
        return true;
    rm_error(c->out, "ERR min or max is not a float");
    return false;
}

static bool between(const range *r, double score) {
    return (r->min_open ? score > r->min : score >= r->min) &&
           (r->max_open ? score < r->max : score <= r->max);
}

/* Items of the range: the first and how many. Those of a score lie together. */
static size_t select_by_score(const rm_key *key, const range *r, size_t *first) {
    size_t count = 0;
    for (size_t i = 0; i < key->count; i++) {
        if (!between(r, key->items[i].score)) continue;
        if (!count++) *first = i;
    }
    return count;
}

static size_t select_by_place(const rm_key *key, range *r, size_t *first) {
    if (!rm_clip(&r->start, &r->stop, key->count)) return 0;
    size_t count = (size_t)(r->stop - r->start + 1);
    *first = r->reversed ? key->count - 1 - (size_t)r->stop : (size_t)r->start;
    return count;
}

static void limit(const range *r, size_t *skip, size_t *count) {
    *skip = 0;
    if (!r->limited) return;
    if (r->offset < 0 || r->offset >= (int64_t)*count) {
        *count = 0;
        return;
    }
    *skip = (size_t)r->offset;
    *count -= *skip;
    if (r->count >= 0 && r->count < (int64_t)*count) *count = (size_t)r->count;
}

static void answer_range(rm_call *c, const rm_key *key, range *r) {
    size_t first = 0, skip, all = 0;
    if (key) all = r->by_score ? select_by_score(key, r, &first) : select_by_place(key, r, &first);
    size_t count = all;
    limit(r, &skip, &count);
    rm_array(c->out, r->scores ? 2 * count : count);
    for (size_t n = skip; n < skip + count; n++) {
        const rm_item *item = &key->items[r->reversed ? first + all - 1 - n : first + n];
        rm_bulk(c->out, item->text);
        if (r->scores) rm_double(c->out, item->score);
    }
}

static void ranged(rm_call *c, range *r, bool any) {
    bool wrong;
    if (!range_options(c, r, any) || !range_bounds(c, r)) return;
    const rm_key *key = rm_lookup_as(c, 1, RM_ZSET, &wrong);
    if (!wrong) answer_range(c, key, r);
}

static void c_zrange(rm_call *c) {
    range r = {0};
    ranged(c, &r, true);
}

static void c_zrangebyscore(rm_call *c) {
    range r = {.by_score = true};
    ranged(c, &r, false);
}

static void c_zremrangebyscore(rm_call *c) {
    bool wrong;
    range r = {.by_score = true};
    size_t first = 0;
    if (!range_bounds(c, &r)) return;
    rm_key *key = rm_lookup_as(c, 1, RM_ZSET, &wrong);
    if (wrong) return;
    size_t count = key ? select_by_score(key, &r, &first) : 0;
    for (size_t n = 0; n < count; n++) rm_erase(key, first);
    rm_number(c->out, (int64_t)count);
    if (key) rm_settle_empty(c, key);
}

const rm_command rm_commands_zset[] = {
    {"zadd", -4, RM_WRITES | RM_DENY_OOM, c_zadd},
    {"zrem", -3, RM_WRITES, c_zrem},
    {"zrange", -4, 0, c_zrange},
    {"zrangebyscore", -4, 0, c_zrangebyscore},
    {"zremrangebyscore", 4, RM_WRITES, c_zremrangebyscore},
    {"zscore", 3, 0, c_zscore},
    {"zcard", 2, 0, c_zcard},
    {"zrank", 3, 0, c_zrank},
    {0},
};
