-- Several hold at once. The lock's field `n` is then `*`; `k` what they are, `r` or `p` and the capacity; `u` how
-- much of it is in use; `g` who may upgrade; `e` a time in µs before which nobody ends. Each has a field of its own,
-- client#number: `ends weight client:owner count token since`.
--
-- What is wanted is said by `w` a writer, `r` a reader, `u` one that may upgrade, `gN` its upgrade, the Nth it has
-- asked for, `pN/M` permits.

local function is_upgrade(spec) return string.sub(spec, 1, 1) == 'g' end

local function spec_of(spec) -- what they are together, weight, capacity; nil: it excludes all others
    if spec == 'r' or spec == 'u' then return 'r', 1 end
    local weight, capacity = string.match(spec, '^p(%d+)/(%d+)$')
    if weight then return 'p' .. capacity, tonumber(weight), tonumber(capacity) end
end

-- Those whose time is over are no holders.
local function purge(now)
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

-- Whether somebody can be let in beside those who hold.
local function fits(spec, id, now)
    purge(now)
    local held = call('HMGET', KEYS[1], 'n', 'k', 'u', 'g')
    if is_upgrade(spec) then return held[4] == id and held[3] == '1' end
    if not held[1] then return true end
    if string.sub(held[1], 1, 1) ~= '*' then return false end
    local together, weight, capacity = spec_of(spec)
    if together ~= held[2] or (spec == 'u' and held[4]) then return false end
    return not capacity or held[3] + weight <= capacity
end

-- Whether it is in vain to wait for its turn: nothing is left to be upgraded, or permits of another capacity are in
-- use, as it will be told when it asks.
local function cannot(spec, id)
    if is_upgrade(spec) then return call('HEXISTS', KEYS[1], id) == 0 end
    local together, _, capacity = spec_of(spec)
    local in_use = capacity and call('HGET', KEYS[1], 'k')
    return in_use and string.sub(in_use, 1, 1) == 'p' and in_use ~= together
end

local function add_holder(id, owner, spec, lease, now, token, mark, count)
    local held = call('HMGET', KEYS[1], 'u', 'e')
    local together, weight = spec_of(spec)
    local ends = now + lease * 1000
    call('HSET', KEYS[1], 'n', '*' .. mark, 'k', together, 'u', (held[1] or 0) + weight,
        'e', digits(math.min(tonumber(held[2] or ends), ends)), 't', token, 's', digits(now),
        id, digits(ends) .. ' ' .. weight .. ' ' .. owner .. ' ' .. (count or 1) .. ' ' .. token .. ' ' ..
            digits(now))
    if spec == 'u' then call('HSET', KEYS[1], 'g', id) end
    if call('PTTL', KEYS[1]) >= tonumber(lease) then return 1 end
    return redis.pcall('PEXPIRE', KEYS[1], lease)
end

-- Whether it was one.
local function remove_holder(id)
    local weight = string.match(call('HGET', KEYS[1], id) or '', '^%d+ (%d+) ')
    if not weight then return false end
    local held = call('HMGET', KEYS[1], 'u', 'g')
    local used = held[1] - weight
    if used <= 0 then
        call('DEL', KEYS[1])
    else
        call('HDEL', KEYS[1], id)
        call('HSET', KEYS[1], 'u', used)
        if held[2] == id then call('HDEL', KEYS[1], 'g') end
    end
    return true
end
