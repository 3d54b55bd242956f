-- Makes the lease of a running or lapsed record end later.
--
-- KEYS     the record, the index of its bucket
-- ARGV     fence, lease (microseconds), name
-- Returns  1, or 0 when the record is not the hold's, or finished
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local old = redis.call('HMGET', KEYS[1], 'fence', 'ends', 'finished')
if old[1] ~= ARGV[1] or old[3] or tonumber(old[2]) <= now then
  return 0
end
local lease = now + ARGV[2]
redis.call('HSET', KEYS[1], 'lease', string.format('%.0f', lease))
if lease > tonumber(old[2]) then
  local ends, millis = string.format('%.0f', lease), string.format('%.0f', math.ceil(lease / 1000))
  redis.call('HSET', KEYS[1], 'ends', ends)
  redis.call('PEXPIREAT', KEYS[1], millis)
  redis.call('ZADD', KEYS[2], ends, ARGV[3])
  if redis.call('PTTL', KEYS[2]) < math.ceil(ARGV[2] / 1000) then
    redis.call('PEXPIREAT', KEYS[2], millis)
  end
end
return 1
