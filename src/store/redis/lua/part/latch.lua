-- SPDX-License-Identifier: Apache-2.0
-- A latch is a hash: `r` is its round, `c` the count that is left, `d` the last round that is
-- complete. Each client that has recently set or counted it has a field `request_id until`: the
-- highest request id that was executed, and the server time after which no command with a lower id
-- acts.
--
-- Scripts that include this have KEYS 1 the latch, 2 its waiters; ARGV 1 the client, 2 its request
-- id, 3 the server time in µs after which nothing may be done.

local LATCH_MS = 90000000 -- 25 hours
local LATE_US = 60000000  -- a request id is kept this long after its commands may act
local TIDY_US = 60000000  -- how often old request ids are dropped

local function read_latch()
    local held = call('HMGET', KEYS[1], 'r', 'd', 'c', ARGV[1])
    return tonumber(held[1] or nil), tonumber(held[2] or 0), tonumber(held[3] or 0), held[4] or ''
end

-- Whether this command must be skipped: it was executed before, or is late.
local function was_counted(record)
    return tonumber(string.match(record, '^(%d+) ') or 0) >= tonumber(ARGV[2])
end

local function count_record(record)
    local before = tonumber(string.match(record, ' (%d+)$') or 0)
    return ARGV[2] .. ' ' .. digits(math.max(before, ARGV[3]))
end

-- Field `p` is the time of the next clean-up.
local function drop_old_clients(now)
    if now < (tonumber(call('HGET', KEYS[1], 'p') or 0) or 0) then return end
    local fields = call('HGETALL', KEYS[1])
    for i = 1, #fields, 2 do
        local until_us = #fields[i] > 1 and string.match(fields[i + 1], ' (%d+)$')
        if until_us and now - until_us > LATE_US then call('HDEL', KEYS[1], fields[i]) end
    end
    call('HSET', KEYS[1], 'p', digits(now + TIDY_US))
end
