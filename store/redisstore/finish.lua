-- Records the answer.
--
-- KEYS     the record, the index of its bucket
-- ARGV     fence, ttl (microseconds), name, status, header, body, 1 if the body is
--          omitted, and the fingerprint if it replaces the claim's
-- Returns  1, also when this hold has finished it before; 0 when it is not the hold's
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local old = redis.call('HMGET', KEYS[1], 'fence', 'ends', 'finished')
if old[1] ~= ARGV[1] or tonumber(old[2]) <= now then
  return 0
end
if old[3] then
  return 1
end
local ends = string.format('%.0f', now + ARGV[2])
local millis = string.format('%.0f', math.ceil((now + ARGV[2]) / 1000))
-- First a command that a full Redis does not refuse: the operation has been carried
-- out, and none is refused after the first.
redis.call('PEXPIREAT', KEYS[1], millis)
redis.call('HSET', KEYS[1], 'finished', string.format('%.0f', now), 'ends', ends,
  'status', ARGV[4], 'header', ARGV[5], 'body', ARGV[6], 'omitted', ARGV[7])
if ARGV[8] then
  redis.call('HSET', KEYS[1], 'fingerprint', ARGV[8])
end
redis.call('ZADD', KEYS[2], ends, ARGV[3])
if redis.call('PTTL', KEYS[2]) < math.ceil(ARGV[2] / 1000) then
  redis.call('PEXPIREAT', KEYS[2], millis)
end
return 1
