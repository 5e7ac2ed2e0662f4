/* SPDX-License-Identifier: Apache-2.0 */
/* Sends an operation to all nodes, collects answers, and repeats releases. See quorum_op.h. */
#include "store/quorum/quorum_op.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define RETRY_FIRST (20 * HF__MS)
#define RETRY_MOST  HF__SEC
#define OWED_MAX    4096 /* releases that are remembered for unreachable nodes */
#define WHY_MAX     1500

/* ---- Creation and end ---- */

static hf__quorum_op **choose_list(const hf__quorum_op *qop) {
    return qop->is_acquire ? &qop->q->acquires : &qop->q->others;
}

static void link_quorum_op(hf__quorum_op *qop) {
    hf__quorum_op **list = choose_list(qop);
    qop->next = *list;
    if (qop->next) qop->next->prev = qop;
    *list = qop;
}

static void fill_vote(hf__vote *v, hf__quorum_op *qop, const hf__op *op) {
    v->qop = qop;
    v->op = *op;
    v->op.name = qop->name;
    v->op.next = v->op.next_in_multi = NULL;
    v->op.next_acquire = NULL;
    v->op.enqueue = v->op.leave_queue = v->op.inherits_position = false;
    v->op.exact_token = false; /* a node may hold under another token than the common one */
    v->op.detail = NULL;
}

hf__quorum_op *hf__quorum_op_new(hf__quorum *q, const hf__quorum_rules *rules, const hf__op *op,
                                 hf__time now) {
    size_t votes = (size_t)q->count * sizeof(hf__vote);
    hf__quorum_op *qop = calloc(1, sizeof *qop + votes + op->name_length + 1);
    if (!qop) return NULL;
    qop->q = q;
    qop->rules = rules;
    qop->is_acquire = op->verb == HF__ACQUIRE || op->verb == HF__RENEW;
    qop->began = now;
    qop->decide_by = now + q->config.command_timeout_ms * HF__MS / 5 * 4;
    qop->acquire_id = op->acquire_id;
    qop->token = op->token;
    qop->lease_ms = op->lease_ms;
    qop->name = (char *)qop->votes + votes;
    if (op->name_length) memcpy(qop->name, op->name, op->name_length);
    for (int i = 0; i < q->count; i++) fill_vote(&qop->votes[i], qop, op);
    link_quorum_op(qop);
    return qop;
}

void hf__quorum_op_free(hf__quorum_op *qop) {
    hf__quorum *q = qop->q;
    hf__heap_remove(&q->timers, &qop->timer);
    if (qop->gone_by) q->owed_count--;
    if (qop->prev)
        qop->prev->next = qop->next;
    else
        *choose_list(qop) = qop->next;
    if (qop->next) qop->next->prev = qop->prev;
    for (int i = 0; i < q->count; i++) free(qop->votes[i].op.detail);
    free(qop->infos);
    free(qop);
}

/* ---- Votes ---- */

hf__node *hf__vote_node(const hf__vote *v) {
    return &v->qop->q->nodes[v - v->qop->votes];
}

void hf__vote_submit(hf__vote *v, hf__verb verb, hf__time now) {
    hf__store *store = hf__vote_node(v)->at.store;
    free(v->op.detail);
    v->op.detail = NULL;
    v->op.verb = verb;
    v->op.result = HF_OK;
    v->op.outcome_unknown = false;
    v->op.link = 0;
    v->state = HF__VOTE_SENT;
    store->table->submit(store, &v->op, now);
}

bool hf__node_too_young(const hf__quorum *q, const hf__node *n, hf__time at) {
    return n->known && at < hf__after_ms(n->born, q->config.rejoin_ms);
}

bool hf__vote_counts(const hf__vote *v) {
    const hf__node *n = hf__vote_node(v);
    return n->known && n->link == v->op.link && !hf__node_too_young(v->qop->q, n, v->qop->began);
}

/* The uptime of a node may become known after its vote: if the node does not know the script for
   it, the request is sent again. */
bool hf__vote_pending(const hf__vote *v) {
    const hf__quorum_op *qop = v->qop;
    const hf__node *n = hf__vote_node(v);
    bool to_come = v->state == HF__VOTE_SENT ||
                   (v->state == HF__VOTE_ANSWERED && n->uptime_pending && n->link == v->op.link);
    return to_come && !qop->expired && !hf__node_too_young(qop->q, n, qop->began);
}

/* ---- Completion ---- */

void hf__quorum_complete(hf__quorum *q, hf__op *op, hf_result result, char *detail) {
    op->result = result;
    op->detail = detail;
    op->link = q->store.link;
    hf__ops_push(&q->done, op);
}

void hf__quorum_op_complete(hf__quorum_op *qop, hf_result result, char *detail) {
    hf__op *op = qop->op;
    qop->op = NULL;
    op->sent_at = qop->began;
    hf__quorum_complete(qop->q, op, result, detail);
}

/* ---- Events ---- */

/* An ACQUIRE without an answer may still take effect, until its `not_after`. */
static void note_late_acquire(hf__vote *v) {
    hf__node *n = hf__vote_node(v);
    if (v->op.verb != HF__ACQUIRE || !v->op.outcome_unknown) return;
    v->maybe = true;
    n->late_until = hf__later(n->late_until, hf__vote_late_until(v));
}

void hf__quorum_op_answered(hf__vote *v, hf__time now) {
    hf__quorum_op *qop = v->qop;
    v->state = HF__VOTE_ANSWERED;
    note_late_acquire(v);
    qop->rules->answered(qop, v, now);
    if (qop->op) qop->rules->decide(qop, now);
    hf__quorum_op_schedule(qop, now);
}

static void resend_releases(hf__quorum_op *qop, const hf__node *only, hf__time now) {
    for (int i = 0; i < qop->q->count; i++) {
        hf__vote *v = &qop->votes[i];
        const hf__node *n = &qop->q->nodes[i];
        if (v->state != HF__VOTE_OWED || !n->at.store->up || (only && n != only)) continue;
        v->op.tombstone_until = n->late_until > now ? n->late_until : 0;
        hf__vote_submit(v, HF__RELEASE, now);
    }
    qop->retry_at =
        now + hf__jitter(&qop->q->rand, hf__sooner(RETRY_FIRST << qop->tries, RETRY_MOST));
    if (qop->tries < 6) qop->tries++;
}

void hf__quorum_ops_uptime_known(hf__quorum *q, hf__time now) {
    for (hf__quorum_op *qop = q->acquires, *next; qop; qop = next) {
        next = qop->next;
        if (!qop->op) continue;
        qop->rules->decide(qop, now);
        hf__quorum_op_schedule(qop, now);
    }
}

void hf__quorum_ops_retry(hf__quorum *q, const hf__node *n, hf__time now) {
    for (hf__quorum_op *qop = q->others, *next; qop; qop = next) {
        next = qop->next;
        if (!qop->gone_by) continue;
        resend_releases(qop, n, now);
        hf__quorum_op_schedule(qop, now);
    }
}

void hf__quorum_op_due(hf__quorum_op *qop, hf__time now) {
    if (qop->op && now >= qop->decide_by) {
        qop->expired = true;
        qop->rules->decide(qop, now);
    }
    if (qop->gone_by && now >= qop->retry_at) resend_releases(qop, NULL, now);
    hf__quorum_op_schedule(qop, now);
}

/* Owed releases are kept until the lease has ended. Their number is limited. */
static bool keep_owed_releases(hf__quorum_op *qop, hf__time now) {
    bool owed = false;
    for (int i = 0; i < qop->q->count; i++) owed |= qop->votes[i].state == HF__VOTE_OWED;
    if (!owed) return false;
    hf__time gone_by = qop->votes[0].op.expired_by;
    if (!qop->gone_by && gone_by > now && qop->q->owed_count < OWED_MAX) {
        qop->q->owed_count++;
        qop->gone_by = gone_by;
        qop->retry_at = now + RETRY_FIRST;
    }
    return qop->gone_by > now && !qop->q->shut;
}

void hf__quorum_op_schedule(hf__quorum_op *qop, hf__time now) {
    bool sent = false, owed = !qop->op && keep_owed_releases(qop, now);
    for (int i = 0; i < qop->q->count; i++) sent |= qop->votes[i].state == HF__VOTE_SENT;
    if (!qop->op && !sent && !owed) {
        hf__quorum_op_free(qop);
        return;
    }
    hf__time due = qop->op ? qop->decide_by
                   : owed  ? hf__sooner(qop->retry_at, qop->gone_by)
                           : HF__NEVER;
    hf__heap_set(&qop->q->timers, &qop->timer, due);
}

/* ---- Explanations ---- */

hf_result hf__quorum_op_refused(const hf__quorum_op *qop, char **detail) {
    int refused = 0;
    const hf__vote *first = NULL;
    for (int i = 0; i < qop->q->count; i++) {
        const hf__vote *v = &qop->votes[i];
        hf_result r = v->state == HF__VOTE_ANSWERED ? v->op.result : HF_OK;
        if (r == HF_OK || r == HF_BUSY || r == HF_TIMEOUT || r == HF_LOST || r == HF_NOT_HELD ||
            r == HF_UNREACHABLE)
            continue;
        refused++;
        if (!first) first = v;
    }
    if (!first || qop->q->count - refused >= qop->q->majority) return HF_OK;
    *detail = first->op.detail ? strdup(first->op.detail) : NULL;
    return first->op.result;
}

/* Why a node cannot agree. Returns 0 if it can, or has not answered yet. */
static int explain_node(const hf__quorum *q, const hf__quorum_op *qop, int i, char *to,
                        size_t size) {
    const hf__node *n = &q->nodes[i];
    const hf__vote *v = qop ? &qop->votes[i] : NULL;
    const char *down = n->at.store->up ? NULL : n->at.store->down_detail;
    if (n->at.store->up && hf__node_too_young(q, n, qop ? qop->began : q->now))
        return snprintf(to, size,
                        "%s has been up for %" PRId64 " ms and votes after rejoin_delay (%" PRId64
                        " ms)",
                        n->at.name, (q->now - n->born) / HF__MS, q->config.rejoin_ms);
    if (v && v->state == HF__VOTE_ANSWERED && v->op.detail)
        return snprintf(to, size, "%s", v->op.detail);
    return down ? snprintf(to, size, "%s", down) : 0;
}

static int explain_silent_node(const hf__quorum *q, const hf__quorum_op *qop, int i, char *to,
                               size_t size) {
    const hf__node *n = &q->nodes[i];
    bool silent = !n->at.store->up || (qop && qop->votes[i].state == HF__VOTE_SENT);
    return silent ? snprintf(to, size, "%s has not answered", n->at.name) : 0;
}

char *hf__quorum_why(const hf__quorum *q, const hf__quorum_op *qop) {
    char nodes[WHY_MAX] = "";
    size_t used = 0;
    int unable = 0;
    for (int i = 0; i < q->count; i++) {
        char one[400];
        unable += explain_node(q, qop, i, one, sizeof one) > 0;
    }
    /* if too many nodes cannot agree, the others are not waited for */
    bool awaited = q->count - unable >= q->majority;
    for (int i = 0; i < q->count && used + 3 < sizeof nodes; i++) {
        char one[400];
        if (explain_node(q, qop, i, one, sizeof one) <= 0 &&
            (!awaited || explain_silent_node(q, qop, i, one, sizeof one) <= 0))
            continue;
        int n = snprintf(nodes + used, sizeof nodes - used, "%s%s", used ? "; " : ": ", one);
        used = n < 0 || (size_t)n >= sizeof nodes - used ? sizeof nodes : used + (size_t)n;
    }
    return hf__line("%d of the %d nodes must agree, but too few can%s", q->majority, q->count,
                    nodes);
}
