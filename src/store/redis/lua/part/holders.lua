-- SPDX-License-Identifier: Apache-2.0
-- A lock with several holders: readers, or users of permits. Its hash has these fields:
--
--     n   `*` instead of an id
--     k   the kind of all holders: `r`, or `p` and the capacity
--     u   how much of the capacity is in use
--     g   the holder that may upgrade
--     e   a time in µs before which no holder expires
--     r   the release that last handed the lock over, or that left it to the other holders
--     client#acquire_id   one for each holder: `expiry weight client:owner count token since`
--
-- The kind in a request: `w` writer, `r` reader, `u` reader that may upgrade, `gN` its upgrade (the
-- Nth it has requested), `pN/M` N permits of M.

-- Lua's own conversion would write an exponent, and %.0f is slow.
local function digits(n)
    if n < 1000000 then return string.format('%d', n) end
    return string.format('%d%06d', n / 1000000, n % 1000000)
end

-- The value of field `r`, for every command that writes holders. A release that found its hold puts
-- its id there. All other scripts clear the field. Otherwise it could still name an earlier hold of
-- an acquire id that holds the lock again.
local released_by = {'r', ''}

-- For a release that was sent before without getting an answer, and that now finds no hold. Returns
-- 1 if it is certain that no other client has taken the lock from this hold: either `r` names this
-- release, or the fence shows that nothing was granted since. `gone`: no hold can exist under its
-- token.
local function known_released(id, token, gone)
    if call('HGET', KEYS[1], 'r') == id then return 1 end
    return gone and string.match(call('GET', KEYS[2]) or '', '^%d+') == token and 1 or 0
end

local function is_upgrade(spec) return string.sub(spec, 1, 1) == 'g' end

local function parse_spec(spec) -- group, weight, capacity; nil: exclusive
    if spec == 'r' or spec == 'u' then return 'r', 1 end
    local weight, capacity = string.match(spec, '^p(%d+)/(%d+)$')
    if weight then return 'p' .. capacity, tonumber(weight), tonumber(capacity) end
end

-- `first`: the lock has no other holder.
local function add_holder(id, owner, spec, lease, now, token, mark, count, first)
    local held = first and {} or call('HMGET', KEYS[1], 'u', 'e')
    local group, weight = parse_spec(spec)
    local ends = now + lease * 1000
    call('HSET', KEYS[1], 'n', '*' .. mark, 'k', group, 'u', (held[1] or 0) + weight,
        'e', digits(math.min(tonumber(held[2] or ends), ends)), 't', token, 's', digits(now),
        id, digits(ends) .. ' ' .. weight .. ' ' .. owner .. ' ' .. (count or 1) .. ' ' ..
            token .. ' ' .. digits(now), unpack(released_by))
    if spec == 'u' then call('HSET', KEYS[1], 'g', id) end
    if not first and call('PTTL', KEYS[1]) >= tonumber(lease) then return 1 end
    return redis.pcall('PEXPIRE', KEYS[1], lease)
end

-- Writes a hold that is not an upgrade. Returns the reply of PEXPIRE.
local function write_hold(id, owner, spec, lease, now, token, mark, since, first)
    if spec and parse_spec(spec) then
        return add_holder(id, owner, spec, lease, now, token, mark, 1, first)
    end
    call('HSET', KEYS[1], owner, '1', 'n', id .. mark, 't', token, 's', since, unpack(released_by))
    if spec then call('HSET', KEYS[1], 'k', spec) end
    return redis.pcall('PEXPIRE', KEYS[1], lease)
end

-- Returns whether the id was a holder.
local function remove_holder(id)
    local weight = string.match(call('HGET', KEYS[1], id) or '', '^%d+ (%d+) ')
    if not weight then return false end
    local held = call('HMGET', KEYS[1], 'u', 'g')
    local used = held[1] - weight
    if used <= 0 then
        call('DEL', KEYS[1])
    else
        call('HDEL', KEYS[1], id)
        call('HSET', KEYS[1], 'u', used, unpack(released_by))
        if held[2] == id then call('HDEL', KEYS[1], 'g') end
    end
    return true
end
