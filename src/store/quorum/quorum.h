/* SPDX-License-Identifier: Apache-2.0 */
/* The `redis+quorum://` store: one lock over several independent servers (RedLock). The lock is
   held if a majority of the nodes says so, and a minority may fail. It has one store per node, and
   uses them only through store.h. */
#ifndef HF_STORE_QUORUM_H
#define HF_STORE_QUORUM_H

#include "base/log.h"
#include "store/store.h"

#define HF__NODE_NAME 300

typedef struct hf__quorum_config {
    int64_t command_timeout_ms;
    int64_t rejoin_ms; /* a node votes once it has been up for this long */
    uint64_t seed;
} hf__quorum_config;

typedef struct hf__quorum_node {
    hf__store *store;
    char name[HF__NODE_NAME]; /* "host:port", for messages */
} hf__quorum_node;

/* A node that lost its data votes again after `rejoin_ms`, so every lease must have ended by then.
   This applies to the leases of all clients. A longer lease is HF_INVALID, and *detail says what to
   do. A delay below HF__REJOIN_FORGETFUL_MS declares that no node loses its data, so any lease is
   allowed. */
hf_result hf__quorum_lease_check(int64_t rejoin_ms, int64_t lease_ms, char **detail);

/* Takes ownership of the nodes' stores, even if it fails. Borrows the log. NULL: out of memory. */
hf__store *hf__quorum_new(const hf__quorum_config *config, const hf__quorum_node *nodes, int count,
                          hf__log *log);

#endif
