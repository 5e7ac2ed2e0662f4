/*
 * INSPECT, WHO and BREAK: asked of all. A lock is held by whom a majority shows, or may show where some
 * nodes do not answer; who has a minority is only trying.
 */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "store/quorum/quorum_op.h"

static bool in(const hf__vote *v) {
    return v->state == HF__VOTE_IN;
}

static bool done(const hf__vote *v) {
    return in(v) && v->op.result == HF_OK;
}

static int pending(const hf__ballot *b) {
    int n = 0;
    for (int i = 0; i < b->q->count; i++) n += b->votes[i].state == HF__VOTE_SENT && !b->expired;
    return n;
}

static void no_majority(hf__ballot *b) {
    char *detail = NULL;
    hf_result r = hf__ballot_refused(b, &detail);
    bool again =
        b->op->outcome_unknown || !b->q->store.up; /* what that means is for the caller to say */
    if (!r) detail = hf__quorum_why(b->q, b);
    b->q->no_quorum = !r;
    hf__ballot_tell(b, r ? r : again ? HF_UNREACHABLE : HF_NO_QUORUM, detail);
}

static void noted(hf__ballot *b, hf__vote *v, hf__time now) {
    (void)b, (void)v, (void)now;
}

/* ---- INSPECT ---- */

static bool same_holder(const hf__lock_info *a, const hf__lock_info *b) {
    return a->held && b->held && !strcmp(a->identity.client, b->identity.client);
}

/* How many show the same holder as this node; or the same ownership: its token, too. */
static int agreeing(const hf__ballot *b, int i, bool token) {
    int n = 0;
    for (int j = 0; j < b->q->count; j++)
        n += done(&b->votes[j]) && same_holder(&b->sights[i], &b->sights[j]) &&
             (!token || b->sights[i].token == b->sights[j].token);
    return n;
}

/* The node that shows best what most of them show; -1: none shows a holder. Where no token has most, the
   highest: a lower one is of an ownership before, or was not written over yet. */
static int best_sight(const hf__ballot *b) {
    int best = -1, most = 0;
    for (int i = 0; i < b->q->count; i++) {
        if (!done(&b->votes[i]) || !b->sights[i].held) continue;
        int weight = agreeing(b, i, false) * HF__NODES_MAX * 2 + agreeing(b, i, true);
        if (weight < most || (weight == most && b->sights[i].token < b->sights[best].token))
            continue;
        most = weight;
        best = i;
    }
    return best;
}

/* The hold lasts for as long as a majority has it. */
static int64_t remaining(const hf__ballot *b, int best) {
    int64_t left = 0;
    for (int i = 0; i < b->q->count; i++) {
        int longer = 0;
        if (!done(&b->votes[i]) || !same_holder(&b->sights[i], &b->sights[best])) continue;
        for (int j = 0; j < b->q->count; j++)
            longer += done(&b->votes[j]) && same_holder(&b->sights[j], &b->sights[best]) &&
                      b->sights[j].remaining_ms >= b->sights[i].remaining_ms;
        if (longer >= b->q->majority && b->sights[i].remaining_ms > left)
            left = b->sights[i].remaining_ms;
    }
    return left ? left : b->sights[best].remaining_ms;
}

static void weigh_inspect(hf__ballot *b, hf__time now) {
    (void)now;
    int heard = 0, unheld = 0, silent = 0, best = best_sight(b);
    for (int i = 0; i < b->q->count; i++) {
        heard += done(&b->votes[i]);
        unheld += done(&b->votes[i]) && !b->sights[i].held;
        silent += !done(&b->votes[i]);
    }
    int same = best < 0 ? 0 : agreeing(b, best, false);
    int owned = best < 0 ? 0 : agreeing(b, best, true);
    bool clear = owned >= b->q->majority || unheld >= b->q->majority;
    if (!clear && pending(b)) return;
    if (heard < b->q->majority) {
        no_majority(b);
        return;
    }
    if (same && same + silent >= b->q->majority) {
        int64_t left = remaining(b, best);
        *b->op->lock_info = b->sights[best];
        b->op->lock_info->remaining_ms = left;
    }
    hf__ballot_tell(b, HF_OK, NULL);
}

/* ---- WHO ---- */

static void weigh_who(hf__ballot *b, hf__time now) {
    (void)now;
    int heard = 0;
    for (int i = 0; i < b->q->count; i++) {
        heard += done(&b->votes[i]);
        const hf__identity *who = &b->sights[i].identity;
        if (!done(&b->votes[i]) || !(who->pid || *who->host || *who->program)) continue;
        b->op->lock_info->identity = *who;
        hf__ballot_tell(b, HF_OK, NULL);
        return;
    }
    if (pending(b)) return;
    if (heard)
        hf__ballot_tell(b, HF_OK, NULL);
    else
        no_majority(b);
}

/* ---- BREAK ---- */

/* Under another token: the highest that is shown. */
static uint64_t token_shown(const hf__ballot *b, hf_result result) {
    uint64_t token = 0;
    for (int i = 0; i < b->q->count; i++)
        if (in(&b->votes[i]) && b->votes[i].op.result == result && b->votes[i].op.token > token)
            token = b->votes[i].op.token;
    return token;
}

/* Whoever had a majority has none, once too few are left that may have it still. */
static void weigh_break(hf__ballot *b, hf__time now) {
    (void)now;
    int broken = 0, not_held = 0, late = 0, maybe = 0;
    for (int i = 0; i < b->q->count; i++) {
        const hf__vote *v = &b->votes[i];
        broken += done(v);
        not_held += in(v) && v->op.result == HF_NOT_HELD;
        late += in(v) && v->op.result == HF_TIMEOUT;
        maybe += v->state == HF__VOTE_SENT || v->op.outcome_unknown;
    }
    if (broken < b->q->majority && pending(b)) return;
    b->op->outcome_unknown = false;
    if (broken + not_held >= b->q->majority) {
        hf_result r = broken ? HF_OK : HF_NOT_HELD;
        b->op->token = token_shown(b, r);
        hf__ballot_tell(b, r, NULL);
        return;
    }
    b->op->outcome_unknown = maybe || broken;
    if (late && !b->op->outcome_unknown)
        hf__ballot_tell(b, HF_TIMEOUT, NULL);
    else
        no_majority(b);
}

static const hf__motion inspect = {noted, weigh_inspect};
static const hf__motion who = {noted, weigh_who};
static const hf__motion breaking = {noted, weigh_break};

/* Each node has a sight of its own to fill in. */
static bool add_sights(hf__ballot *b, const hf__op *op) {
    if (!op->lock_info) return true;
    b->sights = calloc((size_t)b->q->count, sizeof *b->sights);
    for (int i = 0; b->sights && i < b->q->count; i++) {
        memcpy(b->sights[i].identity.client, op->lock_info->identity.client,
               sizeof op->lock_info->identity.client);
        b->votes[i].op.lock_info = &b->sights[i];
    }
    return b->sights;
}

void hf__quorum_look(hf__quorum *q, hf__op *op, hf__time now) {
    const hf__motion *motion = op->verb == HF__INSPECT       ? &inspect
                               : op->verb == HF__CLIENT_INFO ? &who
                                                             : &breaking;
    op->sent_at = now;
    op->outcome_unknown = false;
    hf__ballot *b = hf__ballot_new(q, motion, op, now);
    if (!b || !add_sights(b, op)) {
        if (b) hf__ballot_free(b);
        hf__quorum_complete(q, op, HF_NOMEM, NULL);
        return;
    }
    b->op = op;
    for (int i = 0; i < q->count; i++) hf__vote_cast(&b->votes[i], op->verb, now);
    hf__ballot_settle(b, now);
}
