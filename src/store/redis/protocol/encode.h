/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes an operation as a command: its script, keys and arguments. docs/REDIS-PROTOCOL.md explains
 * them.
 */
#ifndef HF_STORE_REDIS_PROTOCOL_ENCODE_H
#define HF_STORE_REDIS_PROTOCOL_ENCODE_H

#include "store/redis/protocol/script.h"
#include "store/redis/protocol/session.h"

/* Any kind but a mutex has an entry of its own for each acquire id. */
bool hf__uses_shared_scripts(const hf__op *op);

/* A hold goes from one client to another: see transfer.lua. */
bool hf__is_transfer(const hf__op *op);

/* An operation on a latch, or about a leader. */
bool hf__is_latch_or_leader(const hf__op *op);

/* NULL: the operation is a plain command, without a script. */
const hf__script *hf__script_of(const hf__session *s, const hf__op *op);

/* Appends to s->out. `whole` sends the script's text, for a server that does not know the
   script. */
void hf__encode(hf__session *s, const hf__op *op, bool whole, hf__time now);

void hf__encode_client_key(hf__session *s, const char *client);

#endif
