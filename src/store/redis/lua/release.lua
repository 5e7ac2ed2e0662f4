-- SPDX-License-Identifier: Apache-2.0
-- Ends a hold of a client, with this acquire id or a lower one, and hands the lock to the first
-- waiter. The next acquire of the same client can go with it: it joins the end of the queue, or
-- takes the lock if there is no queue.
--
-- KEYS    1 the lock   2 its fence   3 the queue   4 the waiters' notes
-- ARGV    1 client:acquire_id; usually this is the only argument
--         2 until when an acquire of this hold may arrive late, µs; 0: none can
--         3 how long to keep the fence from now, ms; 0: it was written recently
--         4 `1`: also leave the queue
--         5 the next acquire's client:acquire_id   6 its client:owner   7 its lease
--         8 its floor, as in the queue   9 server time in µs after which nothing may be done for it
--         or 5 the token of the hold: if this acquire id holds the lock under another token, a
--              late acquire has taken the lock
--            6 `1`: this release was sent before and not answered
-- Answer  1  released      0  was not held, and nothing was done for the next acquire
--         sent before: also 1 where known_released says so
--         {1, µs, token}                released, and the next acquire is granted
--         {0, µs, ms, position, token}  released, and the next acquire is queued; another client
--                                       holds the lock for ms more, under token
--         {2, µs}                       released, and too late for the next acquire
-- Cost    2 commands; 4 after a long hold, 5 if its fence was gone, 6 to write a tombstone;
--         13 to hand the lock over; with a next acquire 7, or 19 if it is queued;
--         5 to leave the queue; 2 more if sent before and not held
--
-- A hold with a higher acquire id is not touched: in that case this command is late, from a
-- connection that was closed. The script begins by deleting, so it also works when the server is
-- out of memory.

local call = redis.call
local holder = call('HGET', KEYS[1], 'n')
if holder == ARGV[1] and not ARGV[2] then return call('DEL', KEYS[1]) end

--@ holders
--@ queue
local was_held, has_queue = false, holder and string.find(holder, ' q$')
local next_id = ARGV[7] and ARGV[5]
local client, released_id = split_id(ARGV[1])
if holder then
    local _, acquire_id, key = split_id(holder)
    was_held = key == client and acquire_id <= released_id
end
local tombstone_until, fence_ms = ARGV[2] or '0', ARGV[3] or '0'
local token = was_held and fence_ms ~= '0' and call('HGET', KEYS[1], 't')
if was_held then call('DEL', KEYS[1]) end
local lost = token and ARGV[6] and not next_id and token ~= ARGV[5]
if was_held and not lost then released_by = {'r', ARGV[1]} end
local was_queued = ARGV[4] == '1' and leave_queue(client, released_id)

if tombstone_until ~= '0' then
    local fence = call('GET', KEYS[2]) or token or '0'
    local time = call('TIME')
    local now = time[1] * 1000000 + time[2]
    local kept = string.match(fence, '^%d+ q') or string.match(fence, '^%d+') or '0'
    local tombstones = add_tombstone(fence, now, ARGV[1], tonumber(tombstone_until))
    call('SET', KEYS[2], kept .. tombstones, 'PX', fence_ms)
elseif token and call('PEXPIRE', KEYS[2], fence_ms) == 0 then
    call('SET', KEYS[2], token .. (has_queue and ' q' or ''), 'PX', fence_ms)
end
if not was_held then
    if was_queued then -- waiters behind it may be able to share the lock
        local time = call('TIME')
        serve_queue(time[1] * 1000000 + time[2], nil, false)
    end
    return ARGV[6] == '1' and not next_id and known_released(ARGV[1], ARGV[5], not holder) or 0
end
local answer = lost and 0 or 1
if not has_queue and not next_id then return answer end

local time = call('TIME')
local now = time[1] * 1000000 + time[2]
if not next_id or now > tonumber(ARGV[9]) then
    serve_queue(now, nil, true)
    return next_id and {2, now} or answer
end
local entry = next_id .. ' ' .. ARGV[6] .. ' ' .. ARGV[7] .. ' ' .. ARGV[8]
local position = has_queue and append_entry(entry, now) -- the holder itself is not in the queue
if position and position > 1 and serve_queue(now, client, true, true) then
    return {0, now, call('PTTL', KEYS[1]), position, tonumber(call('HGET', KEYS[1], 't') or 0)}
end
local others = position and call('LLEN', KEYS[3]) > 1
if position then remove_entry(entry) end
local granted = grant(next_id, ARGV[6], ARGV[8], now, ARGV[7], others)
return granted and {1, now, granted} or 1
