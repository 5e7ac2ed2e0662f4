/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds out from Sentinels where the primary is: the protocol part. No I/O and no clock, like
 * session.c.
 *
 * One Sentinel is asked at a time. Its answer has an epoch, which grows with every failover. A
 * Sentinel that was cut off from the others reports an old epoch, and its answer is ignored once a
 * newer one is known. An older epoch is accepted only if a majority of the Sentinels report one,
 * because they were then set up again.
 */
#ifndef HF_STORE_REDIS_PROTOCOL_SENTINEL_H
#define HF_STORE_REDIS_PROTOCOL_SENTINEL_H

#include "base/buffer.h"
#include "base/url.h"
#include "store/redis/protocol/reply.h"

#define HF__ADDRESS_HOST 256

typedef struct hf__address {
    char host[HF__ADDRESS_HOST];
    int32_t port; /* 0: unknown */
} hf__address;

typedef struct hf__sentinel {
    const hf__url *url;
    unsigned count; /* Sentinels */
    unsigned at;    /* the one being asked */

    hf__address primary; /* the accepted one; port 0: none yet */
    int64_t epoch;       /* of that */
    uint32_t older;      /* Sentinels that reported an older epoch since, a bit each */

    hf__address reported; /* in the answer being received */
    int64_t reported_epoch;
    bool switched; /* it reported a failover: ask it again */
} hf__sentinel;

#define HF__SENTINEL_REPLIES 3 /* replies to one request */

void hf__sentinel_init(hf__sentinel *s, const hf__url *url);

/* Writes the request to the Sentinel at `at`, after its login. */
void hf__sentinel_request(hf__sentinel *s, hf__buffer *out);

/* Handles the reply to part `i` of the request. The last one decides whether the answer is
   accepted. Any result but HF_OK, with *detail, means that this Sentinel is not usable now. */
hf_result hf__sentinel_answer(hf__sentinel *s, unsigned i, const hf__reply *reply,
                              const char *where, char **detail);

/* Handles a later message of the Sentinel. */
hf_result hf__sentinel_push(hf__sentinel *s, const hf__reply *reply, const char *where,
                            char **detail);

/* Goes on to the next Sentinel. */
void hf__sentinel_next(hf__sentinel *s);

/* Asks a node for its role; HF_OK if it is a primary, else *detail says what it is. */
void hf__role_request(hf__buffer *out);
hf_result hf__role_answer(const hf__reply *reply, const char *where, char **detail);

/* Whether an error means that this node is no longer a primary. */
bool hf__role_lost(const char *line);

#endif
