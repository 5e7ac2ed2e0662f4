#include "store/quorum/quorum_op.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define RETRY_FIRST (20 * HF__MS)
#define RETRY_MOST  HF__SEC
#define OWING_MAX   4096 /* releases that are remembered for nodes that are away */
#define WHY_MAX     1500

/* ---- Making and ending ---- */

static hf__ballot **list_of(const hf__ballot *b) {
    return b->asks ? &b->q->asking : &b->q->ballots;
}

static void link_ballot(hf__ballot *b) {
    hf__ballot **list = list_of(b);
    b->next = *list;
    if (b->next) b->next->prev = b;
    *list = b;
}

static void fill_vote(hf__vote *v, hf__ballot *b, const hf__op *op) {
    v->ballot = b;
    v->op = *op;
    v->op.name = b->name;
    v->op.next = v->op.together = NULL;
    v->op.next_acquire = NULL;
    v->op.enqueue = v->op.leave_queue = v->op.inherits_position = false;
    v->op.exact_token = false; /* a node may have it under another token than all agree on */
    v->op.detail = NULL;
}

hf__ballot *hf__ballot_new(hf__quorum *q, const hf__motion *motion, const hf__op *op,
                           hf__time now) {
    size_t votes = (size_t)q->count * sizeof(hf__vote);
    hf__ballot *b = calloc(1, sizeof *b + votes + op->name_length + 1);
    if (!b) return NULL;
    b->q = q;
    b->motion = motion;
    b->asks = op->verb == HF__ACQUIRE || op->verb == HF__RENEW;
    b->began = now;
    b->decide_by = now + q->config.command_timeout_ms * HF__MS / 5 * 4;
    b->acquire_id = op->acquire_id;
    b->token = op->token;
    b->lease_ms = op->lease_ms;
    b->name = (char *)b->votes + votes;
    if (op->name_length) memcpy(b->name, op->name, op->name_length);
    for (int i = 0; i < q->count; i++) fill_vote(&b->votes[i], b, op);
    link_ballot(b);
    return b;
}

void hf__ballot_free(hf__ballot *b) {
    hf__quorum *q = b->q;
    hf__heap_remove(&q->timers, &b->timer);
    if (b->gone_by) q->owing--;
    if (b->prev)
        b->prev->next = b->next;
    else
        *list_of(b) = b->next;
    if (b->next) b->next->prev = b->prev;
    for (int i = 0; i < q->count; i++) free(b->votes[i].op.detail);
    free(b->sights);
    free(b);
}

/* ---- Votes ---- */

hf__node *hf__vote_node(const hf__vote *v) {
    return &v->ballot->q->nodes[v - v->ballot->votes];
}

void hf__vote_cast(hf__vote *v, hf__verb verb, hf__time now) {
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
    return n->known && n->link == v->op.link &&
           !hf__node_too_young(v->ballot->q, n, v->ballot->began);
}

/* A node that does not know the script that tells its age answers that question after the vote. */
bool hf__vote_pending(const hf__vote *v) {
    const hf__ballot *b = v->ballot;
    const hf__node *n = hf__vote_node(v);
    bool to_come = v->state == HF__VOTE_SENT ||
                   (v->state == HF__VOTE_IN && n->asking && n->link == v->op.link);
    return to_come && !b->expired && !hf__node_too_young(b->q, n, b->began);
}

/* ---- Telling ---- */

void hf__quorum_complete(hf__quorum *q, hf__op *op, hf_result result, char *detail) {
    op->result = result;
    op->detail = detail;
    op->link = q->store.link;
    op->next = NULL;
    if (q->done_last)
        q->done_last->next = op;
    else
        q->done_first = op;
    q->done_last = op;
}

void hf__ballot_tell(hf__ballot *b, hf_result result, char *detail) {
    hf__op *op = b->op;
    b->op = NULL;
    op->sent_at = b->began;
    hf__quorum_complete(b->q, op, result, detail);
}

/* ---- What happens ---- */

/* An ACQUIRE that was sent and not answered may still come, until it must not act any more. */
static void note_late(hf__vote *v) {
    hf__node *n = hf__vote_node(v);
    if (v->op.verb != HF__ACQUIRE || !v->op.outcome_unknown) return;
    v->maybe = true;
    n->late_until = hf__later(n->late_until, hf__vote_late_until(v));
}

void hf__ballot_answered(hf__vote *v, hf__time now) {
    hf__ballot *b = v->ballot;
    v->state = HF__VOTE_IN;
    note_late(v);
    b->motion->answered(b, v, now);
    if (b->op) b->motion->weigh(b, now);
    hf__ballot_settle(b, now);
}

static void say_again(hf__ballot *b, const hf__node *only, hf__time now) {
    for (int i = 0; i < b->q->count; i++) {
        hf__vote *v = &b->votes[i];
        const hf__node *n = &b->q->nodes[i];
        if (v->state != HF__VOTE_OWED || !n->at.store->up || (only && n != only)) continue;
        v->op.tombstone_until = n->late_until > now ? n->late_until : 0;
        hf__vote_cast(v, HF__RELEASE, now);
    }
    b->retry_at = now + hf__jitter(&b->q->rand, hf__sooner(RETRY_FIRST << b->tries, RETRY_MOST));
    if (b->tries < 6) b->tries++;
}

void hf__ballots_age_known(hf__quorum *q, hf__time now) {
    for (hf__ballot *b = q->asking, *next; b; b = next) {
        next = b->next;
        if (!b->op) continue;
        b->motion->weigh(b, now);
        hf__ballot_settle(b, now);
    }
}

void hf__ballots_retry(hf__quorum *q, const hf__node *n, hf__time now) {
    for (hf__ballot *b = q->ballots, *next; b; b = next) {
        next = b->next;
        if (!b->gone_by) continue;
        say_again(b, n, now);
        hf__ballot_settle(b, now);
    }
}

void hf__ballot_due(hf__ballot *b, hf__time now) {
    if (b->op && now >= b->decide_by) {
        b->expired = true;
        b->motion->weigh(b, now);
    }
    if (b->gone_by && now >= b->retry_at) say_again(b, NULL, now);
    hf__ballot_settle(b, now);
}

/* What is owed is kept while somebody waits for it, or for as long as it may matter. */
static bool still_owed(hf__ballot *b, hf__time now) {
    bool owed = false;
    for (int i = 0; i < b->q->count; i++) owed |= b->votes[i].state == HF__VOTE_OWED;
    if (!owed) return false;
    hf__time gone_by = b->votes[0].op.expired_by;
    if (!b->gone_by && gone_by > now && b->q->owing < OWING_MAX) {
        b->q->owing++;
        b->gone_by = gone_by;
        b->retry_at = now + RETRY_FIRST;
    }
    return b->gone_by > now && !b->q->shut;
}

void hf__ballot_settle(hf__ballot *b, hf__time now) {
    bool sent = false, owed = !b->op && still_owed(b, now);
    for (int i = 0; i < b->q->count; i++) sent |= b->votes[i].state == HF__VOTE_SENT;
    if (!b->op && !sent && !owed) {
        hf__ballot_free(b);
        return;
    }
    hf__time due = b->op ? b->decide_by : owed ? hf__sooner(b->retry_at, b->gone_by) : HF__NEVER;
    hf__heap_set(&b->q->timers, &b->timer, due);
}

/* ---- Why not ---- */

hf_result hf__ballot_refused(const hf__ballot *b, char **detail) {
    int refused = 0;
    const hf__vote *first = NULL;
    for (int i = 0; i < b->q->count; i++) {
        const hf__vote *v = &b->votes[i];
        hf_result r = v->state == HF__VOTE_IN ? v->op.result : HF_OK;
        if (r == HF_OK || r == HF_BUSY || r == HF_TIMEOUT || r == HF_LOST || r == HF_NOT_HELD ||
            r == HF_UNREACHABLE)
            continue;
        refused++;
        if (!first) first = v;
    }
    if (!first || b->q->count - refused >= b->q->majority) return HF_OK;
    *detail = first->op.detail ? strdup(first->op.detail) : NULL;
    return first->op.result;
}

static int why_node(const hf__quorum *q, const hf__ballot *b, int i, char *to, size_t room) {
    const hf__node *n = &q->nodes[i];
    const hf__vote *v = b ? &b->votes[i] : NULL;
    const char *down = n->at.store->up ? NULL : n->at.store->down_detail;
    if (n->at.store->up && hf__node_too_young(q, n, b ? b->began : q->now))
        return snprintf(to, room,
                        "%s has been up for %" PRId64 " ms and votes after rejoin_delay (%" PRId64
                        " ms)",
                        n->at.name, (q->now - n->born) / HF__MS, q->config.rejoin_ms);
    if (v && v->state == HF__VOTE_IN && v->op.detail) return snprintf(to, room, "%s", v->op.detail);
    if (down) return snprintf(to, room, "%s", down);
    if (!n->at.store->up || (v && v->state == HF__VOTE_SENT))
        return snprintf(to, room, "%s has not answered", n->at.name);
    return 0;
}

char *hf__quorum_why(const hf__quorum *q, const hf__ballot *b) {
    char nodes[WHY_MAX] = "";
    size_t used = 0;
    for (int i = 0; i < q->count && used + 3 < sizeof nodes; i++) {
        char one[400];
        if (why_node(q, b, i, one, sizeof one) <= 0) continue;
        int n = snprintf(nodes + used, sizeof nodes - used, "%s%s", used ? "; " : ": ", one);
        used = n < 0 || (size_t)n >= sizeof nodes - used ? sizeof nodes : used + (size_t)n;
    }
    return hf__line("%d of the %d nodes must agree, and too few can%s", q->majority, q->count,
                    nodes);
}
