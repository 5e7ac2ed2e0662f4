-- How a client is told something: on a channel of its own, the same for all names.

local function channel_of(client) return string.match(KEYS[1], '^[^{]*') .. 'c:' .. client end

-- How many listen to each: {channel, count, …}. Counts neither patterns nor replicas.
local function count_subscribers(channels) return redis.pcall('PUBSUB', 'NUMSUB', unpack(channels)) end

local function publish(channel, text) return redis.pcall('PUBLISH', channel, text) end
