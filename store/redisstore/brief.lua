-- Reads records of one bucket without header and body; claim.lua says what a record
-- is.
--
-- KEYS     the records
-- Returns  {now, head, …}, an empty list for a record that is gone
local time = redis.call('TIME')
local out = {string.format('%.0f', time[1] * 1000000 + time[2])}
for i, key in ipairs(KEYS) do
  local held = redis.call('HGET', key, 'head')
  out[i + 1] = held and cmsgpack.unpack(held) or {}
end
return out
