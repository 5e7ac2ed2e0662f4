-- SPDX-License-Identifier: Apache-2.0
-- Finds the locks that may be in use, one step of a walk over all keys at a time.
--
-- ARGV    1 cursor of the walk, 0 at first   2 pattern of the keys
--         3 SHA-1 of the last key that was returned from this step, '' at its beginning
-- Answer  {1, µs, next cursor, SHA-1, keys …}, with the SHA-1 of the last key returned if this step
--         has more, else ''. The walk is over when the cursor is 0 and the SHA-1 is ''
-- Cost    2 commands
--
-- The script only looks at the names of keys: those of locks and those of their queues. One step of
-- SCAN may find more keys than fit into an answer. The step is then repeated for the rest. Keys are
-- sorted by SHA-1, so their order does not change if keys are added or removed in between.

local STEP, NAMED, BYTES = 256, 32, 8192
local time = redis.call('TIME')
local step = redis.call('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', STEP)
local digests, keys = {}, {}
for _, key in ipairs(step[2]) do
    local digest = (string.sub(key, -1) == '}' or string.sub(key, -3) == '}:q')
        and redis.sha1hex(key)
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
