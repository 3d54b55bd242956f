//go:build integration

package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/comporta/comporta/store"
	"github.com/comporta/comporta/store/storetest"
)

// shift moves a record, and what its index says of it, into the past.
var shift = redis.NewScript(`
local held = redis.call('HGET', KEYS[1], 'head')
if held then
  local head = cmsgpack.unpack(held)
  for i = 2, 5 do
    head[i] = head[i] ~= '' and string.format('%.0f', head[i] - ARGV[1]) or ''
  end
  redis.call('HSET', KEYS[1], 'head', cmsgpack.pack(head))
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', redis.call('PTTL', KEYS[1]) - ARGV[1] / 1000))
end
redis.call('ZINCRBY', KEYS[2], -ARGV[1], ARGV[2])
return 1`)

// later moves everything under a store's prefix into the past: to the store it is
// as if the server's clock had moved on.
func later(tb testing.TB, s *Store, d time.Duration) {
	tb.Helper()
	ctx := context.Background()
	for bucket := range buckets {
		names, err := s.client.ZRange(ctx, s.index(bucket), 0, -1).Result()
		if err != nil {
			tb.Fatal(err)
		}
		for _, m := range names {
			if err := shift.Run(ctx, s.client, s.keys(store.Name([]byte(m))), d.Microseconds(), m).Err(); err != nil {
				tb.Fatal(err)
			}
		}
	}
}

func TestKeys(t *testing.T) {
	for name, service := range map[string]string{
		"Single": "COMPORTA_TEST_REDIS_URL", "Cluster": "COMPORTA_TEST_REDIS_CLUSTER", "Sentinel": "COMPORTA_TEST_REDIS_SENTINEL",
	} {
		t.Run(name, func(t *testing.T) {
			o := where(t, service)
			defer goleak.VerifyNone(t)
			var current *Store
			features := storetest.Features{OwnClock: true, Unordered: true, SelfSweeping: true, Advance: func(d time.Duration) { later(t, current, d) }}
			storetest.Keys(t, features, func(testing.TB) storetest.Engine {
				under := prefix()
				return storetest.Engine{Shared: true, Open: func(t testing.TB) store.Keys {
					s, err := Open(t.Context(), Config{Redis: o, Prefix: under, Timeout: maxTimeout})
					if err != nil {
						t.Fatal(err)
					}
					current = s
					return s
				}}
			})
		})
	}
}
