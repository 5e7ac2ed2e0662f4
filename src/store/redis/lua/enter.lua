-- Let a reader, a writer or a taker of permits in, if nobody who came before cannot be; or upgrade a reader.
--
-- KEYS    1 the lock   2 its fence   3 the line   4 who stands there
-- ARGV    1 client#number   2 client:owner   3 lease, ms   4 server time after which not to act, µs
--         5 highest token the client had seen   6 what is wanted: see hold.lua   7 there only to stand in line
-- Answer  {1, µs, token, crowded}     granted, now or before; 1: others wait
--         {0, µs, ms, place, token}   not now; something changes in ms; place in line, 0: none; a holder's token
--         {2, µs}                     too late: nothing was done
--         {3, µs, capacity}           permits of another capacity are in use
--         {4, µs}                     nothing is held that could be upgraded
--
-- Sent twice it acts once, as acquire.lua does. The number is this hold's alone: no other is replaced by it.

local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[4]) then return {2, now} end

local id, owner, lease, floor, spec = ARGV[1], ARGV[2], ARGV[3], ARGV[5], ARGV[6]

-- Nobody holds it, nobody waits and nobody's acquire may come late: that is all there is to do then.
--@ hold
local fence, upgrade = call('GET', KEYS[2]), is_upgrade(spec)
if not upgrade and string.find(fence or '0', '^%d+$') and call('PTTL', KEYS[1]) == -2 then
    local token = math.max(now, (fence or 0) + 1, floor + 1)
    local text = digits(token)
    call('SET', KEYS[2], text, 'PX', 90000000)
    if put_holder(id, owner, spec, lease, now, text, '', digits(now), true) == 1 then return {1, now, token, 0} end
    call('DEL', KEYS[1])
    return redis.error_reply('NOPERM this user may not set an end to the lock (pexpire)')
end

--@ line
local _, number, key = split(id)
fence = fence or call('HGET', KEYS[1], 't') or '0'
local rest = string.match(fence, '^%d+(.*)$')
if not rest or not string.find(rest .. ' ', '^ ') then
    return redis.error_reply('HFFENCE the fence holds no token')
end
local _, buried = tombs_of(fence, now, key, number)
if buried then return {2, now} end

local function crowded() return call('LLEN', KEYS[3]) > 0 and 1 or 0 end

-- It has it already, of an earlier asking.
purge(now)
local holder = call('HGET', KEYS[1], 'n')
local said = call('HGET', KEYS[1], id)
if holder == id or holder == id .. ' q' then
    local before = upgrade and string.match(call('HGET', KEYS[1], 'o') or '', '^%d+')
    if before then call('HSET', KEYS[1], 'o', before .. ' ' .. string.sub(spec, 2)) end
    if call('PTTL', KEYS[1]) < tonumber(lease) then call('PEXPIRE', KEYS[1], lease) end
    return {1, now, tonumber(call('HGET', KEYS[1], 't')), crowded()}
end
if said and not upgrade then
    local ends, others, token = string.match(said, '^(%d+) (.* (%d+) %d+)$')
    call('HSET', KEYS[1], id, digits(math.max(ends, now + lease * 1000)) .. ' ' .. others)
    if call('PTTL', KEYS[1]) < tonumber(lease) then call('PEXPIRE', KEYS[1], lease) end
    return {1, now, tonumber(token), crowded()}
end
if upgrade and not said then return {4, now} end
local together, _, capacity = spec_of(spec)
local in_use = capacity and call('HGET', KEYS[1], 'k')
if in_use and string.sub(in_use, 1, 1) == 'p' and in_use ~= together then
    return {3, now, tonumber(string.sub(in_use, 2))}
end

local marked = string.find(rest, '^ q')
local waits = marked and not upgrade and serve(now, key, not holder, not together)
if not waits and fits(spec, id, now) then
    if marked then leave(key, number) end
    local token = grant(id, owner, floor, now, lease, crowded() == 1, spec)
    if token then return {1, now, token, crowded()} end
    return redis.error_reply('NOPERM this user may not set an end to the lock (pexpire)')
end

local place = 0
if ARGV[7] then
    local entry = id .. ' ' .. owner .. ' ' .. lease .. spec .. ' ' .. floor
    local first = upgrade and not find(key) and call('LINDEX', KEYS[3], 0)
    if first then -- before all others, who wait for it to go on
        call('LINSERT', KEYS[3], 'BEFORE', first, entry)
        note(key, now, digits(now))
        place = 1
    else
        place = join(entry, now)
    end
    mark_fence()
    mark_hold()
end
local held = call('HMGET', KEYS[1], 't', 'e')
local ms = call('PTTL', KEYS[1])
if held[2] then ms = math.min(ms, math.max(0, math.floor((held[2] - now) / 1000) + 1)) end
return {0, now, ms, place, tonumber(held[1] or 0)}
