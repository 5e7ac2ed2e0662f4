-- SPDX-License-Identifier: Apache-2.0
-- Messages to a client in a cluster, in place of notify.lua. They use a shard channel in the slot
-- of the name, so they stay within the nodes of that slot. Redis before 7 has no shard channels,
-- and an ACL user may lack the right to use them. Then a plain channel of the same name is used.

local function channel_of(client) return string.match(KEYS[1], '^[^}]*}') .. ':c:' .. client end

local function count_subscribers(channels)
    local answer = redis.pcall('PUBSUB', 'SHARDNUMSUB', unpack(channels))
    if answer.err then answer = redis.pcall('PUBSUB', 'NUMSUB', unpack(channels)) end
    return answer
end

local function publish(channel, text)
    local receivers = redis.pcall('SPUBLISH', channel, text)
    if type(receivers) == 'table' and receivers.err then
        receivers = redis.pcall('PUBLISH', channel, text)
    end
    return receivers
end
