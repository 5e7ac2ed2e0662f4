/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Recent releases and losses, to repeat after a failover. A primary that fails may not have
 * replicated a release. Its successor then still has the hold, until the lease ends. So releases
 * are remembered for the length of a lease, and are repeated to the server that answers next.
 *
 * That server may also still have the client in its queue, and would hand the lock to an acquire
 * that no longer exists. So if the client was ever queued, its repeated releases also leave the
 * queue. This includes the release of a hold that it finds lost. A release acts only on its own
 * acquire id: even late or repeated, it changes nothing that was acquired since.
 */
#ifndef HF_STORE_REDIS_TOPOLOGY_RELEASE_LOG_H
#define HF_STORE_REDIS_TOPOLOGY_RELEASE_LOG_H

#include "base/map.h"
#include "store/redis/protocol/session.h"

#define HF__RELEASE_LOG_MAX 1024 /* names; beyond that, the oldest are left to expire */

typedef struct hf__released hf__released;

typedef struct hf__release_log {
    hf__map names;
    hf__released *first, *last; /* in order of age */
    size_t count;
    int64_t lease_ms; /* the longest that was requested */
    bool has_queued;  /* an acquire of this client was queued */
    bool repeat_now;  /* repeat without waiting for another connection */
} hf__release_log;

void hf__release_log_init(hf__release_log *log, uint64_t seed);
void hf__release_log_fini(hf__release_log *log);

/* An operation was answered. If memory is out, nothing is kept. */
void hf__release_log_note(hf__release_log *log, const hf__op *op, hf__time now);

/* Sends all releases again: the commands use another connection, or `repeat_now` is set. */
void hf__release_log_repeat(hf__release_log *log, hf__session *session, hf__time now);

/* The same through a store, for the names that `concerns` accepts. */
void hf__release_log_repeat_to(hf__release_log *log, hf__store *store,
                               bool (*concerns)(const hf__store *store, const char *name,
                                                size_t length),
                               hf__time now);

/* If the completed operation is one of these, takes it back and returns true. */
bool hf__release_log_reclaim(hf__op *op);

#endif
