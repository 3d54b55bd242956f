-- Forgets a record; claim.lua says what a record is.
--
-- KEYS     the record, the index of its bucket
-- ARGV     fence, 1 if it is finished, name
-- Returns  1, or 0 when it is something else
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local held = redis.call('HGET', KEYS[1], 'head')
local head = held and cmsgpack.unpack(held)
if not head or head[1] ~= ARGV[1] or tonumber(head[4]) <= now or (head[5] ~= '') ~= (ARGV[2] == '1') then
  return 0
end
redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[2], ARGV[3])
return 1
