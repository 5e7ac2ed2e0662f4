/* SPDX-License-Identifier: Apache-2.0 */
/*
 * RENEW succeeds if a majority has renewed. Then the hold is acquired again on nodes that do not
 * have it, if the lock is free there. Such a node was unreachable at the acquire, or has lost its
 * data. It counts from the next renewal on. Without a majority nothing is acquired anywhere.
 *
 * The uptime of a node does not matter here. Until now, the hold was valid, so it has excluded all
 * other clients. From now on, each node that has the hold excludes them, even if it has lost data
 * before.
 */
#include <stdlib.h>

#include "base/error.h"
#include "store/quorum/quorum_op.h"

static void acquire_again(hf__vote *v, hf__time now) {
    const hf__quorum_op *qop = v->qop;
    hf__time until = hf__after_ms(qop->began, qop->q->config.command_timeout_ms);
    if (qop->over || !qop->lease_ms || now >= until) return;
    v->op.lease_ms = qop->lease_ms;
    v->op.not_after = until;
    v->op.attempt = 0;
    hf__vote_submit(v, HF__ACQUIRE, now);
}

static void decide_renew(hf__quorum_op *qop, hf__time now) {
    int kept = 0, lost = 0, pending = 0;
    hf__quorum *q = qop->q;
    for (int i = 0; i < q->count; i++) {
        kept += qop->votes[i].verdict == HF__VERDICT_AGREED;
        lost += qop->votes[i].verdict == HF__VERDICT_LOST;
        pending += qop->votes[i].state == HF__VOTE_SENT && !qop->expired;
    }
    qop->op->has_waiters = qop->op->outcome_unknown = false;
    if (kept >= q->majority) {
        q->no_quorum = false;
        qop->enough = true;
        hf__quorum_op_complete(qop, HF_OK, NULL);
        for (int i = 0; i < q->count; i++)
            if (qop->votes[i].verdict == HF__VERDICT_LOST) acquire_again(&qop->votes[i], now);
    } else if (q->count - lost < q->majority) {
        hf__quorum_op_complete(qop, HF_LOST, NULL);
        qop->over = true;
        hf__quorum_undo(qop, NULL, now);
    } else if (kept + pending < q->majority) {
        char *detail = NULL;
        hf_result r = hf__quorum_op_refused(qop, &detail);
        q->no_quorum = !r;
        qop->op->outcome_unknown = true;
        hf__quorum_op_complete(qop, r ? r : HF_UNREACHABLE, r ? detail : hf__quorum_why(q, qop));
    }
}

static void note_renew_answer(const hf__quorum_op *qop, hf__vote *v, hf__time now) {
    v->verdict = v->op.result == HF_OK     ? HF__VERDICT_AGREED
                 : v->op.result == HF_LOST ? HF__VERDICT_LOST
                                           : HF__VERDICT_NONE;
    v->maybe = v->verdict == HF__VERDICT_NONE;
    if (qop->enough && v->verdict == HF__VERDICT_LOST) acquire_again(v, now);
}

static void note_answer(hf__quorum_op *qop, hf__vote *v, hf__time now) {
    if (v->op.verb == HF__RENEW)
        note_renew_answer(qop, v, now);
    else if (v->op.verb == HF__ACQUIRE && v->op.result == HF_OK)
        hf__vote_raise(v, now);
}

static const hf__quorum_rules rules = {note_answer, decide_renew};

void hf__quorum_renew(hf__quorum *q, hf__op *op, hf__time now) {
    op->sent_at = now;
    char *detail = NULL;
    hf_result r = hf__quorum_lease_check(q->config.rejoin_ms, op->lease_ms, &detail);
    hf__quorum_op *qop = r ? NULL : hf__quorum_op_new(q, &rules, op, now);
    if (!qop) {
        op->outcome_unknown = false;
        hf__quorum_complete(q, op, r ? r : HF_NOMEM, detail);
        return;
    }
    qop->op = op;
    for (int i = 0; i < q->count; i++) hf__vote_submit(&qop->votes[i], HF__RENEW, now);
    hf__quorum_op_schedule(qop, now);
}
