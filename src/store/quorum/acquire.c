/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ACQUIRE goes to all nodes at once. A majority of grants is not enough, because each node has
 * given its own token. The highest one becomes the common token, and is written to the other nodes.
 * A node counts only if it still has our hold at that time. From then on, every token that this
 * node gives is higher. At least one such node is in the majority of the next holder.
 *
 * To avoid the second step, the request names a token that is higher than the clocks of all nodes
 * will be when it arrives. Then all nodes usually give the same token.
 */
#include "base/error.h"
#include "store/quorum/quorum_op.h"

#define AHEAD_US       2000 /* added to the nodes' clocks, besides a round trip */
#define SPLIT_FIRST_MS 4
#define SPLIT_DOUBLING 4
#define TOKEN_MAX      ((UINT64_C(1) << 53) - 1)

typedef struct acquire_tally {
    int granted, agreed, pending; /* votes that count, or may count yet */
    int busy, late;
    int answered_count; /* nodes that vote and have answered */
} acquire_tally;

static acquire_tally count_votes(const hf__quorum_op *qop) {
    acquire_tally t = {0};
    for (int i = 0; i < qop->q->count; i++) {
        const hf__vote *v = &qop->votes[i];
        bool counts = hf__vote_counts(v);
        bool has = v->verdict == HF__VERDICT_GRANTED || v->verdict == HF__VERDICT_AGREED;
        t.granted += counts && has;
        t.agreed += counts && v->verdict == HF__VERDICT_AGREED;
        t.pending += hf__vote_pending(v);
        t.busy += counts && (v->verdict == HF__VERDICT_BUSY || v->verdict == HF__VERDICT_LOST);
        t.late += counts && v->state == HF__VOTE_ANSWERED && v->op.result == HF_TIMEOUT;
    }
    t.answered_count = t.granted + t.busy + t.late;
    return t;
}

/* ---- The token ---- */

static uint64_t token_floor(const hf__quorum *q, uint64_t floor, hf__time now) {
    for (int i = 0; i < q->count; i++) {
        const hf__store *s = q->nodes[i].at.store;
        if (!s->up || !s->clock_at) continue;
        uint64_t ahead = (uint64_t)(AHEAD_US + q->store.round_trip_us);
        uint64_t clock = (uint64_t)(s->clock_us + (now - s->clock_at) / 1000) + ahead;
        if (clock > floor && clock < TOKEN_MAX) floor = clock;
    }
    return floor;
}

void hf__vote_raise(hf__vote *v, hf__time now) {
    const hf__quorum_op *qop = v->qop;
    if (v->op.token == qop->token) {
        v->verdict = HF__VERDICT_AGREED;
    } else if (!qop->over) {
        v->op.token = qop->token;
        hf__vote_submit(v, HF__RAISE_TOKEN, now);
    }
}

/* If the hold was gone, nothing was written, and the node does not count. */
void hf__vote_raised(hf__vote *v) {
    v->verdict = v->op.result == HF_OK     ? HF__VERDICT_AGREED
                 : v->op.result == HF_LOST ? HF__VERDICT_LOST
                                           : HF__VERDICT_NONE;
    v->maybe |= v->verdict == HF__VERDICT_NONE; /* the node may hold it */
}

static void agree_on_token(hf__quorum_op *qop, hf__time now) {
    for (int i = 0; i < qop->q->count; i++) {
        const hf__vote *v = &qop->votes[i];
        if (v->verdict == HF__VERDICT_GRANTED && v->op.token > qop->token) qop->token = v->op.token;
    }
    for (int i = 0; i < qop->q->count; i++)
        if (qop->votes[i].verdict == HF__VERDICT_GRANTED) hf__vote_raise(&qop->votes[i], now);
}

/* ---- Deciding ---- */

/* If another client has a majority, retry when the nodes say so. Otherwise several clients compete;
   a random delay separates them, and it grows with each attempt. */
static int64_t choose_retry_ms(hf__quorum_op *qop, const acquire_tally *t) {
    int64_t longest = 1;
    uint32_t doubling = qop->op->attempt < SPLIT_DOUBLING ? qop->op->attempt : SPLIT_DOUBLING;
    if (t->busy < qop->q->majority)
        return 1 + (int64_t)(hf__rand_next(&qop->q->rand) % ((uint64_t)SPLIT_FIRST_MS << doubling));
    for (int i = 0; i < qop->q->count; i++) {
        const hf__vote *v = &qop->votes[i];
        if (v->verdict != HF__VERDICT_BUSY) continue;
        if (v->op.retry_ms > longest) longest = v->op.retry_ms;
        if (v->op.holder_token > qop->op->holder_token) qop->op->holder_token = v->op.holder_token;
    }
    return longest;
}

static void fail_acquire(hf__quorum_op *qop, const acquire_tally *t, hf__time now) {
    hf__op *op = qop->op;
    op->outcome_unknown = op->queued = false; /* everything that was done is undone */
    op->holder_token = 0;
    op->detail = NULL;
    op->result = hf__quorum_op_refused(qop, &op->detail);
    if (!op->result && t->answered_count >= qop->q->majority)
        op->result = t->busy || !t->late ? HF_BUSY : HF_TIMEOUT;
    if (!op->result) {
        op->result = HF_UNREACHABLE;
        op->detail = hf__quorum_why(qop->q, qop);
    }
    qop->q->no_quorum = op->result == HF_UNREACHABLE;
    if (op->result == HF_BUSY) op->retry_ms = choose_retry_ms(qop, t);
    op->sent_at = qop->began;
    qop->op = NULL;
    qop->over = true;
    hf__quorum_undo(qop, op, now);
}

static void decide_acquire(hf__quorum_op *qop, hf__time now) {
    bool agreeing = qop->enough;
    acquire_tally t = count_votes(qop);
    if (!agreeing && t.granted >= qop->q->majority) {
        qop->enough = agreeing = true;
        agree_on_token(qop, now);
        t = count_votes(qop);
    }
    if (agreeing && t.agreed >= qop->q->majority) {
        qop->q->no_quorum = false;
        qop->op->token = qop->token;
        qop->op->outcome_unknown = qop->op->queued = qop->op->has_waiters = false;
        hf__quorum_op_complete(qop, HF_OK, NULL);
        return;
    }
    /* It cannot be granted any more. Once a majority has answered, it is known whether another
       client is the reason. */
    bool possible = (agreeing ? t.agreed : t.granted) + t.pending >= qop->q->majority;
    if (!possible && (!t.pending || t.answered_count >= qop->q->majority))
        fail_acquire(qop, &t, now);
}

static void note_acquire_answer(hf__quorum_op *qop, hf__vote *v, hf__time now) {
    if (v->op.result == HF_OK) {
        v->verdict = HF__VERDICT_GRANTED;
        if (qop->enough) hf__vote_raise(v, now);
    } else if (v->op.result == HF_BUSY) {
        v->verdict = HF__VERDICT_BUSY;
    }
}

static void note_answer(hf__quorum_op *qop, hf__vote *v, hf__time now) {
    if (v->op.verb == HF__ACQUIRE)
        note_acquire_answer(qop, v, now);
    else
        hf__vote_raised(v);
}

static const hf__quorum_rules rules = {note_answer, decide_acquire};

static hf_result check_acquire(const hf__quorum *q, const hf__op *op, char **detail) {
    if (op->kind != HF_MUTEX) return HF_UNSUPPORTED;
    return hf__quorum_lease_check(q->config.rejoin_ms, op->lease_ms, detail);
}

void hf__quorum_acquire(hf__quorum *q, hf__op *op, hf__time now) {
    char *detail = NULL;
    op->sent_at = now;
    hf_result r = check_acquire(q, op, &detail);
    hf__quorum_op *qop = r ? NULL : hf__quorum_op_new(q, &rules, op, now);
    if (!qop) {
        op->outcome_unknown = false;
        hf__quorum_complete(q, op, r ? r : HF_NOMEM, detail);
        return;
    }
    qop->op = op;
    qop->token = 0;
    uint64_t floor = token_floor(q, op->token, now);
    for (int i = 0; i < q->count; i++) {
        qop->votes[i].op.token = floor;
        hf__vote_submit(&qop->votes[i], HF__ACQUIRE, now);
    }
    hf__quorum_op_schedule(qop, now);
}
