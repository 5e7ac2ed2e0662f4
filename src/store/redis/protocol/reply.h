/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server's reply, in memory of a fixed size. hiredis parses; its objects are created here, so
 * that a server can never make us allocate. Replies to our commands are a value or a flat array of
 * values. Anything larger or deeper is an error, except for ROLE and CLUSTER SLOTS.
 */
#ifndef HF_STORE_REDIS_PROTOCOL_REPLY_H
#define HF_STORE_REDIS_PROTOCOL_REPLY_H

#include <hiredis/read.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "holdfast.h"
#include "store/redis/protocol/cluster_slots.h"

#define HF__REPLY_ITEMS  80 /* the answer of inspect.lua with 64 waiters */
#define HF__REPLY_TEXT   16384
#define HF__REPLY_UNREAD 65536 /* bytes of a reply that is not complete */

typedef struct hf__value {
    int type; /* REDIS_REPLY_STRING, …_INTEGER, …_NIL, …_STATUS, …_ERROR */
    int64_t integer;
    const char *text; /* terminated; points into the reply */
    size_t length;
} hf__value;

typedef struct hf__reply {
    int type; /* of item[0], or REDIS_REPLY_ARRAY */
    size_t count;
    hf__value item[HF__REPLY_ITEMS];
    char text[HF__REPLY_TEXT];
    size_t used;
    /* set by the caller: nested arrays are skipped, as if they were empty */
    bool nested;
    /* set by the caller: receives the contents of nested arrays, which are then not stored here */
    hf__cluster_slots *slots;
} hf__reply;

typedef enum hf__parsed { HF__PARSED, HF__PARSE_MORE, HF__PARSE_BAD } hf__parsed;

typedef struct hf__parser {
    redisReader *reader;
    hf__reply reply;
} hf__parser;

bool hf__parser_init(hf__parser *p);
void hf__parser_fini(hf__parser *p);

/* HF_PROTOCOL (larger than a reply may be) or HF_NOMEM: the connection must be closed. */
hf_result hf__parser_feed(hf__parser *p, const char *bytes, size_t length);

/* The next reply is in p->reply until the next call. */
hf__parsed hf__parser_next(hf__parser *p);

/* Item i as a number, also from decimal text; false if it is neither. */
bool hf__reply_number(const hf__reply *r, size_t i, int64_t *number);

/* Item i as text; NULL if it is not text. */
const char *hf__reply_text(const hf__reply *r, size_t i);

#endif
