/*
 * `redis+quorum://`: one lock over several servers that know nothing of each other (RedLock). It holds
 * where a majority of them says so; a minority may fail. Made of stores, one for each node, and
 * knows of them what store.h says.
 */
#ifndef HF_STORE_QUORUM_H
#define HF_STORE_QUORUM_H

#include "base/log.h"
#include "store/store.h"

#define HF__NODE_NAME 300

typedef struct hf__quorum_config {
    int64_t command_timeout_ms;
    int64_t rejoin_ms; /* a node votes when it has been up for so long */
    uint64_t seed;
} hf__quorum_config;

typedef struct hf__quorum_node {
    hf__store *store;
    char name[HF__NODE_NAME]; /* "host:port", for messages */
} hf__quorum_node;

/*
 * A node that lost its data votes again after `rejoin_ms`, so every lease must be over by then: the
 * lease of any client, not just this one's. A longer lease is HF_INVALID, and *detail says what to do.
 * A delay below HF__REJOIN_FORGETFUL_MS says that no node loses its data: any lease is allowed.
 */
hf_result hf__quorum_lease_check(int64_t rejoin_ms, int64_t lease_ms, char **detail);

/* Takes the nodes' stores, also when it fails. Borrows the log. NULL: out of memory. */
hf__store *hf__quorum_new(const hf__quorum_config *config, const hf__quorum_node *nodes, int count,
                          hf__log *log);

#endif
