-- Give a hold the token that the nodes of a quorum agree on, where it is still held.
--
-- KEYS    1 the lock   2 its fence
-- ARGV    1 client:number   2 token
-- Answer  µs  raised, or so already      -µs  not held by this number: nothing was done
-- Cost    5 commands
--
-- The fence goes up and never down: what is granted here later is above the token, also where this node had
-- granted under a higher one. Where the hold is not ours any more nothing is promised for the next, and so
-- nothing is done: whoever asked must not count this node.

local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local hold = call('HMGET', KEYS[1], 'n', 't', 's')
if hold[1] ~= ARGV[1] and hold[1] ~= ARGV[1] .. ' q' then return -now end
local last, rest = string.match(call('GET', KEYS[2]) or '0', '^(%d+)(.*)$')
if not last then return redis.error_reply('HFFENCE the fence holds no token') end
if tonumber(last) < tonumber(ARGV[2]) then last = ARGV[2] end
call('SET', KEYS[2], last .. rest, 'PX', '90000000')
call('HSET', KEYS[1], 't', ARGV[2], 's', hold[3] or hold[2]) -- without `s` the token was the time of the grant
return now
