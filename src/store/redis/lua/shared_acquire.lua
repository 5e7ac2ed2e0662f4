-- Let a reader, a writer or a taker of permits in, if nobody who came before cannot be; or upgrade a reader.
--
-- KEYS    1 the lock   2 its fence   3 the line   4 who stands there
-- ARGV    1 client#number   2 client:owner   3 lease, ms   4 server time after which not to act, µs
--         5 highest token the client had seen   6 what is wanted: see holders.lua
--         7 server time when it was sent, or earlier, µs   8 there only to stand in line
-- Answer  {1, µs, token, crowded}     granted, now or before; 1: others wait
--         {0, µs, ms, place, token}   not now; something changes in ms; place in line, 0: none; a holder's token
--         {2, µs}                     too late: nothing was done; 2 behind it: see live_tombstones
--         {3, µs, capacity}           permits of another capacity are in use
--         {4, µs}                     nothing is held that could be upgraded
--
-- Sent twice it acts once, as acquire.lua does. The number is this hold's alone: no other is replaced by it.

local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[4]) then return {2, now} end

-- What comes first is all there is to do without contention; the rest is not even defined then.
--@ holders
--@ acquire_free
local fence = call('GET', KEYS[2])
local granted = acquire_free(ARGV[1], ARGV[2], ARGV[3], ARGV[5], ARGV[6], now, fence)
if granted then return granted end

--@ queue
--@ acquire_or_queue
return acquire_or_queue(ARGV[1], ARGV[2], ARGV[3], ARGV[5], ARGV[6], tonumber(ARGV[7]), ARGV[8], now, fence)
