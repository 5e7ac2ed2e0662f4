/* SPDX-License-Identifier: Apache-2.0 */
/* Names the right that the ACL user of a connection lacks: a command, a key or a channel. */
#ifndef HF_STORE_REDIS_PROTOCOL_PERMISSION_H
#define HF_STORE_REDIS_PROTOCOL_PERMISSION_H

#include "store/redis/protocol/script.h"

/* What was attempted; members that do not apply are NULL. */
typedef struct hf__attempt {
    const hf__script *script;
    const char *prefix; /* of keys and channels */
    const char *name;   /* of the lock */
    int name_length;
    const char *client; /* owner of the channel */
} hf__attempt;

/* A message for users if the error line is about a missing right, on the heap; else NULL. */
char *hf__permission_missing(const char *line, const hf__attempt *attempt, const char *where);

#endif
