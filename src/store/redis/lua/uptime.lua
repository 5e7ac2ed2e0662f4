-- SPDX-License-Identifier: Apache-2.0
-- Reports how long this server has been up.
--
-- Answer  seconds, by the server's own count; -1: this user may not run INFO, or it has no uptime
-- Cost    1 command

local info = redis.pcall('INFO', 'server')
local seconds = type(info) == 'string' and string.match(info, 'uptime_in_seconds:(%d+)')
return seconds and tonumber(seconds) or -1
