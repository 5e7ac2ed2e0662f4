-- Say who holds a lock.
--
-- KEYS    1 the lock
-- Answer  {0, µs}  nobody
--         {1, µs, ms until it expires, client:number, token, since in Unix ms, kind, client:owner, count}
-- Cost    3 commands, 2 when free
--
-- The hash has no `s` where the token is the time of the grant, and no `k` where it is a mutex.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local fields = redis.call('HGETALL', KEYS[1])
local hold, owner, count = {}, '', 0
for i = 1, #fields, 2 do
    if #fields[i] == 1 then hold[fields[i]] = fields[i + 1]
    else owner, count = fields[i], fields[i + 1] end
end
if not hold.n then return {0, now} end
return {1, now, redis.call('PTTL', KEYS[1]), hold.n, tonumber(hold.t or 0),
        tonumber(hold.s or hold.t or 0) / 1000,
        tonumber(hold.k or 0), owner, tonumber(count)}
