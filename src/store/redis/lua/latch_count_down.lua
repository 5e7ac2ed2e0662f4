-- SPDX-License-Identifier: Apache-2.0
-- Counts a latch down, and notifies its waiters when the count reaches 0.
--
-- KEYS    1 the latch   2 its waiters
-- ARGV    1 client   2 request id   3 server time in µs after which nothing may be done
--         4 by how much to count down
-- Answer  {1, µs, left, round, done}   counted, now or before: the count that is left, the round,
--                                      and the last round that is complete
--         {0, µs}                      the latch is not set: nothing was done
--         {2, µs}                      too late: nothing was done
-- Cost    5 commands; 8 once a minute, to drop old request ids; to notify waiters, 2 more and a
--         message for each
--
-- The script may be sent twice and counts once, because the request id is remembered across rounds.
-- The expiry is set first, because after its first write a script may write more, even when the
-- server is out of memory.

local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[3]) then return {2, now} end

--@ watchers
--@ latch
local round, done, before, record = read_latch()
if not round then return {0, now} end
if was_counted(record) then return {1, now, before, round, done} end
call('PEXPIRE', KEYS[1], LATCH_MS)
local left = math.max(0, before - ARGV[4])
if left == 0 then done = round end
call('HSET', KEYS[1], 'c', digits(left), 'd', digits(done), ARGV[1], count_record(record))
if record == '' then drop_old_clients(now) end
if left == 0 and before > 0 then notify_watchers(now) end
return {1, now, left, round, done}
