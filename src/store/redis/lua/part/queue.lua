-- SPDX-License-Identifier: Apache-2.0
-- The queue of waiters, in order of arrival: a list of entries
--
--     client:acquire_id client:owner lease floor          for a mutex, one for each client
--     client#acquire_id client:owner leaseKIND floor      for another kind: see holders.lua
--
-- The lease is in ms. The floor is the highest token that the client has seen. Another key has the
-- waiters' notes, as a hash: for each client, when it last sent its acquire and since when it has
-- been queued, in µs. While there may be a queue, the token in the fence is followed by ` q`, and
-- so is field `n` of the hold. Without that mark no script has to read the queue.
--
-- Scripts that include this have KEYS 1 the lock, 2 its fence, 3 the queue, 4 the waiters' notes.

local ENTRY_PATTERN = '^[^:#%s]*[:#]%d+ %S+ %d+%S* %d+'
local FENCE_MS = '90000000' -- 25 hours
local QUEUE_MS = '60000'    -- the queue expires if no waiter has rechecked for this long
local GONE_US = 60000000    -- an entry expires if its client has not rechecked for this long
-- a waiter that has not rechecked for this long is skipped; waiters recheck every 10 s
local UNREACHABLE_US = 25000000
local POLLS_WITHIN_US = 1000000   -- a waiter without a subscription rechecks more often than this
local FIRST_BATCH, BATCH = 2, 100 -- entries that are read at once
local ROUNDS = 10                 -- how often a script reads a batch
local SWEEP_EVERY = 16            -- after this many arrivals, entries of gone clients are removed

local function split_id(id) -- client, acquire id, key in the queue
    local client, sign, acquire_id = string.match(id, '^([^:# ]*)([:#])(%d+)')
    return client, tonumber(acquire_id), sign == '#' and client .. sign .. acquire_id or client
end

local function queue_key(entry)
    local _, _, key = split_id(entry)
    return key
end

-- Tombstones: ` client:acquire_id until` for one client, or ` *:sent until` for all clients:
-- acquires that were sent at or before `sent` are then too late. A leading 0 in `until` marks a
-- client that sends the time with its acquires. Only such tombstones can be merged.
local TOMBSTONE_PATTERN = '( ([^ ]+[:#]%d+) (%d+))'
local TOMBSTONES_MAX = 32 -- for single clients; more are merged into one

-- Whether a tombstone that is still in force makes an acquire too late. A merged tombstone from the
-- future is ignored, because the server's clock was then set back. Otherwise no client could
-- acquire until the clock reaches that time again.
local function is_too_late(owner_key, up_to, now, key, acquire_id, sent)
    if owner_key == '*' then return sent and sent <= up_to and up_to <= now end
    return owner_key == key and acquire_id <= up_to
end

-- Returns the tombstones of the fence that are still in force; whether one of them makes this
-- acquire too late; and 2 if only a merged one does. The merged one may be about other clients
-- only, and this acquire was just in flight when it was written. So the client sends the acquire
-- again.
local function live_tombstones(fence, now, key, acquire_id, sent)
    local kept, own, merged = {}, false, false
    for tombstone, id, until_us in string.gmatch(fence, TOMBSTONE_PATTERN) do
        if now <= tonumber(until_us) then
            local _, up_to, owner_key = split_id(id)
            kept[#kept + 1] = tombstone
            local late = is_too_late(owner_key, up_to, now, key, acquire_id, sent)
            own, merged = own or (late and owner_key ~= '*'), merged or (late and owner_key == '*')
        end
    end
    return table.concat(kept), own or merged, not own and merged and 2 or nil
end

-- Returns the tombstones with one more, which replaces those of the client up to its acquire id. A
-- merged tombstone needs only the time of the merge: every acquire that it must reject was sent
-- before its release, and so before now.
local function add_tombstone(fence, now, id, until_us)
    local kept, single, last, _, acquire_id, key = {}, {}, 0, split_id(id)
    for tombstone, other, old in string.gmatch(fence, TOMBSTONE_PATTERN) do
        local _, up_to, owner_key = split_id(other)
        local ends = tonumber(old)
        if now <= ends then
            if owner_key == key and up_to <= acquire_id then until_us = math.max(until_us, ends)
            elseif string.sub(old, 1, 1) ~= '0' then kept[#kept + 1] = tombstone
            else single[#single + 1], last = tombstone, math.max(last, ends) end
        end
    end
    if #single >= TOMBSTONES_MAX then single = {' *:' .. digits(now) .. ' 0' .. digits(last)} end
    return table.concat(kept) .. table.concat(single) .. ' ' .. id .. ' 0' .. digits(until_us)
end

-- Marks that there may be a queue, in values that the scripts read anyway.
local function mark_fence_queued(fence)
    fence = fence or call('GET', KEYS[2]) or call('HGET', KEYS[1], 't') or '0'
    local token, rest = string.match(fence, '^(%d+)(.*)$')
    if token and not string.find(rest, '^ q') then
        call('SET', KEYS[2], token .. ' q' .. rest, 'PX', FENCE_MS)
    end
end

local function mark_hold_queued()
    local holder = call('HGET', KEYS[1], 'n')
    if holder and not string.find(holder, ' q$') then call('HSET', KEYS[1], 'n', holder .. ' q') end
end

-- ---- Waiting in the queue

-- Returns the position of a client in the queue, from 0, and its entry. Usually the entry is the
-- expected one, or there is none.
local function find_entry(key, expected)
    if call('HEXISTS', KEYS[4], key) == 0 then return nil end
    local at = expected and call('LPOS', KEYS[3], expected)
    if at then return at, expected end
    for i, entry in ipairs(call('LRANGE', KEYS[3], 0, -1)) do
        if queue_key(entry) == key then return i - 1, entry end
    end
end

local function note_seen(key, now, since)
    call('HSET', KEYS[4], key, digits(now) .. ' ' .. since)
    call('PEXPIRE', KEYS[3], QUEUE_MS)
    call('PEXPIRE', KEYS[4], QUEUE_MS)
end

local function remove_entry(entry)
    call('LREM', KEYS[3], '1', entry)
    call('HDEL', KEYS[4], queue_key(entry))
end

-- Returns the entries of a range, and how many elements the range had. An element that is not an
-- entry is removed, because it would block the queue.
local function read_entries(from, to, rounds)
    local entries, elements = {}, call('LRANGE', KEYS[3], from, to)
    for _, entry in ipairs(elements) do
        if string.find(entry, ENTRY_PATTERN) then entries[#entries + 1] = entry
        else call('LREM', KEYS[3], '1', entry) end
    end
    if #entries == 0 and #elements > 0 and rounds > 0 then -- later elements have moved up
        return read_entries(from, from + BATCH - 1, rounds - 1)
    end
    return entries, #elements
end

-- The notes about some entries.
local function read_notes(entries)
    local keys = {}
    for i, entry in ipairs(entries) do keys[i] = queue_key(entry) end
    return call('HMGET', KEYS[4], unpack(keys))
end

-- When a client last sent its acquire, and since when it has been queued.
local function parse_note(note_text)
    local seen, since = string.match(note_text or '', '^(%d+) (%d+)$')
    return tonumber(seen) or 0, tonumber(since) or 0
end

local function remove_gone(now)
    local entries = read_entries(0, BATCH - 1, 0)
    if #entries == 0 then return end
    local notes = read_notes(entries)
    for i, entry in ipairs(entries) do
        if now - parse_note(notes[i]) > GONE_US then remove_entry(entry) end
    end
end

local function append_entry(entry, now)
    local position = call('RPUSH', KEYS[3], entry)
    note_seen(queue_key(entry), now, digits(now))
    if position % SWEEP_EVERY == 0 then remove_gone(now) end
    return position
end

-- Adds a client to the queue, or keeps its position if it is queued already. Returns the position,
-- from 1.
local function enqueue(entry, now)
    local _, acquire_id, key = split_id(entry)
    local at, old = find_entry(key, entry)
    if not old then return append_entry(entry, now) end
    local _, older = split_id(old)
    -- a late command: a newer acquire of the client is queued
    if older > acquire_id then return 0 end
    if old ~= entry then call('LSET', KEYS[3], at, entry) end
    local _, since = parse_note(call('HGET', KEYS[4], key))
    note_seen(key, now, digits(since))
    return at + 1
end

-- Removes the entry with this key, up to an acquire id. Returns whether there was one.
local function leave_queue(key, acquire_id)
    local at, entry = find_entry(key)
    local _, queued_id = split_id(entry or ':0')
    if not at or queued_id > acquire_id then return false end
    remove_entry(entry)
    return true
end

--@ sharing
--@ notify

-- ---- Handing over

-- Makes a client the holder. Returns its token, and the token and the time as text; nil if the
-- expiry could not be set. `waiting`: others are queued behind it.
local function grant(id, owner, floor, now, lease, waiting, spec, fence)
    fence = fence or call('GET', KEYS[2]) or '0'
    local token = math.max(now, (tonumber(string.match(fence, '^%d+')) or 0) + 1, floor + 1)
    local text, mark = digits(token), waiting and ' q' or ''
    local since = token == now and text or digits(now)
    call('SET', KEYS[2], text .. mark .. live_tombstones(fence, now), 'PX', FENCE_MS)
    local expire_reply
    -- the only reader becomes the writer; its expiry is not shortened
    if spec and is_upgrade(spec) then
        local ends, count, old =
            string.match(call('HGET', KEYS[1], id), '^(%d+) %d+ %S+ (%d+) (%d+) ')
        call('HSET', KEYS[1], owner, count, 'n', id .. mark, 'k', 'g', 't', text, 's', since,
            'o', old .. ' ' .. string.sub(spec, 2))
        call('HDEL', KEYS[1], id, 'u', 'g', 'e')
        expire_reply = redis.pcall('PEXPIRE', KEYS[1],
            math.max(lease, math.ceil((ends - now) / 1000)))
    else
        expire_reply = write_hold(id, owner, spec, lease, now, text, mark, since)
    end
    if expire_reply == 1 then return token, text .. ' ' .. since end
    -- A lock must not exist without an expiry, and this user may not set one. Other holders keep
    -- their holds.
    if not (spec and remove_holder(id)) then call('DEL', KEYS[1]) end
end

-- Which clients of these entries are subscribed. A client that cannot be checked counts as not
-- subscribed.
local function find_listeners(entries)
    local channels, listening = {}, {}
    for i, entry in ipairs(entries) do channels[i] = channel_of((split_id(entry))) end
    local answer = count_subscribers(channels)
    for i = 1, #entries do listening[i] = not answer.err and answer[2 * i] > 0 end
    return listening
end

-- Restores the state from before a hand-over that could not be announced.
local function undo_hand_over(at, entry, note_text)
    if not remove_holder(string.match(entry, '^%S+')) then call('DEL', KEYS[1]) end
    mark_hold_queued()
    mark_fence_queued()
    local after = call('LINDEX', KEYS[3], at)
    if after then call('LINSERT', KEYS[3], 'BEFORE', after, entry)
    else call('RPUSH', KEYS[3], entry) end
    local seen, since = parse_note(note_text)
    note_seen(queue_key(entry), seen, digits(since))
end

-- Hands the lock to the client of an entry. The grant has a short lease until the client renews it.
-- The message is sent last: if that fails, the grant is undone. Returns true if the client has the
-- lock, false if it was undone, nil if no client can be granted the lock.
local function hand_over_to(at, entry, note_text, now, channel, others)
    local id, owner, lease, spec, floor = string.match(entry, '^(%S+) (%S+) (%d+)(%S*) (%d+)')
    lease = tonumber(lease)
    local first = math.min(lease, math.max(math.floor(lease / 3), 2000), 10000)
    local fence = call('GET', KEYS[2]) or '0' -- first: no waiter loses its position on an error
    remove_entry(entry)
    local token, text =
        grant(id, owner, floor, now, first, others, spec ~= '' and spec or nil, fence)
    if not token then return nil end
    if not channel then return true end
    local receivers = publish(channel, string.match(id, '%d+$') .. ' ' .. text .. ' ' .. first)
    if receivers ~= 0 and not (type(receivers) == 'table' and receivers.err) then return true end
    undo_hand_over(at, entry, note_text)
    return false
end

-- Hands the lock to the waiters whose turn it is: to the first reachable one, and to those behind
-- it as long as they can share the lock. `free`: the lock has no holder. `own_key` is the queue key
-- of the client that runs this script. Returns true if that client cannot have the lock now; a
-- mutex (`alone`) cannot share it. A waiter may poll because it is not subscribed. It is skipped
-- for a while and then served: it will see the grant when it polls.
local function serve_queue(now, own_key, free, alone)
    local at, batch, handed_on = 0, FIRST_BATCH, false
    for _ = 1, ROUNDS do
        local entries, found = read_entries(at, at + batch - 1, ROUNDS)
        if #entries == 0 then break end
        local listening, notes = find_listeners(entries), read_notes(entries)
        for i, entry in ipairs(entries) do
            local client, _, key = split_id(entry)
            local id, spec = string.match(entry, '^(%S+) %S+ %d+(%S*)')
            if key == own_key then
                return handed_on and alone or not (free or fits(spec, id, now))
            end
            local seen, since = parse_note(notes[i])
            local polls = not listening[i] and now - seen < POLLS_WITHIN_US
                and now - since > POLLS_WITHIN_US
            local handed, is_reachable =
                false, polls or (listening[i] and now - seen < UNREACHABLE_US)
            local upgrade = is_upgrade(spec)
            local fits_now = not is_reachable or (free and not upgrade) or fits(spec, id, now)
            if not fits_now and not can_never_fit(spec, id) then return true end
            -- only notify it: the upgrade happens when the reader repeats its request
            if upgrade and is_reachable and fits_now then
                if listening[i] then
                    publish(channel_of(client), string.match(id, '%d+$') .. ' ' ..
                        digits(now) .. ' ' .. digits(now) .. ' 1000')
                end
                return true
            end
            if is_reachable and fits_now then
                local channel = listening[i] and channel_of(client)
                handed = hand_over_to(at, entry, notes[i], now, channel, at > 0 or found > 1)
            end
            if handed == nil then return false end
            if handed then
                free, handed_on = false, true
                if not parse_spec(spec) then return true end
            elseif now - seen > GONE_US or (not fits_now and upgrade) then
                remove_entry(entry)
            else
                at = at + 1
            end
        end
        batch = BATCH -- usually the first waiter is subscribed
    end
    return handed_on and alone
end
