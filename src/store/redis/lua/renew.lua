-- Keep a hold: say how often its owner has entered, and make it last at least a lease from now.
--
-- KEYS    1 the lock
-- ARGV    1 client:number   2 client:owner   3 count   4 lease, ms; 0: leave its end as it is
--         5 token
-- Answer  µs  kept      -µs  not held by this number under this token; nothing was done
-- Cost    5 commands, 4 where an extension outlasts the lease, 6 with a new count
--
-- The token tells a hold from one that a late acquire of the same number took after this was broken
-- or flushed: others may have held it in between. It never shortens and never re-creates. The one key lets it run in a slot that is migrating. The
-- lease comes first, because a script that has written may write more when memory is out.

local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local hold = call('HMGET', KEYS[1], 'n', 't')
if hold[2] ~= ARGV[5] or (hold[1] ~= ARGV[1] and hold[1] ~= ARGV[1] .. ' q') then return -now end
if call('PTTL', KEYS[1]) < tonumber(ARGV[4]) then call('PEXPIRE', KEYS[1], ARGV[4]) end
if call('HGET', KEYS[1], ARGV[2]) ~= ARGV[3] then call('HSET', KEYS[1], ARGV[2], ARGV[3]) end
return now
