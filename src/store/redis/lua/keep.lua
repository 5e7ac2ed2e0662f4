-- Keep what enter.lua granted: how often its owner has entered, what it is at most, and that it lasts at least a
-- lease from now. What was more becomes less; an upgrade that is not waited for any more leaves the line.
--
-- KEYS    1 the lock   2 its fence   3 the line   4 who stands there
-- ARGV    1 client#number   2 client:owner   3 count   4 lease, ms; 0: leave its end as it is
--         5 token   6 what it is at most: see share.lua; `w` also of a reader whose upgrade waits
-- Answer  {1, µs, crowded}  kept; 1: others wait      {0, µs}  not held under this token; nothing was done

local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local id, owner, count, lease, token, spec = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4]), ARGV[5], ARGV[6]
local held = call('HMGET', KEYS[1], 'n', 't', 'o', id)
local alone = held[1] == id or held[1] == id .. ' q'

local function lasts()
    if call('PTTL', KEYS[1]) < lease then call('PEXPIRE', KEYS[1], lease) end
end

if alone and spec == 'w' then
    if held[2] ~= token and held[3] ~= token then return {0, now} end
    lasts()
    if call('HGET', KEYS[1], owner) ~= count then call('HSET', KEYS[1], owner, count) end
    return {1, now, string.find(held[1], ' q$') and 1 or 0}
end

--@ line
if alone then -- a writer that reads from now on, or an upgrade that nobody has heard of
    if held[2] ~= token and held[3] ~= token then return {0, now} end
    local mark = string.match(held[1], ' q$') or ''
    local left = math.max(call('PTTL', KEYS[1]), lease)
    call('DEL', KEYS[1])
    add_holder(id, owner, spec, left, now, token, mark)
    if mark ~= '' then serve(now, nil, false) end
else
    local ends, weight, its = string.match(held[4] or '', '^(%d+) (%d+) %S+ %d+ (%d+) ')
    if its ~= token or tonumber(ends) < now then return {0, now} end
    local since = string.match(held[4], '%d+$')
    call('HSET', KEYS[1], id, digits(math.max(ends, now + lease * 1000)) .. ' ' .. weight .. ' ' .. owner .. ' ' ..
        count .. ' ' .. token .. ' ' .. since)
    lasts()
    if spec ~= 'w' and find(id) then
        leave(id, (select(2, split(id))))
        serve(now, nil, false)
    end
end
return {1, now, call('LLEN', KEYS[3]) > 0 and 1 or 0}
