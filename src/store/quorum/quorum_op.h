/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An operation that is submitted to all nodes. The caller's operation completes as soon as the
 * answers decide it. The quorum operation continues until every node has answered or was given up.
 *
 *   SENT --answer--> ANSWERED      a RELEASE:  SENT --no answer--> OWED --sent again--> SENT
 *
 * Invariants
 *   1. The nodes get copies of the operation and of its name, in memory of the quorum operation.
 *   2. If an ACQUIRE is not granted, everything that a node did or may have done for it is undone.
 *      A node that does not answer gets the release again, until it answers or the lease has ended.
 *   3. The answer of a node counts for a grant only while the node votes. It must have been up for
 *      rejoin_ms when the ACQUIRE began, and must still be on the connection of the answer.
 *   4. After the release of an acquire id, no node gets an ACQUIRE or RAISE_TOKEN for it.
 *
 * Not thread-safe: used under the client's mutex.
 */
#ifndef HF_STORE_QUORUM_QUORUM_OP_H
#define HF_STORE_QUORUM_QUORUM_OP_H

#include "base/heap.h"
#include "base/rand.h"
#include "store/quorum/quorum.h"

typedef struct hf__quorum hf__quorum;
typedef struct hf__quorum_op hf__quorum_op;

typedef struct hf__node {
    hf__quorum_node at;
    uint64_t link;              /* the connection whose uptime was requested; 0: none */
    hf__op uptime_op;           /* the UPTIME operation, while `uptime_pending` */
    bool uptime_pending, known; /* known: `born` is valid for this connection */
    hf__time born;              /* the server has been up since then at least */
    hf__time uptime_retry_at;   /* when to request the uptime again; 0: not planned */
    hf__time late_until;        /* an ACQUIRE of ours may take effect late, until then */
} hf__node;

typedef enum hf__vote_state {
    HF__VOTE_NONE, /* not sent, or given up */
    HF__VOTE_SENT,
    HF__VOTE_ANSWERED,
    HF__VOTE_OWED
} hf__vote_state;

/* The answer of a node to an ACQUIRE or a RENEW. */
typedef enum hf__verdict {
    HF__VERDICT_NONE, /* nothing that counts */
    HF__VERDICT_GRANTED,
    HF__VERDICT_AGREED, /* it has the common token, or has renewed */
    HF__VERDICT_BUSY,
    HF__VERDICT_LOST
} hf__verdict;

typedef struct hf__vote {
    hf__op op; /* must be the first member: an answer is cast to its vote */
    hf__quorum_op *qop;
    hf__vote_state state;
    hf__verdict verdict;
    bool maybe; /* the node may hold the lock: the answer is missing or unclear */
} hf__vote;

/* How an operation treats the answers. */
typedef struct hf__quorum_rules {
    void (*answered)(hf__quorum_op *qop, hf__vote *v, hf__time now);
    /* complete the caller's operation if it is decided */
    void (*decide)(hf__quorum_op *qop, hf__time now);
} hf__quorum_rules;

struct hf__quorum_op {
    hf__quorum *q;
    hf__quorum_op *next, *prev; /* in its list */
    bool is_acquire;            /* its list is `acquires` (ACQUIRE and RENEW), else `others` */
    const hf__quorum_rules *rules;
    hf__op *op; /* the caller's; NULL: completed, or there was none */
    hf__timer timer;
    hf__time began;
    hf__time decide_by; /* nodes that have not answered by then count as unreachable */
    bool expired;       /* `decide_by` has passed */
    bool over;          /* its acquire id was released */
    bool has_result;    /* RELEASE: the caller's operation has its result already */
    /* ACQUIRE, RENEW: a majority has granted or renewed. RELEASE: it is decided, and the other
       nodes have a short time to answer. */
    bool enough;
    uint64_t acquire_id, token;
    int64_t lease_ms;
    hf__time gone_by, retry_at; /* RELEASE: when the lease has ended, and when to send again */
    unsigned tries;
    hf__lock_info *infos; /* INSPECT, CLIENT_INFO: one per node; owned */
    char *name;           /* in this allocation, behind the votes */
    hf__vote votes[];     /* one per node */
};

struct hf__quorum {
    hf__store store;
    hf__quorum_config config;
    hf__log *log;
    hf__rand rand;
    int count, majority;
    hf__node nodes[HF__NODES_MAX];
    /* quorum operations that may send an ACQUIRE, and all others */
    hf__quorum_op *acquires, *others;
    size_t owed_count; /* quorum operations that are kept to send a RELEASE again */
    hf__heap timers;
    hf__ops done;
    hf__time now; /* as passed to the last call */
    bool opened, shut;
    hf__time began, open_by; /* open_by: a majority is up, and the others have until then */
    uint64_t first_links;    /* connections made until it opened */
    uint64_t signature;      /* hash of what down_detail describes */
    bool no_quorum;          /* in the last quorum operation too few nodes answered or voted */
};

#define HF__DRIFT_MS 200 /* how far times on a node's clock may be off */

/* ---- quorum_op.c ---- */

/* NULL: out of memory. The votes are copies of `op`, and none is sent. */
hf__quorum_op *hf__quorum_op_new(hf__quorum *q, const hf__quorum_rules *rules, const hf__op *op,
                                 hf__time now);
void hf__quorum_op_free(hf__quorum_op *qop);

/* Submit the operation of a vote to its node. */
void hf__vote_submit(hf__vote *v, hf__verb verb, hf__time now);
hf__node *hf__vote_node(const hf__vote *v);

/* Whether a node has not been up long enough to vote. And whether a vote counts: its node votes,
   and is still on the connection of the answer. */
bool hf__node_too_young(const hf__quorum *q, const hf__node *n, hf__time at);
bool hf__vote_counts(const hf__vote *v);

/* The ACQUIRE takes no effect after this. */
static inline hf__time hf__vote_late_until(const hf__vote *v) {
    return hf__after_ms(v->op.not_after, HF__DRIFT_MS);
}

/* Whether the answer has not arrived yet, or it is not known yet whether it counts. */
bool hf__vote_pending(const hf__vote *v);

/* Complete the caller's operation. */
void hf__quorum_op_complete(hf__quorum_op *qop, hf_result result, char *detail);
void hf__quorum_complete(hf__quorum *q, hf__op *op, hf_result result, char *detail);

/* An answer arrived, or the timer is due. The quorum operation may be freed by the call. */
void hf__quorum_op_answered(hf__vote *v, hf__time now);
void hf__quorum_op_due(hf__quorum_op *qop, hf__time now);

/* Set the timer; or free the quorum operation, if nothing is outstanding. */
void hf__quorum_op_schedule(hf__quorum_op *qop, hf__time now);

/* The uptime of a node is known, or unavailable on this connection: votes may count now. */
void hf__quorum_ops_uptime_known(hf__quorum *q, hf__time now);

/* A node is connected again: send it the releases it has missed. */
void hf__quorum_ops_retry(hf__quorum *q, const hf__node *n, hf__time now);

/* Why there is no majority: a line that names the nodes, for the caller to free. `qop` may be
   NULL. */
char *hf__quorum_why(const hf__quorum *q, const hf__quorum_op *qop);

/* A final result that prevents a majority; HF_OK: there is none. The caller frees `detail`. */
hf_result hf__quorum_op_refused(const hf__quorum_op *qop, char **detail);

/* ---- Operations ---- */

void hf__quorum_acquire(hf__quorum *q, hf__op *op, hf__time now); /* acquire.c */
void hf__quorum_renew(hf__quorum *q, hf__op *op, hf__time now);   /* renew.c */
void hf__quorum_release(hf__quorum *q, hf__op *op, hf__time now); /* release.c */
void hf__quorum_inspect(hf__quorum *q, hf__op *op,
                        hf__time now); /* inspect.c: INSPECT, CLIENT_INFO, BREAK */

/* Undo everything that a quorum operation did, or may have done, on the nodes. `op` has its result,
   and is completed when the nodes have answered or had a short time. NULL: nobody waits for it. */
void hf__quorum_undo(hf__quorum_op *of, hf__op *op, hf__time now); /* release.c */

/* Raise the token of a node's grant to the common token. */
void hf__vote_raise(hf__vote *v, hf__time now); /* acquire.c */
void hf__vote_raised(hf__vote *v);              /* take the answer to that */

#endif
