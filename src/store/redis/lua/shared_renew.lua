-- SPDX-License-Identifier: Apache-2.0
-- Renews a hold that shared_acquire.lua granted: stores how often its owner has entered, downgrades
-- it to the given kind, and makes it last at least a lease from now. An upgrade that no caller
-- waits for any more leaves the queue.
--
-- KEYS    1 the lock   2 its fence   3 the queue   4 the waiters' notes
-- ARGV    1 client#acquire_id   2 client:owner   3 count   4 lease, ms; 0: keep the expiry
--         5 token   6 the strongest kind it may keep: see holders.lua; `gN` for a reader whose
--         upgrade waits   7 how many upgrades it has requested
--         While the slot is being moved, KEYS has the lock alone: then only the lease is extended
-- Answer  {1, µs, has_waiters}  renewed; has_waiters 1: others wait
--         {0, µs}               not held under this token: nothing was done

local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local id, owner, count, lease, token, spec =
    ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5], ARGV[6]
local held = call('HMGET', KEYS[1], 'n', 't', 'o', id)
local alone = held[1] == id or held[1] == id .. ' q'

-- The token is the hold's, or the one from before an upgrade whose answer the client may have
-- missed. A renewal that was sent before that upgrade was requested is late.
local before, nth = string.match(held[3] or '', '^(%d+) (%d+)$')
local token_matches = held[2] == token or before == token
local late = tonumber(nth or 0) > tonumber(ARGV[7])

-- This must be the first write: after it, a script may write more, even when the server is out of
-- memory.
local function extend_lease()
    call('PEXPIRE', KEYS[1], math.max(call('PTTL', KEYS[1]), lease, 1))
end

local stays_exclusive = spec == 'w' or string.sub(spec, 1, 1) == 'g'
if alone and stays_exclusive then
    if not token_matches then return {0, now} end
    extend_lease()
    if call('HGET', KEYS[1], owner) ~= count then call('HSET', KEYS[1], owner, count) end
    return {1, now, string.find(held[1], ' q$') and 1 or 0}
end

--@ holders
--@ queue
if alone then -- a downgraded writer, or an upgrade whose answer was lost
    if not KEYS[2] then return redis.error_reply('TRYAGAIN the slot is being moved') end
    if not token_matches or late then return {0, now} end
    local mark = string.match(held[1], ' q$') or ''
    extend_lease()
    call('HDEL', KEYS[1], owner, 'o')
    add_holder(id, owner, spec, call('PTTL', KEYS[1]), now, token, mark, count)
    leave_queue(id, (select(2, split_id(id)))) -- a late acquire of this hold may have queued
    if mark ~= '' then serve_queue(now, nil, false) end
else
    local ends, weight, its_token = string.match(held[4] or '', '^(%d+) (%d+) %S+ %d+ (%d+) ')
    if its_token ~= token or tonumber(ends) < now or spec == 'w' then return {0, now} end
    local since = string.match(held[4], '%d+$')
    extend_lease()
    call('HSET', KEYS[1], id, digits(math.max(ends, now + lease * 1000)) .. ' ' .. weight .. ' ' ..
        owner .. ' ' .. count .. ' ' .. token .. ' ' .. since)
    if not KEYS[2] then return {1, now, string.find(held[1], ' q$') and 1 or 0} end
    if not stays_exclusive and find_entry(id) then
        leave_queue(id, (select(2, split_id(id))))
        serve_queue(now, nil, false)
    end
end
return {1, now, call('LLEN', KEYS[3]) > 0 and 1 or 0}
