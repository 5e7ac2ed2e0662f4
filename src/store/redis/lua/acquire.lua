-- Grant a mutex to a client and number, if it is free.
--
-- KEYS    1 the lock   2 its fence
-- ARGV    1 client   2 number   3 owner   4 lease, ms   5 server time after which not to act, µs
--         6 highest token the client has seen   7 how long to keep the fence, ms
-- Answer  {1, µs, token}              granted, now or before
--         {0, µs, ms until it expires}  held by another
--         {2, µs}                     too late, or of an old number: nothing was done
-- Cost    free 6 commands, held 3
--
-- Sent twice it acts once: a number that holds already is told so, with its lease begun anew. A lower
-- number of the same client is replaced: the client knows of no such hold any more. A higher one is
-- not: then this is a late command of a connection that was given up.

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[5]) then return {2, now} end

local id = ARGV[1] .. ':' .. ARGV[2]
local holder = redis.call('HGET', KEYS[1], 'n')
if holder == id then
    if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[4]) then
        redis.call('PEXPIRE', KEYS[1], ARGV[4])
    end
    return {1, now, tonumber(redis.call('HGET', KEYS[1], 't'))}
end
if holder then
    local client, number = string.match(holder, '^(.*):(%d+)$')
    if client ~= ARGV[1] then return {0, now, redis.call('PTTL', KEYS[1])} end
    if tonumber(number) > tonumber(ARGV[2]) then return {2, now} end
    redis.call('DEL', KEYS[1])
end

-- The fence is the last token, and then the tombs: for a while after a release that its own acquire
-- may come behind, the number up to which that client's acquires are too late.
local fence = redis.call('GET', KEYS[2]) or '0'
local last, tombs = tonumber(fence), ''
if not last then
    last = tonumber(string.match(fence, '^%d+'))
    if not last then return redis.error_reply('HFFENCE the fence holds no token') end
    for tomb, client, number, till in string.gmatch(fence, '( (%S+):(%d+) (%d+))') do
        if now <= tonumber(till) then
            if client == ARGV[1] and tonumber(ARGV[2]) <= tonumber(number) then return {2, now} end
            tombs = tombs .. tomb
        end
    end
end

-- The fence first, and the lock not without its end: a user who may not do all of it gets an error
-- and leaves nothing behind.
local token = math.max(last + 1, tonumber(ARGV[6]) + 1, now)
local text = string.format('%.0f', token)
redis.call('SET', KEYS[2], text .. tombs, 'PX', ARGV[7])
redis.call('HSET', KEYS[1], ARGV[1] .. ':' .. ARGV[3], 1, 'n', id, 't', text, 'k', 0,
           's', string.format('%.0f', now / 1000))
local lasts = redis.pcall('PEXPIRE', KEYS[1], ARGV[4])
if type(lasts) == 'table' then
    redis.call('DEL', KEYS[1])
    return lasts
end
return {1, now, token}
