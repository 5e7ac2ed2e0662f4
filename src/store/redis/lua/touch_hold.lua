-- SPDX-License-Identifier: Apache-2.0
-- Writes the expiry of a hold again, unchanged, so that this connection has made a write after the
-- grant.
--
-- KEYS    1 the lock
-- ARGV    1 client:acquire_id, or client#acquire_id   2 `1`: it must be exclusive (mutex or writer)
-- Answer  ms  held here for that long, and the write is on its way to the replicas
--         0   not held here
-- Cost    4 commands
--
-- WAIT counts from the last write of its own connection, and only a write that is replicated
-- counts. PEXPIRE is always replicated and needs no memory. The expiry of a reader is in its own
-- field; the expiry of the key is the latest of all.

local call = redis.call
local time = call('TIME')
local hold = call('HMGET', KEYS[1], 'n', ARGV[1])
local left = call('PTTL', KEYS[1])
local alone = hold[1] == ARGV[1] or hold[1] == ARGV[1] .. ' q'
if left <= 0 or not (alone or (hold[2] and ARGV[2] ~= '1')) then return 0 end
call('PEXPIRE', KEYS[1], left)
if alone then return left end
local ends = tonumber(string.match(hold[2], '^%d+') or 0)
return math.max(math.floor((ends - time[1] * 1000000 - time[2]) / 1000), 0)
