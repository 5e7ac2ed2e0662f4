"""Bugs to be planted in the simulator, each of which it must find.

A line for each: what it is; a file below src/; a piece of its text that stands there exactly once;
and what takes its place. In C, [[...]] marks what is replaced, where the rest of the text is only
there to find it; it must be an expression or a statement, for both are compiled and one is chosen
when the simulator runs. Two bugs may replace the same text, but not overlap otherwise. A bug in a
part of scripts is one of all scripts that have it. Where few seeds show a bug, `first` says from
which to look: below the one that did when this was last written.
"""

from typing import NamedTuple


class Bug(NamedTuple):
    name: str
    file: str
    old: str
    new: str
    first: int = 1


CORE = "core/core.c"
ENTRY = "core/entry.c"
LEASE = "core/lease.c"
SESSION = "store/redis/session.c"
HEARING = "store/redis/hearing.c"
ACQUIRE = "store/redis/lua/acquire.lua"
RELEASE = "store/redis/lua/release.lua"
RENEW = "store/redis/lua/renew.lua"
BREAK = "store/redis/lua/break.lua"
LINE = "store/redis/lua/part/line.lua"

BUGS = [
    # Deadlines.
    Bug("the deadline of a grant counts from its answer", ENTRY,
        "atomic_store(&own->deadline, [[deadline_of(w, op)]]);",
        "hf__sooner(hf__lease_deadline(now, op->lease_ms), max_until(w, op))"),
    Bug("the deadline of a grant counts from its message", HEARING,
        "return [[since_us >= 0 && at <= m->came_at && !old ? at : 0]];",
        "m->came_at"),
    Bug("the deadline of a renewal counts from its answer", ENTRY,
        "hf__time deadline = [[hf__lease_deadline(op->asked_at, op->lease_ms)]];",
        "hf__lease_deadline(now, op->lease_ms)"),
    Bug("there is no margin for clocks that drift", LEASE,
        "return [[asked_at + lease_ms * HF__MS - hf__lease_margin(lease_ms)]];",
        "asked_at + lease_ms * HF__MS", first=320),
    Bug("a grant that is answered after its lease is entered", ENTRY,
        "if ([[w && now < deadline_of(w, op)]]) {",
        "w != NULL"),
    Bug("a grant is believed to last for a lease", ENTRY,
        "op->lease_ms = [[news->lease_ms]];",
        "lease_of(w)"),
    Bug("an unanswered renewal counts as done", ENTRY,
        "if ([[e->op.result == HF_OK]])\n        renew_confirmed(e, now);",
        "e->op.result == HF_OK || e->op.maybe"),
    Bug("a lost hold is kept", ENTRY,
        "else if ([[e->op.result == HF_LOST]])\n        renew_lost(e, now);",
        "false"),

    # Numbers, and what comes late.
    Bug("a release deletes whatever holds the name", RELEASE,
        "if ours then call('DEL', KEYS[1]) end",
        "call('DEL', KEYS[1])"),
    Bug("a release of an old number ends a newer hold of its client", RELEASE,
        "ours = client == releaser and number <= released",
        "ours = client == releaser"),
    Bug("a renewal does not look whose the hold is", RENEW,
        "if hold[2] ~= ARGV[5] or (hold[1] ~= ARGV[1] and hold[1] ~= ARGV[1] .. ' q') then return -now end",
        "if not hold[1] then return -now end"),
    Bug("a renewal makes a lost hold anew", RENEW,
        "then return -now end",
        "then call('HSET', KEYS[1], 'n', ARGV[1], 't', ARGV[5]) end"),
    Bug("a release leaves no tomb for an acquire that comes late", RELEASE,
        "if bury ~= '0' then",
        "if false then"),
    Bug("an acquire does not look at tombs", ACQUIRE,
        "if buried then return {2, now} end",
        ""),
    Bug("the tomb of one client takes the place of another's", RELEASE,
        "kept .. tombs, 'PX', keep)",
        "kept .. string.match(tombs, ' %S+ %S+$'), 'PX', keep)", first=3200),
    Bug("a late ask that stands in line is left there", ENTRY,
        "e->op.leave = [[e->ghost_stands || late_may_stand(e, now)]];",
        "e->ghost_stands", first=4800),
    Bug("who may have been handed the lock was not", ENTRY,
        "if ([[w->placed_until]]) return HF_UNKNOWN_OUTCOME;",
        "false"),
    Bug("an acquire acts after its time", ACQUIRE,
        "if now > tonumber(ARGV[4]) then return {2, now} end",
        ""),
    Bug("an acquire under a higher number of its client takes its place", ACQUIRE,
        "if number > asked then return {2, now} end",
        ""),
    Bug("an acquire takes what another holds", ACQUIRE,
        "if client ~= asker then return busy() end",
        ""),
    Bug("an acquire sent twice is refused for its own sake", ACQUIRE,
        "if holder == ARGV[1] or holder == ARGV[1] .. ' q' then",
        "if holder == ARGV[1] then return {0, now, 30000, 0} end if false then"),
    Bug("a grant that nobody wants any more is kept", ENTRY,
        "[[haunt_by_wait(e, op->number, hf__lease_lapse(now, op->lease_ms));]]\n    if (!w) return;",
        ""),
    Bug("who gives up forgets what it asked for", ENTRY,
        "bool asking = [[e->busy && e->asker == w]];",
        "(set_number(w, 0), w->maybe = false, e->asker = e->asker == w ? NULL : e->asker, false)"),
    Bug("an unanswered ask is forgotten", ENTRY,
        "if ([[op->maybe]]) asked_unheard(e, w);",
        "false"),

    # Leases in the store.
    Bug("a renewal shortens an extension", RENEW,
        "if call('PTTL', KEYS[1]) < tonumber(ARGV[4]) then",
        "if ARGV[4] ~= '0' then"),
    Bug("a renewal does not lengthen the lease", RENEW,
        "then call('PEXPIRE', KEYS[1], ARGV[4]) end",
        "then end"),
    Bug("an acquire sets no end", ACQUIRE,
        "local lasts = redis.pcall('PEXPIRE', KEYS[1], ARGV[3])",
        "local lasts = 1"),
    Bug("a count is counted instead of said", RENEW,
        "~= ARGV[3] then call('HSET', KEYS[1], ARGV[2], ARGV[3]) end",
        "and ARGV[3] ~= '1' then call('HINCRBY', KEYS[1], ARGV[2], 1) end"),

    # Tokens.
    Bug("tokens come from the clock alone", ACQUIRE,
        "token = math.max(token, last + 1)",
        ""),
    Bug("tokens come from the fence alone", ACQUIRE,
        "math.max(now, ARGV[5] + 1), nil",
        "1, nil"),
    Bug("tokens of what is handed over come from the clock alone", LINE,
        "math.max(now, (tonumber(string.match(fence, '^%d+')) or 0) + 1, floor + 1)",
        "now"),

    # Waiting and releasing.
    Bug("who was told that it is held does not ask again", ENTRY,
        "[[e->next_try = e->again ? now : now + hf__jitter(&e->core->rand, op->retry_ms * HF__MS);]]",
        "e->next_try = HF__NEVER;"),
    Bug("the last comes first", CORE,
        "[[w->prev = e->tail;\n    w->next = NULL;\n    if (e->tail)\n        e->tail->next = w;\n"
        "    else\n        e->head = w;\n    e->tail = w;]]",
        "w->prev = NULL; w->next = e->head; if (e->head) e->head->prev = w; else e->tail = w;"
        " e->head = w;"),
    Bug("a release is not sent", ENTRY,
        "if (e->ghost_let_go && now >= e->next_try)\n        [[send_release(e, now);]]",
        "hf__calls_finish(e->core, &e->ghost_calls, HF_OK, NULL); lay_ghost(e);"),
    Bug("a release that failed is not tried again", ENTRY,
        "[[e->ghost_maybe |= op->maybe;]]",
        "if (op->maybe) { hf__calls_finish(e->core, &e->ghost_carried, HF_OK, NULL); lay_ghost(e);"
        " return; }"),
    Bug("break does not look at the token", BREAK,
        "ARGV[1] ~= '0' and ARGV[1] ~= token",
        "false"),

    # The line.
    Bug("an acquire goes past the line", ACQUIRE,
        "if not (holder and ARGV[6] == '2') and serve(now, asker) == true then return busy(true) end",
        ""),
    Bug("an acquire does not see that there is a line", ACQUIRE,
        "(tonumber(fence) or token) < token",
        "tonumber(string.match(fence, '^%d+')) < token"),
    Bug("who stands in line marks the fence alone", ACQUIRE,
        "if not string.find(marked, ' q$') then call('HSET', KEYS[1], 'n', marked .. ' q') end",
        ""),
    Bug("who stands in line again goes to its end", LINE,
        "if old ~= entry then call('LSET', KEYS[3], at, entry) end",
        "call('LREM', KEYS[3], 1, old) at = call('RPUSH', KEYS[3], entry) - 1"),
    Bug("a lower number takes the place of a higher one in line", LINE,
        "if older > number then return 0 end",
        ""),
    Bug("a lower number takes the lock while a higher one stands in line", ACQUIRE,
        "if standing and select(2, split(standing)) > asked then return {2, now} end",
        "", first=1290),
    Bug("the line has no end", LINE,
        "    call('PEXPIRE', KEYS[3], PLACE_MS)\n",
        ""),
    Bug("who stands in line has no end", LINE,
        "    call('PEXPIRE', KEYS[4], PLACE_MS)\n",
        ""),
    Bug("who stands in line cannot be found there", LINE,
        "    call('HSET', KEYS[4], client, digits(now) .. ' ' .. since)\n",
        ""),
    Bug("who leaves the line stays in it", RELEASE,
        "if ARGV[4] == '1' then leave(releaser, released) end",
        ""),
    Bug("who leaves the line takes a higher number with it", LINE,
        "if at and stands <= number then",
        "if at then"),
    Bug("who was granted what it asked for stays in line", ACQUIRE,
        "leave(asker, asked)",
        ""),

    # Handing over.
    Bug("a release does not hand on", RELEASE,
        "    serve(now)\n    return ARGV[5] and {2, now} or 1",
        "    return ARGV[5] and {2, now} or 1"),
    Bug("a break does not hand on", BREAK,
        "serve(now)",
        ""),
    Bug("the last in line is served first", LINE,
        "call('LRANGE', KEYS[3], at, at + looks - 1)",
        "call('LRANGE', KEYS[3], -1 - at, -1 - at)"),
    Bug("what PUBLISH counts is taken for listening", LINE,
        "listen[i] = not answer.err and answer[2 * i] > 0",
        "listen[i] = true"),
    Bug("behind one who does not listen nobody is looked at", LINE,
        "    for _ = 1, ROUNDS do",
        "    for _ = 1, 1 do"),
    Bug("a grant is told before it is written", LINE,
        "    local token, text = grant(id, owner, floor, now, first, others)\n",
        "    local soon = digits(math.max(now, floor + 1)) .. ' ' .. digits(now)\n"
        "    if channel then\n"
        "        redis.pcall('PUBLISH', channel, string.match(id, '%d+$') .. ' ' .. soon .. ' ' .. first)\n"
        "    end\n"
        "    local token, text = grant(id, owner, floor, now, first, others)\n"),
    Bug("a grant that could not be told stands", LINE,
        "if told ~= 0 and not (type(told) == 'table' and told.err) then return true end",
        "if true then return true end"),
    Bug("a grant that is undone forgets that there is a line", LINE,
        "    call('DEL', KEYS[1])\n    mark_fence()",
        "    call('DEL', KEYS[1])"),
    Bug("a grant that is undone costs its place", LINE,
        "    if after then call('LINSERT', KEYS[3], 'BEFORE', after, entry)\n    else",
        "    if after then else"),
    Bug("who is granted the lock stays in line", LINE,
        "    remove(entry)\n    local token",
        "    local token"),
    Bug("a grant does not say that others wait", LINE,
        "local text, mark = digits(token), waiting and ' q' or ''",
        "local text, mark = digits(token), ''"),
    Bug("who leaves does not pass a grant on", ENTRY,
        "if (result != HF_OK) [[haunt_by_wait(e, w->number, w->placed_until);]] /* it leaves the line */",
        ""),
    Bug("a place that was not heard of is forgotten", ENTRY,
        "return [[e->core->store->hands_on ? hf__later(gone, hf__after_ms(latest, HF__PLACE_MS)) : gone]];",
        "gone"),
    Bug("who waited behind a hold of its client enters without asking", ENTRY,
        "if (op->result != HF_UNREACHABLE) [[op->result = heir.result;]]",
        "op->result = HF_OK;"),
    Bug("a release that did nothing has granted the lock to the next", ENTRY,
        "const hf__heir heir = [[op->heir]];",
        "op->result == HF_LOST ? (op->result = HF_OK, op->heir.result = HF_OK, op->heir) : op->heir"),

    # Messages.
    Bug("a grant is entered that came over another connection", ENTRY,
        "bool one_link = [[news->link == w->first_link && news->link == e->core->link]];",
        "true"),
    Bug("a grant is entered that is older than an answer", ENTRY,
        "[[news->token > w->told_token]] &&",
        "true", first=1210),
    Bug("a short grant is entered that nothing makes longer", ENTRY,
        "bool renews = [[!(w->flags & HF_NO_RENEW)]] &&",
        "true"),
    Bug("a grant that overtakes its answer is dropped", ENTRY,
        "[[if (e->asker == w) w->early = *news;]]",
        "", first=380),
    Bug("a grant that is not entered is dropped", ENTRY,
        "    if (!sure) {\n        [[e->next_try = 0;]]",
        ""),
    Bug("who begins to listen does not ask again", HEARING,
        "if (listening != h->listening || h->messages->missed) [[h->ask_again = true;]]",
        ""),
]
