-- Reads a record.
--
-- KEYS     the record
-- Returns  {now, field, value, …}; {now} when there is none
local time = redis.call('TIME')
local record = redis.call('HGETALL', KEYS[1])
return {string.format('%.0f', time[1] * 1000000 + time[2]), unpack(record)}
