/* SPDX-License-Identifier: Apache-2.0 */
/* RELEASE goes to all nodes. It is decided when a majority has answered. The other nodes then get a
   short time to answer, so that a client that closes right after the release leaves no hold on a
   slower node. A node that does not answer gets the release again, until it answers or the lease
   has ended. */
#include "base/error.h"
#include "store/quorum/quorum_op.h"

#define GRACE (2 * HF__MS) /* plus three times what a majority took */

typedef struct release_tally {
    int done, lost, pending;
    bool maybe;
} release_tally;

static release_tally count_votes(const hf__quorum_op *qop) {
    release_tally t = {0};
    for (int i = 0; i < qop->q->count; i++) {
        const hf__vote *v = &qop->votes[i];
        t.pending += v->state == HF__VOTE_SENT && !qop->expired;
        t.done += v->state == HF__VOTE_ANSWERED && v->op.result == HF_OK;
        t.lost += v->state == HF__VOTE_ANSWERED && v->op.result == HF_LOST;
        t.maybe |= v->maybe || v->state == HF__VOTE_SENT;
    }
    return t;
}

/* The votes without an answer are dropped here: the caller will retry with all nodes. */
static void complete_unreachable(hf__quorum_op *qop, hf_result result, char *detail) {
    for (int i = 0; i < qop->q->count; i++)
        if (qop->votes[i].state == HF__VOTE_OWED) qop->votes[i].state = HF__VOTE_NONE;
    hf__quorum_op_complete(qop, result, detail);
}

/* HF_OK only if a majority had the hold. If too few other nodes are left for a majority, it was
   lost before. In between the outcome is unknown: another client may have held the lock on the
   nodes that did not have our hold and on those that do not answer. */
static void complete_release(hf__quorum_op *qop, const release_tally *t) {
    hf__quorum *q = qop->q;
    bool answered_count = t->done + t->lost >= q->majority;
    qop->op->outcome_unknown = false;
    if (t->done >= q->majority) {
        hf__quorum_op_complete(qop, HF_OK, NULL);
    } else if (answered_count) {
        qop->op->outcome_unknown = t->done && q->count - t->lost >= q->majority;
        hf__quorum_op_complete(qop, HF_LOST, NULL);
    } else {
        char *detail = NULL;
        hf_result refused = hf__quorum_op_refused(qop, &detail);
        if (!refused) detail = hf__quorum_why(q, qop);
        q->no_quorum = !refused;
        qop->op->outcome_unknown = t->maybe || t->done;
        complete_unreachable(qop, refused ? refused : HF_UNREACHABLE, detail);
    }
}

/* The caller's operation has its result already, and only waits for the undo. */
static void complete_undo(hf__quorum_op *qop) {
    hf__op *op = qop->op;
    qop->op = NULL;
    hf__quorum_complete(qop->q, op, op->result, op->detail);
}

static void decide_release(hf__quorum_op *qop, hf__time now) {
    release_tally t = count_votes(qop);
    if (!t.pending && qop->has_result) {
        complete_undo(qop);
    } else if (!t.pending) {
        complete_release(qop, &t);
    } else if (!qop->enough && !qop->has_result &&
               (t.done >= qop->q->majority || qop->q->count - t.lost < qop->q->majority)) {
        qop->enough = true;
        qop->decide_by = hf__sooner(qop->decide_by, now + GRACE + 3 * (now - qop->began));
    }
}

static void note_answer(hf__quorum_op *qop, hf__vote *v, hf__time now) {
    (void)qop, (void)now;
    if (v->op.result != HF_UNREACHABLE) return;
    v->maybe |= v->op.outcome_unknown;
    v->state = HF__VOTE_OWED;
}

static const hf__quorum_rules rules = {note_answer, decide_release};

/* From now on no ACQUIRE or RAISE_TOKEN is sent for this acquire id. */
static void stop_acquires(hf__quorum *q, uint64_t acquire_id) {
    for (hf__quorum_op *qop = q->acquires; qop; qop = qop->next)
        if (qop->acquire_id == acquire_id) qop->over = true;
}

/* An ACQUIRE that is in flight may be executed after this release, even on the same connection. The
   ACQUIRE is sent again to a node that does not know the script yet, and to a node that answered
   that it was too late. */
static hf__time find_late_acquire_until(const hf__quorum *q, ptrdiff_t node, uint64_t acquire_id) {
    hf__time until = 0;
    for (const hf__quorum_op *qop = q->acquires; qop; qop = qop->next) {
        const hf__vote *v = &qop->votes[node];
        if (qop->acquire_id == acquire_id && v->state == HF__VOTE_SENT && v->op.verb == HF__ACQUIRE)
            until = hf__later(until, hf__vote_late_until(v));
    }
    return until;
}

static void submit_release(hf__vote *v, hf__time tombstone_until, hf__time now) {
    const hf__quorum_op *qop = v->qop;
    hf__time late = hf__vote_node(v)->late_until;
    tombstone_until = hf__later(tombstone_until,
                                find_late_acquire_until(qop->q, v - qop->votes, qop->acquire_id));
    v->op.tombstone_until = hf__later(tombstone_until, late > now ? late : 0);
    hf__vote_submit(v, HF__RELEASE, now);
}

void hf__quorum_release(hf__quorum *q, hf__op *op, hf__time now) {
    op->sent_at = now;
    hf__quorum_op *qop = hf__quorum_op_new(q, &rules, op, now);
    if (!qop) {
        op->outcome_unknown = false;
        hf__quorum_complete(q, op, HF_NOMEM, NULL);
        return;
    }
    stop_acquires(q, op->acquire_id);
    qop->op = op;
    for (int i = 0; i < q->count; i++) submit_release(&qop->votes[i], op->tombstone_until, now);
    hf__quorum_op_schedule(qop, now);
}

/* Whether the node has the hold, or may have it now or later. */
static bool may_hold(const hf__vote *v) {
    return v->state == HF__VOTE_SENT || v->maybe || v->verdict == HF__VERDICT_GRANTED ||
           v->verdict == HF__VERDICT_AGREED;
}

void hf__quorum_undo(hf__quorum_op *of, hf__op *op, hf__time now) {
    hf__quorum *q = of->q;
    hf__time latest = hf__after_ms(now, q->config.command_timeout_ms);
    const hf__op release = {.verb = HF__RELEASE,
                            .name = of->name,
                            .name_length = of->votes[0].op.name_length,
                            .acquire_id = of->acquire_id,
                            .lease_ms = of->lease_ms,
                            .held_since = of->began,
                            .expired_by = hf__after_ms(latest, of->lease_ms + of->lease_ms / 50)};
    hf__quorum_op *qop = hf__quorum_op_new(q, &rules, &release, now);
    if (!qop) { /* the grants then end with their leases */
        if (op) hf__quorum_complete(q, op, op->result, op->detail);
        return;
    }
    qop->op = op;
    qop->has_result = true;
    qop->decide_by = now + GRACE + 3 * (now - of->began);
    for (int i = 0; i < q->count; i++)
        if (may_hold(&of->votes[i])) submit_release(&qop->votes[i], 0, now);
    if (qop->op) decide_release(qop, now);
    hf__quorum_op_schedule(qop, now);
}
