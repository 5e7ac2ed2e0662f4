-- Find the locks that may be in use, a step of a walk over all keys at a time.
--
-- ARGV    1 where the walk is, 0 at first   2 what their keys match   3 the SHA-1 of the last key that was named of this
--         step, '' at its beginning
-- Answer  {1, µs, where to go on, the SHA-1 of the last key named if this step has more, else '', keys …}; it is over
--         when that is 0 and ''
-- Cost    2 commands
--
-- It looks at no key, but for its name: a lock's own, and that of its line. One step of SCAN may find more than an
-- answer holds; then it is done again for the rest, in an order that does not depend on what comes and goes meanwhile.

local STEP, NAMED, BYTES = 256, 32, 8192
local time = redis.call('TIME')
local step = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', STEP)
local digests, keys = {}, {}
for _, key in ipairs(step[2]) do
    local digest = (string.sub(key, -1) == '}' or string.sub(key, -3) == '}:q') and redis.sha1hex(key)
    if digest and digest > ARGV[3] then
        digests[#digests + 1], keys[digest] = digest, key
    end
end
table.sort(digests)
local answer, bytes = {1, time[1] * 1000000 + time[2], step[1], ''}, 0
for i, digest in ipairs(digests) do
    bytes = bytes + #keys[digest]
    if i > 1 and (i > NAMED or bytes > BYTES) then
        answer[3], answer[4] = ARGV[1], digests[i - 1]
        break
    end
    answer[#answer + 1] = keys[digest]
end
return answer
