-- SPDX-License-Identifier: Apache-2.0
-- Raises the token of a hold to the one that the nodes of a quorum agree on, if it is still held.
--
-- KEYS    1 the lock   2 its fence
-- ARGV    1 client:acquire_id   2 token
-- Answer  µs  raised, now or before      -µs  not held by this acquire id: nothing was done
-- Cost    5 commands
--
-- The fence never goes down: later grants of this node get higher tokens than this one, even if the
-- node had granted this hold under a higher token. If the hold is gone, another client may already
-- have been granted the lock. Nothing is done then, and the client must not count this node.

local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local hold = call('HMGET', KEYS[1], 'n', 't', 's')
if hold[1] ~= ARGV[1] and hold[1] ~= ARGV[1] .. ' q' then return -now end
local last, rest = string.match(call('GET', KEYS[2]) or '0', '^(%d+)(.*)$')
if not last then return redis.error_reply('HFFENCE the fence holds no token') end
if tonumber(last) < tonumber(ARGV[2]) then last = ARGV[2] end
call('SET', KEYS[2], last .. rest, 'PX', '90000000')
-- if there is no `s`, the token was the time of the grant
call('HSET', KEYS[1], 't', ARGV[2], 's', hold[3] or hold[2])
return now
