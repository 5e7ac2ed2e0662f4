-- Write a hold's lifetime anew, as it is: a write of this connection that comes after the grant.
--
-- KEYS    1 the lock
-- ARGV    1 client:number, or client#number
-- Answer  1  it holds, and the write is on its way to the replicas      0  it does not hold here
-- Cost    3 commands
--
-- WAIT counts from the last write of its own connection, and only from one that was replicated. PEXPIRE always is, and
-- needs no memory.

local call = redis.call
local hold = call('HMGET', KEYS[1], 'n', ARGV[1])
local left = call('PTTL', KEYS[1])
local held = hold[1] == ARGV[1] or hold[1] == ARGV[1] .. ' q' or hold[2]
if not held or left <= 0 then return 0 end
return call('PEXPIRE', KEYS[1], left)
