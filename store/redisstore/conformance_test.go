//go:build integration

package redisstore

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/comporta/comporta/store"
	"github.com/comporta/comporta/store/storetest"
)

// later moves everything under a store's prefix into the past: to the store it is
// as if the server's clock had moved on.
func later(tb testing.TB, s *Store, d time.Duration) {
	tb.Helper()
	ctx := context.Background()
	check := func(err error) {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
	}
	for bucket := range buckets {
		names, err := s.client.ZRange(ctx, s.index(bucket), 0, -1).Result()
		check(err)
		for _, m := range names {
			record := s.keys(store.Name([]byte(m)))[0]
			for _, field := range []string{"created", "lease", "ends", "finished"} {
				if there, err := s.client.HExists(ctx, record, field).Result(); err == nil && there {
					check(s.client.HIncrBy(ctx, record, field, -d.Microseconds()).Err())
				}
			}
			check(s.client.ZIncrBy(ctx, s.index(bucket), -float64(d.Microseconds()), m).Err())
			left, err := s.client.PTTL(ctx, record).Result()
			check(err)
			if left > 0 {
				check(s.client.PExpire(ctx, record, left-d).Err())
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
