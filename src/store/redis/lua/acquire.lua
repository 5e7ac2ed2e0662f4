-- Grant a mutex to a client and number, if it is free.
--
-- KEYS    1 the lock   2 its fence
-- ARGV    1 client:number   2 client:owner   3 lease, ms   4 server time after which not to act, µs
--         5 highest token the client has seen   6 how long to keep the fence, ms
-- Answer  µs                            granted now, and the server's time is the token
--         {1, µs, token}                granted, now or before
--         {0, µs, ms until it expires}  held by another
--         {2, µs}                       too late, or of an old number: nothing was done
-- Cost    free 5 commands, held 3
--
-- Sent twice it acts once: a number that holds already is told so, with its lease begun anew. A lower
-- number of the same client is replaced: the client knows of no such hold any more. A higher one is
-- not: then this is a late command of a connection that was given up.

local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[4]) then return {2, now} end

local holder = call('HGET', KEYS[1], 'n')
if holder == ARGV[1] then
    if call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then call('PEXPIRE', KEYS[1], ARGV[3]) end
    return {1, now, tonumber(call('HGET', KEYS[1], 't'))}
elseif holder then
    local client, number = string.match(holder, '^(.*):(%d+)$')
    local asker, asked = string.match(ARGV[1], '^(.*):(%d+)$')
    if client ~= asker then return {0, now, call('PTTL', KEYS[1])} end
    if tonumber(number) > tonumber(asked) then return {2, now} end
    call('DEL', KEYS[1])
end

-- The fence is the last token, and then the tombs: for a while after a release that its own acquire
-- may come behind, the number up to which that client's acquires are too late. Most often it is a
-- lower token and nothing else, and this first write stands.
local token = math.max(now, ARGV[5] + 1)
local text = string.format('%.0f', token) -- Lua by itself would write an exponent
local fence = call('SET', KEYS[2], text, 'PX', ARGV[6], 'GET')
if fence and (tonumber(fence) or token) >= token then
    local last, tombs = tonumber(fence) or tonumber(string.match(fence, '^(%d+) ')), ''
    local asker, asked = string.match(ARGV[1], '^(.*):(%d+)$')
    local late = false
    for tomb, client, number, till in string.gmatch(fence, '( (%S+):(%d+) (%d+))') do
        if now <= tonumber(till) then
            late = late or (client == asker and tonumber(asked) <= tonumber(number))
            tombs = tombs .. tomb
        end
    end
    if not last then
        call('SET', KEYS[2], fence)
        return redis.error_reply('HFFENCE the fence holds no token')
    elseif late then
        call('SET', KEYS[2], fence, 'PX', ARGV[6])
        return {2, now}
    end
    token = math.max(token, last + 1)
    text = string.format('%.0f', token)
    call('SET', KEYS[2], text .. tombs, 'PX', ARGV[6])
end

call('HSET', KEYS[1], ARGV[2], 1, 'n', ARGV[1], 't', text)
-- The lock not without its end: a user who may not set one gets an error, and leaves no lock behind.
local lasts = redis.pcall('PEXPIRE', KEYS[1], ARGV[3])
if lasts ~= 1 then
    call('DEL', KEYS[1])
    return lasts
end
if token == now then return now end
call('HSET', KEYS[1], 's', string.format('%.0f', now))
return {1, now, token}
