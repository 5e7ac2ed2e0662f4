/*
 * Where the primary is, as Sentinels say: the half that knows the protocol. Pure, as session.c is.
 *
 * One Sentinel is asked at a time. Its answer has an epoch, which grows with every failover: who was cut
 * off from the others says an old one, and is not believed by who has heard a newer. Only when most of
 * the Sentinels say an older one has their history begun anew.
 */
#ifndef HF_STORE_REDIS_PROTOCOL_SENTINEL_H
#define HF_STORE_REDIS_PROTOCOL_SENTINEL_H

#include "base/buffer.h"
#include "base/url.h"
#include "store/redis/protocol/reply.h"

#define HF__ADDRESS_HOST 256

typedef struct hf__address {
    char host[HF__ADDRESS_HOST];
    int32_t port; /* 0: not known */
} hf__address;

typedef struct hf__sentinel {
    const hf__url *url;
    unsigned count; /* Sentinels */
    unsigned at;    /* the one being asked */

    hf__address primary; /* the newest that was believed; port 0: none yet */
    int64_t epoch;       /* of that */
    uint32_t older;      /* Sentinels that have said an older one since, a bit each */

    hf__address said; /* in the answer that is coming in */
    int64_t said_epoch;
    bool switched; /* it said that there was a failover: ask it again */
} hf__sentinel;

#define HF__SENTINEL_ASKS 3 /* answers to an ask */

void hf__sentinel_init(hf__sentinel *s, const hf__url *url);

/* What is to be sent to the Sentinel at `at`, behind its login. */
void hf__sentinel_ask(hf__sentinel *s, hf__buffer *out);

/* The answer to part `i` of it. The last one settles what is believed. Any result but HF_OK, with
   *detail, means that this Sentinel is of no use now. */
hf_result hf__sentinel_answer(hf__sentinel *s, unsigned i, const hf__reply *reply,
                              const char *where, char **detail);

/* What it says later, unasked. */
hf_result hf__sentinel_push(hf__sentinel *s, const hf__reply *reply, const char *where,
                            char **detail);

/* On to the next. */
void hf__sentinel_next(hf__sentinel *s);

/* Whether a node says that it is a primary: the answer to hf__role_ask. */
void hf__role_ask(hf__buffer *out);
hf_result hf__role_answer(const hf__reply *reply, const char *where, char **detail);

/* Whether an error says that this is no primary any more. */
bool hf__role_lost(const char *line);

#endif
