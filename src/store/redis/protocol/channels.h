/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The channels that a client subscribes to at a cluster node: one for each name that it waits for,
 * in the slot of that name. No I/O and no clock, like the session they belong to.
 *
 *   (none) --want--> WANTED --sent--> SUBSCRIBING --confirmed--> SUBSCRIBED
 *                      ^                   \--error--> (none)         |
 *                      +-- connection broke --------------------------+
 *                                                                     |
 *   (none) <-------- the slot moved away -----------------------------+
 *   (none) <-- UNSUBSCRIBING <-- no waiter for LINGER ----------------+
 *
 * When a subscription begins or ends, its name is reported, and waiters for that name recheck.
 */
#ifndef HF_STORE_REDIS_PROTOCOL_CHANNELS_H
#define HF_STORE_REDIS_PROTOCOL_CHANNELS_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/log.h"
#include "base/map.h"
#include "base/time.h"
#include "store/redis/protocol/reply.h"

#define HF__CHANNELS_MAX 8192 /* waiters for names beyond that poll instead */

typedef struct hf__channel hf__channel;

typedef struct hf__channels {
    const char *prefix, *client;
    hf__map names; /* by channel */
    hf__channel *first;
    size_t wanted;          /* how many are to be subscribed */
    size_t changed_count;   /* how many have a change to report */
    uint64_t request_count; /* subscription requests so far */
    /* use plain channels: the server has no shard channels, or refuses them */
    bool plain;
    hf__time tidy_at; /* when to look for unused channels */
    hf__channel *last_changed;
} hf__channels;

void hf__channels_init(hf__channels *c, const char *prefix, const char *client, uint64_t seed);
void hf__channels_fini(hf__channels *c);

/* An operation for this name was just answered as queued. */
void hf__channels_want(hf__channels *c, const char *name, size_t length, hf__time now);

bool hf__channels_subscribed(const hf__channels *c, const char *name, size_t length);

/* Adds the commands that are due to `out`. And when the next ones are due. */
void hf__channels_send(hf__channels *c, hf__buffer *out, hf__time now);
hf__time hf__channels_due(const hf__channels *c);

/* A reply arrived. Returns true if it was about a channel. An error answers the oldest subscription
   request in flight; false if there is none. */
bool hf__channels_push(hf__channels *c, const hf__reply *reply);
bool hf__channels_error(hf__channels *c, const char *error, hf__log *log);

void hf__channels_disconnected(hf__channels *c);

/* The next name with a change to report; NULL: none. Valid until the next call. */
const char *hf__channels_next_changed(hf__channels *c, size_t *length);

#endif
