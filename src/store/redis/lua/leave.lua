-- End what enter.lua granted, and hand the lock on to those whose turn it is.
--
-- KEYS    1 the lock   2 its fence   3 the line   4 who stands there
-- ARGV    1 client#number; most often that is all
--         2 until when an acquire of it may come late, µs; 0: none can
--         3 how long to keep the fence from now, ms; 0: it was touched not long ago
--         4 `1`: leave the line, too
-- Answer  1  released      0  was not held by it

local call = redis.call
local id = ARGV[1]
local holder = call('HGET', KEYS[1], 'n')
if holder == id and not ARGV[2] then return call('DEL', KEYS[1]) end

--@ hold
if holder == '*' and not ARGV[2] then return remove_holder(id) and 1 or 0 end

--@ line
local bury, keep = ARGV[2] or '0', ARGV[3] or '0'
local marked = holder and string.find(holder, ' q$')
local token = keep ~= '0' and call('HGET', KEYS[1], 't')
local ours = true
if holder == id or holder == id .. ' q' then call('DEL', KEYS[1]) else ours = remove_holder(id) end
local stood = (ARGV[4] == '1' or marked) and find(id)
if stood then leave(id, (select(2, split(id)))) end

local time = call('TIME')
local now = time[1] * 1000000 + time[2]
if bury ~= '0' then
    local fence = call('GET', KEYS[2]) or token or '0'
    local kept = string.match(fence, '^%d+ q') or string.match(fence, '^%d+') or '0'
    call('SET', KEYS[2], kept .. tombs_with(fence, now, id, tonumber(bury)), 'PX', keep)
elseif token and call('PEXPIRE', KEYS[2], keep) == 0 then
    call('SET', KEYS[2], token .. (marked and ' q' or ''), 'PX', keep)
end
if (ours and marked) or stood then serve(now, nil, false) end
return ours and 1 or 0
