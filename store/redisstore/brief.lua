-- Reads records of one bucket without header and body.
--
-- KEYS     the records
-- ARGV     the names of the fields to read
-- Returns  {now, {size of the body, value, …}, …}, each record's values in the order
--          of the fields
local time = redis.call('TIME')
local out = {string.format('%.0f', time[1] * 1000000 + time[2])}
for i, key in ipairs(KEYS) do
  local values = redis.call('HMGET', key, unpack(ARGV))
  table.insert(values, 1, redis.call('HSTRLEN', key, 'body'))
  out[i + 1] = values
end
return out
