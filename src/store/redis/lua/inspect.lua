-- Say who holds a lock, and who waits for it.
--
-- KEYS    1 the lock   2 the line
-- Answer  {0, µs, waiting, …}  nobody holds it
--         {1, µs, waiting, ms until it expires, client:number, token, since in Unix ms, kind, client:owner,
--         count, …}
--         where … is client:owner of those who wait, the first first, 64 at most
-- Cost    5 commands, 4 when free
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
local answer = {0, now, redis.call('LLEN', KEYS[2])}
if hold.n then
    answer = {1, now, answer[3], redis.call('PTTL', KEYS[1]), hold.n, tonumber(hold.t or 0),
              tonumber(hold.s or hold.t or 0) / 1000,
              tonumber(hold.k or 0), owner, tonumber(count)}
end
for _, entry in ipairs(redis.call('LRANGE', KEYS[2], 0, 63)) do
    answer[#answer + 1] = string.match(entry, '^%S+ (%S+)') or ''
end
return answer
