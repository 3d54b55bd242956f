-- Says that a node lives, and counts those that do.
--
-- KEYS[1]  the sorted set of nodes by the instant of their last beat
-- ARGV     the node, the microseconds that a beat is good for, 1 to leave
-- Returns  how many live, and 1 when this node was among them before.
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local known = redis.call('ZSCORE', KEYS[1], ARGV[1]) and 1 or 0
if ARGV[3] == '1' then
  redis.call('ZREM', KEYS[1], ARGV[1])
else
  redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[1])
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('(%.0f', now - ARGV[2]))
-- From a clock that stepped back since: they would live until it is there again.
redis.call('ZREMRANGEBYSCORE', KEYS[1], string.format('(%.0f', now + ARGV[2]), '+inf')
redis.call('ZREMRANGEBYRANK', KEYS[1], 0, -10001)
redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.ceil(ARGV[2] / 1000)))
return {redis.call('ZCARD', KEYS[1]), known}
