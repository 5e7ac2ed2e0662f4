-- Begin a new round of a latch.
--
-- KEYS    1 the latch   2 who waits for it
-- ARGV    1 client   2 number   3 server time after which not to act, µs   4 how many are to be counted
-- Answer  {1, µs, left, round, done}   set, now or before: what is left, the round, the last that came to its end
--         {2, µs}                      too late: nothing was done
-- Cost    6 commands, 7 to make it; 9 once a minute, to forget old numbers; 2 more and a message each to let waiters go, with 0
--
-- Sent twice it acts once: the number is remembered. Rounds are server times, so that they grow also when the latch
-- was lost in between.

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
-- Not without its end: a user who may not set one gets an error, leaves no latch behind, and that of others alone.
if not is_new then call('PEXPIRE', KEYS[1], LATCH_MS) end
call('HSET', KEYS[1], 'r', digits(round), 'c', ARGV[4], 'd', digits(done), ARGV[1], count_record(record))
local expire_reply = is_new and redis.pcall('PEXPIRE', KEYS[1], LATCH_MS) or 1
if expire_reply ~= 1 then
    call('DEL', KEYS[1])
    return expire_reply
end
drop_old_clients(now)
if left == 0 then notify_watchers(now) end
return {1, now, left, round, done}
