-- SPDX-License-Identifier: Apache-2.0
-- Ends a hold by force, and hands the lock to the first waiter.
--
-- KEYS    1 the lock   2 its fence   3 the queue   4 the waiters' notes
-- ARGV    1 the token that the hold must have; 0: any
--         2 server time in µs after which nothing may be done
-- Answer  {1, µs, token}  broken      {0, µs, token}  held under another token; 0: not held
--         {2, µs}         too late: nothing was done
-- Cost    4 commands; 13 to hand the lock over; 2 if nothing is broken

local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[2]) then return {2, now} end
local held = call('HMGET', KEYS[1], 't', 'n')
local token, one = held[1], nil
-- with several holders, find the one with this token
if token and ARGV[1] ~= '0' and string.sub(held[2], 1, 1) == '*' then
    for i, record in ipairs(call('HGETALL', KEYS[1])) do
        if i % 2 == 0 and string.match(record, '^%d+ %d+ %S+ %d+ (%d+) %d+$') == ARGV[1] then
            token, one = ARGV[1], i
        end
    end
    if not one then return {0, now, tonumber(token)} end
end
if not token or (ARGV[1] ~= '0' and ARGV[1] ~= token) then
    return {0, now, tonumber(token or 0)}
end

--@ holders
--@ queue
if one then
    remove_holder(call('HGETALL', KEYS[1])[one - 1])
else
    call('DEL', KEYS[1])
end
serve_queue(now, nil, not one)
return {1, now, tonumber(token)}
