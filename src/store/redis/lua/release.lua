-- End a hold of a client, of this number or an older one.
--
-- KEYS    1 the lock   2 its fence
-- ARGV    1 client:number   2 until when an acquire of ours may come late, µs; 0: none can
--         3 how long to keep the fence from now, ms; 0: it was touched not long ago
-- Answer  1  released      0  was not held by it
-- Cost    2 commands; 4 after a long hold, 5 if its fence was gone, 6 with a tomb to write
--
-- A hold of a higher number is not touched: then this is a late command of a connection that was
-- given up. It begins by deleting, so that it also works when memory is out.

local call = redis.call
local holder = call('HGET', KEYS[1], 'n')
local ours = holder == ARGV[1]
if holder and not ours then
    local client, number = string.match(holder, '^(.*):(%d+)$')
    local releaser, released = string.match(ARGV[1], '^(.*):(%d+)$')
    ours = client == releaser and tonumber(number) < tonumber(released)
end
local token = ours and ARGV[3] ~= '0' and call('HGET', KEYS[1], 't')
if ours then call('DEL', KEYS[1]) end

if ARGV[2] ~= '0' then
    local fence = call('GET', KEYS[2]) or token or '0'
    local kept = string.match(fence, '^%d+') or '0'
    local time = call('TIME')
    local now = time[1] * 1000000 + time[2]
    for tomb, till in string.gmatch(fence, '( %S+:%d+ (%d+))') do
        if now <= tonumber(till) then kept = kept .. tomb end
    end
    call('SET', KEYS[2], kept .. ' ' .. ARGV[1] .. ' ' .. ARGV[2], 'PX', ARGV[3])
elseif token and call('PEXPIRE', KEYS[2], ARGV[3]) == 0 then
    call('SET', KEYS[2], token, 'PX', ARGV[3])
end
return ours and 1 or 0
