/*
 * ACQUIRE: to all at once. A majority that grants is not enough: each node has given a token of its own. The
 * highest becomes that of all. It is written back, and counts only where the hold is still ours: there,
 * whatever is granted later is above it. The next holder's majority has such a node in it.
 *
 * To spare the writing back, nodes are asked for a token above what their clocks are about to say: then
 * most often all give the same.
 */
#include "base/error.h"
#include "store/quorum/quorum_op.h"

#define AHEAD_US       2000 /* of the nodes' clocks, besides a round trip */
#define SPLIT_FIRST_MS 4
#define SPLIT_DOUBLING 4
#define TOKEN_MAX      ((UINT64_C(1) << 53) - 1)

typedef struct tally {
    int granted, agreed, pending; /* that count, or may yet */
    int busy, late;
    int heard; /* may vote, and have answered */
} tally;

static tally count(const hf__ballot *b) {
    tally t = {0};
    for (int i = 0; i < b->q->count; i++) {
        const hf__vote *v = &b->votes[i];
        bool counts = hf__vote_counts(v);
        bool has = v->stand == HF__STANDS_GRANTED || v->stand == HF__STANDS_AGREED;
        t.granted += counts && has;
        t.agreed += counts && v->stand == HF__STANDS_AGREED;
        t.pending += hf__vote_pending(v);
        t.busy += counts && (v->stand == HF__STANDS_BUSY || v->stand == HF__STANDS_LOST);
        t.late += counts && v->state == HF__VOTE_IN && v->op.result == HF_TIMEOUT;
    }
    t.heard = t.granted + t.busy + t.late;
    return t;
}

/* ---- The token ---- */

static uint64_t floor_of(const hf__quorum *q, uint64_t floor, hf__time now) {
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
    const hf__ballot *b = v->ballot;
    if (v->op.token == b->token) {
        v->stand = HF__STANDS_AGREED;
    } else if (!b->over) {
        v->op.token = b->token;
        hf__vote_cast(v, HF__RAISE_TOKEN, now);
    }
}

/* Where the hold was gone nothing was written, and the node does not count. */
void hf__vote_raised(hf__vote *v) {
    v->stand = v->op.result == HF_OK     ? HF__STANDS_AGREED
               : v->op.result == HF_LOST ? HF__STANDS_LOST
                                         : HF__STANDS_NOT;
    v->maybe |= v->stand == HF__STANDS_NOT; /* it may be held there */
}

static void agree_on_token(hf__ballot *b, hf__time now) {
    for (int i = 0; i < b->q->count; i++) {
        const hf__vote *v = &b->votes[i];
        if (v->stand == HF__STANDS_GRANTED && v->op.token > b->token) b->token = v->op.token;
    }
    for (int i = 0; i < b->q->count; i++)
        if (b->votes[i].stand == HF__STANDS_GRANTED) hf__vote_raise(&b->votes[i], now);
}

/* ---- Deciding ---- */

/* Who has it on a majority has it for as long as was told. Where nobody has, several ask at once, and
   the longer this goes on the more they spread. */
static int64_t retry_ms(hf__ballot *b, const tally *t) {
    int64_t longest = 1;
    uint32_t doubling = b->op->attempt < SPLIT_DOUBLING ? b->op->attempt : SPLIT_DOUBLING;
    if (t->busy < b->q->majority)
        return 1 + (int64_t)(hf__rand_next(&b->q->rand) % ((uint64_t)SPLIT_FIRST_MS << doubling));
    for (int i = 0; i < b->q->count; i++) {
        const hf__vote *v = &b->votes[i];
        if (v->stand != HF__STANDS_BUSY) continue;
        if (v->op.retry_ms > longest) longest = v->op.retry_ms;
        if (v->op.holder_token > b->op->holder_token) b->op->holder_token = v->op.holder_token;
    }
    return longest;
}

static void fail(hf__ballot *b, const tally *t, hf__time now) {
    hf__op *op = b->op;
    op->outcome_unknown = op->queued = false; /* whatever was done is undone */
    op->holder_token = 0;
    op->detail = NULL;
    op->result = hf__ballot_refused(b, &op->detail);
    if (!op->result && t->heard >= b->q->majority)
        op->result = t->busy || !t->late ? HF_BUSY : HF_TIMEOUT;
    if (!op->result) {
        op->result = HF_UNREACHABLE;
        op->detail = hf__quorum_why(b->q, b);
    }
    b->q->no_quorum = op->result == HF_UNREACHABLE;
    if (op->result == HF_BUSY) op->retry_ms = retry_ms(b, t);
    op->sent_at = b->began;
    b->op = NULL;
    b->over = true;
    hf__quorum_undo(b, op, now);
}

static void weigh(hf__ballot *b, hf__time now) {
    bool agreeing = b->enough;
    tally t = count(b);
    if (!agreeing && t.granted >= b->q->majority) {
        b->enough = agreeing = true;
        agree_on_token(b, now);
        t = count(b);
    }
    if (agreeing && t.agreed >= b->q->majority) {
        b->q->no_quorum = false;
        b->op->token = b->token;
        b->op->outcome_unknown = b->op->queued = b->op->has_waiters = false;
        hf__ballot_tell(b, HF_OK, NULL);
        return;
    }
    /* It cannot be had. Whether that is because others have it is known when a majority has answered. */
    bool possible = (agreeing ? t.agreed : t.granted) + t.pending >= b->q->majority;
    if (!possible && (!t.pending || t.heard >= b->q->majority)) fail(b, &t, now);
}

static void asked(hf__ballot *b, hf__vote *v, hf__time now) {
    if (v->op.result == HF_OK) {
        v->stand = HF__STANDS_GRANTED;
        if (b->enough) hf__vote_raise(v, now);
    } else if (v->op.result == HF_BUSY) {
        v->stand = HF__STANDS_BUSY;
    }
}

static void answered(hf__ballot *b, hf__vote *v, hf__time now) {
    if (v->op.verb == HF__ACQUIRE)
        asked(b, v, now);
    else
        hf__vote_raised(v);
}

static const hf__motion motion = {answered, weigh};

static hf_result check(const hf__quorum *q, const hf__op *op, char **detail) {
    if (op->kind != HF_MUTEX) return HF_UNSUPPORTED;
    return hf__quorum_lease_check(q->config.rejoin_ms, op->lease_ms, detail);
}

void hf__quorum_ask(hf__quorum *q, hf__op *op, hf__time now) {
    char *detail = NULL;
    op->sent_at = now;
    hf_result r = check(q, op, &detail);
    hf__ballot *b = r ? NULL : hf__ballot_new(q, &motion, op, now);
    if (!b) {
        op->outcome_unknown = false;
        hf__quorum_complete(q, op, r ? r : HF_NOMEM, detail);
        return;
    }
    b->op = op;
    b->token = 0;
    uint64_t floor = floor_of(q, op->token, now);
    for (int i = 0; i < q->count; i++) {
        b->votes[i].op.token = floor;
        hf__vote_cast(&b->votes[i], HF__ACQUIRE, now);
    }
    hf__ballot_settle(b, now);
}
