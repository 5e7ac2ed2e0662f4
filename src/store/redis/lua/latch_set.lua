-- SPDX-License-Identifier: Apache-2.0
-- Begins a new round of a latch.
--
-- KEYS    1 the latch   2 its waiters
-- ARGV    1 client   2 request id   3 server time in µs after which nothing may be done
--         4 the count to start from
-- Answer  {1, µs, left, round, done}   set, now or before: the count that is left, the round, and
--                                      the last round that is complete
--         {2, µs}                      too late: nothing was done
-- Cost    6 commands, 7 to create it; 9 once a minute, to drop old request ids; with count 0, to
--         notify waiters, 2 more and a message for each
--
-- The script may be sent twice and acts once, because the request id is remembered. Rounds are
-- server times, so they grow even if the latch was lost in between.

local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[3]) then return {2, now} end

--@ watchers
--@ latch
local round, done, left, record = read_latch()
if round and was_counted(record) then return {1, now, left, round, done} end
local is_new = not round and call('PTTL', KEYS[1]) == -2
round, left = math.max(now, (round or 0) + 1), tonumber(ARGV[4])
if left == 0 then done = round end
-- A latch must not exist without an expiry. A user that may not set one gets an error, leaves no
-- new latch behind, and does not change an existing one.
if not is_new then call('PEXPIRE', KEYS[1], LATCH_MS) end
call('HSET', KEYS[1], 'r', digits(round), 'c', ARGV[4], 'd', digits(done),
    ARGV[1], count_record(record))
local expire_reply = is_new and redis.pcall('PEXPIRE', KEYS[1], LATCH_MS) or 1
if expire_reply ~= 1 then
    call('DEL', KEYS[1])
    return expire_reply
end
drop_old_clients(now)
if left == 0 then notify_watchers(now) end
return {1, now, left, round, done}
