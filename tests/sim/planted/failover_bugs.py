# SPDX-License-Identifier: Apache-2.0
"""Bugs that are planted in the simulator of failovers; it must find every one: see bugs.py."""

from bugs import Bug

REPLICA_WAIT = "store/redis/topology/replica_wait.c"
LEASE = "core/lease.c"
RELEASE_LOG = "store/redis/topology/release_log.c"
SENTINEL = "store/redis/protocol/sentinel.c"
TOUCH_HOLD = "store/redis/lua/touch_hold.lua"

BUGS = [
    Bug("deadlines have no margin for clock drift", LEASE,
        "return [[sent_at + lease_ms * HF__MS - hf__lease_margin(lease_ms)]];",
        "sent_at + lease_ms * HF__MS", first=90),
    Bug("a release is not repeated after a failover", RELEASE_LOG,
        "if ([[!ends_hold(op)]]) return;",
        "true", first=80),
    Bug("a released hold's queue entry stays after a failover", RELEASE_LOG,
        "bool leave = [[op->leave_queue || log->has_queued]];",
        "op->leave_queue", first=530),
    Bug("a lost hold's queue entry stays after a failover", RELEASE_LOG,
        "if ([[op->result == HF_LOST && !left && log->has_queued]]) log->repeat_now = true;",
        "false", first=1600),
    Bug("a hold lost on one server is not released on the next", RELEASE_LOG,
        "return [[hold && op->kind == HF_MUTEX && op->result == HF_LOST]];",
        "false", first=1600),
    Bug("a write confirmed by too few replicas counts", REPLICA_WAIT,
        "if (same && op->ack.hold_found && [[confirmed >= w->url->replicas]])",
        "true"),
    Bug("a renewal needs no confirmation by replicas", REPLICA_WAIT,
        "if ([[!needs_replicas(op)]]) return false;",
        "op->verb != HF__ACQUIRE || op->result != HF_OK", first=75),
    Bug("replicas are awaited after a command that writes nothing", TOUCH_HOLD,
        "call('PEXPIRE', KEYS[1], left)",
        ""),
    Bug("an acquire that may be rolled back is retried under its old id", REPLICA_WAIT,
        "op->rolled_back = [[sure || op->outcome_unknown]];",
        "false", first=1200),
    Bug("a node that reports to be a replica is used", SENTINEL,
        "if ([[role && !strcmp(role, \"master\")]]) return HF_OK;",
        "role != NULL", first=2900),
]
