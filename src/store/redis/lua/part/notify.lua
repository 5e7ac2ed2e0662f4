-- SPDX-License-Identifier: Apache-2.0
-- Messages to a client, on a single channel of that client for all names.

local function channel_of(client) return string.match(KEYS[1], '^[^{]*') .. 'c:' .. client end

-- Subscribers of each channel: {channel, count, …}. Counts neither patterns nor replicas.
local function count_subscribers(channels)
    return redis.pcall('PUBSUB', 'NUMSUB', unpack(channels))
end

local function publish(channel, text) return redis.pcall('PUBLISH', channel, text) end
