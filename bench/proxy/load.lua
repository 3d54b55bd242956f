-- What wrk asks: no two requests are alike, but for repeats, and a thousand callers
-- take turns. Arguments: what is asked, and the number of the first request.

local before, callers, tails, n, repeats = "", 1000, {}, 0, false

local json = "Host: api.example\r\nAccept: application/json\r\nUser-Agent: shop/2.4.1\r\n"

-- Posts have their number in the body, so that only a digest tells them apart.
-- key stands before what names the operation; nil: nothing does.
local function posts(size, key)
  before = "POST /v1/orders HTTP/1.1\r\n" .. json .. "Content-Type: application/json\r\nContent-Length: " .. size .. "\r\n"
  local filler = string.rep("x", size - #'{"order":"0000000000","note":""}')
  for i = 0, callers - 1 do
    local caller = string.format("X-Api-Key: caller-%04d\r\n\r\n", i) .. '{"order":"'
    tails[i] = { key or caller, (key and "\r\n" .. caller), '","note":"' .. filler .. '"}' }
  end
end

local asked = {
  GET = function()
    before = "GET /v1/orders/"
    for i = 0, callers - 1 do
      tails[i] = { "", nil, " HTTP/1.1\r\n" .. json .. string.format("X-Api-Key: caller-%04d\r\n\r\n", i) }
    end
  end,
  POST = function() posts(10240) end,
  ORDER = function() posts(1024) end,
  KEY = function() posts(1024, "Idempotency-Key: order-") end,
  REPEAT = function() posts(1024, "Idempotency-Key: order-"); repeats = true end,
}

function init(args)
  n = tonumber(args[2])
  asked[args[1]]()
end

function request()
  n = n + 1
  local caller = n % callers
  local t, number = tails[caller], string.format("%010d", repeats and caller or n)
  return before .. t[1] .. number .. (t[2] and t[2] .. number or "") .. t[3]
end

function done(summary, latency, _)
  local e = summary.errors
  io.write(string.format(
    '{"requests":%d,"seconds":%f,"p50_us":%f,"p99_us":%f,"refused":%d,"broken":%d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50), latency:percentile(99),
    e.status, e.connect + e.read + e.write + e.timeout))
end
