-- End a hold of a client, of this number or an older one, and hand the lock to the first in line. The
-- next of the same client goes to the end of the line, or, where there is none, takes the lock over.
--
-- KEYS    1 the lock   2 its fence   3 the line   4 who stands there
-- ARGV    1 client:number; most often that is all
--         2 until when an acquire of ours may come late, µs; 0: none can
--         3 how long to keep the fence from now, ms; 0: it was touched not long ago
--         4 `1`: leave the line, too
--         5 the next's client:number   6 its client:owner   7 its lease   8 its floor, as in the line
--         9 server time after which not to act for it, µs
--         or 5 the token of the hold: one of this number under another was taken by an acquire that came late
--            6 `1`: this release was sent before and not answered
-- Answer  1  released      0  was not held by it, and nothing was done for the next
--         sent before: 1 also where known_released says so
--         {1, µs, token}             released, and the next has it
--         {0, µs, ms, place, token}  released, and the next stands in line; another has it for ms more, under token
--         {2, µs}                    released, and too late for the next
-- Cost    2 commands; 4 after a long hold, 5 if its fence was gone, 6 with a tomb to write; 13 to hand on; with a
--         next 7, or 19 if it stands in line; 5 to leave the line; sent before and not held 2 more
--
-- A hold of a higher number is not touched: then this is a late command of a connection that was
-- given up. It begins by deleting, so that it also works when memory is out.

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
    if was_queued then -- those behind it may fit beside who holds
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
local position = has_queue and append_entry(entry, now) -- a holder's client does not stand in line
if position and position > 1 and serve_queue(now, client, true, true) then
    return {0, now, call('PTTL', KEYS[1]), position, tonumber(call('HGET', KEYS[1], 't') or 0)}
end
local others = position and call('LLEN', KEYS[3]) > 1
if position then remove_entry(entry) end
local granted = grant(next_id, ARGV[6], ARGV[8], now, ARGV[7], others)
return granted and {1, now, granted} or 1
