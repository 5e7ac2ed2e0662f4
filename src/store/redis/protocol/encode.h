/*
 * What an operation says to the server: the command, its script, keys and arguments. docs/REDIS-PROTOCOL.md
 * has what each means.
 */
#ifndef HF_STORE_REDIS_PROTOCOL_ENCODE_H
#define HF_STORE_REDIS_PROTOCOL_ENCODE_H

#include "store/redis/protocol/script.h"
#include "store/redis/protocol/session.h"

/* What is not a mutex is known by a number of its own. */
bool hf__in_lane(const hf__op *op);

/* A hold goes from one client to another: see hand_over.lua. */
bool hf__is_handed(const hf__op *op);

/* A latch or a leader. */
bool hf__is_latch_or_leader(const hf__op *op);

/* NULL: a command of the server's own. */
const hf__script *hf__script_of(const hf__session *s, const hf__op *op);

/* Into s->out. `whole` sends the script itself, for a server that does not know it. */
void hf__encode(hf__session *s, const hf__op *op, bool whole, hf__time now);

void hf__encode_client_key(hf__session *s, const char *client);

#endif
