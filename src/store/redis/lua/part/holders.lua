-- Several hold at once. The lock's field `n` is then `*`; `k` what they are, `r` or `p` and the capacity; `u` how
-- much of it is in use; `g` who may upgrade; `e` a time in µs before which nobody ends. Each has a field of its own,
-- client#number: `ends weight client:owner count token since`. A field `r` names the release that handed the lock on, or
-- left it to the others, last.
--
-- What is wanted is said by `w` a writer, `r` a reader, `u` one that may upgrade, `gN` its upgrade, the Nth it has
-- asked for, `pN/M` permits.

-- Lua by itself would write an exponent, and %.0f is slow.
local function digits(n)
    if n < 1000000 then return string.format('%d', n) end
    return string.format('%d%06d', n / 1000000, n % 1000000)
end

-- Field `r`, for the commands that write who holds: a release that found its hold puts itself there. All others empty
-- it: a number may hold again, and what stands there is of its last hold.
local released_by = {'r', ''}

-- A release was sent before, its answer was lost, and it finds nothing now. 1: it is known all the same that its hold
-- was not lost to another. Either `r` names it; or nobody was granted the lock since, by the fence. `gone`: no hold can
-- go on under its token.
local function known_released(id, token, gone)
    if call('HGET', KEYS[1], 'r') == id then return 1 end
    return gone and string.match(call('GET', KEYS[2]) or '', '^%d+') == token and 1 or 0
end

local function is_upgrade(spec) return string.sub(spec, 1, 1) == 'g' end

local function parse_spec(spec) -- what they are together, weight, capacity; nil: it excludes all others
    if spec == 'r' or spec == 'u' then return 'r', 1 end
    local weight, capacity = string.match(spec, '^p(%d+)/(%d+)$')
    if weight then return 'p' .. capacity, tonumber(weight), tonumber(capacity) end
end

-- `first`: nobody else holds it.
local function add_holder(id, owner, spec, lease, now, token, mark, count, first)
    local held = first and {} or call('HMGET', KEYS[1], 'u', 'e')
    local group, weight = parse_spec(spec)
    local ends = now + lease * 1000
    call('HSET', KEYS[1], 'n', '*' .. mark, 'k', group, 'u', (held[1] or 0) + weight,
        'e', digits(math.min(tonumber(held[2] or ends), ends)), 't', token, 's', digits(now),
        id, digits(ends) .. ' ' .. weight .. ' ' .. owner .. ' ' .. (count or 1) .. ' ' .. token .. ' ' ..
            digits(now), unpack(released_by))
    if spec == 'u' then call('HSET', KEYS[1], 'g', id) end
    if not first and call('PTTL', KEYS[1]) >= tonumber(lease) then return 1 end
    return redis.pcall('PEXPIRE', KEYS[1], lease)
end

-- Write a hold that is not an upgrade; what setting its end has answered.
local function write_hold(id, owner, spec, lease, now, token, mark, since, first)
    if spec and parse_spec(spec) then return add_holder(id, owner, spec, lease, now, token, mark, 1, first) end
    call('HSET', KEYS[1], owner, '1', 'n', id .. mark, 't', token, 's', since, unpack(released_by))
    if spec then call('HSET', KEYS[1], 'k', spec) end
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
        call('HSET', KEYS[1], 'u', used, unpack(released_by))
        if held[2] == id then call('HDEL', KEYS[1], 'g') end
    end
    return true
end
