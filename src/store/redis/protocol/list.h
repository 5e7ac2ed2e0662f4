/* SPDX-License-Identifier: Apache-2.0 */
/* The names in use: arguments and answers of list.lua. */
#ifndef HF_STORE_REDIS_PROTOCOL_LIST_H
#define HF_STORE_REDIS_PROTOCOL_LIST_H

#include "base/buffer.h"
#include "store/redis/protocol/reply.h"
#include "store/store.h"

#define HF__LIST_ARGUMENTS 3

void hf__list_encode(hf__buffer *out, const char *prefix, const hf__list_walk *listing);

/* Reads the answer of one step into the listing. False: it is not a valid answer. */
bool hf__list_answer(const hf__reply *reply, const char *prefix, hf__list_walk *listing);

#endif
