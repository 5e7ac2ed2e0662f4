/*
 * The channels that a client listens to at a node of a cluster: one for each name that it waits for, in the slot of
 * that name. Pure, as the session is that they belong to.
 *
 *   (none) --wanted--> WANTED --sent--> ASKED --said so--> HEARD --not wanted for LINGER--> LEAVING --> (none)
 *                        ^                 \--error--> (none)  \--the slot went away--> (none)
 *                        +------------- the connection broke --+
 *
 * Where being heard begins or ends, its name is told: who waits for it asks again.
 */
#ifndef HF_STORE_REDIS_PROTOCOL_CHANNELS_H
#define HF_STORE_REDIS_PROTOCOL_CHANNELS_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/log.h"
#include "base/map.h"
#include "base/time.h"
#include "store/redis/protocol/reply.h"

#define HF__CHANNELS_MAX 8192 /* whoever waits for a name beyond that asks often instead */

typedef struct hf__channel hf__channel;

typedef struct hf__channels {
    const char *prefix, *client;
    hf__map names; /* by their text */
    hf__channel *first;
    size_t wanted;        /* to be asked for */
    size_t changed_count; /* whose name is to be told */
    uint64_t asked;       /* counts */
    bool plain;           /* not as shard channels: the server has none, or does not let us */
    hf__time tidy_at;     /* when to look for those that nobody wants any more */
    hf__channel *last_changed;
} hf__channels;

void hf__channels_init(hf__channels *c, const char *prefix, const char *client, uint64_t seed);
void hf__channels_fini(hf__channels *c);

/* Somebody stands in line for the name, as was answered just now. */
void hf__channels_want(hf__channels *c, const char *name, size_t length, hf__time now);

bool hf__channels_subscribed(const hf__channels *c, const char *name, size_t length);

/* What is to be sent, and when. */
void hf__channels_send(hf__channels *c, hf__buffer *out, hf__time now);
hf__time hf__channels_due(const hf__channels *c);

/* What came. True: it was about a channel. An error is that to the oldest that was asked for, and true
   if there is one. */
bool hf__channels_push(hf__channels *c, const hf__reply *reply);
bool hf__channels_error(hf__channels *c, const char *error, hf__log *log);

void hf__channels_disconnected(hf__channels *c);

/* The next name of which something is to be told; NULL: none. It lasts until the next call. */
const char *hf__channels_next_changed(hf__channels *c, size_t *length);

#endif
