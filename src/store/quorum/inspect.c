/* SPDX-License-Identifier: Apache-2.0 */
/* INSPECT, CLIENT_INFO and BREAK go to all nodes. The holder of a lock is the client that a
   majority reports, or could report if all nodes answered. A client that only a minority reports is
   still trying to acquire. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/quorum/quorum_op.h"

static bool vote_answered(const hf__vote *v) {
    return v->state == HF__VOTE_ANSWERED;
}

static bool vote_succeeded(const hf__vote *v) {
    return vote_answered(v) && v->op.result == HF_OK;
}

static int count_pending(const hf__quorum_op *qop) {
    int n = 0;
    for (int i = 0; i < qop->q->count; i++)
        n += qop->votes[i].state == HF__VOTE_SENT && !qop->expired;
    return n;
}

static void complete_without_majority(hf__quorum_op *qop) {
    char *detail = NULL;
    hf_result r = hf__quorum_op_refused(qop, &detail);
    bool again =
        qop->op->outcome_unknown || !qop->q->store.up; /* the caller decides what that means */
    if (!r) detail = hf__quorum_why(qop->q, qop);
    qop->q->no_quorum = !r;
    hf__quorum_op_complete(qop, r ? r : again ? HF_UNREACHABLE : HF_NO_QUORUM, detail);
}

static void ignore_answer(hf__quorum_op *qop, hf__vote *v, hf__time now) {
    (void)qop, (void)v, (void)now;
}

/* ---- INSPECT ---- */

static bool same_holder(const hf__lock_info *a, const hf__lock_info *b) {
    return a->held && b->held && !strcmp(a->identity.client, b->identity.client);
}

/* How many nodes report the same holder as node `i`; with `token`, also the same token. */
static int count_agreeing(const hf__quorum_op *qop, int i, bool token) {
    int n = 0;
    for (int j = 0; j < qop->q->count; j++)
        n += vote_succeeded(&qop->votes[j]) && same_holder(&qop->infos[i], &qop->infos[j]) &&
             (!token || qop->infos[i].token == qop->infos[j].token);
    return n;
}

/* The node whose report agrees with most others; -1: no node reports a holder. On a tie the highest
   token wins: a lower one is older, or not raised yet. */
static int find_best_info(const hf__quorum_op *qop) {
    int best = -1, most = 0;
    for (int i = 0; i < qop->q->count; i++) {
        if (!vote_succeeded(&qop->votes[i]) || !qop->infos[i].held) continue;
        int weight =
            count_agreeing(qop, i, false) * HF__NODES_MAX * 2 + count_agreeing(qop, i, true);
        if (weight < most || (weight == most && qop->infos[i].token < qop->infos[best].token))
            continue;
        most = weight;
        best = i;
    }
    return best;
}

/* The hold lasts as long as a majority of nodes has it. */
static int64_t majority_remaining_ms(const hf__quorum_op *qop, int best) {
    int64_t left = 0;
    for (int i = 0; i < qop->q->count; i++) {
        int longer = 0;
        if (!vote_succeeded(&qop->votes[i]) || !same_holder(&qop->infos[i], &qop->infos[best]))
            continue;
        for (int j = 0; j < qop->q->count; j++)
            longer += vote_succeeded(&qop->votes[j]) &&
                      same_holder(&qop->infos[j], &qop->infos[best]) &&
                      qop->infos[j].remaining_ms >= qop->infos[i].remaining_ms;
        if (longer >= qop->q->majority && qop->infos[i].remaining_ms > left)
            left = qop->infos[i].remaining_ms;
    }
    return left ? left : qop->infos[best].remaining_ms;
}

static void decide_inspect(hf__quorum_op *qop, hf__time now) {
    (void)now;
    int answered_count = 0, unheld = 0, silent = 0, best = find_best_info(qop);
    for (int i = 0; i < qop->q->count; i++) {
        answered_count += vote_succeeded(&qop->votes[i]);
        unheld += vote_succeeded(&qop->votes[i]) && !qop->infos[i].held;
        silent += !vote_succeeded(&qop->votes[i]);
    }
    int same = best < 0 ? 0 : count_agreeing(qop, best, false);
    int owned = best < 0 ? 0 : count_agreeing(qop, best, true);
    bool clear = owned >= qop->q->majority || unheld >= qop->q->majority;
    if (!clear && count_pending(qop)) return;
    if (answered_count < qop->q->majority) {
        complete_without_majority(qop);
        return;
    }
    if (same && same + silent >= qop->q->majority) {
        int64_t left = majority_remaining_ms(qop, best);
        *qop->op->lock_info = qop->infos[best];
        qop->op->lock_info->remaining_ms = left;
    }
    hf__quorum_op_complete(qop, HF_OK, NULL);
}

/* ---- CLIENT_INFO ---- */

static void decide_client_info(hf__quorum_op *qop, hf__time now) {
    (void)now;
    int answered_count = 0;
    for (int i = 0; i < qop->q->count; i++) {
        answered_count += vote_succeeded(&qop->votes[i]);
        const hf__identity *who = &qop->infos[i].identity;
        if (!vote_succeeded(&qop->votes[i]) || !(who->pid || *who->host || *who->program)) continue;
        qop->op->lock_info->identity = *who;
        hf__quorum_op_complete(qop, HF_OK, NULL);
        return;
    }
    if (count_pending(qop)) return;
    if (answered_count)
        hf__quorum_op_complete(qop, HF_OK, NULL);
    else
        complete_without_majority(qop);
}

/* ---- BREAK ---- */

/* The highest token among the answers with this result. */
static uint64_t highest_token(const hf__quorum_op *qop, hf_result result) {
    uint64_t token = 0;
    for (int i = 0; i < qop->q->count; i++)
        if (vote_answered(&qop->votes[i]) && qop->votes[i].op.result == result &&
            qop->votes[i].op.token > token)
            token = qop->votes[i].op.token;
    return token;
}

/* The hold is broken once so few nodes may still have it that they are no majority. */
static void decide_break(hf__quorum_op *qop, hf__time now) {
    (void)now;
    int broken = 0, not_held = 0, late = 0, maybe = 0;
    for (int i = 0; i < qop->q->count; i++) {
        const hf__vote *v = &qop->votes[i];
        broken += vote_succeeded(v);
        not_held += vote_answered(v) && v->op.result == HF_NOT_HELD;
        late += vote_answered(v) && v->op.result == HF_TIMEOUT;
        maybe += v->state == HF__VOTE_SENT || v->op.outcome_unknown;
    }
    if (broken < qop->q->majority && count_pending(qop)) return;
    qop->op->outcome_unknown = false;
    if (broken + not_held >= qop->q->majority) {
        hf_result r = broken ? HF_OK : HF_NOT_HELD;
        qop->op->token = highest_token(qop, r);
        hf__quorum_op_complete(qop, r, NULL);
        return;
    }
    qop->op->outcome_unknown = maybe || broken;
    if (late && !qop->op->outcome_unknown)
        hf__quorum_op_complete(qop, HF_TIMEOUT, NULL);
    else
        complete_without_majority(qop);
}

static const hf__quorum_rules inspect = {ignore_answer, decide_inspect};
static const hf__quorum_rules client_info = {ignore_answer, decide_client_info};
static const hf__quorum_rules breaking = {ignore_answer, decide_break};

/* Each node fills in its own lock info. */
static bool add_infos(hf__quorum_op *qop, const hf__op *op) {
    if (!op->lock_info) return true;
    qop->infos = calloc((size_t)qop->q->count, sizeof *qop->infos);
    for (int i = 0; qop->infos && i < qop->q->count; i++) {
        memcpy(qop->infos[i].identity.client, op->lock_info->identity.client,
               sizeof op->lock_info->identity.client);
        qop->votes[i].op.lock_info = &qop->infos[i];
    }
    return qop->infos;
}

void hf__quorum_inspect(hf__quorum *q, hf__op *op, hf__time now) {
    const hf__quorum_rules *rules = op->verb == HF__INSPECT       ? &inspect
                                    : op->verb == HF__CLIENT_INFO ? &client_info
                                                                  : &breaking;
    op->sent_at = now;
    op->outcome_unknown = false;
    hf__quorum_op *qop = hf__quorum_op_new(q, rules, op, now);
    if (!qop || !add_infos(qop, op)) {
        if (qop) hf__quorum_op_free(qop);
        hf__quorum_complete(q, op, HF_NOMEM, NULL);
        return;
    }
    qop->op = op;
    for (int i = 0; i < q->count; i++) hf__vote_submit(&qop->votes[i], op->verb, now);
    hf__quorum_op_schedule(qop, now);
}
