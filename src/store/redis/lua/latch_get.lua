-- Say how a latch stands, and note who waits for it.
--
-- KEYS    1 the latch   2 who waits for it
-- ARGV    1 client   2 number that it is told by; both there only of one that waits
-- Answer  {1, µs, left, round, done, told}   what is left, the round, the last that came to its end; told 1: it will
--                                            be told when nothing is left
--         {0, µs}                            the latch is not set
-- Cost    3 commands; 6 to be noted; one more when the latch has not been used for an hour

local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

--@ watchers
local held = call('HMGET', KEYS[1], 'r', 'd', 'c')
if not held[1] then return {0, now} end
if call('PTTL', KEYS[1]) < 86400000 then call('PEXPIRE', KEYS[1], 90000000) end
local will_notify = 0
if ARGV[1] and held[3] ~= '0' then will_notify = add_watcher(ARGV[1], ARGV[2], now) end
return {1, now, tonumber(held[3]), tonumber(held[1]), tonumber(held[2]), will_notify}
