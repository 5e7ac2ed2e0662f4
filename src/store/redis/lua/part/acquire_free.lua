-- SPDX-License-Identifier: Apache-2.0
-- Grants a lock that is free and has no waiters and no tombstones. Returns the answer of
-- shared_acquire.lua, or nil if the lock is not in that state. Included after holders.lua.
local function acquire_free(id, owner, lease, floor, spec, now, fence)
    if is_upgrade(spec) or not string.find(fence or '0', '^%d+$')
        or call('PTTL', KEYS[1]) ~= -2 then return nil end
    local token = math.max(now, (fence or 0) + 1, floor + 1)
    local text = digits(token)
    call('SET', KEYS[2], text, 'PX', '90000000')
    if write_hold(id, owner, spec, lease, now, text, '', digits(now), true) == 1 then
        return {1, now, token, 0}
    end
    call('DEL', KEYS[1])
    return redis.error_reply('NOPERM this user may not set an end to the lock (pexpire)')
end
