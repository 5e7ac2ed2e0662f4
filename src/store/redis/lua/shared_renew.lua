-- Keep what shared_acquire.lua granted: how often its owner has entered, what it is at most, and that it lasts at least a
-- lease from now. What was more becomes less; an upgrade that is not waited for any more leaves the line.
--
-- KEYS    1 the lock   2 its fence   3 the line   4 who stands there
-- ARGV    1 client#number   2 client:owner   3 count   4 lease, ms; 0: leave its end as it is
--         5 token   6 what it is at most: see holders.lua; `gN` of a reader whose upgrade waits
--         7 how many upgrades it has asked for
--         Where the slot is being moved, with the lock alone in KEYS: then no more is done than that it lasts
-- Answer  {1, µs, crowded}  kept; 1: others wait      {0, µs}  not held under this token; nothing was done

local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local id, owner, count, lease, token, spec = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5], ARGV[6]
local held = call('HMGET', KEYS[1], 'n', 't', 'o', id)
local alone = held[1] == id or held[1] == id .. ' q'

-- Its token, or that of before an upgrade it has asked for and may not have heard of. A renewal of before that asking
-- comes late.
local before, nth = string.match(held[3] or '', '^(%d+) (%d+)$')
local token_matches = held[2] == token or before == token
local late = tonumber(nth or 0) > tonumber(ARGV[7])

-- The first thing that is written, since a script that has written may write more when memory is out.
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
if alone then -- a writer that reads from now on, or an upgrade that nobody has heard of
    if not KEYS[2] then return redis.error_reply('TRYAGAIN the slot is being moved') end
    if not token_matches or late then return {0, now} end
    local mark = string.match(held[1], ' q$') or ''
    extend_lease()
    call('HDEL', KEYS[1], owner, 'o')
    add_holder(id, owner, spec, call('PTTL', KEYS[1]), now, token, mark, count)
    leave_queue(id, (select(2, split_id(id)))) -- an ask of it that came late may stand there
    if mark ~= '' then serve_queue(now, nil, false) end
else
    local ends, weight, its_token = string.match(held[4] or '', '^(%d+) (%d+) %S+ %d+ (%d+) ')
    if its_token ~= token or tonumber(ends) < now or spec == 'w' then return {0, now} end
    local since = string.match(held[4], '%d+$')
    extend_lease()
    call('HSET', KEYS[1], id, digits(math.max(ends, now + lease * 1000)) .. ' ' .. weight .. ' ' .. owner .. ' ' ..
        count .. ' ' .. token .. ' ' .. since)
    if not KEYS[2] then return {1, now, string.find(held[1], ' q$') and 1 or 0} end
    if not stays_exclusive and find_entry(id) then
        leave_queue(id, (select(2, split_id(id))))
        serve_queue(now, nil, false)
    end
end
return {1, now, call('LLEN', KEYS[3]) > 0 and 1 or 0}
