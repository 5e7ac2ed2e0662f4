-- SPDX-License-Identifier: Apache-2.0
-- Grants the lock if no earlier waiter is blocked, or adds the client to the queue. Returns the
-- answer of shared_acquire.lua. Included after queue.lua.

local served = false -- whether serve_queue has run

local function has_waiters() return call('LLEN', KEYS[3]) > 0 and 1 or 0 end

local function acquire_or_queue(id, owner, lease, floor, spec, sent, may_queue, now, fence)
    local _, acquire_id, key = split_id(id)
    fence = fence or call('GET', KEYS[2]) or call('HGET', KEYS[1], 't') or '0'
    local upgrade = is_upgrade(spec)
    local rest = string.match(fence, '^%d+(.*)$')
    if not rest or not string.find(rest .. ' ', '^ ') then
        return redis.error_reply('HFFENCE the fence holds no token')
    end
    local _, is_late, merged = live_tombstones(fence, now, key, acquire_id, sent)
    if is_late then return {2, now, merged} end

    -- If this acquire was sent before, it may already be granted.
    purge_expired(now)
    local holder = call('HGET', KEYS[1], 'n')
    local record = call('HGET', KEYS[1], id)
    if holder == id or holder == id .. ' q' then
        local before = upgrade and string.match(call('HGET', KEYS[1], 'o') or '', '^%d+')
        if before then call('HSET', KEYS[1], 'o', before .. ' ' .. string.sub(spec, 2)) end
        if call('PTTL', KEYS[1]) < tonumber(lease) then call('PEXPIRE', KEYS[1], lease) end
        return {1, now, tonumber(call('HGET', KEYS[1], 't')), has_waiters()}
    end
    local ends, others, token = string.match(record or '', '^(%d+) (.* (%d+) %d+)$')
    if ends and not upgrade then
        call('HSET', KEYS[1], id, digits(math.max(ends, now + lease * 1000)) .. ' ' .. others)
        if call('PTTL', KEYS[1]) < tonumber(lease) then call('PEXPIRE', KEYS[1], lease) end
        return {1, now, tonumber(token), has_waiters()}
    end
    if upgrade and not record then return {4, now} end
    local group, _, capacity = parse_spec(spec)
    local in_use = capacity and call('HGET', KEYS[1], 'k')
    if in_use and string.sub(in_use, 1, 1) == 'p' and in_use ~= group then
        return {3, now, tonumber(string.sub(in_use, 2))}
    end

    local has_queue = string.find(rest, '^ q')
    served = has_queue and not upgrade
    local must_wait = served and serve_queue(now, key, not holder, not group)
    if not must_wait and fits(spec, id, now) then
        if has_queue then leave_queue(key, acquire_id) end
        local token = grant(id, owner, floor, now, lease, has_waiters() == 1, spec)
        if token then return {1, now, token, has_waiters()} end
        return redis.error_reply('NOPERM this user may not set an end to the lock (pexpire)')
    end

    local position = 0
    if may_queue then
        local entry = id .. ' ' .. owner .. ' ' .. lease .. spec .. ' ' .. floor
        local first = upgrade and not find_entry(key) and call('LINDEX', KEYS[3], 0)
        if first then -- an upgrade goes to the front, because all others wait for this reader
            call('LINSERT', KEYS[3], 'BEFORE', first, entry)
            note_seen(key, now, digits(now))
            position = 1
        else
            position = enqueue(entry, now)
        end
        mark_fence_queued()
        mark_hold_queued()
    end
    local held = call('HMGET', KEYS[1], 't', 'e')
    local ms = call('PTTL', KEYS[1])
    if held[2] then ms = math.min(ms, math.max(0, math.floor((held[2] - now) / 1000) + 1)) end
    return {0, now, ms, position, tonumber(held[1] or 0)}
end
