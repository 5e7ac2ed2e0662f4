-- SPDX-License-Identifier: Apache-2.0
-- Acquires several names at once, or none of them.
--
-- KEYS    for each name: the lock, its fence, the queue, the waiters' notes
-- ARGV    1 client:owner   2 lease, ms   3 server time in µs after which nothing may be done
--         4 highest token the client has seen   5 server time in µs, at or before the sending
--         then for each name: client:acquire_id or client#acquire_id, and the kind: `m` for a
--         mutex, else see holders.lua
-- Answer  {1, µs, token, …}   granted, in the order of the names
--         {0, µs}             one of them is held or has waiters: nothing was done
--         {2, µs}             too late, or an old acquire id: nothing was done;
--                             a third value 2: see live_tombstones
-- Cost    1 command, and 8 for each name; 9 for a writer, 10 for a reader or permits.
--         Refused: 4 for each name that was examined
--
-- This script is not sent twice. A client that gets no answer acquires each name by itself, with
-- acquire.lua or shared_acquire.lua, which recognise the acquire id.

local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[3]) then return {2, now} end

-- The included parts work on one name, in KEYS 1 to 4.
local all_keys, KEYS = KEYS, {}
local names = #all_keys / 4
local function select_name(i)
    for k = 1, 4 do KEYS[k] = all_keys[4 * i - 4 + k] end
    return ARGV[2 * i + 4], ARGV[2 * i + 5]
end

--@ holders
--@ queue

local function status(i) -- 1: it can be granted
    local id, spec = select_name(i)
    local _, acquire_id, key = split_id(id)
    local fence = call('GET', KEYS[2]) or '0'
    if not string.find(fence .. ' ', '^%d+ ') then return 3 end
    local _, is_late, merged = live_tombstones(fence, now, key, acquire_id, tonumber(ARGV[5]))
    if is_late then return 2, merged end
    -- this id was granted meanwhile, by an acquire of this name alone
    if call('HEXISTS', KEYS[1], id) == 1 then return 0 end
    return fits(spec, id, now) and not string.find(fence, ' q') and 1 or 0
end

for i = 1, names do
    local found, merged = status(i)
    if found == 3 then return redis.error_reply('HFFENCE the fence holds no token') end
    if found ~= 1 then return {found, now, merged} end
end

-- A name whose expiry cannot be set is not granted. The names before it are then released.
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
