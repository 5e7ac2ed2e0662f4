-- End a hold by force.
--
-- KEYS    1 the lock
-- ARGV    1 the token it must have; 0: any   2 server time after which not to act, µs
-- Answer  {1, µs, token}  broken      {0, µs, token}  held under another token, 0: held by nobody
--         {2, µs}         too late: nothing was done
-- Cost    3 commands

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
if now > tonumber(ARGV[2]) then return {2, now} end
local token = redis.call('HGET', KEYS[1], 't')
if not token or (ARGV[1] ~= '0' and ARGV[1] ~= token) then
    return {0, now, tonumber(token or 0)}
end
redis.call('DEL', KEYS[1])
return {1, now, tonumber(token)}
