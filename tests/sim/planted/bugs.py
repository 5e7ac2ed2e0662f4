# SPDX-License-Identifier: Apache-2.0
"""Bugs that are planted in the simulator; it must find every one.

A bug has a name, a file below src/, a text that occurs in it exactly once, and a replacement.

In C, [[...]] marks the part that is replaced; the rest only locates it. It must be an expression
or a statement: both versions are compiled, and one is chosen when the simulator runs. Two bugs
may replace the same text, but must not overlap otherwise.

A bug in a part of scripts is planted in every script that includes the part. If few seeds find a
bug, `first` is the seed to start with: below the first seed that found it when this was written.
"""

from typing import NamedTuple


class Bug(NamedTuple):
    name: str
    file: str
    old: str
    new: str
    first: int = 1


CORE = "core/core.c"
ANSWER = "core/answer.c"
ENTRY = "core/entry.c"
GRANT = "core/grant.c"
WAIT = "core/wait.c"
LEASE = "core/lease.c"
SESSION = "store/redis/protocol/session.c"
NOTIFICATIONS = "store/redis/protocol/notifications.c"
ACQUIRE = "store/redis/lua/acquire.lua"
RELEASE = "store/redis/lua/release.lua"
RENEW = "store/redis/lua/renew.lua"
BREAK = "store/redis/lua/break.lua"
QUEUE = "store/redis/lua/part/queue.lua"
HOLDERS = "store/redis/lua/part/holders.lua"
SHARING = "store/redis/lua/part/sharing.lua"
SHARED_ACQUIRE = "store/redis/lua/shared_acquire.lua"
ACQUIRE_OR_QUEUE = "store/redis/lua/part/acquire_or_queue.lua"
SHARED_RENEW = "store/redis/lua/shared_renew.lua"
SHARED_RELEASE = "store/redis/lua/shared_release.lua"
SIDES = "core/side_entries.c"
ADMISSION = "core/admission.c"
MULTI = "core/multi.c"
ACQUIRE_ALL = "store/redis/lua/acquire_all.lua"

BUGS = [
    # Deadlines.
    Bug("the deadline of a grant counts from its answer", GRANT,
        ".deadline = [[hf__lease_deadline(op->sent_at, op->lease_ms)]],",
        "hf__lease_deadline(now, op->lease_ms)"),
    Bug("the deadline of a handed-over grant counts from its message", NOTIFICATIONS,
        "return [[at <= m->arrived_at && !old && !overtaken ? at : 0]];",
        "m->arrived_at", first=60),
    Bug("the deadline of a renewal counts from its answer", ANSWER,
        "hf__time deadline = [[hf__lease_deadline(op->sent_at, op->lease_ms)]];",
        "hf__lease_deadline(now, op->lease_ms)", first=80),
    Bug("deadlines have no margin for clock drift", LEASE,
        "return [[sent_at + lease_ms * HF__MS - hf__lease_margin(lease_ms)]];",
        "sent_at + lease_ms * HF__MS", first=320),
    Bug("a grant whose answer arrives after its lease is entered", GRANT,
        "if ([[w && now < deadline_of(w, op)]]) {",
        "w != NULL"),
    Bug("a handed-over grant is assumed to last a full lease", GRANT,
        "op->lease_ms = [[notification->lease_ms]];",
        "hf__wait_lease(w)", first=110),
    Bug("an unanswered renewal counts as done", ANSWER,
        "if ([[e->op.result == HF_OK]])\n        handle_confirmed_renewal(e, now);",
        "e->op.result == HF_OK || e->op.outcome_unknown", first=70),
    Bug("a denied renewal does not end the hold", ANSWER,
        "else if ([[e->op.result == HF_LOST]])\n        handle_lost_hold(e, now);",
        "false"),

    # Acquire ids, and requests that arrive late.
    Bug("a release deletes whatever holds the name", RELEASE,
        "if was_held then call('DEL', KEYS[1]) end",
        "call('DEL', KEYS[1])"),
    Bug("a release of an old acquire id ends a newer hold of its client", RELEASE,
        "was_held = key == client and acquire_id <= released_id",
        "was_held = key == client"),
    Bug("a retried release that finds nothing counts as done", ANSWER,
        "if ([[r == HF_LOST && e->release_unknown]]) r = HF_UNKNOWN_OUTCOME;",
        "r == HF_LOST && e->release_unknown ? (r = HF_OK, false) : false"),
    Bug("a retried release does not compare the fence", HOLDERS,
        "return gone and string.match(call('GET', KEYS[2]) or '', '^%d+') == token and 1 or 0",
        "return gone and 1 or 0"),
    Bug("a release mistakes the hold of a late acquire for its own", RELEASE,
        "local answer = lost and 0 or 1",
        "local answer = 1", first=24100),
    Bug("a renewal does not compare the holder", RENEW,
        "if hold[2] ~= ARGV[5] or (hold[1] ~= ARGV[1] and hold[1] ~= ARGV[1] .. ' q') then return "
        "-now end",
        "if not hold[1] then return -now end", first=910),
    Bug("a renewal recreates a lost hold", RENEW,
        "then return -now end",
        "then call('HSET', KEYS[1], 'n', ARGV[1], 't', ARGV[5]) end"),
    Bug("a release leaves no tombstone for a late acquire", RELEASE,
        "if tombstone_until ~= '0' then",
        "if false then", first=400),
    Bug("an acquire ignores tombstones", ACQUIRE,
        "if is_late then return {2, now, merged} end",
        "", first=400),
    Bug("a client's tombstone replaces another client's", RELEASE,
        "kept .. tombstones, 'PX', fence_ms)",
        "kept .. string.match(tombstones, ' %S+ %S+$'), 'PX', fence_ms)", first=3880),
    Bug("tombstones beyond the limit are dropped, with a limit of one", QUEUE,
        "if #single >= TOMBSTONES_MAX then single = {' *:' .. digits(now) .. ' 0' .. "
        "digits(last)} end",
        "if #single >= 1 then single = {} end"),
    Bug("a cancelled waiter reports that it surely was not granted", WAIT,
        "if ([[w->queued_until]]) return HF_UNKNOWN_OUTCOME;",
        "false"),
    Bug("an acquire takes effect after its time limit", ACQUIRE,
        "if now > tonumber(ARGV[4]) then return {2, now} end",
        ""),
    Bug("a late acquire with a lower id replaces a newer hold of its client", ACQUIRE,
        "if acquire_id > own_id then return {2, now} end",
        "", first=70),
    Bug("an acquire takes a lock that another client holds", ACQUIRE,
        "if key ~= client then return answer_busy() end",
        ""),
    Bug("a retried acquire is refused because of its own hold", ACQUIRE,
        "if holder and (holder == ARGV[1] or holder == ARGV[1] .. ' q') then",
        "if holder == ARGV[1] then return {0, now, 30000, 0} end if false then"),
    Bug("a grant that arrives after its caller gave up is not released", GRANT,
        "[[hf__entry_add_pending_leave(e, op->acquire_id, hf__lease_lapse(now, "
        "op->lease_ms));]]\n    if (!w) return;",
        ""),
    Bug("a cancelled wait forgets its acquire in flight", WAIT,
        "bool acquiring = [[e->busy && e->acquirer == w]];",
        "(hf__wait_set_acquire_id(w, 0), w->outcome_unknown = false, e->acquirer = e->acquirer == "
        "w ? NULL : e->acquirer, false)"),
    Bug("an unanswered acquire is forgotten", ANSWER,
        "else if ([[op->outcome_unknown]])\n        handle_unanswered_acquire(e, w);",
        "false"),

    # Leases in the store.
    Bug("a renewal shortens an extension", RENEW,
        "if call('PTTL', KEYS[1]) < tonumber(ARGV[4]) then",
        "if ARGV[4] ~= '0' then"),
    Bug("a renewal does not lengthen the lease", RENEW,
        "then call('PEXPIRE', KEYS[1], ARGV[4]) end",
        "then end"),
    Bug("an acquire sets no expiry", ACQUIRE,
        "local expire_reply = redis.pcall('PEXPIRE', KEYS[1], ARGV[3])",
        "local expire_reply = 1"),
    Bug("a renewal increments the count instead of setting it", RENEW,
        "~= ARGV[3] then call('HSET', KEYS[1], ARGV[2], ARGV[3]) end",
        "and ARGV[3] ~= '1' then call('HINCRBY', KEYS[1], ARGV[2], 1) end"),

    # Tokens.
    Bug("tokens come from the clock alone", ACQUIRE,
        "token = math.max(token, last + 1)",
        "", first=100),
    Bug("tokens come from the fence alone", ACQUIRE,
        "math.max(now, ARGV[5] + 1), nil",
        "1, nil"),
    Bug("tokens of handed-over grants come from the clock alone", QUEUE,
        "math.max(now, (tonumber(string.match(fence, '^%d+')) or 0) + 1, floor + 1)",
        "now"),

    # Waiting and releasing.
    Bug("a waiter does not retry after a busy answer", ANSWER,
        "[[e->next_try_at = e->recheck ? now : now + hf__jitter(&e->core->rand, op->retry_ms * "
        "HF__MS);]]",
        "e->next_try_at = HF__NEVER;"),
    Bug("the last caller of a client is served first", CORE,
        "[[hf__list_append(&e->waits, w, link);]]",
        "hf__list_append(&e->waits, w, link); while (e->waits.first != w) {"
        " hf__wait *first = e->waits.first; hf__list_remove(&e->waits, first, link);"
        " hf__list_append(&e->waits, first, link); }"),
    Bug("a release is not sent", ENTRY,
        "if (e->release_requested && now >= e->next_try_at)\n        [[send_release(e, now);]]",
        "hf__calls_finish(e->core, &e->release_calls, HF_OK, NULL); "
        "hf__entry_clear_pending_release(e);"),
    Bug("a failed release is not retried", ANSWER,
        "[[e->release_unknown |= op->outcome_unknown;]]",
        "if (op->outcome_unknown) { hf__calls_finish(e->core, &e->sent_release_calls, HF_OK, NULL);"
        " hf__entry_clear_pending_release(e);"
        " return; }"),
    Bug("break does not compare the token", BREAK,
        "ARGV[1] ~= '0' and ARGV[1] ~= token",
        "false"),

    # The queue.
    Bug("an acquire passes the queue", ACQUIRE,
        "if not (holder and ARGV[7] == '2') and serve_queue(now, client, true, true) then\n"
        "        return answer_busy(true)\n    end",
        ""),
    Bug("an acquire does not see the fence's queue mark", ACQUIRE,
        "(tonumber(fence) or token) < token",
        "tonumber(string.match(fence, '^%d+')) < token"),
    Bug("a waiter marks the fence but not the lock", ACQUIRE,
        "if not string.find(marked_id, ' q$') then call('HSET', KEYS[1], 'n', marked_id .. ' q') "
        "end",
        ""),
    Bug("a waiter that retries moves to the end of the queue", QUEUE,
        "if old ~= entry then call('LSET', KEYS[3], at, entry) end",
        "call('LREM', KEYS[3], 1, old) at = call('RPUSH', KEYS[3], entry) - 1"),
    Bug("a late acquire with a lower id replaces a newer queue entry", QUEUE,
        "if older > acquire_id then return 0 end",
        "", first=1460),
    Bug("a late acquire with a lower id is granted while a newer one is queued", ACQUIRE,
        "if queued_entry and select(2, split_id(queued_entry)) > own_id then return {2, now} end",
        "", first=1290),
    Bug("the queue has no expiry", QUEUE,
        "    call('PEXPIRE', KEYS[3], QUEUE_MS)\n",
        ""),
    Bug("the queue's index has no expiry", QUEUE,
        "    call('PEXPIRE', KEYS[4], QUEUE_MS)\n",
        ""),
    Bug("a queue entry is missing from the index", QUEUE,
        "    call('HSET', KEYS[4], key, digits(now) .. ' ' .. since)\n",
        ""),
    Bug("a waiter that leaves stays in the queue", RELEASE,
        "local was_queued = ARGV[4] == '1' and leave_queue(client, released_id)",
        "local was_queued = false"),
    Bug("a waiter that leaves removes a newer queue entry of its client", QUEUE,
        "if not at or queued_id > acquire_id then return false end",
        "if not at then return false end"),
    Bug("a granted acquire stays in the queue", ACQUIRE,
        "leave_queue(client, own_id)",
        ""),

    # Handing over.
    Bug("a release does not hand over", RELEASE,
        "    serve_queue(now, nil, true)\n    return next_id and {2, now} or answer",
        "    return next_id and {2, now} or answer"),
    Bug("a break does not hand over", BREAK,
        "serve_queue(now, nil, not one)",
        ""),
    Bug("the last waiter in the queue is served first", QUEUE,
        "read_entries(at, at + batch - 1, ROUNDS)",
        "read_entries(-1 - at, -1 - at, ROUNDS)"),
    Bug("every waiter is assumed to listen", QUEUE,
        "listening[i] = not answer.err and answer[2 * i] > 0",
        "listening[i] = true"),
    Bug("waiters behind one that does not listen are not considered", QUEUE,
        "    for _ = 1, ROUNDS do",
        "    for _ = 1, 1 do"),
    Bug("a grant is published before it is written", QUEUE,
        "    local token, text =\n"
        "        grant(id, owner, floor, now, first, others, spec ~= '' and spec or nil, fence)\n",
        "    local soon = digits(math.max(now, floor + 1)) .. ' ' .. digits(now)\n"
        "    if channel then\n"
        "        redis.pcall('PUBLISH', channel,"
        " string.match(id, '%d+$') .. ' ' .. soon .. ' ' .. first)\n"
        "    end\n"
        "    local token, text =\n"
        "        grant(id, owner, floor, now, first, others, spec ~= '' and spec or nil, fence)\n"),
    Bug("a grant that nobody received is kept", QUEUE,
        "if receivers ~= 0 and not (type(receivers) == 'table' and receivers.err) then return "
        "true end",
        "if true then return true end"),
    Bug("an undone grant loses the fence's queue mark", QUEUE,
        "    mark_hold_queued()\n    mark_fence_queued()",
        "    mark_hold_queued()"),
    Bug("an undone grant loses the waiter's queue position", QUEUE,
        "    if after then call('LINSERT', KEYS[3], 'BEFORE', after, entry)\n    else",
        "    if after then else"),
    Bug("a waiter that is handed the lock stays in the queue", QUEUE,
        "    remove_entry(entry)\n    local token",
        "    local token"),
    Bug("a grant does not mark that others wait", QUEUE,
        "local text, mark = digits(token), waiting and ' q' or ''",
        "local text, mark = digits(token), ''"),
    Bug("a cancelled waiter does not leave the queue", WAIT,
        "[[hf__entry_add_pending_leave(e, w->acquire_id, w->queued_until);]]",
        ""),
    Bug("a queue position whose answer was lost is forgotten too early", WAIT,
        "return [[e->core->store->can_hand_off ? hf__later(gone, hf__after_ms(latest, "
        "HF__QUEUE_ENTRY_MS)) : gone]];",
        "gone", first=150),
    Bug("a next acquire counts as granted whatever the answer", ANSWER,
        "if (op->result != HF_UNREACHABLE) [[op->result = next.result;]]",
        "op->result = HF_OK;"),
    Bug("a release that found nothing counts as a grant to the next acquire", ANSWER,
        "const hf__next_acquire next = [[*op->next_acquire]];",
        "*(op->result == HF_LOST ? (op->result = HF_OK, op->next_acquire->result = HF_OK, "
        "op->next_acquire) : op->next_acquire)"),

    # Messages.
    Bug("a grant message from another connection is used", GRANT,
        "bool one_link = [[notification->link == w->first_link && notification->link == "
        "e->core->link]];",
        "true"),
    Bug("a grant message older than a busy answer is used", GRANT,
        "[[notification->server_us >= w->holder_seen_us && notification->token > "
        "w->holder_token]];",
        "true", first=1210),
    Bug("a short grant is entered without renewal", GRANT,
        "bool renews = [[!(w->flags & HF_NO_RENEW)]] &&",
        "true"),
    Bug("a grant message that overtakes the answer is dropped", ANSWER,
        "[[if (e->acquirer == w) w->early_grant = *notification;]]",
        "", first=380),
    Bug("an unused grant message does not trigger a retry", GRANT,
        "    if (!sure) {\n        [[e->next_try_at = 0;]]",
        ""),
    Bug("a new subscription does not trigger a recheck", NOTIFICATIONS,
        "if (listening != n->listening || n->messages->missed) [[n->must_recheck = true;]]",
        "", first=260),

    # Kinds: which holders fit together.
    Bug("two holders may be upgradable", SHARING,
        "if group ~= held[2] or (spec == 'u' and held[4]) then return false end",
        "if group ~= held[2] then return false end"),
    Bug("permits exceed the capacity", SHARING,
        "return not capacity or held[3] + weight <= capacity",
        "return true"),
    Bug("permits of another capacity are granted", SHARING,
        "if group ~= held[2] or (spec == 'u' and held[4]) then return false end",
        "if spec == 'u' and held[4] then return false end"),
    Bug("an upgrade does not wait for readers", SHARING,
        "return held[4] == id and held[3] == '1'",
        "return held[4] == id"),
    Bug("released permits stay in use", HOLDERS,
        "local used = held[1] - weight",
        "local used = tonumber(held[1])"),
    Bug("a released upgradable hold keeps the upgrade", HOLDERS,
        "if held[2] == id then call('HDEL', KEYS[1], 'g') end",
        ""),
    Bug("expired permits stay in use", SHARING,
        "call('HSET', KEYS[1], 'u', used, 'e', digits(first))",
        "call('HSET', KEYS[1], 'e', digits(first))"),
    Bug("the newest holder's expiry replaces the earliest", HOLDERS,
        "'e', digits(math.min(tonumber(held[2] or ends), ends)),",
        "'e', digits(ends),"),
    Bug("a holder outlasts the lock's key", HOLDERS,
        "if not first and call('PTTL', KEYS[1]) >= tonumber(lease) then return 1 end",
        "if held[1] then return 1 end"),

    # Kinds: acquire, renew, release.
    Bug("a shared acquire passes the queue", ACQUIRE_OR_QUEUE,
        "serve_queue(now, key, not holder, not group)",
        "false"),
    Bug("a shared acquire takes effect after its time limit", SHARED_ACQUIRE,
        "if now > tonumber(ARGV[4]) then return {2, now} end",
        ""),
    Bug("a shared acquire ignores tombstones", ACQUIRE_OR_QUEUE,
        "if is_late then return {2, now, merged} end",
        ""),
    Bug("a retried shared acquire is granted twice", ACQUIRE_OR_QUEUE,
        "if ends and not upgrade then",
        "if false then"),
    Bug("an upgrade is queued behind all others", ACQUIRE_OR_QUEUE,
        "local first = upgrade and",
        "local first = false and"),
    Bug("a granted shared acquire stays in the queue", ACQUIRE_OR_QUEUE,
        "if has_queue then leave_queue(key, acquire_id) end",
        ""),
    Bug("a shared renewal does not compare the token", SHARED_RENEW,
        "if its_token ~= token or tonumber(ends) < now",
        "if not its_token", first=390),
    Bug("a downgrade has no effect", SHARED_RENEW,
        "if alone and stays_exclusive then",
        "if alone then"),
    Bug("a shared renewal extends the lock but not the hold", SHARED_RENEW,
        "digits(math.max(ends, now + lease * 1000))",
        "ends"),
    Bug("a cancelled upgrade stays in the queue", SHARED_RENEW,
        "if not stays_exclusive and find_entry(id) then",
        "if false then"),
    Bug("a downgrade does not hand over", SHARED_RENEW,
        "if mark ~= '' then serve_queue(now, nil, false) end",
        ""),
    Bug("a shared release does not hand over", SHARED_RELEASE,
        "    serve_queue(now, nil, false)\n    must_serve, fence",
        "    must_serve, fence"),
    Bug("a shared release with a next acquire does not hand over", SHARED_RELEASE,
        "local must_serve = (was_held and has_queue) or was_queued\nlocal fence = in_time and "
        "call('GET', KEYS[2])",
        "local must_serve, fence = (was_held and has_queue) or was_queued, '0'", first=100),
    Bug("a shared release runs its next acquire after the time limit", SHARED_RELEASE,
        "local in_time = next_id and now <= tonumber(ARGV[8])",
        "local in_time = next_id", first=3700),
    Bug("deferred side entries are never admitted", ADMISSION,
        "(e = find_first_deferred(name_entry)) && [[!hf__side_must_defer(e)]];)",
        "e->core->closing", first=410),
    Bug("a next acquire is not completed as unknown with its release", SESSION,
        "push_completed(s, next, result, [[maybe]], detail ? strdup(detail) : NULL);\n    }\n    "
        "push_completed(",
        "false", first=140),
    Bug("a shared release does not remove the queue entry", SHARED_RELEASE,
        " and find_entry(id)\nif was_queued",
        " and false\nif was_queued"),
    Bug("a shared release leaves no tombstone for a late acquire", SHARED_RELEASE,
        "if tombstone_until ~= '0' then",
        "if false then"),
    Bug("a mutex that leaves the queue does not admit waiters behind it", RELEASE,
        "if was_queued then -- waiters behind it may be able to share the lock",
        "if false then"),
    Bug("waiters behind a granted one are not considered", QUEUE,
        "if not parse_spec(spec) then return true end",
        "if true then return true end"),

    # Kinds: in the client.
    Bug("an upgrade keeps its old token", GRANT,
        "[[e->grant->token = op->token;\n    atomic_store(&ownership->token, op->token);]]\n"
        "    if (ownership->kind",
        ""),
    Bug("a cancelled upgrade is not undone", WAIT,
        "[[if (e->grant) e->grant->verify = true;]]\n    e->next_try_at = 0;",
        ""),
    Bug("readers join a hold although others wait", GRANT,
        "if (!plain || [[e->op.has_waiters]] ||",
        "false"),

    # Several names.
    Bug("a multi-acquire grants the free names before the first held one", ACQUIRE_ALL,
        "if found ~= 1 then return {found, now, merged} end",
        "if found ~= 1 then names = i - 1 break end"),
    Bug("a multi-acquire is granted although one name is held", ACQUIRE_ALL,
        "fits(spec, id, now) and not",
        "not"),
    Bug("a multi-acquire passes a queue", ACQUIRE_ALL,
        " and not string.find(fence, ' q')",
        ""),
    Bug("a multi-acquire ignores tombstones", ACQUIRE_ALL,
        "if is_late then return 2, merged end",
        "", first=7070),
    Bug("a multi-acquire takes effect after its time limit", ACQUIRE_ALL,
        "if now > tonumber(ARGV[3]) then return {2, now} end",
        "", first=2880),
    Bug("a re-entered part of a multi-acquire counts as held after its loss", MULTI,
        "w->call.result == HF_OK && [[hf__ownership_valid(w->handle->ownership, now)]];",
        "(w->handle->ownership->count > 1 || hf__ownership_valid(w->handle->ownership, "
        "now))", first=190),
    Bug("a retried multi-acquire is granted twice", ACQUIRE_ALL,
        "if call('HEXISTS', KEYS[1], id) == 1 then return 0 end",
        "", first=1080),
    Bug("a failed multi-acquire keeps its granted parts", MULTI,
        "[[release_part(&m->parts[i], m->multi.core, now);]]",
        ""),
    Bug("parts after a lost one are kept while it is waited for", MULTI,
        "for (unsigned j = i; j < [[m->count]]; j++) release_part",
        "i + 1", first=80),
    Bug("a cancelled multi-acquire cancels its first part only", MULTI,
        "if ([[m->parts[i].requested && !w->call.done]]) hf__core_give_up",
        "i == 0 && m->parts[i].requested && !w->call.done"),
    Bug("a multi-acquire counts its deadline from the wrong time", SESSION,
        "[[op->sent_at = sent->sent_at;]]",
        "op->sent_at = sent->not_after"),
]
