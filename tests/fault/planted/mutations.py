"""Bugs to be planted, one at a time, and the test that must then fail.

Each is a file below src/, a piece of its text that stands there exactly once, what takes its place,
and the program with its arguments (CMake target, pattern of tests). Choose tests that are quick,
and that pass while nothing is planted.
"""

from typing import NamedTuple


class Mutation(NamedTuple):
    name: str
    file: str
    old: str
    new: str
    run: tuple


ENTRY = "core/entry.c"
ACQUIRE = "store/redis/lua/acquire.lua"
RELEASE = "store/redis/lua/release.lua"
RENEW = "store/redis/lua/renew.lua"
LOCK = "store/file/lock.c"

MUTATIONS = [
    Mutation(
        "the deadline of a grant counts from its answer",
        ENTRY,
        "return hf__sooner(hf__lease_deadline(op->asked_at, op->lease_ms), max_until(w, op));",
        "return hf__sooner(hf__lease_deadline(hf__now(), op->lease_ms), max_until(w, op));",
        ("fault_pauses", "F01_deadlines_count_from*"),
    ),
    Mutation(
        "the deadline of a renewal counts from its answer",
        ENTRY,
        "hf__time deadline = hf__lease_deadline(op->asked_at, op->lease_ms);",
        "hf__time deadline = hf__lease_deadline(hf__now(), op->lease_ms);",
        ("fault_pauses", "F01_deadlines_count_from*"),
    ),
    Mutation(
        "no margin for clocks that drift",
        "core/lease.c",
        "return asked_at + lease_ms * HF__MS - hf__lease_margin(lease_ms);",
        "return asked_at + lease_ms * HF__MS;",
        ("fault_pauses", "F10_*"),
    ),
    Mutation(
        "hf_held does not look at the deadline",
        "core/own.c",
        "now < atomic_load_explicit(&own->deadline, memory_order_relaxed)",
        "now >= 0",
        ("fault_pauses", "F04_held_is_right*"),
    ),
    Mutation(
        "a grant that is answered after its lease is taken",
        ENTRY,
        "if (w && now < deadline_of(w, op)) {",
        "if (w) {",
        ("fault_pauses", "F01_an_answer_after_the_lease*"),
    ),
    Mutation(
        "a release deletes whatever holds the name",
        RELEASE,
        "if ours then call('DEL', KEYS[1]) end",
        "call('DEL', KEYS[1])",
        ("fault_late", "F15_*"),
    ),
    Mutation(
        "a release of an old number ends a newer hold of its client",
        RELEASE,
        "tonumber(number) < tonumber(released)",
        "true",
        ("fault_late", "F51_a_late_release*"),
    ),
    Mutation(
        "a release leaves no mark for an acquire that comes late",
        RELEASE,
        "if ARGV[2] ~= '0' then",
        "if false then",
        ("fault_late", "F51_a_late_acquire_does_not_bring*"),
    ),
    Mutation(
        "the mark of one client takes the place of another's",
        RELEASE,
        "if now <= tonumber(till) then kept = kept .. tomb end",
        "",
        ("fault_late", "F51_late_acquires_of_two*"),
    ),
    Mutation(
        "an acquire acts after its time",
        ACQUIRE,
        "if now > tonumber(ARGV[4]) then return {2, now} end",
        "",
        ("fault_answers", "F13_an_acquire_executed_after_its_wait*"),
    ),
    Mutation(
        "an acquire sent twice is granted twice",
        ACQUIRE,
        "if holder == ARGV[1] then",
        "if false then",
        ("fault_answers", "F12_an_acquire_whose_answer_was_lost*"),
    ),
    Mutation(
        "an acquire sent twice is refused for its own sake",
        ACQUIRE,
        "if holder == ARGV[1] then",
        "if holder == ARGV[1] then return {0, now, 30000} end\nif false then",
        ("fault_answers", "F12_an_acquire_whose_answer_was_lost*"),
    ),
    Mutation(
        "tokens only count",
        ACQUIRE,
        "local token = math.max(now, ARGV[5] + 1)",
        "local token = 1",
        ("fault_server", "F25_a_flush*"),
    ),
    Mutation(
        "a renewal makes a lost hold anew",
        RENEW,
        "or hold[2] ~= ARGV[5] then return -now end",
        "or hold[2] ~= ARGV[5] then call('HSET', KEYS[1], 'n', ARGV[1]) end",
        ("fault_server", "F25_a_key_deleted*"),
    ),
    Mutation(
        "a renewal takes another ownership of its number for its own",
        RENEW,
        "hold[1] ~= ARGV[1] or hold[2] ~= ARGV[5]",
        "hold[1] ~= ARGV[1]",
        ("fault_late", "F51_a_broken_hold*"),
    ),
    Mutation(
        "a renewal shortens an extension",
        RENEW,
        "if call('PTTL', KEYS[1]) < tonumber(ARGV[4]) then",
        "if true then",
        ("fault_server", "B22_*"),
    ),
    Mutation(
        "a count is counted instead of said",
        RENEW,
        "~= ARGV[3] then call('HSET', KEYS[1], ARGV[2], ARGV[3]) end",
        "and ARGV[3] ~= '1' then call('HINCRBY', KEYS[1], ARGV[2], 1) end",
        ("fault_answers", "F14_a_count*"),
    ),
    Mutation(
        "who gives up does not see to what may have been granted",
        ENTRY,
        "hf_result result = outcome(w, why, asking);",
        "hf_result result = outcome(w, why, asking);\n    w->number = 0;",
        ("fault_answers", "F12_an_outcome_that_is_not_known*"),
    ),
    Mutation(
        "a grant that came too late is kept",
        ENTRY,
        "    /* Nobody wants it any more, or the answer came when the lease may have run out. */\n",
        "    if (w && w->once) op->number = 0;\n",
        ("fault_pauses", "F01_a_grant_answered*"),
    ),
    Mutation(
        "a release of what was lost says it is well",
        ENTRY,
        "if (r == HF_LOST && e->ghost_maybe) r = HF_OK;",
        "if (r == HF_LOST) r = HF_OK;",
        ("fault_server", "F25_a_release_says*"),
    ),
    Mutation(
        "a loss is told twice",
        "client/teller.c",
        "    fn(hold, arg);\n",
        "    fn(hold, arg);\n    fn(hold, arg);\n",
        ("fault_server", "F25_a_key_deleted*"),
    ),
    Mutation(
        "a reconnect does not look after what is held",
        "core/core.c",
        "if (e->own) e->own->check = true;",
        "",
        ("fault_server", "F22_*"),
    ),
    Mutation(
        "answers of a new connection go to the questions of the old",
        "store/redis/session.c",
        "    s->state = HF__AWAY;\n",
        "    s->state = HF__AWAY;\n    if (s->who) return;\n",
        ("fault_answers", "F12_an_acquire_whose_answer_was_lost*"),
    ),
    Mutation(
        "a forked child takes its parent's holds for its own",
        "client/hold.c",
        "return hold->born != hf__generation();",
        "return hold->born != hold->born;",
        ("fault_processes", "F42_*"),
    ),
    Mutation(
        "HF_NOT_REENTRANT is ignored by a second acquire",
        "core/core.c",
        "if ((w->flags | own->flags) & HF_NOT_REENTRANT) {",
        "if (w->flags > own->flags + 100) {",
        ("conformance", "memory", "B02_a_*"),
    ),
    Mutation(
        "a file is taken for the one that has the name",
        "store/file/lockfile.c",
        "return same(file->directory, file->name, device, inode);",
        "return device || inode || file;",
        ("file_inode", "F25_an_idle*"),
    ),
    Mutation(
        "who comes takes the hold past those who wait",
        LOCK,
        "if (l->served) return false;",
        "if (l->fd >= 0) return false;",
        ("file_line", "B08_a_try_does_not*"),
    ),
    Mutation(
        "who waits takes the hold past those before it",
        LOCK,
        "if (first.ticket < 0 || first.ticket > l->ticket) return true;",
        "if (first.ticket < INT64_MAX) return true;",
        ("file_line", "B08_a_try_does_not*"),
    ),
    Mutation(
        "who waits takes no ticket",
        LOCK,
        "error = hf__ticket_take(l->fd, peers->id, &l->ticket);",
        "error = 0;",
        ("file_line", "B08_a_new_waiter*"),
    ),
    Mutation(
        "a release wakes nobody",
        LOCK,
        "    wake_first(l, peers, 0);\n",
        "",
        ("file_line", "B13_*"),
    ),
    Mutation(
        "who leaves the line wakes nobody",
        LOCK,
        "    wake_first(l, peers, l->ticket);\n",
        "",
        ("file_line", "F46_the_first_in_line_leaves*"),
    ),
    Mutation(
        "a stopped waiter is never passed",
        LOCK,
        "return now - l->stalled_since >= STALLED;",
        "return false;",
        ("file_line", "B08_a_stopped_first*"),
    ),
    Mutation(
        "the last token is not read from the file",
        LOCK,
        "fill_record(&l->record, op, head.record.token, now);",
        "fill_record(&l->record, op, 0, now);",
        ("file_damage", "F06_*"),
    ),
    Mutation(
        "the mark of a break is not looked at",
        LOCK,
        "head.broken != l->record.token",
        "head.version",
        ("file_breaking", "B26_break_wants*"),
    ),
    Mutation(
        "what was lost is not let go of",
        ENTRY,
        "    if (!e->core->store->forgets) /*",
        "    if (e->core->closing) /*",
        ("file_breaking", "B26_a_client_may_break*"),
    ),
    Mutation(
        "what was lost in a long pause is not let go of",
        ENTRY,
        "return e->ghost && !e->busy && e->core->store->forgets ? e->ghost_until : HF__NEVER;",
        "return e->ghost && !e->busy ? e->ghost_until : HF__NEVER;",
        ("file_line", "F03_*"),
    ),
    Mutation(
        "a child keeps the descriptors of its parent's locks",
        "store/file/kept.c",
        "if (bits[i / 8] & 1u << i % 8) close((int)i);",
        "if (!i) close(-1);",
        ("file_processes", "F42_a_child_that_lives_on_keeps_no_l*"),
    ),
    Mutation(
        "a fork may come between opening a file and noting it",
        "store/file/kept.c",
        "    begin();\n    return end(openat(directory, name, flags | O_CLOEXEC, mode));",
        "    int fd = openat(directory, name, flags | O_CLOEXEC, mode);\n"
        "    begin();\n    return end(fd);",
        ("file_processes", "F42_a_child_forked_while*"),
    ),
    Mutation(
        "every client is taken to be alive",
        "store/file/peers.c",
        "return fcntl(life, F_OFD_GETLK, &range) == 0 && range.l_type != F_UNLCK;",
        "return range.l_type == F_WRLCK && life >= 0;",
        ("file_line", "F46_a_holder_that_is_not_quite*"),
    ),
    Mutation(
        "a client is woken through a FIFO that it alone reads",
        "store/file/peers.c",
        "peer->wake = open_fifo(p, HF__WAKE_START, id, O_RDWR);",
        "peer->wake = open_fifo(p, HF__WAKE_START, id, O_WRONLY);",
        ("file_processes", "F43_waking*"),
    ),
    Mutation(
        "a sweep does not ask whether a lock is in use",
        "store/file/sweep.c",
        "may_go(&file, fd) && hf__ranges_take(fd)",
        "may_go(&file, fd)",
        ("file_sweep", "B30_what_is_held*"),
    ),
    Mutation(
        "a sweep removes what is not Holdfast's",
        "store/file/sweep.c",
        "return !r && (int64_t)(head.record.token / 1000) < now_ms();",
        "return (int64_t)(head.record.token / 1000) < now_ms();",
        ("file_sweep", "B30_files_of_others*"),
    ),
]
