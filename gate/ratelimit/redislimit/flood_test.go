//go:build integration

package redislimit

import (
	"context"
	"encoding/binary"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/comporta/comporta/gate/ratelimit"
)

// cases/ratelimit.md 30, against a real Redis: millions of invented keys, each used
// once by somebody who is not believed. Memory here stays as it is, Redis holds a
// few thousand of them at most, and who was denied stays denied.
// COMPORTA_TEST_FLOOD sets their number; ten million take less than a minute.
func TestCase_RateLimit_30_FloodThroughRedis(t *testing.T) {
	o := where(t, "COMPORTA_TEST_REDIS_URL")
	flood := envInt("COMPORTA_TEST_FLOOD", 1_000_000)
	client := redis.NewUniversalClient(&o)
	t.Cleanup(func() { _ = client.Close() }) // the test is over
	s := open(t, Config{Redis: o})
	p := policyOf(t, []*Store{s}, ratelimit.Policy{Name: "p", Limit: ratelimit.Limit{Rate: ratelimit.Rate{Count: 10, Per: time.Hour}}})
	for {
		ok, _, err := s.take(p, "denied", 1)
		if err != nil {
			t.Fatal(err)
		}
		if !ok {
			break
		}
	}
	if ok, _, err := s.take(p, "half", 5); !ok || err != nil {
		t.Fatal(ok, err)
	}
	keysBefore, err := client.DBSize(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	collect(&before)
	began := time.Now()
	const callers = 4
	var next, passed atomic.Int64
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			key := make([]byte, 16)
			debits, results := []ratelimit.Debit{{Policy: p, Key: key, Cost: 1}}, make([]ratelimit.Result, 1)
			for i := next.Add(1); i <= int64(flood); i = next.Add(1) {
				binary.BigEndian.PutUint64(key, uint64(i))
				ok, err := s.Take(context.Background(), time.Now(), debits, results)
				if err != nil {
					t.Error(err)
					return
				}
				if ok {
					passed.Add(1)
				}
				if i%100_000 == 0 {
					if ok, _, err := s.take(p, "denied", 1); ok || err != nil {
						t.Errorf("after %d invented keys the denied one is let in: %t, %v", i, ok, err)
					}
				}
			}
		})
	}
	all.Wait()
	took := time.Since(began)
	collect(&after)
	keysAfter, err := client.DBSize(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	grown, told := int64(after.HeapAlloc)-int64(before.HeapAlloc), keysAfter-keysBefore
	t.Logf("%d invented keys in %v: %d passed, the heap grew by %d KiB, Redis by %d keys", flood, took.Round(time.Millisecond), passed.Load(), grown>>10, told)
	if grown > 4<<20 {
		t.Errorf("the heap grew by %d bytes", grown)
	}
	// The period in which it begins, and the first that it fills; a few more where
	// one period ends and the next begins.
	if told > 5*maxStrangers/2 {
		t.Errorf("Redis holds %d of them", told)
	}
	if ok, r, err := s.take(p, "half", 0); !ok || err != nil || r.Remaining != 5 {
		t.Errorf("who had 5 left has %+v, %v", r, err)
	}
}
