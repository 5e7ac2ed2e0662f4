/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Latches, and the values that leaders publish: how their operations are written as commands, and
 * what the answers mean. session.c sends and receives them like all others.
 */
#ifndef HF_STORE_REDIS_PROTOCOL_LATCH_LEADER_H
#define HF_STORE_REDIS_PROTOCOL_LATCH_LEADER_H

#include "base/buffer.h"
#include "store/redis/protocol/reply.h"
#include "store/redis/protocol/script.h"
#include "store/store.h"

#define HF__LATCH_LEADER_KEYS 2

/* NULL: the verb is not about a latch or a leader. */
const hf__script *hf__latch_leader_script(hf__verb verb);

/* Writes the keys. Then: the number of arguments that follow them. Then: writes the arguments, with
   `not_after` on the server's clock. */
void hf__latch_leader_keys(hf__buffer *out, const char *prefix, const hf__op *op);
int hf__latch_leader_arguments(const hf__op *op);
void hf__latch_leader_encode(hf__buffer *out, const char *client, const hf__op *op,
                             int64_t not_after);

/* Reads the answer into the operation. `yes`: its status was yes. `subscribed`: the client receives
   messages. False: it is not an answer to this operation. */
bool hf__latch_leader_answer(const hf__reply *reply, hf__op *op, bool yes, bool subscribed);

#endif
