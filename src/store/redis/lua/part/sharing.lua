-- SPDX-License-Identifier: Apache-2.0
-- Which kinds can share a lock: see holders.lua.

-- Removes holders that have expired.
local function purge_expired(now)
    local earliest = call('HGET', KEYS[1], 'e')
    if not earliest or now <= tonumber(earliest) then return end
    local fields, used, first = call('HGETALL', KEYS[1]), 0, nil
    for i = 1, #fields, 2 do
        local ends, weight = string.match(fields[i + 1], '^(%d+) (%d+) ')
        if ends and string.find(fields[i], '#', 1, true) then
            if tonumber(ends) < now then
                call('HDEL', KEYS[1], fields[i])
                if call('HGET', KEYS[1], 'g') == fields[i] then call('HDEL', KEYS[1], 'g') end
            else
                used, first = used + weight, math.min(first or tonumber(ends), tonumber(ends))
            end
        end
    end
    if first then call('HSET', KEYS[1], 'u', used, 'e', digits(first)) else call('DEL', KEYS[1]) end
end

-- Whether a request can be granted in addition to the present holders.
local function fits(spec, id, now)
    purge_expired(now)
    local held = call('HMGET', KEYS[1], 'n', 'k', 'u', 'g')
    if is_upgrade(spec) then return held[4] == id and held[3] == '1' end
    if not held[1] then return true end
    if string.sub(held[1], 1, 1) ~= '*' then return false end
    local group, weight, capacity = parse_spec(spec)
    if group ~= held[2] or (spec == 'u' and held[4]) then return false end
    return not capacity or held[3] + weight <= capacity
end

-- Whether a request can never be granted: its hold to upgrade is gone, or permits of another
-- capacity are in use. The client gets that answer at its next recheck.
local function can_never_fit(spec, id)
    if is_upgrade(spec) then return call('HEXISTS', KEYS[1], id) == 0 end
    local group, _, capacity = parse_spec(spec)
    local in_use = capacity and call('HGET', KEYS[1], 'k')
    return in_use and string.sub(in_use, 1, 1) == 'p' and in_use ~= group
end
