-- Records the answer; claim.lua says what a record is.
--
-- KEYS     the record, the index of its bucket
-- ARGV     fence, ttl (microseconds), name, status, header, body, 1 if the body is
--          omitted, and the fingerprint if it replaces the claim's
-- Returns  1, also when this hold has finished it before; 0 when it is not the hold's
local function whole(n) return string.format('%.0f', n) end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local held = redis.call('HGET', KEYS[1], 'head')
local head = held and cmsgpack.unpack(held)
if not head or head[1] ~= ARGV[1] or tonumber(head[4]) <= now then
  return 0
end
if head[5] ~= '' then
  return 1
end
head[4], head[5] = whole(now + ARGV[2]), whole(now)
head[10] = ARGV[8] or head[10]
head[11], head[12], head[13] = ARGV[4], ARGV[7], tostring(#ARGV[6])
local millis = whole(math.ceil((now + ARGV[2]) / 1000))
-- First a command that a full Redis does not refuse: the operation has been carried
-- out, and none is refused after the first.
redis.call('PEXPIREAT', KEYS[1], millis)
redis.call('HSET', KEYS[1], 'head', cmsgpack.pack(head), 'header', ARGV[5], 'body', ARGV[6])
redis.call('ZADD', KEYS[2], head[4], ARGV[3])
if redis.call('PTTL', KEYS[2]) < math.ceil(ARGV[2] / 1000) then
  redis.call('PEXPIREAT', KEYS[2], millis)
end
return 1
