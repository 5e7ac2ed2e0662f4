"""Bugs that are planted in the simulator of failovers; it must find every one: see bugs.py."""

from bugs import Bug

REPLICA_WAIT = "store/redis/topology/replica_wait.c"
LEASE = "core/lease.c"
RELEASE_LOG = "store/redis/topology/release_log.c"
SENTINEL = "store/redis/protocol/sentinel.c"
TOUCH_HOLD = "store/redis/lua/touch_hold.lua"

BUGS = [
    Bug("there is no margin for clocks that drift", LEASE,
        "return [[sent_at + lease_ms * HF__MS - hf__lease_margin(lease_ms)]];",
        "sent_at + lease_ms * HF__MS", first=90),
    Bug("a release is not repeated after a failover", RELEASE_LOG,
        "if ([[!ends_hold(op)]]) return;",
        "true", first=80),
    Bug("what was released is left in line after a failover", RELEASE_LOG,
        "bool leave = [[op->leave_queue || log->has_queued]];",
        "op->leave_queue", first=530),
    Bug("what a failover lost is left in line", RELEASE_LOG,
        "if ([[op->result == HF_LOST && !left && log->has_queued]]) log->repeat_now = true;",
        "false", first=1600),
    Bug("what one server has lost another keeps", RELEASE_LOG,
        "return [[hold && op->kind == HF_MUTEX && op->result == HF_LOST]];",
        "false", first=1600),
    Bug("what too few replicas confirmed counts", REPLICA_WAIT,
        "if (same && op->ack.there && [[confirmed >= w->url->replicas]])",
        "true"),
    Bug("a renewal need not be confirmed", REPLICA_WAIT,
        "if ([[!needs_replicas(op)]]) return false;",
        "op->verb != HF__ACQUIRE || op->result != HF_OK", first=75),
    Bug("replicas are waited for after a command that writes nothing", TOUCH_HOLD,
        "call('PEXPIRE', KEYS[1], left)",
        ""),
    Bug("what may yet be undone is asked for again", REPLICA_WAIT,
        "op->rolled_back = [[sure || op->outcome_unknown]];",
        "false", first=1200),
    Bug("a node that says it is a replica is used", SENTINEL,
        "if ([[role && !strcmp(role, \"master\")]]) return HF_OK;",
        "role != NULL", first=2900),
]
