/*
 * RENEW: kept where a majority says so. A node that does not have the hold is then given it again, if it
 * is free there: one that was away when it was taken, or that came back without its data. That counts
 * from the next renewal on. Without a majority nothing is taken anywhere.
 *
 * The age of a node does not matter here. A hold that was good until now has kept all others out, and a node
 * that has it keeps them out from now on, whatever it may have forgotten.
 */
#include <stdlib.h>

#include "base/error.h"
#include "store/quorum/quorum_op.h"

static void retake(hf__vote *v, hf__time now) {
    const hf__ballot *b = v->ballot;
    hf__time until = hf__after_ms(b->began, b->q->config.command_timeout_ms);
    if (b->over || !b->lease_ms || now >= until) return;
    v->op.lease_ms = b->lease_ms;
    v->op.not_after = until;
    v->op.attempt = 0;
    hf__vote_cast(v, HF__ACQUIRE, now);
}

static void weigh(hf__ballot *b, hf__time now) {
    int kept = 0, lost = 0, pending = 0;
    hf__quorum *q = b->q;
    for (int i = 0; i < q->count; i++) {
        kept += b->votes[i].stand == HF__STANDS_AGREED;
        lost += b->votes[i].stand == HF__STANDS_LOST;
        pending += b->votes[i].state == HF__VOTE_SENT && !b->expired;
    }
    b->op->has_waiters = b->op->outcome_unknown = false;
    if (kept >= q->majority) {
        q->no_quorum = false;
        b->enough = true;
        hf__ballot_tell(b, HF_OK, NULL);
        for (int i = 0; i < q->count; i++)
            if (b->votes[i].stand == HF__STANDS_LOST) retake(&b->votes[i], now);
    } else if (q->count - lost < q->majority) {
        hf__ballot_tell(b, HF_LOST, NULL);
        b->over = true;
        hf__quorum_undo(b, NULL, now);
    } else if (kept + pending < q->majority) {
        char *detail = NULL;
        hf_result r = hf__ballot_refused(b, &detail);
        q->no_quorum = !r;
        b->op->outcome_unknown = true;
        hf__ballot_tell(b, r ? r : HF_UNREACHABLE, r ? detail : hf__quorum_why(q, b));
    }
}

static void renewed(const hf__ballot *b, hf__vote *v, hf__time now) {
    v->stand = v->op.result == HF_OK     ? HF__STANDS_AGREED
               : v->op.result == HF_LOST ? HF__STANDS_LOST
                                         : HF__STANDS_NOT;
    v->maybe = v->stand == HF__STANDS_NOT;
    if (b->enough && v->stand == HF__STANDS_LOST) retake(v, now);
}

static void answered(hf__ballot *b, hf__vote *v, hf__time now) {
    if (v->op.verb == HF__RENEW)
        renewed(b, v, now);
    else if (v->op.verb == HF__ACQUIRE && v->op.result == HF_OK)
        hf__vote_raise(v, now);
}

static const hf__motion motion = {answered, weigh};

void hf__quorum_renew(hf__quorum *q, hf__op *op, hf__time now) {
    op->sent_at = now;
    char *detail = NULL;
    hf_result r = hf__quorum_lease_check(q->config.rejoin_ms, op->lease_ms, &detail);
    hf__ballot *b = r ? NULL : hf__ballot_new(q, &motion, op, now);
    if (!b) {
        op->outcome_unknown = false;
        hf__quorum_complete(q, op, r ? r : HF_NOMEM, detail);
        return;
    }
    b->op = op;
    for (int i = 0; i < q->count; i++) hf__vote_cast(&b->votes[i], HF__RENEW, now);
    hf__ballot_settle(b, now);
}
