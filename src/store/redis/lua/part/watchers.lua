-- SPDX-License-Identifier: Apache-2.0
-- The clients that want a message when a name changes: a hash of client → `request_id µs`, where µs
-- is when the client last registered. The hash expires a minute after the last registration. A
-- client that has not registered for two minutes is removed. Messages are an optimisation: a client
-- that cannot be registered polls more often.
--
-- Scripts that include this have that hash in KEYS[2].

local WATCH_MS = 60000

--@ notify

-- Lua's own conversion would write an exponent.
local function digits(n) return string.format('%.0f', n) end

local function failed(answer) return type(answer) == 'table' and answer.err end

-- Removes clients that are gone. Field `p` is the time of the next clean-up.
local function drop_gone_watchers(now)
    if now < (tonumber(call('HGET', KEYS[2], 'p') or 0) or 0) then return end
    local watchers = call('HGETALL', KEYS[2])
    for i = 1, #watchers, 2 do
        local seen = string.match(watchers[i + 1], ' (%d+)$')
        if seen and now - seen > 2 * WATCH_MS * 1000 then call('HDEL', KEYS[2], watchers[i]) end
    end
    call('HSET', KEYS[2], 'p', digits(now + WATCH_MS * 1000))
end

-- Returns 1 if the client will get a message; 0 if not, because the server is out of memory or the
-- user lacks a right.
local function add_watcher(client, request_id, now)
    if failed(redis.pcall('HSET', KEYS[2], client, request_id .. ' ' .. digits(now))) then
        return 0
    end
    if failed(redis.pcall('PEXPIRE', KEYS[2], WATCH_MS)) then
        call('DEL', KEYS[2])
        return 0
    end
    drop_gone_watchers(now)
    return 1
end

-- Notifies all watchers, once. A client that is still interested repeats its request, which
-- registers it again. The message has the form of a grant, for an id that waits for no lock.
local function notify_watchers(now)
    local watchers = redis.pcall('HGETALL', KEYS[2])
    if failed(watchers) or #watchers == 0 then return end
    call('DEL', KEYS[2])
    for i = 1, #watchers, 2 do
        local request_id = string.match(watchers[i + 1], '^(%d+) %d+$')
        if request_id then
            publish(channel_of(watchers[i]),
                request_id .. ' ' .. digits(now) .. ' ' .. digits(now) .. ' 1')
        end
    end
end
