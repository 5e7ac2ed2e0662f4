-- Say who leads, and note who watches.
--
-- KEYS    1 the lock   2 who watches its leader
-- ARGV    1 client   2 number that it is told by; both there only of one that watches
-- Answer  {1, µs, told, ms, client:number, token, nth, value}   who holds the lock, for ms more, and what it says; told
--                                                               1: the watcher will be told of another leader or value
--         {0, µs, told, ms}    nobody leads; ms until the hold of one who has said nothing ends, -2: nobody holds it
-- Cost    3 commands, 6 to be noted
--
-- Read together, and the value only with the token that it was said under.

local call = redis.call
local time = call('TIME')
local now = time[1] * 1000000 + time[2]

--@ watchers
local hold = call('HMGET', KEYS[1], 'n', 't', 'v')
local ms = call('PTTL', KEYS[1])
local will_notify = ARGV[1] and add_watcher(ARGV[1], ARGV[2], now) or 0
local token, sequence, from = string.match(hold[3] or '', '^(%d+) (%d+) ()')
if not token or token ~= hold[2] then return {0, now, will_notify, ms} end
return {1, now, will_notify, ms, hold[1], tonumber(token), tonumber(sequence), string.sub(hold[3], from)}
