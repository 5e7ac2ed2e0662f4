-- SPDX-License-Identifier: Apache-2.0
-- Reads a latch, and registers the client as a waiter.
--
-- KEYS    1 the latch   2 its waiters
-- ARGV    1 client   2 request id for the notification; both only if the client waits
-- Answer  {1, µs, left, round, done, notified}   the count that is left, the round, and the last
--                                                round that is complete; notified 1: the client
--                                                will get a message when the count reaches 0
--         {0, µs}                                the latch is not set
-- Cost    3 commands; 6 to register; one more if the latch was not used for an hour

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
