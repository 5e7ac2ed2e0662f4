/*
 * What was released not long ago, or lost. A primary that fails may take with it that it released a lock: its
 * successor has the lock still held, and nobody to release it before its lease ends. So releases are kept
 * for a lease, and repeated to whoever answers next. That one may also have it still standing in line, and
 * would grant it to nobody: a client that has ever stood in one leaves as well, also with what it finds lost
 * there. A release acts on its number only: late or twice, it touches nothing that was taken since.
 */
#ifndef HF_STORE_REDIS_TOPOLOGY_RELEASE_LOG_H
#define HF_STORE_REDIS_TOPOLOGY_RELEASE_LOG_H

#include "base/map.h"
#include "store/redis/protocol/session.h"

#define HF__RELEASE_LOG_MAX 1024 /* names; beyond that the oldest are left to their leases */

typedef struct hf__released hf__released;

typedef struct hf__release_log {
    hf__map names;
    hf__released *first, *last; /* by age */
    size_t count;
    int64_t lease_ms; /* the longest that was asked for */
    bool has_queued;  /* something of this client has stood in line */
    bool repeat_now;  /* one is to be said without another connection */
} hf__release_log;

void hf__release_log_init(hf__release_log *log, uint64_t seed);
void hf__release_log_fini(hf__release_log *log);

/* An operation was answered. Where memory is out, nothing is kept. */
void hf__release_log_note(hf__release_log *log, const hf__op *op, hf__time now);

/* The commands go to another connection, or `again` is set: say them all again. */
void hf__release_log_repeat(hf__release_log *log, hf__session *session, hf__time now);

/* The same through a store, of the names that `concerns` says. */
void hf__release_log_repeat_to(hf__release_log *log, hf__store *store,
                               bool (*concerns)(const hf__store *store, const char *name,
                                                size_t length),
                               hf__time now);

/* Whether a completed operation is one of these, and so nobody else's. */
bool hf__release_log_reclaim(hf__op *op);

#endif
