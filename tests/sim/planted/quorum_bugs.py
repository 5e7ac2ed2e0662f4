# SPDX-License-Identifier: Apache-2.0
"""Bugs that are planted in the simulator of a quorum; it must find every one: see bugs.py."""

from bugs import Bug

ACQUIRE = "store/quorum/acquire.c"
QUORUM_OP = "store/quorum/quorum_op.c"
QUORUM = "store/quorum/quorum.c"
RENEW = "store/quorum/renew.c"
RELEASE = "store/quorum/release.c"
LEASE = "core/lease.c"

BUGS = [
    Bug("deadlines have no margin for clock drift", LEASE,
        "return [[sent_at + lease_ms * HF__MS - hf__lease_margin(lease_ms)]];",
        "sent_at + lease_ms * HF__MS"),
    Bug("the deadline counts from the answers", QUORUM_OP,
        "op->sent_at = [[qop->began]];",
        "qop->q->now", first=205),
    Bug("a grant with a lost answer is not undone", RELEASE,
        "return v->state == HF__VOTE_SENT || [[v->maybe]] || v->verdict == HF__VERDICT_GRANTED ||",
        "false", first=110),
    Bug("a release is not repeated to a node that was away", RELEASE,
        "v->state = [[HF__VOTE_OWED]];",
        "HF__VOTE_ANSWERED"),
    Bug("a retried acquire takes effect after its release", RELEASE,
        "tombstone_until = hf__later(tombstone_until,"
        " [[find_late_acquire_until(qop->q, v - qop->votes, qop->acquire_id)]]);",
        "(hf__time)0", first=720),
    Bug("a node back without data votes at once", QUORUM_OP,
        "return [[n->known && at < hf__after_ms(n->born, q->config.rejoin_ms)]];",
        "false"),
    Bug("a node votes when it is as old as the requested lease", QUORUM_OP,
        "return n->known && n->link == v->op.link &&\n"
        "           [[!hf__node_too_young(v->qop->q, n, v->qop->began)]];",
        "v->qop->began >= hf__after_ms(n->born, v->qop->lease_ms)", first=160),
    Bug("a lease may be longer than the rejoin delay", ACQUIRE,
        "return [[hf__quorum_lease_check(q->config.rejoin_ms, op->lease_ms, detail)]];",
        "HF_OK", first=230),
    Bug("a node is asked for its age only once", QUORUM,
        "([[n->known && n->link == s->link]])",
        "n->known"),
    Bug("a node's age is rounded up by a second", QUORUM,
        "n->born = [[reported && n->uptime_op.uptime_ms > 1000"
        " ? now - (n->uptime_op.uptime_ms - 1000) * HF__MS : now]];",
        "reported ? now - (n->uptime_op.uptime_ms + 1000) * HF__MS : now"),
    Bug("half of the nodes count as a majority", QUORUM,
        "q->majority = [[count / 2 + 1]];",
        "count / 2"),
    Bug("the token is not written back", ACQUIRE,
        "        [[hf__vote_submit(v, HF__RAISE_TOKEN, now);]]",
        "v->verdict = HF__VERDICT_AGREED;"),
    Bug("a token is accepted by a node whose hold is gone", ACQUIRE,
        ": v->op.result == HF_LOST ? [[HF__VERDICT_LOST]]",
        "HF__VERDICT_AGREED", first=590),
    Bug("a renewal confirmed by a minority succeeds", RENEW,
        "if ([[kept >= q->majority]]) {",
        "kept > 0", first=755),
    Bug("a late renewal acquires again after the release", RENEW,
        "if ([[qop->over || !qop->lease_ms || now >= until]]) return;",
        "!qop->lease_ms || now >= until", first=710),
]
