-- SPDX-License-Identifier: Apache-2.0
-- Renews a hold: stores how often its owner has entered, and makes it last at least a lease from
-- now.
--
-- KEYS    1 the lock
-- ARGV    1 client:acquire_id   2 client:owner   3 count   4 lease, ms; 0: keep the expiry
--         5 token
-- Answer  µs  renewed      -µs  not held by this acquire id under this token: nothing was done
-- Cost    5 commands, 4 if an extension outlasts the lease, 6 with a new count
--
-- The token identifies the hold. A late acquire with the same id may have taken the lock again
-- after it was broken or flushed, and others may have held it in between. The script never shortens
-- a hold and never creates one. It uses one key, so it can run in a slot that is migrating. It sets
-- the lease first, because after its first write a script may write more, even when the server is
-- out of memory.

local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local hold = call('HMGET', KEYS[1], 'n', 't')
if hold[2] ~= ARGV[5] or (hold[1] ~= ARGV[1] and hold[1] ~= ARGV[1] .. ' q') then return -now end
if call('PTTL', KEYS[1]) < tonumber(ARGV[4]) then call('PEXPIRE', KEYS[1], ARGV[4]) end
if call('HGET', KEYS[1], ARGV[2]) ~= ARGV[3] then call('HSET', KEYS[1], ARGV[2], ARGV[3]) end
return now
