/*
 * What is kept beside the locks: latches, and what leaders say. How their operations are written as
 * commands and what the answers mean; session.c sends and receives them as it does all others.
 */
#ifndef HF_STORE_REDIS_PROTOCOL_LATCH_LEADER_H
#define HF_STORE_REDIS_PROTOCOL_LATCH_LEADER_H

#include "base/buffer.h"
#include "store/redis/protocol/reply.h"
#include "store/redis/protocol/script.h"
#include "store/store.h"

#define HF__LATCH_LEADER_KEYS 2

/* NULL: the verb is none of these. */
const hf__script *hf__latch_leader_script(hf__verb verb);

/* The keys; how many arguments follow them; and those, with `not_after` on the server's clock. */
void hf__latch_leader_keys(hf__buffer *out, const char *prefix, const hf__op *op);
int hf__latch_leader_arguments(const hf__op *op);
void hf__latch_leader_encode(hf__buffer *out, const char *client, const hf__op *op,
                             int64_t not_after);

/* The answer, of which the status said yes or no, into the operation. `heard`: messages are
   listened to. False: it is none to what was asked. */
bool hf__latch_leader_answer(const hf__reply *reply, hf__op *op, bool yes, bool heard);

#endif
