-- Count a latch down, and let those who wait go when nothing is left.
--
-- KEYS    1 the latch   2 who waits for it
-- ARGV    1 client   2 number   3 server time after which not to act, µs   4 by how much
-- Answer  {1, µs, left, round, done}   counted, now or before: what is left, the round, the last that came to its end
--         {0, µs}                      the latch is not set: nothing was done
--         {2, µs}                      too late: nothing was done
-- Cost    5 commands; 8 once a minute, to forget old numbers; 2 more and a message each to let waiters go
--
-- Sent twice it counts once: the number is remembered, from round to round. Its end is set first, because a script
-- that has written may write more when memory is out.

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
