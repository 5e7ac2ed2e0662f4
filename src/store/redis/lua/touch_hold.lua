-- Write a hold's lifetime anew, as it is: a write of this connection that comes after the grant.
--
-- KEYS    1 the lock
-- ARGV    1 client:number, or client#number   2 `1`: it must be alone, as a mutex or a writer
-- Answer  ms  it holds here for so long, and the write is on its way to the replicas      0  it does not hold here
-- Cost    4 commands
--
-- WAIT counts from the last write of its own connection, and only from one that was replicated. PEXPIRE always is, and
-- needs no memory. A reader's time is in its own field; that of the key is the longest of all.

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
