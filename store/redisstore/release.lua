-- Forgets a record.
--
-- KEYS     the record, the index of its bucket
-- ARGV     fence, 1 if it is finished, name
-- Returns  1, or 0 when it is something else
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local old = redis.call('HMGET', KEYS[1], 'fence', 'ends', 'finished')
if old[1] ~= ARGV[1] or tonumber(old[2]) <= now or (old[3] and '1' or '0') ~= ARGV[2] then
  return 0
end
redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[2], ARGV[3])
return 1
