-- SPDX-License-Identifier: Apache-2.0
-- Reports who holds a lock and who waits for it.
--
-- KEYS    1 the lock   2 the queue
-- Answer  {0, µs, waiter count, …}  the lock is free
--         {1, µs, waiter count, ms until it expires, client:acquire_id, token, since in Unix ms,
--          kind, client:owner, count, holders, used, capacity, …}; of several holders, one
--         where … is client:owner of each waiter in queue order, 64 at most
-- Cost    5 commands, 4 if the lock is free
--
-- The hash has no field `s` if the token is the time of the grant, and no field `k` if the lock is
-- a mutex. part/holders.lua describes several holders.

local KINDS = {r = 1, w = 2, g = 2, u = 3, p = 4}
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local fields = redis.call('HGETALL', KEYS[1])
local hold, owner, count, holders, used = {}, '', 0, 0, 0
for i = 1, #fields, 2 do
    local key, value = fields[i], fields[i + 1]
    local ends, weight, owner_key, entered, token, since =
        string.match(value, '^(%d+) (%d+) (%S+) (%d+) (%d+) (%d+)$')
    if #key == 1 then hold[key] = value
    elseif not ends then owner, count, holders = key, value, 1
    elseif now <= tonumber(ends) then -- the hash may still list holders that have expired
        owner, count, holders, used = owner_key, entered, holders + 1, used + weight
        hold.one = {id = key, t = token, s = since, ms = math.floor((ends - now) / 1000)}
    end
end
local answer = {0, now, redis.call('LLEN', KEYS[2])}
if hold.n and holders > 0 then
    local one, capacity = hold.one or {}, string.match(hold.k or '', '^p(%d+)')
    answer = {1, now, answer[3], one.ms or redis.call('PTTL', KEYS[1]), one.id or hold.n,
              tonumber(one.t or hold.t or 0),
              tonumber(one.s or hold.s or hold.t or 0) / 1000,
              holders == 1 and hold.g and hold.g == one.id and 3 or
                  KINDS[string.sub(hold.k or '', 1, 1)] or 0,
              owner, tonumber(count), holders, capacity and used or 0, tonumber(capacity or 0)}
end
for _, entry in ipairs(redis.call('LRANGE', KEYS[2], 0, 63)) do
    answer[#answer + 1] = string.match(entry, '^%S+ (%S+)') or ''
end
return answer
