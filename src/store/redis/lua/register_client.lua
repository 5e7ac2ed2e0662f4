-- SPDX-License-Identifier: Apache-2.0
-- Stores the identity of a client, so that others can see it.
--
-- KEYS    1 the client's registration
-- ARGV    1 how long it lasts, ms   2 host   3 pid   4 program   5 label
-- Answer  µs
-- Cost    3 commands

local time = redis.call('TIME')
redis.call('HSET', KEYS[1], 'host', ARGV[2], 'pid', ARGV[3], 'program', ARGV[4], 'label', ARGV[5])
-- A registration must not exist without an expiry. A user that may not set one gets an error and
-- leaves nothing behind.
local expire_reply = redis.pcall('PEXPIRE', KEYS[1], ARGV[1])
if expire_reply ~= 1 then
    redis.call('DEL', KEYS[1])
    return expire_reply
end
return time[1] * 1000000 + time[2]
