-- Who wants to be told when something of a name has changed: a hash client → `number µs`, when it last asked. It is
-- gone a minute after anybody did, and a client that has not asked for two minutes is taken out. Nobody relies on
-- being told: who cannot be noted asks more often.
--
-- In what uses this, KEYS[2] is that hash.

local WATCH_MS = 60000

--@ notify

-- Lua by itself would write an exponent.
local function digits(n) return string.format('%.0f', n) end

local function failed(answer) return type(answer) == 'table' and answer.err end

-- Those who are gone, now and then: field `p` says when next.
local function drop_gone_watchers(now)
    if now < (tonumber(call('HGET', KEYS[2], 'p') or 0) or 0) then return end
    local watchers = call('HGETALL', KEYS[2])
    for i = 1, #watchers, 2 do
        local seen = string.match(watchers[i + 1], ' (%d+)$')
        if seen and now - seen > 2 * WATCH_MS * 1000 then call('HDEL', KEYS[2], watchers[i]) end
    end
    call('HSET', KEYS[2], 'p', digits(now + WATCH_MS * 1000))
end

-- 1: it will be told; 0: it cannot be, for memory is out or a right is lacking.
local function add_watcher(client, number, now)
    if failed(redis.pcall('HSET', KEYS[2], client, number .. ' ' .. digits(now))) then return 0 end
    if failed(redis.pcall('PEXPIRE', KEYS[2], WATCH_MS)) then
        call('DEL', KEYS[2])
        return 0
    end
    drop_gone_watchers(now)
    return 1
end

-- All of them, once: who still wants to know looks, and is noted again. The message has the form of a grant, to a
-- number that waits for no lock.
local function notify_watchers(now)
    local watchers = redis.pcall('HGETALL', KEYS[2])
    if failed(watchers) or #watchers == 0 then return end
    call('DEL', KEYS[2])
    for i = 1, #watchers, 2 do
        local number = string.match(watchers[i + 1], '^(%d+) %d+$')
        if number then
            publish(channel_of(watchers[i]), number .. ' ' .. digits(now) .. ' ' .. digits(now) .. ' 1')
        end
    end
end
