-- SPDX-License-Identifier: Apache-2.0
-- Hands a mutex from one client to another without releasing it in between. With the same client as
-- the target, it extends the lease.
--
-- KEYS    1 the lock
-- ARGV    1 the new client:acquire_id   2 the new client:owner   3 lease, ms
--         4 server time in µs after which nothing may be done
--         5 the client:acquire_id that holds the lock   6 its token
-- Answer  {1, µs, token}  the new client holds it, now or before, for at least a lease from now
--         {2, µs}         too late: nothing was done
--         {4, µs}         neither of the two holds it under this token
-- Cost    5 commands; 8 to hand it over
--
-- The token stays the same, because the lock was never free in between.

local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[4]) then return {2, now} end
local hold = call('HMGET', KEYS[1], 'n', 't', 'k')
local id, mark = string.match(hold[1] or '', '^(%S+)( ?q?)$')
if hold[3] or hold[2] ~= ARGV[6] or (id ~= ARGV[5] and id ~= ARGV[1]) then return {4, now} end
if call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then call('PEXPIRE', KEYS[1], ARGV[3]) end
if id ~= ARGV[1] then
    local fields = call('HGETALL', KEYS[1])
    for i = 1, #fields, 2 do
        if #fields[i] > 1 then call('HDEL', KEYS[1], fields[i]) end
    end
    call('HSET', KEYS[1], 'n', ARGV[1] .. mark, ARGV[2], 1)
end
return {1, now, tonumber(ARGV[6])}
