/* SPDX-License-Identifier: Apache-2.0 */
#include "store/redis/protocol/reply.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

/* ---- Callbacks of hiredis while it parses; NULL ends the parsing with an error ---- */

/* The buffer for text, some kilobytes, is not cleared. */
static void begin_reply(hf__reply *r, int type, size_t count) {
    r->type = type;
    r->count = count;
    r->used = 0;
}

/* Part of an array inside the array. */
static bool is_skipped(const redisReadTask *task) {
    const hf__reply *r = task->privdata;
    return r->nested && task->parent && task->parent->parent;
}

static hf__value *find_value_slot(const redisReadTask *task, int type) {
    hf__reply *r = task->privdata;
    if (!task->parent) {
        begin_reply(r, type, 1);
        return &r->item[0];
    }
    /* An element of a nested array has a parent with a parent. */
    if (task->parent->parent || (size_t)task->idx >= r->count) return NULL;
    return &r->item[task->idx];
}

/* CLUSTER SLOTS returns an array of ranges, [first, last, [host, port, …] of the primary,
   replicas…]. Further elements are skipped. */
static void put_slots(const redisReadTask *task, const hf__value *value) {
    hf__cluster_slots *s = ((hf__reply *)task->privdata)->slots;
    const redisReadTask *range = task->parent->parent;
    if (!range) {
        hf__cluster_slots_range(s);
    } else if (!range->parent) {
        if (value->type == REDIS_REPLY_INTEGER)
            hf__cluster_slots_number(s, task->idx, value->integer);
    } else if (!range->parent->parent && task->parent->idx == 2) {
        if (task->idx == 0)
            hf__cluster_slots_host(s, value->text ? value->text : "", value->length);
        if (task->idx == 1) hf__cluster_slots_port(s, value->integer);
    }
}

static bool is_in_slots(const redisReadTask *task) {
    return task->parent && ((const hf__reply *)task->privdata)->slots;
}

static void *put_value(const redisReadTask *task, hf__value value) {
    if (is_in_slots(task)) {
        put_slots(task, &value);
        return task->privdata;
    }
    if (is_skipped(task)) return task->privdata;
    hf__value *to = find_value_slot(task, value.type);
    if (!to) return NULL;
    *to = value;
    return task->privdata;
}

static void *make_string(const redisReadTask *task, char *text, size_t length) {
    hf__reply *r = task->privdata;
    if (is_in_slots(task))
        return put_value(task, (hf__value){.type = task->type, .text = text, .length = length});
    if (is_skipped(task)) return r;
    hf__value *to = find_value_slot(task, task->type);
    if (!to || length >= HF__REPLY_TEXT - r->used) return NULL;
    char *copy = r->text + r->used;
    memcpy(copy, text, length);
    copy[length] = '\0';
    r->used += length + 1;
    *to = (hf__value){.type = task->type, .text = copy, .length = length};
    return r;
}

#if HIREDIS_MAJOR >= 1
static void *make_array(const redisReadTask *task, size_t elements) {
#else
static void *make_array(const redisReadTask *task, int elements) {
#endif
    hf__reply *r = task->privdata;
    if (r->slots && !task->parent) {
        begin_reply(r, REDIS_REPLY_ARRAY, 0);
        return r;
    }
    if (task->parent && (r->nested || r->slots))
        return put_value(task, (hf__value){.type = REDIS_REPLY_ARRAY});
    if (task->parent || elements > HF__REPLY_ITEMS) return NULL;
    begin_reply(r, REDIS_REPLY_ARRAY, (size_t)elements);
    return r;
}

static void *make_integer(const redisReadTask *task, long long integer) {
    return put_value(task, (hf__value){.type = REDIS_REPLY_INTEGER, .integer = integer});
}

static void *make_nil(const redisReadTask *task) {
    return put_value(task, (hf__value){.type = REDIS_REPLY_NIL});
}

static void free_nothing(void *object) {
    (void)object;
}

static redisReplyObjectFunctions functions = {
    .createString = make_string,
    .createArray = make_array,
    .createInteger = make_integer,
    .createNil = make_nil,
    .freeObject = free_nothing,
};

/* ---- The parser ---- */

bool hf__parser_init(hf__parser *p) {
    p->reader = redisReaderCreateWithFunctions(&functions);
    if (!p->reader) return false;
    p->reader->privdata = &p->reply;
    return true;
}

void hf__parser_fini(hf__parser *p) {
    if (p->reader) redisReaderFree(p->reader);
    p->reader = NULL;
}

hf_result hf__parser_feed(hf__parser *p, const char *bytes, size_t length) {
    if (p->reader->len - p->reader->pos > HF__REPLY_UNREAD) return HF_PROTOCOL;
    return redisReaderFeed(p->reader, bytes, length) == REDIS_OK ? HF_OK : HF_NOMEM;
}

hf__parsed hf__parser_next(hf__parser *p) {
    void *reply = NULL;
    if (redisReaderGetReply(p->reader, &reply) != REDIS_OK) return HF__PARSE_BAD;
    return reply ? HF__PARSED : HF__PARSE_MORE;
}

bool hf__reply_number(const hf__reply *r, size_t i, int64_t *number) {
    if (i >= r->count) return false;
    const hf__value *v = &r->item[i];
    *number = v->integer;
    if (v->type == REDIS_REPLY_INTEGER) return true;
    if (v->type != REDIS_REPLY_STRING || !v->length) return false;
    char *end;
    errno = 0;
    *number = strtoll(v->text, &end, 10);
    return !errno && end == v->text + v->length;
}

const char *hf__reply_text(const hf__reply *r, size_t i) {
    return i < r->count && r->item[i].type == REDIS_REPLY_STRING ? r->item[i].text : NULL;
}
