-- SPDX-License-Identifier: Apache-2.0
-- Publishes a value of the holder of a lock, as its leader.
--
-- KEYS    1 the lock   2 the watchers of its leader
-- ARGV    1 client:acquire_id   2 token   3 sequence number of the value: the highest one wins
--         4 the value
-- Answer  {1, µs}  published, now or before
--         {0, µs}  not held by this acquire id under this token: nothing was done
-- Cost    4 commands, 5 with watchers, and a message to each of them
--
-- The value is stored in the hold itself, together with its token. So it ends with the hold,
-- whatever ends the hold, and cannot be mistaken for another holder's value. A repeated or late
-- command changes nothing.

local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local hold = call('HMGET', KEYS[1], 'n', 't', 'v')
if hold[2] ~= ARGV[2] or (hold[1] ~= ARGV[1] and hold[1] ~= ARGV[1] .. ' q') then
    return {0, now}
end

--@ watchers
local token, sequence = string.match(hold[3] or '', '^(%d+) (%d+) ')
if token == ARGV[2] and tonumber(sequence) >= tonumber(ARGV[3]) then return {1, now} end
call('HSET', KEYS[1], 'v', ARGV[2] .. ' ' .. ARGV[3] .. ' ' .. ARGV[4])
notify_watchers(now)
return {1, now}
