/*
 * A server's answer, in memory of a fixed size. hiredis parses; its objects are made here, so that
 * nothing is ever allocated because a server says so. Answers to what we ask are a value or a flat
 * list of values; anything larger or deeper is no answer to us, but for those to ROLE and CLUSTER SLOTS.
 */
#ifndef HF_STORE_REDIS_PROTOCOL_REPLY_H
#define HF_STORE_REDIS_PROTOCOL_REPLY_H

#include <hiredis/read.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "holdfast.h"
#include "store/redis/protocol/cluster_slots.h"

#define HF__REPLY_ITEMS  80 /* what inspect.lua answers, with a line of 64 */
#define HF__REPLY_TEXT   16384
#define HF__REPLY_UNREAD 65536 /* bytes of an answer that is not complete */

typedef struct hf__value {
    int type; /* REDIS_REPLY_STRING, …_INTEGER, …_NIL, …_STATUS, …_ERROR */
    int64_t integer;
    const char *text; /* terminated; in the reply's own memory */
    size_t length;
} hf__value;

typedef struct hf__reply {
    int type; /* of item[0], or REDIS_REPLY_ARRAY */
    size_t count;
    hf__value item[HF__REPLY_ITEMS];
    char text[HF__REPLY_TEXT];
    size_t used;
    bool nested; /* set by who asks: lists within the list are passed over, as if they were empty */
    hf__cluster_slots
        *slots; /* set by who asks: where what is in lists within the list goes, and not here */
} hf__reply;

typedef enum hf__parsed { HF__PARSED, HF__PARSE_MORE, HF__PARSE_BAD } hf__parsed;

typedef struct hf__parser {
    redisReader *reader;
    hf__reply reply;
} hf__parser;

bool hf__parser_init(hf__parser *p);
void hf__parser_fini(hf__parser *p);

/* HF_PROTOCOL (more than an answer may have) or HF_NOMEM: the connection is of no more use. */
hf_result hf__parser_feed(hf__parser *p, const char *bytes, size_t length);

/* The next answer is in p->reply until the next call. */
hf__parsed hf__parser_next(hf__parser *p);

/* Item i as a number, also from decimal text; false if it is neither. */
bool hf__reply_number(const hf__reply *r, size_t i, int64_t *number);

/* Item i as text; NULL if it is none. */
const char *hf__reply_text(const hf__reply *r, size_t i);

#endif
