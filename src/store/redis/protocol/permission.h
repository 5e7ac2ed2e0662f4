/* Which right the user of a connection lacks: a command, a key or a channel, by name. */
#ifndef HF_STORE_REDIS_PROTOCOL_PERMISSION_H
#define HF_STORE_REDIS_PROTOCOL_PERMISSION_H

#include "store/redis/protocol/script.h"

/* What was being done when a right was lacking; what does not apply is NULL. */
typedef struct hf__attempt {
    const hf__script *script;
    const char *prefix; /* of keys and channels */
    const char *name;   /* of the lock */
    int name_length;
    const char *client; /* whose channel */
} hf__attempt;

/* A line for a person if the error line is about a right that is lacking, on the heap; else NULL. */
char *hf__permission_missing(const char *line, const hf__attempt *attempt, const char *where);

#endif
