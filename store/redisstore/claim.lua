-- Takes a key that has no record, or a lapsed one.
--
-- KEYS     the record, the index of its bucket
-- ARGV     fence, over, lease, ttl (microseconds), name, client, method, route,
--          key, fingerprint
-- Returns  {1} when granted, else {0, now, field, value, …} of what stands in the way
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local fence, over, ends = ARGV[1], ARGV[2], now + ARGV[4]
local old = redis.call('HMGET', KEYS[1], 'fence', 'lease', 'ends', 'finished', 'created')
local stamp = string.format('%.0f', now)
local created = stamp
if old[1] then
  if tonumber(old[3]) > now then
    local running = not old[4]
    if running and old[1] == fence then
      return {1} -- asked again
    end
    if not (running and old[1] == over and tonumber(old[2]) <= now) then
      local record = redis.call('HGETALL', KEYS[1])
      return {0, stamp, unpack(record)}
    end
    created = old[5]
  end
  redis.call('DEL', KEYS[1])
end
-- The first writing command of a new claim is one that a full Redis refuses: it
-- refuses none after the first.
redis.call('HSET', KEYS[1], 'fence', fence, 'created', created, 'lease', string.format('%.0f', now + ARGV[3]),
  'ends', string.format('%.0f', ends), 'name', ARGV[5], 'client', ARGV[6], 'method', ARGV[7], 'route', ARGV[8],
  'key', ARGV[9], 'fingerprint', ARGV[10])
redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', math.ceil(ends / 1000)))
redis.call('ZADD', KEYS[2], string.format('%.0f', ends), ARGV[5])
-- The index forgets what is over, a few at a time, and itself after its last.
local ended = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', now), 'LIMIT', 0, 16)
if #ended > 0 then
  redis.call('ZREM', KEYS[2], unpack(ended))
end
if redis.call('PTTL', KEYS[2]) < math.ceil(ARGV[4] / 1000) then
  redis.call('PEXPIREAT', KEYS[2], string.format('%.0f', math.ceil(ends / 1000)))
end
return {1}
