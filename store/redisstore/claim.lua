-- Takes a key that has no record, or a lapsed one.
--
-- A record is a hash: `head`, and of a finished one `header` and `body`. The head is
-- a packed list of strings, which takes a third of the memory of as many fields:
--   fence, created, lease, ends, finished (or empty), client, method, route, key,
--   fingerprint, status, 1 if the body is omitted, size of the body
-- Instants are microseconds since 1970; lease and ends are when the two are over.
--
-- KEYS     the record, the index of its bucket
-- ARGV     fence, over, lease, ttl (microseconds), name, client, method, route,
--          key, fingerprint
-- Returns  {1} when granted, else {0, now, header, body, head…} of what stands in the
--          way
local function whole(n) return string.format('%.0f', n) end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local fence, over, ends = ARGV[1], ARGV[2], now + ARGV[4]
local created = whole(now)
local held = redis.call('HGET', KEYS[1], 'head')
if held then
  local old = cmsgpack.unpack(held)
  if tonumber(old[4]) > now then
    local running = old[5] == ''
    if running and old[1] == fence then
      return {1} -- asked again
    end
    if not (running and old[1] == over and tonumber(old[3]) <= now) then
      local answer = redis.call('HMGET', KEYS[1], 'header', 'body')
      return {0, whole(now), answer[1] or '', answer[2] or '', unpack(old)}
    end
    created = old[2]
  end
  redis.call('DEL', KEYS[1])
end
-- The first writing command of a new claim is one that a full Redis refuses: it
-- refuses none after the first.
redis.call('HSET', KEYS[1], 'head', cmsgpack.pack({fence, created, whole(now + ARGV[3]), whole(ends), '',
  ARGV[6], ARGV[7], ARGV[8], ARGV[9], ARGV[10], '0', '0', '0'}))
local millis = whole(math.ceil(ends / 1000))
redis.call('PEXPIREAT', KEYS[1], millis)
redis.call('ZADD', KEYS[2], whole(ends), ARGV[5])
-- The index forgets what is over, a few at a time, and itself after its last.
local ended = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', whole(now), 'LIMIT', 0, 16)
if #ended > 0 then
  redis.call('ZREM', KEYS[2], unpack(ended))
end
if redis.call('PTTL', KEYS[2]) < math.ceil(ARGV[4] / 1000) then
  redis.call('PEXPIREAT', KEYS[2], millis)
end
return {1}
