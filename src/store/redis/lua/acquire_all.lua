-- Take several names at once, or none of them.
--
-- KEYS    of each name: the lock, its fence, the line, who stands there
-- ARGV    1 client:owner   2 lease, ms   3 server time after which not to act, µs   4 highest token the client had seen
--         5 server time when it was sent, or earlier, µs
--         then of each name: client:number or client#number, and what is wanted: see holders.lua, or `m` a mutex
-- Answer  {1, µs, token, …}   granted, in the order of the names
--         {0, µs}             not all of them can be had, or somebody waits for one: nothing was done
--         {2, µs}             too late, or of an old number: nothing was done; 2 behind it: see live_tombstones
-- Cost    1 command, and of each name 8; a writer 9, a reader or permits 10. Refused: 4 of each that was looked at
--
-- It is not sent twice: who does not hear the answer asks for each by itself, as acquire.lua and shared_acquire.lua know it.

local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[3]) then return {2, now} end

-- What is written for one name works on KEYS 1 to 4.
local all_keys, KEYS = KEYS, {}
local names = #all_keys / 4
local function select_name(i)
    for k = 1, 4 do KEYS[k] = all_keys[4 * i - 4 + k] end
    return ARGV[2 * i + 4], ARGV[2 * i + 5]
end

--@ holders
--@ queue

local function status(i) -- 1: it can be had
    local id, spec = select_name(i)
    local _, acquire_id, key = split_id(id)
    local fence = call('GET', KEYS[2]) or '0'
    if not string.find(fence .. ' ', '^%d+ ') then return 3 end
    local _, is_late, merged = live_tombstones(fence, now, key, acquire_id, tonumber(ARGV[5]))
    if is_late then return 2, merged end
    if call('HEXISTS', KEYS[1], id) == 1 then return 0 end -- asked for by itself since, and granted
    return fits(spec, id, now) and not string.find(fence, ' q') and 1 or 0
end

for i = 1, names do
    local found, merged = status(i)
    if found == 3 then return redis.error_reply('HFFENCE the fence holds no token') end
    if found ~= 1 then return {found, now, merged} end
end

-- One that cannot be given its end is not granted, and so neither are those before it.
local function undo_grants(up_to)
    for i = 1, up_to do
        local id = select_name(i)
        if not remove_holder(id) then call('DEL', KEYS[1]) end
    end
    return redis.error_reply('NOPERM this user may not set an end to the lock (pexpire)')
end

local answer = {1, now}
for i = 1, names do
    local id, spec = select_name(i)
    local token = grant(id, ARGV[1], ARGV[4], now, ARGV[2], false, spec ~= 'm' and spec or nil)
    if not token then return undo_grants(i - 1) end
    answer[i + 2] = token
end
return answer
