-- SPDX-License-Identifier: Apache-2.0
-- Grants a mutex to a client, if the mutex is free and no reachable waiter is queued ahead.
--
-- KEYS    1 the lock   2 its fence   3 the queue   4 the waiters' notes
-- ARGV    1 client:acquire_id   2 client:owner   3 lease, ms
--         4 server time in µs after which nothing may be done
--         5 highest token the client has seen   6 server time in µs, at or before the sending
--         7 only if the client wants to queue: `1`; or `2`, to also take over the turn of a
--           lower acquire id of this client, whose wait has ended
-- Answer  µs                             granted now; the server's time is the token
--         {1, µs, token}                 granted, now or before
--         {0, µs, ms, position, token}   held for ms more under token; position in the queue,
--                                        0: none
--         {2, µs}                        too late, or an old acquire id: nothing was done;
--                                        a third value 2: see live_tombstones
-- Cost    free 5 commands, held 5; 10 to queue, 12 as the first, 11 to repeat it while queued
--
-- The script may be sent twice and acts once: if this acquire id already holds the lock, the answer
-- is a grant and the lease starts again. A hold with a lower acquire id of the same client is
-- replaced, because the client has already given it up. A hold with a higher id stays: in that case
-- this command is late, from a connection that was closed.

-- Without contention, only the code up to the includes runs, and the functions below are not even
-- defined. Arguments of commands are strings, because the server formats a Lua number with all its
-- digits, which takes as long as the command itself.

local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[4]) then return {2, now} end

local holder = call('HGET', KEYS[1], 'n')
if holder and (holder == ARGV[1] or holder == ARGV[1] .. ' q') then
    if call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then call('PEXPIRE', KEYS[1], ARGV[3]) end
    return {1, now, tonumber(call('HGET', KEYS[1], 't'))}
end

local function write_mutex(token, text, mark)
    if token == now then call('HSET', KEYS[1], ARGV[2], '1', 'n', ARGV[1] .. mark, 't', text)
    else call('HSET', KEYS[1], ARGV[2], '1', 'n', ARGV[1] .. mark, 't', text,
        's', string.format('%.0f', now)) end
    -- A lock must not exist without an expiry. A user that may not set one gets an error and leaves
    -- no lock behind.
    local expire_reply = redis.pcall('PEXPIRE', KEYS[1], ARGV[3])
    if expire_reply ~= 1 then
        call('DEL', KEYS[1])
        return expire_reply
    end
    return token == now and now or {1, now, token}
end

-- The fence is the last token, then ` q` if there may be a queue, then the tombstones. A tombstone
-- is kept for a while after a release whose own acquire may still arrive. It names an acquire id:
-- acquires of that client up to this id are too late. Usually the fence is a lower token and
-- nothing else, and this first write is final.
local token, fence = math.max(now, ARGV[5] + 1), nil
-- Lua's own conversion would write an exponent
local text = time[1] .. string.sub('00000' .. time[2], -6)
if token > now then text = string.format('%d%06d', token / 1000000, token % 1000000) end
if not holder then
    fence = call('SET', KEYS[2], text, 'PX', '90000000', 'GET')
    if not fence or (tonumber(fence) or token) < token then return write_mutex(token, text, '') end
    if string.find(fence .. ' ', '^%d+ ') then
        call('SET', KEYS[2], fence, 'PX', '90000000')
    else
        call('SET', KEYS[2], fence) -- a value that is no fence stays as it was
    end
end

--@ holders
--@ queue
local client, own_id = split_id(ARGV[1])
if holder and string.sub(holder, 1, 1) == '*' then
    purge_expired(now)
    holder = call('HGET', KEYS[1], 'n')
end
fence = fence or call('GET', KEYS[2]) or call('HGET', KEYS[1], 't') or '0'
local last, rest = string.match(fence, '^%d+$'), ''
if not last then last, rest = string.match(fence, '^(%d+)( .*)$') end
local tombstones, is_late, merged = live_tombstones(fence, now, client, own_id, tonumber(ARGV[6]))
if not last then return redis.error_reply('HFFENCE the fence holds no token') end

local function answer_busy(served)
    local position = 0
    if ARGV[7] then
        position = enqueue(ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. ARGV[3] .. ' ' .. ARGV[5], now)
        mark_fence_queued(not served and fence)
        local marked_id = served and call('HGET', KEYS[1], 'n') or holder
        if not string.find(marked_id, ' q$') then call('HSET', KEYS[1], 'n', marked_id .. ' q') end
    end
    -- with several holders, the first may expire sooner
    local held = call('HMGET', KEYS[1], 't', 'e')
    local ms = call('PTTL', KEYS[1])
    if held[2] then ms = math.min(ms, math.max(0, math.floor((held[2] - now) / 1000) + 1)) end
    return {0, now, ms, position, tonumber(held[1] or 0)}
end

if is_late then return {2, now, merged} end
if holder then
    local _, acquire_id, key = split_id(holder)
    if key ~= client then return answer_busy() end
    if acquire_id > own_id then return {2, now} end
    call('DEL', KEYS[1])
end
local mark = ''
if string.find(rest, '^ q') then
    local _, queued_entry = find_entry(client)
    if queued_entry and select(2, split_id(queued_entry)) > own_id then return {2, now} end
    if not (holder and ARGV[7] == '2') and serve_queue(now, client, true, true) then
        return answer_busy(true)
    end
    leave_queue(client, own_id)
    mark = call('LLEN', KEYS[3]) > 0 and ' q' or ''
end
token = math.max(token, last + 1)
text = digits(token)
call('SET', KEYS[2], text .. mark .. tombstones, 'PX', FENCE_MS)
return write_mutex(token, text, mark)
