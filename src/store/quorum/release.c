/*
 * RELEASE: said to all. It is done when a majority has answered; the others then have a moment, so that a
 * client which closes behind it leaves nothing on a node that is only slower. What was not answered is
 * said again until it is, or until the lease is surely over.
 */
#include "base/error.h"
#include "store/quorum/quorum_op.h"

#define MOMENT (2 * HF__MS) /* and three times as long as a majority took */

typedef struct tally {
    int done, lost, pending;
    bool maybe;
} tally;

static tally count(const hf__ballot *b) {
    tally t = {0};
    for (int i = 0; i < b->q->count; i++) {
        const hf__vote *v = &b->votes[i];
        t.pending += v->state == HF__VOTE_SENT && !b->expired;
        t.done += v->state == HF__VOTE_IN && v->op.result == HF_OK;
        t.lost += v->state == HF__VOTE_IN && v->op.result == HF_LOST;
        t.maybe |= v->maybe || v->state == HF__VOTE_SENT;
    }
    return t;
}

/* Those that have not answered are forgotten here: the caller will say it again, to all. */
static void unreachable(hf__ballot *b, hf_result result, char *detail) {
    for (int i = 0; i < b->q->count; i++)
        if (b->votes[i].state == HF__VOTE_OWED) b->votes[i].state = HF__VOTE_NONE;
    hf__ballot_tell(b, result, detail);
}

/* So many did not have it that there was no majority: it was lost before. Else a majority must have had it: another
   may have held it on those that did not, and on those that do not answer. */
static void tell(hf__ballot *b, const tally *t) {
    hf__quorum *q = b->q;
    bool heard = t->done + t->lost >= q->majority;
    b->op->outcome_unknown = false;
    if (t->done >= q->majority) {
        hf__ballot_tell(b, HF_OK, NULL);
    } else if (heard) {
        b->op->outcome_unknown = t->done && q->count - t->lost >= q->majority;
        hf__ballot_tell(b, HF_LOST, NULL);
    } else {
        char *detail = NULL;
        hf_result refused = hf__ballot_refused(b, &detail);
        if (!refused) detail = hf__quorum_why(q, b);
        q->no_quorum = !refused;
        b->op->outcome_unknown = t->maybe || t->done;
        unreachable(b, refused ? refused : HF_UNREACHABLE, detail);
    }
}

/* Of an undoing: its caller has its answer, and only waits for it to be done. */
static void tell_undone(hf__ballot *b) {
    hf__op *op = b->op;
    b->op = NULL;
    hf__quorum_complete(b->q, op, op->result, op->detail);
}

static void weigh(hf__ballot *b, hf__time now) {
    tally t = count(b);
    if (!t.pending && b->told_result) {
        tell_undone(b);
    } else if (!t.pending) {
        tell(b, &t);
    } else if (!b->enough && !b->told_result &&
               (t.done >= b->q->majority || b->q->count - t.lost < b->q->majority)) {
        b->enough = true;
        b->decide_by = hf__sooner(b->decide_by, now + MOMENT + 3 * (now - b->began));
    }
}

static void answered(hf__ballot *b, hf__vote *v, hf__time now) {
    (void)b, (void)now;
    if (v->op.result != HF_UNREACHABLE) return;
    v->maybe |= v->op.outcome_unknown;
    v->state = HF__VOTE_OWED;
}

static const hf__motion motion = {answered, weigh};

/* From now on nothing is asked for on behalf of this number. */
static void end_number(hf__quorum *q, uint64_t acquire_id) {
    for (hf__ballot *b = q->asking; b; b = b->next)
        if (b->acquire_id == acquire_id) b->over = true;
}

/* An ACQUIRE that is under way there may be executed after this, on the same connection: a node that does not
   know the script yet is sent it again, and so is one that was told too late. */
static hf__time under_way_until(const hf__quorum *q, ptrdiff_t node, uint64_t acquire_id) {
    hf__time until = 0;
    for (const hf__ballot *b = q->asking; b; b = b->next) {
        const hf__vote *v = &b->votes[node];
        if (b->acquire_id == acquire_id && v->state == HF__VOTE_SENT && v->op.verb == HF__ACQUIRE)
            until = hf__later(until, hf__vote_late_until(v));
    }
    return until;
}

static void cast(hf__vote *v, hf__time bury, hf__time now) {
    const hf__ballot *b = v->ballot;
    hf__time late = hf__vote_node(v)->late_until;
    bury = hf__later(bury, under_way_until(b->q, v - b->votes, b->acquire_id));
    v->op.tombstone_until = hf__later(bury, late > now ? late : 0);
    hf__vote_cast(v, HF__RELEASE, now);
}

void hf__quorum_release(hf__quorum *q, hf__op *op, hf__time now) {
    op->sent_at = now;
    hf__ballot *b = hf__ballot_new(q, &motion, op, now);
    if (!b) {
        op->outcome_unknown = false;
        hf__quorum_complete(q, op, HF_NOMEM, NULL);
        return;
    }
    end_number(q, op->acquire_id);
    b->op = op;
    for (int i = 0; i < q->count; i++) cast(&b->votes[i], op->tombstone_until, now);
    hf__ballot_settle(b, now);
}

/* The node has it, or may have it now or later. */
static bool may_hold(const hf__vote *v) {
    return v->state == HF__VOTE_SENT || v->maybe || v->stand == HF__STANDS_GRANTED ||
           v->stand == HF__STANDS_AGREED;
}

void hf__quorum_undo(hf__ballot *of, hf__op *op, hf__time now) {
    hf__quorum *q = of->q;
    hf__time latest = hf__after_ms(now, q->config.command_timeout_ms);
    const hf__op release = {.verb = HF__RELEASE,
                            .name = of->name,
                            .name_length = of->votes[0].op.name_length,
                            .acquire_id = of->acquire_id,
                            .lease_ms = of->lease_ms,
                            .held_since = of->began,
                            .expired_by = hf__after_ms(latest, of->lease_ms + of->lease_ms / 50)};
    hf__ballot *b = hf__ballot_new(q, &motion, &release, now);
    if (!b) { /* the lease ends it */
        if (op) hf__quorum_complete(q, op, op->result, op->detail);
        return;
    }
    b->op = op;
    b->told_result = true;
    b->decide_by = now + MOMENT + 3 * (now - of->began);
    for (int i = 0; i < q->count; i++)
        if (may_hold(&of->votes[i])) cast(&b->votes[i], 0, now);
    if (b->op) weigh(b, now);
    hf__ballot_settle(b, now);
}
