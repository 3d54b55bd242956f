-- Decides for everything that one node has queued for one slot.
--
-- KEYS     the keys of the buckets, each once, then those of refund ids
-- ARGV[1]  a JSON array of whole numbers:
--            shares   a lease is at most this part of what is left in a bucket
--            learning 1: Redis may have forgotten; a key that is not there has
--                     half of its bucket
--            n        how many of KEYS are buckets
--            n times  interval, scale, burst
--            then     1, m, and m times key, cost, flags, want     take, all or none
--                     2, key, units, id                            charge, or refund when negative
-- Returns  for each take and each settlement three numbers: 1 if it was
--          affordable (a refund: if it counted), units leased (a settlement: units
--          charged that the bucket did not have), debt in ticks.
local p = cjson.decode(ARGV[1])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local shares, learning, n = p[1], p[2], p[3]
local at = 4
local floor = math.floor

local interval, scale, burst, window, debt, changed = {}, {}, {}, {}, {}, {}
local held = redis.call('MGET', unpack(KEYS, 1, n))
for i = 1, n do
  interval[i], scale[i], burst[i] = p[at], p[at + 1], p[at + 2]
  at = at + 3
  window[i] = burst[i] * interval[i]
  local d = 0
  local whole, part, was, of = string.match(held[i] or '', '^(%d+):(%d+):(%d+):(%d+)$')
  if whole then
    d = (whole - now) * of + part
    if d < 0 then
      d = 0
    elseif tonumber(was) ~= interval[i] or tonumber(of) ~= scale[i] then
      -- Another limit wrote it: the units stay, the time that they take changes.
      d = math.ceil(d / was * interval[i])
    elseif d > 2 * window[i] + 10000000 * scale[i] then
      -- The server's clock stepped back: the key waits like one that spent all.
      d = window[i]
      changed[i] = true
    end
  elseif learning == 1 then
    d = floor(burst[i] / 2) * interval[i]
  end
  debt[i] = d
end

-- A key that somebody left without an end would deny for as long as its value says.
local function mend(i)
  if held[i] and redis.call('PTTL', KEYS[i]) == -1 then
    changed[i] = true
  end
end

local function charge(i, units)
  local d, w = debt[i], window[i]
  local after = math.min(d + math.min(units, 2 * burst[i]) * interval[i], math.max(d, 2 * w))
  debt[i] = after
  changed[i] = true
  return math.max(after - math.max(d, w), 0)
end

local out = {}
local function say(a, b, c)
  out[#out + 1] = string.format('%.0f %.0f %.0f', a, b, c)
end

local function take(m)
  local granted = true
  for j = 0, m - 1 do
    local q = at + 4 * j
    local i = p[q]
    if debt[i] + p[q + 1] * interval[i] > window[i] and p[q + 1] > 0 and p[q + 2] % 2 == 0 then
      granted = false
    end
  end
  for j = 0, m - 1 do
    local q = at + 4 * j
    local i, cost, flags, lease = p[q], p[q + 1], p[q + 2], 0
    local after = debt[i] + cost * interval[i]
    local ok = cost == 0 or after <= window[i]
    if granted and ok and cost > 0 then
      lease = math.min(p[q + 3], floor((window[i] - after) / interval[i] / shares))
      debt[i] = after + lease * interval[i]
      changed[i] = true
    elseif not ok and flags >= 2 then
      charge(i, cost)
    elseif not ok then
      mend(i)
    end
    say(ok and 1 or 0, lease, debt[i])
  end
  at = at + 4 * m
end

local function settle(i, units, id)
  at = at + 3
  if units >= 0 then
    return say(1, floor(charge(i, units) / interval[i]), debt[i])
  end
  if id > 0 and not redis.call('SET', KEYS[id], '1', 'NX', 'PX', '600000') then
    return say(0, 0, debt[i])
  end
  debt[i] = math.max(debt[i] + math.max(units, -2 * burst[i]) * interval[i], 0)
  changed[i] = true
  say(1, 0, debt[i])
end

while p[at] do
  local kind = p[at]
  at = at + 1
  if kind == 1 then
    at = at + 1
    take(p[at - 1])
  else
    settle(p[at], p[at + 1], p[at + 2])
  end
end

for i in pairs(changed) do
  local d, s = debt[i], scale[i]
  if d <= 0 then
    redis.call('DEL', KEYS[i])
  else
    -- It ends when the bucket is full: absence says the same.
    redis.call('SET', KEYS[i],
      string.format('%.0f:%.0f:%.0f:%.0f', now + floor(d / s), d % s, interval[i], s),
      'PX', string.format('%.0f', floor(d / s / 1000) + 1))
  end
end
return table.concat(out, ' ')
