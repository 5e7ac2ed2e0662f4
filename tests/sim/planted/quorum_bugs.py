"""Bugs to be planted in the simulator of a quorum, each of which it must find: see bugs.py."""

from bugs import Bug

ASK = "store/quorum/acquire.c"
QUORUM_OP = "store/quorum/quorum_op.c"
QUORUM = "store/quorum/quorum.c"
RENEW = "store/quorum/renew.c"
UNDO = "store/quorum/release.c"
LEASE = "core/lease.c"

BUGS = [
    Bug("there is no margin for clocks that drift", LEASE,
        "return [[sent_at + lease_ms * HF__MS - hf__lease_margin(lease_ms)]];",
        "sent_at + lease_ms * HF__MS"),
    Bug("the deadline counts from the answers", QUORUM_OP,
        "op->sent_at = [[qop->began]];",
        "qop->q->now", first=205),
    Bug("what a lost answer may have granted is not undone", UNDO,
        "return v->state == HF__VOTE_SENT || [[v->maybe]] || v->verdict == HF__VERDICT_GRANTED ||",
        "false", first=110),
    Bug("a release is not said again to a node that was away", UNDO,
        "v->state = [[HF__VOTE_OWED]];",
        "HF__VOTE_ANSWERED"),
    Bug("an acquire that is sent again comes after its release", UNDO,
        "tombstone_until = hf__later(tombstone_until,"
        " [[under_way_until(qop->q, v - qop->votes, qop->acquire_id)]]);",
        "(hf__time)0", first=720),
    Bug("a node back without data votes at once", QUORUM_OP,
        "return [[n->known && at < hf__after_ms(n->born, q->config.rejoin_ms)]];",
        "false"),
    Bug("a node votes when it is as old as the lease that is asked for", QUORUM_OP,
        "return n->known && n->link == v->op.link &&\n"
        "           [[!hf__node_too_young(v->qop->q, n, v->qop->began)]];",
        "v->qop->began >= hf__after_ms(n->born, v->qop->lease_ms)", first=160),
    Bug("a lease may be longer than the delay of young nodes", ASK,
        "return [[hf__quorum_lease_check(q->config.rejoin_ms, op->lease_ms, detail)]];",
        "HF_OK", first=230),
    Bug("a node is asked for its age once", QUORUM,
        "([[n->known && n->link == s->link]])",
        "n->known"),
    Bug("the last second of a node's age counts", QUORUM,
        "n->born = [[reported && n->uptime_op.uptime_ms > 1000"
        " ? now - (n->uptime_op.uptime_ms - 1000) * HF__MS : now]];",
        "reported ? now - (n->uptime_op.uptime_ms + 1000) * HF__MS : now"),
    Bug("half of the nodes are enough", QUORUM,
        "q->majority = [[count / 2 + 1]];",
        "count / 2"),
    Bug("the token is not written back", ASK,
        "        [[hf__vote_submit(v, HF__RAISE_TOKEN, now);]]",
        "v->verdict = HF__VERDICT_AGREED;"),
    Bug("the token counts also where the hold is gone", ASK,
        ": v->op.result == HF_LOST ? [[HF__VERDICT_LOST]]",
        "HF__VERDICT_AGREED", first=590),
    Bug("a renewal that a minority confirms is good", RENEW,
        "if ([[kept >= q->majority]]) {",
        "kept > 0", first=755),
    Bug("what was released is taken again", RENEW,
        "if ([[qop->over || !qop->lease_ms || now >= until]]) return;",
        "!qop->lease_ms || now >= until", first=710),
]
