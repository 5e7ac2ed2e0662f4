/* SPDX-License-Identifier: Apache-2.0 */
/* Parses a cluster node's redirection of a command. The node has done nothing in that case. */
#ifndef HF_STORE_REDIS_PROTOCOL_REDIRECT_H
#define HF_STORE_REDIS_PROTOCOL_REDIRECT_H

#include "store/store.h"

/* Whether the error is a redirection; fills redirect->kind and ->address. */
bool hf__redirect_parse(const char *error, hf__redirect *redirect);

#endif
