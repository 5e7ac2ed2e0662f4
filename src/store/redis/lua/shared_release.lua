-- SPDX-License-Identifier: Apache-2.0
-- Ends a hold that shared_acquire.lua granted, and hands the lock to the waiters that can have it
-- now. The next acquire of the same client can be sent in the same step.
--
-- KEYS    1 the lock   2 its fence   3 the queue   4 the waiters' notes
-- ARGV    1 client#acquire_id; usually this is the only argument
--         2 until when an acquire of this hold may arrive late, µs; 0: none can
--         3 how long to keep the fence from now, ms; 0: it was written recently
--         4 `1`: also leave the queue
--         5 to 12 the next acquire, as ARGV 1 to 8 of shared_acquire.lua
--         or 5 the token of the hold   6 `1`: this release was sent before and not answered
-- Answer  1  released      0  was not held
--         sent before: also 1 where known_released says so
--         with a next acquire: its answer from shared_acquire.lua, with -µs for µs if there was no
--         hold to release

local call = redis.call
local id = ARGV[1]
local holder = call('HGET', KEYS[1], 'n')
if holder == id and not ARGV[2] then return call('DEL', KEYS[1]) end

--@ holders
released_by = {'r', id}
if holder == '*' and not ARGV[2] then return remove_holder(id) and 1 or 0 end

local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local tombstone_until, fence_ms = ARGV[2] or '0', ARGV[3] or '0'
local has_queue = holder and string.find(holder, ' q$')
local token = fence_ms ~= '0' and call('HGET', KEYS[1], 't')
local was_held = true
if holder == id or holder == id .. ' q' then
    call('DEL', KEYS[1])
else
    was_held = remove_holder(id)
end
if not was_held then released_by = {'r', ''} end
local next_id = ARGV[7] and ARGV[5]

-- An error of the next acquire cannot be part of this answer. The client is told that nothing was
-- done for it, sends it again by itself, and gets the error then.
local function answer(result)
    if not result or result.err then result = {2} end
    result[2] = was_held and now or -now
    return result
end

--@ acquire_free
local in_time = next_id and now <= tonumber(ARGV[8])
if in_time and not has_queue and tombstone_until == '0' and fence_ms == '0' and ARGV[4] ~= '1' then
    local done, granted = pcall(acquire_free, next_id, ARGV[6], ARGV[7], ARGV[9], ARGV[10],
        now, call('GET', KEYS[2]))
    if done and granted then return answer(granted) end
end

--@ queue
local was_queued = (ARGV[4] == '1' or has_queue) and find_entry(id)
if was_queued then leave_queue(id, (select(2, split_id(id)))) end
if tombstone_until ~= '0' then
    local fence = call('GET', KEYS[2]) or token or '0'
    local kept = string.match(fence, '^%d+ q') or string.match(fence, '^%d+') or '0'
    call('SET', KEYS[2], kept .. add_tombstone(fence, now, id, tonumber(tombstone_until)),
        'PX', fence_ms)
elseif token and call('PEXPIRE', KEYS[2], fence_ms) == 0 then
    call('SET', KEYS[2], token .. (has_queue and ' q' or ''), 'PX', fence_ms)
end
local must_serve = (was_held and has_queue) or was_queued
local fence = in_time and call('GET', KEYS[2])
-- without ` q` in the fence, the next acquire does not serve the queue
if must_serve and not string.find(fence or '', '^%d+ q') then
    serve_queue(now, nil, false)
    must_serve, fence = false, nil
end
if not was_held and ARGV[6] and not next_id then return known_released(id, ARGV[5], true) end
if not next_id then return was_held and 1 or 0 end
if not in_time then return answer() end

--@ acquire_or_queue
local done, result = pcall(acquire_or_queue, next_id, ARGV[6], ARGV[7], ARGV[9],
    ARGV[10], tonumber(ARGV[11]), ARGV[12], now, fence)
if must_serve and not served then serve_queue(now, nil, false) end
return answer(done and result)
