-- End a hold of a client, of this number or an older one.
--
-- KEYS    1 the lock   2 its fence
-- ARGV    1 client   2 number   3 until when an acquire of ours may come late, µs; 0: none can
--         4 how long to keep the fence, ms
-- Answer  {1, µs}  released      {0, µs}  was not held by it
-- Cost    4 commands; 2 when it was not held, 5 with a tomb to write or a fence that was gone
--
-- A hold of a higher number is not touched: then this is a late command of a connection that was
-- given up. It begins by deleting, so that it also works when memory is out.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local hold = redis.call('HMGET', KEYS[1], 'n', 't')
local ours = hold[1] == ARGV[1] .. ':' .. ARGV[2]
if hold[1] and not ours then
    local client, number = string.match(hold[1], '^(.*):(%d+)$')
    ours = client == ARGV[1] and tonumber(number) < tonumber(ARGV[2])
end
if ours then redis.call('DEL', KEYS[1]) end

if ARGV[3] ~= '0' then
    local fence = redis.call('GET', KEYS[2]) or hold[2] or '0'
    local kept = string.match(fence, '^%d+') or hold[2] or '0'
    for tomb, till in string.gmatch(fence, '( %S+:%d+ (%d+))') do
        if now <= tonumber(till) then kept = kept .. tomb end
    end
    redis.call('SET', KEYS[2], kept .. ' ' .. ARGV[1] .. ':' .. ARGV[2] .. ' ' .. ARGV[3], 'PX',
               ARGV[4])
elseif ours and redis.call('PEXPIRE', KEYS[2], ARGV[4]) == 0 then
    redis.call('SET', KEYS[2], hold[2], 'PX', ARGV[4])
end
return {ours and 1 or 0, now}
