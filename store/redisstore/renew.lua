-- Makes the lease of a running or lapsed record end later; claim.lua says what a
-- record is.
--
-- KEYS     the record, the index of its bucket
-- ARGV     fence, lease (microseconds), name
-- Returns  1, or 0 when the record is not the hold's, or finished
local function whole(n) return string.format('%.0f', n) end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local held = redis.call('HGET', KEYS[1], 'head')
local head = held and cmsgpack.unpack(held)
if not head or head[1] ~= ARGV[1] or head[5] ~= '' or tonumber(head[4]) <= now then
  return 0
end
local lease = now + ARGV[2]
head[3] = whole(lease)
local longer = lease > tonumber(head[4])
if longer then
  head[4] = head[3]
end
redis.call('HSET', KEYS[1], 'head', cmsgpack.pack(head))
if longer then
  local millis = whole(math.ceil(lease / 1000))
  redis.call('PEXPIREAT', KEYS[1], millis)
  redis.call('ZADD', KEYS[2], head[4], ARGV[3])
  if redis.call('PTTL', KEYS[2]) < math.ceil(ARGV[2] / 1000) then
    redis.call('PEXPIREAT', KEYS[2], millis)
  end
end
return 1
