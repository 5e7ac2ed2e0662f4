-- SPDX-License-Identifier: Apache-2.0
-- Grants a reader, a writer or permits, if no earlier waiter is blocked; or upgrades a reader.
--
-- KEYS    1 the lock   2 its fence   3 the queue   4 the waiters' notes
-- ARGV    1 client#acquire_id   2 client:owner   3 lease, ms
--         4 server time in µs after which nothing may be done
--         5 highest token the client has seen   6 the kind: see holders.lua
--         7 server time in µs, at or before the sending   8 only if the client wants to queue
-- Answer  {1, µs, token, has_waiters}    granted, now or before; has_waiters 1: others wait
--         {0, µs, ms, position, token}   not now; something changes in ms; position in the queue,
--                                        0: none; the token of a holder
--         {2, µs}                        too late: nothing was done;
--                                        a third value 2: see live_tombstones
--         {3, µs, capacity}              permits of another capacity are in use
--         {4, µs}                        the client holds nothing that could be upgraded
--
-- Like acquire.lua, the script may be sent twice and acts once. The acquire id belongs to this hold
-- alone and replaces no other hold.

local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[4]) then return {2, now} end

-- Without contention, only the code up to `queue` runs, and the rest is not even defined.
--@ holders
--@ acquire_free
local fence = call('GET', KEYS[2])
local granted = acquire_free(ARGV[1], ARGV[2], ARGV[3], ARGV[5], ARGV[6], now, fence)
if granted then return granted end

--@ queue
--@ acquire_or_queue
return acquire_or_queue(ARGV[1], ARGV[2], ARGV[3], ARGV[5], ARGV[6], tonumber(ARGV[7]),
    ARGV[8], now, fence)
