-- Reads a record; claim.lua says what it is.
--
-- KEYS     the record
-- Returns  {now, header, body, head…}; {now} when there is none
local time = redis.call('TIME')
local now = string.format('%.0f', time[1] * 1000000 + time[2])
local all = redis.call('HMGET', KEYS[1], 'head', 'header', 'body')
if not all[1] then
  return {now}
end
return {now, all[2] or '', all[3] or '', unpack(cmsgpack.unpack(all[1]))}
