-- A latch: a hash with `r` its round, `c` what is left of it, `d` the last round that came to its end, and for each
-- client that has set or counted it lately `number until`: the highest number of its that was done, and the server
-- time after which no command of a lower one acts any more.
--
-- In what uses this, KEYS are 1 the latch   2 who waits for it; ARGV[1] the client, [2] its number, [3] the server
-- time after which not to act, µs.

local LATCH_MS = 90000000      -- 25 hours
local LATE_US = 60000000       -- a number is remembered so much longer than its commands may act
local TIDY_US = 60000000       -- how often numbers that nobody needs are taken out

local function read_latch()
    local held = call('HMGET', KEYS[1], 'r', 'd', 'c', ARGV[1])
    return tonumber(held[1] or nil), tonumber(held[2] or 0), tonumber(held[3] or 0), held[4] or ''
end

-- Whether this command was done before: it was sent twice, or comes late.
local function was_counted(record)
    return tonumber(string.match(record, '^(%d+) ') or 0) >= tonumber(ARGV[2])
end

local function count_record(record)
    local before = tonumber(string.match(record, ' (%d+)$') or 0)
    return ARGV[2] .. ' ' .. digits(math.max(before, ARGV[3]))
end

-- Field `p` says when next.
local function drop_old_clients(now)
    if now < (tonumber(call('HGET', KEYS[1], 'p') or 0) or 0) then return end
    local fields = call('HGETALL', KEYS[1])
    for i = 1, #fields, 2 do
        local until_us = #fields[i] > 1 and string.match(fields[i + 1], ' (%d+)$')
        if until_us and now - until_us > LATE_US then call('HDEL', KEYS[1], fields[i]) end
    end
    call('HSET', KEYS[1], 'p', digits(now + TIDY_US))
end
