-- What wrk asks: no two requests are alike, and a thousand callers take turns.
-- Arguments: the method, and the number of the first request.

local before, callers, tails, n = "", 1000, {}, 0

function init(args)
  n = tonumber(args[2])
  local rest = "Accept: application/json\r\nUser-Agent: shop/2.4.1\r\n"
  if args[1] == "POST" then
    -- The number stands in the body, so that only a digest tells the requests apart.
    before = "POST /v1/orders HTTP/1.1\r\nHost: api.example\r\n" .. rest ..
      "Content-Type: application/json\r\nContent-Length: 10240\r\n"
    local filler = string.rep("x", 10240 - #'{"order":"0000000000","note":""}')
    for i = 0, callers - 1 do
      local key = string.format("X-Api-Key: caller-%04d\r\n\r\n", i)
      tails[i] = { key .. '{"order":"', '","note":"' .. filler .. '"}' }
    end
  else
    before = args[1] .. " /v1/orders/"
    for i = 0, callers - 1 do
      local key = string.format("X-Api-Key: caller-%04d\r\n\r\n", i)
      tails[i] = { "", " HTTP/1.1\r\nHost: api.example\r\n" .. rest .. key }
    end
  end
end

function request()
  n = n + 1
  local t = tails[n % callers]
  return before .. t[1] .. string.format("%010d", n) .. t[2]
end

function done(summary, latency, _)
  local e = summary.errors
  io.write(string.format(
    '{"requests":%d,"seconds":%f,"p50_us":%f,"p99_us":%f,"refused":%d,"broken":%d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50), latency:percentile(99),
    e.status, e.connect + e.read + e.write + e.timeout))
end
