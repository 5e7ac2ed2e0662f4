-- Keep a hold: say how often its owner has entered, and make it last at least a lease from now.
--
-- KEYS    1 the lock
-- ARGV    1 client:number   2 client:owner   3 count   4 lease, ms; 0: leave its end as it is
-- Answer  µs  kept      -µs  not held by this number; nothing was done
-- Cost    5 commands, 4 where an extension outlasts the lease, 6 with a new count
--
-- It never shortens and never re-creates. The one key lets it run in a slot that is migrating. The
-- lease comes first, because a script that has written may write more when memory is out.

local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
if call('HGET', KEYS[1], 'n') ~= ARGV[1] then return -now end
if call('PTTL', KEYS[1]) < tonumber(ARGV[4]) then call('PEXPIRE', KEYS[1], ARGV[4]) end
if call('HGET', KEYS[1], ARGV[2]) ~= ARGV[3] then call('HSET', KEYS[1], ARGV[2], ARGV[3]) end
return now
