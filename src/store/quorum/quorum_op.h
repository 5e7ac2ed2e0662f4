/*
 * An operation that is put to all nodes. The caller's is told as soon as the answers decide it; the
 * quorum operation goes on behind that until every node that was asked has answered, or was given up.
 *
 *   SENT --answer--> IN            a RELEASE:  SENT --no answer--> OWED --said again--> SENT
 *
 * Invariants
 *  1. The nodes have copies of the operation, in the quorum operation's memory, and of its name.
 *  2. What one node may have done for an ACQUIRE that is not granted is undone: also where no answer came,
 *     and then it is said again until it is answered or the lease is surely over.
 *  3. An answer of a node counts for a grant only while the node votes: it has been up for rejoin_ms
 *     when the ACQUIRE was begun, and its connection is still the one that the answer came on.
 *  4. A node is asked for nothing more on behalf of a number that was released.
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
    uint64_t link;              /* the connection whose age was asked for; 0: none */
    hf__op age;                 /* that question, while `asking` */
    bool uptime_pending, known; /* known: `born` is of this connection's server */
    hf__time born;              /* it was up then, or before */
    hf__time ask_at;            /* ask again, not before */
    hf__time late_until;        /* an ACQUIRE of ours may arrive late, until then */
} hf__node;

typedef enum hf__vote_state {
    HF__VOTE_NONE, /* not asked, or given up */
    HF__VOTE_SENT,
    HF__VOTE_ANSWERED,
    HF__VOTE_OWED
} hf__vote_state;

/* What a node has said, of an ACQUIRE or a RENEW. */
typedef enum hf__verdict {
    HF__VERDICT_NONE, /* nothing that counts */
    HF__VERDICT_GRANTED,
    HF__VERDICT_AGREED, /* it has the token of all, or has renewed */
    HF__VERDICT_BUSY,
    HF__VERDICT_LOST
} hf__verdict;

typedef struct hf__vote {
    hf__op op; /* first: this is how an answer finds its vote */
    hf__quorum_op *qop;
    hf__vote_state state;
    hf__verdict verdict;
    bool maybe; /* it may hold, for all that was answered */
} hf__vote;

/* What a verb makes of answers. */
typedef struct hf__quorum_rules {
    void (*answered)(hf__quorum_op *qop, hf__vote *v, hf__time now);
    void (*decide)(hf__quorum_op *qop, hf__time now); /* tell the caller, if it is decided */
} hf__quorum_rules;

struct hf__quorum_op {
    hf__quorum *q;
    hf__quorum_op *next, *prev; /* among those of its list */
    bool is_acquire;            /* which is that of ACQUIRE and RENEW */
    const hf__quorum_rules *rules;
    hf__op *op; /* the caller's; NULL: it was told, or there is none */
    hf__timer timer;
    hf__time began;
    hf__time decide_by; /* what has not answered by then counts as unreachable */
    bool expired;       /* that was so */
    bool over;          /* its number was released */
    bool told_result;   /* RELEASE: the caller's operation has its result already */
    bool
        enough; /* ACQUIRE, RENEW: a majority has granted. RELEASE: decided, the rest have a moment */
    uint64_t acquire_id, token;
    int64_t lease_ms;
    hf__time gone_by, retry_at; /* RELEASE */
    unsigned tries;
    hf__lock_info *sights; /* INSPECT, WHO: one of each node */
    char *name;            /* behind the votes */
    hf__vote votes[];      /* as many as there are nodes */
};

struct hf__quorum {
    hf__store store;
    hf__quorum_config config;
    hf__log *log;
    hf__rand rand;
    int count, majority;
    hf__node nodes[HF__NODES_MAX];
    hf__quorum_op *acquires, *others; /* those that may cast an ACQUIRE; and all others */
    size_t owing; /* quorum operations of releases that are kept to be said again */
    hf__heap timers;
    hf__op *done_first, *done_last;
    hf__time now; /* as last told */
    bool opened, shut;
    hf__time began, open_by; /* open_by: a majority is up, the others have until then */
    uint64_t first_links;    /* connections made until it opened */
    uint64_t signature;      /* of what down_detail is about */
    bool no_quorum;          /* the last quorum operation found too few that answer, or vote */
};

#define HF__DRIFT_MS 200 /* by which moments on a node's clock may be off */

/* ---- quorum_op.c ---- */

/* NULL: out of memory, and the caller has been told. The votes are copies of `op`, none sent. */
hf__quorum_op *hf__quorum_op_new(hf__quorum *q, const hf__quorum_rules *rules, const hf__op *op,
                                 hf__time now);
void hf__quorum_op_free(hf__quorum_op *qop);

/* Ask a node: what its vote's operation says. */
void hf__vote_submit(hf__vote *v, hf__verb verb, hf__time now);
hf__node *hf__vote_node(const hf__vote *v);

/* The node may vote, as far as is known; and does, on the connection of its last answer. */
bool hf__node_too_young(const hf__quorum *q, const hf__node *n, hf__time at);
bool hf__vote_counts(const hf__vote *v);

/* By when an ACQUIRE of it has acted, if it ever does. */
static inline hf__time hf__vote_late_until(const hf__vote *v) {
    return hf__after_ms(v->op.not_after, HF__DRIFT_MS);
}

/* Its answer is still to come, or whether it counts. */
bool hf__vote_pending(const hf__vote *v);

/* The caller's operation is completed. */
void hf__quorum_op_complete(hf__quorum_op *qop, hf_result result, char *detail);
void hf__quorum_complete(hf__quorum *q, hf__op *op, hf_result result, char *detail);

/* An answer came; time has passed. The quorum operation may be gone afterwards. */
void hf__quorum_op_answered(hf__vote *v, hf__time now);
void hf__quorum_op_due(hf__quorum_op *qop, hf__time now);

/* Plan when to look again; or free it, when nothing is to come. */
void hf__quorum_op_schedule(hf__quorum_op *qop, hf__time now);

/* A node's age is known, or is not to be had on this connection: votes may count now. */
void hf__quorum_ops_uptime_known(hf__quorum *q, hf__time now);

/* A node can be reached again: what is owed to it is said now. */
void hf__quorum_ops_retry(hf__quorum *q, const hf__node *n, hf__time now);

/* Why there is no majority: a line that names the nodes. `b` may be NULL. */
char *hf__quorum_why(const hf__quorum *q, const hf__quorum_op *qop);

/* A result that is not for another try and that keeps a majority from being had: HF_OK if there is none. */
hf_result hf__quorum_op_refused(const hf__quorum_op *qop, char **detail);

/* ---- The verbs ---- */

void hf__quorum_acquire(hf__quorum *q, hf__op *op, hf__time now); /* acquire.c */
void hf__quorum_renew(hf__quorum *q, hf__op *op, hf__time now);   /* renew.c */
void hf__quorum_release(hf__quorum *q, hf__op *op, hf__time now); /* release.c */
void hf__quorum_inspect(hf__quorum *q, hf__op *op,
                        hf__time now); /* inspect.c: INSPECT, WHO, BREAK */

/* Undo what a quorum operation has, or may have, done on the nodes. `op`, whose result is set, is completed when
   they have answered, or had a moment to; NULL: nobody waits. */
void hf__quorum_undo(hf__quorum_op *of, hf__op *op, hf__time now); /* release.c */

/* Bring a node that holds under a token of its own to that of all. */
void hf__vote_raise(hf__vote *v, hf__time now); /* acquire.c */
void hf__vote_raised(hf__vote *v);              /* what became of that */

#endif
