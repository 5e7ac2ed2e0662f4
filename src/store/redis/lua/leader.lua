-- SPDX-License-Identifier: Apache-2.0
-- Reads who leads and the published value, and registers the client as a watcher.
--
-- KEYS    1 the lock   2 the watchers of its leader
-- ARGV    1 client   2 request id for the notification; both only if the client watches
-- Answer  {1, µs, notified, ms, client:acquire_id, token, sequence, value}
--                  the holder of the lock, for ms more, and its value; notified 1: the watcher will
--                  get a message if the leader or its value changes
--         {0, µs, notified, ms}
--                  no leader: the holder has published nothing, and its hold ends in ms; or the
--                  lock is free, and ms is -2
-- Cost    3 commands, 6 to register
--
-- Holder and value are read together. The value counts only if the holder still has the token under
-- which the value was published.

local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

--@ watchers
local hold = call('HMGET', KEYS[1], 'n', 't', 'v')
local ms = call('PTTL', KEYS[1])
local will_notify = ARGV[1] and add_watcher(ARGV[1], ARGV[2], now) or 0
local token, sequence, from = string.match(hold[3] or '', '^(%d+) (%d+) ()')
if not token or token ~= hold[2] then return {0, now, will_notify, ms} end
return {1, now, will_notify, ms, hold[1], tonumber(token), tonumber(sequence),
        string.sub(hold[3], from)}
